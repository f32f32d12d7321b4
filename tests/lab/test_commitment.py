"""Commitments: what is judged, on which seeds, and what a page may say about dates."""

import ast
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from truerisk.engine.version import hash_code, outline
from truerisk.errors import TrueriskError
from truerisk.lab import load, names, run
from truerisk.lab.commitment import FILE, Commitment, commit, find, read

SOURCE = '''
from truerisk.lab import OURS, PLAIN, POINTS, Checked, Claim, Exact, Experiment, Lesson, at_least, product

SHIFT = 0.0


def grid():
    return {grid}


def task(setting):
    """A number that differs from seed to seed."""
    return {{"error": {error}}}


def helped(x):
    return x


def gap(runs):
    return SHIFT + helped(_gap(runs))


def _gap(runs):
    return runs.where(p=1).one("error") - runs.where(p=0).one("error")


def count(rows):
    return Checked(True, f"{{len(rows)}} runs")


EXPERIMENT = Experiment(
    "toy", "Toy", "A toy. It has a gap.", (), {{"quick": grid, "medium": {medium}}}, task,
    (
        Claim("gap", "There is a gap.", gap, at_least({threshold}, POINTS), OURS, every=(), counted_on="n_test",
              note="{note}"),
        Exact("count", "Runs are counted.", count, OURS, "any number"),
    ),
    Lesson(lambda rows: []),
)
'''
GRID = "product({{'n_test': 100}}, p=(0, 1), seed={seeds})"
ERROR = "setting['p'] * 0.5 + 0.01 * (setting['seed'] % 3)"


@pytest.fixture
def toy(tmp_path):
    """``toy(...)`` writes the experiment anew and loads it; its commitments stay."""

    def write(seeds="range(5)", error=ERROR, threshold=20, note="", medium="grid", grid=GRID, edit=("", "")):
        path = tmp_path / "toy.py"
        how = {"grid": grid.format(seeds=seeds), "error": error, "threshold": threshold, "note": note, "medium": medium}
        source = SOURCE.format(**how)
        assert edit[0] in source
        path.write_text(source.replace(*edit) if edit[0] else source)
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
        ({"threshold": 10}, "its region, unit, or cells differ from what was committed"),
        ({"error": ERROR + " + 0.0"}, "the code of its effect or task differ from"),
        ({"seeds": "range(6)"}, "its settings or seeds at quick scale differ from"),
    ],
)
def test_a_change_after_the_commitment_has_no_verdict(toy, change, said):
    commit(toy())
    word, _, sentence = judged(toy(**change))
    assert word == "no verdict"
    assert said in sentence
    assert f"truerisk lab commit {toy().committed.parent / 'toy.py'}" in sentence


def test_words_may_change_and_the_committed_ones_are_shown(toy):
    commit(toy())
    assert judged(toy(note="read this"))[0] == "reproduced"
    turned = toy(edit=("There is a gap.", "There is no gap."))
    assert judged(turned)[0] == "reproduced"
    assert find(turned, turned.claims[0], "quick").said == "There is a gap."


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (("every=()", 'every=("width",)'), "needs the field 'width' in settings"),
        (('counted_on="n_test"', 'counted_on="n_tests"'), "counts on 'n_tests'"),
        ((", seed=range(5)", ""), "needs the field 'seed' in settings"),
    ],
)
def test_a_claim_that_could_never_be_judged_is_not_committed(toy, edit, said):
    """Nor is anything run for it: a typo must not spend the seeds."""
    experiment = toy(edit=edit)
    for attempt in (commit, run):
        with pytest.raises(TrueriskError, match=said):
            attempt(experiment)
    assert not experiment.committed.exists()


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
    lines[0]["at"] = lines[1]["at"] = "2026-01-01T00:00:00.000Z"
    toy().committed.write_text(json.dumps(lines))
    moved = toy(error=f"({ERROR})*1.0")
    commit(moved, restated="the task was rewritten, with the same numbers")
    found = find(moved, moved.claims[0], "quick")
    assert (found.changed, found.at) == ("", "2026-01-01T00:00:00.000Z")
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


@pytest.mark.parametrize(
    "damage",
    [
        "[{}]", "{}", "[", "[" * 5000, "[[]]", {"seeds": [0]}, {"seeds": {"quick": [[0]]}}, {"seeds": {"quick": "abc"}},
        {"at": 5}, {"at": "0"}, {"at": "2020-99-99 nonsense"}, {"restated": None}, {"settings": 5}, {"more": 1},
    ],
)  # fmt: skip
def test_a_damaged_file_is_one_sentence_before_any_run(toy, damage):
    commit(toy())
    if isinstance(damage, dict):
        lines = json.loads(toy().committed.read_text())
        damage = json.dumps([{**line, **damage} for line in lines])
    toy().committed.write_text(damage)
    for attempt in (commit, run):
        with pytest.raises(TrueriskError, match="is not a file of commitments"):
            attempt(toy())


def test_earlier_forms_are_counted(toy):
    for start in (0, 5, 10):
        experiment = toy(seeds=f"range({start}, {start + 5})")
        commit(experiment)
    found = find(experiment, experiment.claims[0], "quick")
    assert (found.earlier, found.seeds) == (2, {10, 11, 12, 13, 14})
    assert "after 2 earlier forms" in found.words("2100-01-01T00:00:00.000Z")


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
    toy().committed.write_text(json.dumps([{**line, "at": "2100-01-01T00:00:00.000Z"} for line in lines]))
    assert first().endswith("after its first run")


