"""The small transformer: attention by loops, batch norm over tokens, rows as tokens."""

import math

import pytest
import torch

from truerisk.errors import TrueriskError
from truerisk.nets.transformer import NORMS, Attention, RowTransformer, Tokens


def test_attention_by_hand():
    torch.manual_seed(0)
    layer, x = Attention(6, 2), torch.randn(2, 4, 6)
    q, k, v = layer.into(x).split(6, dim=2)
    out = torch.zeros(2, 4, 6)
    for n in range(2):
        for head in (slice(0, 3), slice(3, 6)):
            for i in range(4):
                scores = torch.stack([q[n, i, head] @ k[n, j, head] / math.sqrt(3) for j in range(4)])
                weights = scores.exp() / scores.exp().sum()
                out[n, i, head] = sum(weights[j] * v[n, j, head] for j in range(4))
    torch.testing.assert_close(layer(x), layer.out(out))


def test_batch_norm_over_examples_and_tokens():
    torch.manual_seed(0)
    out = Tokens(5)(3 + torch.randn(8, 4, 5)).detach()
    assert out.mean(dim=(0, 1)).abs().max() < 1e-5
    torch.testing.assert_close(out.var(dim=(0, 1), correction=0), torch.ones(5), atol=1e-3, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_rows_are_tokens(norm):
    torch.manual_seed(0)
    net = RowTransformer((3, 5, 7), 4, norm=norm).eval()
    x = torch.randn(2, 3, 5, 7)
    out = net(x)
    with torch.no_grad():
        net.places.zero_()
        assert not torch.allclose(net(x), out)
        torch.testing.assert_close(net(x.flip(2)), net(x), atol=1e-5, rtol=1e-4)  # no places: the order of rows is lost
        assert not torch.allclose(net(x.flip(3)), net(x), atol=1e-3)


def test_refusals():
    for call in (lambda: RowTransformer((5,), 3), lambda: RowTransformer((1, 5, 5), 3, norm="group"),
                 lambda: RowTransformer((1, 5, 5), 3, width=30, heads=4)):  # fmt: skip
        with pytest.raises(TrueriskError):
            call()
