"""What the page of a certificate says, and that nothing in it comes alive."""

import importlib.resources
import json
import math
import re
import sys
from dataclasses import replace
from decimal import Decimal
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from report.conftest import KEPT, MADE

import truerisk
from truerisk.certificates.checking.reading import record_of
from truerisk.certificates.record import Fit, Lower, Record
from truerisk.certificates.story import Story, tell
from truerisk.errors import TrueriskError
from truerisk.report import certificate, write_report
from truerisk.report.certificate import scale_of
from truerisk.report.figures import FLOOR, INK, ON_PART, PARTS, bound_figure, segments
from truerisk.report.scale import finding

EVIL = "<script>alert(1)</script>"
VOID = {"meta", "link", "br", "hr", "img"}


class Outline(HTMLParser):
    """Tags in order, attributes and visible text; complains about tags that do not match."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def classes(self):
        return {value for _, name, value in self.attributes if name == "class"}

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


def typed(claims) -> Record:
    return claims if isinstance(claims, Record) else record_of(claims)


def story(claims) -> Story:
    return tell(typed(claims))


def render(claims, others=()):
    return certificate.render(typed(claims), [typed(other) for other in others])


def words(page):
    return " ".join(" ".join(Outline(page).text).split())


@pytest.fixture(params=["pac_bayes", "hold_out"])
def record(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def real():
    return truerisk.certify("mlp:16", "digits", epochs=2).record


def assert_complete(record, page):
    text = words(page)
    assert story(record).headline in text
    for entry in record["ledger"]:
        assert f"{entry['event']} {entry['delta']}" in text
    total = sum(Decimal(repr(entry["delta"])) for entry in record["ledger"])
    assert f"Sum {total.normalize()} ≤ {record['delta']}" in text
    for line in record["assumptions"] + record["warnings"]:
        assert line in text
    for name, digest in record["files"].items():
        assert f"{name} {digest}" in text
    assert record["data"]["sha256"] in text
    assert repr(record["risk_bound"]) in text
    assert "truerisk verify DIR" in text
    assert "truerisk predict DIR --data" in text


def test_everything_is_on_the_page(record):
    assert_complete(record, render(record))


def test_a_real_certificate(real, tmp_path):
    path = write_report(real, tmp_path / "new" / "report.html")
    assert path == tmp_path / "new" / "report.html"
    assert path.stat().st_size < 300_000
    assert_complete(real, path.read_text(encoding="utf-8"))
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_numbers_for_people(pac_bayes):
    text = words(render(pac_bayes))
    assert "Certificate 7.7%" in text
    assert "Baseline 5.2%" in text
    assert "Observed error 3.9%" in text
    assert "KL 12.35 nats: how far the certification examples moved the posterior" in text
    assert "KL before rescaling 1,234.6 nats" in text
    assert "30,766 errors in 795,600 predictions" in text
    assert "Sum: the certificate (rounded up) 7.7%" in text
    assert "McAllester 11.5%" in text
    assert "Thiemann (says nothing) 100%" in text
    assert "same event" in text


def test_hold_out_has_no_kl_and_no_other_forms(hold_out):
    text = words(render(hold_out))
    assert "KL" not in text
    assert "Other forms" not in text
    assert "Sampled weights" not in text


def test_the_page_begins_with_the_picture(record):
    outline = Outline(render(record))
    first = [tag for tag in outline.tags[outline.tags.index("h1") :] if tag != "p"]  # a subtitle may stand between
    assert first[:4] == ["h1", "figure", "div", "svg"]
    scale, told = scale_of(story(record)), story(record)
    assert scale.upper == record["risk_bound"]
    assert scale.observed == record["empirical_risk"]
    assert scale.chance == told.chance == 1 - 600 / 1797
    assert scale.lower is None
    assert (scale.baseline is None) == (told.floor.quantity.percent == told.certificate.quantity.percent)


def test_a_baseline_that_is_the_same_number_is_left_out(pac_bayes):
    assert scale_of(story(pac_bayes)).baseline == pac_bayes["floor"]
    assert scale_of(story(pac_bayes | {"floor": pac_bayes["risk_bound"] + 1e-9})).baseline is None
    assert "hold-out baseline" not in render(pac_bayes | {"floor": pac_bayes["risk_bound"]}).split("</figure>")[0]


def test_two_ends_and_the_training_error(hold_out):
    """The lower end is rounded down, also where the nearest number is above it."""
    plain = record_of(hold_out)
    derivation = replace(plain.derivation, lower=Lower(0.02079, 0.03))
    record = replace(plain, derivation=derivation, fit=Fit(1 / 897, 897, 0.0196, 0.05, "good fit"))
    told = tell(record)
    assert [told.lower.quantity.percent.replace(" ", ""), told.lower.quantity.plain] == ["2.0%", "0.0207"]
    assert told.training.quantity.percent.replace(" ", "") == "0.11%"
    picture = words(render(record))
    for label in ("at least 2.0%", "on its own training examples 0.11%", "Lower end 2.0%"):
        assert label in picture
        assert label not in words(render(plain))


def test_a_subtitle_is_shown_only_if_there_is_one(hold_out, monkeypatch):
    assert "subtitle" not in Outline(render(hold_out)).classes()
    told = replace(story(hold_out), subtitle=f"With weights {EVIL}")
    monkeypatch.setattr(certificate, "tell", lambda record, check: told)
    page = render(hold_out)
    assert "subtitle" in Outline(page).classes()
    assert "<script" not in page


@pytest.mark.parametrize("data", [{"n": 0}, {"counts": [10**400, 1, 1]}])
def test_class_counts_that_no_data_has_are_refused(hold_out, data):
    hold_out["data"] |= data
    with pytest.raises(TrueriskError, match="certificate"):
        story(hold_out)


@pytest.mark.parametrize("counts", [[], [-5, 1], [1797], [9999, 1]])
def test_guessing_errs_with_a_probability(hold_out, counts):
    hold_out["data"] |= {"counts": counts}
    assert 0 <= story(hold_out).chance <= 1


def test_warnings_are_shown_only_if_there_are_any(pac_bayes):
    assert "Before you quote this number" in render(pac_bayes)
    assert "Before you quote this number" not in render(pac_bayes | {"warnings": []})


def test_a_ledger_that_overspends_is_not_called_fine(pac_bayes):
    pac_bayes["ledger"][0]["delta"] = 0.01
    assert "≤" not in words(render(pac_bayes))


@pytest.mark.parametrize(("floor", "order"), [(0.01, "lower than"), (0.2, "higher than"), (None, "as high as")])
def test_the_page_compares_with_the_floor(pac_bayes, floor, order):
    pac_bayes["floor"] = floor or pac_bayes["risk_bound"]
    assert f"is {order} the certificate here" in words(render(pac_bayes))


def test_commands_ask_for_what_verify_needs(hold_out):
    assert "truerisk verify DIR\n" in render(hold_out)
    hold_out["data"]["source"] = None
    hold_out["model"] = {"name": "Net", "kind": "module"}
    hold_out["settings"] |= {"prior": "none", "plans": {}, "tried": 1, "model": "Net", "model_kind": "module"}
    page = render(hold_out)
    assert "truerisk verify DIR --data FILE --model FILE.py:FACTORY\n" in page
    assert "truerisk predict DIR --data FILE --model FILE.py:FACTORY" in page
    assert "--retrain" not in page
    assert "that the network never saw the fresh examples" in page


def test_text_of_a_record_never_becomes_markup(pac_bayes):
    pac_bayes["data"] |= {"name": EVIL, "source": EVIL, "sha256": EVIL}
    pac_bayes["model"] = {"name": EVIL, "kind": EVIL}
    pac_bayes["settings"] |= {"model": EVIL, "model_kind": EVIL}
    pac_bayes["floor_detail"]["what"] = f'"{EVIL}'
    pac_bayes["breakdown"][1]["part"] = f'" onload="alert(1)" {EVIL}'
    pac_bayes["ledger"][0]["event"] = EVIL
    for name in ("warnings", "assumptions"):
        pac_bayes[name] = [EVIL]
    for name in ("sentence", "version"):
        pac_bayes[name] = EVIL
    pac_bayes["software"] = {EVIL: EVIL}
    pac_bayes["files"] = dict.fromkeys(pac_bayes["files"], EVIL)
    pac_bayes["other_forms"] = {EVIL: 0.5}
    page = render(pac_bayes)
    assert "<script" not in page
    outline = Outline(page)
    assert "script" not in outline.tags
    assert not [a for a in outline.attributes if a[1].startswith("on")]
    assert EVIL in unescape(page)


def test_nothing_is_fetched(record):
    page = render(record)
    plain = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", page)
    assert "http:" not in plain
    assert "https:" not in plain
    assert "url(" not in plain
    assert "@import" not in plain
    assert [a for a in Outline(page).attributes if a[1] in ("src", "href", "xlink:href")] == [
        ("link", "href", "data:,")
    ]


def test_headings_language_and_alternative(record):
    outline = Outline(render(record))
    levels = [int(tag[1]) for tag in outline.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert set(levels[1:]) == {2}
    assert ("html", "lang", "en") in outline.attributes
    ids = [value for _, name, value in outline.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {v for _, name, v in outline.attributes if name == "aria-labelledby"} <= set(ids)
    wide, narrow, alternative = (value for _, name, value in outline.attributes if name == "aria-label")
    assert wide == narrow == finding(scale_of(story(record)))
    for entry in record["breakdown"]:
        assert entry["part"] in alternative


def test_segments_add_up_to_the_bound(record, real):
    for each in (record, real):
        rows = segments(story(each))
        assert rows[0]["start"] == 0
        assert all(a["end"] == b["start"] for a, b in pairwise(rows))
        assert math.isclose(rows[-1]["end"], each["risk_bound"], rel_tol=1e-12)


def test_the_chart_draws_the_segments_to_scale(pac_bayes):
    svg = bound_figure(story(pac_bayes), 780)
    widths = {}
    for path, fill in re.findall(r'<path d="([^"]*)" fill="(#\w+)"', svg):
        widths[fill] = float(re.match(r"M[\d.]+,[\d.]+h([\d.]+)", path).group(1))
    assert widths.keys() == {*PARTS, FLOOR}
    scale = sum(widths[fill] for fill in PARTS) / pac_bayes["risk_bound"]
    for fill, entry in zip(PARTS, pac_bayes["breakdown"], strict=True):
        assert math.isclose(widths[fill], scale * entry["value"], rel_tol=1e-6)
    assert math.isclose(widths[FLOOR], scale * pac_bayes["floor"], rel_tol=1e-6)


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.3, 0.7], [0.9, 0.1, 0.0, -1e-17], [0.0, 1e-7, 1e-4, 0.0]])
def test_extreme_breakdowns_are_drawn(pac_bayes, values):
    for entry, value in zip(pac_bayes["breakdown"], values, strict=True):
        entry["value"] = value
    pac_bayes |= {"risk_bound": sum(values), "floor": min(sum(values), 0.9)}
    assert "NaN" not in render(pac_bayes)


def test_the_parts_on_the_page_add_up_to_the_certificate_on_the_page(record):
    check_parts(record)


def check_parts(record):
    """The table below the figure, its total, the card above and the figure's own labels say the same number."""
    page = render(record)
    table = page[page.index("Part of the certificate") :].split("</table>")[0]
    *parts, total = [Decimal(cell) for cell in re.findall(r">([\d.]+)%</td>", table)]
    assert len(parts) == len(record["breakdown"])
    assert min(parts) >= 0
    assert sum(parts) == total >= 100 * Decimal(repr(record["risk_bound"]))
    assert f"Certificate {total}%" in words(page)
    assert f"certificate: {total}%" in page
    assert f"Observed error {parts[0]}%" in words(page)  # the first part is what was observed


