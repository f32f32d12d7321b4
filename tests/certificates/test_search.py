"""The search for a network, a learning rate and a split: what it looks at, what it finds, what it refuses."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import replace

import numpy as np
import pytest
import torch
from certificates.own import own
from scipy.stats import beta
from torch import nn

import truerisk
from truerisk.certificates.evidence import split_data
from truerisk.certificates.methods import BASELINE
from truerisk.certificates.prior import Prior
from truerisk.certificates.search.contest import FEW, Field, free_rows, halve, rounds
from truerisk.certificates.search.curve import Curve, Point, best_split, fit_curve, predict_floors
from truerisk.certificates.settings import Settings
from truerisk.data import Data, load
from truerisk.nets import architecture, predict_labels
from truerisk.seeds import derive
from truerisk.training import checkpoint, fit, loop
from truerisk.training.plans import default_plans

PRIORS = tuple(Prior(f"split:{share}") for share in ("0.5", "0.8", "0.9"))
QUICK = {"lrs": [1e-3, 1e-2], "epochs": 2}


def settings(prior="split:0.5", seed=0):
    return Settings(BASELINE(), Prior(prior), 0.05, seed, 1, "mlp:8", "built-in")


@pytest.fixture(scope="module")
def digits():
    """In other shades: on rows of digits every configuration counts 32 times."""
    return own(load("digits").take(range(600)))


@pytest.fixture(scope="module")
def found(digits):
    return truerisk.search(["mlp:8", "mlp:16"], digits, **QUICK)


class TestRows:
    """Rows that certify are never looked at."""

    @pytest.mark.parametrize("n", [120, 1797, 60_000])
    @pytest.mark.parametrize("seed", [0, 7])
    def test_the_smallest_prior_is_in_all_larger_ones(self, n, seed):
        """For every fraction, not only those that were compared: the sentence that is printed says so."""
        rows = free_rows(settings(seed=seed), PRIORS, n)
        assert rows.tolist() == split_data(settings("split:0.5", seed), n).prior.tolist()
        for fraction in [0.5, 0.50001, *np.random.default_rng(0).uniform(0.5, 0.8, 20)]:
            assert not set(rows.tolist()) & set(split_data(settings(f"split:{fraction}", seed), n).certify.tolist())
        smaller = split_data(settings("split:0.4", seed), n).certify
        assert set(rows.tolist()) & set(smaller.tolist()), "a smaller split does certify on some of them"
        other = split_data(settings("split:0.8", seed + 1), n).certify
        assert set(rows.tolist()) & set(other.tolist()), "and so does another seed"

    def test_the_search_is_handed_these_rows_alone(self, digits):
        rows = free_rows(settings(), PRIORS, len(digits))
        field = Field.of(digits, rows)
        assert np.array_equal(field.data.X, digits.X[rows])
        for cut in (field, field.turned()):
            assert (len(cut.train), len(cut.validate)) == (240, 60)
            assert sorted([*cut.train, *cut.validate]) == list(range(300))
        assert not set(field.validate) & set(field.turned().validate), "the curve has validating rows of its own"

    def test_what_certifies_changes_nothing(self, digits, found):
        """Other inputs and labels on all rows that one of the splits certifies on: the same result to the last bit."""
        certify = np.unique(np.concatenate([split_data(settings(str(p)), len(digits)).certify for p in PRIORS]))
        assert len(certify) == 300
        again = truerisk.search(["mlp:8", "mlp:16"], corrupted(digits, certify), **QUICK)
        assert again.record() == found.record()

    def test_what_is_searched_changes_the_result(self, digits, found):
        """The check above would pass if nothing were looked at at all."""
        rows = free_rows(settings(), PRIORS, len(digits))
        again = truerisk.search(["mlp:8", "mlp:16"], corrupted(digits, rows), **QUICK)
        assert again.candidates != found.candidates
        assert again.curve != found.curve


def corrupted(data, rows):
    rng = np.random.default_rng(1)
    X, y = data.X.copy(), data.y.copy()
    X[rows], y[rows] = 100 * rng.normal(size=X[rows].shape), rng.integers(data.classes, size=len(rows))
    return Data(data.name, X, y, data.classes)


class TestCurve:
    """The power law and what it predicts, against closed forms and a twin that uses nothing of the package."""

    def test_two_points_are_met(self):
        curve = fit_curve([Point(100, 30), Point(1000, 9)], n=500)
        low, high = 30.5 / 501, 9.5 / 501
        assert curve.error(100) == pytest.approx(low, rel=1e-12)
        assert curve.error(1000) == pytest.approx(high, rel=1e-12)
        assert curve.power == pytest.approx(math.log10(low / high), rel=1e-12)

    def test_three_points_at_equal_distance(self):
        """At m, 2m and 4m the middle one has no say in the slope; the line goes through the means."""
        curve = fit_curve([Point(50, 40), Point(100, 33), Point(200, 10)], n=199)
        rates = [40.5 / 200, 33.5 / 200, 10.5 / 200]
        assert curve.power == pytest.approx(math.log2(rates[0] / rates[2]) / 2, rel=1e-12)
        assert curve.error(100) == pytest.approx(math.prod(rates) ** (1 / 3), rel=1e-12)

    def test_errors_that_grow_are_taken_as_constant(self):
        curve = fit_curve([Point(50, 4), Point(100, 9)], n=99)
        assert curve.power == 0
        assert curve.error(7) == curve.error(7_000) == pytest.approx(math.sqrt(0.045 * 0.095), rel=1e-12)

    def test_no_errors_at_all(self):
        curve = fit_curve([Point(50, 0), Point(100, 0), Point(200, 0)], n=99)
        assert curve.power == pytest.approx(0, abs=1e-12)
        assert curve.error(1000) == pytest.approx(0.005)

    def test_an_error_rate_is_at_most_one(self):
        assert Curve((), 10, scale=50.0, power=0.5).error(100) == 1.0

    @pytest.mark.parametrize(
        ("scale", "power", "best"), [(0.02, 0.0, "split:0.5"), (30.0, 1.0, "split:0.8"), (5e18, 6.0, "split:0.9")]
    )
    def test_the_split(self, scale, power, best):
        """Flat: nothing to learn from more rows, so many certify. Steep: many train."""
        n = 2000
        made = predict_floors(Curve((), 100, scale, power), PRIORS, n, 0.05)
        floors = {str(prior): slow_floor(scale, power, prior.fraction, n, 0.05) for prior in PRIORS}
        assert {p.prior: p.floor for p in made} == pytest.approx(floors, rel=1e-7)
        assert best_split(made).prior == min(floors, key=floors.get) == best
        assert [(p.n_prior, p.n_certify) for p in made] == [(1000, 1000), (1600, 400), (1800, 200)]

    def test_no_rounding_to_whole_errors(self):
        """0.4 and 0.6 expected errors are neither none nor one: the floor lies between and grows."""
        floors = [
            predict_floors(Curve((), 9, rate, 0.0), [Prior("split:0.5")], 200, 0.05)[0].floor for rate in (0.004, 0.006)
        ]
        none, one = (float(beta.isf(0.05, k + 1, 100 - k)) for k in (0, 1))
        assert none < floors[0] < floors[1] < one
        assert floors[0] == pytest.approx(none + 0.4 * (one - none), rel=1e-7)

    def test_everything_wrong(self):
        assert predict_floors(Curve((), 9, 1.0, 0.0), [Prior("split:0.5")], 200, 0.05)[0].floor == 1.0

    def test_the_first_of_equal_floors(self):
        made = predict_floors(Curve((), 9, 1.0, 0.0), PRIORS, 200, 0.05)
        assert best_split(made).prior == "split:0.5"


def slow_floor(scale, power, fraction, n, delta):
    """Straight from the definition, with scipy's quantile of the beta distribution."""
    train = round(fraction * n)
    certify = n - train
    expected = min(1.0, scale / train**power) * certify
    k = math.floor(expected)
    bounds = [float(beta.isf(delta, j + 1, certify - j)) if j < certify else 1.0 for j in (k, k + 1)]
    return bounds[0] * (k + 1 - expected) + bounds[1] * (expected - k)


