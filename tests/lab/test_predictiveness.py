"""The experiment `predictiveness`: one run, what it records, and what its claims make of made-up zoos."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from truerisk.lab.catalogue import load
from truerisk.lab.predictiveness import gradient_variance, train_to_loss
from truerisk.lab.predictiveness.claims import CLAIMS, HYPER, predictions, scores
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.samples import samples
from truerisk.measures import MEASURES
from truerisk.nets import architecture
from truerisk.training import Plan

EXPERIMENT = load("predictiveness")
CHECKS = {claim.name: claim.check for claim in CLAIMS}


@pytest.fixture(scope="module")
def record():
    return EXPERIMENT.task(EXPERIMENT.settings("smoke")[0])


def test_one_run_has_all_measures(record):
    assert record["fitted"]
    assert record["loss"] <= 0.01
    expected = {name for name, entry in MEASURES.items() if entry.cost != "training"}
    assert record["measures"].keys() <= expected
    assert len(record["measures"]) >= 50
    assert all(value is None or math.isfinite(value) for value in record["measures"].values())
    assert {"steps-to-loss-0.1", "gradient-noise", "spectral-product", "distance-l2"} <= record["measures"].keys()


def test_the_same_setting_gives_the_same_record(record):
    again = EXPERIMENT.task(EXPERIMENT.settings("smoke")[0])
    assert again["test_error"] == record["test_error"]
    assert again["measures"] == record["measures"]


def test_a_network_that_never_gets_there_is_left_out():
    setting = {**EXPERIMENT.settings("smoke")[0], "epochs": 1}
    found = EXPERIMENT.task(setting)
    assert not found["fitted"]
    assert found["measures"] == {}
    assert predictions(Rows([{**setting, **found}])) == []


def test_training_ends_at_the_loss_and_counts_steps():
    train, _ = samples("mnist1d", 60, 10, 0)
    network = architecture("mlp:32", train.input_shape, 10).build(0)
    story = train_to_loss(network, train, Plan(epochs=400, batch_size=16, optimizer="sgd", lr=0.1, schedule="constant"))
    with torch.no_grad():
        loss = float(F.cross_entropy(network(torch.from_numpy(train.X)), torch.from_numpy(train.y)))
    assert loss == pytest.approx(story["loss"], rel=1e-6)
    assert loss <= 0.01
    assert story["record"]["steps_to_0.1"] % 4 == 0  # whole epochs of 60/16 batches
    assert story["record"]["steps_0.1_to_0.01"] >= 0


def test_gradient_variance_against_a_loop():
    train, _ = samples("mnist1d", 12, 10, 0)
    network = architecture("mlp:5", train.input_shape, 10).build(0).double()
    X, y = torch.from_numpy(train.X).double(), torch.from_numpy(train.y)
    each = []
    for i in range(12):
        parts = torch.autograd.grad(F.cross_entropy(network(X[i : i + 1]), y[i : i + 1]), list(network.parameters()))
        each.append(torch.cat([part.flatten() for part in parts]))
    stacked = torch.stack(each)
    expected = float((stacked - stacked.mean(0)).square().sum(1).mean())
    assert gradient_variance(network, X, y) == pytest.approx(expected, rel=1e-10)


def zoo(**measures):
    """A made-up zoo in which the gap grows with depth and learning rate; measures are functions of a run."""
    runs = []
    for width, depth, batch_size, lr, seed in itertools.product((32, 64), (1, 2), (16, 64), (0.03, 0.1), (0, 1)):
        run = {"width": width, "depth": depth, "batch_size": batch_size, "lr": lr, "seed": seed, "n_test": 100_000}
        gap = 0.2 * depth + 0.05 * (lr > 0.05) + 0.0001 * width + 0.00001 * batch_size + 0.001 * seed
        run |= {"fitted": True, "train_error": 0.0, "test_error": gap}
        run["measures"] = {name: float(function(run)) for name, function in measures.items()}
        runs.append(run)
    return Rows(runs)


def gap(run):
    return run["test_error"]


def test_claims_on_a_zoo_where_they_hold():
    rows = zoo(
        **{"pacbayes-magnitude-flatness": gap, "sharpness-magnitude": gap, "gradient-noise": gap},
        **{"spectral-product": lambda run: -gap(run), "frobenius-product": lambda run: -gap(run)},
        parameters=lambda run: -run["depth"],
    )
    for name in ("flatness", "spectral", "counting", "gradient-noise"):
        assert CHECKS[name](rows).seen, name
    assert not CHECKS["no-robust-measure"](rows).seen  # the gap itself is a robust measure


def test_claims_on_a_zoo_where_they_fail():
    rows = zoo(
        **{"pacbayes-magnitude-flatness": lambda run: -gap(run), "sharpness-magnitude": gap},
        **{
            "spectral-product": gap,
            "frobenius-product": lambda run: -gap(run),
            "gradient-noise": lambda run: -gap(run),
        },
        parameters=gap,
    )
    for name in ("flatness", "spectral", "counting", "gradient-noise"):
        assert not CHECKS[name](rows).seen, name


def test_a_measure_that_fails_somewhere_is_not_robust():
    rows = zoo(parameters=lambda run: run["depth"] - 0.3 * (run["lr"] > 0.05))  # wrong about the learning rate
    assert CHECKS["no-robust-measure"](rows).seen
    assert scores(rows)["parameters"].worst_environment.startswith("lr")


def test_no_verdict_where_most_networks_were_not_fitted():
    rows = Rows([{**run, "fitted": index % 2 == 0} for index, run in enumerate(zoo(parameters=gap))])
    with pytest.raises(IncompleteError, match="reached the common loss"):
        scores(rows)


def test_figures_of_a_zoo():
    found = EXPERIMENT.figures(zoo(parameters=gap, **{"path-norm": lambda run: -gap(run)}))
    names = [exhibit.name for exhibit in found]
    assert names[:3] == ["ranking", "granulated", "robust"]
    assert "scatter-parameters" in names
    assert [line[0] for line in found[0].rows] == ["parameters", "path-norm"]


def test_the_zoo_has_the_promised_size():
    settings = EXPERIMENT.settings("medium")
    assert len(settings) == 162
    assert all(len({setting[name] for setting in settings}) == 3 for name in HYPER)
