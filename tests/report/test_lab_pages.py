"""What the lab's pages say, that nothing in them comes alive, and that every kind of figure can be drawn."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser

import pytest

from truerisk.engine import Store
from truerisk.errors import TrueriskError
from truerisk.lab.claim import Claim
from truerisk.lab.figure import Axis, Figure, Rule, Table
from truerisk.lab.lesson import Question
from truerisk.lab.marks import Bars, Line, Map, Points, Slope
from truerisk.lab.rows import Rows
from truerisk.lab.units import PERCENT
from truerisk.report import render_index, render_lab, write_index, write_lab
from truerisk.report.lab.figures import DATA, WIDTHS, lab_spec, static_svg
from truerisk.report.lab.marks import DRAWERS
from truerisk.report.lab.page import json_in_html
from truerisk.report.lab.palette import LEVELS_ON_DARK, LEVELS_ON_LIGHT, ON_DARK, ON_LIGHT
from truerisk.report.lab.rows import drawable
from truerisk.report.lab.scales import y_domain
from truerisk.report.lab.words import facts
from truerisk.report.publish import publish, publish_index

vl_convert = pytest.importorskip("vl_convert")

EVIL = "</script><script>alert(1)</script><!-- & ' \" \u2028 ${x} {{ x }} __proto__."
PAPER = {"light": "#fdfdfb", "dark": "#15171b"}  # of style.css


class Outline(HTMLParser):
    """Tags, attributes, visible text, and the content of scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text, self.scripts, self.inside = [], [], [], [], None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag in ("script", "style"):
            self.inside = tag
            self.scripts += [""] if tag == "script" else []

    def handle_endtag(self, tag):
        self.inside = None if tag == self.inside else self.inside

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside is None:
            self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())

    @property
    def figures(self):
        return json.loads(self.scripts[0])


@pytest.fixture(scope="module")
def page(lab_result):
    return render_lab(lab_result)


@pytest.fixture(scope="module")
def outline(page):
    return Outline(page)


