"""Widths of the prior layer by layer, against a search through the whole grid that imports nothing from the package."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.pacbayes import Gaussian, best_layer_scales, layer_groups, with_layer_scales

GRID = [2.0 ** (j / 2) for j in range(-12, 13)]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))


def pair(seed, spread=1.0):
    """A posterior and a prior with random means and widths, some far apart."""
    module, rng = network(), np.random.default_rng(seed)
    shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}

    def tensors(draw):
        return {name: torch.from_numpy(np.asarray(draw(shape))) for name, shape in shapes.items()}

    scales = dict(zip(shapes, rng.lognormal(0, spread, len(shapes)), strict=True))
    q = Gaussian(module, tensors(rng.standard_normal), tensors(lambda s: rng.lognormal(0, spread, s)))
    p = Gaussian(
        module, tensors(rng.standard_normal), {n: torch.full(s, scales[n]).double() for n, s in shapes.items()}
    )
    return q, p


def slow_kl(q, p, factors):
    """One weight at a time."""
    total = 0.0
    for name in q.mean:
        columns = (t.numpy().ravel() for t in (q.mean[name], q.std[name], p.mean[name], p.std[name]))
        for m, s, mu, sigma in zip(*columns, strict=True):
            sigma = sigma * factors[name]
            total += ((m - mu) ** 2 / sigma**2 + s**2 / sigma**2 - 1 - np.log(s**2 / sigma**2)) / 2
    return total


LAYERS = {"0.weight": 0, "0.bias": 0, "2.weight": 1}


@pytest.mark.parametrize("seed", range(6))
def test_no_point_of_the_grid_is_better(seed):
    q, p = pair(seed, spread=1.5)
    found = best_layer_scales(q, p, 8)
    kls = {
        choice: slow_kl(q, p, {name: GRID[choice[layer]] for name, layer in LAYERS.items()})
        for choice in itertools.product(range(25), repeat=2)
    }
    best = min(kls, key=kls.get)
    assert [j + 12 for j in found] == list(best)
    assert q.kl(with_layer_scales(p, found)) == pytest.approx(kls[best], rel=1e-10)
    assert q.kl(with_layer_scales(p, [0, 0])) == q.kl(p)


@pytest.mark.parametrize(("width", "end"), [(1e-4, -12), (1e4, 12)])
def test_the_grid_ends(width, end):
    module = network()
    assert best_layer_scales(Gaussian.zero(module, width), Gaussian.zero(module, 1.0), 2) == [end, end]


def test_between_two_points_the_better_one_is_taken():
    """N t + A exp(-2t)/2 is not symmetric: the switch is not in the middle of two points."""
    module = nn.Linear(1, 1, bias=False)
    q = Gaussian.zero(module, 1.0)
    # f = 2^(j/2) and its upper neighbour are equally good where r = 1/sigma^2 has r (2^-j - 2^-(j+1)) = ln 2
    switch = np.sqrt(1 / (2 * np.log(2)))
    for factor, index in ((1.001, 0), (0.999, 1)):
        assert best_layer_scales(q, Gaussian.zero(module, switch * factor), 1) == [index]


def test_neighbours_are_tied_where_there_are_too_many_layers():
    deep = nn.Sequential(*(nn.Linear(2, 2) for _ in range(11)))
    groups = layer_groups(deep)
    assert len(groups) == 8
    assert [name for group in groups for name in group] == [name for name, _ in deep.named_parameters()]
    assert max(map(len, groups)) == 4
    assert len(layer_groups(deep, 3)) == 3
    q, p = Gaussian.zero(deep, 2.0), Gaussian.zero(deep, 1.0)
    assert best_layer_scales(q, p, 3) == [2, 2, 2]
    assert q.kl(with_layer_scales(p, [2, 2, 2])) == pytest.approx(0, abs=1e-9)


def test_frozen_parameters_have_no_width():
    module = network()
    module[0].requires_grad_(False)
    assert layer_groups(module) == [["2.weight"]]


@pytest.mark.parametrize("indices", [[0, 0, 0], [0, 13], [-13, 0], []])
def test_indices_of_another_network_are_refused(indices):
    with pytest.raises(TrueriskError, match="another network"):
        with_layer_scales(Gaussian.zero(network(), 1.0), indices)
