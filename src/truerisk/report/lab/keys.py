"""Names of a row's fields in the browser. An experiment's own names never become part of a Vega-Lite expression."""

from __future__ import annotations

from typing import Any

X, Y, SERIES, FACET, LOW, HIGH = "x", "y", "s", "f", "l", "h"
LEFT, RIGHT, BOTTOM, TOP = "xa", "xb", "ya", "yb"  # the edges of a bin, or of a cell of a map
VALUE = "z"  # what a map or a polygon colors by
SHAPE, ORDER = "p", "o"  # which polygon or line a row belongs to, and its place there
SEEN_X, SEEN_Y = "qx", "qy"  # a corner of a surface as it is seen
SLIDE = "v"  # which state of slider and switches: see `report.lab.rows`
PANEL = "n"  # which of several linked figures: its number in order
GROUP = "g"  # which seed
TEXT = "w"  # the words of a label

KIND = "k"  # what a row is: a mean or a plain row, one seed, a dot, a line of equal value, a corner of a surface
MEAN, ONE_SEED, DOT, ISOLINE, CORNER = "m", "t", "d", "c", "q"

Json = dict[str, Any]
