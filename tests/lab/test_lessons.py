"""Every lesson: headlines that fit any verdict, commands that run, claims that exist, captions that are short."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from truerisk.cli.app import app
from truerisk.errors import TrueriskError
from truerisk.lab import Axis, Figure, Finding, Formula, Images, Lesson, Line, Question, Rows, load, names, run
from truerisk.lab.claim import Claim
from truerisk.lab.own_data import on_own_data
from truerisk.lab.units import PERCENT
from truerisk.report.lab.page import render_lab

MOST_WORDS = 14  # of a headline
MOST_CAPTION = 62  # words of a caption: sixty, and a dash or two that count as words
NUMBERS = SimpleNamespace(
    mean="12.3 points", low="4.5 points", high="67.8 points", cell="digits, MLP", threshold="x", detail="y"
)


@pytest.fixture(params=names())
def experiment(request):
    return load(request.param)


def texts(finding):
    return (finding.reproduced, finding.not_reproduced, finding.no_verdict)


def test_findings(experiment):
    """One sentence for each verdict, short, and with the numbers of claims that exist."""
    claims = {claim.name: claim for claim in experiment.claims}
    assert experiment.lesson.findings
    for finding in experiment.lesson.findings:
        assert set(finding.claims) <= claims.keys()
        assert len(set(texts(finding))) == 3
        exact = not all(isinstance(claims[name], Claim) for name in finding.claims)
        for text in texts(finding):
            assert text.endswith(".")
            plain = text.format(*(NUMBERS for _ in finding.claims))
            assert len(re.sub(r"\d[\d.]* points", "12%", plain).split()) <= MOST_WORDS + 2, plain
            assert not (exact and re.search(r"\{\d\.(mean|low|high)\}", text)), "an exact claim has no interval"


def test_a_finding_speaks_at_every_scale_that_has_claims(experiment):
    for scale in experiment.grids:
        speaking = {claim.name for claim in experiment.claims if scale in claim.scales}
        if speaking:
            assert any(set(finding.claims) <= speaking for finding in experiment.lesson.findings), scale


def test_questions(experiment):
    """Three, each with a command whose options exist."""
    assert len(experiment.lesson.questions) == 3
    for question in experiment.lesson.questions:
        program, *arguments = shlex.split(question.command)
        assert program == "truerisk"
        assert parsed(arguments), question.command


def parsed(arguments):
    """Whether a command line has only options that exist: with --help it is parsed and not run."""
    return CliRunner().invoke(app, [*arguments, "--help"]).exit_code == 0


def test_a_wrong_option_is_noticed():
    assert parsed(["lab", "run", "random-labels", "--data", "mnist"])
    assert not parsed(["lab", "run", "random-labels", "--dataset", "mnist"])


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_gaps_leave_the_figures_standing(experiment, scale):
    """No run at all: figures are empty, and none of them raises."""
    rows = Rows([], missing=experiment.settings(scale), fields={n for s in experiment.settings(scale) for n in s})
    for exhibit in experiment.lesson.figures(rows):
        assert exhibit.title
    if experiment.lesson.pictures:
        assert isinstance(list(experiment.lesson.pictures({})), list)


def test_names(experiment):
    """Short captions; about three sentences of why."""
    rows = Rows([], missing=experiment.settings("quick"))
    for exhibit in experiment.lesson.figures(rows):
        assert len(exhibit.caption.split()) <= MOST_CAPTION, f"{exhibit.name}: {len(exhibit.caption.split())}"
        known = {claim.name for claim in experiment.claims}
        assert set(getattr(exhibit, "claims", ())) <= known
    sentences = re.findall(r"[.?!](?:\s|$)", re.sub(r"\bet al\.", "et al", experiment.about))
    assert 2 <= len(sentences) <= 4


def verdict(word, reason=""):
    return SimpleNamespace(word=word, reason=reason, sentence="said", claim=SimpleNamespace(threshold="t", wants=None),
                           detail="", decisive=None)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("reproduced", "exact"), "all"),
        (("reproduced", "not reproduced"), "some fail"),
        (("no verdict", "not reproduced"), "some fail"),
        (("reproduced", "no verdict"), "open"),
    ],
)
def test_a_headline_follows_the_verdicts(words, said):
    finding = Finding(("a", "b"), "all", "some fail", "open")
    reasons = ["straddles" if word == "no verdict" else "" for word in words]
    verdicts = dict(zip("ab", map(verdict, words, reasons), strict=True))
    assert finding.applies(verdicts)
    assert not finding.applies({"a": verdicts["a"]})
    assert finding.sentence(verdicts) == said


@pytest.mark.parametrize("reason", ["incomplete", "broken", "smoke", "changed", "one seed"])
def test_without_a_settled_verdict_the_headline_says_why(reason):
    finding = Finding(("a",), "all", "some fail", "open")
    assert finding.sentence({"a": verdict("no verdict", reason)}) == "said"


def test_slips():
    with pytest.raises(TrueriskError, match="no question mark"):
        Question("Why", "truerisk tour")
    with pytest.raises(TrueriskError, match="give both"):
        Lesson(lambda rows: [], demo=lambda setting: {})


def test_two_rows_of_one_seed_are_not_pooled():
    """Two networks at one place would make an interval of twice as many "seeds"."""
    from truerisk.report.lab.rows import drawable

    rows = [{"p": 0, "error": 0.1, "seed": 1, "net": net} for net in "ab"]
    figure = Figure("f", "F", "f.", rows, Axis("p", "p"), Axis("error", "error", PERCENT))
    with pytest.raises(TrueriskError, match="two rows of seed 1 at the same place"):
        drawable(figure)
    assert len(drawable(replace(figure, series="net")).rows) == 2
    assert len(drawable(replace(figure, group=None)).rows) == 2


def test_long_rows():
    rows = Rows([{"n": 1, "train": 0.1, "test": 0.2, "steps": [1, 2], "errors": [0.5, 0.4]}])
    assert [(row["on"], row["error"]) for row in rows.longer("error", {"a": "train", "b": "test"}, into="on")] == [
        ("a", 0.1),
        ("b", 0.2),
    ]
    assert [(row["step"], row["e"]) for row in rows.unrolled(step="steps", e="errors")] == [(1, 0.5), (2, 0.4)]
    assert Rows([{"diverged": True}, {"diverged": False}]).converged().present == [{"diverged": False}]
    assert isinstance(Line(), Line)
    assert Images("a", "A", "a.", []).strips == []


OWN = Path(__file__).parents[2] / "examples" / "own_experiment.py"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ValueError('no <b>pictures</b>')", "ValueError: no &lt;b&gt;pictures&lt;/b&gt;"),
        ("return {'a': {1, 2}}", "is a set"),
        ("return {'a': float('nan')}", "is nan"),
    ],
)
def test_a_demo_that_fails_costs_its_pictures_only(tmp_path, body, said):
    file = tmp_path / "mine.py"
    source = OWN.read_text().replace("    places = [[-1.6", f"    {body}\n    places = [[-1.6", 1)
    file.write_text(source)
    result = run(str(file), "smoke", "inline", str(tmp_path / "runs"))
    page = render_lab(result)
    assert "The pictures could not be made" in page
    assert said in page
    assert 'id="figure-error"' in page


def test_findings_about_unknown_claims_are_refused():
    experiment = load("memorizer")
    lesson = replace(experiment.lesson, findings=(Finding(("no-lerning",), "a", "b", "c"),))
    with pytest.raises(TrueriskError, match="rests on 'no-lerning'; its claims are"):
        replace(experiment, lesson=lesson)


def test_a_count_that_no_row_has_is_refused():
    rows = [{"p": 0, "error": 0.1, "seed": 1}]
    with pytest.raises(TrueriskError, match="has the field 'n_test'"):
        Figure("f", "F", "f.", rows, Axis("p", "p"), Axis("error", "error", PERCENT, counted_on="n_test"))


def test_tex_that_cannot_be_read_stays_text(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(OWN.read_text())
    result = run(str(file), "smoke", "inline", str(tmp_path / "runs"))
    formulas = (Formula(r"\frac{1}{n", "Half a formula."), Formula(r"\max_i x_i", "A whole one."))
    lesson = replace(result.experiment.lesson, formulas=formulas)
    page = render_lab(replace(result, experiment=replace(result.experiment, lesson=lesson)))
    assert page.count('<div class="formula">') == 2
    assert "Half a formula." in page
    assert "<math" in page


@pytest.mark.parametrize(("shape", "strips"), [((7,), 0), ((3, 12, 12), 5)])
def test_pictures_of_a_users_own_data(tmp_path, shape, strips):
    """Color images are shown; tables have no pictures, and no demo fails."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", X=rng.random((60, *shape)).astype(np.float32), y=np.arange(60) % 3)
    experiment, _ = on_own_data(load("random-labels"), "smoke", str(tmp_path / "mine.npz"))
    record = experiment.lesson.demo(experiment.settings("smoke")[0])
    shown = [strip for exhibit in experiment.lesson.pictures(record) for strip in getattr(exhibit, "strips", ())]
    assert len(shown) == strips
