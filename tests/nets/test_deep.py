"""Plain and residual networks: counts, starts, shortcuts by hand, and that nothing but shortcuts differs."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets.deep import Block, begin, convnet_of, deep_convnet, deep_mlp, stages


def layers(net, kind):
    return [m for m in net.modules() if isinstance(m, kind)]


@pytest.mark.parametrize("depth", [4, 8, 18, 34])
def test_depth_counts_layers_with_weights(depth):
    for residual in (True, False):
        net = deep_convnet((1, 8, 8), 10, depth, 4, residual)
        assert len(layers(net, nn.Conv2d)) + len(layers(net, nn.Linear)) == depth
        assert net(torch.randn(2, 1, 8, 8)).shape == (2, 10)
    assert sum(stages(depth)) == (depth - 2) / 2


def test_plain_and_residual_start_with_the_same_weights():
    nets = []
    for residual in (True, False):
        torch.manual_seed(1)
        nets.append(deep_convnet((3, 9, 9), 4, 18, 2, residual))
    for one, other in zip(*(net.parameters() for net in nets), strict=True):
        assert torch.equal(one, other)
    x = torch.randn(3, 3, 9, 9)
    assert not torch.equal(nets[0](x), nets[1](x))


def test_a_block_by_hand():
    torch.manual_seed(0)
    for stride, channels in ((1, 3), (2, 5)):
        block = Block(3, channels, stride, "none", residual=True)
        x = torch.randn(2, 3, 7, 7)
        inner = F.conv2d(x, block.first.weight, block.first.bias, stride, 1).clamp_min(0)
        out = F.conv2d(inner, block.second.weight, block.second.bias, 1, 1)
        for c in range(3):
            out[:, c] += x[:, c, ::stride, ::stride]
        torch.testing.assert_close(block(x), out.clamp_min(0))


def test_an_mlp_by_hand():
    torch.manual_seed(0)
    net = deep_mlp((4,), 3, depth=3, width=5, activation="tanh", start="default", skips=True)
    x = torch.randn(6, 4)
    first, second, third, last = layers(net, nn.Linear)
    h = torch.tanh(first(x))
    h = h + torch.tanh(second(h))
    h = h + torch.tanh(third(h))
    torch.testing.assert_close(net(x), last(h))


@pytest.mark.parametrize(("start", "variance"), [("default", 1 / 600), ("he", 2 / 200), ("xavier", 2 / 500)])
def test_starts(start, variance):
    torch.manual_seed(0)
    layer = begin(nn.Linear(200, 300), start)
    assert float(layer.weight.detach().var()) == pytest.approx(variance, rel=0.05)
    assert bool(layer.bias.any()) == (start == "default")


def test_refusals():
    for call in (
        lambda: deep_mlp((4,), 3, 0, 5),
        lambda: deep_mlp((4,), 3, 2, 5, activation="gelu"),
        lambda: deep_mlp((4,), 3, 2, 5, start="zero"),
        lambda: deep_convnet((4,), 3),
        lambda: deep_convnet((1, 8, 8), 3, depth=5),
        lambda: convnet_of((4,), 3, 8, "none"),
    ):
        with pytest.raises(TrueriskError):
            call()
