"""Batch norm merged into the layer before it: the function stays, and what can't be merged is left and named."""

from __future__ import annotations

import copy
import doctest
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

import truerisk
from truerisk.certificates.workshop.gaussians import refuse_learnt
from truerisk.nets import classic, fold_batch_norm, mirrored_resnet, reinitialized, resnet, unfoldable

NORM = nn.modules.batchnorm._BatchNorm
TRACERS = pytest.mark.parametrize("tracer", ["fx", "export"])


def example(tracer: str, shape: tuple[int, ...]) -> torch.Tensor | None:
    """The example input that selects a tracer."""
    return torch.zeros(1, *shape[1:]) if tracer == "export" else None


def learnt(net: nn.Module, seed: int = 0) -> nn.Module:
    """The network in float64, with statistics, gains and shifts as training may make them."""
    generator = torch.Generator().manual_seed(seed)
    net = net.double()
    with torch.no_grad():
        for norm in net.modules():
            if isinstance(norm, NORM) and norm.running_mean is not None:
                norm.running_mean.normal_(generator=generator)
                norm.running_var.exponential_(generator=generator)
                if norm.weight is not None:
                    norm.weight.normal_(generator=generator)  # negative gains, too
                    norm.bias.normal_(generator=generator)
    return net


def gap(net: nn.Module, folded: nn.Module, *shape: int) -> float:
    x = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        before, after = net.eval()(x), folded(x)
    return float((before - after).abs().max() / before.abs().max())


def norms(net: nn.Module) -> list[str]:
    return [name for name, m in net.named_modules() if isinstance(m, NORM)]


CASES = {
    "linear": ((nn.Linear(5, 7), nn.BatchNorm1d(7)), (4, 5)),
    "no bias": ((nn.Linear(5, 7, bias=False), nn.BatchNorm1d(7)), (4, 5)),
    "no gain": ((nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6, affine=False)), (2, 3, 8, 8)),
    "large eps": ((nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6, eps=0.3)), (2, 3, 8, 8)),
    "padding": ((nn.Conv2d(3, 6, 3, stride=2, padding=1, padding_mode="reflect"), nn.BatchNorm2d(6)), (2, 3, 8, 8)),
    "groups": ((nn.Conv2d(6, 12, 3, groups=3), nn.BatchNorm2d(12)), (2, 6, 8, 8)),
    "one dimension": ((nn.Conv1d(3, 6, 3, padding=1), nn.BatchNorm1d(6)), (2, 3, 9)),
    "three dimensions": ((nn.Conv3d(2, 4, 2), nn.BatchNorm3d(4)), (2, 2, 4, 4, 4)),
    "transposed": ((nn.ConvTranspose2d(4, 6, 3, stride=2), nn.BatchNorm2d(6)), (2, 4, 5, 5)),
    "transposed groups": ((nn.ConvTranspose1d(4, 6, 3, groups=2, bias=False), nn.BatchNorm1d(6)), (2, 4, 5)),
    "synchronized": ((nn.Conv2d(3, 6, 3), nn.SyncBatchNorm(6)), (2, 3, 8, 8)),
}


@TRACERS
@pytest.mark.parametrize("case", CASES)
def test_the_function_stays(case, tracer):
    (layer, norm), shape = CASES[case]
    net = learnt(nn.Sequential(layer, norm, nn.ReLU()))
    before = copy.deepcopy(net.state_dict())
    folded = fold_batch_norm(net, example(tracer, shape))
    assert gap(net, folded, *shape) < 1e-12
    assert gap(net, nn.Sequential(layer, nn.ReLU()), *shape) > 0.1, "the norm does something"
    assert type(folded[1]) is nn.Identity
    assert set(folded.state_dict()) == {"0.weight", "0.bias"}
    assert not any(m.training for m in folded.modules())
    assert all(value.equal(before[name]) for name, value in net.state_dict().items()), "the original is as it was"
    assert unfoldable(net, example(tracer, shape)) == []


