"""Networks that try to talk a wrong group, a KL below the truth or a traceback out of the symmetry code.

Every answer must be right or one clear sentence: a group that keeps the function at other weights, other tokens and
inputs of all sizes, or a TrueriskError. Cases under "FAILS" do not hold when this file is written.
"""

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


@torch.no_grad()
def change(module, symmetry, *inputs):
    """The largest relative change of an output under random rescalings."""
    worst = 0.0
    for seed in range(3):
        own = randomized(module, seed)
        moved = symmetry.rescale(own, symmetry.random(seed=seed))
        for size in SIZES:
            given = [size * torch.randn(x.shape).double() if x.is_floating_point() else x for x in inputs]
            before, after = own(*given), moved(*given)
            worst = max(worst, float((before - after).abs().max() / before.abs().max()))
    return worst


X, TOKENS = torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)


def item(m):
    return m.cap.item()


CAP = {"cap": 1000.0}
HOLD = {  # right or refused today
    "clamp at a buffer": Net(lambda m, x: x.clamp(max=m.cap), buffers=CAP),
    "clamp beyond the check": Net(lambda m, x: x.clamp(-1e5, 1e5)),
    "whole numbers": Net(lambda m, x: x + (x / 1000).long().double()),
    "small whole numbers": Net(lambda m, x: x * (x.abs() * 1e-3).to(torch.uint8)),
    "bins": Net(lambda m, x: x * torch.bucketize(x, torch.tensor([-1e5, 0.0, 1e5]).double())),
    "a rare branch": Net(lambda m, x: torch.where(x > 1e5, 0 * x, x)),
    "normalize": Net(lambda m, x: F.normalize(x, dim=1)),
    "one row of a matrix": Net(lambda m, x: x * m.w[0], w=(3, 4)),
    "first rows, other rows": Net(lambda m, x: F.linear(x, m.w[:4]) * F.linear(x, m.w[4:]), w=(8, 4)),
    "cross-attention": Net(lambda m, x: m.mha(x, 2 * x.flip(0), x)[0], modules={"mha": nn.MultiheadAttention(4, 2)}),
    "repeated rows": Net(lambda m, x: x @ m.w.repeat(2, 1), w=(2, 4)),
    "repeated entries": Net(lambda m, x: x * m.w.repeat_interleave(2), w=(2,)),
    "expanded, then copied": Net(lambda m, x: x * m.w[:, None].expand(2, 2).reshape(4), w=(2,)),
    "maxout": Net(lambda m, x: x.view(-1, 2, 2).amax(2), 2),
    "sorted channels": Net(lambda m, x: x.sort(1).values),
    "hard attention": Net(lambda m, x: x.gather(1, x.argmax(1, keepdim=True)) * x),
    "in-place columns": Net(lambda m, x: x.clone().index_fill_(1, torch.tensor([0]), 0.0)),
    "own gradient rule": Net(lambda m, x: x * x.detach().abs()),
    "fft": Net(lambda m, x: torch.fft.fft(x).abs()),
    "no eps": Net(lambda m, x: x / x.norm(dim=1, keepdim=True)),
}
FAILS = {  # wrong group or raw exception today
    # .item() is no tensor: follow() hands None to the rule, and clamp takes None for "no limit"
    "clamp at a number from a buffer": Net(lambda m, x: x.clamp(max=item(m)), buffers=CAP),
    "threshold at a number from a buffer": Net(lambda m, x: F.threshold(x, -item(m), 0.0), buffers=CAP),
    "a number from a buffer, filled in": Net(lambda m, x: x + torch.full((4,), item(m)), buffers=CAP),
    # a buffer that batch norm moves and a product uses: zero now, so the check sees nothing
    "a mean used twice": Net(
        lambda m, x: F.batch_norm(x, m.centre, m.var, training=False) * m.centre,
        buffers={"centre": torch.zeros(4), "var": torch.ones(4)},
    ),
    "one batch norm under two names": (lambda norm: Net(lambda m, x: m.b(m.a(x)), modules={"a": norm, "b": norm}))(
        nn.BatchNorm1d(4)
    ),
    "cosine classifier": Net(lambda m, x: F.linear(x, F.normalize(m.w, dim=1)), w=(4, 4)),
    "padding with 1": Net(lambda m, x: F.pad(x, (0, 3), value=1.0), 7),
    "repeats from a tensor": Net(lambda m, x: x.repeat_interleave(torch.tensor([1, 2, 1, 3]), 1), 7),
    "the sum of a number": Net(lambda m, x: x * x.abs().sum().sum(0)),
    "bits": Net(lambda m, x: x.view(torch.int64).view(torch.float64)),
    "power of infinity": Net(lambda m, x: x ** math.inf),
    "nothing to cat": Net(lambda m, x: torch.cat([torch.zeros(0, dtype=x.dtype), x], 1)),
    "an empty parameter": Net(lambda m, x: x + m.w.sum(), w=(0, 4)),
    "rounding to float32": Net(lambda m, x: x.float().double()),
}


