"""The page of a walk along an orbit: the KL changes, the function stays."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from truerisk.atomic import write_atomically
from truerisk.errors import TrueriskError
from truerisk.pacbayes import Chain, Step
from truerisk.pacbayes.chain import estimated
from truerisk.report.certificate import NARROW, WIDE, templates
from truerisk.report.extra import extra
from truerisk.report.figures import AXES, FLOOR, INK, PARTS
from truerisk.report.labels import apart, text_width
from truerisk.words import at_most, nats, seen

HEIGHT, LOW_HEIGHT = 320, 96  # pixels: of the KL, of the change of the outputs
LINE_COLOURS = (PARTS[0], PARTS[2])  # of the walks, in the order in which they come
LABEL_SIZE, LABEL_HEIGHT = 13, 18
LEADER = 22  # pixels from the end of a horizontal line to its label
LIFTED = "lifted"
EDGE = 0.06  # of the KL's axis: room below the smallest number
BEYOND = 0.45  # and above the original: how much of a steep walk is shown
SMALLEST, LARGEST = 1e-17, 1e-12  # relative changes: the axis holds these at least


def write_orbit(
    path: str | Path, steps: Sequence[Step], chain: Chain, facts: Mapping[str, str], command: str = ""
) -> Path:
    """Write the page of a walk to ``path``: one file that needs nothing else.

    ``steps`` are of one walk or two: the straight one from the weights as they were through the optimum, and
    another through the optimum. ``facts`` says how they were made, ``command`` makes the page again.
    """
    path = Path(path)
    write_atomically(path, render_orbit(steps, chain, facts, command).encode())
    return path


def render_orbit(steps: Sequence[Step], chain: Chain, facts: Mapping[str, str], command: str = "") -> str:
    """The page as HTML. All text is escaped."""
    _check(steps, chain)
    page: str = (
        templates()
        .get_template("orbit.html.j2")
        .render(
            before=nats(chain.original),
            after=nats(chain.rescaled),
            figure=_figure(steps, chain),
            chain=_chain(chain),
            saved=[_saved(chain, kl) for kl in (chain.rescaled, chain.tuned_scale, chain.both)],
            lifted=chain.lifted is not None,
            lifted_note=chain.lifted_note,
            facts=facts,
            command=command,
        )
    )
    return page


def _check(steps: Sequence[Step], chain: Chain) -> None:
    lines = {step.line for step in steps}
    if not 1 <= len(lines) <= len(LINE_COLOURS):
        raise TrueriskError(f"the page shows one walk or two, not {len(lines)}; give their steps.")
    numbers = [number for step in steps for number in (step.at, step.kl, step.change)]
    numbers += [chain.original, chain.tuned_scale, chain.rescaled, chain.both]
    if not all(map(math.isfinite, numbers)):
        raise TrueriskError("a number of the walk is not finite: its log-scales go too far.")


def _figure(steps: Sequence[Step], chain: Chain) -> dict[str, Any]:
    largest = at_most(max(step.change for step in steps))
    low, high = nats(min(step.kl for step in steps), down=True), nats(max(step.kl for step in steps))
    lines = list(dict.fromkeys(step.line for step in steps))
    return {
        "wide": orbit_figure(steps, chain, WIDE),
        "narrow": orbit_figure(steps, chain, NARROW),
        "alternative": f"Along the orbit the KL is between {low} and {high} nats, and smallest at the optimum; the "
        f"outputs change by at most {largest} of the largest one.",
        "lines": [{"name": line, "colour": PARTS.index(c)} for line, c in zip(lines, LINE_COLOURS, strict=False)],
        "places": f"{len(steps):,}",
        "low": low,
        "high": high,
        "largest": largest,
    }


def _chain(chain: Chain) -> list[dict[str, str]]:
    """Each KL with its meaning: the chain from the largest member down, then the prior with another scale."""
    rows = [
        ("As trained", chain.original, "The posterior and the prior as they are."),
        (
            "Optimally rescaled",
            chain.rescaled,
            "The smallest KL on the orbit. A certificate may use it as it stands: rescaling uses no delta.",
        ),
    ]
    if chain.lifted is not None:
        meaning = (
            "The KL between the laws of the orbits themselves. No rescaling of this prior gets below it, so it says "
            f"how much is left. {_sentence(estimated(chain.lifted))} {chain.lifted.how} It enters no certificate."
        )
        rows.append((LIFTED.capitalize(), chain.lifted.value, meaning))
    rows += [
        (
            "Prior scale tuned",
            chain.tuned_scale,
            "All standard deviations of the prior times one factor, the best one. It is chosen after the posterior is "
            "known, so delta would have to cover the choice.",
        ),
        ("Both", chain.both, "The best rescaling and the best factor together. Delta would have to cover the factor."),
    ]
    return [{"name": name, "value": _nats(name, value), "meaning": meaning} for name, value, meaning in rows]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _nats(name: str, value: float) -> str:
    """Rounded up, but the lifted KL down: no rescaling gets below it."""
    return nats(value, down=name.lower() == LIFTED)


def _saved(chain: Chain, kl: float) -> str:
    return f"{seen(100 * chain.saved(kl), 0)}%"


def orbit_figure(steps: Sequence[Step], chain: Chain, width: int) -> str:
    """An SVG element: the KL along the walks, and below it the change of the outputs.

    Panels and labels are ``width`` pixels wide. Labels stand beside the panels; narrow figures leave the numbers to the
    table of the page.
    """
    alt = extra("altair")
    extra("vl_convert")
    lines = list(dict.fromkeys(step.line for step in steps))
    rows = [{**vars(step), "colour": LINE_COLOURS[lines.index(step.line)]} for step in steps]
    walked = alt.Chart(alt.Data(values=rows)).encode(color=alt.Color("colour:N", scale=None))
    ends = [min(step.at for step in steps), max(step.at for step in steps)]
    places = {"values": list(range(math.ceil(ends[0]), math.floor(ends[1]) + 1)), "format": "d", "ticks": False}
    scale = alt.Scale(domain=ends, nice=False)
    above = alt.X("at:Q", scale=scale, axis=alt.Axis(title=None, labels=False, **places))
    title = "steps from the optimum (\u22121: as trained)"
    below = alt.X("at:Q", scale=scale, axis=alt.Axis(title=title, **places))
    levels = _levels(chain, *_kl_range(steps, chain), numbers=width > NARROW)
    inner = _inner(levels, width)
    upper = _kl_panel(alt, walked, above, steps, chain, levels, width).properties(width=inner, height=HEIGHT)
    lower = _change_panel(alt, walked, below, steps).properties(width=inner, height=LOW_HEIGHT)
    chart = alt.vconcat(upper, lower, spacing=18).properties(
        background="transparent", padding={"left": 12, "right": 4, "top": 2, "bottom": 2}
    )
    svg = io.StringIO()
    chart.configure(aria=False, axis=AXES, view={"stroke": None}).save(svg, format="svg")
    return svg.getvalue()


def _kl_panel(
    alt: Any, walked: Any, at: Any, steps: Sequence[Step], chain: Chain, rows: Sequence[dict[str, Any]], full: int
) -> Any:
    width = _inner(rows, full)
    y = alt.Scale(domain=list(_kl_range(steps, chain)), nice=False, zero=False)
    kl = alt.Y("kl:Q", scale=y, axis=alt.Axis(title=None, tickCount=5, format=",~r", ticks=False))
    walks = walked.mark_line(clip=True, strokeWidth=2.5, interpolate="monotone").encode(x=at, y=kl, detail="line:N")
    levels = alt.Chart(alt.Data(values=rows))
    colour = alt.Color("colour:N", scale=None)
    rules = levels.mark_rule(strokeWidth=1.5, strokeDash=[5, 4]).encode(y=kl, color=colour)
    leaders = levels.mark_rule(strokeWidth=1.5).encode(
        x=alt.value(width + 2), x2=alt.value(width + LEADER - 4), y=kl, y2="label_at:Q", color=colour
    )
    names = levels.mark_text(fontSize=LABEL_SIZE, color=INK, align="left", baseline="middle").encode(
        x=alt.value(width + LEADER), y=alt.Y("label_at:Q", scale=y), text="label:N"
    )
    marks = [{"at": -1.0, "kl": chain.original}, {"at": 0.0, "kl": chain.rescaled}]
    points = alt.Chart(alt.Data(values=marks)).mark_point(filled=True, size=80, color=INK, opacity=1, clip=True)
    title = _title(alt, "KL(posterior, prior) in nats")
    room = alt.Chart(alt.Data(values=[{}])).mark_rule(opacity=0)  # the browser's letters may be wider than ours
    room = room.encode(x=alt.value(0), x2=alt.value(full), y=alt.value(0))
    return alt.layer(rules, walks, points.encode(x=at, y=kl), leaders, names, room).properties(title=title)


def _inner(levels: Sequence[dict[str, Any]], width: int) -> float:
    """The width of the panels, beside which the labels stand."""
    return width - LEADER - max(text_width(level["label"], LABEL_SIZE) for level in levels)


def _change_panel(alt: Any, walked: Any, at: Any, steps: Sequence[Step]) -> Any:
    top = max([LARGEST, *(10.0 ** math.ceil(math.log10(step.change)) for step in steps if step.change)])
    powers = [10.0**k for k in range(-16, math.floor(math.log10(top)) + 1, 2)]
    change = alt.Y(
        "change:Q",
        scale=alt.Scale(type="log", domain=[SMALLEST, top], nice=False),
        axis=alt.Axis(title=None, values=powers, format="~e", ticks=False),
    )
    positive = alt.datum.change >= SMALLEST  # an exact 0 has no logarithm
    moved = walked.transform_filter(positive).mark_point(filled=True, size=16, opacity=1)
    return moved.encode(x=at, y=change).properties(title=_title(alt, "largest change of an output, relative"))


def _title(alt: Any, text: str) -> Any:
    return alt.TitleParams(text, anchor="start", frame="group", fontSize=14, fontWeight=600, color=INK, offset=8)


def _kl_range(steps: Sequence[Step], chain: Chain) -> tuple[float, float]:
    """From a little below the smallest number to a good way above the original, however steep the walks are."""
    bottom = min(value for _, value, _ in _named(chain))
    top = chain.original + BEYOND * (chain.original - bottom)
    if not top > bottom:  # nothing to gain: show the walks
        top = max(bottom + 1.0, *(step.kl for step in steps))
    return bottom - EDGE * (top - bottom), top


def _named(chain: Chain) -> list[tuple[str, float, str]]:
    """The members of the chain: name, value, colour."""
    lifted = [] if chain.lifted is None else [(LIFTED, chain.lifted.value, FLOOR)]
    return [
        ("as trained", chain.original, INK),
        ("scale tuned", chain.tuned_scale, PARTS[1]),
        ("rescaled", chain.rescaled, INK),
        ("both", chain.both, PARTS[3]),
        *lifted,
    ]


def _levels(chain: Chain, low: float, high: float, numbers: bool = True) -> list[dict[str, Any]]:
    """The horizontal lines from the highest down, with places for their labels that keep apart."""
    levels = sorted(_named(chain), key=lambda level: -level[1])
    unit = (high - low) / HEIGHT  # of the KL, for a pixel
    places = apart([(high - value) / unit for _, value, _ in levels], LABEL_HEIGHT, 0, HEIGHT)
    return [
        {
            "kl": value,
            "colour": colour,
            "label": f"{name} {_nats(name, value)}" if numbers else name,
            "label_at": high - place * unit,
        }
        for (name, value, colour), place in zip(levels, places, strict=True)
    ]
