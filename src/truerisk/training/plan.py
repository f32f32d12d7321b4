"""How to train: a plain record, so that the same plan and seed give the same network."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal

from truerisk.errors import TrueriskError


@dataclass(frozen=True)
class Plan:
    """Optimizer, schedule, length and stopping rule of one training run.

    ``target_loss`` stops after the first epoch whose mean training loss is at most that.
    """

    epochs: int = 20
    batch_size: int = 250
    optimizer: Literal["adam", "sgd"] = "adam"
    lr: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine", "step"] = "cosine"
    step_every: int = 10
    step_factor: float = 0.1
    target_loss: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 1), ("step_every", 1)):
            if getattr(self, name) < least:
                raise TrueriskError(f"{name} is {getattr(self, name)}, but must be at least {least}.")
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise TrueriskError(f"the learning rate is {self.lr}, but must be a positive number.")
        if self.optimizer not in ("adam", "sgd"):
            raise TrueriskError(f"the optimizer is {self.optimizer!r}, but must be adam or sgd.")
        if self.schedule not in ("constant", "cosine", "step"):
            raise TrueriskError(f"the schedule is {self.schedule!r}, but must be constant, cosine or step.")

    def rate(self, progress: float) -> float:
        """The factor on the learning rate after a fraction ``progress`` of all steps.

        >>> [round(Plan(schedule="cosine").rate(p), 2) for p in (0, 0.5, 1)]
        [1.0, 0.5, 0.0]
        >>> [round(Plan(schedule="step", epochs=20).rate(p), 2) for p in (0, 0.5, 0.99)]
        [1.0, 0.1, 0.1]
        """
        if self.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * progress))
        if self.schedule == "step":
            return self.step_factor ** int(progress * self.epochs / self.step_every + 1e-9)
        return 1.0

    def record(self) -> dict[str, object]:
        """The plan as plain values, for certificates and checkpoints."""
        return asdict(self)