@pytest.mark.parametrize("name", [*HOLD, *FAILS])
def test_right_or_refused(name):
    module = (HOLD | FAILS)[name]
    try:
        symmetry = find_symmetry(module, X)
    except TrueriskError as error:
        assert "Please report" not in str(error), "a legal network, not a wrong rule"
    else:
        assert change(module, symmetry, X) < 1e-7


BY_TOKEN = {  # FAILS, but for gather: index_select runs on uninitialized positions; index forgets the new shape
    "gather": Net(lambda m, x, i: x.gather(1, i[:, None].expand(2, 4))),
    "channels": Net(lambda m, x, i: x.index_select(1, i), 2),
    "rows of a parameter": Net(lambda m, x, i: x * m.w.index_select(0, i), w=(5, 4)),
    "rows of a parameter, indexed": Net(lambda m, x, i: x * m.w[i], w=(5, 4)),
    "rows of a buffer": Net(lambda m, x, i: x * m.w.index_select(0, i), buffers={"w": torch.ones(5, 4)}),
    "the same position for all": Net(lambda m, x, i: x[:, torch.zeros_like(i)], 2),
}


@pytest.mark.parametrize("name", BY_TOKEN)
def test_picked_by_whole_numbers(name):
    """The check only ever sees the example's own tokens, here all 0."""
    try:
        symmetry = find_symmetry(BY_TOKEN[name], (X, TOKENS))
    except TrueriskError:
        return
    for tokens in ([0, 0], [3, 1], [2, 3]):
        assert change(BY_TOKEN[name], symmetry, X, torch.tensor(tokens)) < 1e-7


def test_longer_inputs_than_the_example():
    """FAILS: of a position table only the rows that the example reads are moved."""
    net = Net(lambda m, x: (x + m.position[: x.shape[1]]).relu(), position=(9, 4))
    assert change(net, find_symmetry(net, torch.zeros(1, 5, 3)), torch.zeros(2, 9, 3)) < 1e-7


def test_inputs_of_the_wrong_kind():
    """FAILS: torch.export lets them through, the check then dies in the network's own operation."""
    words = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 2))
    for net, x in ((nn.Linear(3, 2), torch.zeros(1, 3, dtype=torch.int64)), (words, torch.tensor([[9]]))):
        with pytest.raises(TrueriskError):
            find_symmetry(net, x)


def test_weights_that_overflow():
    """FAILS: finite log-scales that the weights can't hold give inf and nan without a word."""
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
    """FAILS: 153.3 where 168.6 is right. The second name is in no list of fixed tensors, so nothing holds it."""
    right, found = (
        tighten(Gaussian.around(net, 0.1), Gaussian.zero(net, 3.0), find_symmetry(net, X)).kl_after
        for net in (TwoNorms(shared=False), TwoNorms(shared=True))
    )
    assert found == pytest.approx(right, rel=1e-9)