class TestHalving:
    """Few candidates are all trained to the end; of many, the better half goes on."""

    def test_few(self):
        calls = []
        winner, results = halve(FEW, lambda i, share: calls.append((i, share)) or [5, 2, 2, 9][i])
        assert calls == [(i, 1.0) for i in range(FEW)]
        assert (winner, results) == (1, [(1.0, 5), (1.0, 2), (1.0, 2), (1.0, 9)])

    @pytest.mark.parametrize("count", [1, 5, 9, 16, 33])
    @pytest.mark.parametrize("seed", range(5))
    def test_against_the_twin(self, count, seed):
        """Many ties, and other errors in every round."""
        table = np.random.default_rng(seed).integers(0, 6, size=(count, 12))
        assert halve(count, lambda i, share: int(table[i, round(-math.log2(share))])) == slow_halving(table)

    def test_work_is_saved(self):
        trained = [share for size, share in rounds(32) for _ in range(size)]
        assert sum(trained) == 4 * 4.0, "four rounds, each as long as four trainings"
        assert rounds(32)[-1] == (4, 1.0)


def slow_halving(table):
    """One round after the other; a candidate is out if half of those before it in rank fill the next round."""
    alive, alone = list(range(len(table))), {}
    left = 0
    while math.ceil(len(table) / 2**left) > 4:
        left += 1
    while True:
        ranked = []
        for i in alive:
            alone[i] = (0.5**left, int(table[i, left]))
            place = len([j for j in ranked if (table[j, left], j) < (table[i, left], i)])
            ranked.insert(place, i)
        if left == 0:
            return ranked[0], [alone[i] for i in range(len(table))]
        alive = ranked[: (len(ranked) + 1) // 2]
        left -= 1


def test_a_planted_learning_rate_is_found(digits):
    """Six candidates, so that halving is used: two rates are absurdly large, three absurdly small."""
    found = truerisk.search("mlp:16", digits, lrs=[1e30, 1e-9, 1e-7, 1e-2, 300.0, 1e-8], epochs=4)
    assert found.lr == 1e-2
    assert found.winner.errors < 0.6 * found.winner.n, "chance is 0.9"
    assert [c.epochs for c in found.candidates].count(4) == 3
    assert [c.epochs for c in found.candidates].count(2) == 3
    assert found.candidates[0].errors == found.candidates[0].n, "what diverges has everything wrong"


def test_nothing_learns(digits):
    with pytest.raises(truerisk.TrueriskError, match="smaller learning rates"):
        truerisk.search("mlp:16", digits, lrs=[1e30], epochs=1)


class TestResult:
    def test_same_seed_same_answer(self, digits, found):
        assert truerisk.search(["mlp:8", "mlp:16"], digits, **QUICK) == found
        assert truerisk.search(["mlp:8", "mlp:16"], digits, seed=1, **QUICK).candidates != found.candidates

    def test_what_it_says(self, found):
        assert "Used 300 rows" in found.sentence
        assert "seed 0 and a split of at least 0.5" in found.sentence
        assert "--tried at 1" in found.sentence
        assert found.command in str(found)
        assert [c.model for c in found.candidates] == ["mlp:8", "mlp:8", "mlp:16", "mlp:16"]
        assert found.winner.errors == min(c.errors for c in found.candidates)
        assert [p.prior for p in found.predictions] == list(map(str, PRIORS))
        assert json.loads(json.dumps(found.record()))["winner"]["lr"] == found.lr

    def test_the_counts_are_those_of_networks_trained_by_hand(self, digits, found):
        """By certify's plan and from its start; the winner on the first rows, its curve on the last."""
        rows = split_data(settings(), len(digits)).prior
        plan = default_plans(found.model, digits, 300, 0, 2, found.lr)["prior"]

        def errors(train, validate):
            module = architecture(found.model, digits.input_shape, digits.classes).build(derive(0, "init"))
            fit(module, digits.take(train), plan)
            return int((predict_labels(module, digits.X[validate]) != digits.y[validate]).sum())

        assert errors(rows[:240], rows[240:]) == found.winner.errors
        order = np.concatenate([rows[240:], rows[60:240]])
        assert [(p.trained_on, p.errors) for p in found.curve.points] == [
            (m, errors(order[:m], rows[:60])) for m in (60, 120, 240)
        ]

    def test_arguments_are_those_of_certify(self, digits, found):
        """tried stays 1, the learning rate is used, and the certificate is about other rows."""
        cert = truerisk.certify(found.model, digits, method="hold-out", **found.arguments)
        kept = cert.record["settings"]
        assert kept["tried"] == 1
        assert kept["plans"]["prior"]["lr"] == found.lr
        assert (kept["prior"], kept["seed"], kept["plans"]["prior"]["epochs"]) == (found.prior, 0, 2)
        rows = free_rows(settings(), PRIORS, len(digits))
        assert not set(rows.tolist()) & set(cert.evidence.parts.certify.tolist())

    def test_objects_are_named_by_place_holders(self, digits):
        def build(input_shape, classes):
            return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), classes))

        found = truerisk.search(build, digits, lrs=[1e-3], priors="split:0.6", epochs=1, delta=0.01)
        words = shlex.split(found.command)
        assert words[words.index("--data") + 1] == "DATA"
        assert words[words.index("--model") + 1].startswith("FILE.py:")
        assert words[words.index("--delta") + 1] == "0.01"
        assert "--device" not in words
        assert found.prior == "split:0.6"

    def test_usual_learning_rates(self, digits):
        found = truerisk.search("mlp:4", digits, epochs=1)
        assert [c.lr for c in found.candidates] == [0.0009, 0.003, 0.009]

    def test_a_killed_search_goes_on(self, digits, found, tmp_path, monkeypatch):
        """Four candidates and three points of the curve, two epochs each; stopped in the last epoch of the fifth."""
        monkeypatch.setattr(checkpoint, "SAVE_EVERY", 0.0)
        shuffles, randperm = [], torch.randperm

        def counting(n, stop_at=None):
            shuffles.append(n)
            if len(shuffles) == stop_at:
                raise KeyboardInterrupt
            return randperm(n)

        monkeypatch.setattr(loop.torch, "randperm", lambda n: counting(n, stop_at=10))
        with pytest.raises(KeyboardInterrupt):
            truerisk.search(["mlp:8", "mlp:16"], digits, work=tmp_path, **QUICK)
        shuffles.clear()
        monkeypatch.setattr(loop.torch, "randperm", counting)
        assert truerisk.search(["mlp:8", "mlp:16"], digits, work=tmp_path, **QUICK) == found
        assert len(shuffles) == 5, "the last epoch of the curve's first point, and two points"


