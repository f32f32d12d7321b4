"""Parts of the page of measures: rows of its tables, bounds, margins, layers, as the template takes them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from truerisk.measures import BOUNDS, MEASURES, Measures
from truerisk.measures.audit import Audit
from truerisk.measures.finding import errors_sentence, kind, ranked
from truerisk.measures.margin_shapes import NORMALIZED, PATH, PLAIN, SPECTRAL, medians, misclassified
from truerisk.measures.ratios import factor, log10_ratio
from truerisk.measures.registry import Value, key_of, name_of
from truerisk.measures.words import before_after, by_family, quantity, verdict
from truerisk.measures.zoo import zoo
from truerisk.report.certificate import NARROW, WIDE
from truerisk.report.measure_figures import Dot, Mark, bounds_figure, layers_figure, margins_figure, ratios_figure
from truerisk.words import magnitude, seen_percent, several

LAYERED = 4  # measures that are shown layer by layer, of different families
MOST_LAYERS = 40  # bars of a figure
RANDOM = ("Random labels", "Ratio")  # columns of the reference
AFTER = "Rescaled"  # column of an audit


def times(orders: float) -> str:
    """A factor for pages: with a real multiplication sign.

    >>> times(1.2), times(-0.5)
    ('\u00d715.8', '\u00d70.316')
    """
    return f"\u00d7{factor(orders)}"


def real_minus(words: str) -> str:
    """A hyphen before a digit becomes a minus.

    >>> real_minus("tau -0.50 of steps-loss-0.1")
    'tau \u22120.50 of steps-loss-0.1'
    """
    return re.sub(r"(?<![\w.])-(?=\d)", "\N{MINUS SIGN}", words)


def short(name: str) -> str:
    """The name of the quantity: the beginning of the meaning of a measure."""
    return MEASURES[name].meaning.partition(":")[0]


def drawn(rows: Sequence[Dot], axis: str, one: str, brief: Sequence[Dot] | None = None) -> dict[str, str]:
    """A chart of ratios, for a screen and, maybe with shorter words, for a phone."""
    return {
        "wide": ratios_figure(rows, f"{axis} (logarithmic axis)", one, WIDE),
        "narrow": ratios_figure(brief or rows, "ratio (logarithmic axis)", one, NARROW),
    }


def columns(found: Measures, audit: Audit | None = None) -> list[str]:
    """The columns of numbers: the value, after a rescaling or on random labels if known, and its place in the zoo."""
    return ["Value", *after_head(audit), *(RANDOM if found.reference is not None else ()), "Larger than (zoo)"]


def after_head(audit: Audit | None) -> list[str]:
    """The column of an audit's numbers."""
    return [] if audit is None else [AFTER]


def after_cell(key: str, audit: Audit | None) -> list[str]:
    """The number after the rescaling that moved it most."""
    moved = None if audit is None else audit.moves.get(name_of(key))
    return [] if audit is None else ["" if moved is None else before_after(moved)[1]]


def line(name: str, found: Measures, audit: Audit | None) -> dict[str, Any]:
    """One measure, by its key, as a row."""
    entry, value = MEASURES[name], found.values[name]
    place = zoo().place(name, value)
    other = None if found.reference is None else found.reference.found.values.get(name)
    reference = [_text(other), factor(found.ratio(name))] if found.reference is not None else []
    settings = f" Settings: {entry.settings}." if entry.settings else ""
    order = f" It orders networks as {entry.same_order_as} does." if entry.same_order_as else ""
    return {
        "name": entry.name,
        "meaning": entry.meaning,
        "details": f"{entry.paper}; {entry.equation}.{settings}{order}",
        "cells": [_text(value), *after_cell(name, audit), *reference, "" if place is None else str(place)],
        "zoo": "",
        **rescaling(entry.name, entry.invariant, audit),
    }


def _text(value: Value | None) -> str:
    return "" if value is None else quantity(value.value, value.log)


def rescaling(name: str, invariant: bool, audit: Audit | None) -> dict[str, Any]:
    """What a rescaling does to a number: as measured by the audit, or what its definition implies."""
    if audit is None or name not in audit.moves:
        return {"stays": invariant, "rescaling": "unchanged" if invariant else "may change"}
    moved = audit.moves[name]
    if not moved.fooled:
        return {"stays": True, "rescaling": "unchanged"}
    return {"stays": False, "rescaling": moved.note if math.isinf(moved.orders) else f"changed {times(moved.orders)}"}


