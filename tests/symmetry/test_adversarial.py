"""Networks that try to talk a wrong group, a KL below the truth or a traceback out of the symmetry code.

Every answer must be right (at other weights, other tokens, inputs of all sizes) or one clear sentence.
"""

import contextlib
import copy
import json
import math
import shutil
import sys

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

import truerisk
from truerisk import Gaussian, TrueriskError, VerificationError, cli, find_symmetry, tighten
from truerisk.certificates.files import sha256
from truerisk.data import load

SIZES = (0.1, 10.0, 1e4, 1e7)  # far beyond what find_symmetry itself tries


class Net(nn.Module):
    """Two layers around any function of (module, activation, other inputs), with parameters and buffers for it."""

    def __init__(self, between, width=4, buffers=(), modules=(), **shapes):
        super().__init__()
        torch.manual_seed(0)
        self.between, self.first, self.last = between, nn.Linear(3, 4), nn.Linear(width, 2)
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape)))
        for name, value in dict(buffers).items():
            self.register_buffer(name, torch.as_tensor(value))
        for name, part in dict(modules).items():
            self.add_module(name, part)

    def forward(self, x, *others):
        return self.last(self.between(self, self.first(x), *others))


def randomized(module, seed):
    """Other weights, and whatever can hold a batch-norm mean."""
    twin = copy.deepcopy(module).double().eval()
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in filter(torch.is_floating_point, twin.parameters()):
            weight.copy_(torch.randn_like(weight))
        for name, buffer in twin.named_buffers():
            if name.endswith(("running_mean", "centre")):
                buffer.copy_(torch.randn_like(buffer))
    return twin


def found(module, inputs):
    """The group, or None where it is refused (but not by "please report": these are legal networks)."""
    try:
        return find_symmetry(module, inputs)
    except TrueriskError as error:
        if "report" in str(error):
            raise


@torch.no_grad()
def change(module, symmetry, *inputs):
    """The largest relative change of an output under random rescalings."""
    worst = 0.0
    for seed in range(3) if symmetry else ():
        own = randomized(module, seed)
        moved = symmetry.rescale(own, symmetry.random(seed=seed))
        for size in SIZES:
            given = [size * torch.randn(x.shape).double() if x.is_floating_point() else x for x in inputs]
            before, after = own(*given), moved(*given)
            worst = max(worst, float((before - after).abs().max() / before.abs().max()))
    return worst


X = torch.zeros(2, 3)
CAP = {"cap": 1000.0}
NETS = {
    "clamp at a buffer": Net(lambda m, x: x.clamp(max=m.cap), buffers=CAP),
    "whole numbers": Net(lambda m, x: x + (x / 1000).long().double()),
    "a rare branch": Net(lambda m, x: torch.where(x > 1e5, 0 * x, x)),
    "one row of a matrix": Net(lambda m, x: x * m.w[0], w=(3, 4)),
    "first rows, other rows": Net(lambda m, x: F.linear(x, m.w[:4]) * F.linear(x, m.w[4:]), w=(8, 4)),
    "cross-attention": Net(lambda m, x: m.mha(x, 2 * x.flip(0), x)[0], modules={"mha": nn.MultiheadAttention(4, 2)}),
    "repeated rows": Net(lambda m, x: x @ m.w.repeat(2, 1), w=(2, 4)),
    "float32 on the way": Net(lambda m, x: x.float().double()),
    # a number that comes from a buffer is no number to rely on
    "clamp at a number from a buffer": Net(lambda m, x: x.clamp(max=m.cap.item()), buffers=CAP),
    "threshold at a number from a buffer": Net(lambda m, x: F.threshold(x, -m.cap.item(), 0.0), buffers=CAP),
    "a number from a buffer, filled in": Net(lambda m, x: x + torch.full((4,), m.cap.item()), buffers=CAP),
    # half overflows at 65,504
    "half on the way": Net(lambda m, x: x.half().double()),
    # a buffer that batch norm moves and a product uses: zero now, so the check sees nothing
    "a mean used twice": Net(
        lambda m, x: F.batch_norm(x, m.centre, m.var, training=False) * m.centre,
        buffers={"centre": torch.zeros(4), "var": torch.ones(4)},
    ),
    "one batch norm under two names": Net(
        lambda m, x: m.b(m.a(x)), modules=dict.fromkeys(("a", "b"), nn.BatchNorm1d(4))
    ),
    "cosine classifier": Net(lambda m, x: F.linear(x, F.normalize(m.w, dim=1)), w=(4, 4)),
    "sum of the positive ones": Net(lambda m, x: x * x[x > 0].sum()),
    "padding with 1": Net(lambda m, x: F.pad(x, (0, 3), value=1.0), 7),
    "the sum of a number": Net(lambda m, x: x * x.abs().sum().sum(0)),
    "power of infinity": Net(lambda m, x: x**math.inf),
    "a generator of its own": Net(lambda m, x: x * torch.rand(4, generator=torch.Generator().manual_seed(0))),
    "an empty parameter": Net(lambda m, x: x + m.w.sum(), w=(0, 4)),
}