@pytest.mark.parametrize(("errors", "bound"), [(8, 0.0243), (1, 0.0099), (808, 1.0), (35, 0.0575)])
def test_one_number_has_one_rounding_on_a_page(hold_out, errors, bound):
    """Wherever the page shows the bound or the observed error in percent, it shows the same digits."""
    hold_out["breakdown"] = [
        {"part": "errors on the tested examples", "value": errors / 900},
        {"part": "confidence (delta)", "value": bound - errors / 900},
    ]
    hold_out |= {"risk_bound": bound, "empirical_risk": errors / 900, "empirical_risk_upper": errors / 900}
    hold_out |= {"floor": bound, "sentence": ""}
    check_parts(hold_out)


def test_every_colour_of_the_figure_follows_the_theme():
    template = importlib.resources.files("truerisk.report").joinpath("templates/style.css").read_text("utf-8")
    for colour in (*PARTS, FLOOR, INK, ON_PART):
        assert f'[fill="{colour}"]' in template


@pytest.mark.parametrize("name", ["jinja2", "altair", "vl_convert"])
def test_a_missing_extra_is_named_and_leaves_no_file(name, pac_bayes, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(TrueriskError, match=r'pip install "truerisk\[report\]"'):
        write_report(typed(pac_bayes), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_half_a_record_is_refused(pac_bayes):
    del pac_bayes["ledger"], pac_bayes["sentence"]
    with pytest.raises(TrueriskError, match="no field 'ledger'"):
        render(pac_bayes)


def test_other_methods_get_a_table(pac_bayes, hold_out):
    assert "All methods" not in render(pac_bayes)
    page = render(pac_bayes, [hold_out])
    table = page[page.index('id="methods"') :].split("</table>")[0]
    assert [name in table for name in ("pac-bayes-kl", "hold-out", "7.7%", "5.8%", "12.35")] == [True] * 5


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("progressive", ["Test blocks", "Network Examples Errors Error rate", "one of 5 networks is sampled"]),
        (
            "single-draw",
            ["log density ratio of posterior to prior at the sampled weights", "sampled once from the posterior"],
        ),
        ("description-length", ["length of the compressed network", "compression on all examples"]),
        ("pick-to-learn", ["examples are still misclassified; they count as picks", "up to 4 rounds"]),
        (
            "recursive",
            [
                "Steps of the chain",
                "Step Examples Observed error KL (nats) Bound",
                "rescaling on the KL of the last step",
            ],
        ),
        ("disagreement", ["the surrogate, a new network (hold-out)", "of 200 unlabeled inputs"]),
        ("disagreement-recursive", ["The surrogate: steps of the chain", "a new network (recursive)"]),
        ("fresh", ["an already trained network; nothing was trained here", "Examples left out 300"]),
    ],
)
def test_what_only_one_method_has_is_shown(name, told):
    kept = json.loads((KEPT / f"{name}.json").read_text())["record"] | MADE
    text = words(render(kept))
    assert [phrase for phrase in told if phrase not in text] == []


def test_neighbouring_segments_differ_in_colour(hold_out):
    parts = ["errors", "confidence (delta)", "length of 472 bits", "log density ratio of posterior and prior", "last"]
    rows = [{"part": p, "value": 0.1} for p in parts]
    colours = [s["colour"] for s in segments(story(hold_out | {"breakdown": rows}))]
    assert all(a != b for a, b in pairwise(colours))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("pac-bayes-kl", lambda r: r["counts"].pop("draws")),
        ("progressive", lambda r: r["progressive"]["blocks"][0].update(n=0)),
        ("recursive", lambda r: r["steps"].clear()),
    ],
)
def test_a_record_that_lacks_what_its_method_tells_is_refused(name, change):
    """Strictly read, and still no certificate: whoever wrote it is told to verify it."""
    kept = json.loads((KEPT / f"{name}.json").read_text())["record"] | MADE
    change(kept)
    with pytest.raises(TrueriskError, match="cannot be shown"):
        render(kept)