class Residual(nn.Module):
    """Two convolutions with norms, added to a shortcut that has a norm as well; a path for training alone."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1, groups=4), nn.BatchNorm2d(8),
        )  # fmt: skip
        self.shortcut = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8))
        self.first, self.norm = nn.Linear(8, 6), nn.BatchNorm1d(6)
        self.last = nn.Linear(6, 4)

    def forward(self, x, mask=None):
        y = F.relu(self.body(x) + self.shortcut(x))
        y = self.norm(self.first(y.mean((2, 3))))
        if self.training:
            y = y + torch.randn(4)
        if mask is not None:
            y = y * mask
        return self.last(y.relu())


@TRACERS
def test_a_residual_network(tmp_path, tracer):
    net = learnt(Residual())
    folded = fold_batch_norm(net, example(tracer, (3, 3, 8, 8)))
    assert gap(net, folded, 3, 3, 8, 8) < 1e-12
    assert norms(folded) == []
    assert [name for name, _ in folded.named_modules()] == [name for name, _ in net.named_modules()]
    assert not list(folded.buffers())
    save_file(folded.state_dict(), tmp_path / "w.safetensors")
    other = fold_batch_norm(Residual().double())
    other.load_state_dict(load_file(tmp_path / "w.safetensors"))
    assert gap(net, other, 3, 3, 8, 8) < 1e-12
    assert gap(net, fold_batch_norm(folded), 3, 3, 8, 8) < 1e-12, "nothing is left to fold"


@TRACERS
@pytest.mark.parametrize("build", [resnet, mirrored_resnet])
def test_the_built_in_residual_networks(build, tracer):
    """Each layer runs twice in the mirrored one. Cosines and pooled convolutions keep their norms."""
    net, x = learnt(build((3, 16, 16), 10, (4, 8, 8))), example(tracer, (3, 3, 16, 16))
    folded = fold_batch_norm(net, x)
    assert gap(net, folded, 3, 3, 16, 16) < 1e-12
    assert len(norms(net)) == 7
    assert norms(folded) == [name for name, _ in unfoldable(net, x)]
    assert sorted(name.split(".")[-1] for name in norms(folded)) == ["2", "2", "2", "norm"]
    assert {why for _, why in unfoldable(net, x)} == {"no linear or convolutional layer comes straight before it"}


@TRACERS
def test_inception_has_no_norm_left(tracer):
    net = learnt(classic("inception-small", (3, 8, 8), 10))
    assert len(norms(net)) > 10
    folded = fold_batch_norm(net, example(tracer, (2, 3, 8, 8)))
    assert norms(folded) == []
    assert gap(net, folded, 2, 3, 8, 8) < 1e-12


class Shared(nn.Module):
    """One layer, two norms: each of them is right for one of the two uses only."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.one, self.two = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.BatchNorm1d(4)

    def forward(self, x):
        return self.one(self.layer(x)) + self.two(self.layer(2 * x))


class Norms(nn.Module):
    """One norm behind two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.one = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        return self.one(self.a(x)) + self.one(self.b(x))


class Twice(nn.Module):
    """What enters the norm leaves by another way as well; ``norm`` is also the name of a method of tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        y = self.layer(x)
        return self.norm(y) / (1 + y.norm(dim=1, keepdim=True))


class Tied(nn.Module):
    """Two layers with the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.other = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)
        self.other.weight = self.layer.weight

    def forward(self, x):
        return self.other(self.norm(self.layer(x)))


class Reads(nn.Module):
    """The weights are used beside the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.layer(x)) + self.layer.weight.sum() + self.norm.running_mean.sum()


class Own(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x) ** 2


class OwnLayer(nn.Linear):
    def forward(self, x):
        return super().forward(x).exp()


def tokens() -> nn.Module:
    """Batch norm over the 3 tokens, not over the 4 features of the layer before it."""
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(3), nn.ReLU(), nn.Flatten())