def test_the_symmetry_of_other_buffers_is_refused():
    """FAILS: the group was found for another order of the channels; its factors change the function."""
    net = Net(lambda m, x: x.relu()[:, m.order], buffers={"order": [0, 1, 2, 3]})
    stale = find_symmetry(net, X)
    net.order.copy_(torch.tensor([3, 2, 1, 0]))
    q, p = Gaussian.around(net, 0.1), Gaussian.zero(net, 1.0)
    right = tighten(q, p, find_symmetry(net, X)).kl_after
    try:
        assert tighten(q, p, stale).kl_after >= right * (1 - 1e-9)
        assert change(net, stale, X) < 1e-7
    except TrueriskError:
        pass


@pytest.mark.parametrize("seed", range(3))
def test_a_frozen_layer_in_float64(seed):
    """FAILS (seeds 0, 2): exp(u) exp(-u) is 1 + 2e-16, which Gaussian.kl takes for a moved weight."""
    torch.manual_seed(seed)
    layers = nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 2)
    net = nn.Sequential(*layers).double()
    net[2].weight.requires_grad_(False)
    best = tighten(Gaussian.around(net, 0.1), Gaussian.zero(net, 1.0), find_symmetry(net, X))
    assert best.kl_after < best.kl_before


@pytest.mark.parametrize("mean", [0.0, 1e-3, 0.1, 1.0])
def test_the_gap_holds_for_narrow_posteriors(mean):
    """FAILS but at 0: squares + 2 cross - (mu/sigma)^2 cancels; a gap of 8e-14 is claimed where 0.74 is true."""
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


class Cosine(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.w = nn.Linear(64, 8), nn.Parameter(torch.randn(10, 8))

    def forward(self, x):
        return F.linear(F.relu(self.hidden(x.flatten(1))), F.normalize(self.w, dim=1))


def test_what_symmetry_cannot_follow_is_certified_all_the_same():
    """FAILS: certify, which worked before rescaling came, dies in the rule for expand_as."""
    assert truerisk.certify(Cosine, "digits", prior="init", epochs=1).risk_bound <= 1


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The same seed gives the same bytes."""
    one, two = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    for folder in (one, two):
        truerisk.certify("mlp:8", "digits", prior="init", epochs=1).save(folder)
    assert all(file.read_bytes() == (two / file.name).read_bytes() for file in one.iterdir())
    return one


EDITS = {
    "longer": lambda t: t.update(best=1.01 * t["best"]),
    "none": lambda t: t.update(best=0 * t["best"]),
    "far away": lambda t: t.update(best=t["best"] + 300),
    "overflow": lambda t: t.update({"with a tuned prior": t["best"] + 400}),
    "not a number": lambda t: t.update(best=t["best"] * math.nan),
    "too few": lambda t: t.update(best=t["best"][1:].clone()),
    "missing": lambda t: t.pop("best"),
    "swapped": lambda t: t.update({"best": t["with a tuned prior"], "with a tuned prior": t["best"]}),
}


@pytest.mark.parametrize("name", EDITS)
def test_forged_log_scales(made, tmp_path, name):
    folder = tmp_path / "copy"
    shutil.copytree(made, folder)
    path = folder / "log_scales.safetensors"
    tensors = load_file(path)
    EDITS[name](tensors)
    save_file(tensors, path)
    with pytest.raises(VerificationError, match="sha256"):
        truerisk.verify(folder)
    record = json.loads((folder / "certificate.json").read_text())
    record["files"][path.name] = sha256(path.read_bytes())
    (folder / "certificate.json").write_text(json.dumps(record))
    with pytest.raises(VerificationError):
        truerisk.verify(folder)


MODELS = """
from torch import nn
def broken(): raise RuntimeError("no such layer")
def words(): return nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 2))
def tiny():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    net[0].weight.data.mul_(1e-44)
    return net
"""


COMMANDS = [
    "symmetry --model models.py:broken --input 1,3",
    "symmetry --model models.py:words --input 1,3 --integers 100",
    "symmetry --model mlp --input 1,99999999999999999999999",
    "rescale --model models.py:tiny --input 1,3 --to unit",  # writes inf, and says "the same function"
]


@pytest.mark.parametrize("command", COMMANDS)
def test_one_sentence_on_the_command_line(tmp_path, monkeypatch, command):
    """FAILS: a traceback and exit code 1, which is kept for a certificate that does not hold."""
    (tmp_path / "models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["truerisk", *command.split()])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
