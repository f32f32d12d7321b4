"""Pictures of a loss surface: a map with lines of equal loss, the surface seen from a side, and a loss along a line.

All of them are SVG, drawn here; the page turns the surface by a script and shows these where scripts are off. Heights
and colors are logarithms of the loss on one scale for a network and its twin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from truerisk.landscape import Pair, Surface
from truerisk.report.extra import extra
from truerisk.report.svg import dot, factors, line, svg, text

RAMP = ("#440154", "#472c7a", "#3b518b", "#2c718e", "#21908d", "#27ad81", "#5cc863", "#aadc32", "#fde725")
SHADES = 32  # of the ramp
SIDE, LEFT, BELOW, TOP = 340, 46, 40, 8  # pixels of a map, and around it
LEVELS = 10
MOST = 61  # points along a side on paper
AZIMUTH, TILT = math.radians(35), math.radians(30)
HEIGHT = 0.8  # of the surface, relative to half a side


@dataclass(frozen=True)
class Scale:
    """Decimal logarithms of the smallest and the largest loss that is drawn."""

    low: float
    high: float

    def of(self, loss: np.ndarray) -> np.ndarray:
        """From 0 to 1; a loss that is not finite is at the upper end."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log10(np.maximum(loss, 10.0**self.low))
        logs = np.where(np.isfinite(loss), logs, self.high)
        return np.clip((logs - self.low) / (self.high - self.low), 0.0, 1.0)


def scale_of(pair: Pair) -> Scale:
    """From the smallest loss of both surfaces to the largest of the network's own: the twin's may be far above."""
    finite = pair.network.loss[np.isfinite(pair.network.loss)]
    both = [finite] + ([] if pair.twin is None else [pair.twin.loss[np.isfinite(pair.twin.loss)]])
    positive = np.concatenate(both)
    positive = positive[positive > 0]
    low = math.log10(float(positive.min())) if len(positive) else -1.0
    high = math.log10(float(finite.max())) if finite.max() > 0 else 0.0
    return Scale(low, max(high, low + 0.3))


