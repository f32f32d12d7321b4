"""Path norms against a walk over every single path."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from measures import plain
from measures.cases import build, mlp
from measures.subjects import labelled, subject
from torch import nn

import truerisk
from truerisk.measures import MEASURES, NotDefined, Subject
from truerisk.measures.registry import key_of


def small() -> Subject:
    module = nn.Sequential(nn.AvgPool2d(4), mlp(4, 3, 2, 3)).double()
    with torch.no_grad():
        for name, p in module.named_parameters():
            if name.endswith("bias"):
                p.abs_()
    return Subject(module, labelled(module))


def every_path(module: nn.Sequential, power: float) -> float:
    """Sum over all paths of |product|^power, one path after the other; each pixel is 1/16 of a mean over its window."""
    layers = [part for part in module[1] if isinstance(part, nn.Linear)]
    ws = [part.weight.detach().numpy() for part in layers]
    bs = [part.bias.detach().numpy() for part in layers]
    total = 0.0
    for start in range(len(ws)):  # a path begins at a pixel (start 0) or at the bias of some layer
        sizes = [len(w) for w in ws[start:]]
        for units in itertools.product(*(range(size) for size in sizes)):
            rest = math.prod(ws[start + 1 + i][b, a] for i, (a, b) in enumerate(itertools.pairwise(units)))
            total += abs(bs[start][units[0]] * rest) ** power
            if start == 0:
                for pixel in range(64):
                    pooled = 2 * (pixel // 8 // 4) + pixel % 8 // 4
                    total += abs(ws[0][units[0], pooled] / 16 * rest) ** power
    return total


def test_against_every_path():
    found = small()
    gamma = plain.gamma(found.logits.numpy(), found.data.y)
    squares, absolute = every_path(found.module, 2), every_path(found.module, 1)
    expected = {
        "path-norm": squares,
        "path-norm-over-margin": squares / gamma**2,
        "path-norm-l1": absolute,
        "path-norm-l1-over-margin": absolute / gamma,
        "median-margin-over-path-norm": sorted(plain.margins(found.logits.numpy(), found.data.y))[29] / absolute,
    }
    for name, number in expected.items():
        assert MEASURES[name](found).value == pytest.approx(number, rel=1e-10), name


@pytest.mark.parametrize("case", ["mlp", "mlp without biases", "linear"])
def test_one_pass_with_squared_weights_on_ones(case):
    """The published recipe, where it is exact: no batch norm, no maximum over a window."""
    module = build(case)
    with torch.no_grad():
        for p in module.parameters():
            p.square_()
        total = float(module(torch.ones(1, 1, 8, 8, dtype=torch.float64)).sum())
    assert MEASURES["path-norm"](subject(case)).value == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("pool", ["max", "mean"])
def test_with_pooling_the_path_norm_is_not_that_pass(pool):
    """One hidden layer and windows of 4: every path written out, against the published recipe.

    A maximum over a window counts as a sum, so the recipe is too small; the 1/4 of a mean is squared like any weight,
    so there the recipe is 4 times as large.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        kind = nn.MaxPool2d(2) if pool == "max" else nn.AvgPool2d(2)
        net = nn.Sequential(nn.Conv2d(1, 2, 1, bias=False), nn.ReLU(), kind, nn.Flatten(), nn.Linear(32, 3, bias=False))
    net = net.double()
    first, last = net[0].weight.flatten().tolist(), net[4].weight.reshape(3, 2, 16).tolist()
    step = 1.0 if pool == "max" else 1 / 4
    paths = [
        first[channel] * step * last[out][channel][place]
        for out in range(3) for channel in range(2) for place in range(16) for _entry_of_window in range(4)
    ]  # fmt: skip
    exact = sum(path**2 for path in paths)
    found = Subject(net, labelled(net))
    with torch.no_grad():
        for p in net.parameters():
            p.square_()
        recipe = float(net(torch.ones(1, 1, 8, 8, dtype=torch.float64)).sum())
    assert MEASURES["path-norm"](found).value == pytest.approx(exact, rel=1e-10)
    assert recipe == pytest.approx(exact / 4 if pool == "max" else exact * 4, rel=1e-10)
    assert "without pooling" in MEASURES["path-norm"].equation


@pytest.mark.parametrize(("name", "p", "power"), [("path-norm-l1", 1, 1), ("path-norm-l2-squared", 2, 2)])
def test_names_and_meanings_say_p(name, p, power):
    """The function of the same name, with this p and to this power."""
    found = subject("mlp")
    entry = MEASURES[key_of(name)]
    norm = truerisk.path_norm(found.module, found.example, p=p)
    assert entry(found).value == pytest.approx(norm**power, rel=1e-12)
    assert f"p = {p}" in entry.meaning
    assert truerisk.path_norm(found.module, found.example) == truerisk.path_norm(found.module, found.example, p=1)
    every = [each for each in MEASURES.values() if "path-norm" in each.name]
    assert len(every) == 5
    assert all(("-l1" in each.name) == ("p = 1" in each.meaning) for each in every)
    assert all(("-l2-squared" in each.name) == ("p = 2" in each.meaning) for each in every)


def test_large_path_norms_keep_their_logarithm():
    """Public code overflows: 60 layers, 64 wide, of weights -1000 (which give 0 for every input), in float32."""
    steps: list[nn.Module] = [nn.Flatten()]
    for width in [64] * 60 + [3]:
        layer = nn.Linear(64, width, bias=False)
        layer.weight.data.fill_(-1e3)
        steps += [layer, nn.ReLU()]
    module = nn.Sequential(*steps[:-1])
    norm = MEASURES["path-norm"](Subject(module, labelled(module)))
    assert norm.value == math.inf
    assert norm.log == pytest.approx(math.log(3 * 64) + 60 * math.log(64) + 61 * math.log(1e6), rel=1e-12)


@pytest.mark.parametrize("name", ["path-norm", "path-norm-l1-over-margin", "median-margin-over-path-norm"])
def test_other_activations_are_a_reason(name):
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.Tanh(), nn.Linear(4, 3)).double()
    with pytest.raises(NotDefined, match="sum over paths"):
        MEASURES[name](Subject(module, labelled(module)))
