"""StochasticNetwork against whole networks that are drawn one by one.

The slow twin copies drawn numbers into the module and calls it: nothing but torch. Outputs are compared by
their means and by all products of two coordinates (variances and covariances within an example). A comparison
fails beyond 5 standard errors: probability 6e-7 each; there are about 400, so a right program fails with
probability 2e-4 for a new seed, and never for this one.
"""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call

from truerisk.pacbayes import Gaussian, NotPerExample, StochasticNetwork

SIGMAS = 5.0
DRAWS = 3000  # whole networks
TRIALS = 30_000  # examples in one pass


class Tokens(nn.Module):
    """A linear layer on each token, then one on all of them."""

    def __init__(self):
        super().__init__()
        self.each, self.all = nn.Linear(2, 3), nn.Linear(9, 2)

    def forward(self, x):
        return self.all(torch.relu(self.each(x)).flatten(1))


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(3, 2), nn.Linear(8, 2)

    def forward(self, x):
        return self.out(self.table(x.long()).flatten(1))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.out = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x):
        return self.out(torch.relu(x + self.two(torch.relu(self.one(x)))))


class Own(nn.Module):
    """A layer of the user's: its own parameters, one input, one output."""

    def __init__(self):
        super().__init__()
        self.scale, self.turn = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        return torch.tanh(x * self.scale) @ self.turn + self.scale


def frozen_bias():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    module[0].bias.requires_grad_(False)
    module[2].weight.requires_grad_(False)
    return module


def frozen_kernel():
    module = nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))
    module[0].weight.requires_grad_(False)
    return module


def trained_norm(norm, shape):
    norm.train()
    norm(torch.randn(50, *shape) * 2 + 1)
    return norm.eval()


def conv(**options):
    layer = nn.Conv2d(2, 2, options.pop("kernel", 2), **options)
    with torch.no_grad():
        features = layer(torch.zeros(1, 2, 5, 4)).numel()
    return nn.Sequential(layer, nn.ReLU(), nn.Flatten(), nn.Linear(features, 2))


NETWORKS = {
    "linear": (lambda: nn.Linear(3, 2), (3,)),
    "no bias": (lambda: nn.Linear(3, 2, bias=False), (3,)),
    "mlp": (lambda: nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)), (3,)),
    "residual": (Residual, (3,)),
    "frozen bias": (frozen_bias, (3,)),
    "frozen kernel": (frozen_kernel, (1, 3, 3)),
    "conv": (lambda: conv(), (2, 5, 4)),
    "conv options": (lambda: conv(kernel=(2, 3), stride=(2, 1), padding=(1, 2), dilation=(2, 1)), (2, 5, 4)),
    "conv no bias": (lambda: conv(stride=3, bias=False), (2, 5, 4)),
    "conv groups": (lambda: conv(groups=2), (2, 5, 4)),
    "conv same": (lambda: conv(kernel=3, padding="same"), (2, 5, 4)),
    "conv circular": (lambda: conv(kernel=3, padding=1, padding_mode="circular"), (2, 5, 4)),
    "conv1d": (
        lambda: nn.Sequential(nn.Conv1d(2, 2, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(6, 2)),
        (2, 5),
    ),
    "conv3d": (lambda: nn.Sequential(nn.Conv3d(1, 2, 2), nn.Flatten(), nn.Linear(2, 2)), (1, 2, 2, 2)),
    "transposed": (lambda: nn.Sequential(nn.ConvTranspose2d(1, 2, 2), nn.Flatten(), nn.Linear(18, 2)), (1, 2, 2)),
    "layer norm": (lambda: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2)), (3,)),
    "batch norm": (
        lambda: nn.Sequential(nn.Linear(3, 4), trained_norm(nn.BatchNorm1d(4), (4,)), nn.ReLU(), nn.Linear(4, 2)),
        (3,),
    ),
    "batch norm 2d": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 2), trained_norm(nn.BatchNorm2d(2), (2, 2, 2)), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)
        ),
        (1, 3, 3),
    ),
    "group norm": (lambda: nn.Sequential(nn.Linear(3, 4), nn.GroupNorm(2, 4), nn.PReLU(4), nn.Linear(4, 2)), (3,)),
    "tokens": (Tokens, (3, 2)),
    "embedding": (Lookup, (4,)),
    "own layer": (lambda: nn.Sequential(nn.Linear(3, 3), Own(), nn.Linear(3, 2)), (3,)),
}


