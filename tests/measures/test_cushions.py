"""Cushions (Arora et al. 2018) against dense matrices and plain loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from measures.cases import build
from measures.twins import CHAINS, folded, slow_cushions, slow_interlayer, stages
from torch import nn

import truerisk
from truerisk.data import Data
from truerisk.measures import MEASURES, NotDefined, Subject
from truerisk.measures.families import cushions

NAMES = [name for name, entry in MEASURES.items() if entry.family == "cushions"]


def own_labels(net: nn.Module, images: Data) -> Data:
    with torch.no_grad():
        return Data("own", images.X, net(torch.from_numpy(images.X).double()).argmax(1).numpy(), 3)


@pytest.mark.parametrize("name", [*CHAINS, "linear"])
def test_layer_cushion_and_contraction_against_dense_matrices(name, images):
    _, parts = folded(name)
    subject = Subject(build(name), images)
    mu, c = slow_cushions(parts, torch.from_numpy(images.X).double())
    value = MEASURES["layer-cushion"](subject)
    assert list(value.layers.values()) == pytest.approx(mu, rel=1e-10)
    assert value.value == pytest.approx(min(mu), rel=1e-10)
    if c:
        value = MEASURES["activation-contraction"](subject)
        assert list(value.layers.values()) == pytest.approx(c, rel=1e-10)
        assert value.value == pytest.approx(max(c), rel=1e-10)


def test_without_activations_nothing_is_rough(images):
    """Two linear layers: smoothness as large as rounding allows, cushions by hand."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 5, bias=False), nn.Linear(5, 3, bias=False)).double()
    subject = Subject(net, images)
    assert MEASURES["interlayer-smoothness"](subject).value > 1e10
    assert MEASURES["activation-contraction"](subject).value == pytest.approx(1.0)
    x1 = torch.from_numpy(images.X).double().flatten(1) @ net[1].weight.T
    ratio = (x1 @ net[2].weight.T).norm(dim=1) / (net[2].weight.norm() * x1.norm(dim=1))
    assert MEASURES["interlayer-cushion"](subject).value == pytest.approx(ratio.min().item(), rel=1e-10)
    assert MEASURES["layer-cushion"](subject).layers["2"] == pytest.approx(ratio.min().item(), rel=1e-10)


def test_identity_weights():
    """A = I on n inputs: every cushion is 1/sqrt(n), and nothing is contracted if all inputs are positive."""
    net = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 4, bias=False)).double()
    for k in (0, 2):
        net[k].weight.data = torch.eye(4, dtype=torch.float64)
    data = Data("eye", np.random.default_rng(0).uniform(1, 2, size=(9, 4)), np.arange(9) % 4, 4)
    subject = Subject(net, data)
    for name in ("layer-cushion", "interlayer-cushion"):
        assert list(MEASURES[name](subject).layers.values()) == pytest.approx([0.5] * (2 - (name[0] == "i")), rel=1e-12)
    assert MEASURES["activation-contraction"](subject).value == pytest.approx(1.0)


@pytest.mark.parametrize("name", [*CHAINS, "linear"])
def test_effective_parameters_from_their_parts(name, images):
    net, parts = folded(name)
    data = own_labels(build(name), images.take(range(20)))
    subject = Subject(build(name), data)
    X = torch.from_numpy(data.X).double()
    mu, c = slow_cushions(parts, X)
    pairs = slow_interlayer(parts, X)
    values = itertools.accumulate(stages(parts)[0], lambda v, f: f(v), initial=X[:1])
    widths = [v.numel() for v in values][1:]
    with torch.no_grad():
        out = net(X).numpy()
    margins = sorted(o[y] - max(o[k] for k in range(3) if k != y) for o, y in zip(out, data.y, strict=True))
    epsilon = margins[1] / (math.sqrt(2) * max(math.sqrt(float(o @ o)) for o in out))
    d, total = len(mu), 0.0
    eta = 0.05 / (6 * d**2 * max(widths) ** 2 * 20)
    for i in range(d):
        onward = min([1 / math.sqrt(widths[i]), *pairs[i]])
        e = epsilon * mu[i] * onward / (6 * max([1.0, *c]) * d)
        total += math.log(4 / eta) / (e**2 / 4 - e**3 / 6)
    value = MEASURES["effective-parameters"](subject)
    assert value.value == pytest.approx(total, rel=1e-9)
    assert sum(value.layers.values()) == pytest.approx(total, rel=1e-9)


def test_wrong_examples_leave_no_margin(images):
    data = own_labels(build("mlp"), images)
    wrong = Data("wrong", data.X, (data.y + 1) % 3, 3)
    with pytest.raises(NotDefined, match="margin"):
        MEASURES["effective-parameters"](Subject(build("mlp"), wrong))


