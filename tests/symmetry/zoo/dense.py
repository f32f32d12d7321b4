"""Networks of linear layers."""

from functools import partial

import torch
from torch import nn

from ._build import Plus, Scale, finish, normal

INPUTS, OUTPUTS = 5, 3


class SquaredReLU(nn.Module):
    """A product of two activations has the sum of their u: here 2u."""

    def forward(self, x):
        x = x.relu()
        return x * x


def mlp(widths=(32, 24, 16), bias=True, activation=nn.ReLU, free=True, seed=0):
    """A homogeneous activation leaves every hidden channel free. Biases move with them: they change nothing."""
    layers, width = [], INPUTS
    for w in widths:
        layers += [nn.Linear(width, w, bias), activation(w) if activation is nn.PReLU else activation()]
        width = w
    net = nn.Sequential(*layers, nn.Linear(width, OUTPUTS, bias))
    dim = sum(widths) if free else 0  # tanh, GELU and the like pin what they act on
    return finish(net, seed), normal(2, INPUTS), dim


def deep_linear(width=8, seed=0):
    """Between two linear layers, nothing but diagonal rescalings counts: no rotations."""
    net = nn.Sequential(nn.Linear(INPUTS, width), nn.Linear(width, OUTPUTS))
    return finish(net, seed), normal(2, INPUTS), width


def half_pinned(width=12, seed=0):
    """The first half of the hidden channels goes through tanh, the rest through ReLU; then they swap places."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(INPUTS, width), nn.Linear(width, OUTPUTS)

        def forward(self, x):
            a, b = self.first(x).chunk(2, dim=1)
            return self.last(torch.cat([b.relu(), a.tanh()], dim=1))

    return finish(Net(), seed), normal(2, INPUTS), width // 2  # those through ReLU


def offset(width=8, seed=0):
    """A constant that isn't a parameter can't be rescaled: what it's added to is pinned. A factor does no harm."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(INPUTS, width), nn.Linear(width, width)
            self.last = nn.Linear(width, OUTPUTS)

        def forward(self, x):
            x = (2 * self.first(x)).relu()
            return self.last((self.second(x) + 1).relu())

    return finish(Net(), seed), normal(2, INPUTS), width + 0  # the first layer; the second is pinned


def layer_scale(width=8, scales=None, depth=2, seed=0):
    """Residual blocks whose body ends in a parameter for each channel, or in one for all of them (ReZero)."""
    scales = scales or width
    blocks = [
        Plus(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), Scale(scales)) for _ in range(depth)
    ]
    net = nn.Sequential(nn.Linear(INPUTS, width), *blocks, nn.Linear(width, OUTPUTS))
    stream = width
    block = 2 * width + scales  # hidden; before the scale (as far from the stream as the scale can bridge)
    return finish(net, seed), normal(2, INPUTS), stream + depth * block


def batch_norm(width=8, affine=True, seed=0):
    """In eval mode: (x - mean) / sqrt(var + eps) * gain + shift. The mean moves with x, gain and shift as they like."""
    norm = nn.BatchNorm1d(width, affine=affine)
    net = nn.Sequential(nn.Linear(INPUTS, width), norm, nn.LeakyReLU(0.1), nn.Linear(width, OUTPUTS))
    dim = width  # before the norm
    if affine:
        dim += width  # after it; without a gain that's tied to the one before
    return finish(net, seed), normal(2, INPUTS), dim


def maxout(width=8, seed=0):
    """max(a, b) needs the same u on both sides, as a sum does."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(INPUTS, width), nn.Linear(INPUTS, width)
            self.c, self.d = nn.Linear(width, width), nn.Linear(width, width)
            self.last = nn.Linear(width, OUTPUTS)

        def forward(self, x):
            x = torch.maximum(self.a(x), self.b(x))
            return self.last(torch.maximum(self.c(x), self.d(x)))

    return finish(Net(), seed), normal(2, INPUTS), width + width  # one for each maximum


def shared(width=8, before=True, bias=False, seed=0):
    """The same square layer A twice: A's move, u1[i] - u0[j] = u2[i] - u1[j] for all i and j.

    So u2[i] - u1[i] = u1[j] - u0[j] is one number s: u1 = u0 + s and u2 = u0 + 2s. A bias of A moves by u1 and by u2,
    which makes s = 0. Where A acts on the network's input, u0 = 0.
    """

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(INPUTS, width, bias) if before else nn.Identity()
            self.a = nn.Linear(width, width, bias)
            self.last = nn.Linear(width, OUTPUTS, bias)

        def forward(self, x):
            x = self.first(x).relu() if before else x
            return self.last(self.a(self.a(x).relu()).relu())

    u0 = width if before else 0
    s = 0 if bias else 1
    return finish(Net(), seed), normal(2, INPUTS if before else width), u0 + s


ZOO = {
    "mlp": mlp,
    "mlp_no_bias": partial(mlp, bias=False),
    "mlp_leaky": partial(mlp, activation=nn.LeakyReLU),
    "mlp_prelu": partial(mlp, activation=nn.PReLU),
    "mlp_squared": partial(mlp, activation=SquaredReLU),
    "mlp_tanh": partial(mlp, activation=nn.Tanh, free=False),
    "mlp_gelu": partial(mlp, activation=nn.GELU, free=False),
    "deep_linear": deep_linear,
    "half_pinned": half_pinned,
    "offset": offset,
    "layer_scale": layer_scale,
    "rezero": partial(layer_scale, scales=1),
    "batch_norm": batch_norm,
    "batch_norm_not_affine": partial(batch_norm, affine=False),
    "maxout": maxout,
    "shared": shared,
    "shared_bias": partial(shared, bias=True),
    "shared_first": partial(shared, before=False),
    "shared_first_bias": partial(shared, before=False, bias=True),
}
SMALL = {name: {"width": 4} for name in ZOO} | {name: {"widths": (4, 3)} for name in ZOO if name.startswith("mlp")}
IDLE: dict[str, int] = {}