def thinned(surface: Surface) -> Surface:
    """At most 61 points along a side, the middle and both ends among them."""

    def every(count: int) -> np.ndarray:
        half = count // 2
        step = max(1, math.ceil(half / (MOST // 2)))
        inner = np.arange(0, half, step)
        return np.unique(np.concatenate([half - inner, half + inner, [0, count - 1]]))

    i, j = every(len(surface.y)), every(len(surface.x))
    picked = np.ix_(i, j)
    return Surface(surface.x[j], surface.y[i], surface.loss[picked], surface.error[picked], surface.rays)


def color(share: float) -> str:
    """
    >>> color(0.0), color(1.0)
    ('#440154', '#fde725')
    """
    at = min(max(share, 0.0), 1.0) * (len(RAMP) - 1)
    k = min(int(at), len(RAMP) - 2)
    one, two = (np.array([int(RAMP[m][p : p + 2], 16) for p in (1, 3, 5)]) for m in (k, k + 1))
    return "#" + "".join(f"{round(v):02x}" for v in one + (at - k) * (two - one))


def ticks(reach: float) -> list[float]:
    """Round coordinates on an axis from -reach to reach."""
    step = next(s * 10.0**k for k in range(-12, 13) for s in (1, 2, 5) if 2 * reach / (s * 10.0**k) <= 5)
    count = int(reach / step + 1e-9)
    return [step * k for k in range(-count, count + 1)]


def map_svg(surface: Surface, scale: Scale, path: Sequence[Sequence[float]] = ()) -> str:
    """Colors and lines of equal loss over the plane; the network is the dot in the middle, the path a line to it."""
    values = scale.of(surface.loss)
    reach_x, reach_y = float(surface.x[-1]), float(surface.y[-1])

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + SIDE * (x / reach_x + 1) / 2, TOP + SIDE * (1 - y / reach_y) / 2

    parts = _cells(values, surface, place)
    generator = extra("contourpy").contour_generator(surface.x, surface.y, values)
    for level in np.linspace(0, 1, LEVELS + 2)[1:-1]:
        for points in generator.lines(level):
            corners = "L".join("{:.1f},{:.1f}".format(*place(float(a), float(b))) for a, b in points)
            parts.append(f'<path class="isoline" d="M{corners}"/>')
    for value in ticks(reach_x):
        x, _ = place(value, 0)
        parts.append(text(x, TOP + SIDE + 18, f"{value:g}".replace("-", "\u2212"), "soft", anchor="middle", size=13))
    for value in ticks(reach_y):
        _, y = place(0, value)
        parts.append(text(LEFT - 6, y + 4, f"{value:g}".replace("-", "\u2212"), "soft", anchor="end", size=13))
    if path:
        corners = "L".join("{:.1f},{:.1f}".format(*place(*point)) for point in path)
        parts.append(f'<path class="trail" d="M{corners}"/>')
        parts += [dot(*place(*point), "step", 2.5) for point in path]
        parts.append(text(*_beside(place(*path[0])), "start", "onmap", size=13))
    parts.append(dot(*place(0, 0), "here", 4.5))
    parts.append(text(LEFT + SIDE / 2, TOP + SIDE + 37, "first direction", "soft", anchor="middle", size=13))
    return svg(parts, LEFT + SIDE + 12, TOP + SIDE + BELOW + 4)


def _beside(at: tuple[float, float]) -> tuple[float, float]:
    x, y = at
    return (x - 38 if x > LEFT + SIDE - 60 else x + 8), min(max(y - 8, TOP + 14), TOP + SIDE - 6)


def _cells(values: np.ndarray, surface: Surface, place) -> list[str]:  # type: ignore[no-untyped-def]
    """Neighbors of one shade in a row are one rectangle."""
    shades = np.minimum((values * SHADES).astype(int), SHADES - 1)
    xs, ys = _edges(surface.x), _edges(surface.y)
    parts = []
    for i in range(len(ys) - 1):
        ends = [0, *(np.flatnonzero(np.diff(shades[i])) + 1).tolist(), shades.shape[1]]
        for start, end in pairwise(ends):
            (x1, y1), (x2, y2) = place(xs[start], ys[i + 1]), place(xs[end], ys[i])
            fill = color((shades[i, start] + 0.5) / SHADES)
            size = f'width="{x2 - x1 + 0.4:.1f}" height="{y2 - y1 + 0.4:.1f}"'  # no gaps between neighbors
            parts.append(f'<rect fill="{fill}" x="{x1:.1f}" y="{y1:.1f}" {size}/>')
    return parts


def _edges(at: np.ndarray) -> np.ndarray:
    middle = (at[1:] + at[:-1]) / 2
    return np.concatenate([at[:1], middle, at[-1:]])


def solid_svg(surface: Surface, scale: Scale) -> str:
    """The surface from one side: flat quadrilaterals, the farthest first."""
    z = 2 * HEIGHT * scale.of(surface.loss)
    x, y = np.meshgrid(np.linspace(-1, 1, len(surface.x)), np.linspace(-1, 1, len(surface.y)))
    right = x * math.cos(AZIMUTH) - y * math.sin(AZIMUTH)
    depth = x * math.sin(AZIMUTH) + y * math.cos(AZIMUTH)
    up = z * math.cos(TILT) + depth * math.sin(TILT)
    width, height = SIDE + LEFT, SIDE
    px, py = width / 2 + right * width / 2.95, height * 0.78 - up * height / 3.1

    def around(values: np.ndarray) -> np.ndarray:
        return np.stack([values[:-1, :-1], values[:-1, 1:], values[1:, 1:], values[1:, :-1]], axis=-1).reshape(-1, 4)

    order = np.argsort(-around(depth).mean(1), kind="stable")
    shares = around(z).mean(1) / (2 * HEIGHT)
    parts = []
    for k in order:
        corners = "L".join(f"{a:.1f},{b:.1f}" for a, b in zip(around(px)[k], around(py)[k], strict=True))
        parts.append(f'<path class="facet" fill="{color(float(shares[k]))}" d="M{corners}Z"/>')
    return svg(parts, width, height)


def line_svg(pair: Pair, wide: int) -> str:
    """Loss against the distance along a line, of the network and of its twin."""
    scale = scale_of(pair)
    height, left, bottom = 300, 60, 44
    reach = float(pair.network.x[-1])

    def place(x: float, share: float) -> tuple[float, float]:
        return left + (wide - left - 14) * (x / reach + 1) / 2, 10 + (height - 10) * (1 - share)

    parts = []
    for value, words in factors(scale.low, scale.high, 6):
        _, y = place(0, (value - scale.low) / (scale.high - scale.low))
        parts += [line(left, y, wide - 14, y, "grid"), text(left - 8, y + 4, words, "soft", anchor="end", size=13)]
    for value in ticks(reach):
        parts.append(
            text(place(value, 0)[0], height + 18, f"{value:g}".replace("-", "\u2212"), "soft", anchor="middle", size=13)
        )
    for surface, kind in ((pair.network, "own"), (pair.twin, "twin")):
        if surface is not None:
            points = [place(float(x), float(s)) for x, s in zip(surface.x, scale.of(surface.loss[0]), strict=True)]
            parts.append(f'<path class="curve {kind}" d="M{"L".join(f"{a:.1f},{b:.1f}" for a, b in points)}"/>')
    parts.append(text((left + wide) / 2, height + 38, "distance along the line", "soft", anchor="middle", size=13))
    return svg(parts, wide, height + bottom)


def key_svg(scale: Scale, wide: int) -> str:
    """The colors and the losses that they stand for."""
    steps = 64
    parts = [
        f'<rect fill="{color(k / (steps - 1))}" x="{12 + k * (wide - 24) / steps:.1f}" y="2" '
        f'width="{(wide - 24) / steps + 0.5:.1f}" height="12"/>'
        for k in range(steps)
    ]
    for value, words in factors(scale.low, scale.high, 6):
        x = 12 + (wide - 24) * (value - scale.low) / (scale.high - scale.low)
        parts.append(text(x, 30, words, "soft", anchor="middle", size=13))
    return svg(parts, wide, 36)
