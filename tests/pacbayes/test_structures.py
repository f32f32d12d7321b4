"""Modules that try to get past StochasticNetwork: overridden layers, hooks, swallowed NaN, tuples, closures.

For each of them, drawn outputs must be those of the user's own module with the drawn weights put into it, or
something must refuse. The widths are tiny, so that "the drawn weights" are the means and no statistics is needed.
The means are far from the weights inside the module: what reads a weight that was not drawn is seen.
"""

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.pacbayes import Gaussian, gibbs_risk
from truerisk.pacbayes import monte_carlo as mc

WIDTH = 1e-9


class AbsLinear(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight.abs(), self.bias)


class StandardizedConv(nn.Conv2d):
    """Weight standardization, as in BiT and NFNets."""

    def forward(self, x):
        w = self.weight
        w = (w - w.mean((1, 2, 3), keepdim=True)) / w.std((1, 2, 3), keepdim=True)
        return self._conv_forward(x, w, self.bias)


class CalledNorm(nn.LayerNorm):
    def __call__(self, x):
        return super().__call__(x) * 2 + 1


class TupleLayer(nn.Module):
    """Returns two things, as attention and recurrent layers do."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        h = x @ self.w
        return h, h.sum()


class TupleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.out = TupleLayer(), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(torch.relu(x + self.a(x)[0]))


class TupleNetLast(TupleNet):
    def forward(self, x):
        h, total = self.a(x)
        return self.out(torch.relu(x + h) + 0 * total)


class Turning(nn.Module):
    """A layer that returns (tokens, batch, features)."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(1, 4))

    def forward(self, x):
        return (x[:, :, None] @ self.w).transpose(0, 1)


class TurningNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.out = Turning(), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.a(x).mean(0))


class Swallow(nn.Module):
    """Reads a weight beside the call of its layer, in a way that hides NaN."""

    def __init__(self, read):
        super().__init__()
        self.a, self.out, self.read = nn.Linear(4, 4), nn.Linear(4, 2), read

    def forward(self, x):
        return self.out(torch.relu(self.a(x)) * self.read(self.a.weight))


def two_layers():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def norm_with_hook():
    module = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))
    module[1].register_forward_hook(lambda layer, inputs, out: out * 2 + 1)
    return module


def conv_with_pre_hook():
    module = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(6, 2))
    module[1].register_forward_pre_hook(lambda layer, inputs: (inputs[0] * 2 + 1,))
    return module


def linear_with_hook():
    module = two_layers()
    module[0].register_forward_hook(lambda layer, inputs, out: out * 2 + 1)
    return module


def hook_that_reads_weights():
    module = two_layers()
    module[0].register_forward_hook(lambda layer, inputs, out: out * (layer.weight > 0).sum())
    return module


def layer_with_own_forward():
    """What accelerate's hooks do to a layer; the closure keeps the user's own weights alive."""
    module = two_layers()
    old = module[0].forward
    module[0].forward = lambda x: old(x.to(torch.float32)).abs() + 1
    return module


def network_with_own_forward():
    module = two_layers()
    old = module.forward
    module.forward = lambda x: old(x.to(torch.float32)) * 2
    return module


class Float32Only(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.float())


def old_norm(wrap):
    """The old weight and spectral norm: a plain attribute `weight`, computed by a hook."""
    module = Float32Only(nn.Sequential(wrap(nn.Linear(4, 4)), nn.ReLU(), nn.Linear(4, 2))).eval()
    with torch.no_grad():
        module(torch.ones(2, 4))  # leaves a weight without a graph behind, which can be copied
    return module


def pruned():
    from torch.nn.utils import prune

    return old_norm(lambda layer: prune.l1_unstructured(layer, "weight", 0.5))


STRUCTURES = {
    "plain": two_layers,
    "linear with its own forward": lambda: nn.Sequential(AbsLinear(4, 4), nn.ReLU(), nn.Linear(4, 2)),
    "weight standardization": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), StandardizedConv(1, 3, (2, 1)), nn.ReLU(), nn.Flatten(), nn.Linear(6, 2)
    ),
    "overridden __call__": lambda: nn.Sequential(nn.Linear(4, 4), CalledNorm(4), nn.ReLU(), nn.Linear(4, 2)),
    "tuple, first taken": TupleNet,
    "tuple, unpacked": TupleNetLast,
    "layer that turns axes": TurningNet,
    "NaN lost in a comparison": lambda: Swallow(lambda w: 1 + 3 * (w.sum(1) > 0)),
    "NaN replaced": lambda: Swallow(lambda w: torch.nan_to_num(w.norm(), nan=1.0)),
    "NaN lost in argmax": lambda: Swallow(lambda w: 1 + w[0].argmax()),
    "hook on linear": linear_with_hook,
    "hook on layer norm": norm_with_hook,
    "pre-hook on conv1d": conv_with_pre_hook,
    "hook that reads weights": hook_that_reads_weights,
    "layer.forward replaced": layer_with_own_forward,
    "module.forward replaced": network_with_own_forward,
    "old weight norm": lambda: old_norm(torch.nn.utils.weight_norm),
    "old spectral norm": lambda: old_norm(torch.nn.utils.spectral_norm),
    "pruned": pruned,
    "float32 only": lambda: Float32Only(two_layers()),
    "traced by fx": lambda: torch.fx.symbolic_trace(two_layers()),
    "data parallel": lambda: nn.DataParallel(two_layers()),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_drawn_weights_are_the_ones_that_are_used(name):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old norms are deprecated
        module = STRUCTURES[name]().eval()
    X = np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32)
    try:
        q = Gaussian.around(module, WIDTH)
        generator = torch.Generator().manual_seed(5)
        for key, value in q.mean.items():
            q.mean[key] = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        plan = mc.plan_draws(q, X)
        out = torch.cat([logits for _, logits in mc.drawn_logits(q, X[:], 0, mc.replace(plan, passes=1))])
    except TrueriskError:
        return
    with torch.no_grad():
        for key, p in module.named_parameters():
            p.copy_(q.mean[key])
        right = module(torch.from_numpy(X))
    torch.testing.assert_close(out.double(), right.double(), rtol=1e-4, atol=1e-5)


# Modules that can't be drawn at all end with one clear error, not with a traceback of torch's.


def scripted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(two_layers())


class Float32Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.out = nn.LSTM(1, 2, batch_first=True), nn.Linear(2, 2)

    def forward(self, x):
        return self.out(self.a(x.float()[:, :, None])[0][:, -1])


class SkipsOften(nn.Module):
    """A layer that is called only if some example asks for it: the probe does not see that."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        far = x[:, 0] > 5
        out = self.a(x) + 0 * self.b(x)
        if far.any():
            out = out.clone()
            out[far] = self.a(x[far])
        return out


def draw_once(build):
    X = np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32)
    X[9, 0] = 10.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        q = Gaussian.around(build(), 0.1)
        plan = mc.replace(mc.plan_draws(q, X), passes=1)
        return gibbs_risk(q, X, np.zeros(12, dtype=np.int64), 0, plan)


@pytest.mark.parametrize("build", [scripted, SkipsOften])
def test_what_can_not_be_drawn_is_a_clear_error(build):
    with pytest.raises(TrueriskError):
        draw_once(build)


def test_a_network_that_insists_on_float32_is_drawn_in_float32():
    estimate = draw_once(Float32Lstm)
    assert estimate.plan.precision == "float32"
    assert 0 <= estimate.risk <= 1
