"""How far the weights can be moved before the training accuracy falls by 0.1: the radii that flatness measures share.

    gaussian             sigma:   u_i ~ N(0, sigma^2)                           the mean accuracy of w + u
    gaussian-magnitude   sigma':  u_i ~ N(0, sigma'^2 w_i^2)                    the same
    worst                alpha:   |u_i| <= alpha                                the worst accuracy of w + u
    worst-magnitude      alpha':  |u_i| <= alpha' |w_i|                         the same

(Jiang et al. 2020, appendix on flatness. The published magnitude-aware noise and box have a small eps added for every
weight. It is left out: without it no rescaling changes the radius, and a box of eps = 0.001 alone is more than many
networks bear.) All trainable parameters are moved, biases too. A search brackets the radius: at its lower end the
accuracy was seen to fall by no more than 0.1, at its upper end by more. The lower end is reported. The bracket says
where the search stopped, for one set of draws and examples. It is not a confidence interval: over 40 seeds, on the
network that ``truerisk measure`` trains, the radius has a standard deviation of 5% to 6% (noise) and 17% to 19% (worst
case).

What keeps the search short: the noise is drawn once and only stretched, so that the accuracy is a fixed function of the
radius; each draw is tried on its own share of the examples; a try stops as soon as too much is lost; the next radius is
where a straight line through the bracket's ends says; and passes run in chunks of 50 examples, which stay in the cache
of a processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from truerisk.measures.registry import NotDefined
from truerisk.measures.subject import Subject
from truerisk.nets.evaluate import margins

Kind = Literal["gaussian", "gaussian-magnitude", "worst", "worst-magnitude"]
DROP = 0.1  # of the accuracy
DRAWS, EACH = 25, 10  # of noise; at least so many examples for each
LEAST = 50  # examples of a part of the sample
WIDTH = math.log1p(0.05)  # of a bracket, on the scale of logarithms
COARSE = math.log1p(0.2)  # the same while the direction of the worst case may still change
LITTLE = 0.01  # a fall that is taken for this one where a logarithm is needed
ROUNDS = 2  # directions that the worst case tries after the first
HALF, SHARE = 0.5, 0.1  # of the sample: examples of the noise and of the worst case
CHUNK = 50
STRIDE = 4.0  # largest factor between tries until a bracket is found
REACH = 1e3, 1e-9  # a search that leaves start * REACH finds nothing
NO_INTERVAL = "not a confidence interval: other seeds give radii further apart"
GAUSSIAN_SETTINGS = (
    "accuracy falls by 0.1; 25 draws, each on its own 50th of the sample (at least 10 examples); lower end of a search "
    f"bracket of 5%, {NO_INTERVAL}"
)
WORST_SETTINGS = (
    "accuracy falls by 0.1 on a tenth of the sample (at least 50 examples); up to 3 signs of gradients; lower end of a "
    f"search bracket of 5%, {NO_INTERVAL}; the worst case is searched for, so the true radius may be smaller"
)

NO_EPSILON = "; changes in exact proportion to the weights (the paper adds a small eps)"


@dataclass(frozen=True)
class Radius:
    """``value``: the accuracy fell by no more than 0.1 there; at ``upper`` it fell by more.

    Both ends are for the same draws and examples: together they are a search bracket, not a confidence interval.
    """

    value: float
    upper: float


def radius(subject: Subject, kind: Kind) -> Radius:
    """The radius of one kind, found once for each subject."""
    magnitude = kind.endswith("magnitude")
    find = _gaussian if kind.startswith("gaussian") else _worst
    return subject.shared(f"radius {kind}", lambda: find(subject, magnitude))


def part(subject: Subject, share: float) -> tuple[Tensor, Tensor]:
    """A share of the sample (at least 50 examples, if there are), in a random order that depends on the seed only."""
    X, y = subject.sample
    count = min(len(X), max(LEAST, math.ceil(share * len(X))))
    chosen = torch.randperm(len(X), generator=subject.generator("part of the sample"))[:count]
    return X[chosen], y[chosen]


def blocks(count: int, draws: int, least: int) -> list[Tensor]:
    """Rows for each of some random draws: equal shares of all rows, or ``least`` rows each, which then overlap.

    >>> [rows.tolist() for rows in blocks(4, draws=2, least=3)]
    [[0, 1, 2], [2, 3, 0]]
    """
    each = max(min(least, count), count // draws)
    return [(torch.arange(each) + k * count // draws) % count for k in range(draws)]


class Movable:
    """A copy of the subject's network with weights that can be moved away from where they are."""

    def __init__(self, subject: Subject) -> None:
        self.module = subject.copy()
        self.weights = [p for p in self.module.parameters() if p.requires_grad]
        self.centre = [p.detach().clone() for p in self.weights]
        if not self.weights:
            raise NotDefined("it has no trainable parameters.")

    def move(self, by: Iterable[Tensor]) -> None:
        """To w + u."""
        with torch.no_grad():
            for p, w, u in zip(self.weights, self.centre, by, strict=True):
                torch.add(w, u.to(w.dtype), out=p)

    def wrong(self, X: Tensor, y: Tensor) -> Tensor:
        """Of each example, whether it is wrong; a tie or an output that is not a number is wrong."""
        with torch.no_grad():
            parts = [margins(self.module(x), label)[0] > 0 for x, label in _chunks(X, y)]
        return ~torch.cat(parts)

    def loss(self, X: Tensor, y: Tensor) -> float:
        """Mean cross-entropy."""
        with torch.no_grad():
            parts = [F.cross_entropy(self.module(x), label, reduction="none").double() for x, label in _chunks(X, y)]
        return float(torch.cat(parts).mean())

    def gradient(self, X: Tensor, y: Tensor, temperature: float = 1.0) -> tuple[float, list[Tensor]]:
        """(mean cross-entropy of the logits over the temperature, its gradient), both summed in float64."""
        total, found = 0.0, [torch.zeros_like(w, dtype=torch.float64) for w in self.weights]
        for x, label in _chunks(X, y):
            loss = F.cross_entropy(self.module(x) / temperature, label, reduction="sum") / len(X)
            pieces = torch.autograd.grad(loss, self.weights, allow_unused=True, materialize_grads=True)
            for sum_, piece in zip(found, pieces, strict=True):
                sum_ += piece
            total += float(loss.detach())
        return total, found


