"""The path norm against enumerated paths, closed forms, and itself along orbits of rescalings."""

from __future__ import annotations

import copy
import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets import fold_batch_norm
from truerisk.symmetry import path_lift, path_norm

POWERS = (0.5, 1.0, 2.0, 3.7, math.inf)


def randomise(model, seed=0):
    """Weights, biases and statistics that are all random: none is 0 or 1 by accident."""
    torch.manual_seed(seed)
    model = model.double()
    for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.5, 2.0) if name.endswith("var") else tensor.data.normal_()
    return model


def perceptron(*sizes):
    layers = itertools.chain(*((nn.Linear(a, b), nn.ReLU()) for a, b in itertools.pairwise(sizes)))
    return randomise(nn.Sequential(*list(layers)[:-1]))


def conv_net():
    return randomise(
        nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1),
            nn.BatchNorm2d(2),
            nn.ReLU(),
            nn.MaxPool2d(2, padding=1),
            nn.Conv2d(2, 2, 2),
            nn.LeakyReLU(0.1),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(2, 2),
        )
    )


class Block(nn.Module):
    """conv - bn - relu - conv - bn, plus the input."""

    def __init__(self, channels):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 1), nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


def residual_net():
    return randomise(nn.Sequential(Block(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 2)))


NETWORKS = {
    "perceptron": (lambda: perceptron(3, 4, 2), (3,)),
    "convolution": (conv_net, (1, 4, 4)),
    "residual": (residual_net, (2, 3, 3)),
}


# --- the sum over paths -------------------------------------------------------------------------------------


def enumerated(model):
    """All path products of a perceptron with biases, by their indices."""
    layers = [part for part in model if isinstance(part, nn.Linear)]
    sizes = [layers[0].in_features, *(layer.out_features for layer in layers)]
    for first in range(len(sizes)):  # 0: from an input; l: from the bias of layer l
        for path in itertools.product(*map(range, sizes[first:])):
            product = 1.0 if first == 0 else layers[first - 1].bias[path[0]].item()
            for layer, (i, o) in zip(layers[first:], itertools.pairwise(path), strict=True):
                product *= layer.weight[o, i].item()
            yield product


def norm(products, p):
    sizes = [abs(v) for v in products]
    return max(sizes) if math.isinf(p) else math.fsum(v**p for v in sizes) ** (1 / p)


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("sizes", [(2, 1), (3, 4, 2), (2, 3, 2, 3)])
def test_perceptron(sizes, p):
    model = perceptron(*sizes)
    assert path_norm(model, torch.zeros(1, sizes[0]), p) == pytest.approx(norm(enumerated(model), p), rel=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_norm_of_the_lift(name):
    build, shape = NETWORKS[name]
    x = torch.zeros(1, *shape)
    lift = path_lift(build(), x).paths.tolist()
    for p in POWERS:
        assert path_norm(build(), x, p) == pytest.approx(norm(lift, p), rel=1e-11), p


def test_work_in_place():
    """It makes torch.export decompose some operations, batch norm among them."""
    model = conv_net()
    model[2].inplace = model[5].inplace = True
    x = torch.zeros(1, 1, 4, 4)
    assert path_norm(model, x) == pytest.approx(path_norm(conv_net(), x), rel=1e-14)


def test_two_layers_closed_form():
    """Without biases, l2: the root of sum_j |w_j|^2 |a_j|^2 over hidden units j."""
    w, a = nn.Linear(5, 7, bias=False), nn.Linear(7, 3, bias=False)
    model = nn.Sequential(w, nn.ReLU(), a).double()
    expected = (w.weight.square().sum(1) * a.weight.square().sum(0)).sum().sqrt().item()
    assert path_norm(model, torch.zeros(1, 5), 2) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_that_are_not_negative(name):
    """With a sum for its max-pool, such a network has at ones the l1 path norm as the sum of its outputs."""
    build, shape = NETWORKS[name]
    model = build().eval()
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        tensor.data.abs_()
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.neg_()
    x = torch.ones(1, *shape, dtype=torch.float64)
    sums = nn.Sequential(nn.ZeroPad2d(1), nn.AvgPool2d(2, divisor_override=1))
    summed = nn.Sequential(*[sums if isinstance(part, nn.MaxPool2d) else part for part in model])
    assert path_norm(model, x) == pytest.approx(summed(x).sum().item(), rel=1e-12)


# --- single steps, by hand ----------------------------------------------------------------------------------


@pytest.mark.parametrize("p", POWERS)
def test_batch_norm_shift_is_one_bias(p):
    """Together with the bias of the layer before it, if nothing else takes that layer's output."""
    model = randomise(nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)))
    (w, b), bn = (t.item() for t in model[0].parameters()), model[1]
    scale = bn.weight.item() / math.sqrt(bn.running_var.item() + bn.eps)
    shift = bn.bias.item() - scale * bn.running_mean.item()
    x = torch.zeros(1, 1, 1, 1)
    assert path_norm(model, x, p) == pytest.approx(norm([w * scale, b * scale + shift], p))
    apart = nn.Sequential(model[0], nn.ReLU(), model[1])
    assert path_norm(apart, x, p) == pytest.approx(norm([w * scale, b * scale, shift], p))


