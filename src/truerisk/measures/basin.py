"""How large the basin around a network is: its training error when every weight is changed by a random share of itself.

    w_i -> w_i (1 + s z_i),   z_i ~ N(0, 1)

for all weights and biases and noise levels s. Noise in proportion to the weights does not depend on how the network is
written down: multiplying the weights into a hidden ReLU unit by a factor and dividing those out of it by the same
factor changes neither the network's function nor the errors found here (Jiang et al. 2020 call such noise
magnitude-aware). The radius of the basin is the noise level at which the mean training error has risen by 0.1.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from truerisk.errors import TrueriskError
from truerisk.training.unrolled import Weights, forward

RISE = 0.1  # of the training error
NUMBERS = 2**24  # of all activations of a layer, at a time


def errors_under_noise(
    weights: Weights, X: Tensor, y: Tensor, levels: Sequence[float], *, draws: int = 50, seed: int = 0
) -> list[float]:
    """Mean error rate over ``draws`` noisy copies of a fully connected ReLU network, for each noise level.

    ``weights`` are weight, bias, weight, bias, ...; weights have shape (fan-in, fan-out). One draw of the noise serves
    all levels: it is drawn once and only stretched.

    >>> size = [torch.tensor([[1.0, -1.0]]), torch.zeros(2), torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.zeros(2)]
    >>> errors_under_noise(size, torch.tensor([[1.0], [-1.0]]), torch.tensor([0, 1]), [0.0, 100.0], draws=400)[0]
    0.0
    """
    if draws < 1 or len(X) == 0:
        raise TrueriskError(f"there are {draws} draws and {len(X)} examples, but at least one of each is needed.")
    generator = torch.Generator().manual_seed(seed)
    widest = max(part.shape[-1] for part in weights)
    together = max(1, min(draws, NUMBERS // (widest * len(X))))
    wrong = np.zeros(len(levels))
    for first in range(0, draws, together):
        count = min(together, draws - first)
        noise = [torch.randn((count, *part.shape), generator=generator, dtype=part.dtype) for part in weights]
        for k, level in enumerate(levels):
            moved = [part * (1 + level * drawn) for part, drawn in zip(weights, noise, strict=True)]
            stacked = [part if place % 2 == 0 else part[:, None] for place, part in enumerate(moved)]
            with torch.no_grad():
                wrong[k] += int((forward(stacked, X.expand(count, -1, -1)).argmax(2) != y).sum())
    return [float(each) for each in wrong / (draws * len(X))]


def basin_radius(levels: Sequence[float], errors: Sequence[float]) -> float:
    """The noise level at which the error has risen by 0.1 over that at the first level, between two levels by a line.

    Where it does not rise by so much, the largest level: the radius is then at least that.

    >>> basin_radius([0.0, 1.0, 2.0], [0.0, 0.05, 0.15])
    1.5
    """
    if len(levels) != len(errors) or len(levels) < 2 or any(b <= a for a, b in itertools.pairwise(levels)):
        raise TrueriskError(
            "levels and errors do not fit each other; give two or more rising levels, an error for each."
        )
    goal = errors[0] + RISE
    for k in range(1, len(levels)):
        if errors[k] >= goal:
            share = (goal - errors[k - 1]) / (errors[k] - errors[k - 1])
            return float(levels[k - 1] + share * (levels[k] - levels[k - 1]))
    return float(levels[-1])
