"""Unit capacity and impact (Neyshabur et al. 2019) against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from measures.cases import CASES, build, mlp
from torch import nn

import truerisk
from truerisk.data import Data
from truerisk.measures import MEASURES, NotDefined, Subject

NAMES = [name for name, entry in MEASURES.items() if entry.family == "capacity"]


def hidden(bias: bool, seed: int = 0) -> nn.Sequential:
    """64-12-3 with weights that are not those of an initialization."""
    torch.manual_seed(seed)
    net = mlp(64, 12, 3, bias=bias).double().eval()
    for p in net.parameters():
        p.data += 0.1 * torch.randn_like(p)
    return net


def own_labels(net: nn.Module, images: Data) -> Data:
    """The same images with the labels that the network gives them."""
    with torch.no_grad():
        return Data("own", images.X, net(torch.from_numpy(images.X).double()).argmax(1).numpy(), 3)


def slow(net, init, X, y, bias):
    """mean and largest beta, mean alpha, right side of Theorem 1."""
    u, v = (net[k].weight.detach().numpy() for k in (1, 3))
    u0 = init[1].weight.detach().numpy()
    X = X.reshape(len(X), -1).astype(float)
    if bias:
        u = np.column_stack([u, net[1].bias.detach().numpy()])
        u0 = np.column_stack([u0, init[1].bias.detach().numpy()])
        X = np.column_stack([X, np.ones(len(X))])
    frobenius = math.sqrt(sum(float(row @ row) for row in X))
    beta, alpha, total = [], [], 0.0
    for j in range(len(u)):
        beta.append(math.sqrt(sum((u[j, k] - u0[j, k]) ** 2 for k in range(u.shape[1]))))
        alpha.append(math.sqrt(sum(v[i, j] ** 2 for i in range(len(v)))))
        response = math.sqrt(sum(float(u0[j] @ x) ** 2 for x in X))
        total += alpha[-1] * (beta[-1] * frobenius + response)
    c = net[3].bias.detach().numpy() if bias else np.zeros(len(v))
    total += math.sqrt(float(c @ c)) * math.sqrt(len(X)) if bias else 0.0
    margins = []
    for x, label in zip(X, y, strict=True):
        out = v @ np.maximum(u @ x, 0) + c
        margins.append(out[label] - max(out[k] for k in range(len(out)) if k != label))
    gamma = sorted(margins)[max(1, len(X) // 20) - 1]
    return np.mean(beta), max(beta), np.mean(alpha), (2 * math.sqrt(2 * len(v)) + 2) * total / (gamma * len(X))


@pytest.mark.parametrize("bias", [False, True])
def test_against_loops(bias, images):
    """A margin against the predicted class would be 0 for every example here, and the last number infinite."""
    net, init = hidden(bias), hidden(bias, 1)
    data = own_labels(net, images)
    subject = Subject(net, data, init)
    expected = slow(net, init, data.X, data.y, bias)
    assert [MEASURES[name](subject).value for name in NAMES] == pytest.approx(expected, rel=1e-10)


def test_an_output_bias_alone_is_a_constant_unit(images):
    """Without a bias below, the constant input is still one that the moved units could use."""
    torch.manual_seed(0)
    parts = [nn.Flatten(), nn.Linear(64, 12, bias=False), nn.ReLU(), nn.Linear(12, 3)]
    net = nn.Sequential(*parts).double()
    padded = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), net[3]).double()
    padded[1].weight, padded[1].bias = net[1].weight, nn.Parameter(torch.zeros(12, dtype=torch.float64))
    data = own_labels(net, images)
    one, other = (MEASURES[NAMES[-1]](Subject(m, data, m)).value for m in (net, padded))
    assert one == pytest.approx(other, rel=1e-12)


def test_a_network_that_did_not_move(images):
    net = hidden(bias=False)
    subject = Subject(net, own_labels(net, images), net)
    assert MEASURES["unit-capacity-mean"](subject).value == 0
    assert MEASURES["unit-capacity-max"](subject).value == 0
    x = torch.from_numpy(subject.data.X).double().flatten(1)
    with torch.no_grad():
        response = (net[3].weight.norm(dim=0) * (x @ net[1].weight.T).norm(dim=0)).sum()
    gamma = float(subject.margins.kthvalue(3).values)
    expected = (2 * math.sqrt(6) + 2) * float(response) / (gamma * 60)
    assert MEASURES["unit-capacity-over-margin"](subject).value == pytest.approx(expected, rel=1e-12)


def test_wrong_examples_leave_no_margin(images):
    net = hidden(bias=True)
    right = own_labels(net, images)
    wrong = Data("wrong", right.X, np.where(np.arange(60) < 3, (right.y + 1) % 3, right.y), 3)
    with pytest.raises(NotDefined, match="wrong"):
        MEASURES["unit-capacity-over-margin"](Subject(net, wrong, net))


@pytest.mark.parametrize("name", CASES)
def test_defined_for_one_hidden_layer_only(name, images):
    net = build(name)
    subject = Subject(net, own_labels(net, images), build(name, 1))
    for entry in (MEASURES[k] for k in NAMES):
        if name == "mlp without biases":
            assert entry(subject).value > 0
        else:
            with pytest.raises(NotDefined, match=r"one hidden layer|chains"):
                entry(subject)


def test_other_activations_and_convolutions_are_refused(images):
    tanh = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Tanh(), nn.Linear(5, 3))
    conv = nn.Sequential(nn.Conv2d(1, 2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(2, 3))
    end = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Linear(5, 3), nn.ReLU())
    for net in (tanh, conv, end):
        with pytest.raises(NotDefined):
            MEASURES["unit-impact-mean"](Subject(net, images))


def test_a_rescaling_moves_them_all(images):
    net, init = hidden(bias=True), hidden(True, 1)
    data = own_labels(net, images)
    sym = truerisk.find_symmetry(net, torch.zeros(1, 1, 8, 8, dtype=torch.float64))
    twin = sym.rescale(net, sym.random(std=1.0, seed=0))
    one, other = Subject(net, data, init), Subject(twin, data, init)
    for name in NAMES:
        assert not MEASURES[name].invariant
        assert MEASURES[name](other).value != pytest.approx(MEASURES[name](one).value, rel=1e-3)