def evil(value):
    """The same with every text replaced by a hostile one, in mappings, sequences and data classes."""
    if isinstance(value, str):
        return EVIL
    if isinstance(value, Rows):
        return Rows(evil(value.present), evil(value.missing))
    if isinstance(value, Mapping):
        return {key: evil(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(evil, value))
    if is_dataclass(value):
        names = [field.name for field in fields(value)]
        kept = ("name", "mark", "field", "series", "facet", "slider", "claims", "word", "scale", "scales", "grids")
        kept += ("pixels", "group", "lesson", "committed", "asks")
        kept += (
            ("kind", "every", "where", "counted_on", "reason")
            if isinstance(value, Claim) or names[0] != "where"
            else ()
        )
        changes = {n: evil(getattr(value, n)) for n in names if n not in kept and not callable(getattr(value, n))}
        return replace(value, **changes)
    return value


def test_page_says_it_all(outline, lab_result):
    for text in (
        "Networks fit random labels",
        "Claims of papers: 1 of 1 reproduced; thresholds from trials: 0 of 1 reproduced, 1 not; our own questions: "
        "0 of 1 reproduced, 1 without verdict.",
        "over 5.25 times (95%: at least",
        "Threshold from a trial one run of seed 7",
        "Networks fit all but 0.1% of noise.",  # the finding
        "Does it happen on other data? truerisk lab run random-labels --data mnist",
        "Lines are means over 5 seeds, bands their 95% intervals.",
        "Figure 18. Digits",
        "The mean loss.",
        "University of Washington Interactive Data Lab",
        "Was 3.",
        "Committed 2026-01-01, before its runs",
        "MLP 3x512",
        "✓ reproduced",
        "✗ not reproduced",
        "\u2013 no verdict",
        "No verdict: 2 of 30 runs are missing",
        "2 of 30 runs are missing, 1 of them because they failed (see below).",
        "RuntimeError: the loss is not finite",
        "data=digits network=linear labels=random labels seed=1",
        "Varied: network mlp-1x512, mlp-3x512, alexnet, inception, linear",
        "The same in all runs data digits",
        "28 runs of 30: 20 computed now, 8 read back",
        "2 min 13 s, all runs together",
        "truerisk 0.1.0, torch 2.13.0",
        "truerisk lab run random-labels --scale quick",
        "Zhang, Bengio, Hardt, Recht, Vinyals (2017): Rethinking generalization. arXiv 1611.03530.",
        "1,209,866",
        "6 points are not drawn: a logarithmic axis has no place for 0 and below.",
        "This figure is empty",
    ):
        assert text in outline.words, text
    assert lab_result.experiment.about in outline.words


def test_page_is_self_contained(page, outline):
    assert len(page.encode()) < 3_000_000  # with every kind of figure; 0.9 million are Vega
    policy = next(
        value for tag, name, value in outline.attributes if (tag, name) == ("meta", "content") and "src" in value
    )
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe-eval" not in policy
    assert not {"srcset", "action"} & {name for _, name, _ in outline.attributes}
    links = {value for _, name, value in outline.attributes if name == "href" and not value.startswith("#")}
    assert links == {"data:,", "https://arxiv.org/abs/1611.03530"}  # of a paper: nothing is fetched
    sources = {value.partition(",")[0] for _, name, value in outline.attributes if name == "src"}
    assert sources == {"data:image/png;base64"}


def test_no_script_without_figures(lab_result):
    experiment = replace(lab_result.experiment, lesson=None)
    page = render_lab(replace(lab_result, experiment=experiment, verdicts=[], failures=[], rows=Rows([])))
    assert "<script" not in page
    assert "No claim was checked." in page


def test_hostile_text_stays_text(lab_result, outline):
    lesson = lab_result.experiment.lesson
    exhibits = [evil(exhibit) for exhibit in lesson.figures(lab_result.rows)]
    exhibits[0] = replace(exhibits[0], name=EVIL)
    questions = tuple(Question(f"{EVIL}?", EVIL) for _ in lesson.questions)
    finding = replace(lesson.findings[0], reproduced=EVIL.replace("{", "{{").replace("}", "}}"))
    changes = {"figures": lambda rows: exhibits, "questions": questions, "findings": (finding,)}
    formulas = tuple(replace(formula, says=EVIL) for formula in lesson.formulas)
    hostile_lesson = replace(lesson, **changes, hero=EVIL, formulas=formulas)
    experiment = replace(evil(lab_result.experiment), lesson=hostile_lesson)
    result = replace(evil(lab_result), experiment=experiment, verdicts=evil(list(lab_result.verdicts)))
    hostile = Outline(render_lab(result))
    assert set(hostile.tags) - {"tspan"} == set(outline.tags)  # long texts of figures have several lines
    assert hostile.tags.count("script") == outline.tags.count("script") == 3
    assert not any(name.startswith("on") for _, name, _ in hostile.attributes)
    assert hostile.figures[0]["rows"][0]["s"] == " ".join(EVIL.split())
    assert re.fullmatch(r"[A-Za-z0-9-]+", hostile.figures[0]["name"])
    assert re.fullmatch(r"[A-Za-z0-9-]+", hostile.figures[0]["file_name"])
    assert hostile.words.count("alert(1)") > 50


def test_hostile_index(lab_result):
    summary = {**lab_result.summary(), "page": "lab.html"}
    plain = Outline(render_index([summary]))
    words = {"verdict": "not reproduced"}
    hostile = evil({**summary, "page": ""}) | {"page": "javascript:alert(1)"}
    hostile["claims"] = [{**claim, **words} for claim in hostile["claims"]]
    changed = Outline(render_index([hostile]))
    assert set(changed.tags) <= set(plain.tags)
    assert "script" not in changed.tags
    links = {value for tag, name, value in changed.attributes if (tag, name) == ("a", "href")}
    assert links == {"javascript%3Aalert%281%29"}


def with_figures(result, figures):
    """The result with other figures on its page."""
    lesson = replace(result.experiment.lesson, figures=figures, hero="")
    return replace(result, experiment=replace(result.experiment, lesson=lesson))


def test_json_in_html():
    text = json_in_html([EVIL])
    assert json.loads(text) == [EVIL]
    assert not set("<>&\u2028\u2029") & set(text)


def compiled(figure):
    """The figure at every width and as a file, compiled by Vega-Lite."""
    drawn = drawable(figure)
    specs = [lab_spec(figure, drawn, width, hero=hero) for width in WIDTHS for hero in (False, True)]
    specs += [lab_spec(figure, drawn, 1040, "file")]
    return [vl_convert.vegalite_to_vega({**spec, "datasets": {DATA: drawn.rows}}) for spec in specs]


def test_every_figure_compiles(lab_result):
    figures = [
        f for f in lab_result.experiment.lesson.figures(lab_result.rows) if isinstance(f, Figure) and f.name != "empty"
    ]
    assert {type(figure.mark) for figure in figures} == set(DRAWERS)
    for figure in figures:
        for vega in compiled(figure):
            assert vega["marks"] or vega["layout"]


@pytest.mark.long
def test_specs_follow_the_schema(lab_result):
    alt = pytest.importorskip("altair")
    for figure in lab_result.experiment.lesson.figures(lab_result.rows):
        if isinstance(figure, Figure) and figure.name != "empty":
            for medium in ("page", "static", "file"):
                spec = lab_spec(figure, drawable(figure), 640, medium)
                chart = alt.Chart.from_dict(spec)  # raises where it does not
                assert chart.to_dict()["data"] == {"name": DATA}


SMALL = Figure("f", "F", "f.", [{"a": 1, "b": 2}], Axis("a", "a"), Axis("b", "b"))


@pytest.mark.parametrize("mark", [Line(), Points(), Bars(), Slope(), Map("b", "b")])
@pytest.mark.parametrize("log", [False, True])
def test_one_point(mark, log):
    axes = {"x": Axis("a", "a", log=log), "y": Axis("b", "b", log=log)}
    figure = replace(SMALL, mark=mark, **axes)
    assert "NaN" not in static_svg(figure, drawable(figure), 350)


def test_series_and_panels_come_in_order_of_appearance():
    rows = [{"a": i, "b": i, "s": s, "p": p} for i in range(3) for s in ("z", 10, 2, True) for p in ("late", "early")]
    figure = replace(SMALL, rows=rows, series="s", facet="p")
    spec = lab_spec(figure, drawable(figure), 640)
    assert spec["facet"]["sort"] == ["late", "early"]
    line = next(layer for layer in spec["spec"]["layer"] if layer["mark"]["type"] == "line")
    assert line["encoding"]["color"]["scale"]["domain"] == ["z", "10", "2", "yes"]
    assert spec["params"] == [{"name": "chosen", "value": []}]
    assert spec["columns"] == 2
    assert lab_spec(figure, drawable(figure), 350)["columns"] == 1


def test_bars_over_numbers_stand_by_size():
    figure = replace(SMALL, rows=[{"a": a, "b": 1} for a in (100, 20, 3)], mark=Bars())
    assert drawable(figure).orders["x"] == ["3", "20", "100"]
    ordinal = replace(figure, x=Axis("a", "a", ordinal=True))
    assert drawable(ordinal).orders["x"] == ["100", "20", "3"]


def test_what_cannot_be_drawn_is_left_out():
    cells = [1.0, None, float("nan"), float("inf"), "text", 0.0, -1.0]
    rows = [{"a": i + 1, "b": cell} for i, cell in enumerate(cells)]
    assert [row["y"] for row in drawable(replace(SMALL, rows=rows)).rows] == [1.0, 0.0, -1.0]
    log = drawable(replace(SMALL, rows=rows, y=Axis("b", "b", log=True)))
    assert [row["y"] for row in log.rows] == [1.0]
    assert log.left_out == 2


def test_axes():
    rows = [{"a": 1, "b": 0.5 + 0.2 * s, "seed": s} for s in range(5)] + [{"a": 2, "b": 0.6, "seed": 0}]
    figure = replace(SMALL, rows=rows, rules=[Rule(1.9, "chance")])
    low, high = y_domain(figure, drawable(figure))
    assert low < 0.9 - 2.776 * 0.1 * 2**0.5  # Student's t of four degrees of freedom, standard error 0.2 sqrt(2.5/5)
    assert high > 1.9
    zero = replace(figure, y=Axis("b", "b", zero=True))
    assert y_domain(zero, drawable(zero))[0] == 0
    log = replace(figure, y=Axis("b", "b", log=True))
    assert 0 < y_domain(log, drawable(log))[0] < 0.55  # the interval of the five seeds begins at 0.54
    svg = static_svg(replace(log, mark=Points()), drawable(log), 640)  # the stroke ends where the axis does
    assert "NaN" not in svg
    assert "Infinity" not in svg


def test_percent_axis():
    figure = replace(SMALL, y=Axis("b", "b", PERCENT), rows=[{"a": 1, "b": 0.1}, {"a": 2, "b": 0.3}])
    svg = static_svg(figure, drawable(figure), 640)
    labels = re.findall(r">(\d+)%<", svg)
    assert {"10", "20", "30"} <= set(labels)


def test_rule_labels_keep_apart():
    figure = replace(SMALL, rows=[{"a": i, "b": i / 10} for i in range(11)], rules=[Rule(0.5, "one"), Rule(0.5, "two")])
    svg = static_svg(figure, drawable(figure), 640)
    places = re.findall(r"translate\(([\d.]+),([\d.]+)\)\"[^>]*fill=\"#808080\">(?:one|two)<", svg)
    (x, y), (x_2, y_2) = [(float(x), float(y)) for x, y in places]
    assert abs(x - x_2) > 60 or abs(y - y_2) > 12


def rising(log):
    """A line that meets a rule at 0.5 on the right, as an error that grows with the number of points."""
    axis, values = Axis("a", "a", log=log), [{"a": 10**k, "b": 0.1 * k} for k in range(1, 8)]
    return replace(SMALL, rows=values, x=axis, y=Axis("b", "b", zero=True), rules=[Rule(0.68, "labels change")])


def flat():
    """Points on the rule, and all along it: there is room above them only."""
    rows = [{"a": a, "b": 0.9 + 0.01 * (a % 2)} for a in range(9)]
    return replace(SMALL, rows=rows, y=Axis("b", "b", zero=True), rules=[Rule(0.9, "chance")])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("figure", [rising(True), rising(False), flat()])
def test_rule_labels_keep_off_points(figure, width):
    svg = static_svg(figure, drawable(figure), width)
    label = rf'transform="translate\(([\d.]+),([-\d.]+)\)"[^>]*fill="#808080">{figure.rules[0].label}<'
    anchor = rf'text-anchor="(\w+)"[^>]*fill="#808080">{figure.rules[0].label}<'
    [(x, bottom)] = [tuple(map(float, found)) for found in re.findall(label, svg)]
    letters = 0.5 * 13 * len(figure.rules[0].label)  # at least: labels are rather given too much room
    share = {"start": 0, "middle": 0.5, "end": 1}[re.findall(anchor, svg)[0]]
    left, right = x - share * letters, x + (1 - share) * letters
    points = re.findall(r'transform="translate\(([\d.]+),([\d.]+)\)" d="M[^"]*"[^>]*fill="#(?!808080)', svg)
    assert len(points) == len(figure.rows)
    assert bottom > 10  # inside the panel
    for at, y in ((float(a), float(b)) for a, b in points):
        assert not (left - 4 < at < right + 4 and bottom - 14 < y < bottom + 4), (at, y)


def test_the_page_links_to_an_index_that_exists(lab_result, tmp_path):
    result = with_figures(lab_result, lambda rows: [])
    store = Store(str(tmp_path))
    publish(result, store)
    publish_index(store)
    page = tmp_path / result.experiment.name / "quick.html"
    links = [value for tag, name, value in Outline(page.read_text()).attributes if (tag, name) == ("a", "href")]
    [link] = [value for value in links if not value.startswith(("#", "https:"))]
    assert (page.parent / link).resolve() == (tmp_path / "index.html").resolve()
    assert (page.parent / link).is_file()
    assert "index.html" not in render_lab(result)  # a page of its own has no index
    assert 'href="a%20b%22/index.html"' in render_lab(result, 'a b"/index.html')


def test_refusals(lab_result):
    figures = [SMALL, Table("f", "", "", [], []), replace(SMALL, name="g", claims=["fits"])]
    page = render_lab(with_figures(lab_result, lambda rows: figures))
    assert "are named f; rename one)" in page
    assert "g shows the claim &#39;fits&#39;; there are fit, test, time)" in page
    assert 'id="figure-f"' in page  # the others are drawn


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mark": "scatter"}, "must be one of Line\\(\\), Points"),
        ({"slider": Axis("step", "step")}, "no row of figure f has the field 'step'"),
        ({"series": "epochs"}, "no row of figure f has the field 'epochs'; its rows have"),
        ({"mark": Map("ratio", "ratio")}, "no row of figure f has the field 'ratio'"),
    ],
)
def test_a_slip_in_a_figure_names_it(change, said):
    with pytest.raises(TrueriskError, match=said):
        replace(SMALL, **change)