def test_a_smoke_run_after_a_commitment(toy):
    experiment = toy()
    commit(experiment)
    smoke = replace(experiment, grids={**experiment.grids, "smoke": experiment.grids["quick"]})
    assert {v.reason for v in run(smoke, "smoke", engine="inline", out="memory://smoke").verdicts} == {"smoke"}


def test_seeds_belong_to_their_cells(toy):
    """Fewer seeds in one cell only: the list of all seeds stays the same."""
    commit(toy(seeds="range(5)"))
    fewer = toy(grid=f"[s for s in {GRID} if s['p'] or s['seed'] < 3]")
    assert "its settings or seeds" in find(fewer, fewer.claims[0], "quick").changed


@pytest.mark.parametrize(
    "edit",
    [
        ("def helped(x):\n    return x", "def helped(x):\n    return abs(x)"),
        ("every=()", 'every=("p",)'),
        ('counted_on="n_test"', "counted_on=7"),
        ("POINTS), OURS", "PLAIN), OURS"),
        ("SHIFT = 0.0", "SHIFT = 0.1"),
    ],
)
def test_whatever_decides_a_verdict_is_committed(toy, edit):
    commit(toy())
    changed = toy(edit=edit)
    assert find(changed, changed.claims[0], "quick").changed


@pytest.mark.parametrize("edit", [("every=()", 'every=("p",)'), ('counted_on="n_test"', "counted_on=7")])
def test_only_code_can_be_restated(toy, edit):
    commit(toy())
    with pytest.raises(TrueriskError, match="not restated"):
        commit(toy(edit=edit), restated="honestly")


def test_another_name_does_not_give_the_seeds_back(toy):
    commit(toy())
    with pytest.raises(TrueriskError, match="no new seeds"):
        commit(toy(edit=('Claim("gap"', 'Claim("gap-two"'), threshold=1))


def test_a_claim_that_has_merely_another_name_keeps_its_date(toy):
    commit(toy())
    renamed = toy(edit=('Claim("gap"', 'Claim("gap-two"'))
    [line] = commit(renamed)
    assert line.restated == "renamed from gap"
    found = find(renamed, renamed.claims[0], "quick")
    assert (found.changed, found.seeds) == ("", {0, 1, 2, 3, 4})
    again = toy(edit=('Claim("gap"', 'Claim("gap-two"'), seeds="range(8)")
    commit(again)
    assert find(again, again.claims[0], "quick").seeds == {5, 6, 7}


def test_the_page_speaks_of_the_seeds_that_count(toy):
    """Runs of earlier seeds came before the newest line; the verdict is not about them."""
    commit(toy())
    run(toy(), engine="inline", out="memory://count")
    lines = [{**line, "at": "2026-01-01T00:00:00.000Z"} for line in json.loads(toy().committed.read_text())]
    toy().committed.write_text(json.dumps(lines))
    later = toy(threshold=10, seeds="range(10)")
    commit(later)
    [claim, _] = run(later, engine="inline", out="memory://count").summary()["claims"]
    assert claim["commitment"].endswith("before its runs")
    assert list(claim["cells"][0]["seeds"]) == ["5", "6", "7", "8", "9"]


def test_code_has_one_hash_in_every_python():
    """`ast.unparse` writes the quotes of this function differently from 3.12 on; the outline knows no quotes."""
    source = "def f(x):\n    return f\"{', '.join(x)} of {x['a']!r:>8}\""
    assert outline(ast.parse("True")) != outline(ast.parse("'True'"))
    assert hash_code(source, "f", write=outline) == "481028a7729b0d8b"


def test_a_task_that_ignores_its_seed_has_no_verdict(toy):
    result = run(toy(error="setting['p'] * 0.5"), engine="inline", out="memory://copies")
    assert (
        result.verdicts[0].sentence == "No verdict: all seeds have the same records; use setting['seed'] in the task."
    )
    assert result.verdicts[1].word == "exact"


def test_seeds_that_agree_exactly_prove_nothing(toy):
    """The records differ, but the effect moves in steps that are too coarse to show it."""
    plain = ('POINTS), OURS, every=(), counted_on="n_test"', "PLAIN), OURS, every=()")
    coarse = toy(error="[setting['seed'], setting['p']][1] * 30.0 + 0 * setting['seed']", edit=plain)
    task = replace(
        coarse.task, source=coarse.task.source.replace('return {"error"', 'return {"s": setting["seed"] / 7, "error"')
    )
    [verdict, _] = run(replace(coarse, task=task), engine="inline", out="memory://coarse").verdicts
    assert (verdict.word, verdict.reason) == ("no verdict", "no spread")
    assert "give the claim counted_on" in verdict.sentence


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (("seed=range(5)", "seed=5"), "product has seed=5; give a list or range"),
        (('"quick": grid', '"quick": grid()'), "give the function, without calling it"),
        (("return product", "return nowhere or product"), "fails in line 8 .NameError"),
        (("OURS, every", '"me", every'), "has whose='me'; use OURS"),
        (("at_least(20, POINTS)", "20"), "wants 20; use at_least"),
        (("at_least(20, POINTS)", 'at_least(20, "points")'), "the unit is 'points'"),
        (("every=()", 'every="p"'), "use a tuple"),
        (('"toy", "Toy"', '"capacity", "Toy"'), "choose another name"),
    ],
)
def test_slips_end_in_one_sentence(toy, edit, said):
    with pytest.raises(TrueriskError, match=said):
        run(toy(edit=edit), engine="inline", out="memory://slips")


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