def bounds_part(found: Measures, audit: Audit | None) -> dict[str, Any] | None:
    """Figure and table of the bounds."""
    bounds = ranked(found)
    if not bounds:
        return None
    useful = [bound for bound in bounds if not bound.vacuous]
    return {
        "figure": _bounds_figure(found),
        "errors": "" if found.observed is None else errors_sentence(found.observed),
        "useful": len(useful),
        "count": several(len(bounds), "bound"),
        "columns": ["Value (rounded up)", *after_head(audit)],
        "rows": [
            {
                "name": bound.name,
                "meaning": f"{bound.meaning} It is {verdict(bound)}." if bound.vacuous else f"{bound.meaning} So "
                f"{verdict(bound)}.",
                "details": f"{bound.paper}, {bound.theorem}.",
                "cells": [magnitude(bound.value, bound.log), *after_cell(bound.name, audit)],
                "zoo": "",
                **rescaling(bound.name, BOUNDS[bound.name].invariant, audit),
            }
            for bound in bounds
        ],
    }  # fmt: skip


def _bounds_figure(found: Measures) -> dict[str, str]:
    bounds, observed, mark = ranked(found), found.observed, None
    told = ""
    if observed is not None:
        best = observed.best
        words = f"{kind(observed).lower()} error {seen_percent(best.rate)}"
        mark = Mark(best.rate, words, None if observed.test is None else best.interval)
        told = f" The teal line is the {words}"
        told += "." if observed.test is None else ", its band the 95% interval for the true risk."
    smallest = f"the smallest is {magnitude(bounds[0].value, bounds[0].log)} ({bounds[0].name})"
    useful = sum(not bound.vacuous for bound in bounds)
    return {
        "wide": bounds_figure(bounds, mark, WIDE),
        "narrow": bounds_figure(bounds, mark, NARROW),
        "alternative": f"{several(len(bounds), 'bound')} on a logarithmic axis; {smallest}, {useful} below 1.{told}",
        "caption": f"Each bar reaches from 1 to a bound on the true risk, rounded up.{told} The way from there to the "
        "end of a bar shows how far a bound is from the risk; 1 or more is vacuous, so it says nothing.",
    }


def margins_part(panels: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray] | None) -> dict[str, Any] | None:
    """One histogram: margins, or normalized margins next to those on random labels; and a table of medians."""
    if not panels:
        return None
    shared = [title for title in (PATH, SPECTRAL) if title in panels and other is not None and title in other]
    both = bool(shared) and other is not None
    title = shared[0] if both else next(iter(panels))
    axis = {PLAIN: "margin", SPECTRAL: "margin / spectral complexity", PATH: "margin / path norm"}.get(title, title)
    own, random = panels[title], other[title] if both and other is not None else None
    plain = next(iter(panels.values()))
    wrong = f"misclassified: {misclassified(plain):,} of {len(plain):,} examples"
    keys = [("s0", "this network"), ("s3", "the network trained on random labels")]
    caption = (
        f"Share of examples at each {axis}, on a logarithmic axis. If normalized margins told the two networks apart, "
        "the distributions would not overlap."
        if random is not None
        else f"Share of examples at each {axis}. A margin of 0 or less is an error."
    )
    absent = [name for name in NORMALIZED if name not in panels]
    return {
        "figure": {
            "wide": margins_figure(own, random, axis, WIDE),
            "narrow": margins_figure(own, random, axis, NARROW),
            "alternative": f"Histogram of {len(own):,} examples, {axis}; median {quantity(float(np.median(own)))}.",
            "caption": caption,
        },
        "is_hero": False,
        "legend": keys if random is not None else [("s0", "correctly classified"), ("s3", wrong)],
        "columns": ["Value"] if other is None else ["This network", *RANDOM],
        "rows": _medians(panels, other),
        "missing": f"Not defined for this network: margins {' and '.join(absent)}." if absent else "",
    }


def _medians(
    panels: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray] | None
) -> list[tuple[str, tuple[str, ...]]]:
    own, random = medians(panels), {} if other is None else medians(other)
    rows: list[tuple[str, tuple[str, ...]]] = []
    for title, value in own.items():
        cells: tuple[str, ...] = (quantity(value),)
        if other is not None:
            there = random.get(title)
            orders = None if there is None else log10_ratio(Value(value), Value(there))
            cells = (*cells, "" if there is None else quantity(there), factor(orders))
        rows.append(("as it is" if title == PLAIN else title, cells))
    return rows


def layers_part(found: Measures) -> dict[str, Any] | None:
    """One measure of each family that is made of positive parts, a few of them."""
    chosen: dict[str, dict[str, float]] = {}
    for members in by_family(MEASURES[name] for name in found.values).values():
        fitting = [m.name for m in members if _drawable(found.values[key_of(m.name)].layers)]
        if fitting and len(chosen) < LAYERED:
            chosen[fitting[0]] = dict(found.values[key_of(fitting[0])].layers)
    if not chosen:
        return None
    return {
        "wide": layers_figure(chosen, WIDE),
        "narrow": layers_figure(chosen, NARROW),
        "alternative": f"Contribution of each layer to {', '.join(chosen)}.",
    }


def _drawable(parts: Mapping[str, float]) -> bool:
    values = list(parts.values())
    return 2 <= len(values) <= MOST_LAYERS and all(0 <= v < math.inf for v in values) and sum(values) > 0