def gaussian(module, seed=0):
    """Widths of the size of the means, all different."""
    torch.manual_seed(seed)
    std = {k: 0.2 + 0.4 * torch.rand(p.shape) for k, p in module.named_parameters() if p.requires_grad}
    return Gaussian(module.double(), {k: p for k, p in module.named_parameters() if p.requires_grad}, std)


def examples(shape, name=""):
    torch.manual_seed(1)
    if name == "embedding":
        return torch.tensor([[0, 1, 1, 2], [2, 2, 2, 2]], dtype=torch.float64)
    return torch.randn(2, *shape, dtype=torch.float64) + 0.5


def slow_outputs(q, x, draws, seed=2):
    """(draws, examples, outputs): a fresh network for each draw."""
    module = copy.deepcopy(q.module)
    weights = {k: p for k, p in module.named_parameters() if p.requires_grad}
    generator = torch.Generator().manual_seed(seed)
    out = []
    with torch.no_grad():
        for _ in range(draws):
            for name, p in weights.items():
                noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
                p.copy_(q.mean[name] + q.std[name] * noise)
            out.append(module(x))
    return torch.stack(out)


def fast_outputs(q, x, seed=3):
    """(trials, outputs) of one pass over x."""
    network = StochasticNetwork(q.module, exact=True)
    network.probe(x, q.mean, q.std)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        return network(x, q.mean, q.std, lambda shape: torch.randn(shape, generator=generator, dtype=torch.float64))


def features(out):
    """Coordinates and all their products."""
    products = [out[:, i] * out[:, j] for i in range(out.shape[1]) for j in range(i + 1)]
    return torch.cat([out, torch.stack(products, dim=1)], dim=1)


