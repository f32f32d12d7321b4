"""The Gibbs risk of a posterior by Monte Carlo: as many independent trials as time allows.

Every example gets its own draw of all weights where ``StochasticNetwork`` can do that: then one pass
over n examples is n independent Bernoulli trials whose mean is the empirical Gibbs risk. Where it
can't, or where that many weights would take too long, one drawn network serves a group of examples
and a group is one trial. Everything runs in float64 (if the network can), so that another machine's
rounding hardly ever flips an answer, and from a seed, so that anyone can repeat the draws.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from truerisk import progress
from truerisk.bounds import grouped_upper
from truerisk.data.dataset import as_array, as_inputs, as_labels, check_not_negative
from truerisk.data.formats.reading import tell_bytes
from truerisk.errors import TrueriskError
from truerisk.nets import NOTHING, cost, tally
from truerisk.nets.evaluate import as_input
from truerisk.pacbayes.gaussian import Gaussian
from truerisk.pacbayes.head import find_head
from truerisk.pacbayes.stochastic import Normal, NotPerExample, StochasticNetwork
from truerisk.plan import DrawPlan
from truerisk.words import bound, seen, several

# How many draws a certificate makes follows from these. They belong to its format: verify plans the same draws.
TRIALS = 1_000_000  # enough that Monte Carlo costs a certificate almost nothing
NORMALS = 1_000_000_000  # drawn numbers that a certificate may take (about 15 s)
PRODUCTS = 30_000_000_000  # multiplications by weights that it may take (a few seconds)
NETWORKS = 20_000  # whole networks that it may draw, one after the other
STEPS = 200_000  # calls of layers that whole networks may take, one after the other (some 30 s)
MORE = 100  # times as many draws as are planned may be asked for: no certificate keeps verify busy for hours
CHUNK_NUMBERS = 1_000_000  # drawn numbers at once: what stays near the processor is twice as fast
CHUNK_ROWS = 8_000
TIMED = 3  # chunks after which the time of all is estimated; the plan never depends on it
LONG = 30.0  # seconds that are worth a line
USUAL = 0.05  # the failure probability of the sentence that an estimate prints

Values = np.ndarray | Tensor


@dataclass(frozen=True)
class GibbsEstimate:
    """What the draws gave. ``near_ties`` counts trials that another machine's rounding could flip.

    ``sure`` counts errors that are neither ties nor near ties.
    """

    errors: int
    near_ties: int
    sure: int
    plan: DrawPlan

    @property
    def risk(self) -> float:
        """The observed error rate of all predictions."""
        return self.errors / self.predictions

    @property
    def predictions(self) -> int:
        return self.plan.n * self.plan.passes

    @property
    def draws(self) -> int:
        """How many networks were drawn: one for each prediction, or for each group of them."""
        return self.plan.groups * self.plan.passes

    def upper(self, delta: float) -> float:
        """Upper bound on the empirical Gibbs risk that fails with probability at most ``delta``."""
        p = self.plan
        return grouped_upper(self.errors, p.groups, p.size, p.n, p.passes, delta)

    def __str__(self) -> str:
        return (
            f"observed Gibbs risk {seen(self.risk)}: {several(self.errors, 'error')} in "
            f"{several(self.predictions, 'prediction')} by {several(self.draws, 'sampled network')}; at most "
            f"{bound(self.upper(USUAL))} with failure probability {USUAL} (.upper(delta) for others)"
        )


def plan_draws(gaussian: Gaussian, X: Values, draws: int | None = None) -> DrawPlan:
    """A draw for each example if that is affordable, otherwise the smallest groups that are; then passes over them.

    Decided before the first draw, from what draws cost: random numbers, multiplications and calls of layers, all of
    them counted from the network and the shape of its inputs. And from what they bring: more than ``TRIALS`` answers
    shrink a bound by nothing that shows. ``draws`` asks for this many answers in place of that, at least one for each
    example.
    """
    X = _inputs(gaussian, X)
    n, weights = len(X), gaussian.size
    head = find_head(gaussian)
    if head is not None:
        gaussian, X = head.restrict(gaussian), head.features(X[:3])
    products = max(weights, cost.products(gaussian.module, X))
    precision = _precision(gaussian.module, X)
    numbers = _numbers_per_example(gaussian, X, precision)
    if numbers is not None and n * numbers <= NORMALS:
        passes = min(TRIALS // n, NORMALS // (n * numbers), PRODUCTS // (n * products))
        chunk = max(1, min(CHUNK_ROWS, CHUNK_NUMBERS // numbers))
        return DrawPlan(n, n, 1, _passes(passes, n, draws), chunk, precision, layered=True)
    networks = max(1, min(NETWORKS, STEPS // cost.steps(gaussian.module), NORMALS // weights))
    size = math.ceil(n / networks)
    groups = math.ceil(n / size)
    passes = min(TRIALS // n, networks // groups, PRODUCTS // (n * products))
    return DrawPlan(n, groups, size, _passes(passes, n, draws), size, precision, layered=False)


def _passes(affordable: int, n: int, draws: int | None) -> int:
    if draws is not None and draws < 1:
        raise TrueriskError(f"draws is {draws}, but must be at least 1; leave it out for as many as can be afforded.")
    affordable = max(1, affordable)
    wanted = affordable if draws is None else math.ceil(draws / n)
    if wanted > max(MORE * affordable, TRIALS // n):
        most = n * max(MORE * affordable, TRIALS // n)
        raise TrueriskError(f"draws is {draws:,}, but at most {most:,} for this network and data; give fewer.")
    return wanted


def gibbs_risk(
    gaussian: Gaussian,
    X: Values,
    y: Values,
    seed: int = 0,
    plan: DrawPlan | None = None,
    draws: int | None = None,
) -> GibbsEstimate:
    """Draw networks from ``gaussian`` and count their errors on (X, y); a tie counts as an error.

    ``X`` and ``y``: arrays or torch tensors, on any device. As in all data of this package, unsigned bytes are divided
    by 255. Labels are integers from 0 to the number of outputs minus 1. ``draws``: the number of predictions, at least
    one for each example; without it ``plan_draws`` decides what can be afforded. The same seed gives the same draws.

    >>> q = Gaussian.zero(nn.Linear(2, 2), std=1.0)  # either class with probability 1/2
    >>> estimate = gibbs_risk(q, torch.ones(100, 2), torch.zeros(100), draws=10_000)
    >>> print(str(estimate).partition(";")[0])
    observed Gibbs risk 0.4985: 4,985 errors in 10,000 predictions by 10,000 sampled networks
    >>> round(estimate.upper(0.05), 3)
    0.511
    """
    tell_bytes(X, "X")
    X, labels = _inputs(gaussian, X), torch.from_numpy(_labels(y))
    if len(X) != len(labels):
        raise TrueriskError(f"there are {len(X):,} inputs but {len(labels):,} labels; give one label for each input.")
    if plan is not None and draws is not None:
        raise TrueriskError("draws and plan are two ways to say how many networks are drawn; give one of them.")
    plan = plan or plan_draws(gaussian, X, draws)
    if plan.n != len(X):
        raise TrueriskError(f"the plan of the draws is for {plan.n} examples, but there are {len(X)}.")
    gaussian, X = at_the_head(gaussian, X)
    found, total, start = NOTHING, plan.passes * plan.n, time.monotonic()
    with progress.bar("sampling networks", total) as advance:
        for number, (rows, logits) in enumerate(drawn_logits(gaussian, X, seed, plan)):
            if not number:
                _refuse_more_classes(labels, logits)
            found += tally(logits, labels[rows])
            advance(len(logits))
            if number == TIMED:
                _tell_time((time.monotonic() - start) / (number + 1) * math.ceil(total / len(logits)), total)
    return GibbsEstimate(found.errors, found.near_ties, found.sure, plan)


def _inputs(gaussian: Gaussian, X: Values) -> np.ndarray:
    """An array that the network takes: integers stay integers where it looks them up, and become floats elsewhere."""
    array = as_array(X, "X")
    if not array.ndim or not len(array):
        raise TrueriskError("X holds no examples; give an array of shape (n, features...).")
    if array.dtype.kind in "bu" and array.dtype.itemsize == 1:
        return as_inputs(array, "X")
    if array.dtype.kind == "f":
        return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    array = as_inputs(array, "X")
    try:
        with torch.no_grad():
            gaussian.module(torch.from_numpy(array[:2]))
        return array
    except Exception:  # layers refuse integers in their own ways; then they are numbers like any others
        return array.astype(np.float64)


def _labels(y: Values) -> np.ndarray:
    labels = as_labels(y, "y")
    check_not_negative(labels, "y")
    return labels


def _refuse_more_classes(labels: Tensor, logits: Tensor) -> None:
    if logits.ndim != 2:
        raise TrueriskError(f"the outputs are of shape {tuple(logits.shape)}, but must be (n, classes); reshape them.")
    high, classes = int(labels.max()), logits.shape[1]
    if classes < 2:
        raise TrueriskError(
            "the network has 1 output, which would always be the largest one; make it two logits, one for each class."
        )
    if high >= classes:
        raise TrueriskError(
            f"the label {high} is beyond the {classes} outputs of the network; labels must run from 0 to {classes - 1}."
        )


def _tell_time(seconds: float, total: int) -> None:
    """One line, if it will take long."""
    if seconds > LONG:
        progress.note(f"sampling {total:,} predictions takes about {progress.span(seconds)}; --draws sets the number.")


def draw_predictions(gaussian: Gaussian, X: Values, seed: int) -> np.ndarray:
    """One prediction for each example, by networks drawn from ``gaussian``: what was certified."""
    X = _inputs(gaussian, X)
    plan = replace(plan_draws(gaussian, X), passes=1)
    gaussian, X = at_the_head(gaussian, X)
    out = np.empty(len(X), dtype=np.int64)
    for rows, logits in drawn_logits(gaussian, X, seed, plan):
        out[rows.numpy()] = logits.argmax(dim=1).numpy()
    return out


def at_the_head(gaussian: Gaussian, X: np.ndarray) -> tuple[Gaussian, np.ndarray]:
    """The last layer and its inputs where only that layer is random; otherwise the network and its inputs."""
    head = find_head(gaussian)
    return (gaussian, X) if head is None else (head.restrict(gaussian), head.features(X))


def drawn_logits(gaussian: Gaussian, X: np.ndarray, seed: int, plan: DrawPlan) -> Iterator[tuple[Tensor, Tensor]]:
    """(rows, logits) of every chunk of trials; each chunk has its own stream of random numbers.

    Trials are numbered through all passes, so that small data still fills a chunk. A group never
    reaches into the next pass.
    """
    dtype = getattr(torch, plan.precision)
    forward = _forward(gaussian, plan.layered, dtype)
    order = torch.arange(plan.n * plan.passes) % plan.n
    chunks = order.split(plan.chunk) if plan.layered else order[: plan.n].split(plan.size) * plan.passes
    for number, rows in enumerate(chunks):
        with torch.no_grad():  # closed before the yield: a caller that stops midway must not leave gradients off
            logits = forward(as_input(X[rows.numpy()], dtype), _normal(seed, number, dtype))
        yield rows, logits


def _normal(seed: int, chunk: int, dtype: torch.dtype) -> Normal:
    """Standard normals from numpy: three times as fast in float64 as torch's, the same on any machine."""
    stream = np.random.Generator(np.random.SFC64([seed, chunk]))
    return lambda shape: torch.from_numpy(stream.standard_normal(shape)).to(dtype)