def _chunks(X: Tensor, y: Tensor) -> Iterable[tuple[Tensor, Tensor]]:
    return zip(X.split(CHUNK), y.split(CHUNK), strict=True)


def noise(subject: Subject, draw: int, like: Sequence[Tensor]) -> list[Tensor]:
    """Standard normal numbers in the shapes of the weights: the same for the same seed and number of the draw."""
    generator = subject.generator("noise on the weights", draw)
    return [torch.randn(w.shape, generator=generator, dtype=w.dtype) for w in like]


def _gaussian(subject: Subject, magnitude: bool) -> Radius:
    net = Movable(subject)
    X, y = part(subject, HALF)
    shares = blocks(len(X), DRAWS, EACH)
    pairs = sum(len(rows) for rows in shares)
    before = net.wrong(X, y)
    old = [int(before[rows].sum()) for rows in shares]

    def fall(sigma: float) -> float:
        """Of the accuracy. Where the try ends early it is an estimate, but it is above 0.1 for certain."""
        lost = 0
        for k, rows in enumerate(shares):
            unit = noise(subject, k, net.centre)
            net.move(sigma * (w * z if magnitude else z) for w, z in zip(net.centre, unit, strict=True))
            lost += int(net.wrong(X[rows], y[rows]).sum()) - old[k]
            if lost - sum(old[k + 1 :]) > DROP * pairs:  # even if all that is still to come turned right
                return lost / ((k + 1) * len(rows))
        return lost / pairs

    return crossing(fall, _start(net, magnitude))


