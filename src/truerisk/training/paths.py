"""Paths of the usual optimizers on any function of a few numbers, with the optimizers of `torch.optim`.

On the saddle f(x, y) = a x^2 - b y^2 some of them have closed forms. Gradient descent multiplies y by 1 + 2 b lr in
every step. With momentum m (Polyak 1964), y grows like the larger root of z^2 - (1 + m + 2 b lr) z + m = 0, for small
rates near 1 + 2 b lr / (1 - m): as if the rate were divided by 1 - m. Optimizers that divide each coordinate by the
size of its own gradients (AdaGrad, RMSProp, AdaDelta, Adam) move along y as fast as along x, however small y is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from truerisk.errors import TrueriskError

MOMENTUM = 0.9
Make = Callable[[list[Tensor], float], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "gradient descent": lambda w, lr: torch.optim.SGD(w, lr=lr),
    "momentum": lambda w, lr: torch.optim.SGD(w, lr=lr, momentum=MOMENTUM),
    "Nesterov": lambda w, lr: torch.optim.SGD(w, lr=lr, momentum=MOMENTUM, nesterov=True),
    "AdaGrad": lambda w, lr: torch.optim.Adagrad(w, lr=lr),
    "RMSProp": lambda w, lr: torch.optim.RMSprop(w, lr=lr),
    "AdaDelta": lambda w, lr: torch.optim.Adadelta(w, lr=lr),
    "Adam": lambda w, lr: torch.optim.Adam(w, lr=lr),
}


def path(
    function: Callable[[Tensor], Tensor], start: Sequence[Any] | np.ndarray, optimizer: str, lr: float, steps: int
) -> np.ndarray:
    """Points that an optimizer visits on ``function``, its start first: shape (steps + 1, dim).

    ``function`` takes a point, in float64, and its gradient is exact. ``start`` may also have the shape (starts, dim),
    for a function of each row: all of these optimizers treat each coordinate alone, so the paths do not meet. From the
    first step at which some coordinate is not finite on, the path is NaN.

    >>> bowl = path(lambda w: (w**2).sum(), [1.0, -2.0], "gradient descent", lr=0.25, steps=2)
    >>> bowl.tolist()
    [[1.0, -2.0], [0.5, -1.0], [0.25, -0.5]]
    """
    if optimizer not in OPTIMIZERS:
        raise TrueriskError(f"the optimizer is {optimizer!r}, but must be one of {', '.join(OPTIMIZERS)}.")
    if not (lr > 0 and steps >= 0):
        raise TrueriskError(f"lr and steps are {lr:g} and {steps}, but must be positive; try lr=0.01 and steps=100.")
    point = torch.tensor(np.asarray(start, np.float64), requires_grad=True)
    move = OPTIMIZERS[optimizer]([point], lr)
    found = np.full((steps + 1, *point.shape), np.nan)
    found[0] = point.detach()
    for k in range(1, steps + 1):
        move.zero_grad()
        function(point).sum().backward()
        move.step()
        if not bool(point.isfinite().all()):
            break
        found[k] = point.detach()
    return found


def saddle(a: float = 1.0, b: float = 1.0) -> Callable[[Tensor], Tensor]:
    """f(x, y) = a x^2 - b y^2, with its saddle at the origin and its ridge along y = 0.

    >>> float(saddle()(torch.tensor([2.0, 1.0])))
    3.0
    """
    return lambda w: a * w[..., 0] ** 2 - b * w[..., 1] ** 2


def first_beyond(values: np.ndarray, limit: float) -> int | None:
    """The first index at which a sequence is larger than ``limit`` in size; None where it never is.

    >>> first_beyond(np.array([0.1, -3.0, 5.0]), 1.0), first_beyond(np.array([0.1]), 1.0)
    (1, None)
    """
    beyond = np.flatnonzero(np.abs(values) > limit)
    return int(beyond[0]) if len(beyond) else None


def growth(lr: float, b: float = 1.0, momentum: float = 0.0) -> float:
    """The factor by which y grows in each late step on a x^2 - b y^2: the larger root of the recursion above.

    >>> growth(0.01), round(growth(0.01, momentum=0.9), 4)
    (1.02, 1.107)
    """
    half = (1 + momentum + 2 * b * lr) / 2
    return half + math.sqrt(half**2 - momentum)


def descent_leaves_after(y: float, limit: float, lr: float, b: float = 1.0) -> int:
    """Steps until gradient descent from ``y`` is beyond ``limit``: the smallest k with |y| (1 + 2 b lr)^k > limit.

    >>> descent_leaves_after(1e-3, 1.0, lr=0.01)
    349
    """
    if not (y and limit > 0):
        raise TrueriskError(f"y and limit are {y:g} and {limit:g}, but y = 0 never leaves; start off the ridge.")
    guess = max(0, math.floor(math.log(limit / abs(y)) / math.log(growth(lr, b))))
    return next(k for k in range(max(0, guess - 1), guess + 3) if abs(y) * growth(lr, b) ** k > limit)
