"""Canonical points of an orbit: the same from everywhere on it, and what their names say."""

import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.symmetry import balanced, canonical, find_symmetry, unit_incoming

from .zoo import small
from .zoo._build import finish

NETS = ("mlp", "resnet18_cifar", "mobilenet_relu", "vit_sdpa")


def squares(module):
    return sum(float(p.detach().square().sum()) for p in module.parameters())


@pytest.fixture(scope="module", params=NETS)
def found(request):
    module, _, _, symmetry = small(request.param)
    return module, symmetry


def relative_gap(a, b):
    pairs = zip(a.parameters(), b.parameters(), strict=True)
    return max(float((p - q).detach().abs().max() / p.detach().abs().max()) for p, q in pairs)


@pytest.mark.parametrize("form", ["balanced", "unit"])
def test_one_point_for_each_orbit(found, form):
    module, symmetry = found
    here = symmetry.rescale(module, canonical(module, symmetry, form))
    elsewhere = symmetry.rescale(module, symmetry.random(seed=5))
    there = symmetry.rescale(elsewhere, canonical(elsewhere, symmetry, form))
    # The minimum is known to about 1e-14 of its value, its place to the root of that.
    assert relative_gap(here, there) < (1e-5 if form == "balanced" else 1e-12)


def test_balanced_is_the_smallest(found):
    """Any step away makes the weights larger, in random directions and along the gradient."""
    module, symmetry = found
    best = symmetry.rescale(module, balanced(module, symmetry))
    assert squares(best) <= squares(module)
    for seed in range(5):
        for size in (1e-3, 0.1):
            assert squares(symmetry.rescale(best, symmetry.random(size, seed))) > squares(best)


def test_balanced_by_hand():
    """Without biases each unit has equal norms on both sides (Stock et al. 2019)."""
    net = finish(nn.Sequential(nn.Linear(3, 6, bias=False), nn.ReLU(), nn.Linear(6, 2, bias=False)), 0)
    symmetry = find_symmetry(net, torch.zeros(1, 3))
    best = symmetry.rescale(net, balanced(net, symmetry))
    assert torch.allclose(best[0].weight.norm(dim=1), best[2].weight.norm(dim=0), rtol=1e-6)
    both = net[0].weight.norm(dim=1) * net[2].weight.norm(dim=0)
    assert torch.allclose(best[0].weight.norm(dim=1) ** 2, both, rtol=1e-6)


def test_units_have_norm_one():
    net = finish(nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)), 0)
    symmetry = find_symmetry(net, torch.zeros(1, 2, 6, 6))
    unit = symmetry.rescale(net, unit_incoming(net, symmetry))
    assert torch.allclose(unit[0].weight.flatten(1).norm(dim=1), torch.ones(4, dtype=torch.float64))
    assert torch.allclose(unit[1].weight.abs(), torch.ones(4, dtype=torch.float64))


def test_dead_units_stay():
    net = finish(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), 0)
    with torch.no_grad():
        net[0].weight[0], net[0].bias[0] = 0.0, 0.0  # nothing enters
        net[2].weight[:, 1] = 0.0  # nothing leaves
    symmetry = find_symmetry(net, torch.zeros(1, 3))
    for form in (balanced, unit_incoming):
        twin = symmetry.rescale(net, form(net, symmetry))
        assert all(p.isfinite().all() for p in twin.parameters())
        assert torch.equal(twin[2].weight[:, 0], net[2].weight[:, 0])


def test_unknown_forms_are_refused():
    net = nn.Linear(3, 2)
    with pytest.raises(TrueriskError, match="balanced, unit"):
        canonical(net, find_symmetry(net, torch.zeros(1, 3)), "round")
    assert balanced(net, find_symmetry(net, torch.zeros(1, 3))).shape == (0,)
