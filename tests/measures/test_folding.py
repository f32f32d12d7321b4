"""Batch norm in every spelling: the numbers are those of the folded network, or there are none."""

from __future__ import annotations

import copy
import io
import sys

import numpy as np
import pytest
import torch
from torch import nn

import truerisk
from truerisk.data import Data
from truerisk.measures import Subject

X = np.random.default_rng(0).uniform(size=(60, 1, 8, 8)).astype(np.float32)
WEIGHTS = ["frobenius-product", "stable-ranks", "frobenius-sum", "parameters", "path-norm", "hessian-trace"]
OF_WEIGHTS = [*WEIGHTS, "fisher-rao", "gradient-norm", "pacbayes-flatness", "sharpness", "spectral-covering", "vc"]
OF_OUTPUTS = ["cross-entropy", "median-margin", "input-gradient-norm", "critical-sample-ratio", "float-count"]


class Net(nn.Module):
    """Convolution, batch norm, ReLU, flat, linear."""

    def __init__(self, flat) -> None:
        super().__init__()
        self.layer, self.norm, self.head = nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Linear(144, 3)
        self.flat = flat

    def forward(self, x):
        return self.head(self.flat(self.norm(self.layer(x)).relu()))


def by_value(x):
    """No path that a tracer can follow, and the same outputs."""
    return x.flatten(1) if float(x.detach().sum()) > -1 else x.flatten(1) + 1


SPELLINGS = {
    "flatten": lambda x: x.flatten(1),
    "reshape": lambda x: x.reshape(len(x), -1),
    "view": lambda x: x.view(x.shape[0], -1),
    "shape": lambda x: x.flatten(1) if x.shape[1] == 4 else x,
}


def network(flat, seed: int = 0) -> nn.Module:
    """Statistics, gains and shifts as training may make them; the weights depend on the seed alone."""
    torch.manual_seed(seed)
    net = Net(flat)
    with torch.no_grad():
        net.norm.running_mean.normal_()
        net.norm.running_var.exponential_()
        net.norm.weight.normal_()
        net.norm.bias.normal_()
    return net.eval()


def labeled(net: nn.Module) -> Data:
    with torch.no_grad():
        y = net(torch.from_numpy(X)).argmax(1).numpy()
    y[:3] = (y[:3] + 1) % 3
    return Data("images", X, y, 3)


DATA = labeled(network(SPELLINGS["flatten"]))


def test_every_spelling_has_the_same_numbers():
    """To the last bit: the measures see the same folded weights."""
    names = [*WEIGHTS, "distance-frobenius", *OF_OUTPUTS]
    found = {
        spelling: truerisk.measure(network(flat), DATA, network(flat, 1), only=names)
        for spelling, flat in SPELLINGS.items()
    }
    expected = found.pop("flatten")
    assert set(expected.values) | set(expected.bounds) == set(names)
    for spelling, other in found.items():
        assert {name: other[name] for name in names} == {name: expected[name] for name in names}, spelling


def test_folded_numbers_are_those_of_a_network_folded_by_hand():
    net = network(SPELLINGS["reshape"])
    scale = net.norm.weight.detach() / (net.norm.running_var + net.norm.eps).sqrt()
    squares = [(scale[:, None, None, None] * net.layer.weight).square().sum(), net.head.weight.square().sum()]
    expected = (squares[0] * squares[1]).detach()
    found = truerisk.measure(net, DATA, only=["frobenius-product"])["frobenius-product"]
    assert found == pytest.approx(expected.item(), rel=1e-5)


def test_a_network_that_no_tracer_follows_is_skipped_with_a_reason(capfd):
    """Every measure of the weights is skipped, and every measure of the outputs is as in the other spelling."""
    found = truerisk.measure(network(by_value), DATA, network(by_value, 1))
    for name in OF_WEIGHTS:
        assert name not in found.values
        assert name not in found.bounds
        assert found.skipped[name].startswith("the batch norm norm cannot be folded into the layer before it: ")
        assert "write the forward without a path that depends on the values of the data." in found.skipped[name]
    expected = truerisk.measure(network(SPELLINGS["flatten"]), DATA, only=OF_OUTPUTS)
    assert [found[name] for name in OF_OUTPUTS] == pytest.approx([expected[name] for name in OF_OUTPUTS], rel=1e-4)
    assert capfd.readouterr() == ("", ""), "what torch prints about it is not shown"


def test_nothing_else_is_measured_of_such_a_network():
    """A norm that stays in the weights changes none of the numbers that are left."""
    net = network(by_value)
    other = copy.deepcopy(net)
    with torch.no_grad():  # the same function: the layer is doubled, and the norm takes that back
        other.layer.weight.mul_(2)
        other.norm.running_mean.mul_(2)
        other.norm.running_var.mul_(4).add_(3 * other.norm.eps)
    one, two = (truerisk.measure(m, DATA) for m in (net, other))
    assert set(one.values) == set(two.values)
    assert set(one.bounds) == set(two.bounds) == {"float-count"}
    for name, value in one.values.items():
        assert two[name] == pytest.approx(value.value, rel=1e-4), name


def test_without_batch_norm_only_the_layers_are_missing():
    torch.manual_seed(0)

    class Plain(nn.Sequential):
        def forward(self, x):
            return by_value(super().forward(x))

    net = Plain(nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 3))
    found = truerisk.measure(net, labeled(net), only=["stable-ranks", "hessian-trace", "gradient-norm", "parameters"])
    assert set(found.values) == {"hessian-trace", "parameters"}
    assert found.skipped["gradient-norm"].startswith("torch.func.vmap cannot follow the network")
    assert found.skipped["stable-ranks"].startswith("the layers of the network cannot be found: torch.export could not")


def test_a_refusal_is_found_once(monkeypatch):
    subject = Subject(network(by_value), DATA)
    calls = []

    def refuse():
        calls.append(1)
        raise truerisk.measures.NotDefined("no.")

    for _ in range(2):
        with pytest.raises(truerisk.measures.NotDefined, match=r"no\."):
            subject.shared("it", refuse)
    assert len(calls) == 1
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with pytest.raises(truerisk.TrueriskError, match="norm cannot be folded"):
        truerisk.audit(network(by_value), DATA)
