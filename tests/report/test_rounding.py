"""No place shows an upper end below what it is (terminal, pages, tables, tooltips), and no code formats one itself."""

from __future__ import annotations

import ast
import html
import re
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from truerisk.certificates import Verification, sentences
from truerisk.certificates.checking.reading import record_of
from truerisk.certificates.record import Record
from truerisk.certificates.search import Candidate, Search
from truerisk.certificates.search.curve import Curve, Point, Prediction
from truerisk.certificates.story import tell
from truerisk.cli import search, show, show_measures
from truerisk.lab.experiments.rademacher import _bound
from truerisk.lab.figure import Axis, Figure, Table
from truerisk.lab.lessons.rademacher import figures as rademacher_figures
from truerisk.lab.lessons.rescaling_bounds import figures as rescaling_figures
from truerisk.lab.marks import Points
from truerisk.lab.rows import Rows
from truerisk.lab.units import PERCENT, PLAIN
from truerisk.measures import BOUNDS, Bound, Measures
from truerisk.measures.audit import Audit, Moved
from truerisk.pacbayes import COLUMNS
from truerisk.report.certificate import render
from truerisk.report.lab.rows import drawable
from truerisk.report.measures import render_measures

ROOT = Path(__file__).parents[2]
ADVERSARIAL = (0.06614813, 0.0500000001, 1e-9, 0.0999999, 0.99994, 0.00123401)
NUMBER = r"(\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?)"


def value(text: str) -> Fraction:
    return Fraction(text.replace(",", ""))


def check_at_least(shown: list[str], x: float, scale: int = 1, count: int | None = None) -> None:
    """All numbers that were found next to their label are upper ends of x, and near it; there must be some."""
    assert shown
    assert count is None or len(shown) == count
    for text in shown:
        assert value(text) / scale >= Fraction(repr(x)), f"{text} is below {x}"
        assert value(text) / scale <= Fraction(repr(x)) * Fraction(11, 10) + Fraction(1, 1000)


def next_to(label: str, text: str) -> list[str]:
    return re.findall(rf"{label}\s*{NUMBER}", text)


def percent_next_to(label: str, text: str) -> list[str]:
    return re.findall(rf"{label}\s*{NUMBER}%", text)


@pytest.fixture
def wide(monkeypatch):
    """A terminal without line breaks."""
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture(params=ADVERSARIAL)
def x(request) -> float:
    return request.param


def having(record: dict[str, Any], x: float) -> Record:
    """The record with x for its bound, its baseline and every other upper end."""
    record = deepcopy(record)
    parts = [0.5, 0.01, 0.47, 0.02][: len(record["breakdown"])]
    for entry, part in zip(record["breakdown"], parts, strict=True):
        entry["value"] = x * part / sum(parts)
    kls = {"original": 100 * x, "tuned_scale": 100 * x, "rescaled": 100 * x, "both": 100 * x, "free_log_scales": 7}
    record |= {"risk_bound": x, "floor": x, "empirical_risk": x / 2, "empirical_risk_upper": x}
    told = record_of(record)
    record["sentence"] = sentences.headline(told.settings, told.derivation)
    if "disagreement" in record:
        record["disagreement"] |= {"surrogate_bound": x, "upper": x}
    if record["kl"] is not None:
        record |= {"kl": 100 * x, "kl_unrescaled": 100 * x, "rescaling": kls, "other_forms": {"McAllester": x}}
    return record_of(record)


# ---- the terminal --------------------------------------------------------------------------------------------------


def test_certify(pac_bayes, hold_out, x, wide, capsys):
    story, other = tell(having(pac_bayes, x)), tell(having(hold_out, x))
    show.certificate(story, [other], None)
    text = capsys.readouterr().out
    check_at_least(next_to(r"\n *certificate", text), x, count=1)
    check_at_least(next_to(r"\n *baseline", text), x, count=1)
    check_at_least(percent_next_to("at most", text), x, 100, count=2)  # the sentence and the table
    for kl in (*next_to(r"\n *KL", text), *re.findall(rf"{NUMBER} +before", text), *next_to("(?:give|both)", text)):
        assert value(kl) >= Fraction(repr(100 * x))
    rows = re.findall(rf"\n(?:pac-bayes-kl|hold-out) +[a-z-]+ +{NUMBER} [^\n]* {NUMBER} *(?=\n)", text)
    check_at_least([row[0] for row in rows], x, count=2)
    check_at_least([row[1] for row in rows], x, count=2)  # the last column is the baseline