LEFT = {
    "shared layer": (Shared, (5, 4), ["one", "two"], "layer before it is used elsewhere"),
    "shared norm": (Norms, (5, 4), ["one"], "no linear or convolutional layer"),
    "used twice": (Twice, (5, 4), ["norm"], "layer before it is used elsewhere"),
    "tied weights": (Tied, (5, 4), ["norm"], "layer before it are shared"),
    "weights read": (Reads, (5, 4), ["norm"], "reads tensors of norm or layer"),
    "own class": (lambda: nn.Sequential(nn.Linear(4, 4), Own(4)), (5, 4), ["1"], "no plain batch norm"),
    "own layer": (lambda: nn.Sequential(OwnLayer(4, 4), nn.BatchNorm1d(4)), (5, 4), ["1"], "weights of 0 before"),
    "batch statistics": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False)),
        (5, 4),
        ["1"],
        "statistics of the batch",
    ),
    "first": (lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4)), (5, 4), ["0"], "no linear"),
    "activation": (lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.BatchNorm1d(4)), (5, 4), ["2"], "no linear"),
    "pooling": (
        lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.MaxPool1d(2), nn.BatchNorm1d(4)),
        (5, 2, 8),
        ["2"],
        "no linear",
    ),
    "tokens": (tokens, (5, 3, 4), ["1"], "channels are not the outputs"),
    "weight norm": (
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), nn.BatchNorm1d(4)),
        (5, 4),
        ["1"],
        "weights of 0 before it are computed",
    ),
    "spectral norm by a hook": (
        lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 4)), nn.BatchNorm1d(4)),
        (5, 4),
        ["1"],
        "weights of 0 before it are computed",
    ),
}


@TRACERS
@pytest.mark.parametrize("case", LEFT)
def test_what_can_not_be_merged_is_left_and_named(case, tracer):
    build, shape, names, why = LEFT[case]
    net, x = learnt(build()).eval(), example(tracer, shape)
    x = torch.zeros(shape) if x is not None and case == "batch statistics" else x
    folded = fold_batch_norm(net, x)
    assert gap(net, folded, *shape) == 0.0
    assert norms(folded) == names
    assert [name for name, _ in unfoldable(net, x)] == names
    assert all(why in reason for _, reason in unfoldable(net, x))


class Functional(nn.Module):
    """The norm's tensors are used, but the norm is not called; in place, so that the graph is made functional."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        norm = self.norm
        y = F.batch_norm(self.layer(x), norm.running_mean, norm.running_var, norm.weight, norm.bias)
        return y.relu_()


class Returned(nn.Module):
    """The output of the layer is an output of the network as well."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x):
        y = self.layer(x)
        return torch.cat([self.norm(y)]), y


def square_tokens() -> nn.Module:
    """Batch norm over 4 tokens of 4 features each: the numbers agree, the axes do not."""
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten())


@pytest.mark.parametrize(
    ("build", "shape", "name", "why"),
    [
        (Functional, (4,), "norm", "not called as a layer"),
        (Returned, (4,), "norm", "layer before it is used elsewhere"),
        (square_tokens, (4, 4), "1", "channels are not the outputs"),
    ],
)
def test_left_with_an_example(build, shape, name, why):
    net = learnt(build())
    assert [left for left, reason in unfoldable(net, torch.zeros(1, *shape)) if why in reason] == [name]
    assert norms(fold_batch_norm(net, torch.zeros(1, *shape))) == [name]


class Spelled(nn.Module):
    """One network, written in several ways."""

    def __init__(self, flat, inplace: bool = False) -> None:
        super().__init__()
        self.layer, self.norm, self.act = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=inplace)
        self.head, self.flat = nn.Linear(4 * 36, 3), flat

    def forward(self, x):
        return self.head(self.flat(self.act(self.norm(self.layer(x)))))


