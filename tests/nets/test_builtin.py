"""The built-in networks: how many weights, which shapes, which names."""

import itertools

import pytest
import torch

from truerisk.errors import TrueriskError
from truerisk.nets import builtin, convnet, mlp


def size(module):
    return sum(p.numel() for p in module.parameters())


def slow_mlp_size(widths):
    return sum(a * b + b for a, b in itertools.pairwise(widths))


@pytest.mark.parametrize(
    ("shape", "classes", "hidden"),
    [((1, 28, 28), 10, (100,)), ((64,), 10, (7, 5)), ((3, 2), 4, (1,)), ((5,), 2, (3, 3, 3))],
)
def test_mlp_has_the_weights_of_its_widths(shape, classes, hidden):
    net = mlp(shape, classes, hidden)
    inputs = torch.zeros(2, *shape).flatten(1).shape[1]
    assert size(net) == slow_mlp_size([inputs, *hidden, classes])
    assert net(torch.zeros(2, *shape)).shape == (2, classes)


def test_the_two_sizes_that_the_documents_name():
    assert size(mlp((1, 28, 28), 10)) == 79_510
    assert size(convnet((1, 28, 28), 10)) == 5_994


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 8, 8), (1, 16, 16), (2, 15, 40), (1, 16, 20)])
def test_convnet_runs_on_images_of_many_sizes(shape):
    net = convnet(shape, 7, channels=(3, 4))
    assert net(torch.zeros(2, *shape)).shape == (2, 7)
    kernel = 5 if min(shape[1:]) >= 16 else 3
    assert net[0].kernel_size == (kernel, kernel)


def test_convnet_refuses_what_is_not_an_image():
    with pytest.raises(TrueriskError, match="mlp"):
        convnet((64,), 10)


def test_mlp_has_a_nonlinearity_between_its_layers():
    torch.manual_seed(0)
    net = mlp((3,), 2, (20,))
    x = torch.randn(1, 3)
    assert not torch.allclose(net(x) + net(-x), 2 * net(torch.zeros(1, 3)), atol=1e-3)


def test_names_with_widths():
    assert size(builtin("mlp:7-5", (4,), 3)) == slow_mlp_size([4, 7, 5, 3])
    assert size(builtin("mlp", (4,), 3)) == slow_mlp_size([4, 100, 3])
    assert builtin("convnet:6-12", (1, 28, 28), 10)[0].out_channels == 6
    assert size(builtin("convnet", (1, 28, 28), 10)) == 5_994


@pytest.mark.parametrize("name", ["mlp:0", "mlp:-5", "mlp:a", "mlp:10-", "mlp:3.5", "convnet:8--2", "mlp:1-0-1"])
def test_widths_that_are_none_are_refused(name):
    with pytest.raises(TrueriskError, match="whole numbers"):
        builtin(name, (1, 8, 8), 2)


@pytest.mark.parametrize("name", ["resnets", "", "MLP", "mlpx", " mlp"])
def test_unknown_names_are_refused(name):
    with pytest.raises(TrueriskError, match="no built-in network"):
        builtin(name, (1, 8, 8), 2)
