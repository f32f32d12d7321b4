"""`random-labels`: what is trained on what, and that the verdicts can go both ways."""

import json

import numpy as np
import pytest

from truerisk.lab.experiment import SCALES
from truerisk.lab.figure import Figure, Table
from truerisk.lab.random_labels import EXPERIMENT, LABELS, PIXELS, task, treated
from truerisk.lab.random_labels.claims import PUBLISHED_PARAMETERS
from truerisk.lab.rows import Rows
from truerisk.lab.samples import samples


@pytest.fixture(scope="module")
def smoke():
    return Rows([{**setting, **EXPERIMENT.task(setting)} for setting in EXPERIMENT.settings("smoke")])


def test_smoke_gives_a_verdict_on_every_claim_and_all_figures(smoke):
    verdicts = EXPERIMENT.judge(smoke, "smoke")
    assert len(verdicts) == len(EXPERIMENT.claims)
    assert all(verdict.word in ("seen again", "not seen again") for verdict in verdicts)
    assert {v.claim.name: v.word for v in verdicts}["parameters"] == "seen again"
    exhibits = EXPERIMENT.figures(smoke)
    assert [type(exhibit) for exhibit in exhibits] == [Figure, Figure, Figure, Table]
    assert all(len(exhibit.rows) for exhibit in exhibits)
    for figure in exhibits[:3]:
        fields = {figure.x.field, figure.y.field, figure.series, figure.facet, figure.low, figure.high} - {None}
        assert all(fields <= set(row) for row in figure.rows)


def test_records_are_small_plain_json_and_do_not_repeat_the_setting(smoke):
    for setting in EXPERIMENT.settings("smoke"):
        record = {k: v for k, v in smoke.where(**setting).present[0].items() if k not in setting}
        assert json.loads(json.dumps(record, allow_nan=False)) == record
        assert len(record["curve_steps"]) == len(record["curve_train_error"]) <= 60
        assert record["curve_steps"][-1] == record["steps"]
        assert record["curve_train_error"][-1] == record["train_error"]
        assert record["published_parameters"] == PUBLISHED_PARAMETERS[setting["model"].replace("-small", "")]


def test_a_task_is_a_function_of_its_setting():
    setting = {**EXPERIMENT.settings("smoke")[0], "epochs": 2}
    assert task(setting) == task(setting)
    assert task(setting) != task({**setting, "seed": 1})


@pytest.mark.parametrize("scale", SCALES)
def test_grids_have_all_treatments_and_no_duplicates(scale):
    settings = EXPERIMENT.settings(scale)
    assert len({json.dumps(s, sort_keys=True) for s in settings}) == len(settings)
    assert {s["treatment"] for s in settings} == {*LABELS, *PIXELS}
    assert len({tuple(sorted(s)) for s in settings}) == 1  # the same fields everywhere
    assert all(EXPERIMENT.cost(s) > 0 for s in settings)
    for s in settings:
        assert (s["p"] == 0) == (s["treatment"] not in LABELS[1:])
        assert (s["p"] == 1) == (s["treatment"] == "random labels")


BASE = {"data": "digits", "n": 300, "n_test": 200, "seed": 4, "p": 0.0}


def white(X):
    flat = X.reshape(len(X), -1).astype(np.float64)
    flat = (flat - flat.mean(1, keepdims=True)) / np.maximum(flat.std(1, keepdims=True), flat.shape[1] ** -0.5)
    return flat.reshape(X.shape)


def test_corrupted_labels_are_for_training_only():
    plain, plain_test = samples("digits", 300, 200, 4)
    train, test = treated({**BASE, "treatment": "random labels", "p": 1.0})
    assert np.allclose(train.X, white(plain.X), atol=1e-5)
    assert np.array_equal(test.y, plain_test.y)
    # 270 of 300 labels change on average, with standard deviation 5.2: four of them, false-alarm rate 6e-5
    assert abs(np.sum(train.y != plain.y) - 270) < 21
    half, _ = treated({**BASE, "treatment": "corrupted labels", "p": 0.5})
    assert abs(np.sum(half.y != plain.y) - 135) < 4 * 8.7