def test_missing_library(lab_result, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(TrueriskError, match=r"truerisk\[report\]"):
        render_lab(lab_result)


def test_index(lab_result, tmp_path):
    summary = {**lab_result.summary(), "page": "random-labels/quick.html"}
    path = write_index([summary, {**summary, "title": "Another"}], tmp_path / "new" / "index.html")
    index = Outline(path.read_text())
    for text in (
        "Claims of papers: 2 of 2 reproduced; thresholds from trials: 0 of 2 reproduced, 2 not;",
        "Quick scale: 28 runs, 2 missing, 2 min 13 s of computing",
        "Every claim in words Not reproduced (2) Noise takes only a little longer.",
        "Not reproduced: over 5.25 times",
        "No verdict: 2 of 30 runs are missing",
        summary["finding"],
    ):
        assert text in index.words, text
    assert ("a", "href", "random-labels/quick.html") in index.attributes
    assert ("a", "href", "random-labels/quick.html#claim-time") in index.attributes
    assert "script" not in index.tags
    assert "No verdict" not in render_index([])


def test_every_claim_reproduced(lab_result):
    claims = lab_result.experiment.claims[:1]
    experiment = replace(lab_result.experiment, claims=claims)
    rows = Rows(lab_result.rows, fields=lab_result.rows.fields)
    result = replace(lab_result, experiment=experiment, rows=rows, verdicts=lab_result.verdicts[:1], failures=[])
    words = Outline(render_lab(result)).words
    assert "Claims of papers: 1 of 1 reproduced." in words
    assert "not reproduced" not in words.lower()
    assert "runs are missing" not in words
    summary = {**result.summary(), "page": "lab.html"}
    assert "Every claim in words Reproduced (1)" in Outline(render_index([summary])).words


def test_write_lab(lab_result, tmp_path):
    result = with_figures(lab_result, lambda rows: [])
    path = write_lab(result, tmp_path / "new" / "lab.html")
    assert path.read_text() == render_lab(result)


def test_grid_in_a_few_rows(lab_result):
    grid = [{"n": n, "lr": 0.1, "seed": 0} for n in range(20)] + [{"n": 0, "lr": 0.1, "seed": 1, "depth": [3, 4]}]
    experiment = replace(lab_result.experiment, grids={"quick": lambda: grid})
    rows = dict(facts(replace(lab_result, experiment=experiment)))
    assert rows["Varied: n"] == "0, 1, 2, 3, 4, 5, \u2026, 19 (20 different values)"
    assert rows["Varied: seed"] == "0, 1"
    assert rows["The same in all runs"] == "lr 0.1"
    assert rows["Only in some runs"] == "depth [3, 4]"


def test_same_figure_same_svg(lab_result):
    heat = next(f for f in lab_result.experiment.lesson.figures(lab_result.rows) if f.name == "map")
    one, two = (static_svg(heat, drawable(heat), 350) for _ in range(2))
    assert one == two
    assert 'id="map-350-0"' in one
    assert "url(#map-350-0)" in one


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize(
    ("paper", "palette"),
    [("light", ON_LIGHT), ("dark", ON_DARK), ("light", LEVELS_ON_LIGHT), ("dark", LEVELS_ON_DARK)],
)
def test_palette(paper, palette):
    assert len(set(palette)) == len(palette)
    for colour in palette:
        dark, light = sorted((luminance(colour), luminance(PAPER[paper])))
        assert (light + 0.05) / (dark + 0.05) >= 3, colour


def test_a_slip_in_a_figure_does_not_cost_the_page(lab_result):
    def broken(rows):
        raise ZeroDivisionError("division by <zero>")

    page = render_lab(with_figures(lab_result, broken))
    assert "Figures could not be drawn (ZeroDivisionError: division by &lt;zero&gt;)." in page
    assert lab_result.verdicts[0].claim.says in page


@pytest.mark.parametrize(("levels", "away"), [(LEVELS_ON_LIGHT, -1), (LEVELS_ON_DARK, 1)])
def test_levels_go_away_from_the_paper(levels, away):
    lights = [luminance(color) for color in levels]
    assert lights == sorted(lights, reverse=away < 0)