class Branches(nn.Module):
    """The output of a layer enters a norm and goes on beside it: its bias has two ways."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(1, 1), nn.BatchNorm1d(1)

    def forward(self, x):
        y = self.layer(x)
        return self.norm(y) - y


def test_a_bias_that_goes_elsewhere_too_is_a_bias_of_its_own():
    model = randomise(Branches())
    (w, b), bn = (t.item() for t in model.layer.parameters()), model.norm
    scale = bn.weight.item() / math.sqrt(bn.running_var.item() + bn.eps)
    shift = bn.bias.item() - scale * bn.running_mean.item()
    expected = [w * scale, w, b * scale, b, shift]
    assert path_norm(model, torch.zeros(1, 1)) == pytest.approx(norm(expected, 1))


FOLDED = {
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2, bias=False),
            nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2),
        ),
        (1, 6, 6),
    ),
    "transposed": (
        lambda: nn.Sequential(
            nn.ConvTranspose1d(2, 3, 2), nn.BatchNorm1d(3, affine=False), nn.Flatten(), nn.Linear(12, 2),
        ),
        (2, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("p", [*POWERS, math.inf])
def test_folding_changes_no_path(name, p):
    """Batch norm in eval mode is an affine map: merged into the layer before it, it changes no path product."""
    build, shape = FOLDED[name]
    model, x = randomise(build()), torch.zeros(1, *shape)
    for part in model:
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.running_mean.normal_(generator=torch.Generator().manual_seed(1))
    folded = fold_batch_norm(model)
    assert not any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in folded)
    assert path_norm(model, x, p) == pytest.approx(path_norm(folded, x, p), rel=1e-12)
    lifts = [path_lift(net, x, limit=10**6).paths for net in (model, folded)]
    assert torch.allclose(*lifts, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("p", POWERS)
def test_pools(p):
    x = torch.zeros(1, 1, 4)
    assert path_norm(nn.MaxPool1d(2), x, p) == pytest.approx(norm([1.0] * 4, p))
    assert path_norm(nn.AvgPool1d(2), x, p) == pytest.approx(norm([0.5] * 4, p))
    assert path_norm(nn.AdaptiveAvgPool1d(1), x, p) == pytest.approx(norm([0.25] * 4, p))
    assert path_norm(nn.AdaptiveAvgPool1d(3), x, p) == pytest.approx(norm([0.5] * 6, p))  # windows overlap
    assert path_norm(nn.AdaptiveMaxPool1d(3), x, p) == pytest.approx(norm([1.0] * 6, p))
    assert path_norm(nn.Upsample(scale_factor=3), x, p) == pytest.approx(norm([1.0] * 12, p))


@pytest.mark.parametrize(
    ("activation", "factor"),
    [
        (nn.ReLU(), 1.0),
        (nn.LeakyReLU(0.2), 1.0),
        (nn.LeakyReLU(-3.0), 3.0),
        (nn.PReLU(init=0.25), 1.0),
        (nn.PReLU(num_parameters=2, init=2.0), 2.0),
        (nn.RReLU(), 1.0),
        (nn.Identity(), 1.0),
        (nn.Dropout(0.5), 1.0),
    ],
)
def test_activations(activation, factor):
    model = nn.Sequential(activation)
    assert path_norm(model, torch.zeros(1, 2), 1) == pytest.approx(2 * factor)
    assert path_norm(model, torch.zeros(1, 2, 3), 2) == pytest.approx(factor * math.sqrt(6))


class Apply(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *inputs):
        return self.fn(*inputs)


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x: x.clamp(min=0), 3.0),
        (lambda x: torch.maximum(x, torch.zeros(3)), 3.0),
        (lambda x: torch.maximum(x, -2 * x), 9.0),
        (lambda x: x.amax(1), 3.0),
        (lambda x: x.max(1).values, 3.0),
        (lambda x: x.max(), 3.0),
        (lambda x: abs(x) - x, 6.0),
        (lambda x: torch.rsub(x, torch.full((3,), 5.0), alpha=4), 27.0),
        (lambda x: torch.add(x, torch.full((3,), 5.0), alpha=4), 63.0),
        (lambda x: x + torch.relu(torch.ones(3) * 2), 9.0),
        (lambda x: (x, x[:, :1]), 4.0),
        (lambda x: {"a": x, "b": torch.full((1,), -5.0)}, 8.0),
        (lambda x: x.float().double().relu_().mul_(2), 6.0),
    ],
)
def test_functions(fn, expected):
    assert path_norm(Apply(fn), torch.zeros(1, 3)) == pytest.approx(expected)


def test_two_inputs():
    model = Apply(lambda x, y: x + 2 * y)
    assert path_norm(model, (torch.zeros(1, 3), torch.zeros(1, 3))) == pytest.approx(9.0)


# --- orbits -------------------------------------------------------------------------------------------------


def factors(n, spread=1.0):
    return (spread * torch.randn(n, dtype=torch.float64)).exp()


def rescale(first, second, spread=1.0):
    """Units between two linear layers: what enters times c, what leaves divided by c."""
    c = factors(first.out_features, spread)
    first.weight.data *= c[:, None]
    first.bias.data *= c
    second.weight.data /= c


def rescale_conv_bn(conv, bn, then, spread=1.0):
    """Two factors for each channel: c between conv and batch norm, d after it."""
    c, d = factors(conv.out_channels, spread), factors(conv.out_channels, spread)
    conv.weight.data *= c[:, None, None, None]
    conv.bias.data *= c
    bn.running_mean *= c
    bn.weight.data *= d / c
    bn.bias.data *= d
    then.weight.data /= d[:, None, None]


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("name", NETWORKS)
def test_rescaling_changes_nothing(name, p):
    build, shape = NETWORKS[name]
    model = build().eval()
    twin = copy.deepcopy(model)
    if name == "perceptron":
        rescale(twin[0], twin[2])
    elif name == "convolution":
        rescale_conv_bn(twin[0], twin[1], twin[4])
    else:
        rescale_conv_bn(twin[0].conv1, twin[0].bn1, twin[0].conv2)
    x = torch.randn(4, *shape, dtype=torch.float64)
    torch.testing.assert_close(twin(x), model(x), rtol=1e-10, atol=1e-10)
    assert path_norm(twin, x, p) == pytest.approx(path_norm(model, x, p), rel=1e-10)


@pytest.mark.parametrize("p", [1.0, 20.0, math.inf])
def test_extreme_rescaling_loses_no_path(p):
    """Units of one layer whose incoming weights, to the power p, differ by far more than floats can."""
    model = perceptron(3, 5, 5, 2)
    twin = copy.deepcopy(model)
    rescale(twin[0], twin[2], spread=100.0)
    rescale(twin[2], twin[4], spread=100.0)
    x = torch.zeros(1, 3)
    assert path_norm(twin, x, p, log=True) == pytest.approx(path_norm(model, x, p, log=True), abs=1e-10)


def test_signs_do_not_matter():
    model, twin = perceptron(3, 4, 2), perceptron(3, 4, 2)
    for weight in twin.parameters():
        weight.data *= torch.randn(weight.shape).sign()
    assert path_norm(model, torch.zeros(1, 3)) == pytest.approx(path_norm(twin, torch.zeros(1, 3)), rel=1e-14)


# --- beyond the range of floats -----------------------------------------------------------------------------


def constant_network(depth, width, weight, bias=None):
    layers = [nn.Linear(width, width, bias=bias is not None) for _ in range(depth)]
    for layer in layers:
        layer.weight.data.fill_(weight)
        if bias is not None:
            layer.bias.data.fill_(bias)
    return nn.Sequential(*itertools.chain(*((layer, nn.ReLU()) for layer in layers)))


@pytest.mark.parametrize("p", [3.7, math.inf])
def test_deep_network(p):
    """n^(L+1) paths of product w^L: the logarithm of the norm is L log w + (L+1)/p log n."""
    depth, width, weight = 300, 3, -50.0
    model = constant_network(depth, width, weight)
    expected = depth * math.log(50.0) + (depth + 1) / p * math.log(width)
    assert path_norm(model, torch.zeros(1, width), p, log=True) == pytest.approx(expected, rel=1e-13)


def test_norm_too_large_for_a_float():
    model = constant_network(11, 2, 1e30)
    with pytest.raises(TrueriskError, match=r"exp\(768\..*log=True"):
        path_norm(model, torch.zeros(1, 2))
    assert path_norm(model[:20], torch.zeros(1, 2)) == pytest.approx(2.0**11 * 1e300, rel=1e-5)


def test_deep_network_with_biases():
    """The sum over paths in Python's integers, which know no overflow."""
    depth, width, weight, bias = 300, 3, 50, 7
    entry = 1
    for _ in range(depth):
        entry = width * weight * entry + bias
    model = constant_network(depth, width, weight, bias)
    found = path_norm(model, torch.zeros(1, width), log=True)
    assert found == pytest.approx(math.log(width * entry), rel=1e-13)


