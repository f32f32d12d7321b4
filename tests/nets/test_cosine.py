"""The network that starts with fixed waves: its first layer, what it computes, and that the waves never learn."""

import math

import pytest
import torch
import torch.nn.functional as F

import truerisk
from truerisk.errors import TrueriskError
from truerisk.nets import architecture, builtin, check_network, cosnet, mirrored_cosnet
from truerisk.nets.cosine import Waves
from truerisk.symmetry import find_symmetry


def wave(k, n):
    row = [math.cos(math.pi * k * (i + 0.5) / n) for i in range(n)]
    return [value / math.sqrt(sum(v * v for v in row)) for value in row]


@pytest.mark.parametrize("colours", [1, 3])
def test_the_first_layer_by_loops(colours):
    x = torch.rand(2, colours, 6, 8)
    padded = torch.zeros(2, colours, 8, 10)  # the border is repeated
    for i in range(8):
        for j in range(10):
            padded[:, :, i, j] = x[:, :, min(max(i - 1, 0), 5), min(max(j - 1, 0), 7)] - 0.5
    expected = torch.zeros(2, 16 * colours, 3, 4)
    number = 0
    for u in range(4):
        for v in range(4):
            for w in range(colours):
                size = (1 + 2 * math.sqrt(u * u + v * v)) * (3 if w else 1) / 4
                for i in range(4):
                    for j in range(4):
                        for c in range(colours):
                            factor = size * wave(u, 4)[i] * wave(v, 4)[j] * wave(w, colours)[c]
                            expected[:, number] += factor * padded[:, c, i : i + 5 : 2, j : j + 7 : 2]
                number += 1
    layer = Waves(colours)
    assert layer.channels == number
    assert not list(layer.parameters()), "whatever is learnt must be paid for"
    torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-5)


def test_the_waves_are_the_same_for_every_seed():
    one, other = (architecture("cosnet", (3, 16, 16), 10).build(seed).state_dict() for seed in (0, 1))
    same = {name for name in one if torch.equal(one[name], other[name])}
    assert same == {"0.weight"}


def test_forward_written_out():
    net = cosnet((3, 16, 16), 5, (4, 6, 7)).eval()
    x = torch.rand(3, 3, 16, 16)
    first, second, third, last = (layer for layer in net if list(layer.parameters()))
    h = F.relu(F.conv2d(net[0](x), first.weight, first.bias))
    for layer in (second, third):
        h = F.max_pool2d(F.relu(F.conv2d(h, layer.weight, layer.bias, padding=1)), 2)
    torch.testing.assert_close(net(x), h.mean(dim=(2, 3)) @ last.weight.T + last.bias, rtol=1e-4, atol=1e-5)


def test_mirroring_makes_no_difference_to_the_mirrored_one():
    torch.manual_seed(0)
    net, plain = mirrored_cosnet((3, 16, 16), 5, (4, 6)).eval(), cosnet((3, 16, 16), 5, (4, 6)).eval()
    x = torch.rand(3, 3, 16, 16)
    torch.testing.assert_close(net(x), net(x.flip(-1)), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(plain(x), plain(x.flip(-1)), rtol=1e-3)
    plain.load_state_dict(dict(zip(plain.state_dict(), net.state_dict().values(), strict=True)))
    torch.testing.assert_close(net(x), (plain(x) + plain(x.flip(-1))) / 2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["cosnet:4-6", "mirrored-cosnet:4-6"])
def test_every_hidden_channel_can_be_rescaled(name):
    net = check_network(architecture(name, (3, 8, 8), 4).build(0), torch.rand(4, 3, 8, 8).numpy(), 4)
    assert sum(group.size for group in find_symmetry(net, torch.zeros(1, 3, 8, 8)).groups) == 10


@pytest.mark.parametrize("shape", [(3, 4, 9), (9,), (9, 9)])
def test_small_inputs_are_refused(shape):
    with pytest.raises(TrueriskError, match="at least 8 x 8 pixels"):
        builtin("cosnet", shape, 4)
    assert builtin("cosnet", (1, 8, 8), 4)(torch.rand(2, 1, 8, 8)).shape == (2, 4)


@pytest.mark.long
def test_it_certifies_in_a_short_file(tmp_path):
    cert = truerisk.certify("mirrored-cosnet:8-12", "digits", method="description-length", epochs=20)
    assert cert.risk_bound < 0.7, "digits can be learnt"
    cert.save(tmp_path)
    assert truerisk.verify(tmp_path).risk_bound == cert.risk_bound
