"""Every method on a known distribution: how often is the true risk above the bound?

Two Gaussian blobs on a line with 15 % label noise. A network here is a linear layer on one input: it answers 1 on one
side of a threshold, so that its true risk has a closed form. Each method makes 1,000 certificates of small samples.
If each fails with probability exactly delta, more than ``LIMIT`` of them fail with probability 1e-4: the rate of false
alarms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn

import truerisk
from truerisk.bounds import (
    clopper_pearson,
    clopper_pearson_lower,
    pac_bayes_kl,
    pac_bayes_kl_lower,
    progressive,
    progressive_t,
)
from truerisk.certificates.methods import METHODS
from truerisk.certificates.methods.description_length import _decoded
from truerisk.pacbayes import draw, drawn_network
from truerisk.seeds import derive

pytestmark = pytest.mark.long

NOISE, SHIFT, DELTA, REPEATS = 0.15, 1.0, 0.2, 1000
LIMIT = int(binom.isf(1e-4, REPEATS, DELTA))


def sample(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 1)) + SHIFT * (2 * y[:, None] - 1)
    return X.astype(np.float32), np.where(rng.random(n) < NOISE, 1 - y, y)


def line() -> nn.Module:
    return nn.Linear(1, 2)


def phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def true_risk(slope: float, offset: float) -> float:
    """Of the rule "answer 1 where slope * x + offset > 0" (a tie has probability 0)."""
    if slope == 0:
        return 0.5
    cut = -offset / slope
    ones = (1 - phi(cut + SHIFT), 1 - phi(cut - SHIFT))  # P(x > cut) for clean labels 0 and 1
    if slope < 0:
        ones = (1 - ones[0], 1 - ones[1])
    wrong = 0.5 * ones[0] + 0.5 * (1 - ones[1])
    return wrong * (1 - NOISE) + (1 - wrong) * NOISE


def test_the_closed_form_is_right():
    rng = np.random.default_rng(0)
    X, y = sample(rng, 400_000)
    for slope, offset in ((1.0, 0.0), (-2.0, 0.5), (0.7, -1.2)):
        seen = ((slope * X[:, 0] + offset > 0) != y).mean()
        assert true_risk(slope, offset) == pytest.approx(seen, abs=4 * 0.5 / math.sqrt(400_000))


def network_risk(network: nn.Module) -> float:
    weight, bias = (p.detach().double().numpy() for p in network.parameters())
    return true_risk(float(weight[1, 0] - weight[0, 0]), float(bias[1] - bias[0]))


def gaussian_risk(gaussian: truerisk.Gaussian, points: int = 61) -> float:
    """Of weights drawn anew for each prediction: slope and offset are independent Gaussians (quadrature over both)."""
    mean, std = gaussian.mean, gaussian.std
    nodes, heights = np.polynomial.hermite_e.hermegauss(points)
    heights = heights / heights.sum()

    def spread(name: str) -> tuple[np.ndarray, np.ndarray]:
        m, s = mean[name].flatten(), std[name].flatten()
        return float(m[1] - m[0]) + float((s[0] ** 2 + s[1] ** 2).sqrt()) * nodes, heights

    (slopes, p), (offsets, q) = spread("weight"), spread("bias")
    return sum(u * v * true_risk(a, b) for a, u in zip(slopes, p, strict=True) for b, v in zip(offsets, q, strict=True))


def certified_risk(cert: truerisk.Certificate) -> float:
    """The true risk of exactly the predictor that was certified."""
    method, evidence = cert.record["method"], cert.evidence
    if method in ("pac-bayes-kl", "pac-bayes-around", "recursive"):
        return gaussian_risk(evidence.posterior)
    if method == "single-draw":
        weights = draw(evidence.posterior, cert.frozen.seed("single draw"))
        return network_risk(drawn_network(evidence.posterior, weights))
    if method == "progressive":
        blocks = cert.record["progressive"]["blocks"]
        names = ["network"] + [f"network-{j:02d}" for j in range(2, len(blocks) + 1)]
        risks = [network_risk(evidence.networks[name]) for name in names]
        return float(np.average(risks, weights=[block["n"] for block in blocks]))
    if method == "description-length":
        return network_risk(_decoded(evidence))
    special = {"pick-to-learn": "network-final", "disagreement": "network-target"}
    return network_risk(evidence.networks[special.get(method, "network")])


@pytest.fixture
def light(monkeypatch):
    """Leave out what costs time and is tested elsewhere: structure checks, rescaling, most Monte Carlo draws."""
    for place in ("trainer", "material"):
        place = f"truerisk.certificates.workshop.{place}.check_network"
        monkeypatch.setattr(place, lambda module, X, classes: module.eval())
    for place in ("gaussians", "chain"):
        monkeypatch.setattr(f"truerisk.certificates.workshop.{place}.followed", lambda *_: None)
    monkeypatch.setattr("truerisk.pacbayes.monte_carlo.TRIALS", 3000)


def trained(data: tuple[np.ndarray, np.ndarray]) -> nn.Module:
    """A line that has seen all of ``data``."""
    X, y = torch.from_numpy(data[0]), torch.from_numpy(data[1])
    net = line()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=5)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(net(X), y)
        value.backward()
        return value

    optimizer.step(loss)
    return net


def certificates(method: str, repeats: int = REPEATS, **both: bool) -> Iterator[truerisk.Certificate]:
    rng = np.random.default_rng(derive(0, method))
    for seed in range(repeats):
        data = sample(rng, N)
        more = CASES[method] | both
        if method == "disagreement":
            more["unlabelled"] = sample(rng, N)[0]
        build = trained(data) if method in ("disagreement", "pac-bayes-around") else line
        yield truerisk.certify(
            build, data, method=method, delta=DELTA, epochs=1, seed=seed, trust_factory=build is line, **more
        )


def failures(method: str, bound: Callable[[truerisk.Certificate], float] = lambda cert: cert.risk_bound) -> int:
    """How often the true risk is above what ``bound`` makes of a certificate."""
    return sum(certified_risk(cert) > bound(cert) for cert in certificates(method))


N = 80
CASES: dict[str, dict[str, Any]] = {
    "hold-out": {"prior": "split:0.5"},
    "progressive": {"prior": "split:0.5", "options": {"blocks": 4, "expect": 0.25}},
    "pac-bayes-kl": {"prior": "init"},
    "single-draw": {"prior": "init"},
    "pick-to-learn": {"prior": "split:0.5"},
    "recursive": {"prior": "init"},
    "description-length": {"prior": "init"},
    "pac-bayes-around": {"prior": "zero"},
    "disagreement": {"prior": "split:0.5"},
}


def test_no_method_is_left_out():
    twins = {"single-draw-around"}  # single-draw with the evidence of pac-bayes-around
    assert set(CASES) | twins == set(METHODS)


@pytest.mark.parametrize("method", CASES)
def test_the_true_risk_is_rarely_above_the_bound(light, method):
    assert failures(method) <= LIMIT


@pytest.mark.parametrize("method", [method for method in CASES if not METHODS[method].above_only])
def test_the_true_risk_is_rarely_outside_both_ends(light, method):
    """Both ends at once: a failure of either counts. The lower end alone is tight only where the upper end is."""
    found = [(certified_risk(cert), cert) for cert in certificates(method, two_sided=True)]
    assert all(cert.risk_lower <= cert.risk_bound for _, cert in found)
    assert sum(not cert.risk_lower <= risk <= cert.risk_bound for risk, cert in found) <= LIMIT


def test_planted_bugs_of_the_lower_end_are_seen(light):
    found = [(certified_risk(c), c.record["counts"]["floor"], c.record["n_certify"]) for c in certificates("hold-out")]

    def failed(bound: Callable[[int, int], float], limit: float) -> bool:
        return sum(risk < bound(errors, n) for risk, errors, n in found) > limit

    def outside(share: float) -> int:
        ends = [(clopper_pearson_lower(k, n, share), clopper_pearson(k, n, share)) for _, k, n in found]
        return sum(not low <= risk <= high for (low, high), (risk, _, _) in zip(ends, found, strict=True))

    few = 0.05
    limit = int(binom.isf(1e-4, REPEATS, few))
    assert not failed(lambda k, n: clopper_pearson_lower(k, n, few), limit)
    assert failed(lambda k, n: clopper_pearson_lower(k, n, 3 * few), limit), "a share three times too large"
    assert failed(lambda k, n: clopper_pearson_lower(2 * k, 2 * n, few), limit), "n doubled"
    assert not failed(lambda k, n: pac_bayes_kl_lower(k / n, 0.0, n, few), limit)
    assert failed(lambda k, n: pac_bayes_kl_lower(k / n, 0.0, 16 * n, few), limit), "n times 16, PAC-Bayes"
    assert outside(DELTA / 2) <= LIMIT < outside(DELTA), "each end took all of delta"


def test_planted_bugs_are_seen(light):
    """Hold-out is exact, so it sees each of them. A learnt network is a posterior that is its own prior: KL 0."""
    found = [(certified_risk(c), c.record["counts"]["floor"], c.record["n_certify"]) for c in certificates("hold-out")]

    def failed(bound: Callable[[int, int], float]) -> int:
        return sum(risk > bound(errors, n) for risk, errors, n in found)

    # At delta 0.2 a doubled n is hard to tell; at 0.05 it fails two to three times as often as it may.
    few = 0.05
    limit = int(binom.isf(1e-4, REPEATS, few))
    assert failed(lambda k, n: clopper_pearson(k, n, DELTA)) >= REPEATS * DELTA / 2  # not less: 1e-12
    assert failed(lambda k, n: clopper_pearson(k, n, 2 * DELTA)) > LIMIT, "delta spent twice"
    assert failed(lambda k, n: clopper_pearson(k, n, few)) <= limit
    assert failed(lambda k, n: clopper_pearson(2 * k, 2 * n, few)) > limit, "n doubled"
    assert failed(lambda k, n: pac_bayes_kl(k / n, 0.0, n, few)) <= limit
    assert failed(lambda k, n: pac_bayes_kl(k / n, 0.0, 16 * n, few)) > limit, "n times 16, PAC-Bayes"
    assert failed(lambda k, n: progressive(k, n, few, progressive_t(0.25, n, few))) <= limit
    assert failed(lambda k, n: progressive(16 * k, 16 * n, few, progressive_t(0.25, 16 * n, few))) > limit, "n times 16"
