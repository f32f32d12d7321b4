"""The figure of a walk along the orbit: the bound and the KL change, the outputs do not. Drawn by hand as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from truerisk.pacbayes.columns import COLUMNS
from truerisk.pacbayes.rescaling import RescalingReport, Walked
from truerisk.pacbayes.rescaling_words import FORM_NAMES, number
from truerisk.report.labels import apart
from truerisk.report.svg import dot, line, power, svg, text
from truerisk.report.tighten_figures import LINE, PHONE, SIZE, Axis, diamond, frame, spread
from truerisk.words import nats

BEYOND, EDGE = 0.45, 0.08  # of an axis: room above the original, below the smallest number
SMALLEST, LARGEST = 1e-17, 1e-12  # relative changes: the axis holds these at least
HIGH, MIDDLE, LOW = 190, 130, 80  # pixels: the panels
GAP = 44  # between two panels: a title and some air
KINDS = ("through", "aside")  # classes of the two walks


def walk_figure(report: RescalingReport, walked: Walked, width: int, key: str) -> str:
    """Three panels over the place on the line: the bound, the KL, the change of outputs. ``key`` names their clips."""
    phone = width < PHONE
    left, right = (62, width - 66) if phone else (74, width - 128)
    steps = walked.steps
    low, high = min(step.at for step in steps), max(step.at for step in steps)

    def x(at: float) -> float:
        return left + (right - left) * (at - low) / (high - low)

    top = 26.0
    bound = _axis(list(report.bound.values()), report.bound["original"], top, top + HIGH, including=1.0)
    parts = [text(0, top - 10, f"{FORM_NAMES[report.form]} bound", "strong", size=SIZE)]
    parts += [*frame(bound, left, right), *_levels(report.bound, bound, left, right, number, not phone)]
    parts += _curves(walked, walked.bounds, bound, x, f"{key}-bound")
    parts += [
        dot(x(-1), bound(report.bound["original"]), "original"),
        diamond(x(0), bound(report.bound["rescaled"]), "rescaled"),
    ]
    top += HIGH + GAP
    kl = _axis(list(report.kl.values()), report.kl["original"], top, top + MIDDLE)
    parts += [text(0, top - 10, "KL(posterior, prior) in nats", "strong", size=SIZE), *_grid(kl, left, right)]
    parts += _curves(walked, [step.kl for step in steps], kl, x, f"{key}-kl")
    parts += [dot(x(-1), kl(report.kl["original"]), "original"), diamond(x(0), kl(report.kl["rescaled"]), "rescaled")]
    parts += _ends(report, kl, right, phone)
    top += MIDDLE + GAP + 8
    title = "relative change of outputs" if phone else "largest change of an output, relative to the largest output"
    parts.append(text(0, top - 14, title, "strong", size=SIZE))
    parts += _changes(walked, top, left, right, x)
    bottom = top + LOW
    for at, words in ((-1, "\u22121"), (0, "0"), (1, "1")):
        parts.append(text(x(at), bottom + 18, words, "soft", anchor="middle", size=SIZE))
    title = "steps from the best rescaling (\u22121: the network as given)"
    parts.append(text(left if not phone else 0, bottom + 38, title, "soft", size=SIZE - phone))
    return svg(parts, width, bottom + 46)


def _axis(values: Sequence[float], original: float, top: float, bottom: float, including: float | None = None) -> Axis:
    """From a little below the smallest number to a good way above the original, however steep the walks are."""
    finite = [value for value in values if math.isfinite(value)] or [1.0]
    low = min(finite)
    high = (original if math.isfinite(original) else max(finite)) + BEYOND * (max(finite) - low)
    if including is not None:
        low, high = min(low, including), max(high, including * 1.04)
    room = EDGE * (high - low) or 0.1 * abs(high) or 1.0
    return Axis(max(0.0, low - room), high + room * (high == low), top, bottom)


def _grid(axis: Axis, left: float, right: float) -> list[str]:
    parts = []
    for value, words in axis.ticks(5):
        parts += [
            line(left, axis(value), right, axis(value), "grid"),
            text(left - 7, axis(value) + 4.5, words, "soft", anchor="end", size=SIZE - 1),
        ]
    return parts


def _curves(walked: Walked, values: Sequence[float], axis: Axis, x: Callable[[float], float], key: str) -> list[str]:
    """The two walks; what is beyond the axis is cut."""
    names = list(dict.fromkeys(step.line for step in walked.steps))
    left, right = x(min(step.at for step in walked.steps)), x(max(step.at for step in walked.steps))
    clip = f'<clipPath id="{key}"><rect x="{left:.1f}" y="{axis.top:.1f}" width="{right - left:.1f}" '
    parts = [f'{clip}height="{axis.bottom - axis.top + 2:.1f}"/></clipPath>']
    high = axis.bottom - 20 * (axis.bottom - axis.top)  # far above the axis: steep walks leave it at the right angle
    for name, kind in zip(reversed(names), reversed(KINDS[: len(names)]), strict=True):
        points = [
            f"{x(step.at):.1f},{max(high, _beyond(axis, value)):.1f}"
            for step, value in zip(walked.steps, values, strict=True)
            if step.line == name
        ]
        parts.append(f'<path class="walk {kind}" clip-path="url(#{key})" d="M{"L".join(points)}"/>')
    return parts


def _beyond(axis: Axis, value: float) -> float:
    """A place that may lie outside of the axis."""
    if not math.isfinite(value):
        return -math.inf
    return axis.bottom - (axis.bottom - axis.top) * (value - axis.low) / (axis.high - axis.low)


def _levels(
    values: Mapping[str, float], axis: Axis, left: float, right: float, words: Callable[[float], str], numbers: bool
) -> list[str]:
    """A dashed line for each column, with its name at the right."""
    parts = []
    for each, at, place in spread(values, COLUMNS, axis, LINE):
        label = f"{each} {words(values[each])}" if numbers else each
        parts += [
            line(left, at, right, at, f"level {each}"),
            line(right + 2, at, right + 9, place, "leader"),
            text(right + 12, place + 4.5, label, "", size=SIZE),
        ]
    return parts


def _ends(report: RescalingReport, axis: Axis, right: float, phone: bool) -> list[str]:
    """The KL as given and at the best rescaling, at the right."""
    pairs = sorted(("original", "rescaled"), key=lambda each: axis(report.kl[each]))
    wanted = [axis(report.kl[each]) for each in pairs]
    parts = []
    for each, at, place in zip(pairs, wanted, apart(wanted, LINE, axis.top + 6, axis.bottom - 4), strict=True):
        parts += [
            line(right + 2, at, right + 9, place, "leader"),
            text(right + 12, place + 4.5, each if phone else nats(report.kl[each]), "", size=SIZE),
        ]
    return parts


def _changes(walked: Walked, top: float, left: float, right: float, x: Callable[[float], float]) -> list[str]:
    """Dots on a logarithmic axis; a change of exactly 0 has no place there."""
    most = max(LARGEST, *(step.change for step in walked.steps))
    axis = Axis(SMALLEST, 10.0 ** math.ceil(math.log10(most)), top, top + LOW, log=True)
    parts = []
    for exponent in range(-16, math.floor(math.log10(axis.high)) + 1, 2 if axis.high <= 1e-8 else 4):
        at = axis(10.0**exponent)
        parts += [
            line(left, at, right, at, "grid"),
            text(left - 7, at + 4.5, power(exponent), "soft", anchor="end", size=SIZE - 1),
        ]
    names = list(dict.fromkeys(step.line for step in walked.steps))
    for step in walked.steps:
        if step.change >= SMALLEST:
            parts.append(dot(x(step.at), axis(step.change), f"step {KINDS[names.index(step.line)]}", 2.2))
    return parts
