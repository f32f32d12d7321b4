"""Training: one loop, a plan, checkpoints."""

from truerisk.training.checkpoint import Checkpoint
from truerisk.training.fit import fit
from truerisk.training.loop import History, run
from truerisk.training.plan import Plan

__all__ = ["Checkpoint", "History", "Plan", "fit", "run"]