@pytest.mark.parametrize(
    ("told", "arguments"),
    [
        ("nothing to compare", {"models": []}),
        ("nothing to compare", {"lrs": []}),
        ("no split", {"priors": []}),
        ("data-free prior init", {"priors": ["split:0.5", "init"]}),
        ("split:1.5", {"priors": ["split:1.5"]}),
        ("split:0", {"priors": ["split:0"]}),
        ("only 8 of 40 usable rows", {"priors": ["split:0.0667"]}),
        ("leaves 1 to certify", {"priors": ["split:0.999"]}),
        ("learning rate is -1", {"lrs": [-1.0]}),
        ("epochs is 0", {"epochs": 0}),
        ("delta", {"delta": 0}),
        ("seed is -1", {"seed": -1}),
        ("two of the models are called <lambda>", {"models": [lambda: nn.Identity(), lambda: nn.Flatten()]}),
        ("device", {"device": "toaster"}),
        ("it does not run", {"models": nn.Linear(7, 10)}),
    ],
)
def test_what_can_not_work_is_refused_before_training(digits, monkeypatch, told, arguments):
    monkeypatch.setattr(loop, "run", lambda *_, **__: pytest.fail("something was trained"))
    with pytest.raises(truerisk.TrueriskError, match=told):
        truerisk.search(**{"models": "mlp:8", "data": digits, **arguments})