def test_a_layer_that_is_switched_off(images):
    """With a bias the next layer still has a cushion; what the activation leaves of it is nothing."""
    net = build("mlp")
    net[1].bias.data.fill_(-100)
    subject = Subject(net, images)
    expected = net[3].bias.norm() / torch.cat([net[3].weight, net[3].bias[:, None]], dim=1).norm()
    assert MEASURES["layer-cushion"](subject).layers["3"] == pytest.approx(expected.item(), rel=1e-12)
    for name in ("activation-contraction", "effective-parameters"):
        with pytest.raises(NotDefined, match=r"are off|margin"):
            MEASURES[name](subject)
    bare = build("mlp without biases")
    bare[1].weight.data.abs_().neg_()
    with pytest.raises(NotDefined, match="nothing enters"):
        MEASURES["layer-cushion"](Subject(bare, images))


def test_a_batch_norm_that_stays_is_a_layer(images):
    """Behind an in-place ReLU it can't be folded, and the graph gives it as a tuple."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.ReLU(inplace=True), nn.BatchNorm1d(20), nn.Linear(20, 3))
    net = net.double().eval()
    net[3].running_var.fill_(4.0)
    value = MEASURES["layer-cushion"](Subject(net, images))
    assert list(value.layers) == ["1", "3", "4"]
    with torch.no_grad():
        hidden = torch.relu(net[1](torch.from_numpy(images.X).double().flatten(1)))
    scale = 1 / math.sqrt(4 + 1e-5)
    ratio = (scale * hidden).norm(dim=1) / (scale * math.sqrt(20) * (hidden.square().sum(1) + 1).sqrt())
    assert value.layers["3"] == pytest.approx(ratio.min().item(), rel=1e-10)
    assert MEASURES["interlayer-cushion"](Subject(net, images)).value > 0


def test_what_is_refused(images):
    residual = Subject(build("residual"), images)
    for name in NAMES:
        with pytest.raises(NotDefined, match="chain"):
            MEASURES[name](residual)
    tanh = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Tanh(), nn.Linear(5, 3))
    end = nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.ReLU())
    for net, words in ((tanh, "tanh"), (end, "last step")):
        with pytest.raises(NotDefined, match=words):
            MEASURES["layer-cushion"](Subject(net, images))
    for name in ("interlayer-cushion", "interlayer-smoothness", "activation-contraction"):
        with pytest.raises(NotDefined, match="layer"):
            MEASURES[name](Subject(build("linear"), images))


@pytest.mark.parametrize("name", CHAINS)
def test_a_rescaling_moves_them_all(name, images):
    net = truerisk.fold_batch_norm(build(name))
    data = own_labels(net, images)
    sym = truerisk.find_symmetry(net, torch.zeros(1, 1, 8, 8, dtype=torch.float64))
    twin = sym.rescale(net, sym.random(std=1.0, seed=0))
    one, other = Subject(net, data), Subject(twin, data)
    for entry in (MEASURES[k] for k in NAMES):
        assert not entry.invariant
        assert entry(other).value != pytest.approx(entry(one).value, rel=1e-3)


# ---- how many random signs a projection takes ------------------------------------------------------------------------


def failures(k: int, epsilon: float, trials: int, aligned: bool, seed: int = 0) -> float:
    """How often (1/k) sum_l <A, M_l> <B, M_l> is off <A, B> by more than epsilon, for unit A and B = u v^T, 10 x 10."""
    rng = np.random.default_rng(seed)
    u, v = rng.standard_normal((2, 10))
    B = np.outer(u, v).ravel()
    A = B if aligned else rng.standard_normal(100)
    A, B = A / np.linalg.norm(A), B / np.linalg.norm(B)
    wrong = 0
    for chunk in np.array_split(np.arange(trials), max(1, trials * k // 200_000)):
        signs = 2.0 * rng.integers(0, 2, size=(len(chunk) * k, 100), dtype=np.int8) - 1
        estimate = ((signs @ A) * (signs @ B)).reshape(len(chunk), k).mean(1)
        wrong += int((np.abs(estimate - A @ B) > epsilon).sum())
    return wrong / trials


def test_the_constant_of_the_paper_is_too_small():
    """log(1/eta) / epsilon^2 signs fail more often than eta = 0.05, with A along u v^T about four times as often.

    With 2000 trials and a true rate of 0.05 the share would exceed 0.07 with probability under 1e-4; the seed is fixed.
    """
    k = math.ceil(math.log(1 / 0.05) / 0.3**2)
    assert failures(k, 0.3, 2000, aligned=False) > 0.07
    assert failures(k, 0.3, 2000, aligned=True) > 0.15


def test_twice_the_constant_is_too_small_where_the_matrix_is_aligned():
    """2 log(2/eta) / epsilon^2 is enough for a matrix at random, but not for A = u v^T.

    With 6000 trials and a true rate of eta = 0.001 the share would exceed 0.0025 with probability under 1e-3.
    """
    k = math.ceil(2 * math.log(2 / 0.001) / 0.5**2)
    assert failures(k, 0.5, 6000, aligned=True) > 0.0025
    assert failures(k, 0.5, 6000, aligned=False) < 0.0025


@pytest.mark.parametrize("aligned", [False, True])
def test_the_proven_number_is_enough(aligned):
    """The true rate is at most eta = 0.05; even then a share of 1000 trials above 0.08 has probability under 1e-4."""
    assert failures(math.ceil(cushions.projections(0.4, 0.05)), 0.4, 1000, aligned) <= 0.08
