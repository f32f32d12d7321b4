"""Rows and claims: a verdict only where everything it speaks of is there."""

import pytest

from truerisk.errors import TrueriskError
from truerisk.lab import Claim, Experiment, IncompleteError, Outcome, Rows

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


def experiment(check, name="toy", scales=("quick",)):
    claim = Claim("c", "Errors are small.", "nobody", "0 %", "at most 1 %", check, scales)
    return Experiment(name, "T", "A.", (), {"quick": lambda: [{"p": 1}]}, lambda s: {}, (claim,), lambda rows: [])


@pytest.mark.parametrize(
    ("check", "word", "plain"),
    [
        (lambda rows: Outcome(True, "0.5 %"), "seen again", "Seen again: measured 0.5 %."),
        (
            lambda rows: Outcome(False, "3 %"),
            "not seen again",
            "Not seen again: measured 3 %; asked for: at most 1 %.",
        ),
        (
            lambda rows: Outcome(rows.where(p=7).mean("error") < 1, ""),
            "not checked",
            "Not checked: no run of this scale says anything about error.",
        ),
    ],
)
def test_verdicts(check, word, plain):
    [verdict] = experiment(check).judge(Rows(RUNS), "quick")
    assert verdict.word == word
    assert verdict.plain == plain


def test_claims_speak_at_their_scales_only():
    assert experiment(lambda rows: Outcome(True, ""), scales=("paper",)).judge(Rows(RUNS), "quick") == []


def test_a_mistake_in_a_claim_is_told_and_costs_nothing_else():
    [verdict] = experiment(lambda rows: Outcome(1 / 0 > 1, "")).judge(Rows(RUNS), "quick")
    assert verdict.plain == "Not checked: the check itself failed (ZeroDivisionError: division by zero)."


@pytest.mark.parametrize("name", ["../evil", "Toy", "a b", "", "a--b", "a/b"])
def test_names_are_folders(name):
    with pytest.raises(TrueriskError, match="hyphens"):
        experiment(lambda rows: Outcome(True, ""), name=name)


def test_scales():
    toy = experiment(lambda rows: Outcome(True, ""))
    with pytest.raises(TrueriskError, match="no scale 'huge'; the scales are smoke, quick"):
        toy.settings("huge")
    with pytest.raises(TrueriskError, match="toy has no scale 'paper'; it has quick"):
        toy.settings("paper")