class TestLearningRate:
    """``certify(lr=...)``."""

    def test_none_changes_nothing(self, digits):
        plans = default_plans("mlp", digits, 300, 0, None)
        assert default_plans("mlp", digits, 300, 0, None, None) == plans
        assert {name: plan.lr for name, plan in plans.items()} == {
            "prior": 3e-3,
            "update": 3e-4,
            "picks": 3e-4,
            "posterior": 0.04,
            "floor": 3e-3,
            "code": 0.05,
        }

    def test_networks_that_start_anew_use_it(self, digits):
        plans, usual = default_plans("mlp", digits, 300, 0, None, 0.02), default_plans("mlp", digits, 300, 0, None)
        changed = {name for name in plans if plans[name] != usual[name]}
        assert changed == {"prior", "floor"}
        assert all(plans[name] == replace(usual[name], lr=0.02) for name in changed)

    def test_the_update_of_a_recipe_scales_along(self):
        images = Data("images", np.zeros((50, 3, 32, 32)), np.arange(50) % 2, 2)
        plans, usual = (default_plans("resnet", images, 25, 0, None, lr) for lr in (0.1, None))
        assert (plans["prior"].lr, plans["floor"].lr) == (0.1, 0.1)
        assert plans["update"].lr / 0.1 == pytest.approx(usual["update"].lr / usual["prior"].lr)
        assert plans["picks"].lr == plans["update"].lr
        assert plans["posterior"] == usual["posterior"]

    def test_it_is_recorded_and_trained_with_again(self, digits, tmp_path, edit):
        cert = truerisk.certify("mlp:8", digits, method="hold-out", epochs=2, lr=0.01)
        plain = truerisk.certify("mlp:8", digits, method="hold-out", epochs=2)
        assert cert.record["counts"] != plain.record["counts"]
        cert.save(tmp_path / "made")
        assert truerisk.verify(tmp_path / "made", data=digits, retrain=True).claimed == cert.risk_bound

        def other(record):
            record["settings"]["plans"]["prior"]["lr"] = 0.001

        (tmp_path / "forged").mkdir()
        edit(tmp_path / "made", tmp_path / "forged", record=other)
        with pytest.raises(truerisk.VerificationError, match="reproduced from seed"):
            truerisk.verify(tmp_path / "forged", data=digits, retrain=True)

    @pytest.mark.parametrize("lr", [0.0, -1.0, math.nan, math.inf])
    def test_what_is_no_rate_is_refused(self, digits, lr):
        with pytest.raises(truerisk.TrueriskError, match="learning rate"):
            truerisk.certify("mlp:8", digits, lr=lr)

    def test_own_training_has_its_own(self, digits):
        with pytest.raises(truerisk.TrueriskError, match="set the learning rate in fit"):
            truerisk.certify("mlp:8", digits, lr=0.1, fit=lambda module, data: module)
