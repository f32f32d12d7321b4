"""Commitments: what is judged, on which seeds, and what a page may say about dates."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from truerisk.errors import TrueriskError
from truerisk.lab import load, names, run
from truerisk.lab.commitment import FILE, Commitment, commit, find, read

SOURCE = '''
from truerisk.lab import OURS, Checked, Claim, Exact, Experiment, POINTS, at_least, product

SHIFT = 0.5


def grid():
    return product({{"n_test": 100}}, p=(0, 1), seed={seeds})


def task(setting):
    """A number that differs from seed to seed."""
    return {{"error": {error}}}


def gap(runs):
    return runs.where(p=1).one("error") - runs.where(p=0).one("error")


def count(rows):
    return Checked(True, f"{{len(rows)}} runs")


EXPERIMENT = Experiment(
    "toy", "Toy", "A toy. It has a gap.", (), {{"quick": grid, "medium": {medium}}}, task,
    (
        Claim("gap", "There is a gap.", gap, at_least({threshold}, POINTS), OURS, counted_on="n_test", note="{note}"),
        Exact("count", "Runs are counted.", count, OURS, "any number"),
    ),
    lambda rows: [],
)
'''
ERROR = "setting['p'] * 0.5 + 0.01 * (setting['seed'] % 3)"


@pytest.fixture
def toy(tmp_path):
    """``toy(...)`` writes the experiment anew and loads it; its commitments stay."""

    def write(seeds="range(5)", error=ERROR, threshold=20, note="", medium="grid"):
        path = tmp_path / "toy.py"
        path.write_text(SOURCE.format(seeds=seeds, error=error, threshold=threshold, note=note, medium=medium))
        return load(str(path))

    return write


def judged(experiment):
    """The word, the seeds that it is judged on, and the sentence, of the first claim."""
    verdict = run(experiment, engine="inline", out="memory://commitments").verdicts[0]
    return verdict.word, sorted(verdict.cells[0].values) if verdict.cells else [], verdict.sentence


def test_without_commitments_there_is_a_verdict_that_says_so(toy):
    result = run(toy(), engine="inline", out="memory://commitments")
    assert result.verdicts[0].word == "reproduced"
    assert result.summary()["claims"][0]["commitment"] == "not committed before its runs"


def test_a_committed_claim(toy):
    experiment = toy()
    lines = commit(experiment)
    assert [line.claim for line in lines] == ["gap", "count"]
    assert lines[0].seeds == {"quick": [0, 1, 2, 3, 4], "medium": [0, 1, 2, 3, 4]}
    assert lines[0].wants == "at least 20 points"
    assert commit(experiment) == []  # nothing has changed
    assert judged(experiment)[:2] == ("reproduced", [0, 1, 2, 3, 4])
    assert experiment.committed.name == "toy.committed.json"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"threshold": 10}, "its effect or region is another"),
        ({"error": ERROR + " + 0.0"}, "its task has other code"),
        ({"seeds": "range(6)"}, "its seeds at quick scale are others"),
    ],
)
def test_a_change_after_the_commitment_has_no_verdict(toy, change, said):
    commit(toy())
    word, _, sentence = judged(toy(**change))
    assert word == "no verdict"
    assert said in sentence
    assert "truerisk lab commit toy" in sentence


def test_words_may_change(toy):
    commit(toy())
    assert judged(toy(note="read this"))[0] == "reproduced"


def test_a_changed_claim_is_judged_on_new_seeds_alone(toy):
    commit(toy())
    with pytest.raises(TrueriskError, match="no new seeds"):
        commit(toy(threshold=10))
    experiment = toy(threshold=10, seeds="range(10)")
    assert [line.claim for line in commit(experiment)] == ["gap", "count"]
    assert judged(experiment)[:2] == ("reproduced", [5, 6, 7, 8, 9])


def test_an_extension_is_judged_on_the_new_seeds_alone(toy):
    commit(toy())
    experiment = toy(seeds="range(8)")
    commit(experiment)
    assert judged(experiment)[1] == [5, 6, 7]


def test_two_changes_spend_two_sets_of_seeds(toy):
    commit(toy())
    commit(toy(threshold=10, seeds="range(10)"))
    experiment = toy(threshold=15, seeds="range(13)")
    commit(experiment)
    assert judged(experiment)[1] == [10, 11, 12]


def test_going_back_to_the_first_threshold_needs_new_seeds_too(toy):
    commit(toy())
    commit(toy(threshold=10, seeds="range(10)"))
    with pytest.raises(TrueriskError, match="no new seeds"):
        commit(toy())


def test_a_restatement_keeps_date_and_seeds(toy):
    commit(toy())
    lines = json.loads(toy().committed.read_text())
    lines[0]["at"] = lines[1]["at"] = "2026-01-01T00:00:00Z"
    toy().committed.write_text(json.dumps(lines))
    moved = toy(error=f"({ERROR})*1.0")
    commit(moved, restated="the task was rewritten, with the same numbers")
    found = find(moved, moved.claims[0], "quick")
    assert (found.changed, found.at) == ("", "2026-01-01T00:00:00Z")
    assert found.seeds == {0, 1, 2, 3, 4}
    assert found.restated == ("the task was rewritten, with the same numbers",)


def test_a_restatement_changes_neither_threshold_nor_seeds(toy):
    commit(toy())
    for change in ({"threshold": 10}, {"seeds": "range(6)"}):
        with pytest.raises(TrueriskError, match="not restated"):
            commit(toy(**change), restated="honestly")


def test_a_change_at_one_scale_leaves_the_others_alone(toy):
    commit(toy())
    other = toy(medium="lambda: grid()[:4] + product({'n_test': 100}, p=(0, 1), seed=(7,))")
    assert [line.claim for line in commit(other)] == ["gap", "count"]
    assert find(other, other.claims[0], "quick").seeds == {0, 1, 2, 3, 4}
    assert find(other, other.claims[0], "medium").seeds == {7}


def test_lines_are_appended(toy):
    commit(toy())
    before = toy().committed.read_text()
    commit(toy(seeds="range(8)"))
    assert json.loads(toy().committed.read_text())[:2] == json.loads(before)


def test_a_damaged_file_is_one_sentence(toy):
    toy().committed.write_text("[{}]")
    with pytest.raises(TrueriskError, match="restore it from git"):
        commit(toy())


def test_dates():
    committed = Commitment(at="2026-11-18T05:00:00Z")
    assert committed.words("2026-11-18T05:00:01Z").endswith("before its runs")
    assert committed.words("2026-11-18T04:59:59Z").endswith("after its first run")
    assert committed.words("").endswith("the dates of its runs are not known")
    assert Commitment().words("2026-11-18T05:00:01Z") == "not committed before its runs"


def test_a_page_knows_whether_the_commitment_came_first(toy):
    def first():
        return run(toy(), engine="inline", out="memory://dates").summary()["claims"][0]["commitment"]

    commit(toy())
    assert first().endswith("before its runs")
    lines = json.loads(toy().committed.read_text())
    toy().committed.write_text(json.dumps([{**line, "at": "2100-01-01T00:00:00Z"} for line in lines]))
    assert first().endswith("after its first run")


# ---- the experiments that come with truerisk --------------------------------------------------------------------


@pytest.mark.parametrize("name", names())
def test_every_claim_is_as_committed(name):
    """A claim, its task or its grid was changed: commit it again (`truerisk lab commit NAME`), with new seeds."""
    experiment = load(name)
    for claim in experiment.claims:
        for scale in set(claim.scales) & set(experiment.grids):
            found = find(experiment, claim, scale)
            assert found.at, f"{name}: {claim.name} was never committed"
            assert found.changed == "", f"{name}: {claim.name}: {found.changed}"


def test_no_line_without_a_claim():
    known = {(name, claim.name) for name in names() for claim in load(name).claims}
    assert {(line.experiment, line.claim) for line in read(FILE)} <= known


def test_the_commits_named_are_part_of_the_history():
    root = Path(__file__).parents[2]

    def git(*words):
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no git history here")
    for commit_named in {line.commit for line in read(FILE)}:
        assert git("merge-base", "--is-ancestor", commit_named, "HEAD").returncode == 0, commit_named


def test_own_data_have_no_commitment(toy):
    experiment = replace(toy(), own_data=lambda setting, data: setting)
    commit(experiment)
    result = run(experiment, engine="inline", out="memory://own", data="digits")
    assert result.verdicts[0].commitment.at == ""
