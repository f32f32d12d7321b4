"""The networks of Zhang et al. 2017: exact numbers of parameters, and that they are what they say."""

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets import CLASSICS, classic, small_alexnet, small_inception

PUBLISHED = {
    "mlp-1x512": 1_209_866,
    "mlp-3x512": 1_735_178,
    "alexnet": 1_387_786,
    "inception": 1_649_402,
    "inception-no-bn": 1_649_402,
}


def count(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED.items())
def test_parameters_are_the_published_ones(name, parameters):
    assert count(classic(name, (3, 28, 28), 10)) == parameters


@pytest.mark.parametrize("name", CLASSICS)
@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 15, 17)])
def test_outputs_have_one_value_per_class_and_gradients_reach_all_weights(name, shape):
    torch.manual_seed(0)
    network = classic(name, shape, 7)
    logits = network(torch.randn(4, *shape))
    assert logits.shape == (4, 7)
    logits.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for n, p in network.named_parameters() if "weight" in n)


def test_only_the_one_with_batch_norm_has_it():
    kinds = {name: {type(m) for m in classic(name, (1, 8, 8), 10).modules()} for name in CLASSICS}
    assert {name for name, found in kinds.items() if nn.BatchNorm2d in found} == {"inception", "inception-small"}


def slow_normalisation(x):
    """Local response normalisation over 9 channels, one number at a time."""
    out = np.empty_like(x)
    for n, c, i, j in np.ndindex(*x.shape):
        near = x[n, max(0, c - 4) : c + 5, i, j]
        out[n, c, i, j] = x[n, c, i, j] / (1 + 0.001 / 9 * (near**2).sum()) ** 0.75
    return out


def test_alexnet_is_convolution_relu_pooling_normalisation():
    torch.manual_seed(1)
    network = small_alexnet((1, 5, 5), 3, channels=12, dense=(6,)).double()
    convolution, _, _, norm = network[:4]
    x = 30 * torch.randn(2, 1, 5, 5, dtype=torch.float64)
    pooled = nn.functional.max_pool2d(convolution(x).relu(), 3, 2, 1)
    twin = slow_normalisation(pooled.detach().numpy())
    assert abs(twin - pooled.detach().numpy()).max() > 0.1  # the normalisation does something at this scale
    np.testing.assert_allclose(norm(pooled).detach().numpy(), twin, rtol=1e-12)


def test_inception_blocks_widen_as_published():
    widths = []
    network = small_inception((3, 28, 28), 10)
    for layer in network[1:-2]:
        layer.register_forward_hook(lambda module, args, out: widths.append(tuple(out.shape[1:])))
    network(torch.randn(2, 3, 28, 28))
    channels = [64, 80, 160, 160, 160, 160, 144, 240, 336, 336]
    sides = [28] * 2 + [14] * 5 + [7] * 3
    assert widths == [(c, s, s) for c, s in zip(channels, sides, strict=True)]


@pytest.mark.parametrize("name", ["inception-no-bn", "inception-small-no-bn"])
def test_the_signal_does_not_fade_at_the_start(name):
    torch.manual_seed(0)
    with torch.no_grad():
        spread = classic(name, (3, 28, 28), 10)(torch.randn(50, 3, 28, 28)).std(dim=0).mean()
    assert 0.01 < spread < 10  # 1e-5 with the first weights that torch would choose


def test_dropout_is_put_after_hidden_dense_layers_only():
    def places(network):
        return [i for i, layer in enumerate(network) if isinstance(layer, nn.Dropout)]

    deep = classic("mlp-3x512", (1, 8, 8), 10, dropout=0.3)
    assert places(deep) == [3, 6, 9]
    assert all(isinstance(deep[i - 1], nn.ReLU) and deep[i].p == 0.3 for i in places(deep))
    assert not places(classic("mlp-3x512", (1, 8, 8), 10))
    convolutional = classic("alexnet", (1, 8, 8), 10, dropout=0.5)
    assert [type(convolutional[i - 2]) for i in places(convolutional)] == [nn.Linear, nn.Linear]


def test_wrong_names_and_shapes_are_refused():
    with pytest.raises(TrueriskError, match="mlp-1x512"):
        classic("vgg", (1, 8, 8), 10)
    with pytest.raises(TrueriskError, match="images"):
        classic("alexnet", (40,), 10)
