"""The three figures of the tour, drawn by hand as SVG: no library, no script, colors from the page's style sheet.

Each is drawn for a width in pixels, so that letters keep their size on a phone. Text is placed from an estimate of its
width; labels that would meet are moved apart.
"""

from __future__ import annotations

import math
from html import escape

from truerisk.report.labels import apart
from truerisk.tours.costs import Costs
from truerisk.tours.costs_words import bound_text
from truerisk.tours.labels import Labels, Network
from truerisk.tours.labels_words import interval
from truerisk.tours.numbers import TIMES, power_text, seen, times_text, upper
from truerisk.tours.twin import Twin

LETTER = 8.0  # pixels of an average bold letter, on the safe side
PHONE = 500  # pixels: narrower figures have shorter labels
PAD = 12  # beside the axis, so that its first and last number are not cut
LABEL = 19  # pixels between the labels of two slopes


def labels_figure(found: Labels, width: int) -> str:
    """Act 1: one axis of error from 0 to 100%, two networks, their training error and their certified interval."""
    left, right = PAD, width - PAD
    known = found.apart and found.learned and found.fitted
    rows = [
        (f"Trained on true labels{': learned' if known else ''}", found.true_labels, 0, found.true_chance),
        (f"Trained on random labels{': memorized' if known else ''}", found.random_labels, 3, found.chance),
    ]
    top, row = 32, 92
    bottom = top + row * len(rows)
    parts = _axis(left, right, top - 8, bottom)
    x = _scale(left, right)
    same = rows[0][3] == rows[1][3]
    for i, (title, network, color, chance) in enumerate(rows):
        y = top + i * row
        first = i == 0
        if first:
            parts.append(_line(x(chance), y - 10, x(chance), y, "chance"))
        parts.append(_line(x(chance), y + 22, x(chance), y + row, "chance"))  # not through the title
        if first or not same:
            word = "guessing" if found.chance == chance else "always the most common class"
            end = "end" if chance > 0.5 else ""
            place = (x(chance), 14) if first else (x(chance) + (-6 if end else 6), y + 16)
            parts.append(_text(*place, f"{word}: {seen(chance)}", "soft halo", end))
        parts += _network(title, network, color, y, x, left, right)
    title = "error: share of examples misclassified" + ("" if width < PHONE else " (left is better)")
    return _svg(width, bottom + 50, [*parts, _text(width / 2, bottom + 40, title, "soft", "middle")])


def _network(title: str, network: Network, color: int, y: float, x: _Scale, left: float, right: float) -> list[str]:
    dot, start, end = x(network.train_error), x(network.risk_lower), x(network.risk_upper)
    lane, low = y + 38, y + 67
    wide = max(end - start, 3.0)
    parts = [_text(left, y + 16, title, "strong halo")]
    parts += [
        f'<circle class="dot" cx="{dot:.1f}" cy="{lane:.1f}" r="6"/>',
        _text(
            dot + 14,
            lane + 4.5,
            f"errs on {seen(network.train_error)} of its {network.n_train:,} training examples",
            "halo",
        )
        if dot < (left + right) / 2
        else _text(dot - 14, lane + 4.5, f"errs on {seen(network.train_error)} of its training examples", "", "end"),
        f'<rect class="fill-{color}" x="{start:.1f}" y="{low - 9:.1f}" width="{wide:.1f}" height="18" rx="2"/>',
    ]
    told = interval(network)
    full = f"unseen examples: {told}" if right < PHONE else f"certified: errs on {told} of unseen examples"
    for label in (full, f"unseen examples: {told}", told):  # the first that fits on one side of the bar
        if end + 10 + LETTER * len(label) < right:
            return [*parts, _text(end + 10, low + 4.5, label, "strong halo")]
        if start - 10 - LETTER * len(label) > 0:
            break
    return [*parts, _text(start - 10, low + 4.5, label, "strong halo", "end")]