def _forward(gaussian: Gaussian, layered: bool, dtype: torch.dtype) -> Callable[[Tensor, Normal], Tensor]:
    module, mean, std = _cast(gaussian, dtype)
    if layered:
        network = StochasticNetwork(module, exact=True)

        def layered_pass(x: Tensor, normal: Normal) -> Tensor:
            try:
                return network(x, mean, std, normal)
            except NotPerExample as error:
                raise TrueriskError(f"not every example can have a drawn network of its own ({error}).") from error

        return layered_pass

    def whole(x: Tensor, normal: Normal) -> Tensor:
        drawn = {name: mean[name] + std[name] * normal(tuple(mean[name].shape)) for name in mean}
        return functional_call(module, drawn, (x,))

    return whole


def _cast(gaussian: Gaussian, dtype: torch.dtype) -> tuple[nn.Module, dict[str, Tensor], dict[str, Tensor]]:
    """A copy of the network, the means and the standard deviations in ``dtype``."""
    mean = {name: value.to(dtype) for name, value in gaussian.mean.items()}
    std = {name: value.to(dtype) for name, value in gaussian.std.items()}
    return copy.deepcopy(gaussian.module).to(dtype), mean, std


def _numbers_per_example(gaussian: Gaussian, X: np.ndarray, precision: str) -> int | None:
    """Random numbers that one example takes layer by layer; None where that can't be exact."""
    dtype = getattr(torch, precision)
    x = as_input(X[:3], dtype)
    count = 0

    def counting(shape: tuple[int, ...]) -> Tensor:
        nonlocal count
        count += math.prod(shape)
        return torch.zeros(shape, dtype=dtype)

    try:
        module, mean, std = _cast(gaussian, dtype)
        network = StochasticNetwork(module, exact=True)
        network.probe(x, mean, std)
        network(x, mean, std, counting)
    except NotPerExample:
        return None
    return max(1, count // len(x))


def _precision(module: nn.Module, X: np.ndarray) -> str:
    """float64, unless the network itself insists on float32."""
    try:
        with torch.no_grad():
            out = copy.deepcopy(module).double()(as_input(X[:2], torch.float64))
        return "float64" if out.dtype == torch.float64 else "float32"
    except Exception:  # layers complain in their own ways; then float32 it is
        return "float32"
