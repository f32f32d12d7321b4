"""Rows and claims: a verdict only where everything it speaks of is there."""

from dataclasses import replace

import pytest

from truerisk.errors import TrueriskError
from truerisk.lab import OURS, Checked, Exact, Experiment, IncompleteError, Rows

RUNS = [{"model": m, "p": p, "error": p / 2 + (m == "b")} for m in "ab" for p in (0, 1)]


def test_questions():
    rows = Rows(RUNS)
    assert rows.where(model="b").column("error") == [1.0, 1.5]
    assert rows.where(model=["a", "b"], p=1).max("error") == 1.5
    assert rows.where(model="a", p=0).one("error") == 0.0
    assert rows.mean("error") == 0.75
    assert rows.median("error") == 0.75
    assert rows.min("error") == 0.0
    assert rows.values("model") == ["a", "b"]
    assert [(key, some.column("error")) for key, some in rows.groups("p")] == [((0,), [0.0, 1.0]), ((1,), [0.5, 1.5])]


def test_a_number_needs_all_runs():
    rows = Rows(RUNS[:3], missing=[{"model": "b", "p": 1}])
    assert rows.where(model="a").max("error") == 0.5  # the missing run has no part in it
    assert rows.where(p=0).max("error") == 1.0
    for some in (rows, rows.where(p=1), rows.where(model="b"), rows.where(error=0.5)):
        with pytest.raises(IncompleteError, match=r"runs? (is|are) missing|missing"):
            some.max("error")
    with pytest.raises(IncompleteError, match="no run"):
        rows.where(model="c").mean("error")
    with pytest.raises(IncompleteError, match="2 runs match"):
        rows.where(model="a").one("error")
    assert ("b",) in [key for key, _ in Rows(RUNS[:2], missing=[{"model": "b", "p": 1}]).groups("model")]


def test_a_diverged_run_says_nothing():
    rows = Rows([*RUNS, {"model": "c", "p": 1, "error": 0.9, "diverged": True}])
    assert rows.where(model="a").max("error") == 0.5
    with pytest.raises(IncompleteError, match=r"1 of 5 runs diverged \(model=c, p=1"):
        rows.max("error")


def test_fields_may_be_lists():
    rows = Rows([{"hidden": [8, 8], "v": 1}, {"hidden": [8], "v": 2}, {"hidden": [8, 8], "v": 3}])
    assert [(key, some.column("v")) for key, some in rows.groups("hidden")] == [(([8, 8],), [1, 3]), (([8],), [2])]
    assert rows.values("hidden") == [[8, 8], [8]]
    assert rows.where(hidden=[8, 8]).column("v") == [1, 3]
    assert rows.where(hidden=[[8], [8, 8]]).column("v") == [1, 2, 3]


def test_a_field_that_no_run_has_is_named():
    with pytest.raises(TrueriskError, match="no field 'eror' in a run; its fields are model, p, error"):
        Rows(RUNS).mean("eror")


def test_questions_about_divergence():
    assert not Rows(RUNS).diverged()
    assert Rows([*RUNS, {"model": "c", "diverged": True}]).diverged()
    with pytest.raises(IncompleteError, match="missing"):
        Rows(RUNS, missing=[{"model": "c"}]).diverged()


def test_seeds_are_those_of_planned_runs():
    assert Rows([{"seed": 3}], missing=[{"seed": 1}]).seeds() == [1, 3]


def count(rows):
    return Checked(True, "1")


def experiment(name="toy", scales=("quick",)):
    claim = Exact("c", "Errors are small.", count, OURS, "at most 1%", scales=scales)
    return Experiment(name, "T", "A.", (), {"quick": lambda: [{"p": 1}]}, lambda s: {}, (claim,))


def test_claims_speak_at_their_scales_only():
    assert [v.word for v in experiment().judge(Rows(RUNS), "quick")] == ["exact"]
    assert experiment(scales=("paper",)).judge(Rows(RUNS), "quick") == []


@pytest.mark.parametrize("name", ["../evil", "Toy", "a b", "", "a--b", "a/b"])
def test_names_are_folders(name):
    with pytest.raises(TrueriskError, match="hyphens"):
        experiment(name=name)


def test_scales():
    with pytest.raises(TrueriskError, match="the scale is 'huge', but must be one of smoke, quick"):
        experiment().settings("huge")
    with pytest.raises(TrueriskError, match="toy has no scale 'paper'; choose one of quick"):
        experiment().settings("paper")


def test_two_claims_of_one_name():
    toy = experiment()
    with pytest.raises(TrueriskError, match="two claims of toy are named c"):
        replace(toy, claims=toy.claims * 2)