def twin_figure(twin: Twin, width: int) -> str:
    """Act 2: for each number, a line from 1 (as trained) to its ratio in the twin; the axis is logarithmic."""
    moves = sorted(twin.moves, key=lambda move: (-math.log10(move.ratio), move.moved))
    logs = [math.log10(move.ratio) if move.moved else 0.0 for move in moves]
    low, high = min([0.0, *logs]), max([1.0, *logs])
    low, high = math.floor(low - 1e-9) if low < 0 else 0, math.ceil(high)
    top, height = 44, max(190, LABEL * len(moves) + 40)
    phone = width < PHONE
    room, left = (172, 58) if phone else (250, 62)  # for the labels at the right end, for the axis at the left one
    right = width - room - 26
    level = [move for move in moves if not move.moved]

    def y(log: float) -> float:
        return top + height * (high - log) / (high - low)

    parts = [
        _text(left, 18, "as trained", "strong", "middle"),
        _text(right - 36, 18, "rescaled twin", "strong")
        if phone
        else _text(right, 18, "rescaled twin", "strong", "middle"),
    ]
    step = max(1, math.ceil((high - low) / 5))
    for power in range(low, high + 1, step):
        parts += [
            _line(left, y(power), right, y(power), "grid"),
            _text(left - 8, y(power) + 4.5, power_text(power), "soft", "end"),
        ]
    ends = [y(log) for log in logs]
    places = apart(ends, LABEL, 30, top + height + LABEL * len(level) / 2)
    for move, end, place in zip(moves, ends, places, strict=True):
        color, near = "3" if move.moved else "2", right + 5
        factor = times_text(move.ratio) if move.moved else f"{TIMES} 1" if phone else "unchanged"
        parts += [
            f'<polyline class="slope line-{color}" points="{left},{y(0):.1f} {right},{end:.1f}"/>',
            f'<circle class="fill-{color}" cx="{right}" cy="{end:.1f}" r="4"/>',
            f'<polyline class="leader" points="{near},{end:.1f} {right + 14},{place:.1f} {right + 20},{place:.1f}"/>',
            _text(right + 24, place + 4.5, f"{move.name} {factor}", "text-3" if move.moved else "text-2"),
        ]
    parts.append(f'<circle class="dot" cx="{left}" cy="{y(0):.1f}" r="5"/>')
    bottom = max(top + height, places[-1] if places else 0) + 34
    keys = [("3", "moves, although every output stays"), ("2", "stays, like the function")]
    for i, (color, text) in enumerate(keys):
        at, line = (PAD, bottom + 20 * i) if phone else (left + 290 * i, bottom)
        parts += [
            f'<circle class="fill-{color}" cx="{at + 5}" cy="{line - 4.5:.1f}" r="5"/>',
            _text(at + 16, line, text, ""),
        ]
    return _svg(width, bottom + (30 if phone else 10), parts)


def costs_figure(costs: Costs, width: int) -> str:
    """Act 3: one bar for each method, smallest first; those that say nothing are hatched."""
    ranked, left, right = costs.ranked, PAD, width - PAD
    top, row = 40, 52
    bottom = top + row * len(ranked)
    x, hatch = _scale(left, right), f"hatch-{width}"
    parts = [
        f'<defs><pattern id="{hatch}" width="7" height="7" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="7"/></pattern></defs>',
        *_axis(left, right, top - 8, bottom),
    ]
    baseline = costs.baseline
    if baseline is not None:
        at = x(baseline)
        parts += [
            _line(at, top - 18, at, top - 2, "chance"),
            _text(at, 16, f"hold-out baseline: {upper(baseline)}", "soft", "" if baseline < 0.5 else "end"),
        ]
    for i, each in enumerate(ranked):
        y, end = top + i * row, x(min(1.0, each.bound or 0.0))
        value, size = bound_text(each), end - left
        fill = f'style="fill:url(#{hatch})"' if each.vacuous else f'class="fill-{0 if each.bound == baseline else 2}"'
        parts += [
            _text(left, y + 14, f"{each.title}{' (default)' if each.name == costs.default else ''}", "halo"),
            f'<rect {fill} x="{left}" y="{y + 21}" width="{size:.1f}" height="18" rx="2"/>',
            ""
            if baseline is None
            else _line(x(baseline), y + 17, x(baseline), y + 45, "chance"),  # not through the title
            _text(end + 8, y + 35, value, "strong halo")
            if end + 8 + LETTER * len(value) < right
            else _text(end - 8, y + 35, value, "strong halo", "end"),
        ]
    title = "certified error at most" + (": shorter is better" if width < PHONE else " (a shorter bar is better)")
    return _svg(width, bottom + 50, [*parts, _text(width / 2, bottom + 40, title, "soft", "middle")])


# ---- pieces ------------------------------------------------------------------------------------------------------


class _Scale:
    """From an error rate to a place."""

    def __init__(self, left: float, right: float) -> None:
        self.left, self.right = left, right

    def __call__(self, rate: float) -> float:
        return self.left + (self.right - self.left) * rate


def _scale(left: float, right: float) -> _Scale:
    return _Scale(left, right)


def _axis(left: float, right: float, top: float, bottom: float) -> list[str]:
    """Percent from 0 to 100, with the unit in words under the middle."""
    x, parts = _scale(left, right), []
    for percent in (0, 25, 50, 75, 100):
        at = x(percent / 100)
        anchor = "" if percent == 0 else "end" if percent == 100 else "middle"
        shift = -PAD / 2 if percent == 0 else PAD / 2 if percent == 100 else 0
        parts += [_line(at, top, at, bottom, "grid"), _text(at + shift, bottom + 20, f"{percent}%", "soft", anchor)]
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "") -> str:
    where = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{where}>{escape(text)}</text>'


def _svg(width: float, height: float, parts: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}">{"".join(parts)}</svg>'
    )
