"""Snapshot ensembles (Huang et al. 2017): one run of training gives several networks.

The run is divided into M cycles of equal length. In each of them the rate falls from its peak a to 0 along a cosine,

    a(t) = a / 2 (cos(pi t M / T) + 1)   within a cycle,   t counted from the start of the cycle,

and jumps back to a. The weights at the end of each cycle are a snapshot; the ensemble averages their probabilities.
With one cycle this is the usual cosine schedule. Here momentum starts from zero in each cycle.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.plan import Plan
from truerisk.seeds import derive
from truerisk.training.loop import run


def snapshots(module: nn.Module, train: Data, plan: Plan, cycles: int) -> list[nn.Module]:
    """Train ``module`` in place by cross-entropy for ``plan.epochs`` in all, and copy it at the end of each cycle.

    The plan's schedule must be cosine: it is that of each cycle. Copies are in eval mode.

    >>> from truerisk.data import load
    >>> from truerisk.nets import mlp
    >>> digits = load("digits")
    >>> len(snapshots(mlp((1, 8, 8), 10, (8,)), digits, Plan(epochs=4, optimizer="sgd", lr=0.1), cycles=2))
    2
    """
    if cycles < 1 or plan.epochs % cycles:
        raise TrueriskError(
            f"{plan.epochs} epochs do not divide into {cycles} cycles of equal length; try {cycles * 10} epochs."
            if cycles >= 1
            else f"cycles is {cycles}, but must be at least 1; try cycles=5."
        )
    if plan.schedule != "cosine" or plan.target_loss is not None:
        raise TrueriskError("snapshots need a cosine schedule without a target loss; use Plan(schedule='cosine').")
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)

    def loss(batch: Tensor) -> Tensor:
        return F.cross_entropy(module(X[batch]), y[batch])

    found = []
    for cycle in range(cycles):
        module.train()
        own = replace(plan, epochs=plan.epochs // cycles, seed=derive(plan.seed, "cycle", cycle))
        run(module, [{"params": [p for p in module.parameters() if p.requires_grad]}], loss, len(train), own)
        found.append(copy.deepcopy(module).eval())
    return found
