"""The page of ``truerisk landscape``: surfaces of a network next to those of its rescaled twin."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truerisk._version import __version__
from truerisk.atomic import write_atomically
from truerisk.landscape import Landscape, Pair, Reading, Surface
from truerisk.landscape.words import distance, headline, loss, meanings
from truerisk.report.certificate import templates
from truerisk.report.landscape_figures import (
    AZIMUTH,
    HEIGHT,
    RAMP,
    TILT,
    Scale,
    key_svg,
    line_svg,
    map_svg,
    scale_of,
    solid_svg,
    thinned,
)
from truerisk.words import seen_percent

WIDE, NARROW, KEY = 780, 340, 380
NETWORK, TWIN = "network", "rescaled twin"


def write_landscape(path: str | Path, found: Landscape, facts: Mapping[str, str], command: str = "") -> Path:
    """Write the page to ``path``: one file that needs nothing else. ``command`` makes it again."""
    path = Path(path)
    write_atomically(path, render_landscape(found, facts, command).encode(errors="replace"))
    return path


def render_landscape(found: Landscape, facts: Mapping[str, str], command: str = "") -> str:
    """The page as HTML. All text is escaped."""
    shown = [_plane(pair, place) for place, pair in enumerate(found.pairs)]
    solids = {solid["name"]: solid["grid"] for plane in shown for solid in plane.get("sides", ())}
    page: str = (
        templates()
        .get_template("landscape.html.j2")
        .render(
            headline=_page(headline(found)),
            meanings=[_page(sentence) for sentence in meanings(found)],
            planes=shown,
            rows=[_row(pair) for pair in found.pairs],
            facts=list(facts.items()),
            command=command,
            version=__version__,
            solids=json.dumps(
                {"grids": solids, "ramp": RAMP, "azimuth": AZIMUTH, "tilt": TILT, "height": HEIGHT},
                separators=(",", ":"),
            ),
            turns=any(solids),
        )
    )
    return page


def _page(words: str) -> str:
    return words.replace(" -", " \u2212") if " --" not in words else words


def _plane(pair: Pair, place: int) -> dict[str, Any]:
    name = pair.plane.name
    if pair.network.is_line:
        return {
            "name": name,
            "sides": [],
            "wide": line_svg(pair, WIDE),
            "narrow": line_svg(pair, NARROW),
            "alternative": _alternative(pair),
            "has_twin": pair.twin is not None,
        }
    scale = scale_of(pair)
    surfaces = [(NETWORK, pair.network, pair.plane)]
    if pair.twin is not None and pair.twin_plane is not None:
        surfaces.append((TWIN, pair.twin, pair.twin_plane))
    return {
        "name": name,
        "sides": [_side(who, surface, scale, plane.path, place) for who, surface, plane in surfaces],
        "key": key_svg(scale, KEY),
        "alternative": _alternative(pair),
        "clipped": _clipped(pair, scale),
        "path": bool(pair.plane.path),
    }


def _side(who: str, surface: Surface, scale: Scale, path: Any, place: int) -> dict[str, Any]:
    few = thinned(surface)
    return {
        "who": who,
        "name": f"{place}-{'twin' if who == TWIN else 'network'}",
        "map": map_svg(few, scale, path),
        "solid": solid_svg(few, scale),
        "grid": [[round(float(v), 3) for v in row] for row in scale.of(few.loss)],
    }


def _clipped(pair: Pair, scale: Scale) -> str:
    """What the colors leave out."""
    if pair.twin is None:
        return ""
    _, other = pair.readings
    if other is None or not other.highest > 10**scale.high * 1.01:
        return ""
    return f"Colors and heights end at a loss of {loss(10**scale.high)}; the twin reaches {loss(other.highest)}."


def _alternative(pair: Pair) -> str:
    mine, other = pair.readings
    twin = "" if other is None else f"; that of the twin at {distance(other.doubling)}"
    return f"Loss around the network on {pair.plane.name}: it doubles at a distance of {distance(mine.doubling)}{twin}."


def _row(pair: Pair) -> dict[str, Any]:
    mine, other = pair.readings
    reach = max(pair.plane.reach)
    return {
        "plane": pair.plane.name,
        "cells": _cells(mine, reach),
        "twin": None if other is None else _cells(other, reach),
    }


def _cells(reading: Reading, reach: float) -> list[str]:
    share = "none" if math.isnan(reading.nonconvex) else seen_percent(reading.nonconvex)
    return [distance(reading.doubling, reach), distance(reading.nearest, reach), share, loss(reading.highest)]
