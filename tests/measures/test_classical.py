"""Classical bounds on networks: whom they cover and refuse, what rescaling does to them, and that they hold."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from measures.cases import CASES, build
from torch import nn

import truerisk
from truerisk.data import Data
from truerisk.measures import BOUNDS, Subject, measure

ANYWHERE = {"float-count", "vc", "path-norm-root"}
CHAINS = {"spectral-covering", "spectral-covering-init"}
DENSE = {"compression"}
RELU_CHAINS = {"frobenius-doubling", "frobenius-root", "row-sums-root", "spectral-pac-bayes"}
ONE_HIDDEN = {"unit-capacity-impact"}


def bounds(module, data, init=None):
    return measure(module, data, init, only=list(BOUNDS))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mlp", ANYWHERE | CHAINS | RELU_CHAINS | DENSE),
        ("mlp without biases", ANYWHERE | CHAINS | RELU_CHAINS | DENSE | ONE_HIDDEN),
        ("linear", ANYWHERE | CHAINS | RELU_CHAINS | DENSE),
        ("convnet", ANYWHERE | CHAINS),
        ("residual", ANYWHERE),
    ],
)
def test_each_network_gets_the_bounds_whose_theorems_cover_it(name, expected, images):
    found = bounds(build(name), images, build(name, 1))
    assert set(found.bounds) == expected
    assert set(found.skipped) == set(BOUNDS) - expected
    assert all(math.isfinite(bound.value) and bound.value > 0.5 for bound in found.bounds.values())
    assert all(reason.endswith(".") for reason in found.skipped.values())


def test_an_mlp_without_init_gets_at_least_eight(images):
    found = bounds(build("mlp"), images)
    assert len(found.bounds) >= 8
    assert "initialization" in found.skipped["spectral-covering-init"]
    assert all(bound.vacuous and bound.orders > 0 for bound in found.bounds.values())


def test_reasons(images):
    convnet = bounds(build("convnet"), images).skipped
    assert "max_pool2d" in convnet["frobenius-root"]
    assert "fully connected" in convnet["compression"]
    residual = bounds(build("residual"), images).skipped
    assert all("add" in residual[name] for name in RELU_CHAINS | CHAINS - {"spectral-covering-init"})
    smooth = bounds(nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Tanh(), nn.Linear(5, 3)).double(), images)
    assert set(smooth.bounds) == {"float-count", "spectral-covering"}
    assert "tanh" in smooth.skipped["vc"]
    assert "tanh" in smooth.skipped["path-norm-root"]
    assert "ReLUs alone" in smooth.skipped["frobenius-root"]


def test_constant_networks_are_refused(images):
    module = build("mlp without biases")
    with torch.no_grad():
        module[-1].weight.zero_()
    skipped = bounds(module, images).skipped
    assert all("constant" in skipped[name] for name in ("frobenius-root", "row-sums-root", "path-norm-root"))


@pytest.mark.parametrize("name", ["mlp without biases", "convnet"])  # together they have all bounds
def test_declared_invariance(name, images):
    module = build(name)
    x = torch.from_numpy(images.X[:1]).double()
    folded = Subject(module, images).module
    symmetry = truerisk.find_symmetry(folded, x)
    moved = symmetry.rescale(folded, symmetry.random(std=1.0, seed=3))
    init = build(name, 1)
    before, after = (
        bounds(folded, images, Subject(init, images).module),
        bounds(moved, images, Subject(init, images).module),
    )
    assert set(before.bounds) == set(after.bounds)
    for bound in before.bounds:
        change = abs(before.bounds[bound].orders - after.bounds[bound].orders)
        if BOUNDS[bound].invariant:
            assert before[bound] == pytest.approx(after[bound], rel=1e-6), bound
        else:
            assert change > 0.01, bound


def fitted(module, data, steps, rate=0.01):
    """Trained on everything, full batches."""
    X, y = torch.from_numpy(data.X).double(), torch.from_numpy(data.y)
    optimizer = torch.optim.Adam(module.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(module(X), y).backward()
        optimizer.step()
    return module.eval()


@pytest.mark.parametrize("name", CASES)
def test_random_labels(name, images):
    """Labels without meaning, fitted as well as possible: the true risk is 2/3, and no bound is below."""
    rng = np.random.default_rng(5)
    data = Data("noise", images.X, rng.integers(0, 3, size=60), 3)
    init = build(name)
    module = fitted(build(name).train(), data, 30)
    found = bounds(module, data, init)
    assert found.bounds
    assert all(bound.value >= 2 / 3 for bound in found.bounds.values())


def noisy_line(rng, n, noise):
    """x = -1 or 1, the label its sign, flipped with probability ``noise``."""
    x = rng.choice([-1.0, 1.0], size=(n, 1))
    flipped = rng.uniform(size=n) < noise
    return Data("line", x.astype(np.float32), ((x[:, 0] > 0) ^ flipped).astype(np.int64), 2)


@pytest.mark.parametrize("noise", [0.05, 0.5])
def test_a_known_distribution(noise):
    """A linear classifier on a line, 20,000 examples: its true risk is known, bounds say something and hold.

    With noise 1/2 any classifier has risk 1/2. Fixed seeds; each bound adds several standard deviations (.0035) of the
    training error to it.
    """
    rng = np.random.default_rng(7)
    for _ in range(3):
        data = noisy_line(rng, 20_000, noise)
        torch.manual_seed(0)
        module = fitted(nn.Linear(1, 2).double(), data, 30, rate=0.1)
        with torch.no_grad():
            right = module(torch.tensor([[-1.0], [1.0]], dtype=torch.float64)).argmax(dim=1).tolist()
        truth = np.mean([noise if guess == label else 1 - noise for guess, label in zip(right, (0, 1), strict=True)])
        found = bounds(module, data)
        values = {name: bound.value for name, bound in found.bounds.items()}
        assert all(value >= truth for value in values.values())
        if noise < 0.1:
            useful = {"vc", "float-count", "frobenius-root", "frobenius-doubling", "row-sums-root", "path-norm-root"}
            assert useful <= {name for name, value in values.items() if value < 0.5}


def test_bounds_fall_with_more_examples_and_larger_delta(images):
    module, init = build("mlp without biases"), build("mlp without biases", 1)
    more = Data("more", np.tile(images.X, (16, 1, 1, 1)), np.tile(images.y, 16), 3)
    few, many = bounds(module, images, init), bounds(module, more, init)
    subject = Subject(module, images, init)
    strict = {name: entry(subject, 1e-9) for name, entry in BOUNDS.items()}
    for name in few.bounds:
        assert many[name] < few[name], name
        assert strict[name].value > few[name], name


def test_deep_networks_do_not_overflow():
    """Products of norms beyond the range of floats, in a direction that the inputs don't have: finite logarithms."""
    layers = list(itertools.chain(*((nn.Linear(8, 8, bias=False), nn.ReLU()) for _ in range(60))))
    module = nn.Sequential(*layers, nn.Linear(8, 3, bias=False)).double()
    with torch.no_grad():
        for layer in layers[::2]:
            layer.weight.copy_(torch.tensor([1.0] * 7 + [1e7], dtype=torch.float64).diag())
    X = np.random.default_rng(0).uniform(size=(20, 8)).astype(np.float32)
    X[:, 7] = 0.0
    found = bounds(module, Data("d", X, np.arange(20) % 3, 3))
    for name in (*RELU_CHAINS, "spectral-covering", "path-norm-root"):
        bound = found.bounds[name]
        assert bound.value == math.inf, name
        assert 415 < bound.orders < 450, name  # the norms alone are 420 orders
        assert found.record()["bounds"], name


def test_records_are_plain(images):
    bound = measure(build("mlp"), images, only=["frobenius-root"]).bounds["frobenius-root"]
    record = bound.record()
    assert record["vacuous"]
    assert record["orders_too_large"] == pytest.approx(math.log10(bound.value), rel=1e-6)
    assert {"margin", "loss", "capacity", "confidence"} <= set(record["parts"])
    assert replace(bound, value=0.3, log=math.log(0.3)).orders == 0.0
