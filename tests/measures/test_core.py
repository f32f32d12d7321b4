"""The parts that measures share: anatomy, subject, gradients, registry."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from measures.cases import CASES, build
from torch import nn

from truerisk import TrueriskError
from truerisk.measures import MEASURES, NotDefined, Subject, Value, measure
from truerisk.measures.anatomy import Between, anatomy
from truerisk.measures.gradients import gradients
from truerisk.measures.registry import key_of
from truerisk.measures.registry import measure as register
from truerisk.measures.table import close_names


@pytest.mark.parametrize("name", CASES)
def test_layers_hold_all_parameters(name, images):
    subject = Subject(build(name), images)
    held = sum(layer.weight.numel() + (0 if layer.bias is None else layer.bias.numel()) for layer in subject.layers)
    assert held == sum(p.numel() for p in subject.module.parameters())


@pytest.mark.parametrize("name", CASES)
def test_folding_keeps_the_outputs(name, images):
    module = build(name)
    subject = Subject(module, images)
    with torch.no_grad():
        expected = module(torch.from_numpy(images.X).double())
    assert torch.allclose(subject.logits, expected, rtol=1e-10, atol=1e-12)


def test_chains_and_others(images):
    assert Subject(build("mlp"), images).anatomy.relu_only
    convnet = Subject(build("convnet"), images).anatomy
    assert convnet.chain
    assert not convnet.relu_only
    residual = Subject(build("residual"), images).anatomy
    assert not residual.chain
    assert "add" in residual.why


def test_a_layer_used_twice_is_no_chain():
    shared = nn.Linear(3, 3)
    assert "more than once" in anatomy(nn.Sequential(shared, nn.ReLU(), shared), torch.zeros(1, 3)).why


def test_functional_weights_have_their_own_names():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Parameter(torch.ones(4, 3)), nn.Parameter(torch.ones(2, 4))

        def forward(self, x):
            return F.linear(F.relu(F.linear(x, self.first)), self.second)

    parts = anatomy(Net(), torch.zeros(1, 3))
    assert [layer.name for layer in parts.layers] == ["first", "second"]
    assert parts.relu_only


@pytest.mark.parametrize(
    ("pool", "axes"),
    [
        (nn.MaxPool2d(3, 2), 2),
        (nn.MaxPool2d(2), 2),
        (nn.AvgPool2d(3, 1), 2),
        (nn.AvgPool2d(2), 2),
        (nn.MaxPool1d(3, 1), 1),
    ],
)
def test_pools_keep_their_lipschitz_constant(pool, axes):
    """No pair of inputs is moved apart by more than the constant; a single bright pixel shows it is no wild guess."""
    shape = (1, 1, *([9] * axes))
    (step,) = anatomy(pool, torch.zeros(shape)).chain
    assert isinstance(step, Between)
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(64, *shape[1:], generator=generator, dtype=torch.float64)
    move = torch.randn(64, *shape[1:], generator=generator, dtype=torch.float64)
    middle = torch.zeros(1, *shape[1:], dtype=torch.float64)
    middle[(0, 0, *([4] * axes))] = 1.0
    base, move = torch.cat([base, 0 * middle]), torch.cat([move, middle])
    ratio = (pool(base + move) - pool(base)).flatten(1).norm(dim=1) / move.flatten(1).norm(dim=1)
    assert ratio.max() <= step.lipschitz + 1e-12
    assert ratio.max() >= step.lipschitz / 3


def test_gradients_against_autograd(images):
    module = build("convnet")
    x, y = torch.from_numpy(images.X[:7]).double(), torch.from_numpy(images.y[:7])
    found = gradients(module, x, y, budget=1)  # one example at a time
    whole = gradients(module, x, y, budget=10**8)
    weights = dict(module.named_parameters())
    squares, along, total = [], [], 0
    for i in range(7):
        each = torch.autograd.grad(F.cross_entropy(module(x[i : i + 1]), y[i : i + 1]), list(weights.values()))
        flat = torch.cat([g.flatten() for g in each])
        squares.append(float(flat @ flat))
        along.append(float(flat @ torch.cat([w.detach().flatten() for w in weights.values()])))
        total = total + flat
    for result in (found, whole):
        assert np.allclose(result.squared_norms, squares, rtol=1e-10)
        assert np.allclose(result.along, along, rtol=1e-10)
        assert result.squared_total == pytest.approx(float(total @ total), rel=1e-10)


def test_the_same_seed_takes_the_same_rows(images):
    first, second, other = (Subject(build("mlp"), images, rows=10, seed=s).rows for s in (3, 3, 4))
    assert first.tolist() == second.tolist() != other.tolist()
    assert len(set(first.tolist())) == 10


def test_init_must_fit(images):
    with pytest.raises(TrueriskError, match="other layers"):
        Subject(build("mlp"), images, build("linear"))


def test_moves_are_differences(images):
    one, two = build("mlp"), build("mlp", 1)
    moves = Subject(one, images, two).moves
    assert torch.equal(moves["3"], one[3].weight - two[3].weight)


def test_missing_init_is_a_reason(images):
    entry = MEASURES["parameters"]
    needy = type(entry)(**{**vars(entry), "needs": frozenset({"init"})})
    with pytest.raises(NotDefined, match="initialization"):
        needy(Subject(build("mlp"), images))


def test_values_of_logarithms():
    assert Value.of_log(math.log(3)).value == pytest.approx(3)
    assert Value.of_log(1e4).value == math.inf


def test_unknown_names_are_refused(images):
    with pytest.raises(TrueriskError, match="no measure nonsense; truerisk measure --list shows all names"):
        measure(build("mlp"), images, only=["nonsense"])


@pytest.mark.parametrize(
    ("word", "close"),
    [
        ("rademacher", "random-sign-correlation"),  # its family
        ("pathnorm", "path-norm-l1"),  # spelling
        ("paths", "path-norm-l2-squared"),
        ("frobenius", "frobenius-sum"),  # a part of the name
        ("Hessian", "hessian-trace"),
        ("l2norm", "l2-norm"),
    ],
)
def test_close_names_are_suggested(images, word, close):
    with pytest.raises(TrueriskError, match=rf"no measure {word}; close are .*truerisk measure --list") as told:
        measure(build("mlp"), images, only=["parameters", word])
    assert close in str(told.value)
    assert len(close_names(word)) <= 4


def test_an_old_name_is_understood_with_a_note(images, capsys, monkeypatch):
    """The key of stored runs: values are found under both names, tables have the new one."""
    monkeypatch.setattr("truerisk.progress._enabled", True)
    old, new = (measure(build("mlp"), images, only=[name]) for name in ("path-norm", "path-norm-l2-squared"))
    assert old["path-norm"] == old["path-norm-l2-squared"] == new["path-norm"]
    assert [row["name"] for row in old.rows()] == ["path-norm-l2-squared"]
    assert capsys.readouterr().err.count("note: path-norm is now called path-norm-l2-squared") == 1
    assert measure(build("mlp"), images, only=["path-norm-l1"])["path-norm-l1"] != old["path-norm"]


def test_names_and_keys_are_one_to_one():
    """Stored runs and the zoo go by keys; nobody may take the old name of another measure."""
    names = [entry.name for entry in MEASURES.values()]
    assert len(set(names)) == len(names)
    renamed = {entry.name: key for key, entry in MEASURES.items() if entry.name != key}
    assert not set(renamed.values()) & set(names)
    assert {key_of(name) for name in names} == set(MEASURES)
    assert all(entry.key == key for key, entry in MEASURES.items())
    described = {"family": "f", "meaning": "M.", "paper": "p", "equation": "e", "invariant": True, "cost": "weights"}
    with pytest.raises(ValueError, match="two measures called path-norm"):
        register("path-norm", **described)(float)  # type: ignore[arg-type]


def test_the_table_has_what_was_promised(images):
    found = measure(build("mlp"), images, only=["parameters"])
    assert {"name", "value", "invariant", "paper"} <= set(found.table.columns)
    assert found.table.set_index("name").loc["parameters", "value"] == 64 * 12 + 12 + 12 * 9 + 9 + 9 * 3 + 3
    assert found.record()["measures"][0]["name"] == "parameters"
