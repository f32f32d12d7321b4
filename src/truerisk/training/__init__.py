"""Training: one loop, a plan, checkpoints; optimizers that need per-example gradients."""

from truerisk.plan import Plan
from truerisk.training.checkpoint import Checkpoint
from truerisk.training.fit import fit
from truerisk.training.learn import Curve, learn
from truerisk.training.loop import History, run
from truerisk.training.recipes import recipe
from truerisk.training.winsorized import MedianOfMeansSGD, WinsorizedSGD

__all__ = [
    "Checkpoint", "Curve", "History", "MedianOfMeansSGD", "Plan", "WinsorizedSGD", "fit", "learn", "recipe", "run",
]  # fmt: skip
