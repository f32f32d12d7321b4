"""The example of an experiment in one file: it runs, and its page shows what its docstrings promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from truerisk import lab
from truerisk.lab.rows import Rows

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return lab.run(str(EXAMPLES / "own_experiment.py"), "smoke", engine="inline", out=tmp_path_factory.mktemp("runs"))


def made(harm):
    """Runs of a grid in which 60% random labels add this much to the test error, a little more in some seeds."""
    settings = lab.load(str(EXAMPLES / "own_experiment.py")).settings("quick")
    rows = ({**s, "test_error": 0.05 + s["replaced"] / 0.6 * (harm + 0.002 * s["seed"])} for s in settings)
    return Rows(rows, fields=settings[0])


def test_it_runs(result):
    assert (result.failures, result.demo_failed) == ([], "")
    assert all(0 <= row["test_error"] <= 1 for row in result.rows)
    [error] = result.experiment.lesson.figures(result.rows)
    assert len(error.rows) == len(result.rows)
    assert set(error.claims) == {claim.name for claim in result.experiment.claims}


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (0.2, "60% random labels raise the test error by at least 20.0 points."),
        (0.01, "60% random labels raise the error by only 1.4 points (width 8)."),
        (0.048, "60% random labels may raise the error by 5.2 points (width 8)."),
    ],
)
def test_the_headline_follows_the_verdict(result, harm, said):
    experiment = result.experiment
    verdicts = {verdict.claim.name: verdict for verdict in experiment.judge(made(harm), "quick")}
    assert experiment.lesson.findings[0].sentence(verdicts) == said
    assert len(said.split()) <= 14


def test_the_picture_has_a_plane_and_examples_for_each_share_of_random_labels(result):
    lesson, setting = result.experiment.lesson, result.experiment.settings("smoke")[0]
    assert lesson.demo(setting) == result.demo
    [moons] = lesson.pictures(result.demo)
    for replaced in (0.0, 0.3, 0.6):
        plane = [row for row in moons.rows if row["replaced"] == replaced]
        assert len({(row["x"], row["y"]) for row in plane}) == len(plane) == 41 * 28
        assert len([dot for dot in moons.dots if dot["replaced"] == replaced]) == setting["n"]
    labels = {share: [dot["moon"] for dot in moons.dots if dot["replaced"] == share] for share in (0.0, 0.6)}
    assert labels[0.0] != labels[0.6]


def test_the_picture_shows_all_examples_of_the_quick_scale(result):
    experiment = result.experiment
    record = experiment.lesson.demo({**experiment.settings("quick")[0], "steps": 1})
    x, y = ([row[axis] for row in record["seen"]] for axis in ("x", "y"))
    for dot in record["examples"]:
        assert min(x) < dot["x"] < max(x)
        assert min(y) < dot["y"] < max(y)