@pytest.mark.parametrize("name", NETS)
def test_right_or_refused(name):
    module = NETS[name]
    assert change(module, found(module, X), X) < 1e-6


BY_TOKEN = {
    "gather": Net(lambda m, x, i: x.gather(1, i[:, None].expand(2, 4))),
    "channels": Net(lambda m, x, i: x.index_select(1, i), 2),
    "rows of a parameter": Net(lambda m, x, i: x * m.w.index_select(0, i), w=(5, 4)),
    "rows of a buffer": Net(lambda m, x, i: x * m.w.index_select(0, i), buffers={"w": torch.ones(5, 4)}),
    "the same position for all": Net(lambda m, x, i: x[:, torch.zeros_like(i)], 2),
}


@pytest.mark.parametrize("name", BY_TOKEN)
def test_picked_by_whole_numbers(name):
    """The check only ever sees the example's own tokens, here all 0."""
    symmetry = found(BY_TOKEN[name], (X, torch.zeros(2, dtype=torch.int64)))
    for tokens in ([0, 0], [3, 1], [2, 3]):
        assert change(BY_TOKEN[name], symmetry, X, torch.tensor(tokens)) < 1e-6


def test_inputs_of_the_wrong_kind():
    """torch.export lets them through; the network's own operation then fails."""
    words = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 2))
    for net, x in ((nn.Linear(3, 2), torch.zeros(1, 3, dtype=torch.int64)), (words, torch.tensor([[9]]))):
        with pytest.raises(TrueriskError):
            find_symmetry(net, x)


def test_weights_that_overflow():
    """Finite log-scales that the weights can't hold."""
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(TrueriskError):
        find_symmetry(net, X).rescale(net, torch.full((4,), 800.0))


# --- tighten: never below the truth ---------------------------------------------------------------------------


class TwoNorms(nn.Module):
    """Two batch norms with the same running means: as one tensor, or as two equal ones."""

    def __init__(self, shared):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.first, self.second = nn.BatchNorm1d(4), nn.BatchNorm1d(4)
        self.first.running_mean.copy_(torch.tensor([1.0, -1.0, 2.0, 0.5]))
        self.second.running_mean.copy_(self.first.running_mean)
        if shared:
            self.second.running_mean = self.first.running_mean

    def forward(self, x):
        return self.c(self.second(self.b(self.first(self.a(x)).relu())).relu())


def test_a_shared_buffer_is_held():
    """168.6, under both names; with the second one forgotten it would be 153.3."""
    right, shared = (
        tighten(Gaussian.around(net, 0.1), Gaussian.zero(net, 3.0), find_symmetry(net, X)).kl_after
        for net in (TwoNorms(shared=False), TwoNorms(shared=True))
    )
    assert shared == pytest.approx(right, rel=1e-9)


def test_the_symmetry_of_other_buffers_is_refused():
    """What a buffer says may change, so a group must not rest on it."""
    net = Net(lambda m, x: x.relu()[:, m.order], buffers={"order": [0, 1, 2, 3]})
    stale = find_symmetry(net, X)
    net.order.copy_(torch.tensor([3, 2, 1, 0]))
    q, p = Gaussian.around(net, 0.1), Gaussian.zero(net, 1.0)
    right = tighten(q, p, find_symmetry(net, X)).kl_after
    with contextlib.suppress(TrueriskError):
        assert tighten(q, p, stale).kl_after >= right * (1 - 1e-9)
        assert change(net, stale, X) < 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_a_frozen_layer_in_float64(seed):
    """exp(u) exp(-u) is 1 + 2e-16 at times, which must not be taken for a moved weight."""
    torch.manual_seed(seed)
    layers = nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 2)
    net = nn.Sequential(*layers).double()
    net[2].weight.requires_grad_(False)
    best = tighten(Gaussian.around(net, 0.1), Gaussian.zero(net, 1.0), find_symmetry(net, X))
    assert best.kl_after < best.kl_before


