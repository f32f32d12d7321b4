"""One rule after the other: small networks around a single operation, with the dimension derived by hand.

Each network is  first layer (4 channels) -> the operation -> last layer, so 4 is "passes", 0 is "pinned". The check
inside find_symmetry compares every operation's result with its rule at random weights.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.symmetry import find_symmetry

from .zoo._build import finish


class Around(nn.Module):
    """Linear or convolutional layers around a function of (module, activation)."""

    def __init__(self, between, first, last, **parameters):
        super().__init__()
        self.between, self.first, self.last = between, first, last
        for name, shape in parameters.items():
            self.register_parameter(name, nn.Parameter(torch.ones(shape)))

    def forward(self, x):
        return self.last(self.between(self, self.first(x)))


def flat(between, width=4, **parameters):
    """On vectors of 4 channels."""
    return Around(between, nn.Linear(3, 4), nn.Linear(width, 2), **parameters), (2, 3)


def space(between, width=4, **parameters):
    """On images of 4 channels and 8 x 8 pixels."""
    last = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 2))
    return Around(between, nn.Conv2d(3, 4, 3, padding=1), last, **parameters), (2, 3, 8, 8)


def tokens(between, width=4, **parameters):
    """On 5 tokens of 4 channels."""
    return Around(between, nn.Linear(3, 4), nn.Linear(width, 2), **parameters), (2, 5, 3)


PASSES = {
    "identity": flat(lambda m, x: x),
    "relu": flat(lambda m, x: F.relu(x)),
    "relu in place": flat(lambda m, x: F.relu_(x)),
    "leaky_relu": flat(lambda m, x: F.leaky_relu(x, 0.2)),
    "prelu": flat(lambda m, x: F.prelu(x, m.slope), slope=(4,)),
    "abs": flat(lambda m, x: x.abs()),
    "neg": flat(lambda m, x: -x),
    "dropout": flat(lambda m, x: F.dropout(x, 0.5, m.training)),
    "clamp at 0": flat(lambda m, x: x.clamp(min=0)),
    "threshold at 0": flat(lambda m, x: F.threshold(x, 0, 0)),
    "maximum with 0": flat(lambda m, x: torch.maximum(x, torch.zeros(4, dtype=x.dtype))),
    "where positive": flat(lambda m, x: torch.where(x > 0, x, 0.3 * x)),
    "where, else 0": flat(lambda m, x: torch.where(x > 0, x, torch.zeros_like(x))),
    "masked_fill": flat(lambda m, x: x.masked_fill(x < 0, 0.0)),
    "times a number": flat(lambda m, x: 3 * x / 7),
    "plus 0": flat(lambda m, x: x + 0.0),
    "plus a bias": flat(lambda m, x: x + m.bias, bias=(4,)),
    "minus a bias": flat(lambda m, x: m.bias - x, bias=(4,)),
    "square, then root": flat(lambda m, x: (x**2 + 0.0).sqrt()),
    "power": flat(lambda m, x: x.abs() ** 1.5),
    "times a bool": flat(lambda m, x: x * (x > 0).double() * x.bool()),
    "sign times": flat(lambda m, x: x.sign() * x),
    "to and back": flat(lambda m, x: x.to(torch.float64).contiguous().clone().detach()),
    "flip": flat(lambda m, x: x.flip(-1)),
    "roll": flat(lambda m, x: x.roll(1, -1)),
    "expand": flat(lambda m, x: x.unsqueeze(1).expand(-1, 3, -1).sum(1)),
    "repeat": flat(lambda m, x: x.repeat(1, 2), 8),
    "repeat_interleave": flat(lambda m, x: x.repeat_interleave(2, 1), 8),
    "index": flat(lambda m, x: x[:, torch.tensor([3, 0, 1, 2])]),
    "index_select": flat(lambda m, x: x.index_select(1, torch.tensor([3, 0, 1, 2]))),
    "unbind, stack": flat(lambda m, x: torch.stack(x.unbind(1), 1)),
    "split, cat": flat(lambda m, x: torch.cat(x.split([1, 3], 1), 1)),
    "chunk": flat(lambda m, x: torch.cat(x.chunk(2, 1)[::-1], 1)),
    "reshape": flat(lambda m, x: x.reshape(-1, 2, 2).transpose(1, 2).flatten(1)),
    "pad with zeros": flat(lambda m, x: F.pad(x, (0, 0)), 4),
    "einsum": flat(lambda m, x: torch.einsum("ni,ni->ni", x, torch.ones(2, 4, dtype=x.dtype))),
    "max_pool2d": space(lambda m, x: F.max_pool2d(x, 3, 2, 1)),
    "avg_pool2d": space(lambda m, x: F.avg_pool2d(x, 2)),
    "adaptive_max_pool2d": space(lambda m, x: F.adaptive_max_pool2d(x, 3)),
    "lp_pool2d": space(lambda m, x: F.lp_pool2d(x.abs(), 2, 2)),
    "amax": space(lambda m, x: x.amax((2, 3), keepdim=True)),
    "max of an axis": space(lambda m, x: x.max(3, keepdim=True).values),
    "mean": space(lambda m, x: x.mean((2, 3), keepdim=True)),
    "sum": space(lambda m, x: x.sum(-1).unsqueeze(-1)),
    "std over space": space(lambda m, x: x.std((2, 3), keepdim=True)),
    "cumsum over space": space(lambda m, x: x.cumsum(2)),
    "topk over space": space(lambda m, x: x.flatten(2).topk(3, -1).values.unsqueeze(-1)),
    "norm over space": space(lambda m, x: torch.linalg.vector_norm(x, dim=(2, 3), keepdim=True)),
    "reflect": space(lambda m, x: F.pad(x, (1, 1, 1, 1), mode="reflect")),
    "replicate": space(lambda m, x: F.pad(x, (1, 1, 1, 1), mode="replicate")),
    "circular": space(lambda m, x: F.pad(x, (1, 1, 1, 1), mode="circular")),
    "zero-pad over space": space(lambda m, x: F.pad(x, (1, 2, 3, 0))),
    "nearest": space(lambda m, x: F.interpolate(x, scale_factor=2)),
    "bilinear": space(lambda m, x: F.interpolate(x, size=(5, 5), mode="bilinear")),
    "bicubic": space(lambda m, x: F.interpolate(x, size=(5, 5), mode="bicubic")),
    "unfold": space(lambda m, x: x.unfold(2, 3, 2).mean(-1)),
    "fixed blur": space(lambda m, x: F.conv2d(x, torch.ones(4, 1, 3, 3, dtype=x.dtype) / 9, groups=4)),
    "permute and back": space(lambda m, x: x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)),
}


@pytest.mark.parametrize("name", PASSES)
def test_log_scales_pass(name):
    module, shape = PASSES[name]
    symmetry = find_symmetry(finish(module, 0), torch.ones(shape))
    assert symmetry.dim == 4
    assert symmetry.pinned == []


PINS = {
    "sigmoid": flat(lambda m, x: x.sigmoid()),
    "tanh": flat(lambda m, x: x.tanh()),
    "gelu": flat(lambda m, x: F.gelu(x)),
    "silu": flat(lambda m, x: F.silu(x)),
    "softmax": flat(lambda m, x: x.softmax(1)),
    "relu6": flat(lambda m, x: F.relu6(x)),
    "hardswish": flat(lambda m, x: F.hardswish(x)),
    "elu": flat(lambda m, x: F.elu(x)),
    "exp": flat(lambda m, x: x.exp()),
    "sin": flat(lambda m, x: x.sin()),
    "add": flat(lambda m, x: x + 1),
    "sub": flat(lambda m, x: 1 - x),
    "clamp": flat(lambda m, x: x.clamp(0, 3)),
    "where": flat(lambda m, x: torch.where(x > 0, x, torch.ones_like(x))),
    "gt": flat(lambda m, x: x * (x > 1)),
    "masked_fill": flat(lambda m, x: x.masked_fill(x < 0, 2.0)),
    "pow": flat(lambda m, x: 2.0**x),
    "layer_norm": flat(lambda m, x: F.layer_norm(x, (4,))),
    "group_norm": space(lambda m, x: F.group_norm(x, 2)),
    "instance_norm": space(lambda m, x: F.instance_norm(x)),
    "remainder": flat(lambda m, x: x % 1.5),
    "bucketize": flat(lambda m, x: torch.bucketize(x, torch.tensor([0.0, 1.0], dtype=x.dtype)).double()),
    "to": flat(lambda m, x: x.long().double()),
    "logcumsumexp": flat(lambda m, x: x.logcumsumexp(1)),
}


@pytest.mark.parametrize("name", PINS)
def test_the_rest_is_pinned_and_named(name):
    module, shape = PINS[name]
    symmetry = find_symmetry(finish(module, 0), torch.ones(shape))
    assert symmetry.dim == 0
    where, why = symmetry.pinned[0]
    assert where == "forward"
    assert name in why or symmetry.pins[0].operation in ("rsub", "comparison", "scalar_tensor")


def rotated(x):
    return torch.cat([-x[..., 2:], x[..., :2]], -1)


def attend(m, x):
    q, k, v = x @ m.q, x @ m.k, x @ m.v
    return ((q @ k.transpose(-1, -2)).softmax(-1) @ v) @ m.o


FREE = {
    # layer scale, gains: 4 more behind them
    "times a parameter": (flat(lambda m, x: x * m.gain, gain=(4,)), 8),
    "over a parameter": (flat(lambda m, x: x / m.gain, gain=(4,)), 8),
    "times one number": (flat(lambda m, x: x * m.gain, gain=(1,)), 5),
    "a parameter for each pixel": (space(lambda m, x: x * m.gain, gain=(1, 8, 8)), 4 + 1),
    "a parameter for each entry": (tokens(lambda m, x: (x * m.gain).flatten(1), 20, gain=(5, 4)), 4 + 20),
    # LayerNorm: 0 before, 4 behind the gain
    "layer norm with gain": (flat(lambda m, x: F.layer_norm(x, (4,), m.gain, m.bias), gain=(4,), bias=(4,)), 4),
    "rms norm with gain": (flat(lambda m, x: F.rms_norm(x, (4,), m.gain), gain=(4,)), 4),
    "group norm with gain": (space(lambda m, x: F.group_norm(x, 2, m.gain, m.bias), gain=(4,), bias=(4,)), 4),
    # matrices in all positions
    "x @ w": (flat(lambda m, x: x @ m.w, 5, w=(4, 5)), 9),
    "x @ w.T": (flat(lambda m, x: x @ m.w.T, 5, w=(5, 4)), 9),
    "w @ x.T": (flat(lambda m, x: (m.w @ x.T).T, 5, w=(5, 4)), 9),
    "einsum with heads": (
        tokens(lambda m, x: torch.einsum("nti,hid->nthd", x, m.w).flatten(2), 6, w=(3, 4, 2)),
        4 + 6,
    ),
    "addmm": (flat(lambda m, x: torch.addmm(m.b, x, m.w), 5, w=(4, 5), b=(5,)), 9),
    "part of a parameter": (flat(lambda m, x: x @ m.w[:, :5] + x @ m.w[:, 5:], 5, w=(4, 10)), 9),
    # products of activations: 4 + 4 - they are free, their product is what it must be
    "gate": (flat(lambda m, x: x * F.relu(x @ m.w), w=(4, 4)), 8),
    "square": (flat(lambda m, x: x * x), 4),
    "ratio": (flat(lambda m, x: x / (x @ m.w), w=(4, 4)), 8),
    "glu": (flat(lambda m, x: F.glu(x, 1), 2), 2),
    "softmax gate": (flat(lambda m, x: (x @ m.w).softmax(-1) * x, w=(4, 4)), 4),
    # a residual ties 4 to 4; hidden 5 stay
    "residual": (flat(lambda m, x: x + F.relu(x @ m.a) @ m.b, a=(4, 5), b=(5, 4)), 9),
    # normalization by the norm of x: homogeneous of degree 0, one scale for all channels
    "x over its norm": (flat(lambda m, x: x / torch.linalg.vector_norm(x, dim=1, keepdim=True)), 1),
    # which channel is the largest must not change
    "argmax": (flat(lambda m, x: x * (x.argmax(1, keepdim=True) > -1)), 1),
    # query and key inversely (4), value free (4), stream of the first layer (4)
    "attention by hand": (tokens(attend, q=(4, 4), k=(4, 4), v=(4, 4), o=(4, 4)), 4 + 4 + 4 + 4),
    # rotary embedding: dimensions d and d + 2 share a scale, so 2 for query and key; logits pinned
    "rotary": (
        tokens(
            lambda m, x: F.scaled_dot_product_attention(*(3 * y + 2 * rotated(y) for y in (x @ m.q, x @ m.k)), x @ m.v),
            q=(4, 4),
            k=(4, 4),
            v=(4, 4),
        ),
        4 + 2 + 4,
    ),
    # zeros take any scale: the padded channels feed weights of their own
    "zero channels": (flat(lambda m, x: F.pad(x, (0, 3)), 7), 4 + 3),
    "zero block": (flat(lambda m, x: torch.cat([x, torch.zeros(2, 3, dtype=x.dtype)], 1), 7), 4 + 3),
    # weight norm: the length of each row of v is free and changes nothing
    "weight norm": (flat(lambda m, x: F.linear(x, torch._weight_norm(m.v, m.g, 0)), 5, v=(5, 4), g=(5, 1)), 1 + 5 + 5),
    # the same matrix twice: t_w = u1 - u0 = u2 - u1, entry by entry: u1 = u0 + c, so one number and u0
    "a matrix twice": (flat(lambda m, x: F.relu(x @ m.w) @ m.w, w=(4, 4)), 4 + 1),
    # t_w = u1[j] - u0[i] = u2[i] - u1[j]: so u1 is one number c, and u2 = 2c - u0
    "a matrix and its transpose": (flat(lambda m, x: F.relu(x @ m.w) @ m.w.T, 4, w=(4, 5)), 4 + 1),
    "a bias twice": (flat(lambda m, x: F.relu(x + m.b) @ m.w + m.b, w=(4, 4), b=(4,)), 4),
    "bias added to one channel axis of two": (tokens(lambda m, x: x + m.b, b=(5, 4)), 4),
    "class token": (tokens(lambda m, x: torch.cat([m.c.expand(2, -1, -1), x], 1), c=(1, 1, 4)), 4),
    "a slope that is learnt": (flat(lambda m, x: F.leaky_relu(x) * m.gain.abs(), gain=(4,)), 8),
}


@pytest.mark.parametrize("name", FREE)
def test_new_freedom(name):
    (module, shape), dim = FREE[name]
    symmetry = find_symmetry(finish(module, 0), torch.ones(shape))
    assert symmetry.dim == dim


def test_a_repeated_parameter_moves_as_one():
    """Four copies of a 1 x 5 row: the 4 channels that meet it must scale alike."""
    module, shape = flat(lambda m, x: x @ m.w.repeat(4, 1), 5, w=(1, 5))
    assert find_symmetry(finish(module, 0), torch.ones(shape)).dim == 1 + 5


def test_part_of_a_parameter_in_order():
    """The first rows of a parameter are in order too, but they are not all of it."""
    module, shape = flat(lambda m, x: x @ m.w[:4], 5, w=(6, 5))
    net = finish(module, 0)
    symmetry = find_symmetry(net, torch.ones(shape))
    assert symmetry.dim == 4 + 5
    twin = symmetry.rescale(net, symmetry.random())
    assert torch.equal(twin.w[4:], net.w[4:])


def test_a_factory_will_do():
    assert find_symmetry(lambda: nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)), torch.ones(1, 3)).dim == 5
