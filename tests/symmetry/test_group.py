"""What a Symmetry can do: rescale modules, move at random, hold tensors, tell people what it found."""

import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.symmetry import find_symmetry

from .zoo._build import finish


def network(seed=0):
    layers = [nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5), nn.Sigmoid()]
    return finish(nn.Sequential(*layers, nn.Linear(5, 3)), seed)


X = torch.zeros(1, 2, 6, 6)


@pytest.fixture(scope="module")
def symmetry():
    return find_symmetry(network(), X)


def test_random_log_scales_repeat(symmetry):
    one, again, other = symmetry.random(seed=1), symmetry.random(seed=1), symmetry.random(seed=2)
    assert one.dtype == torch.float64
    assert one.shape == (symmetry.dim,)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert torch.equal(symmetry.random(std=0.5, seed=1), 0.5 * one)


def test_by_hand(symmetry):
    """Channel 0 between conv and batch norm, then channel 0 behind it: what moves, and by how much."""
    net = network()
    t = torch.zeros(symmetry.dim)
    t[0], t[4] = 1.0, 3.0
    moved, was = symmetry.rescale(net, t).state_dict(), net.state_dict()
    ratio = {name: (moved[name] / was[name]).log() for name in was if was[name].is_floating_point()}
    first = {"0.weight": 1, "0.bias": 1, "1.running_mean": 1, "1.weight": 2, "1.bias": 3}
    for name, expected in first.items():
        assert torch.allclose(ratio[name][0], torch.tensor(float(expected), dtype=torch.float64))
        assert (ratio[name][1:] == 0).all()
    assert torch.allclose(ratio["4.weight"][:, :16], torch.tensor(-3.0, dtype=torch.float64))
    assert (ratio["4.weight"][:, 16:] == 0).all()
    assert all((ratio[name] == 0).all() for name in ("1.running_var", "4.bias", "6.weight", "6.bias"))


def test_rescalings_add_up_and_undo(symmetry):
    net = network()
    a, b = symmetry.random(seed=1), symmetry.random(seed=2)
    one_by_one = symmetry.rescale(symmetry.rescale(net, a), b).state_dict()
    at_once = symmetry.rescale(net, a + b).state_dict()
    back = symmetry.rescale(symmetry.rescale(net, a), -a).state_dict()
    for name, value in net.state_dict().items():
        assert torch.allclose(one_by_one[name], at_once[name], rtol=1e-12, atol=0)
        assert torch.allclose(back[name], value, rtol=1e-12, atol=0)


def test_float32_modules_stay_float32(symmetry):
    net = network().float()
    twin = symmetry.rescale(net, symmetry.random())
    assert {p.dtype for p in twin.parameters()} == {torch.float32}
    x = torch.randn(4, 2, 6, 6)
    assert torch.allclose(twin(x), net(x), rtol=1e-4, atol=1e-5)


def test_bad_log_scales_are_refused(symmetry):
    with pytest.raises(TrueriskError, match=f"must be {symmetry.dim} finite numbers"):
        symmetry.rescale(network(), torch.zeros(3))
    with pytest.raises(TrueriskError, match="finite"):
        symmetry.rescale(network(), torch.full((symmetry.dim,), float("nan")))


def test_another_network_is_refused(symmetry):
    with pytest.raises(TrueriskError, match="another network"):
        symmetry.rescale(nn.Linear(2, 2), symmetry.random())
    with pytest.raises(TrueriskError, match="only a module or a Gaussian"):
        symmetry.rescale({}, symmetry.random())


def test_holding_a_tensor(symmetry):
    """The running mean holds what enters batch norm, entry by entry, unless it is 0."""
    mean = torch.tensor([1.0, 0.0, 2.0, 0.0])
    smaller, to_all = symmetry.holding({"1.running_mean": mean})
    assert smaller.dim == symmetry.dim - 2
    t = torch.from_numpy(to_all @ smaller.random(seed=3).numpy())
    factors = symmetry.factors(t)
    assert (factors["1.running_mean"] != 1).tolist() == [False, True, False, True]
    assert all(torch.allclose(f, smaller.factors(smaller.random(seed=3))[name]) for name, f in factors.items())