@pytest.mark.parametrize("mean", [0.0, 1e-3, 0.1, 1.0])
def test_the_gap_holds_for_narrow_posteriors(mean):
    """Squares of 1e-18 must not be the difference of larger numbers."""
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    q = Gaussian.zero(net, {"0.weight": 1e-9, "0.bias": 1e-9, "2.weight": 1e9, "2.bias": 1.0})
    p = Gaussian.zero(net, 1.0)
    for name in ("0.weight", "0.bias"):
        p.mean[name] += mean
    # Scaling the first layer's prior by 1e-9 fits all standard deviations; the means cost mean^2 / 2 each.
    best = tighten(q, p, find_symmetry(net, X))
    assert best.kl_after - 16 * mean**2 / 2 <= (best.gap or 0.0) + 1e-9


def test_extreme_widths():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    symmetry = find_symmetry(net, X)
    for scale in (1e-8, 1e8, 1e-100, 1e100):
        widths = {"0.weight": scale, "0.bias": scale, "2.weight": 1 / scale, "2.bias": 1.0}
        q, p = Gaussian.zero(net, widths), Gaussian.zero(net, 1.0)
        best = tighten(q, p, symmetry)
        assert best.kl_after < 1e-9
        assert q.kl(symmetry.rescale(p, best.log_scales)) == best.kl_after


# --- certificates and the command line ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    """A few of them: what is tested here is the same with all."""
    return load("digits").take(range(300))


class Cosine(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.w = nn.Linear(64, 8), nn.Parameter(torch.randn(10, 8))

    def forward(self, x):
        return F.linear(F.relu(self.hidden(x.flatten(1))), F.normalize(self.w, dim=1))


def test_what_symmetry_cannot_follow_is_certified_all_the_same(digits, monkeypatch):
    """A rule that does not know a use of its operation holds what enters."""
    monkeypatch.setattr("truerisk.pacbayes.monte_carlo.NETWORKS", 600)  # each is drawn as a whole
    assert truerisk.certify(Cosine, digits, prior="init", epochs=1).risk_bound <= 1


@pytest.fixture(scope="module")
def made(tmp_path_factory, digits):
    """The same seed gives the same bytes."""
    one, two = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    for folder in (one, two):
        truerisk.certify("mlp:8", digits, prior="init", epochs=1).save(folder)
    assert all(file.read_bytes() == (two / file.name).read_bytes() for file in one.iterdir())
    return one


EDITS = {
    "longer": lambda t: t.update(best=1.01 * t["best"]),
    "none": lambda t: t.update(best=0 * t["best"]),
    "too few": lambda t: t.update(best=t["best"][1:].clone()),
    "swapped": lambda t: t.update({"best": t["with a tuned prior"], "with a tuned prior": t["best"]}),
}


@pytest.mark.parametrize("name", EDITS)
def test_forged_log_scales(made, digits, tmp_path, name):
    folder = tmp_path / "copy"
    shutil.copytree(made, folder)
    path = folder / "log_scales.safetensors"
    tensors = load_file(path)
    EDITS[name](tensors)
    save_file(tensors, path)
    with pytest.raises(VerificationError, match="sha256"):
        truerisk.verify(folder, digits)
    record = json.loads((folder / "certificate.json").read_text())
    record["files"][path.name] = sha256(path.read_bytes())
    (folder / "certificate.json").write_text(json.dumps(record))
    with pytest.raises(VerificationError):
        truerisk.verify(folder, digits)


@pytest.mark.parametrize("command", ["broken --input 1,3", "words --input 1,3 --integers 100"])
def test_one_sentence_on_the_command_line(tmp_path, monkeypatch, command):
    """Exit code 1 is kept for a certificate that does not hold."""
    words = "from torch import nn\ndef words(): return nn.Embedding(5, 4)\n"
    (tmp_path / "models.py").write_text(words + "def broken(): raise RuntimeError('no such layer')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["truerisk", "symmetry", "--model", *f"models.py:{command}".split()])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
