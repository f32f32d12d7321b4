"""Train networks to one common loss, and note on the way what the optimization measures read.

Networks that stop at the same training loss can be compared: a measure cannot tell them apart by how long each was
trained (Jiang et al. 2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.measures.families.optimization import STEPS_BETWEEN, STEPS_TO, VARIANCE
from truerisk.measures.gradients import gradients
from truerisk.training import Plan, run
from truerisk.training.loop import DivergedError

LEVELS = (0.1, 0.01)  # cross-entropies whose first steps are noted; the last one ends the training
BUDGET = 2**26  # bytes for per-example gradients


@dataclass(frozen=True)
class Story:
    """How a training went. ``loss``: the last one, None if it diverged. ``record``: as for ``measure``."""

    fitted: bool  # the loss reached the last level
    diverged: bool
    loss: float | None
    record: dict[str, Any]


def train_to_loss(network: nn.Module, train: Data, plan: Plan) -> Story:
    """Train until the mean cross-entropy over all examples is at most the last of ``LEVELS``, or to the last epoch."""
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    per_epoch = math.ceil(len(train) / plan.batch_size)
    reached: dict[float, int] = {}
    noise: list[float] = []
    last = math.inf

    def loss(batch: Tensor) -> Tensor:
        return F.cross_entropy(network(X[batch]), y[batch])

    def after(epochs: int) -> bool:
        nonlocal last
        with torch.no_grad():
            last = float(F.cross_entropy(network(X), y))
        for level in LEVELS:
            if last <= level:
                reached.setdefault(level, epochs * per_epoch)
        if not noise:
            noise.append(gradient_variance(network, X, y))
        return LEVELS[-1] in reached

    diverged = False
    try:
        run(network, [{"params": list(network.parameters())}], loss, len(train), plan, after_epoch=after)
    except DivergedError:
        diverged = True
    network.eval()
    first, second = (reached.get(level) for level in LEVELS)
    between = None if first is None or second is None else second - first
    known = {STEPS_TO: first, STEPS_BETWEEN: between, VARIANCE: noise[0] if noise else None}
    return Story(second is not None, diverged, None if diverged else last, known)


def gradient_variance(network: nn.Module, X: Tensor, y: Tensor) -> float:
    """The variance of per-example gradients, summed over all parameters: what the measure gradient-noise is."""
    return sum(gradients(network, X, y, BUDGET).variances.values())
