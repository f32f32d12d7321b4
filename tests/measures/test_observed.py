"""Observed errors and held-out examples, against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn

import truerisk
from truerisk import TrueriskError
from truerisk.data import Data
from truerisk.measures.finding import errors_sentence
from truerisk.measures.observed import Errors, Observed, held_out, observe


@pytest.fixture(scope="module")
def points() -> Data:
    rng = np.random.default_rng(0)
    return Data("points", rng.normal(size=(200, 3)).astype(np.float32), rng.integers(2, size=200), 2)


class First(nn.Module):
    """Class 1 where the first input is positive; a tie where it is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return torch.stack([0 * x[:, 0], self.scale * x[:, 0]], dim=1)


def test_errors_are_counted(points):
    train, test = points.take(range(150)), points.take(range(150, 200))
    found = observe(First(), train, test)
    for errors, data in ((found.train, train), (found.test, test)):
        assert errors.n == len(data)
        assert errors.errors == sum(int(x[0] > 0) != y for x, y in zip(data.X, data.y, strict=True))
    assert found.gap == pytest.approx(found.test.errors / 50 - found.train.errors / 150)
    assert found.best is found.test
    alone = observe(First(), train, None)
    assert (alone.test, alone.gap, alone.best) == (None, None, alone.train)
    ties = Data("ties", np.zeros((20, 3), np.float32), np.arange(20) % 2, 2)
    assert observe(First(), ties, None).train.errors == 20, "a tie is an error"


@pytest.mark.parametrize(("errors", "n"), [(0, 30), (3, 40), (200, 359), (30, 30)])
def test_the_interval_is_exact(errors, n):
    """At each end, a count this extreme has probability 2.5%, by the binomial distribution itself."""
    low, high = Errors(errors, n).interval
    assert low <= errors / n <= high
    if errors:
        assert binom.sf(errors - 1, n, low) == pytest.approx(0.025, rel=1e-5)
    if errors < n:
        assert binom.cdf(errors, n, high) == pytest.approx(0.025, rel=1e-5)


def test_held_out_examples_are_no_training_examples(points):
    train, test = held_out(points, 0.25, True, seed=3)
    rows = {tuple(x) for x in points.X.tolist()}
    own, other = ({tuple(x) for x in part.X.tolist()} for part in (train, test))
    assert (len(train), len(test)) == (150, 50)
    assert own | other == rows
    assert not own & other
    assert np.array_equal(held_out(points, 0.25, True, seed=3)[1].X, test.X)
    assert not np.array_equal(held_out(points, 0.25, True, seed=4)[1].X, test.X)


def test_who_holds_out_what(points):
    assert held_out(points, None, False, 0)[1] is None, "a trained network may have seen everything"
    assert len(held_out(points, None, True, 0)[1]) == 40
    assert held_out(points, 0, True, 0) == (points, None)
    assert held_out(points.take(range(40)), None, True, 0)[1] is None, "too few examples"
    other = points.take(range(30))
    assert held_out(points, other, True, 0) == (points, other)
    assert held_out(points, other, False, 0) == (points, other)
    with pytest.raises(TrueriskError, match="may have seen any share of its data"):
        held_out(points, 0.25, False, 0)


@pytest.mark.parametrize(
    ("told", "test"),
    [
        ("must be data, or a share", 1.0),
        ("must be data, or a share", -0.1),
        ("must be data, or a share", float("nan")),
        ("hold out fewer", 0.99),
        ("of the same kind", (np.zeros((20, 4)), np.arange(20) % 2)),
        ("of the same classes", (np.zeros((20, 3)), np.arange(20) % 3)),
    ],
)
def test_bad_held_out_examples(points, told, test):
    with pytest.raises(TrueriskError, match=told):
        held_out(points, test, True, 0)


def test_measure_tells_both_errors(points):
    first, second = points.take(range(100)), points.take(range(100, 200))
    found = truerisk.measure(First(), first, only=["parameters"], test=second)
    assert found.n == found.observed.train.n == found.observed.test.n == 100
    assert found.record()["observed"]["held_out"]["errors"] == found.observed.test.errors
    plain = truerisk.measure(First(), points, only=["parameters"])
    assert plain.observed == Observed(Errors(found.observed.train.errors + found.observed.test.errors, 200))


def named(names: tuple[str, ...], y: list[int], columns: tuple[str, ...] = ()) -> Data:
    X = np.arange(3 * len(y), dtype=np.float32).reshape(len(y), 3)
    return Data("named", X, np.array(y), len(names), class_names=names, feature_names=columns)


def test_held_out_classes_and_columns_go_by_their_names():
    """Each file numbers its own names: a class that the test file lacks must not shift the others."""
    data = named(("ant", "bee", "cat"), [0, 1, 2] * 10, ("a", "b", "c"))
    test = named(("ant", "cat"), [0, 1] * 10, ("c", "b", "a"))
    _, out = held_out(data, test, False, seed=0)
    assert out.y[:4].tolist() == [0, 2, 0, 2]
    assert out.X[0].tolist() == [2, 1, 0]
    with pytest.raises(TrueriskError, match="'dog' is not a class"):
        held_out(data, named(("ant", "dog"), [0, 1] * 10), False, seed=0)
    with pytest.raises(TrueriskError, match="the column 'c' is in one"):
        held_out(data, named(("ant", "cat"), [0, 1] * 10, ("a", "b", "d")), False, seed=0)


def test_held_out_integers_are_told_from_real_numbers(points):
    other = Data("other", np.arange(60).reshape(20, 3), np.arange(20) % 2, 2)
    with pytest.raises(TrueriskError, match="are integers, but the data are real numbers; give"):
        held_out(points, other, False, seed=0)


def test_training_examples_among_the_held_out_ones_are_told(points):
    train, test = points.take(range(150)), points.take(range(140, 200))
    found = observe(First(), train, test)
    assert found.repeated == 10
    assert found.record()["held_out"]["repeated"] == 10
    assert "10 of 60 held-out inputs equal training inputs" in errors_sentence(found)
    assert "also occur" not in errors_sentence(observe(First(), train, points.take(range(150, 200))))
