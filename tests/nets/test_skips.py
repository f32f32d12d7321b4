"""Networks with and without skips: alike but for the skips."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from truerisk.errors import TrueriskError
from truerisk.nets.skips import skip_network


@pytest.mark.parametrize("convolutional", [False, True])
@pytest.mark.parametrize("skips", [False, True])
def test_against_a_plain_forward(skips, convolutional):
    torch.manual_seed(0)
    net = skip_network((2, 9, 9), 3, 2, 4, skips=skips, convolutional=convolutional).double()
    net.train()(torch.randn(20, 2, 9, 9, dtype=torch.float64))
    net.eval()
    x = torch.randn(5, 2, 9, 9, dtype=torch.float64)
    state = net.state_dict()

    def layer(h, weight, norm, stride=1):
        out = F.conv2d(h, state[weight], stride=stride, padding=1) if convolutional else h @ state[weight].T
        mean, var, gamma, beta = (state[f"{norm}.{n}"] for n in ("running_mean", "running_var", "weight", "bias"))
        shape = (1, -1, 1, 1) if convolutional else (1, -1)
        return (out - mean.view(shape)) / (var.view(shape) + 1e-5).sqrt() * gamma.view(shape) + beta.view(shape)

    start = 0 if convolutional else 1
    h = x if convolutional else x.flatten(1)
    h = layer(h, f"{start}.weight", f"{start + 1}").relu()
    for block in range(start + 3, start + 5):
        inner = layer(h, f"{block}.first.0.weight", f"{block}.first.1").relu()
        out = layer(inner, f"{block}.second.0.weight", f"{block}.second.1")
        h = (out + h if skips else out).relu()
    h = h.mean((2, 3)) if convolutional else h
    last = list(state)[-2].removesuffix(".weight")
    torch.testing.assert_close(net(x).detach(), h @ state[f"{last}.weight"].T + state[f"{last}.bias"])


def test_the_same_weights_with_and_without():
    states = []
    for skips in (True, False):
        torch.manual_seed(3)
        states.append(skip_network((6,), 2, 3, 4, skips=skips).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_refusals():
    with pytest.raises(TrueriskError, match="at least 1"):
        skip_network((4,), 2, 0, 4, skips=True)
    with pytest.raises(TrueriskError, match="convolutions need images"):
        skip_network((4,), 2, 1, 4, skips=True, convolutional=True)