def test_norm_too_small_for_a_float():
    model = constant_network(20, 2, 1e-30).double()
    weight = model[0].weight[0, 0].item()  # as float32 has it
    found = path_norm(model, torch.zeros(1, 2), log=True)
    assert found == pytest.approx(20 * math.log(weight) + 21 * math.log(2), rel=1e-13)
    assert path_norm(model, torch.zeros(1, 2)) == 0.0


@pytest.mark.parametrize("p", POWERS)
def test_zero_network(p):
    model = constant_network(2, 2, 0.0, bias=0.0)
    assert path_norm(model, torch.zeros(1, 2), p) == 0.0
    assert path_norm(model, torch.zeros(1, 2), p, log=True) == -math.inf


# --- what is left alone, what is refused --------------------------------------------------------------------


def test_batch_size_and_mode_do_not_matter():
    model = conv_net().train()
    state = copy.deepcopy(model.state_dict())
    norms = [path_norm(model, torch.randn(n, 1, 4, 4)) for n in (0, 1, 5)]
    assert norms[0] == norms[1] == norms[2]
    assert model.training
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()), r"sigmoid \(in 1\)"),
        (nn.Tanh(), "tanh"),
        (nn.GELU(), "gelu"),
        (nn.SiLU(), "silu"),
        (nn.ELU(), "elu"),
        (nn.ReLU6(), "hardtanh"),
        (nn.Hardtanh(), "hardtanh"),
        (nn.Softmax(1), "softmax"),
        (nn.LayerNorm(4), "layer_norm"),
        (
            nn.Sequential(nn.Unflatten(1, (2, 2)), nn.BatchNorm1d(2, track_running_stats=False)),
            "batch_norm .* statistics",
        ),
        (nn.ConstantPad1d(1, 2.0), "pad .* other than zero"),
        (Apply(lambda x: x * x), "mul .* multiplies activations"),
        (Apply(lambda x: x @ x.mT), "matmul .* multiplies activations"),
        (Apply(lambda x: torch.einsum("bi,bj->bij", x, x)), "einsum .* multiplies activations"),
        (Apply(lambda x: torch.einsum("...i,ij->...j", x, torch.ones(4, 2).double())), "einsum .* two operands"),
        (Apply(lambda x: torch.einsum("bi,ii->bi", x, torch.ones(4, 4).double())), "einsum .* two operands"),
        (Apply(lambda x: torch.where(x > 0, x, 0.0)), "gt"),
        (Apply(lambda x: torch.where(torch.ones(4) > 0, x, -math.inf)), "where .* infinite"),
        (Apply(lambda x: 1 / (x + 1)), "reciprocal|div"),
        (Apply(lambda x: x / x.sum()), "div .* not linear"),
        (Apply(lambda x: x.clamp(max=1)), "clamp"),
        (Apply(lambda x: x.clamp(min=0.5)), "clamp"),
        (Apply(lambda x: torch.maximum(x, torch.ones(4))), "maximum .* other than zero"),
        (Apply(lambda x: torch.div(x, 2, rounding_mode="floor")), "div .* rounds"),
        (Apply(lambda x: x.to(torch.int64) * 2.0), "to .* rounds"),
        (Apply(lambda x: x / 0.0), "div .* infinite"),
        (Apply(lambda x: F.dropout(x)), "dropout .* random"),
        (Apply(lambda x: x.max(1)), "places of maxima"),
        (Apply(lambda x: x.gather(1, x.max(1, keepdim=True).indices)), "gather"),
    ],
)
def test_refusals(model, words):
    with pytest.raises(TrueriskError, match=words):
        path_norm(model, torch.zeros(3, 4))


@pytest.mark.parametrize("p", [0.0, -1.0, math.nan])
def test_bad_power(p):
    with pytest.raises(TrueriskError, match="p must be"):
        path_norm(nn.Linear(1, 1), torch.zeros(1, 1), p)


def test_power_too_small():
    with pytest.raises(TrueriskError, match="larger p"):
        path_norm(nn.Linear(2, 2), torch.zeros(1, 2), 1e-320, log=True)


@pytest.mark.parametrize("example", [torch.zeros(1, 3, dtype=torch.int64), torch.zeros(()), [1.0], None])
def test_bad_example(example):
    with pytest.raises(TrueriskError, match="example_input"):
        path_norm(nn.Linear(3, 1), example)


def test_weight_that_is_not_a_number():
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].weight.data[0, 1] = math.nan
    with pytest.raises(TrueriskError, match=r"linear \(in 0\) .* NaN"):
        path_norm(model, torch.zeros(1, 2))
