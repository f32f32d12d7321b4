"""Training: one loop, a plan, checkpoints."""

from truerisk.plan import Plan
from truerisk.training.checkpoint import Checkpoint
from truerisk.training.fit import fit
from truerisk.training.learn import Curve, learn
from truerisk.training.loop import History, run
from truerisk.training.recipes import recipe

__all__ = ["Checkpoint", "Curve", "History", "Plan", "fit", "learn", "recipe", "run"]
