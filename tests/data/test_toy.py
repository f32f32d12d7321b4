"""Toy data in the plane: independent draws, the same for the same seed, learnable but not perfectly."""

import json
import sys

import numpy as np
import pytest
from scipy import stats

from truerisk import cli
from truerisk.data import catalogue, fetch, load
from truerisk.data.toy import EXAMPLES, SHAPES, generate_toy
from truerisk.errors import TrueriskError
from truerisk.lab.samples import samples
from truerisk.names import TOYS

each = pytest.mark.parametrize("name", TOYS)


def errors_of_neighbor(train, test):
    """The share of test examples whose nearest training example has another label."""
    distances = ((test.X[:, None] - train.X[None]) ** 2).sum(axis=2)
    return np.mean(train.y[distances.argmin(axis=1)] != test.y)


def densities(name, X, noise):
    """Of both classes at each point, up to a common factor."""
    t = (np.arange(1000) + 0.5) / 1000
    curves = [SHAPES[name][0](t, np.full(len(t), label)) for label in (0, 1)]
    squares = [((X[:, None] - curve[None]) ** 2).sum(axis=2) for curve in curves]
    return [np.exp(-square / (2 * noise**2)).sum(axis=1) for square in squares]


@each
def test_shape_and_source(name):
    train, test = load(name), load(f"{name}:test")
    assert train.X.shape == test.X.shape == (EXAMPLES, 2)
    assert train.X.dtype == np.float32
    assert train.classes == 2
    assert (train.source, test.source) == (name, f"{name}:test")
    assert train.known is None  # no network was ever chosen on these rows


@pytest.mark.parametrize(
    ("name", "labels", "first"),
    [
        ("moons", [1, 1, 1, 1, 0, 1, 0, 1], [0.003173828125, -0.302978515625]),
        ("circles", [0, 0, 0, 0, 0, 0, 1, 0], [0.592529296875, 1.21435546875]),
        ("spirals", [0, 0, 0, 1, 1, 0, 1, 1], [0.250732421875, 0.10205078125]),
    ],
)
def test_the_draws_are_pinned(name, labels, first):
    """Other numbers would turn every certificate about them into one about other data."""
    data = load(name)
    assert data.y[:8].tolist() == labels
    assert data.X[0].tolist() == first


@each
def test_same_seed_same_data_and_nested_in_n(name):
    few, many = generate_toy(name, 50, seed=7), generate_toy(name, 200, seed=7)
    assert np.array_equal(few.X, many.X[:50])
    assert np.array_equal(few.y, many.y[:50])
    assert generate_toy(name, 200, seed=7).sha256 == many.sha256
    assert not np.array_equal(generate_toy(name, 50, seed=8).X, few.X)
    assert few.source is None
    assert generate_toy(name, EXAMPLES, seed=0, noise=0.01).source is None  # `load` would give other examples


def test_one_seed_gives_each_dataset_its_own_numbers():
    labels = [generate_toy(name, 200, seed=7).y.tolist() for name in TOYS]
    assert labels[0] != labels[1] != labels[2] != labels[0]


@each
def test_classes_are_balanced_up_to_chance(name):
    # Each label is drawn on its own: a false alarm has probability 1e-6, and exactly equal counts in all of ten sets,
    # which would mean dependent labels, below 1e-15.
    counts = [generate_toy(name, EXAMPLES, seed=seed).counts for seed in range(10)]
    assert stats.binomtest(int(sum(count[0] for count in counts)), 10 * EXAMPLES).pvalue > 1e-6
    assert any(count[0] != count[1] for count in counts)


@each
def test_global_random_state_is_untouched(name):
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    generate_toy(name, 20, seed=7)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


@each
def test_a_neighbor_errs_sometimes(name):
    """Draws with seeds that no certificate uses."""
    train, test = generate_toy(name, 1000, seed=100), generate_toy(name, 1000, seed=101)
    assert 0 < errors_of_neighbor(train, test) < 0.1


@each
def test_the_best_classifier_errs_on_three_percent(name):
    test = generate_toy(name, 4000, seed=102)
    zero, one = densities(name, test.X, SHAPES[name][1])
    # 3% of 4000 has a standard deviation of 0.3 points.
    assert np.mean((one > zero) != test.y) == pytest.approx(0.03, abs=0.013)


@each
def test_without_noise_the_examples_lie_on_the_curves(name):
    data = generate_toy(name, 300, seed=7, noise=0.0)
    zero, one = densities(name, data.X, 0.02)
    assert np.array_equal((one > zero)[np.hypot(*data.X.T) > 0.2], (data.y == 1)[np.hypot(*data.X.T) > 0.2])


@each
def test_samples_of_the_lab_are_fresh_for_each_seed(name):
    train, test = samples(name, 300, 200, seed=0)
    assert (len(train), len(test)) == (300, 200)
    rows = [{tuple(row) for row in part.X.tolist()} for part in (train, test, *samples(name, 300, 200, seed=1))]
    for i, one in enumerate(rows):
        for other in rows[:i]:
            assert len(one & other) <= 2  # rounding may make two of the points equal
    assert samples(name, 300, 200, seed=0)[0].sha256 == train.sha256
    assert samples(name, 5000, 10, seed=0)[0].X[:300].tolist() == train.X.tolist()  # more than `load` has


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("moon", 20), "is 'moon', but must be moons, circles, spirals; choose"),
        (("moons", 0), "n is 0, but must be at least 1"),
        (("moons", 20, -1), "seed is -1, but must be from 0"),
        (("moons", 20, 2**32), "but must be from 0"),
        (("moons", 20, 0, -0.1), "noise is -0.1, but must be at least 0"),
        (("moons", 20, 0, float("nan")), "noise is nan"),
    ],
)
def test_impossible_requests(arguments, sentence):
    with pytest.raises(TrueriskError, match=sentence):
        generate_toy(*arguments)


def test_they_are_listed():
    rows = {row["name"]: row for row in catalogue()}
    for name in TOYS:
        assert rows[name]["examples"] == rows[f"{name}:test"]["examples"] == EXAMPLES
        assert (rows[name]["shape"], rows[name]["where"]) == ((2,), "built in")
        assert "nothing has to be fetched" in fetch(name)


def test_certify_and_verify(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["truerisk", *arguments])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        printed = capsys.readouterr()
        assert (code, printed.err) == (0, "")
        return printed.out

    told = json.loads(run("certify", "--data", "moons", "--model", "mlp:32", "--json", "--quiet"))
    assert told["data"]["source"] == "moons"
    assert 0.01 < told["risk_bound"] < 0.2
    assert "Confirmed" in run("verify", "truerisk-out")  # moons is drawn again, no --data is needed
