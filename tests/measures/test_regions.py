"""Linear regions: pieces along lines, patterns of the sample, the bound of the architecture."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from measures.cases import CASES, build
from torch import nn

import truerisk
from truerisk.data import Data
from truerisk.measures import MEASURES, NotDefined, Subject
from truerisk.measures.families import regions
from truerisk.measures.kinks import kinks
from truerisk.measures.passes import network


def tents(k: int) -> nn.Sequential:
    """tri(tri(...)) with tri(x) = relu(relu(2x) - relu(4x - 2)), and a second output that is 0."""
    layers: list[nn.Module] = []
    for _ in range(k):
        split, join = nn.Linear(1, 2).double(), nn.Linear(2, 1, bias=False).double()
        split.weight.data, split.bias.data = torch.tensor([[2.0], [4.0]]).double(), torch.tensor([0.0, -2.0]).double()
        join.weight.data = torch.tensor([[1.0, -1.0]]).double()
        layers += [split, nn.ReLU(), join, nn.ReLU()]
    last = nn.Linear(1, 2, bias=False).double()
    last.weight.data = torch.tensor([[1.0], [0.0]]).double()
    return nn.Sequential(*layers, last)


UNIT = Data("unit", np.array([[0.0], [1.0]]), [0, 1], 2)


@pytest.mark.parametrize("k", range(1, 8))
def test_a_tent_in_a_tent_doubles_the_pieces(k):
    assert MEASURES["linear-pieces"](Subject(tents(k), UNIT)).value == 2**k


def test_one_hidden_layer_has_a_piece_for_each_unit():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 9), nn.ReLU(), nn.Linear(9, 2)).double()
    net[0].bias.data = -net[0].weight.data[:, 0] * torch.linspace(0.1, 0.9, 9, dtype=torch.float64)
    assert MEASURES["linear-pieces"](Subject(net, UNIT)).value == 10
    net[2].weight.data[:, 4] = 0  # a unit that nothing listens to bends nothing
    assert MEASURES["linear-pieces"](Subject(net, UNIT)).value == 9


def test_the_mean_comes_with_its_error(images):
    subject = Subject(build("mlp"), images)
    value = MEASURES["linear-pieces"](subject)
    others = [MEASURES["linear-pieces"](Subject(build("mlp"), images, seed=k)).value for k in range(1, 13)]
    spread = float(np.std(others, ddof=1))  # of 12 values: within a factor of 2.5 but for 1 in 10,000
    assert value.error / 2.5 < spread < 2.5 * value.error


def slow_pieces(f, start, end):
    """Bisection until f is affine on a part of the line; the parts that never become so hold a bend each."""

    def affine(a, b):
        t = torch.linspace(a, b, 9, dtype=torch.float64).reshape(-1, *[1] * start.ndim)
        values = f((1 - t) * start + t * end)
        line = values[:1] + (values[-1:] - values[:1]) * torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
        return float((values - line).abs().max()) < 1e-14

    parts, bends = [(0.0, 1.0)], []
    while parts:
        a, b = parts.pop()
        if b - a < 1e-5:
            bends.append(a)
        elif not affine(a, b):
            middle = (a + b) / 2 + 1e-3 * (b - a)
            parts += [(a, middle), (middle, b)]
    bends.sort()
    return 1 + sum(1 for k, t in enumerate(bends) if k == 0 or t - bends[k - 1] > 3e-5)


@pytest.mark.parametrize("name", CASES)
def test_pieces_against_bisection(name, images):
    """Convolutions, maxima and residual blocks included (there, on a small part of the lines); in small chunks, too."""
    net = build(name)
    subject = Subject(net, images)
    starts, ends = torch.from_numpy(images.X[:3]).double(), torch.from_numpy(images.X[10:13]).double()
    ends = torch.lerp(starts, ends, {"residual": 0.02, "convnet": 0.3}.get(name, 1.0))
    with torch.no_grad():
        expected = [slow_pieces(net, *pair) for pair in zip(starts, ends, strict=True)]
    assert name == "linear" or max(expected) > 3
    for budget in (2**30, 10**5):
        assert regions.pieces(network(subject), kinks(subject), starts, ends, budget).tolist() == expected


@pytest.mark.parametrize(
    "pool",
    [
        nn.MaxPool2d(2),
        nn.MaxPool2d(3, 2, padding=1),
        nn.MaxPool2d((2, 3), stride=(1, 2)),
        nn.MaxPool2d(3, 3, ceil_mode=True),
        nn.MaxPool2d(2, 1, dilation=2),
        nn.MaxPool1d(3, 2),
        nn.MaxPool3d(2, padding=1),
    ],
)
def test_windows_of_a_maximum(pool):
    axes = int(type(pool).__name__[-2])
    x = torch.randn(2, 3, *[8] * axes, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    net = nn.Sequential(pool, nn.Flatten(), nn.Linear(pool(x)[0].numel(), 2))
    subject = Subject(net, Data("x", x.numpy(), [0, 1], 2))
    (kink,) = kinks(subject)
    padded = torch.cat([x.flatten(1), torch.full((2, 1), -torch.inf, dtype=torch.float64)], dim=1)
    assert torch.equal(padded[:, kink.windows].amax(2), pool(x).flatten(1))


def test_a_maximum_bends_where_the_largest_changes():
    """max(t, 1 - t, 0.6) on [0, 1]: the crossing of the first two, at 0.5, lies below the third."""
    net = nn.Sequential(nn.Linear(1, 3), nn.Unflatten(1, (1, 3)), nn.MaxPool1d(3), nn.Flatten(), nn.Linear(1, 2))
    net[0].weight.data, net[0].bias.data = torch.tensor([[1.0], [-1.0], [0.0]]), torch.tensor([0.0, 1.0, 0.6])
    subject = Subject(net.double(), UNIT)
    assert MEASURES["linear-pieces"](subject).value == 3


def test_what_is_not_piecewise_linear_is_refused(images):
    tanh = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Tanh(), nn.Linear(5, 3))

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(64, 3), nn.Linear(64, 3)

        def forward(self, x):
            return self.a(x.flatten(1)) * F.relu(self.b(x.flatten(1)))

    for net, word in ((tanh, "tanh"), (Gate(), "mul")):
        with pytest.raises(NotDefined, match=word):
            MEASURES["linear-pieces"](Subject(net, images))
    for net in (tanh, build("convnet"), build("residual")):
        with pytest.raises(NotDefined, match="chains"):
            MEASURES["region-bound"](Subject(net, images))


def test_a_constant_factor_is_linear():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.factor = nn.Linear(1, 2), nn.Parameter(torch.tensor([2.0, 3.0]))

        def forward(self, x):
            return self.factor * F.relu(self.a(x) - 0.1) / 2

    net = Scaled().double()
    net.a.weight.data, net.a.bias.data = torch.ones(2, 1).double(), torch.tensor([0.0, -0.5]).double()
    assert MEASURES["linear-pieces"](Subject(net, UNIT)).value == 3


def test_too_large_to_count(images, monkeypatch):
    """A line is refused by what it would take: a quarter of 21 units, one pass for two kinks, 903 multiplications."""
    subject = Subject(build("mlp"), images)
    each = 21 / 4 * 1 * (64 * 12 + 12 * 9 + 9 * 3)
    monkeypatch.setattr(regions, "WORK", 7.5 * each)
    assert regions._segments(subject, kinks(subject)) == 7
    monkeypatch.setattr(regions, "LARGEST", 0.99 * each)
    with pytest.raises(NotDefined, match="too many"):
        MEASURES["linear-pieces"](subject)


def test_patterns_against_loops(images):
    net = build("mlp")
    repeated = Data("repeated", np.concatenate([images.X, images.X[:7]]), np.arange(67) % 3, 3)
    seen = set()
    with torch.no_grad():
        for x in torch.from_numpy(repeated.X).double():
            one = net[1](x.flatten())
            two = net[3](torch.relu(one))
            seen.add(tuple(float(z) > 0 for z in [*one, *two]))
    assert 1 < len(seen) <= 60
    for budget in (2**30, 10**5):
        assert MEASURES["activation-patterns"](Subject(net, repeated, budget=budget)).value == len(seen)


def test_a_linear_network_has_no_patterns_and_one_region(images):
    subject = Subject(build("linear"), images)
    assert MEASURES["linear-pieces"](subject).value == 1
    assert MEASURES["region-bound"](subject).value == 1
    with pytest.raises(NotDefined, match="no ReLUs"):
        MEASURES["activation-patterns"](subject)


def slow_bound(inputs, widths):
    """Serra et al. by enumeration."""
    total = 0
    for j in itertools.product(*[range(n + 1) for n in widths]):
        caps = [inputs] + [n - k for n, k in zip(widths, j, strict=True)]
        if all(j[k] <= min([*caps[: k + 1], widths[k]]) for k in range(len(j))):
            total += math.prod(math.comb(n, k) for n, k in zip(widths, j, strict=True))
    return total


@pytest.mark.parametrize(
    ("inputs", "widths"), [(1, [5]), (2, [6]), (3, [4, 3]), (2, [3, 5, 4]), (9, [4, 2, 5]), (4, [1, 6]), (5, [7, 7, 2])]
)
def test_region_bound_against_enumeration(inputs, widths):
    assert math.exp(regions.log_regions(inputs, widths)) == pytest.approx(slow_bound(inputs, widths), rel=1e-10)


def test_region_bound_in_closed_form():
    assert math.exp(regions.log_regions(3, [10])) == pytest.approx(sum(math.comb(10, j) for j in range(4)))
    assert regions.log_regions(1, [5] * 40) == pytest.approx(40 * math.log(6))
    assert regions.log_regions(50, [20]) == pytest.approx(20 * math.log(2))
    assert math.isfinite(regions.log_regions(784, [500, 500, 500]))


def test_no_line_has_more_pieces_than_regions_can_be():
    for k in (1, 2, 3):
        subject = Subject(tents(k), UNIT)
        assert MEASURES["linear-pieces"](subject).value <= MEASURES["region-bound"](subject).value * (1 + 1e-12)


@pytest.mark.parametrize("name", CASES)
def test_a_rescaling_moves_none(name, images, monkeypatch):
    monkeypatch.setattr(regions, "SEGMENTS", 1)
    net = truerisk.fold_batch_norm(build(name))
    sym = truerisk.find_symmetry(net, torch.zeros(1, 1, 8, 8, dtype=torch.float64))
    twin = sym.rescale(net, sym.random(std=1.0, seed=0))
    one, other = Subject(net, images), Subject(twin, images)
    for entry in MEASURES.values():
        if entry.family != "regions":
            continue
        assert entry.invariant
        try:
            expected = entry(one).value
        except NotDefined:
            with pytest.raises(NotDefined):
                entry(other)
        else:
            assert entry(other).value == pytest.approx(expected, rel=1e-6)
