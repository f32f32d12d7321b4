"""The page of one network's measures and bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from truerisk.atomic import write_atomically
from truerisk.measures import BOUNDS, MEASURES, Measures, Subject
from truerisk.measures.audit import Audit
from truerisk.measures.margin_shapes import PATH, SPECTRAL, margin_panels, medians, misclassified
from truerisk.measures.registry import Measure
from truerisk.measures.words import by_family, by_reason, quantity, verdict
from truerisk.report.certificate import NARROW, WIDE, templates
from truerisk.report.measure_figures import bounds_figure, layers_figure, margins_figure
from truerisk.words import at_most, magnitude

LAYERED = 4  # measures that are shown layer by layer, of different families
MOST_LAYERS = 40  # a figure with more bars than this is no figure


def write_measures(
    path: str | Path, found: Measures, subject: Subject, facts: Mapping[str, str], *, audit: Audit | None = None
) -> Path:
    """Write the page to ``path``: one file that needs nothing else. ``facts`` says how the numbers were made."""
    path = Path(path)
    write_atomically(path, render_measures(found, margin_panels(subject), facts, audit).encode())
    return path


def render_measures(
    found: Measures, panels: Mapping[str, np.ndarray], facts: Mapping[str, str], audit: Audit | None = None
) -> str:
    """The page as HTML. All text is escaped."""
    page: str = (
        templates()
        .get_template("measures.html.j2")
        .render(
            headline=_headline(found, audit),
            families=_families(found, audit),
            bounds=_bounds(found, audit),
            margins=_margins(panels),
            layers=_layers(found),
            skipped=[(", ".join(names), reason) for reason, names in by_reason(found.skipped).items()],
            audit=None if audit is None else _audit(audit),
            facts=facts,
        )
    )
    return page


def _headline(found: Measures, audit: Audit | None) -> str:
    if audit is not None:
        return f"{len(audit.fooled)} of {len(audit.moves)} numbers changed while the network stayed the same function."
    if not found.values:
        return _count(len(found.bounds), "bound") + " on the true risk of one network."
    invariant = sum(MEASURES[name].invariant for name in found.values)
    measures = _count(len(found.values), "measure")
    return f"{measures} of one network; rescaling leaves {invariant} unchanged by definition."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _families(found: Measures, audit: Audit | None) -> list[dict[str, Any]]:
    groups = by_family(MEASURES[name] for name in found.values)
    return [{"name": family, "rows": [_row(m, found, audit) for m in members]} for family, members in groups.items()]


def _row(entry: Measure, found: Measures, audit: Audit | None) -> dict[str, Any]:
    value = found.values[entry.name]
    return {
        "name": entry.name,
        "value": quantity(value.value, value.log),
        "meaning": entry.meaning,
        "source": f"{entry.paper}; {entry.equation}",
        "settings": entry.settings,
        "same": entry.same_order_as,
        **_rescaling(entry.name, entry.invariant, audit),
    }


def _rescaling(name: str, invariant: bool, audit: Audit | None) -> dict[str, Any]:
    """What a rescaling does to it: as measured by the audit, or what its definition implies."""
    if audit is None or name not in audit.moves:
        return {"stays": invariant, "rescaling": "invariant" if invariant else "may change"}
    moved = audit.moves[name]
    told = moved.verdict.removeprefix("fooled: ") if moved.fooled else "unchanged"
    return {"stays": not moved.fooled, "rescaling": told}


def _bounds(found: Measures, audit: Audit | None) -> dict[str, Any] | None:
    if not found.bounds:
        return None
    bounds = sorted(found.bounds.values(), key=lambda bound: bound.natural_log)
    useful = [bound for bound in bounds if not bound.vacuous]
    best = f"the smallest is {magnitude(bounds[0].value, bounds[0].log)} ({bounds[0].name})"
    return {
        "wide": bounds_figure(bounds, WIDE),
        "narrow": bounds_figure(bounds, NARROW),
        "alternative": f"{_count(len(bounds), 'bound')} on a logarithmic axis; {best}, {len(useful)} below 1.",
        "useful": len(useful),
        "count": _count(len(bounds), "bound"),
        "rows": [
            {
                "name": bound.name,
                "value": magnitude(bound.value, bound.log),
                "verdict": verdict(bound),
                "meaning": bound.meaning,
                "source": f"{bound.paper}, {bound.theorem}",
                **_rescaling(bound.name, BOUNDS[bound.name].invariant, audit),
            }
            for bound in bounds
        ],
    }


def _margins(panels: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
    if not panels:
        return None
    first = next(iter(panels.values()))
    middle = ", ".join(f"{title}: median {quantity(value)}" for title, value in medians(panels).items())
    return {
        "wide": margins_figure(panels, WIDE),
        "narrow": margins_figure(panels, NARROW),
        "alternative": f"Histograms of {len(first):,} examples. {middle}.",
        "wrong": f"{misclassified(first):,} of {len(first):,} examples",
        "normalized": len(panels) > 1,
        "spectral": SPECTRAL in panels,
        "path": PATH in panels,
    }


def _layers(found: Measures) -> dict[str, Any] | None:
    """One measure of each family that is made of positive parts, a few of them."""
    chosen: dict[str, dict[str, float]] = {}
    for members in by_family(MEASURES[name] for name in found.values).values():
        fitting = [m.name for m in members if _drawable(found.values[m.name].layers)]
        if fitting and len(chosen) < LAYERED:
            chosen[fitting[0]] = dict(found.values[fitting[0]].layers)
    if not chosen:
        return None
    return {
        "wide": layers_figure(chosen, WIDE),
        "narrow": layers_figure(chosen, NARROW),
        "alternative": f"What each layer contributes to {', '.join(chosen)}.",
    }


def _drawable(parts: Mapping[str, float]) -> bool:
    values = list(parts.values())
    return 2 <= len(values) <= MOST_LAYERS and all(0 <= v < math.inf for v in values) and sum(values) > 0


def _audit(audit: Audit) -> dict[str, str]:
    return {
        "times": "once" if audit.times == 1 else f"{audit.times} times",
        "channels": f"{audit.channels:,}",
        "std": f"{audit.std:g}",
        "change": at_most(audit.change),
        "wrong": ", ".join(audit.wrongly_declared),
    }
