"""The risk of a posterior by Monte Carlo: drawn layer by layer, against drawing whole networks.

A trial is one independent draw of all weights. Layer by layer (local reparameterization) every example has its
own draw, so a pass over n examples is n trials. A network drawn as a whole and tested on all examples is one
trial: the errors of one network on many examples depend on one another. So is one tested on a single example,
chosen at random.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import torch
from torch.func import functional_call

from benchmarks.timing import Row, seconds
from truerisk.bounds import chernoff_upper
from truerisk.data import load
from truerisk.nets import mlp
from truerisk.pacbayes import Gaussian, fan_in_std, gibbs_risk, plan_draws
from truerisk.training import Plan, fit
from truerisk.words import bound

DELTA = 0.005  # the Monte Carlo share of delta = 0.05
REPEATS = 3


def rows() -> list[Row]:
    return [*_compare("784-100-10, random inputs", *_random(), 20), *_compare("64-100-10, digits", *_digits(), 40)]


def _random() -> tuple[Gaussian, np.ndarray, np.ndarray]:
    """Untrained weights, noise for inputs, and what the mean network answers for labels."""
    torch.manual_seed(0)
    module = mlp((1, 28, 28), 10, hidden=(100,)).eval()
    X = torch.rand(1000, 1, 28, 28)
    with torch.no_grad():
        y = module(X).argmax(dim=1)
    return Gaussian.around(module, fan_in_std(module, 0.1)), X.numpy(), y.numpy()


def _digits() -> tuple[Gaussian, np.ndarray, np.ndarray]:
    """A network trained on digits, with the width of a learnt prior."""
    data = load("digits")
    torch.manual_seed(0)
    module = mlp(data.input_shape, data.classes)
    fit(module, data, Plan(epochs=15, batch_size=32))
    return Gaussian.around(module, fan_in_std(module, 0.1)), data.X, data.y


def _compare(what: str, posterior: Gaussian, X: np.ndarray, y: np.ndarray, passes: int) -> list[Row]:
    plan = replace(plan_draws(posterior, X), passes=passes)
    assert plan.layered, "this network must be drawn layer by layer"
    n, ours, whole, single = len(X), [], [], []
    for repeat in range(REPEATS):
        ours.append(seconds(lambda seed=repeat: gibbs_risk(posterior, X, y, seed, plan)) / (n * passes))
        whole.append(seconds(lambda: whole_networks(posterior, X, y, 20)) / 20)
        single.append(seconds(lambda: whole_networks(posterior, X[:200], y[:200], 200, each=1)) / 200)
    best = min(ours)
    estimate = gibbs_risk(posterior, X, y, 0, plan)
    spent = f"upper bound at delta {DELTA:g} after the same {n * passes * best:.2g} s: "
    mine = f"{bound(estimate.upper(DELTA))} ({n * passes:,} trials, error rate {estimate.risk:.4f})"
    result = []
    for label, each, cost in (("all examples", n, min(whole)), ("one example", 1, min(single))):
        networks = max(2, round(n * passes * best / cost))
        rates = whole_networks(posterior, X, y, networks, each)
        upper = min(chernoff_upper(rates.mean(), networks, DELTA), empirical_bernstein(rates, DELTA))
        note = f"{spent}{mine}, theirs {bound(upper)} ({networks:,} networks, error rate {rates.mean():.4f})"
        opponent = f"whole networks on {label} each, functional_call, float32"
        result.append(Row(f"one trial of the Gibbs risk, {what}", opponent, best, cost, note))
        needed = networks_needed(estimate.risk, float(rates.var(ddof=1)), estimate.upper(DELTA))
        told = f"{needed:,} networks (their error rates vary as those of {networks:,} did) for {n * passes:,} trials"
        what_for = f"the same upper bound, {what}"
        result.append(Row(what_for, opponent, n * passes * best, needed * cost, told))
    return result


def networks_needed(mean: float, variance: float, target: float) -> int:
    """How many networks, with this mean and variance of their error rates, bring their upper bound to ``target``.

    The better of both bounds, by doubling and bisection: both fall with the number of networks. The mean is the same
    for both ways of drawing, so it is taken from the more exact one.
    """

    def upper(m: int) -> float:
        return min(chernoff_upper(mean, m, DELTA), bernstein(mean, variance, m, DELTA))

    high = 2
    while upper(high) > target:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if upper(middle) > target else (low, middle)
    return high


def whole_networks(
    posterior: Gaussian, X: np.ndarray, y: np.ndarray, draws: int, each: int | None = None
) -> np.ndarray:
    """Error rates of ``draws`` networks, each tested on ``each`` examples (all), as one would write it in torch."""
    torch.manual_seed(0)
    module, inputs, labels = copy.deepcopy(posterior.module), torch.from_numpy(X), torch.from_numpy(y)
    mean = {name: value.float() for name, value in posterior.mean.items()}
    std = {name: value.float() for name, value in posterior.std.items()}
    groups = torch.arange(len(y)).split(each or len(y))
    rates = np.empty(draws)
    with torch.no_grad():
        for i in range(draws):
            rows = groups[int(torch.randint(len(groups), ()))]  # any group: each trial has the same mean
            drawn = {name: mean[name] + std[name] * torch.randn_like(std[name]) for name in mean}
            wrong = functional_call(module, drawn, (inputs[rows],)).argmax(dim=1) != labels[rows]
            rates[i] = float(wrong.double().mean())
    return rates


def empirical_bernstein(rates: np.ndarray, delta: float) -> float:
    """Maurer and Pontil (2009, Theorem 4): uses that the rates of whole networks vary less than single errors."""
    return bernstein(float(rates.mean()), float(rates.var(ddof=1)), len(rates), delta)


def bernstein(mean: float, variance: float, m: int, delta: float) -> float:
    log = math.log(2 / delta)
    return mean + math.sqrt(2 * variance * log / m) + 7 * log / (3 * (m - 1))
