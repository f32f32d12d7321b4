"""Critical samples (Arpit et al. 2017, Section 4): how near to a decision boundary examples lie.

A point is critical if its box of radius r, in the maximum norm, holds a point that the network puts in another class.
`search` is Langevin adversarial sample search (LASS, Algorithm 1 of the paper). It can miss such a point, so the share
that it finds is a lower bound. Step and noise keep their published proportions to the radius.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEP, JITTER = 0.25 / 0.3, 0.2 / 0.3  # alpha and beta of the paper, in units of the radius
AT_ONCE = 1000  # points of a search: the gradients of a convolutional network need 2 MB each


def search(
    module: nn.Module, X: Tensor, radius: float, steps: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """LASS: the points it ended at, and whether each is in another class than its starting point.

    Each step climbs the cross-entropy of the class predicted at the start, by the sign of its gradient, adds Gaussian
    noise, and clips to the box. A point whose class has changed stays where it is. ``module`` must be in eval mode.
    """
    with torch.no_grad():
        classes = module(X).argmax(1)
    ends, left = X.clone(), torch.arange(len(X))
    for _ in range(steps):
        if len(left) == 0:
            break
        at = ends[left].requires_grad_()
        (slope,) = torch.autograd.grad(F.cross_entropy(module(at), classes[left], reduction="sum"), at)
        # drawn for all points, so that the noise of one does not depend on which others are done
        jitter = torch.randn(X.shape, generator=generator, dtype=X.dtype)[left]
        with torch.no_grad():
            move = radius * (STEP * slope.sign() + JITTER * jitter)
            ends[left] = X[left] + (at + move - X[left]).clamp(-radius, radius)
            left = left[module(ends[left]).argmax(1) == classes[left]]
    return ends, torch.isin(torch.arange(len(X)), left, invert=True)


def critical_ratio(
    module: nn.Module, X: Tensor, radius: float, steps: int, generator: torch.Generator | None = None
) -> float:
    """The share of the points for which `search` finds another class in the box: a lower bound of the true share."""
    parts = [search(module, some, radius, steps, generator)[1] for some in X.split(AT_ONCE)]
    return float(torch.cat(parts).double().mean())