def test_verify(x, wide, capsys):
    show.verification(Verification(risk_bound=x, claimed=x, after_tries=x))
    text = capsys.readouterr().out
    for label in ("at most", "claims", "would be"):
        check_at_least(next_to(label, text), x, count=1)


def test_search(x, wide, capsys):
    winner = Candidate("mlp:4", "built-in", 0.01, 2, 3, 100)
    curve = Curve((Point(100, 3),), 100, 1.0, 0.5)
    predictions = (Prediction("split:0.5", 500, 500, x / 2, x),)
    search.show(Search(winner, "split:0.5", 0, 300, (winner,), curve, predictions, "digits"))
    text = capsys.readouterr().out
    check_at_least(re.findall(rf"split:0.5 +500 +500 +[\d.]+ +{NUMBER}", text), x, count=1)


@pytest.fixture(params=[0.06614813, 0.99994, 1.00001, 7.77771, 31415.926, 1.30011e12])
def measured(request) -> tuple[float, Measures]:
    """One classical bound of this size."""
    name = next(iter(BOUNDS))
    return request.param, Measures({}, {name: Bound(name, request.param, "A paper", "Theorem", "Words.")}, {}, 60, 3)


def test_measure(measured, wide, capsys):
    x, found = measured
    [name] = found.bounds
    show_measures.measures(found, "How.", show_measures.Shown(1e-9, full=True), Path("out"), None)
    text = capsys.readouterr().out
    assert_near(re.findall(rf"\n{re.escape(name)} +{NUMBER}", text), x)
    check_at_least(percent_next_to("at most", text) or ["100"], min(x, 1.0), 100)
    assert "probability 0.999999999," in text
    show_measures.measures(found, "How.", show_measures.Shown(1e-9), Path("out"), None)
    text = capsys.readouterr().out
    assert_near(re.findall(rf"{re.escape(name)} {NUMBER}\.\n", text), x)
    moved = Moved(name, "bound", "f", True, x, 0.0, 1e-5)
    show_measures.audit(Audit({name: moved}, found, 4.01e-16, 100, 5, 1.0), "How.", Path("out"), None)
    text = capsys.readouterr().out
    assert_near(re.findall(rf"\n{re.escape(name)} +{NUMBER}", text), x)
    assert "by more than 5e-16 of" in text


def assert_near(shown: list[str], x: float) -> None:
    """Upper ends with four digits."""
    assert shown
    for text in shown:
        assert 0 <= value(text) - Fraction(repr(x)) <= Fraction(repr(x)) / 1000


# ---- pages ---------------------------------------------------------------------------------------------------------