@pytest.mark.parametrize("treatment", PIXELS)
def test_pixels_of_training_and_test_images_are_treated(treatment):
    plain, plain_test = samples("digits", 300, 200, 4)
    train, test = treated({**BASE, "treatment": treatment})
    assert np.array_equal(train.y, plain.y)
    assert np.array_equal(test.y, plain_test.y)
    old = [np.round(white(d.X).reshape(len(d), -1), 4) for d in (plain, plain_test)]
    new = [np.round(d.X.reshape(len(d), -1).astype(float), 4) for d in (train, test)]
    kept = [np.allclose(np.sort(a, 1), np.sort(b, 1), atol=1e-3) for a, b in zip(old, new, strict=True)]
    assert kept == [treatment != "Gaussian pixels"] * 2  # a permutation keeps the values of an image
    # One permutation for all, training and test alike, makes the pixels' means over the images a permutation too.
    means = [np.allclose(np.sort(a.mean(0)), np.sort(b.mean(0)), atol=1e-3) for a, b in zip(old, new, strict=True)]
    assert means == [treatment == "shuffled pixels"] * 2


def test_training_and_test_images_get_the_same_permutation():
    # Trained on shuffled images, nearest neighbours still recognise shuffled test images; with another permutation
    # they would guess. 1-nearest-neighbour error on digits is about 3 %.
    train, test = treated({**BASE, "treatment": "shuffled pixels"})
    distances = ((test.X.reshape(200, 1, 64) - train.X.reshape(1, 300, 64)) ** 2).sum(-1)
    assert np.mean(train.y[distances.argmin(1)] != test.y) < 0.15


def row(treatment, p=0.0, model="mlp-1x512", **record):
    base = {"data": "digits", "n": 1000, "n_test": 500, "seed": 0, "model": model, "treatment": treatment, "p": p}
    full = {"train_error": 0.0, "test_error": 0.9 * p, "steps": round(100 * (1 + 1.5 * p)), "fitted": True}
    return {**base, **full, "published_parameters": PUBLISHED_PARAMETERS[model], **record}


def published():
    """Rows that show every published effect."""
    rows = [row("true labels", 0.0), *(row("corrupted labels", p) for p in (0.2, 0.4, 0.8)), row("random labels", 1.0)]
    noise = (row(name, test_error=0.9) for name in ("random pixels", "Gaussian pixels"))
    return [*rows, row("shuffled pixels"), *noise]


def words(rows):
    return {v.claim.name: v.word for v in EXPERIMENT.judge(Rows(rows), "quick")}


def test_claims_are_seen_in_rows_that_show_them():
    assert set(words(published()).values()) == {"seen again"}


@pytest.mark.parametrize(
    ("claim", "treatment", "change"),
    [
        ("parameters", "true labels", {"published_parameters": 1_209_867}),
        ("fits-everything", "Gaussian pixels", {"train_error": 0.011}),
        ("chance", "random labels", {"test_error": 0.855}),
        ("chance", "random labels", {"test_error": 0.945}),
        ("generalises", "true labels", {"test_error": 0.71}),
        ("slower-with-corruption", "true labels", {"steps": 260}),
        ("small-factor", "random labels", {"steps": 301}),
        ("small-factor", "random labels", {"fitted": False}),
        ("test-error-rises", "random labels", {"test_error": 0.69}),
        ("pixels-faster", "random pixels", {"steps": 251}),
        ("permutation", "shuffled pixels", {"test_error": 0.031}),
    ],
)
def test_each_claim_can_fail(claim, treatment, change):
    rows = [{**r, **change} if r["treatment"] == treatment else r for r in published()]
    assert words(rows)[claim] == "not seen again"


def test_a_missing_run_gives_no_verdict():
    rows = published()
    gone = Rows(rows[:-1], missing=[{k: rows[-1][k] for k in ("data", "model", "treatment", "p", "seed")}])
    found = {v.claim.name: v.word for v in EXPERIMENT.judge(gone, "quick")}
    assert found["fits-everything"] == found["pixels-faster"] == "not checked"
    assert found["chance"] == "seen again"