def _worst(subject: Subject, magnitude: bool) -> Radius:
    """Corners of the box that the sign of a gradient points to: first the gradient at w, then at the corner found.

    The gradient is that of the cross-entropy of the logits over their mean absolute margin: examples near the boundary
    count most, and a confident network has a gradient, too. A later direction counts if it loses too much at a radius
    at which the last one did not.
    """
    net = Movable(subject)
    X, y = part(subject, SHARE)
    before = int(net.wrong(X, y).sum())
    with torch.no_grad():
        size = float(torch.cat([margins(net.module(x), label)[0].abs() for x, label in _chunks(X, y)]).mean())
    temperature = size or 1.0

    def corner(signs: list[Tensor], alpha: float) -> Iterable[Tensor]:
        box = [alpha * w.abs() if magnitude else alpha for w in net.centre]
        return (b * s for b, s in zip(box, signs, strict=True))

    def fall(signs: list[Tensor], alpha: float) -> float:
        net.move(corner(signs, alpha))
        return (int(net.wrong(X, y).sum()) - before) / len(X)

    signs = [g.sign() for g in net.gradient(X, y, temperature)[1]]
    found = crossing(partial(fall, signs), 0.1 * _start(net, magnitude), COARSE)
    for _ in range(ROUNDS):
        net.move(corner(signs, found.upper))
        slopes = net.gradient(X, y, temperature)[1]
        others = [torch.where(g == 0, s, g.sign()) for g, s in zip(slopes, signs, strict=True)]
        if fall(others, found.value) <= DROP:
            break
        signs = others
        found = crossing(partial(fall, signs), found.value, COARSE)
    return crossing(partial(fall, signs), found.value)


def _start(net: Movable, magnitude: bool) -> float:
    """A first guess: noise of a quarter of the weights' size."""
    if magnitude:
        return 0.25
    squares = sum(float(w.double().square().sum()) for w in net.centre)
    return 0.25 * math.sqrt(squares / sum(w.numel() for w in net.centre)) or 1.0


def crossing(fall: Callable[[float], float], start: float, width: float = WIDTH) -> Radius:
    """A bracket, of this width on the scale of logarithms, of a radius at which ``fall`` comes to exceed 0.1.

    Falls of the accuracy grow like powers of the radius, so lines are drawn through the logarithms of both.

    >>> found = crossing(lambda r: r**2 / 20, start=0.01)
    >>> found.value <= math.sqrt(2) < found.upper, found.upper / found.value < 1.051
    (True, True)
    """
    low = high = math.nan  # logarithms of the ends
    below = above = 0.0  # logarithms of the falls there, over 0.1
    at, tries, repeats, side = math.log(start), 0, 0, False
    while not high - low <= width:
        lost = fall(math.exp(at))
        tries += 1
        repeats, side = repeats + 1 if (lost > DROP) == side else 1, lost > DROP
        level = math.log(max(lost, LITTLE) / DROP)
        if side:
            high, above = at, level
        else:
            low, below = at, level
        if math.isnan(low) or math.isnan(high):
            step = min(tries * max(abs(level) / 2, width), math.log(STRIDE))
            at = at - step if side else at + step
        elif repeats > (1 if below == 0 else 2):  # a step of the fall, where lines mislead
            at = (low + high) / 2
        else:
            at = _between(low, high, -below / (above - below), width)
        if at > math.log(start * REACH[0]):
            raise NotDefined("its accuracy does not fall by 0.1, however far its weights are moved.")
        if at < math.log(start * REACH[1]):
            raise NotDefined("its accuracy falls by 0.1 as soon as its weights are moved at all.")
    return Radius(math.exp(low), math.exp(high))


def _between(low: float, high: float, share: float, width: float) -> float:
    """Where to try next: a little beyond the root of the line, towards the farther end, so that this end moves."""
    whole = high - low
    beyond = 0.45 * width * (1 if share < 0.5 else -1)
    return low + min(max(share * whole + beyond, 0.1 * whole), 0.9 * whole)
