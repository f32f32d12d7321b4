"""The residual network: what its first layer is, what its blocks compute, what mirroring does."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets import architecture, builtin, check_network, mirrored_resnet, resnet
from truerisk.nets.residual import LOGITS, Block, Cosines
from truerisk.symmetry import find_symmetry


def moved(module, seed=0):
    """The module in eval mode with every batch-norm statistic and weight away from where it started."""
    torch.manual_seed(seed)
    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
            if layer.affine:
                layer.weight.data.uniform_(0.5, 2)
                layer.bias.data.normal_()
    return module.eval()


def normed(x, layer):
    """Batch norm in eval mode, written out."""
    shape = (1, -1, 1, 1)
    white = (x - layer.running_mean.view(shape)) / (layer.running_var.view(shape) + layer.eps).sqrt()
    return white * layer.weight.view(shape) + layer.bias.view(shape) if layer.affine else white


@pytest.mark.parametrize("colours", [1, 2, 3])
def test_the_first_layer_is_the_cosine_transform_of_patches_and_its_negative(colours):
    layer = moved(Cosines(colours))
    x = torch.randn(2, colours, 5, 6)

    def cosine(k, n):
        row = [math.cos(math.pi * k * (i + 0.5) / n) for i in range(n)]
        return [value / math.sqrt(sum(v * v for v in row)) for value in row]

    expected = torch.zeros(2, 8 * colours, 4, 5)
    number = 0
    for u in range(2):
        for v in range(2):
            for w in range(colours):
                for i in range(2):
                    for j in range(2):
                        for c in range(colours):
                            factor = cosine(u, 2)[i] * cosine(v, 2)[j] * cosine(w, colours)[c]
                            expected[:, number] += factor * x[:, c, i : i + 4, j : j + 5]
                number += 1
    expected[:, number:] = -expected[:, :number]
    torch.testing.assert_close(layer(x), normed(expected, layer.norm), rtol=1e-4, atol=1e-5)
    assert not list(layer.parameters())


def test_in_training_each_cosine_has_variance_one():
    x = torch.rand(50, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    out = Cosines(3).train()(x)
    torch.testing.assert_close(out.mean(dim=(0, 2, 3)), torch.zeros(24), rtol=0, atol=1e-5)
    torch.testing.assert_close(out.var(dim=(0, 2, 3)), torch.ones(24), rtol=0, atol=0.02)


def test_a_block_against_its_formula():
    block = moved(Block(3, 5))
    x = torch.randn(2, 3, 8, 6)
    first, second = block.narrow[0], block.deepen[0]
    y = F.relu(normed(F.max_pool2d(F.conv2d(x, first.weight, padding=1), 2), block.narrow[2]))
    z = F.relu(normed(F.conv2d(y, second.weight, padding=1), block.deepen[1]))
    torch.testing.assert_close(block(x), y + z, rtol=1e-4, atol=1e-5)


def test_convolutions_start_by_passing_the_image_on():
    torch.manual_seed(0)
    block, x = Block(3, 5), torch.randn(2, 3, 8, 8)
    out = block.narrow[0](x)
    assert torch.equal(out[:, :3], x)
    assert not torch.allclose(out[:, 3], x[:, 0], atol=0.1)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (2, 9, 17)])
def test_the_whole_against_its_parts(shape):
    torch.manual_seed(1)
    net = moved(resnet(shape, 7, (4, 6, 5)))
    x = torch.rand(3, *shape)
    cosines, relu, *blocks, _, _, last = net
    hidden = relu(cosines(x))
    for block in blocks:
        hidden = block(hidden)
    best = hidden.flatten(2).max(dim=2).values
    torch.testing.assert_close(net(x), LOGITS * best @ last.weight.T, rtol=1e-4, atol=1e-5)
    assert [block.narrow[0].out_channels for block in blocks] == [4, 6, 5]


def test_the_number_of_weights():
    def count(widths, colours):
        fan_in, total = 8 * colours, 0
        for w in widths:
            total, fan_in = total + 9 * w * fan_in + 9 * w * w + 4 * w, w
        return total + 10 * fan_in

    for name, shape in [("resnet:8-16", (1, 28, 28)), ("resnet:64-128-256", (3, 32, 32)), ("resnet", (3, 32, 32))]:
        widths = [int(w) for w in (name.partition(":")[2] or "64-128-256").split("-")]
        assert sum(p.numel() for p in builtin(name, shape, 10).parameters()) == count(widths, shape[0])


def test_mirrored_predictions_do_not_change_when_the_image_is_mirrored():
    torch.manual_seed(0)
    net = moved(mirrored_resnet((3, 16, 16), 4, (4, 4)))
    x = torch.rand(6, 3, 16, 16)
    torch.testing.assert_close(net(x), net(x.flip(-1)))
    plain = nn.Sequential(*net[0].inner, *net[1:])
    torch.testing.assert_close(net(x), (plain(x) + plain(x.flip(-1))) / 2)
    assert not torch.allclose(plain(x), plain(x.flip(-1)), atol=1e-3)
    twin = copy.deepcopy(plain).train()
    assert torch.equal(net.train()(x), twin(x))


@pytest.mark.parametrize("name", ["resnet:4-6", "mirrored-resnet:4-6"])
def test_it_can_be_certified_and_every_channel_rescaled(name):
    X = np.random.default_rng(0).random((20, 1, 12, 12), dtype=np.float32)
    arch = architecture(name, (1, 12, 12), 3)
    network = check_network(moved(arch.build(0)), X, 3)
    symmetry = find_symmetry(network, torch.from_numpy(X[:2]))
    assert not symmetry.pins
    # one log-scale per channel before each of the two norms of a block, and one for the sum and both of its terms
    assert symmetry.dim == 3 * 4 + 3 * 6
    twin = symmetry.rescale(network, symmetry.random(std=0.5, seed=0))
    torch.testing.assert_close(twin(torch.from_numpy(X)), network(torch.from_numpy(X)), rtol=1e-3, atol=1e-4)


def test_the_same_seed_gives_the_same_weights():
    arch = architecture("resnet:30-6", (3, 16, 16), 3)
    one, again, other = (arch.build(seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[k], again[k]) for k in one)
    assert not torch.equal(one["2.narrow.0.weight"], other["2.narrow.0.weight"])


def test_an_untrained_network_guesses():
    torch.manual_seed(0)
    net = resnet((3, 32, 32), 10, (16, 32, 64)).train()
    loss = F.cross_entropy(net(torch.rand(64, 3, 32, 32)), torch.arange(64) % 10)
    assert abs(float(loss.detach()) - math.log(10)) < 0.2


@pytest.mark.parametrize(("shape", "widths"), [((64,), (4,)), ((3, 8, 32), (4, 4, 4)), ((1, 2, 2), (4,))])
def test_images_that_are_too_small_are_refused(shape, widths):
    with pytest.raises(TrueriskError, match="pixels"):
        resnet(shape, 3, widths)


def test_the_smallest_image():
    assert resnet((1, 9, 9), 3, (2, 2, 2)).eval()(torch.zeros(1, 1, 9, 9)).shape == (1, 3)
