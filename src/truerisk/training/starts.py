"""One network, one dataset, many random starts: where does training end?

All starts are trained at once. Their weights carry a leading axis for the start, so a step of all of them is a few
batched matrix products, and the momentum buffers v <- m v + g, w <- w - lr v are those of `torch.optim.SGD`. Every
start has initial weights and an order of the examples of its own, derived from the seed and its number: how many are
trained together changes nothing but rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from truerisk.errors import TrueriskError
from truerisk.seeds import derive
from truerisk.training.unrolled import Weights, forward, initial_weights

AT_ONCE = 1000  # examples of an evaluation


@dataclass(frozen=True)
class Ends:
    """Mean training loss (cross-entropy) and training error of each start, before and after training.

    A start whose loss is no longer finite has an infinite loss and counts every example as an error.
    """

    first_losses: np.ndarray
    losses: np.ndarray
    errors: np.ndarray

    @property
    def spread(self) -> float:
        """Standard deviation of the end losses, as a share of the mean fall from the start."""
        return float(self.losses.std(ddof=1) / (self.first_losses - self.losses).mean())

    @property
    def fitted(self) -> float:
        """The share of starts without a training error at the end."""
        return float((self.errors == 0).mean())


def train_starts(
    X: Tensor,
    y: Tensor,
    classes: int,
    hidden: Sequence[int],
    *,
    starts: int,
    epochs: int,
    batch: int,
    lr: float,
    seed: int,
    momentum: float = 0.9,
) -> Ends:
    """Train a ReLU network on ``X`` of shape (examples, features) from ``starts`` initial weights, by SGD.

    >>> X, y = torch.eye(4), torch.tensor([0, 1, 0, 1])
    >>> ends = train_starts(X, y, 2, [8], starts=5, epochs=100, batch=4, lr=0.1, seed=0)
    >>> ends.fitted, bool((ends.losses < 0.1).all())
    (1.0, True)
    """
    if starts < 2 or X.ndim != 2 or len(X) != len(y):
        raise TrueriskError(
            f"{starts} starts on inputs of shape {tuple(X.shape)} with {len(y)} labels cannot be compared; pass at "
            "least 2 starts and one row for each label."
        )
    widths = [X.shape[1], *hidden, classes]
    weights = _stacked([initial_weights(widths, derive(seed, "start", k, "weights")) for k in range(starts)])
    generators = [torch.Generator().manual_seed(derive(seed, "start", k, "order")) for k in range(starts)]
    first, _ = _measure(weights, X, y)
    moves = [torch.zeros_like(weight) for weight in weights]
    for _ in range(epochs):
        orders = torch.stack([torch.randperm(len(X), generator=generator) for generator in generators])
        for rows in orders.split(batch, dim=1):
            logits = forward(weights, X[rows])
            # summed over starts: each gets the gradient of its own mean loss
            loss = F.cross_entropy(logits.flatten(0, 1), y[rows].flatten(), reduction="sum") / rows.shape[1]
            gradients = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                for weight, gradient, move in zip(weights, gradients, moves, strict=True):
                    move.mul_(momentum).add_(gradient)
                    weight.sub_(move, alpha=lr)
    losses, errors = _measure(weights, X, y)
    return Ends(first, losses, errors)


def _stacked(each: Sequence[Weights]) -> Weights:
    """Biases (units,) become (starts, 1, units), to be added to outputs (starts, examples, units)."""
    parts = [torch.stack([one if one.ndim == 2 else one[None] for one in same]) for same in zip(*each, strict=True)]
    return [part.detach().requires_grad_() for part in parts]


def _measure(weights: Weights, X: Tensor, y: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Mean loss and error rate of each start on all examples."""
    starts = len(weights[0])
    losses, wrong = np.zeros(starts), np.zeros(starts)
    with torch.no_grad():
        for some, labels in zip(X.split(AT_ONCE), y.split(AT_ONCE), strict=True):
            logits = forward(weights, some.expand(starts, -1, -1))
            own = labels.expand(starts, -1)
            each = F.cross_entropy(logits.flatten(0, 1).double(), own.flatten(), reduction="none")
            losses += each.view(starts, -1).sum(1).numpy()
            wrong += (logits.argmax(2) != own).sum(1).numpy()
    wild = ~np.isfinite(losses)
    return np.where(wild, np.inf, losses / len(X)), np.where(wild, 1.0, wrong / len(X))
