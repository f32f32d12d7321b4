"""Colours, dashes and shapes that tell series apart, also for colour-blind readers and on both papers.

The hues are those of Okabe and Ito (Color Universal Design, 2008), made darker or lighter until each has a contrast
of at least 3 with its paper, and four more. Neighbours differ in lightness as well as in hue.
"""

from __future__ import annotations

# A figure is drawn with the colours for light paper; on dark paper the style sheet replaces them one by one.
ON_LIGHT = (
    "#0072b2", "#d55e00", "#00855f", "#b14d8c", "#946800",
    "#3a93c4", "#5d4037", "#6f51b5", "#6b7a10", "#b3263a",
)  # fmt: skip
ON_DARK = (
    "#5aaee6", "#f08a3c", "#3cc49a", "#e290c0", "#e5b93c",
    "#9bd3f2", "#c2a48f", "#ab95ea", "#bcc95a", "#f2788a",
)  # fmt: skip
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
SOLID = [1, 0]
DASHES = (SOLID, [8, 4], [2, 3], [10, 3, 2, 3])
SAME_DASH = 5  # so many series in a row share a dash


def colours(count: int) -> list[str]:
    """One for each series; after ten they begin again, with another dash."""
    return [ON_LIGHT[i % len(ON_LIGHT)] for i in range(count)]


def shapes(count: int) -> list[str]:
    """One point shape for each series."""
    return [SHAPES[i % len(SHAPES)] for i in range(count)]


def dashes(count: int) -> list[list[int]]:
    """One dash for each series: solid for the first few."""
    return [DASHES[i // SAME_DASH % len(DASHES)] for i in range(count)]
