"""Train a classifier: cross-entropy on arrays that fit into memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.plan import Plan
from truerisk.training.augment import Augment
from truerisk.training.checkpoint import Checkpoint
from truerisk.training.device import device
from truerisk.training.loop import History, run


def fit(
    module: nn.Module,
    data: Data,
    plan: Plan,
    *,
    label: str = "training",
    checkpoint: Checkpoint | None = None,
    after_epoch: Callable[[int], bool] | None = None,
) -> History:
    """Train ``module`` in place on ``data`` and leave it in eval mode. ``after_epoch``: see ``run``."""
    X, y = torch.from_numpy(data.X), torch.from_numpy(data.y)
    augment = Augment(plan.augment, len(data), plan.seed)
    place = device()
    module.to(place).train()

    def loss(batch: Tensor) -> Tensor:
        logits = module(augment(X[batch], batch).to(place))
        return F.cross_entropy(logits, y[batch].to(place), label_smoothing=plan.label_smoothing)

    groups = [{"params": [p for p in module.parameters() if p.requires_grad]}]
    history = run(
        module, groups, loss, len(data), plan, label=label, checkpoint=checkpoint, before_epoch=augment.start_epoch,
        after_epoch=after_epoch,
    )  # fmt: skip
    module.cpu().eval()
    return history
