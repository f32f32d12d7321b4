"""Many small networks trained at once, to find which examples are easy for all of them.

Their weights carry a leading axis for the network, so a step of all networks is a few batched matrix products.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from truerisk.seeds import derive
from truerisk.training.unrolled import forward, initial_weights

MOST_WEIGHTS = 2**27  # half a gigabyte at a time
AT_ONCE = 1000  # examples of an evaluation


def misclassification_rates(
    X: Tensor,
    y: Tensor,
    classes: int,
    hidden: Sequence[int],
    *,
    runs: int,
    epochs: int,
    batch: int,
    lr: float,
    seed: int,
) -> np.ndarray:
    """For each training example, the share of ``runs`` independently trained ReLU networks that misclassify it.

    The networks differ in their initial weights and in the order of the examples; all are trained by plain SGD on
    ``X`` of shape (examples, features). Each has a seed of its own, so how many are trained at once changes
    nothing but rounding.
    """
    widths = [X.shape[1], *hidden, classes]
    each = sum(a * b for a, b in itertools.pairwise(widths))
    together = max(1, min(runs, MOST_WEIGHTS // each))
    wrong = torch.zeros(len(X))
    for first in range(0, runs, together):
        seeds = [derive(seed, "network", run) for run in range(first, min(first + together, runs))]
        wrong += _count_wrong(X, y, widths, seeds, epochs, batch, lr)
    return wrong.double().numpy() / runs


def _count_wrong(
    X: Tensor, y: Tensor, widths: list[int], seeds: list[int], epochs: int, batch: int, lr: float
) -> Tensor:
    """How many of the networks misclassify each example after training."""
    each = [initial_weights(widths, derive(seed, "weights")) for seed in seeds]
    # biases (units,) become (networks, 1, units), to be added to outputs (networks, examples, units)
    stacked = [torch.stack([one if one.ndim == 2 else one[None] for one in same]) for same in zip(*each, strict=True)]
    weights = [weight.detach().requires_grad_() for weight in stacked]
    generators = [torch.Generator().manual_seed(derive(seed, "order")) for seed in seeds]
    for _ in range(epochs):
        orders = torch.stack([torch.randperm(len(X), generator=g) for g in generators])
        for rows in orders.split(batch, dim=1):
            logits = forward(weights, X[rows])
            # summed over networks: each gets the gradient of its own mean loss
            loss = F.cross_entropy(logits.flatten(0, 1), y[rows].flatten(), reduction="sum") / rows.shape[1]
            gradients = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight -= lr * gradient
    with torch.no_grad():
        chunks = [
            (forward(weights, some.expand(len(seeds), -1, -1)).argmax(2) != labels).sum(0)
            for some, labels in zip(X.split(AT_ONCE), y.split(AT_ONCE), strict=True)
        ]
    return torch.cat(chunks)
