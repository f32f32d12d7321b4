"""Linear regions: into how many pieces a network cuts its inputs, each with an affine function of its own.

A network of ReLUs and linear layers is affine wherever no ReLU switches. How many such pieces it could have at most
is known from its architecture. How many there are is counted here exactly along straight lines between examples; in
more dimensions that is out of reach for networks of a useful size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.special import gammaln
from torch import Tensor, fx
from torch.func import vmap

from truerisk.measures.kinks import Kink, kinks
from truerisk.measures.passes import Network, inputs, network, push, size
from truerisk.measures.registry import NotDefined, Value, measure
from truerisk.measures.subject import Subject

SEGMENTS = 50  # lines between two examples
WORK = 1e9  # multiplications that they may take, about; fewer lines are taken for large networks
LARGEST = 5e9  # multiplications that a single line may take
SAME_SLOPE = 1e-9  # relative difference of two slopes that rounding may make


@measure(
    "linear-pieces",
    family="regions",
    meaning="Linear pieces between examples: the mean number on a line from one training example to another.",
    paper="Hanin and Rolnick 2019",
    equation="number of affine pieces of t -> f((1-t) x + t x') on [0, 1]; mean over pairs of examples",
    invariant=True,
    cost="search",
    settings=f"{SEGMENTS} pairs of examples, fewer for large networks",
)
def linear_pieces(subject: Subject) -> Value:
    found = kinks(subject)
    count = _segments(subject, found)
    rng = np.random.default_rng(subject.generator("segments").initial_seed())
    one = rng.integers(subject.n, size=count)
    other = (one + rng.integers(1, subject.n, size=count)) % subject.n
    starts, ends = (inputs(subject)[torch.from_numpy(rows)].double() for rows in (one, other))
    counts = pieces(network(subject), found, starts, ends, subject.budget).double()
    error = float(counts.std()) / math.sqrt(count) if count > 1 else None
    return Value(float(counts.mean()), error=error)


def _segments(subject: Subject, found: list[Kink]) -> int:
    """As many lines as the work allows, if a line meets a quarter of the units that can switch."""
    if subject.n < 2:
        raise NotDefined("it takes at least two examples.")
    units = sum(size(kink.source) for kink in found)
    work = sum(layer.weight.numel() * layer.repeats for layer in subject.layers)
    each = max(1, units / 4) * max(1, len(found) / 2) * work  # pass k runs the layers up to the k-th kink
    if each > LARGEST:
        raise NotDefined("it has too many units to count its pieces.")
    return int(min(SEGMENTS, max(1, WORK // max(1, each))))


def pieces(net: Network, found: list[Kink], starts: Tensor, ends: Tensor, budget: int) -> Tensor:
    """Number of affine pieces of the outputs on each segment.

    Kink by kink, in the order in which they run: between two neighbouring breakpoints everything that enters a kink is
    affine in t, so that its zeros are found exactly from its values at the two. In the end, breakpoints at which the
    derivative of the outputs along the line stays the same are no breakpoints of the function.
    """
    line = torch.arange(len(starts)).repeat_interleave(2)
    t = torch.tensor([0.0, 1.0], dtype=torch.float64).repeat(len(starts))
    for kink in found:
        X = _points(starts, ends, line, t)
        fresh_line, fresh_t, seen = [line], [t], 0
        for (values,) in net.many(X, [kink.source], budget // kink.spread, overlap=1):
            here, rows = t[seen : seen + len(values)], line[seen : seen + len(values)]
            row, share = kink.zeros(values)
            within = rows[row] == rows[row + 1]  # not from the end of one line to the start of the next
            row, share = row[within], share[within]
            fresh_line.append(rows[row])
            fresh_t.append(here[row] + share * (here[row + 1] - here[row]))
            seen += len(values) - 1
        line, t = _sorted(torch.cat(fresh_line), torch.cat(fresh_t))
    return _count(net, starts, ends, line, t, budget)


def _points(starts: Tensor, ends: Tensor, line: Tensor, t: Tensor) -> Tensor:
    where = t.reshape(-1, *[1] * (starts.ndim - 1))
    return (1 - where) * starts[line] + where * ends[line]


def _sorted(line: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Breakpoints in order, line by line, each once."""
    order = np.lexsort((t.numpy(), line.numpy()))
    line, t = line[order], t[order]
    fresh = torch.ones(len(t), dtype=torch.bool)
    fresh[1:] = (t[1:] != t[:-1]) | (line[1:] != line[:-1])
    return line[fresh], t[fresh]