def words_of(page: str) -> str:
    return html.unescape(" ".join(re.sub(r"<style.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL).split()))


def test_a_surrogate_and_what_differs(compared, x, wide, capsys):
    record = having(compared, x)
    show.certificate(tell(record), [], None)
    text = capsys.readouterr().out
    check_at_least(next_to(r"\n *surrogate", text), x, count=1)
    check_at_least(next_to(r"\n *disagreement", text), x, count=1)
    text = words_of(render(record))
    check_at_least(percent_next_to("Surrogate", text), x, 100, count=1)
    check_at_least(percent_next_to("Disagreement", text), x, 100, count=1)


def test_the_page_of_a_certificate(pac_bayes, hold_out, x):
    page = render(having(pac_bayes, x), [having(hold_out, x)])
    text = words_of(page)
    check_at_least(percent_next_to("at most", text), x, 100, count=3)  # the sentence and both pictures
    check_at_least(percent_next_to("certified at most", page), x, 100, count=2)  # for screen readers
    check_at_least(percent_next_to("Certificate", text), x, 100)
    check_at_least(percent_next_to("Baseline", text), x, 100)
    check_at_least(percent_next_to(r"certificate \(rounded up\)", text), x, 100, count=1)
    check_at_least(percent_next_to(r"kl \(used by the certificate\)", text), x, 100, count=1)
    check_at_least(percent_next_to("McAllester", text), x, 100, count=1)
    check_at_least(percent_next_to("certificate:", page), x, 100, count=2)  # in both figures
    check_at_least(percent_next_to("hold-out baseline:", page), x, 100, count=2)
    check_at_least(percent_next_to("The certificate,", page), x, 100, count=1)  # for screen readers
    check_at_least(percent_next_to("The hold-out baseline is", page), x, 100, count=1)
    table = page[page.index('id="methods"') :].split("</table>")[0]
    cells = re.findall(rf'<td class="number">{NUMBER}%</td>', table)
    check_at_least(cells[::3] + cells[2::3], x, 100, count=4)  # certificate, observed error, baseline of two methods
    kls = [re.search(rf"{label} {NUMBER} nats", text) for label in ("KL", "KL before rescaling")]
    assert all(kl and value(kl[1]) >= Fraction(repr(100 * x)) for kl in kls)
    table = page[page.index("Effect of rescaling on the KL") :].split("</table>")[0]
    kls = re.findall(rf'<td class="number">{NUMBER}</td>', table)
    assert len(kls) == 4
    assert all(value(kl) >= Fraction(repr(100 * x)) for kl in kls)


def test_the_parts_on_the_page_add_up(pac_bayes, x):
    page = render(having(pac_bayes, x))
    table = page[page.index("Part of the certificate") :].split("</table>")[0]
    *parts, total = map(value, re.findall(rf">{NUMBER}%</td>", table))
    assert sum(parts) == total >= 100 * Fraction(repr(x))


def test_the_page_of_measures(measured):
    x, found = measured
    page = render_measures(found, {"margins": np.array([-1.0, 1.0])}, {"Network": "n", "Data": "d"})
    table = page[page.index('id="bounds"') : page.index('id="margins"')]
    assert_near(re.findall(rf'<td class="number"[^>]*>{NUMBER}</td>', table), x)
    assert_near(re.findall(rf"the smallest is {NUMBER} ", page), x)
    labels = [text for text in re.findall(rf">{NUMBER}</text>", page) if value(text) > 1e-3]
    assert [text for text in labels if 0 <= value(text) - Fraction(repr(x)) <= Fraction(repr(x)) / 1000], labels


# ---- the lab -------------------------------------------------------------------------------------------------------


def test_tooltips(x):
    rows = [{"net": "a", "kind": k, "bound": x, "seed": seed} for k in ("bound", "observed") for seed in range(5)]
    for percent, scale in ((False, 1), (True, 100)):
        axis = Axis("bound", "bound", PERCENT if percent else PLAIN, bound=True)
        look: dict[str, Any] = {"series": "kind", "observed": ["observed"]}
        drawn = drawable(Figure("f", "f", "f", rows, Axis("net", "net", ordinal=True), axis, Points(), **look))
        texts = [c.text for c in drawn.columns if c.text]
        assert len(texts) == 3
        for text in texts:
            check_at_least([drawn.rows[0][text].removesuffix("%")], x, scale)
            assert text not in drawn.rows[1], "an observation is rounded to the nearest by the page"
        assert drawn.rows[0]["y"] == pytest.approx(x, rel=1e-15), "what is drawn and downloaded is not rounded"


def rescaling_rows(x: float) -> Rows:
    row: dict[str, Any] = {"part": "architectures", "row": "64-32", "seed": 0, "data": "mnist", "n": 60_000}
    row |= {"weights": 9, "squares": 1.0, "pair": [1.0, 0.02], "tried": 1, "train_error": x, "test_error": x, "risk": x}
    for column in COLUMNS:
        row |= {f"{column}_{form}": x for form in ("mcallester", "kl_form")} | {f"{column}_kl": 1000 * x}
    return Rows([row | {"posterior": kind} for kind in ("stated", "inferred", "trained")])


def test_rescaling_bounds(x):
    rows = rescaling_rows(x)
    shown = 0
    for exhibit in rescaling_figures(rows):
        if isinstance(exhibit, Table):
            for place, title in enumerate(exhibit.columns):
                for row in exhibit.rows:
                    if title.startswith("bound"):
                        at_least_coarse(re.findall(NUMBER, str(row[place])), x, 100)
                        shown += 1
                    elif title.startswith("KL "):
                        assert value(str(row[place])) >= Fraction(repr(1000 * x))
        elif exhibit.name not in ("kl-ratios", "curve") and exhibit.rows:
            assert exhibit.y.bound
    assert shown == 3 * 3


def at_least_coarse(shown: list[str], x: float, steps: int) -> None:
    """Upper ends with few decimals: ``steps`` to 1."""
    assert shown
    for text in shown:
        assert 0 <= value(text) - Fraction(repr(x)) < Fraction(1, steps)


def test_lower_ends_are_rounded_down():
    rows = Rows([{"part": "signs", "model": "m", "data": "mnist1d", "n": 1000, "seed": 0, "correlation": 0.987654321}])
    [table] = [e for e in rademacher_figures(rows) if isinstance(e, Table) and e.name == "bounds"]
    from truerisk.measures.signs import proven_complexity

    [row] = table.rows
    least = proven_complexity([0.987654321], 1000)
    for text, x in ((row[-2], least), (row[-1], _bound(least, 1000))):
        assert 0 <= Fraction(repr(x)) - value(str(text)) < Fraction(1, 100)


# ---- benchmark tables ----------------------------------------------------------------------------------------------


def test_benchmark_tables(x, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import certificates_table, rescaling_table

    row = {"part": "split", "data": "mnist", "n": None, "model": "m", "seed": 0, "method": "hold-out", "prior": "p"}
    row |= {"predictor": "deterministic", "risk_bound": x, "floor": x, "test_error": x, "kl": 100 * x}
    [*_, line, _] = certificates_table._part([row], "split")
    _, data, *cells, _ = (cell.strip() for cell in line.split("|"))
    assert data == "mnist"
    each, mean, floor, best, _, kl = cells[2:]
    check_at_least([each, mean, floor, best], x)
    assert value(kl) >= Fraction(repr(100 * x))
    [*_, line, _] = certificates_table._paired(
        [row, row | {"method": "progressive", "n_certify": 100, "counts": {"block 1": 1}}]
    )
    check_at_least([cell.strip() for cell in line.split("|")[5:7]], x)
    found = rescaling_rows(x).present[:1]
    line = next(line for line in rescaling_table._recipe(found, ["64-32"]) if line.startswith("| 64-32 |"))
    at_least_coarse([cell.strip() for cell in line.split("|")[3:7]], x, 100)
    line = next(line for line in rescaling_table._trained(found) if line.startswith("| 64-32 |"))
    check_at_least([cell.strip() for cell in line.split("|")[3:7]], x)


# ---- no code formats a bound by itself -----------------------------------------------------------------------------

BOUND = re.compile(r"(^|_)(bound|bounds|floor|floors|upper|uppers|kl|log_ratio|delta)(_|$)")
FLOATING = re.compile(r"[fFeEgG%]$")
PLACES = [
    *sorted((ROOT / "src/truerisk").glob("cli/**/*.py")),
    *sorted((ROOT / "src/truerisk").glob("report/**/*.py")),
    *sorted((ROOT / "src/truerisk").glob("lab/rescaling/*.py")),
    ROOT / "src/truerisk/lab/experiments/rescaling_bounds.py",
    *sorted((ROOT / "benchmarks").glob("*_table.py")),
    ROOT / "benchmarks/certificates.py",
    *sorted((ROOT / "examples").glob("*.py")),
]


def own_formats(source: str) -> list[str]:
    """Formatted floats that are bounds by their name, or that nobody can know: values of a key that varies."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            last = node.format_spec.values[-1]
            spec, shown = str(last.value) if isinstance(last, ast.Constant) else "f", node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("format", "round") and len(node.args) > 1:
            spec, shown = "f", node.args[0]
        else:
            continue
        if FLOATING.search(spec) and _is_bound(shown):
            found.append(ast.unparse(node))
    return found


def _is_bound(shown: ast.expr) -> bool:
    names = {getattr(part, "id", None) or getattr(part, "attr", None) for part in ast.walk(shown)}
    names |= {part.value for part in ast.walk(shown) if isinstance(part, ast.Constant)}
    open_key = isinstance(shown, ast.Subscript) and isinstance(shown.slice, ast.Name)
    return open_key or any(isinstance(name, str) and BOUND.search(name) for name in names)


@pytest.mark.parametrize("path", PLACES, ids=lambda path: "/".join(path.parts[-2:]))
def test_only_words_formats_bounds(path):
    assert own_formats(path.read_text(encoding="utf-8")) == []


def test_templates_format_no_numbers():
    for path in (ROOT / "src/truerisk/report/templates").glob("*.j2"):
        assert not re.search(r"\|\s*(round|format)\b", path.read_text(encoding="utf-8")), path.name


@pytest.mark.parametrize(
    "code",
    [
        "f\"{record['risk_bound']:.4f}\"",
        "f'{result.risk_bound:.6f}'",
        "f'{p.floor:.4f}'",
        "f\"{found['upper']:.4f}\"",
        "[f'{record[name]:.4f}' for name in ('risk_bound',)]",
        "f'{100 * bound:.1f} %'",
        "round(cert.risk_bound, 4)",
        "format(floor, '.4f')",
        "f'{100 * upper:{width}.1f}'",
    ],
)
def test_the_search_for_own_formats_finds_them(code):
    assert own_formats(code)


@pytest.mark.parametrize("code", ["f'{n:,}'", "f'{errors / n:.4f}'", "f'{words.bound(risk_bound)}'", "f'{lr:g}'"])
def test_and_nothing_else(code):
    assert own_formats(code) == []
