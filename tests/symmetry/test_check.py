"""The check that find_symmetry makes: wrong rules are caught and named, sound ones pass."""

import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.symmetry import find_symmetry, path_norm
from truerisk.symmetry.rules import RULES
from truerisk.symmetry.rules.elementwise import of_degree, pinned
from truerisk.symmetry.rules.norms import layer_norm

from .zoo._build import finish


class Around(nn.Module):
    """Two layers around one operation, at which everything is free or pinned by that operation alone."""

    def __init__(self, between):
        super().__init__()
        self.first, self.between, self.last = nn.Conv2d(2, 4, 3, padding=1), between, nn.Conv2d(4, 3, 1)

    def forward(self, x):
        return self.last(self.between(self.first(x)))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return self.a(x) + self.b(x)


class ChannelsLast(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(x.transpose(1, 3)).transpose(1, 3)


def free_sum(trace, a, b, alpha=1):
    """A residual that ties nothing."""
    return trace.labels(a)


def free_norm(trace, x, shape, weight=None, bias=None, *args):
    """A LayerNorm that forgets about eps: as if it only saw the direction of its input."""
    labels = trace.labels(x)
    trace.pin = lambda *args: torch.zeros_like(labels)
    try:
        return layer_norm(trace, x, shape, weight, bias)
    finally:
        del trace.pin


WRONG = {
    "tanh": (nn.Tanh(), of_degree(1)),
    "sigmoid": (nn.Sigmoid(), of_degree(0)),
    "hardtanh": (nn.ReLU6(), of_degree(1)),
    "relu": (nn.ReLU(), of_degree(2)),
    "max_pool2d": (nn.MaxPool2d(2), of_degree(0)),
    "batch_norm": (nn.BatchNorm2d(4), of_degree(1)),
    "layer_norm": (ChannelsLast(), free_norm),
    "add": (Residual(), free_sum),
}


@pytest.mark.parametrize("operation", WRONG)
def test_a_wrong_rule_is_caught_and_named(operation, monkeypatch):
    between, wrong = WRONG[operation]
    net, x = finish(Around(between), 0), torch.zeros(1, 2, 6, 6)
    find_symmetry(net, x)  # the real rule passes
    monkeypatch.setitem(RULES, operation, wrong)
    with pytest.raises(TrueriskError, match=f"rule for {operation} \\(at between"):
        find_symmetry(net, x)
    assert find_symmetry(net, x, check=False).dim > 0


def test_zero_weights_hide_nothing(monkeypatch):
    """With a zero head, the network's own outputs are 0 whatever is wrong; random weights are tried as well."""
    monkeypatch.setitem(RULES, "sigmoid", of_degree(1))
    net = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2))
    nn.init.zeros_(net[0].weight)
    nn.init.zeros_(net[0].bias)
    nn.init.zeros_(net[2].weight)
    with pytest.raises(TrueriskError, match="rule for sigmoid "):
        find_symmetry(net, torch.zeros(1, 3))


def test_holding_more_is_never_an_error(monkeypatch):
    monkeypatch.setitem(RULES, "relu", pinned)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    assert find_symmetry(net, torch.zeros(1, 3)).dim == 0


class Counter(nn.Module):
    """Its output depends on what happened before, which no graph shows."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.b(torch.relu(self.a(x))) * self.calls


def test_what_the_graph_does_not_show_is_refused():
    with pytest.raises(TrueriskError, match="captured graph"):
        find_symmetry(Counter(), torch.zeros(1, 3))


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        h = torch.relu(self.a(x))
        return self.b(h + torch.rand_like(h))


def test_random_numbers_are_named():
    with pytest.raises(TrueriskError, match=r"rand_like .* draws random numbers"):
        find_symmetry(Noisy(), torch.zeros(1, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_casts_are_no_mistakes(dtype, monkeypatch):
    """Rounding on the way is not a wrong rule, and a wrong rule is still seen."""
    net = finish(Around(Cast(dtype)), 0)
    held = dtype != torch.float32  # half precision overflows at 65,504
    assert find_symmetry(net, torch.zeros(1, 2, 6, 6)).dim == (0 if held else 4)
    if held:
        return
    monkeypatch.setitem(RULES, "relu", of_degree(2))
    with pytest.raises(TrueriskError, match="rule for relu "):
        find_symmetry(net, torch.zeros(1, 2, 6, 6))


class Cast(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        return torch.relu(x.to(self.dtype)).double()


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)

    def forward(self, x):
        return self.a(x) if x.sum() > 0 else x


def test_a_path_that_depends_on_data_is_refused():
    with pytest.raises(TrueriskError, match="depends on the"):
        find_symmetry(Branching(), torch.zeros(1, 3))


def test_working_in_place_on_the_input_is_the_same_network():
    plain = nn.Sequential(nn.ReLU(), nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    in_place = nn.Sequential(nn.ReLU(inplace=True), *plain[1:])
    x = -torch.ones(1, 3, dtype=torch.float64)
    assert find_symmetry(in_place, x).dim == find_symmetry(plain, x).dim == 4
    assert path_norm(in_place, x) == path_norm(plain, x)
    assert bool((x == -1).all())


class Doubling(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x.mul_(2))))


def test_changing_the_input_for_good_is_no_obstacle():
    assert find_symmetry(Doubling(), torch.ones(1, 3, dtype=torch.float64)).dim == 4


def test_a_wrong_shape_is_refused():
    with pytest.raises(TrueriskError, match=r"shape \(1, 5\)"):
        find_symmetry(nn.Linear(3, 2), torch.zeros(1, 5))
    with pytest.raises(TrueriskError, match="must be a tensor"):
        find_symmetry(nn.Linear(3, 2), (1, 3))


def test_the_model_is_left_alone():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    find_symmetry(net, torch.zeros(2, 3))
    assert net.training
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in before.items())
    assert net[0].weight.dtype == torch.float32
