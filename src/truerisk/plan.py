"""Plans: how to train and how to draw, as plain records that are fixed before either is done.

They import nothing that computes, so that a certificate can be read where torch is not installed.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal

from truerisk.errors import TrueriskError

SCHEDULES = ("constant", "cosine", "step", "triangle")
TRIANGLE = (0.2, 0.2)  # the factor at the start, and the share of all steps after which it is 1


@dataclass(frozen=True)
class Plan:
    """Optimizer, schedule, length and stopping rule of one training run.

    ``target_loss`` stops after the first epoch whose mean training loss is at most that. ``label_smoothing`` and
    ``augment`` (as ``augmentations`` reads it: "shift:2,flip") are for classifiers that ``fit`` trains, ``nesterov``
    for sgd.
    """

    epochs: int = 20
    batch_size: int = 250
    optimizer: Literal["adam", "sgd"] = "adam"
    lr: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine", "step", "triangle"] = "cosine"
    step_every: int = 10
    step_factor: float = 0.1
    target_loss: float | None = None
    seed: int = 0
    nesterov: bool = False
    label_smoothing: float = 0.0
    augment: str = ""

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 1), ("step_every", 1)):
            if getattr(self, name) < least:
                raise TrueriskError(f"{name} is {getattr(self, name)}, but must be at least {least}.")
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise TrueriskError(f"the learning rate is {self.lr}, but must be a positive number.")
        if self.optimizer not in ("adam", "sgd"):
            raise TrueriskError(f"the optimizer is {self.optimizer!r}, but must be adam or sgd.")
        if self.schedule not in SCHEDULES:
            raise TrueriskError(f"the schedule is {self.schedule!r}, but must be one of {', '.join(SCHEDULES)}.")
        if self.nesterov and (self.optimizer != "sgd" or not self.momentum > 0):
            raise TrueriskError("nesterov is a kind of momentum; use it with the optimizer sgd and a momentum above 0.")
        if not 0 <= self.label_smoothing < 1:
            raise TrueriskError(f"the label smoothing is {self.label_smoothing}, but must be from 0 up to below 1.")
        augmentations(self.augment)  # refuses what it can't read

    def rate(self, progress: float) -> float:
        """The factor on the learning rate after a fraction ``progress`` of all steps.

        >>> [round(Plan(schedule="cosine").rate(p), 2) for p in (0, 0.5, 1)]
        [1.0, 0.5, 0.0]
        >>> [round(Plan(schedule="step", epochs=20).rate(p), 2) for p in (0, 0.5, 0.99)]
        [1.0, 0.1, 0.1]
        >>> [round(Plan(schedule="triangle").rate(p), 2) for p in (0, 0.1, 0.2, 0.6, 1)]
        [0.2, 0.6, 1.0, 0.5, 0.0]
        """
        if self.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * progress))
        if self.schedule == "step":
            return self.step_factor ** int(progress * self.epochs / self.step_every + 1e-9)
        if self.schedule == "triangle":
            first, top = TRIANGLE
            return first + (1 - first) * progress / top if progress < top else (1 - progress) / (1 - top)
        return 1.0

    def record(self) -> dict[str, object]:
        """The plan as plain values, for certificates and checkpoints."""
        return asdict(self)


@dataclass(frozen=True)
class DrawPlan:
    """How networks are drawn; part of the certificate, fixed before the first draw."""

    n: int
    groups: int
    size: int  # examples that share one drawn network; 1 is best
    passes: int
    chunk: int  # rows computed at once: it says which drawn number goes where
    precision: str
    layered: bool  # drawn layer by layer (StochasticNetwork) or as whole networks

    def record(self) -> dict[str, object]:
        return asdict(self)


def augmentations(text: str) -> list[tuple[str, float]]:
    """The steps that a text asks for, each with its amount.

    >>> augmentations("rotate:10,flip")
    [('rotate', 10.0), ('flip', 0.0)]
    """
    return [_augmentation(text, part) for part in text.split(",") if text]


def _augmentation(text: str, part: str) -> tuple[str, float]:
    kind, colon, amount = part.partition(":")
    if kind == "flip" and not colon:
        return kind, 0.0
    if kind in ("shift", "rotate") and amount.isdecimal() and len(amount) < 10 and int(amount) > 0:
        return kind, float(amount)
    raise TrueriskError(
        f"the augmentation {text[:60]!r} is not readable; join by commas any of rotate:DEGREES, shift:PIXELS and flip, "
        "with whole numbers."
    )