def test_people_can_read_it(symmetry):
    text = str(symmetry)
    assert text.startswith("8 channels of this network can be rescaled")
    assert "0 (conv2d)" in text
    assert "1 (batch_norm)" in text
    assert "5: sigmoid: is not homogeneous" in text
    assert "Held in tighten:\n  0 (conv2d): 4 channels, because rescaling them would move 1.running_mean" in text
    assert [why.partition(":")[0] for _, why in symmetry.pinned] == ["sigmoid", "held in tighten"]
    assert repr(symmetry) == "<Symmetry: 8 free log-scales, 1 places pinned>"
    groups = {group.name: group for group in symmetry.groups}
    assert groups["1 (batch_norm)"].size == 4
    assert groups["1 (batch_norm)"].moves == ("1.weight", "1.bias", "4.weight")


def test_nothing_to_rescale():
    symmetry = find_symmetry(nn.Sequential(nn.Linear(3, 2), nn.Tanh()), torch.zeros(1, 3))
    assert symmetry.dim == 0
    assert str(symmetry).startswith("Nothing in this network can be rescaled")
    assert symmetry.random().shape == (0,)
    symmetry.rescale(nn.Sequential(nn.Linear(3, 2), nn.Tanh()), symmetry.random())


class Shared(nn.Module):
    """One layer under two names."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4, bias=False)
        self.again = self.a
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.relu(self.again(torch.relu(self.a(x)))))


def test_shared_layers():
    """Input 0, so t = u1[i] = u2[i] - u1[j] for all i, j: all u1 are equal to one number, and u2 is twice that."""
    net = finish(Shared(), 0)
    symmetry = find_symmetry(net, torch.zeros(1, 4))
    assert symmetry.dim == 1
    x = torch.randn(5, 4, dtype=torch.float64)
    twin = symmetry.rescale(net, symmetry.random())
    assert twin.a.weight is twin.again.weight
    assert torch.allclose(twin(x), net(x), rtol=1e-12)


def test_several_inputs_and_outputs():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(3, 4), nn.Linear(2, 4), nn.Linear(4, 2)

        def forward(self, x, y):
            h = torch.relu(self.a(x)) + self.b(y)
            return {"out": self.c(h), "hidden": h[:, :1]}

    assert find_symmetry(finish(Two(), 0), (torch.zeros(1, 3), torch.zeros(1, 2))).dim == 3


def test_what_tighten_would_hold():
    """Counts by channel: 0 holds nothing. The group of ``rescale`` is the same whatever the buffer holds."""
    net = network()
    for mean, count in (((0.0, 0.0, 0.0, 0.0), 0), ((1.0, 0.0, 2.0, 0.0), 2), ((1.0, 1.0, 1.0, 1.0), 4)):
        net[1].running_mean.copy_(torch.tensor(mean))
        found = find_symmetry(net, X)
        assert found.dim == 8
        assert [(held.where, held.count) for held in found.held_in_tighten] == [("0 (conv2d)", count)] * bool(count)
        assert found.dim - found.holding(dict(net.named_buffers()))[0].dim == count


def test_a_residual_stream_is_held_by_all_its_means():
    class Stream(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.other, self.head = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(4, 2)
            self.one, self.two = nn.BatchNorm1d(4), nn.BatchNorm1d(4)

        def forward(self, x):
            stream = self.stem(x) + self.other(x)
            return self.head(self.one(stream).relu() + self.two(stream).relu())

    found = find_symmetry(finish(Stream(), 0), torch.zeros(1, 3))
    why = "rescaling them would move one.running_mean, two.running_mean, which are not drawn"
    assert [(held.count, held.why) for held in found.held_in_tighten] == [(4, why)]