SPELLINGS = {
    "flatten": lambda x: x.flatten(1),
    "reshape": lambda x: x.reshape(len(x), -1),
    "view": lambda x: x.view(x.shape[0], -1),
    "by shape": lambda x: x.flatten(1) if x.ndim == 4 and x.shape[1] == 4 else x,
    "loop": lambda x: torch.stack([row.flatten() for row in x]),
}


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_folded_with_an_example(spelling, inplace):
    torch.manual_seed(0)
    net = learnt(Spelled(SPELLINGS[spelling], inplace))
    folded = fold_batch_norm(net, torch.zeros(1, 1, 8, 8))
    assert gap(net, folded, 5, 1, 8, 8) < 1e-12
    assert norms(folded) == []
    assert folded.layer.weight.equal(fold_batch_norm(_like(net, SPELLINGS["flatten"])).layer.weight)


def _like(net: nn.Module, flat) -> nn.Module:
    """The network with another spelling and the same weights."""
    twin = copy.deepcopy(net)
    twin.flat = flat
    return twin


class Alias(nn.Module):
    """One norm under two names, called by the second; and a constant that tracing must not leave behind."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.again = nn.ModuleList([self.norm])

    def forward(self, x):
        return self.again[0](self.layer(input=x)) + torch.tensor([1.0, 2.0, 3.0, 4.0])


@TRACERS
def test_one_norm_under_two_names(tracer):
    net = learnt(Alias())
    folded = fold_batch_norm(net, example(tracer, (5, 4)))
    assert gap(net, folded, 5, 4) < 1e-12
    assert norms(folded) == []
    assert type(folded.norm) is type(folded.again[0]) is nn.Identity
    assert vars(folded).keys() == vars(net).keys()


def test_precision_layout_and_frozen_weights_are_kept():
    layer = nn.Conv2d(3, 4, 3, bias=False).to(memory_format=torch.channels_last).requires_grad_(False)
    folded = fold_batch_norm(nn.Sequential(layer, nn.BatchNorm2d(4)))
    assert folded[0].weight.dtype == folded[0].bias.dtype == torch.float32
    assert folded[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert not folded[0].weight.requires_grad
    assert not folded[0].bias.requires_grad, "what is learnt stays where a certificate can see that it is frozen"


def test_a_folded_module_can_be_drawn_anew():
    """As a certificate of it does: every number left has a layer that initializes it."""
    again = reinitialized(fold_batch_norm(learnt(Residual()).float()), seed=0)
    assert all(bool(t.isfinite().all()) for t in again.state_dict().values())


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(x) if x.sum() > 0 else x


def test_what_can_not_be_followed_is_told():
    with pytest.raises(truerisk.TrueriskError, match=r"torch\.fx could not follow.*give example_input="):
        truerisk.fold_batch_norm(Branch())
    with pytest.raises(truerisk.TrueriskError, match=r"torch\.export could not follow"):
        truerisk.fold_batch_norm(Branch(), torch.zeros(1, 4))
    with pytest.raises(truerisk.TrueriskError, match="not a str"):
        truerisk.fold_batch_norm("resnet")
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    net[1].forward = lambda x: x
    with pytest.raises(truerisk.TrueriskError, match=r"1\.forward was replaced"):
        truerisk.fold_batch_norm(net)


GUIDE = Path(__file__).parents[2] / "docs" / "certify.rst"


@pytest.mark.skipif(not GUIDE.exists(), reason="the documentation is not here")
def test_the_example_in_the_documentation():
    tried = doctest.testfile(str(GUIDE), module_relative=False)
    assert tried.attempted > 5
    assert not tried.failed


# With ``affine`` -----------------------------------------------------------------------------------------------------

READ = ("weights read", "own class", "batch statistics")  # the only cases that must stay as they are


def neutral(norm: nn.Module) -> bool:
    return not norm.running_mean.any() and bool((norm.running_var == 1).all()) and norm.num_batches_tracked == 0


@TRACERS
@pytest.mark.parametrize("case", [*CASES, *(name for name in LEFT if name not in READ)])
def test_statistics_go_into_gain_and_shift(case, tracer):
    """Wherever the norm stands: behind a layer, first, behind pooling, behind two layers, over tokens."""
    (layers, shape) = CASES.get(case, (None, None))
    net = learnt(nn.Sequential(*layers, nn.ReLU()) if layers else LEFT[case][0]()).eval()
    shape = shape or LEFT[case][1]
    before = copy.deepcopy(net.state_dict())
    twin = fold_batch_norm(net, example(tracer, shape), affine=True)
    assert gap(net, twin, *shape) < 1e-12
    assert norms(twin) == norms(net)
    assert all(neutral(m) for m in twin.modules() if isinstance(m, NORM))
    assert all(value.equal(before[name]) for name, value in net.state_dict().items()), "the original is as it was"
    assert unfoldable(net, example(tracer, shape), affine=True) == []
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for norm in (m for m in net.modules() if isinstance(m, NORM)):
        norm.reset_running_stats()
    assert (net(x) - twin(x)).abs().max() > 0.01, "statistics alone are not enough"


@TRACERS
@pytest.mark.parametrize("case", READ)
def test_a_norm_that_is_more_than_affine_stays(case, tracer):
    build, shape, names, _ = LEFT[case]
    net, x = learnt(build()).eval(), example(tracer, shape)
    x = torch.zeros(shape) if x is not None and case == "batch statistics" else x
    assert gap(net, fold_batch_norm(net, x, affine=True), *shape) == 0.0
    assert [name for name, _ in unfoldable(net, x, affine=True)] == names


def test_two_norms_that_share_a_gain_stay():
    """One gain cannot hold the variances of both."""
    net = learnt(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.BatchNorm1d(4)))
    net[3].weight = net[1].weight
    assert gap(net, fold_batch_norm(net, affine=True), 5, 4) == 0.0
    assert [why for _, why in unfoldable(net, affine=True)] == ["it shares tensors with another layer"] * 2


def test_affine_frees_both_sides_of_the_gain():
    """As trained, the running means hold the 4 and 5 channels that enter a norm; merged, none is left to free."""
    layers = [nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU()]
    net, x = learnt(nn.Sequential(*layers, nn.Linear(5, 2))), torch.zeros(1, 3)
    free = {}
    for kind, module in (
        ("trained", net.eval()),
        ("folded", fold_batch_norm(net)),
        ("affine", fold_batch_norm(net, affine=True)),
    ):
        q, p = truerisk.Gaussian.around(module, 0.1), truerisk.Gaussian.zero(module, 1.0)
        best = truerisk.tighten(q, p, truerisk.find_symmetry(module, x))
        free[kind] = best.free, len(best.held), len(best.statistics)
    assert free == {"trained": (9, 2, 4), "folded": (9, 0, 0), "affine": (18, 0, 0)}


def test_fold_what_can_be_and_keep_the_rest_as_affine_maps():
    """The built-in residual networks have norms behind pooling: both steps together leave no statistics of data."""
    net = learnt(resnet((3, 16, 16), 10, (4, 8, 8)))
    folded = fold_batch_norm(net)
    assert not all(neutral(m) for m in folded.modules() if isinstance(m, NORM))
    twin = fold_batch_norm(folded, affine=True)
    assert gap(net, twin, 3, 3, 16, 16) < 1e-12
    assert all(neutral(m) for m in twin.modules() if isinstance(m, NORM))


def test_an_affine_twin_hides_nothing_from_a_prior():
    """Its buffers are those of a new network of the same factory, so certificates take its weights as they are."""

    def build(seed=0):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10))

    net = build()
    net(torch.randn(50, 64))  # in training mode: new statistics
    with pytest.raises(truerisk.TrueriskError, match="learned numbers outside the prior"):
        refuse_learnt(SimpleNamespace(given=net.eval(), build=build))
    twin = fold_batch_norm(net, affine=True)
    refuse_learnt(SimpleNamespace(given=twin, build=build))
    loaded = build(1)
    loaded.load_state_dict(twin.state_dict())
    x = torch.randn(5, 64)
    assert torch.allclose(loaded.eval()(x), net(x), atol=1e-5)
