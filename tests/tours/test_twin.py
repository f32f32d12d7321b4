"""A rescaled twin of a network as users write them: the same outputs, the same tightened KL, another raw KL."""

import math

import pytest
import torch
from torch import nn

from truerisk.certificates.charge import tried_before
from truerisk.certificates.prior import Prior
from truerisk.data import load
from truerisk.nets import architecture
from truerisk.plan import Plan
from truerisk.tours.asked import PRIOR, Asked
from truerisk.tours.twin import KL, TIGHT_BOUND, TIGHT_KL, Twin, rescaled, tried_for
from truerisk.training import fit


class Net(nn.Module):
    """A plain CNN with pooling; ``norm`` puts a batch norm in."""

    def __init__(self, norm=False):
        super().__init__()
        self.first = nn.Conv2d(1, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6) if norm else nn.Identity()
        self.second = nn.Conv2d(6, 8, 3)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 10))

    def forward(self, x):
        x = self.pool(torch.relu(self.norm(self.first(x))))
        return self.head(self.pool(torch.relu(self.second(x))))


def trained(network):
    data = load("digits")
    fit(network, data, Plan(epochs=8, batch_size=64, lr=5e-3))
    return network, data


@pytest.mark.parametrize("norm", [False, True])
def test_the_function_and_its_numbers_stay(norm):
    torch.manual_seed(0)
    network, data = trained(Net(norm))
    twin = rescaled(network, data, range(500), seed=0, delta=0.05)
    assert isinstance(twin, Twin)
    assert twin.channels == 6 + 8 + 12
    assert twin.output_change < 1e-9
    assert math.isclose(twin.kl_tightened, twin.kl_tightened_twin, rel_tol=1e-6)
    assert math.isclose(twin.bound_tightened, twin.bound_tightened_twin, rel_tol=1e-6)
    assert twin.kl_raw_twin > 2 * twin.kl_raw
    assert twin.kl_tightened <= twin.kl_raw
    assert twin.risk_tightened <= twin.risk_raw <= 1
    moves = {move.name: move for move in twin.moves}
    assert moves[KL].moved
    assert moves["weight norm"].moved
    assert moves["sharpness"].moved
    assert not any(moves[name].moved for name in ("path norm", TIGHT_KL, TIGHT_BOUND))


def test_delta_is_split_over_all_looks_at_any_row():
    """All rows enter these bounds, so a look that missed only the test half counts as well."""
    asked = Asked()
    data = asked.load()
    arch = architecture(asked.network, data.input_shape, data.classes)
    any_row, test_half = (tried_before(arch, data, Prior(prior), 0) for prior in ("zero", PRIOR))
    assert tried_for(arch, data, 0) == any_row > test_half


def test_a_network_without_rescalings_says_why():
    torch.manual_seed(0)
    network, data = trained(nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Sigmoid(), nn.Linear(8, 10)))
    found = rescaled(network, data, range(100), seed=0, delta=0.05)
    assert isinstance(found, str)
    assert "rescaled" in found