def _count(net: Network, starts: Tensor, ends: Tensor, line: Tensor, t: Tensor, budget: int) -> Tensor:
    """Pieces of each line on which the derivative of the outputs along the line differs from the piece before."""
    inner = line[1:] == line[:-1]
    owner, middle = line[:-1][inner], ((t[1:] + t[:-1]) / 2)[inner]
    output = net.graph.outputs[0]

    def slope(x: Tensor, direction: Tensor) -> Tensor:
        return push(lambda v: net.at(v, [output])[0], x, direction)[1]

    with torch.no_grad():
        X = _points(starts, ends, owner, middle)
        slopes = vmap(slope, chunk_size=net.rows(budget, 6))(X, (ends - starts)[owner])
    scale = torch.zeros(len(starts), dtype=torch.float64)
    scale.scatter_reduce_(0, owner, slopes.abs().amax(1), "amax")
    turns = (slopes[1:] - slopes[:-1]).abs().amax(1) > SAME_SLOPE * scale[owner[1:]]
    turns &= owner[1:] == owner[:-1]
    return 1 + torch.bincount(owner[1:][turns], minlength=len(starts))


@measure(
    "activation-patterns",
    family="regions",
    meaning="Number of activation patterns: the linear regions that hold at least one example.",
    paper="Raghu et al. 2017",
    equation="number of distinct vectors (1[z_u(x) > 0]) over all ReLUs u, x in the sample",
    invariant=True,
    cost="forward",
    settings="over the sample of at most 1000 examples",
)
def activation_patterns(subject: Subject) -> float:
    sources = [kink.source for kink in kinks(subject) if kink.windows is None]
    if not sources:
        raise NotDefined("it has no ReLUs.")
    X = inputs(subject)[torch.from_numpy(subject.rows)]
    first = _patterns(subject, X, sources[:1])  # more ReLUs never make fewer patterns, and mostly these are all
    return float(first if first == len(X) else _patterns(subject, X, sources))


def _patterns(subject: Subject, X: Tensor, sources: Sequence[fx.Node]) -> int:
    parts = [
        np.packbits((torch.cat(found, dim=1) > 0).numpy(), axis=1)
        for found in network(subject).many(X, sources, subject.budget)
    ]
    return len(np.unique(np.concatenate(parts), axis=0))


@measure(
    "region-bound",
    family="regions",
    meaning="Upper bound on linear regions: the most that layers of these widths can have with any weights.",
    paper="Serra et al. 2018",
    equation="Theorem 1 (number from memory): sum over j of prod_l C(n_l, j_l), "
    "0 <= j_l <= min(n_0, n_1 - j_1, ..., n_(l-1) - j_(l-1), n_l)",
    invariant=True,
    cost="weights",
)
def region_bound(subject: Subject) -> Value:
    parts = subject.anatomy
    if not parts.relu_only:
        raise NotDefined(f"it is known for chains of linear layers and ReLUs ({parts.why or 'not one'}).")
    widths = [size(kink.source) for kink in kinks(subject)]
    return Value.of_log(log_regions(math.prod(subject.data.input_shape), widths))


def log_regions(inputs: int, widths: list[int]) -> float:
    """Logarithm of the bound of Serra et al. for layers of ReLUs of these widths on so many inputs.

    A state is the dimension d = min(n_0, n_1 - j_1, ...) that is left; a layer of n units of which j cut the region
    multiplies by C(n, j) and leaves min(d, n - j).

    >>> round(math.exp(log_regions(1, [5, 7])))
    48
    """
    left = np.full(inputs + 1, -np.inf)
    left[inputs] = 0.0
    for n in widths:
        d, j = np.arange(inputs + 1)[:, None], np.arange(min(inputs, n) + 1)[None, :]
        choices = _log_choose(n, j)
        terms = np.where(j <= np.minimum(d, n), left[:, None] + choices, -np.inf)
        after = np.minimum(d, n - j)
        left = np.full(inputs + 1, -np.inf)
        np.logaddexp.at(left, after.ravel(), terms.ravel())
    return float(np.logaddexp.reduce(left))


def _log_choose(n: int, k: np.ndarray) -> np.ndarray:
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
