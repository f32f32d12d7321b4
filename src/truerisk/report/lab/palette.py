"""Colors, dashes and shapes that tell series apart, also for color-blind readers and on both papers.

The hues are those of Okabe and Ito (Color Universal Design, 2008), made darker or lighter until each has a contrast
of at least 3 with its paper, and four more. Neighbors differ in lightness as well as in hue. Ordered levels have a
sequence of their own, whose lightness changes in one direction.
"""

from __future__ import annotations

# A figure is drawn with the colors for light paper; on dark paper the style sheet replaces them one by one.
ON_LIGHT = (
    "#0072b2", "#d55e00", "#00855f", "#b14d8c", "#946800",
    "#7d7d7d", "#5d4037", "#6f51b5", "#6b7a10", "#b3263a",
)  # fmt: skip
ON_DARK = (
    "#5aaee6", "#f08a3c", "#3cc49a", "#e290c0", "#e5b93c",
    "#c4c4c4", "#c2a48f", "#ab95ea", "#bcc95a", "#f2788a",
)  # fmt: skip
# From the lowest level to the highest: away from the paper.
LEVELS_ON_LIGHT = ("#c97b1a", "#c55a2b", "#b03c45", "#8f2b5e", "#69246f", "#401f6b", "#1b154a")
LEVELS_ON_DARK = ("#7d6fe0", "#a672d8", "#cb78c0", "#e6879c", "#f3a17a", "#f8c264", "#faec96")
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
SOLID = [1, 0]
DASHES = (SOLID, [8, 4], [2, 3], [10, 3, 2, 3])
SAME_DASH = 5  # so many series in a row share a dash


def colors(count: int, ordered: bool = False) -> list[str]:
    """One for each series; names begin again after ten, with another dash, levels are spread over the sequence.

    >>> colors(2, ordered=True) == [LEVELS_ON_LIGHT[0], LEVELS_ON_LIGHT[-1]]
    True
    """
    if not ordered:
        return [ON_LIGHT[i % len(ON_LIGHT)] for i in range(count)]
    last = len(LEVELS_ON_LIGHT) - 1
    return [LEVELS_ON_LIGHT[round(i * last / max(count - 1, 1))] for i in range(count)]


def shapes(count: int) -> list[str]:
    """One point shape for each series."""
    return [SHAPES[i % len(SHAPES)] for i in range(count)]


def dashes(count: int) -> list[list[int]]:
    """One dash for each series: solid for the first few."""
    return [DASHES[i // SAME_DASH % len(DASHES)] for i in range(count)]