def worst_gap(a, b):
    """Largest difference of two means in standard errors."""
    a, b = features(a), features(b)
    error = (a.var(0) / len(a) + b.var(0) / len(b)).sqrt()
    return float(((a.mean(0) - b.mean(0)).abs() / error).max())


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_are_distributed_as_those_of_drawn_networks(name):
    build, shape = NETWORKS[name]
    torch.manual_seed(4)
    q = gaussian(build())
    x = examples(shape, name)
    slow = slow_outputs(q, x, DRAWS)
    fast = fast_outputs(q, x.repeat_interleave(TRIALS // 2, dim=0)).unflatten(0, (2, TRIALS // 2))
    for k in range(2):
        assert worst_gap(slow[:, k], fast[k]) < SIGMAS


def test_the_comparison_sees_a_wrong_width():
    """A tenth more on every width is seen, so that the test above means something."""
    q = gaussian(NETWORKS["mlp"][0]())
    wider = Gaussian(q.module, q.mean, {k: 1.1 * v for k, v in q.std.items()})
    x = examples((3,))
    slow = slow_outputs(wider, x, DRAWS)
    fast = fast_outputs(q, x.repeat_interleave(TRIALS // 2, dim=0)).unflatten(0, (2, TRIALS // 2))
    assert max(worst_gap(slow[:, k], fast[k]) for k in range(2)) > SIGMAS


@pytest.mark.parametrize("name", NETWORKS)
def test_examples_are_independent_of_each_other(name):
    """The correlation of neighbours that are the same example is 0 +- 5 / sqrt(trials)."""
    build, shape = NETWORKS[name]
    torch.manual_seed(4)
    q = gaussian(build())
    out = fast_outputs(q, examples(shape, name)[:1].expand(12_000, *shape)).unflatten(0, (6000, 2))
    one, two = ((out[:, k] - out[:, k].mean(0)) / out[:, k].std(0) for k in range(2))
    assert (one.T @ two / 6000).abs().max() < SIGMAS / 6000**0.5
    assert (one.square().mean(0) > 0.9).all()


def test_equal_tokens_of_one_example_share_their_weights():
    q = gaussian(nn.Linear(2, 3))
    out = fast_outputs(q, torch.randn(50, 1, 2, dtype=torch.float64).expand(50, 4, 2))
    assert torch.equal(out, out[:, :1].expand_as(out)) or (out - out[:, :1]).abs().max() < 1e-12
    assert out[:, 0].std(0).min() > 0.1


@pytest.mark.parametrize("layer", [nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(2, 3, 3, padding=1, groups=1, dilation=1)])
def test_a_constant_image_has_equal_outputs_inside(layer):
    q = gaussian(layer)
    out = fast_outputs(q, torch.full((40, 2, 6, 6), 0.7, dtype=torch.float64))[:, :, 1:-1, 1:-1]
    assert (out - out[:, :, :1, :1]).abs().max() < 1e-12
    assert out[:, :, 0, 0].std(0).min() > 0.1


def test_constant_signal_through_conv1d():
    q = gaussian(nn.Conv1d(2, 3, 3))
    out = fast_outputs(q, torch.full((40, 2, 9), 0.7, dtype=torch.float64))
    assert (out - out[:, :, :1]).abs().max() < 1e-12


def test_the_module_is_untouched_and_the_pass_repeats():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    before = {k: v.clone() for k, v in module.state_dict().items()}
    q = gaussian(module)
    x = examples((3,))
    assert torch.equal(fast_outputs(q, x), fast_outputs(q, x))
    assert all(torch.equal(v.float(), before[k]) for k, v in q.module.state_dict().items())


# What layer-by-layer draws can't follow.


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x):
        return self.out(self.a(torch.relu(self.a(x))))


class Functional(Twice):
    def forward(self, x):
        return self.out(torch.relu(nn.functional.linear(x, self.a.weight, self.a.bias)))


class BothWays(Twice):
    def forward(self, x):
        return self.out(nn.functional.linear(torch.relu(self.a(x)), self.a.weight))


class OnlyBias(Twice):
    def forward(self, x):
        return self.out(torch.relu(self.a(x)) + self.a.bias)


class Flattened(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Linear(1, 2), nn.Linear(6, 2)

    def forward(self, x):
        return self.out(torch.relu(self.a(x.reshape(-1, 1))).reshape(len(x), 6))


class Turned(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Linear(1, 2), nn.Linear(6, 2)

    def forward(self, x):
        return self.out(self.a(x.T[:, :, None]).permute(1, 0, 2).flatten(1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.out = nn.MultiheadAttention(2, 1, batch_first=True), nn.Linear(6, 2)

    def forward(self, x):
        x = torch.stack([x, x.flip(1)], dim=2)
        return self.out(self.a(x, x, x, need_weights=False)[0].flatten(1))


class Recurrent(nn.Module):
    def __init__(self, kind=nn.LSTM):
        super().__init__()
        self.a, self.out = kind(1, 2, batch_first=True), nn.Linear(2, 2)

    def forward(self, x):
        return self.out(self.a(x[:, :, None])[0][:, -1])


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Bilinear(3, 3, 3), nn.Linear(3, 2)

    def forward(self, x):
        return self.out(self.a(x, x))


class Position(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift, self.out = nn.Parameter(torch.randn(3)), nn.Linear(3, 2)

    def forward(self, x):
        return self.out(torch.relu(x + self.shift))


class Experts(nn.Module):
    """Each example goes to one of two layers."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x):
        chosen = x[:, :1] > 0
        out = x.new_zeros(len(x), 2)
        out[chosen[:, 0]] = self.a(x[chosen[:, 0]])
        out[~chosen[:, 0]] = self.b(x[~chosen[:, 0]])
        return out


def tied():
    module = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3), nn.Linear(3, 2))
    module[2].weight = module[0].weight
    return module


def same_layer_twice():
    layer = nn.Linear(3, 3)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(3, 2))


def weight_normed():
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), nn.ReLU(), nn.Linear(3, 2))


NOT_LAYERED = {
    "used twice": Twice,
    "read functionally": Functional,
    "called and read": BothWays,
    "bias read": OnlyBias,
    "tokens in the batch axis": Flattened,
    "batch is not the first axis": Turned,
    "attention": Attention,
    "lstm": Recurrent,
    "gru": lambda: Recurrent(nn.GRU),
    "bilinear": Pair,
    "parameter of the network itself": Position,
    "experts": Experts,
    "tied": tied,
    "same layer twice": same_layer_twice,
    "weight norm": weight_normed,
}


@pytest.mark.parametrize("name", NOT_LAYERED)
def test_what_is_not_understood_is_refused(name):
    torch.manual_seed(4)
    q = gaussian(NOT_LAYERED[name]())
    x = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, 1.0], [0.3, 0.1, -1.0]], dtype=torch.float64)

    def attempt():
        StochasticNetwork(q.module, exact=True).probe(x, q.mean, q.std)

    with pytest.raises(NotPerExample):
        attempt()


def test_the_mean_network_without_noise():
    """Zero draws give exactly the network at the mean."""
    q = gaussian(NETWORKS["conv options"][0]())
    x = examples((2, 5, 4))
    with torch.no_grad():
        out = StochasticNetwork(q.module, exact=True)(x, q.mean, q.std, lambda s: torch.zeros(s, dtype=torch.float64))
        torch.testing.assert_close(out, functional_call(q.module, q.mean, (x,)), rtol=1e-12, atol=1e-12)
