"""What measures by gradients and searches have in common: they run on every network, and their invariance is told."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from measures.cases import CASES, build

import truerisk
from truerisk.data import Data
from truerisk.measures import MEASURES, NotDefined, Subject

FAMILIES = ("fisher", "flatness", "sharpness", "hessian", "optimization", "sensitivity")
NAMES = [name for name, entry in MEASURES.items() if entry.family in FAMILIES]
RECORD = {"steps_to_0.1": 120, "steps_0.1_to_0.01": 300, "gradient_variance_first_epoch": 1.5}


def taught(module, images):
    """The same images with labels of which the network gets nine in ten right."""
    with torch.no_grad():
        best = module(torch.from_numpy(images.X).double()).argmax(1).numpy()
    wrong = np.arange(len(best)) % 10 == 0
    return Data("taught", images.X, np.where(wrong, (best + 1) % 3, best), 3)


def values(module, init, data):
    subject = Subject(module, data, init, record=RECORD, rows=30)
    return {name: MEASURES[name](subject).value for name in NAMES}


@pytest.fixture(scope="module", params=CASES)
def case(request, images):
    """(name, values, values after a rescaling of the trained network with the initial one held fixed)."""
    module, init = build(request.param), build(request.param, 1)
    data = taught(module, images)
    symmetry = truerisk.find_symmetry(module, torch.from_numpy(images.X[:1]).double())
    before = values(module, init, data)
    if symmetry.dim == 0:
        return request.param, before, None
    twin = symmetry.rescale(copy.deepcopy(module), symmetry.random(std=1.0, seed=3))
    return request.param, before, values(twin, init, data)


def test_every_measure_has_a_finite_value_on_every_network(case):
    assert all(math.isfinite(value) for value in case[1].values())
    assert [n for n, v in case[1].items() if v < 0 and n != "hessian-trace"] == []  # an estimate, with an error


def test_invariant_measures_stay_and_the_others_move(case):
    name, before, after = case
    if after is None:
        assert name == "linear"
        return
    for measure, value in before.items():
        change = abs(after[measure] - value) / max(abs(value), 1e-12)
        if MEASURES[measure].invariant:
            assert change < 1e-6, f"{measure} moved by {change:.1e}"
        else:
            assert change > 1e-3, f"{measure} stayed"


def test_the_same_seed_gives_the_same_values_and_another_one_others(images):
    module = build("mlp")
    data = taught(module, images)
    names = ["pacbayes-flatness", "hessian-trace", "jacobian-norm"]
    first, again, other = (
        [MEASURES[name](Subject(module, data, seed=seed)).value for name in names] for seed in (0, 0, 1)
    )
    assert first == again
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_measures_leave_the_network_as_it_is(images):
    subject = Subject(build("convnet"), images)
    before = copy.deepcopy(subject.module.state_dict())
    for name in ("keskar-sharpness", "adaptive-sharpness-l2", "hessian-top", "critical-sample-ratio", "fisher-rao"):
        MEASURES[name](subject)
    assert all(torch.equal(before[key], value) for key, value in subject.module.state_dict().items())
    assert all(p.grad is None for p in subject.module.parameters())


@pytest.mark.parametrize("name", ["pacbayes-flatness", "sharpness"])
def test_no_radius_where_the_accuracy_is_at_chance(name, images):
    """Right on 1 example of 20: it can't fall by 0.1, and the search says so the second time, too."""
    module = build("mlp")
    with torch.no_grad():
        best = module(torch.from_numpy(images.X).double()).argmax(1).numpy()
    data = Data("wrong", images.X, np.where(np.arange(60) % 20 == 0, best, (best + 1) % 3), 3)
    subject = Subject(module, data)
    for _ in range(2):
        with pytest.raises(NotDefined, match="does not fall"):
            MEASURES[name](subject)


def test_frozen_networks_have_no_flatness(images):
    module = build("mlp").requires_grad_(False)
    with pytest.raises(NotDefined, match="no trainable"):
        MEASURES["pacbayes-flatness"](Subject(module, images))
