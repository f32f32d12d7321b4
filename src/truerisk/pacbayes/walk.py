"""A walk along the orbit of a network: the KL changes, the function stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from truerisk.pacbayes.gaussian import Gaussian
from truerisk.symmetry import Symmetry

PLACES = tuple(np.linspace(-1.5, 1.5, 61).tolist())  # in steps from the optimum; -1 is where the walk starts
THROUGH, ASIDE = "from the given weights through the optimum", "through the optimum at random"


@dataclass(frozen=True)
class Step:
    """A point of a walk along the orbit.

    ``at``: where on its line; 0 is the optimum, and one step is as far as from the start to the optimum.
    ``change``: the largest change of an output of the network, relative to the largest output.
    """

    line: str
    at: float
    kl: float
    change: float


def walk(
    posterior: Gaussian,
    prior: Gaussian,
    symmetry: Symmetry,
    best: Tensor,
    X: Tensor,
    places: Sequence[float] = PLACES,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> list[Step]:
    """KL and outputs along two lines through the optimum: from the given weights, and in a random direction.

    ``best`` are the log-scales of `tighten`. To move the prior by t is to move the network by -t: the KL is that of the
    posterior and the moved prior, the outputs on ``X`` are those of the moved network, in ``dtype``. The random
    direction leaves out rescalings that would move a tensor that is not drawn.

    >>> from torch import nn
    >>> from truerisk import Gaussian, find_symmetry, tighten
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> q, p, sym = Gaussian.around(net, 0.1), Gaussian.zero(net, 1.0), find_symmetry(net, torch.zeros(1, 2))
    >>> best = tighten(q, p, sym)
    >>> start, optimum, *_ = walk(q, p, sym, best.log_scales, torch.ones(1, 2), places=[-1.0, 0.0])
    >>> start.kl == best.kl_before, optimum.kl == best.kl_after, max(start.change, optimum.change) < 1e-12
    (True, True, True)
    """
    aside = _movable(posterior, symmetry, seed)
    length = float(best.norm())
    aside = aside * (length / float(aside.norm())) if length and aside.any() else aside
    lines = {THROUGH: best, ASIDE: aside}
    return [
        step
        for name, along in lines.items()
        for step in _line(name, posterior, prior, symmetry, best, along, X, places, dtype)
    ]


def _movable(posterior: Gaussian, symmetry: Symmetry, seed: int) -> Tensor:
    """A random direction that moves nothing but what is drawn: other rescalings have no KL."""
    smaller, to_all = symmetry.holding(posterior.fixed)
    return torch.from_numpy(to_all @ smaller.random(seed=seed).numpy())


@torch.no_grad()
def _line(
    name: str,
    posterior: Gaussian,
    prior: Gaussian,
    symmetry: Symmetry,
    best: Tensor,
    along: Tensor,
    X: Tensor,
    places: Sequence[float],
    dtype: torch.dtype,
) -> Iterator[Step]:
    network, inputs = posterior.network().to(dtype), X.to(dtype) if X.is_floating_point() else X
    before = network(inputs)
    size = float(before.abs().max()) or 1.0
    for place in places:
        t = torch.zeros_like(best) if along is best and place == -1 else best + place * along
        after = symmetry.rescale(network, -t)(inputs)
        yield Step(name, place, posterior.kl(prior, symmetry.factors(t)), float((after - before).abs().max()) / size)
