"""Checkpoints that survive a kill at any moment: written beside, then renamed into place."""

from __future__ import annotations

import copy
import io
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from truerisk.atomic import write_atomically

SAVE_EVERY = 5.0  # seconds; short runs never write


class Checkpoint:
    """One training run's file. ``key`` says which run it belongs to; another run's file is ignored."""

    def __init__(self, path: str | Path, key: dict[str, Any]) -> None:
        self.path = Path(path)
        self.key = json.dumps(key, sort_keys=True, default=str)
        self._last = time.monotonic()

    def load(self, holder: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, list[float]]:
        """Restore what was saved; return the next epoch and the losses so far, or (0, [])."""
        start = copy.deepcopy((holder.state_dict(), optimizer.state_dict()))
        try:
            saved = torch.load(self.path, map_location="cpu", weights_only=True)
            if saved["key"] != self.key:
                return 0, []
            epoch, losses = int(saved["epoch"]), [float(v) for v in saved["losses"]]
            holder.load_state_dict(saved["holder"])
            optimizer.load_state_dict(saved["optimizer"])
        except Exception:  # nothing there, or damaged: start from the beginning
            holder.load_state_dict(start[0])
            optimizer.load_state_dict(start[1])
            return 0, []
        return epoch, losses

    def save(
        self,
        holder: nn.Module,
        optimizer: torch.optim.Optimizer,
        epoch: int,
        losses: list[float],
        *,
        force: bool,
    ) -> None:
        """Write the state after ``epoch`` epochs, unless the last write was under five seconds ago."""
        if not force and time.monotonic() - self._last < SAVE_EVERY:
            return
        content = {
            "key": self.key,
            "epoch": epoch,
            "losses": losses,
            "holder": holder.state_dict(),
            "optimizer": optimizer.state_dict(),
        }
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_atomically(self.path, buffer.getvalue())
        self._last = time.monotonic()
