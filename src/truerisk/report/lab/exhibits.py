"""Figures, tables, and images of a lesson as its page needs them: static pictures, and data for the script."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from truerisk.errors import TrueriskError
from truerisk.lab.figure import Exhibit, Figure, Images, Linked, Table
from truerisk.lab.marks import Regions
from truerisk.lab.plain import plain_texts
from truerisk.lab.result import Result
from truerisk.progress import note
from truerisk.report.figures import INK
from truerisk.report.lab.figures import WIDTHS, glyph, lab_spec, safe_name, static_svg
from truerisk.report.lab.keys import DOT, KIND, MEAN, SERIES, VALUE
from truerisk.report.lab.linked import drawables, linked_rows, linked_spec, linked_svg
from truerisk.report.lab.palette import colors, dashes, shapes
from truerisk.report.lab.png import data_uri
from truerisk.report.lab.rows import Drawable, drawable, panelled
from truerisk.report.lab.words import table

CARD = 540  # pixels: a hero with panels on a card of the index; narrower paper would stack them
STATIC = (820, 350)  # pixels: drawn for readers without JavaScript, on a screen and on a phone


@dataclass
class Shown:
    """All exhibits of a page in order, the hero apart, and what the script needs to draw its figures."""

    hero: dict[str, Any] | None = None
    pictures: list[dict[str, Any]] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    live: list[dict[str, Any]] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)  # what could not be drawn, and why

    @property
    def numbered(self) -> list[dict[str, Any]]:
        return [*([self.hero] if self.hero else []), *self.pictures, *self.figures]

    def figure_of(self, claim: str) -> dict[str, Any] | None:
        """The first figure that shows a claim."""
        return next((each for each in self.numbered if claim in each["claims"]), None)


def shown(result: Result) -> Shown:
    """Everything that the lesson of an experiment shows. A slip in a figure must not cost the page."""
    lesson = result.experiment.lesson
    found = Shown()
    if lesson is None:
        return found
    if result.demo_failed:
        found.trouble.append(f"the pictures could not be made ({result.demo_failed})")
    figures = _made(found, "figures", lambda: _exhibits(lesson.figures(result.rows)))
    pictures = lesson.pictures
    demo = dict(result.demo) if result.demo is not None else None
    made = (
        _made(found, "pictures", lambda: _exhibits(pictures(demo))) if pictures is not None and demo is not None else []
    )
    names: set[str] = set()
    hero = lesson.hero or next((each.name for each in figures if isinstance(each, Figure)), "")
    if lesson.hero and not found.trouble and lesson.hero not in [each.name for each in (*made, *figures)]:
        found.trouble.append(f"no exhibit is named {lesson.hero}, which is the hero of the lesson; correct its name")
    for exhibit, place in [(each, found.pictures) for each in made] + [(each, found.figures) for each in figures]:
        drawn = _made(found, exhibit.name, lambda one=exhibit: [_exhibit(result, one, one.name == hero, names, found)])
        for each in drawn:
            if exhibit.name == hero and each["kind"] == "figure" and each["wide"]:
                found.hero = each
            elif each["kind"] == "table":
                found.tables.append(each)
            else:
                place.append(each)
    for number, each in enumerate(found.numbered, 1):
        each["number"] = number
    found.live.sort(key=lambda one: one["name"] != hero)
    for told in found.trouble:
        note(f"{result.experiment.name}: {told}")
    return found


def _exhibits(made: Any) -> list[Exhibit]:
    """What figures or pictures returned; one of another kind is refused."""
    every = list(made)
    wrong = next((each for each in every if not isinstance(each, Exhibit)), None)
    if wrong is not None:
        raise TrueriskError(
            f"an exhibit is a {type(wrong).__name__}; return a list of Figure, Linked, Table, or Images"
        )
    for each in every:
        plain_texts(each, each.name, "title", "caption")
    return every


def _made(found: Shown, what: str, make: Any) -> list[Any]:
    try:
        return list(make())
    except Exception as error:
        kind = "" if isinstance(error, TrueriskError) else f"{type(error).__name__}: "
        found.trouble.append(f"{what} could not be drawn ({kind}{str(error).rstrip('.')})")
        return []


def _exhibit(result: Result, exhibit: Exhibit, hero: bool, names: set[str], found: Shown) -> dict[str, Any]:
    """What the template needs of one exhibit; a figure also leaves what the script needs."""
    name = safe_name(exhibit.name)
    if name in names:
        raise TrueriskError(f"two exhibits of {result.experiment.name} are named {name}; rename one.")
    names.add(name)
    common = {"name": name, "title": exhibit.title, "caption": exhibit.caption, "note": ""}
    if isinstance(exhibit, Table):
        return {"kind": "table", "claims": (), **common, **table(exhibit)}
    claims = _claims(result, exhibit)
    if isinstance(exhibit, Images):
        strips = [
            {"label": strip.label, "tiles": [
                {"src": data_uri(tile.pixels), "under": tile.under, "wrong": tile.wrong} for tile in strip.tiles]}
            for strip in exhibit.strips if strip.tiles
        ]  # fmt: skip
        return {"kind": "images", "claims": claims, **common, "strips": strips}
    if isinstance(exhibit, Linked):
        several = drawables(exhibit)
        figure = {"kind": "figure", "claims": claims, **common, **_linked(exhibit, several, hero)}
        live = _linked_script(exhibit, several, hero) if several else {}
    else:
        drawn = drawable(exhibit)
        figure = {"kind": "figure", "claims": claims, **common, **_figure(exhibit, drawn, hero)}
        live = _script(exhibit, drawn, hero) if drawn.rows else {}
    if live:  # last: the script finds no place for a figure that could not be made
        file_name = f"{safe_name(result.experiment.name)}-{name}"
        found.live.append({"name": name, "file_name": file_name, **live})
    return figure


def _claims(result: Result, exhibit: Figure | Linked | Images) -> tuple[str, ...]:
    """The claims that it shows, of those that speak at this scale; a name that no claim has is refused."""
    known = {claim.name for claim in result.experiment.claims}
    unknown = next((name for name in exhibit.claims if name not in known), None)
    if unknown is not None:
        raise TrueriskError(f"{exhibit.name} shows the claim {unknown!r}; there are {', '.join(sorted(known))}.")
    speaking = {verdict.claim.name for verdict in result.verdicts}
    return tuple(name for name in exhibit.claims if name in speaking)


def _figure(figure: Figure, drawn: Drawable, hero: bool) -> dict[str, Any]:
    wide, narrow = "", ""
    left_out = " ".join(filter(None, [
        _not_drawn(drawn.left_out, "a logarithmic axis has no place for 0 and below"),
        _not_drawn(drawn.unfit, "they have text or infinity where a number must be")]))  # fmt: skip
    if drawn.rows:
        wide, narrow = (static_svg(figure, drawn, width, hero) for width in STATIC)
    caption = " ".join(filter(None, [figure.caption, drawn.sentence]))
    slides = _controls(figure, drawn)
    card = static_svg(figure, drawn, CARD if figure.facet else STATIC[1], hero) if hero and drawn.rows else ""
    return {"caption": caption, "note": left_out, "wide": wide, "narrow": narrow, "card": card, **slides}


def _controls(figure: Figure, drawn: Drawable) -> dict[str, Any]:
    """The slider and the switches above a figure."""
    title = figure.slider.title if figure.slider else "seen from"
    switches = [asdict(switch) for switch in figure.switches]
    at = drawn.start % max(1, len(drawn.slides))
    return {"slides": drawn.slides, "slider": title, "at": at, "switches": switches}


def _linked(linked: Linked, drawn: list[Drawable], hero: bool) -> dict[str, Any]:
    if not drawn:
        return {"wide": "", "narrow": "", "card": ""}
    wide, narrow, card = (linked_svg(linked, drawn, width, hero) for width in (*STATIC, CARD))
    caption = " ".join(filter(None, [linked.caption, *dict.fromkeys(each.sentence for each in drawn)]))
    return {"caption": caption, "wide": wide, "narrow": narrow, "card": card, **_controls(linked.figures[0], drawn[0])}


def _not_drawn(points: int, why: str) -> str:
    return f"{points:,} {'point is' if points == 1 else 'points are'} not drawn: {why}." if points else ""


def _script(figure: Figure, drawn: Drawable, hero: bool) -> dict[str, Any]:
    return {
        "legend": _legend(figure, drawn),
        "legend_title": figure.series_title or (figure.mark.title if isinstance(figure.mark, Regions) else ""),
        "clickable": figure.series is not None and len(drawn.values(SERIES)) > 1,
        **_controls(figure, drawn),
        "columns": [asdict(column) for column in drawn.columns],
        "rows": drawn.rows,
        "layouts": [
            {"width": width, "spec": (spec := lab_spec(figure, drawn, width, "page", hero)), "named": _named(spec)}
            for width in WIDTHS
        ],
        "file": lab_spec(figure, drawn, WIDTHS[-1], "file"),
    }


def _linked_script(linked: Linked, drawn: list[Drawable], hero: bool) -> dict[str, Any]:
    """What the script needs of linked figures: as of one figure, with the columns of each panel."""
    entries = {e["name"]: e for figure, each in zip(linked.figures, drawn, strict=True) for e in _legend(figure, each)}
    series = [figure for figure in linked.figures if figure.series]
    return {
        "legend": list(entries.values()),
        "legend_title": series[0].series_title if series else "",
        "clickable": bool(series) and len(entries) > 1,
        **_controls(linked.figures[0], drawn[0]),
        "panels": [
            {"title": figure.title, "columns": [asdict(column) for column in each.columns]}
            for figure, each in zip(linked.figures, drawn, strict=True)
        ],
        "rows": linked_rows(drawn),
        "layouts": [
            {"width": width, "spec": linked_spec(linked, drawn, width, "page", hero), "named": False}
            for width in WIDTHS
        ],
        "file": linked_spec(linked, drawn, WIDTHS[-1], "file"),
    }


def _named(spec: dict[str, Any]) -> bool:
    """Whether lines carry their names, so that no legend is needed."""
    layers = spec.get("layer", [])
    return any(layer["mark"]["type"] == "text" and layer["mark"].get("fontWeight") == 600 for layer in layers)


def _legend(figure: Figure, drawn: Drawable) -> list[dict[str, Any]]:
    """Each series as it is drawn: its name, color, dash, shape, and kind of glyph."""
    figure = panelled(figure)
    names = drawn.values(SERIES) if figure.series else []
    if not names and not drawn.numbers(VALUE):
        names = sorted({row[VALUE] for row in drawn.rows if row[KIND] == MEAN and VALUE in row})
    names = names if len(names) > 1 else []
    looks = zip(names, colors(len(names), drawn.ordered), dashes(len(names)), shapes(len(names)), strict=True)
    kind = glyph(figure)
    entries = [{"name": n, "color": c, "dash": d, "shape": s, "glyph": kind} for n, c, d, s in looks]
    lines = {row.get(SERIES) for row in drawn.of(MEAN)}
    for entry in entries:
        if figure.series and entry["name"] not in lines:  # only dots are of this series
            entry |= {"glyph": "point", "shape": "circle"}
    if figure.dots_title and drawn.of(DOT):
        entries.append({"name": figure.dots_title, "color": INK, "dash": [], "shape": "circle", "glyph": "dot"})
    return entries


def first_svg(page: Shown) -> str:
    """The hero as a small SVG file, for the cards of the index."""
    return str(page.hero["card"]) if page.hero else ""
