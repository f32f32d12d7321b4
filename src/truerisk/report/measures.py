"""The page of one network's measures and bounds."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from truerisk.atomic import write_atomically
from truerisk.measures import MEASURES, Measures, Subject
from truerisk.measures.audit import Audit
from truerisk.measures.compare import votes
from truerisk.measures.finding import (
    criterion,
    errors_sentence,
    headline,
    repeated_sentence,
    tau_sentence,
    zoo_limits,
    zoo_sentence,
)
from truerisk.measures.margin_shapes import margin_panels
from truerisk.measures.registry import key_of, name_of
from truerisk.measures.table import subject_of
from truerisk.measures.words import by_family, by_reason
from truerisk.measures.zoo import zoo
from truerisk.report.certificate import templates
from truerisk.report.measure_figures import Dot
from truerisk.report.measure_parts import (
    bounds_part,
    columns,
    drawn,
    layers_part,
    line,
    margins_part,
    real_minus,
    short,
    times,
)
from truerisk.words import at_most, seen_percent

BY_DEFINITION = (
    "Multiply the weights that enter a hidden unit by a positive number and divide those that leave it by the same "
    "number: the function stays the same. The last column says what the definition of a measure implies; this network "
    "was not rescaled (truerisk measure --audit rescales it and measures again)."
)
CALIBRATE = (
    "How large is large? truerisk measure --calibrate trains the same network on random labels, and shows each value "
    "next to the value there."
)
RESCALED = (
    "The last column says what the rescalings did to each number of this network; next to its value is its value after "
    "the rescaling that changed it most."
)


def write_measures(
    path: str | Path, found: Measures, subject: Subject, facts: Mapping[str, str], *, audit: Audit | None = None
) -> Path:
    """Write the page to ``path``: one file that needs nothing else. ``facts`` says how the numbers were made."""
    path = Path(path)
    other = None if found.reference is None else margin_panels(subject_of(found.reference.network))
    write_atomically(path, render_measures(found, margin_panels(subject), facts, audit, other).encode())
    return path


def render_measures(
    found: Measures,
    panels: Mapping[str, np.ndarray],
    facts: Mapping[str, str],
    audit: Audit | None = None,
    other: Mapping[str, np.ndarray] | None = None,
) -> str:
    """The page as HTML. All text is escaped. ``panels``: margins; ``other``: those on random labels."""
    bounds, margins = bounds_part(found, audit), margins_part(panels, other)
    hero = _hero(found, audit)
    if hero is None and bounds is not None:
        hero = bounds.pop("figure") | {"title": "Bounds on the true risk"}
        bounds["figure"] = None
    elif hero is None and margins is not None:
        hero, margins["is_hero"] = margins["figure"] | {"title": "Margins"}, True
    families = by_family(MEASURES[name] for name in found.values)
    leading = zoo().leading(found.values)
    page: str = (
        templates()
        .get_template("measures.html.j2")
        .render(
            headline=headline(found, audit),
            subtitle=_subtitle(found),
            hero=hero,
            notes=[note for note in (_note(found, audit), found.no_reference) if note],
            leading=_leading(found, audit, leading) if leading else None,
            told={"zoo": zoo_sentence(), "criterion": criterion(), "limits": zoo_limits()},
            families=[
                {"name": name, "rows": [line(key_of(each.name), found, audit) for each in members]}
                for name, members in families.items()
            ],
            columns=columns(found, audit),
            rescaled=BY_DEFINITION if audit is None else RESCALED,
            csv=encoded(found.csv()),
            bounds=bounds,
            margins=margins,
            layers=layers_part(found),
            skipped=[(", ".join(map(name_of, names)), reason) for reason, names in by_reason(found.skipped).items()],
            audit=None if audit is None else _audit(audit),
            facts=facts,
            script=script(),
        )
    )
    return page


def encoded(csv: str) -> str:
    """For a data: address, which needs no script and no network."""
    return base64.b64encode(csv.encode()).decode()


def script() -> dict[str, str]:
    """The script of the page, and the hash by which the page's policy allows it and nothing else."""
    text = files("truerisk.report").joinpath("templates/measures.js").read_text()
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return {"text": text, "hash": f"sha256-{digest}"}


def _hero(found: Measures, audit: Audit | None) -> dict[str, Any] | None:
    if audit is not None:
        return _audit_hero(found, audit)
    return None if found.reference is None else _calibration_hero(found)


def _calibration_hero(found: Measures) -> dict[str, Any] | None:
    """Values on random labels over own values, of the measures that predict best."""
    assert found.reference is not None
    given = votes(found, found.reference.found)
    if not given:
        return None
    rows = [
        Dot(name_of(v.name), v.orders, times(v.orders) + _way(v.simpler), _kind(v.simpler == 1), short(v.name))
        for v in given
    ]
    return {
        **drawn(rows, "value on random labels / value of this network", "1: this network"),
        "title": "Random labels against true labels",
        "alternative": listed(rows, "Value on random labels over the value of this network"),
        "caption": "Value of the same network trained on random labels, divided by the value of this network. A "
        "measure that tells learning from memorizing must change. Teal dots predict a larger gap, by the "
        "sign of the measure in the zoo; red dots do not.",
    }


def _kind(good: bool) -> str:
    return "good" if good else "bad"


def _way(simpler: int) -> str:
    return {0: " (no change)", 1: "", 2: " (wrong way)"}[simpler]


def _audit_hero(found: Measures, audit: Audit) -> dict[str, Any] | None:
    """How far rescalings moved the measures that predict best."""
    leading = [name_of(key) for key in zoo().leading(found.values)]
    known = [audit.moves[name] for name in leading if name in audit.moves]
    rows = [
        Dot(m.name, m.orders, times(m.orders) if m.fooled else "unchanged", _kind(not m.fooled), short(key_of(m.name)))
        for m in known
        if m.orders < 1e3
    ]
    if not rows:
        return None
    return {
        **drawn(rows, "largest factor by which a rescaling changed the value", "1: unchanged"),
        "title": "Changes by rescaling",
        "alternative": listed(rows, "Largest factor by which a rescaling changed the value"),
        "caption": "Largest factor by which a random rescaling changed a measure, for the measures that predict best "
        "in the zoo. The function of the network stayed the same. Teal: unchanged up to rounding. Red: changed.",
    }


def listed(rows: list[Dot], what: str) -> str:
    return f"{what}: {', '.join(f'{row.name} {row.words}' for row in rows)}."


def _subtitle(found: Measures) -> str:
    """Observed errors; with a reference, those of both networks, and whether both fit their labels."""
    own, reference = found.observed, found.reference
    other = None if reference is None else reference.found.observed
    if own is None or reference is None or other is None or own.test is None or other.test is None:
        return "" if own is None else errors_sentence(own)
    held_out = f"{seen_percent(own.test.rate)} of held-out examples, its copy on {seen_percent(other.test.rate)}"
    fits = "The copy does not fit its random labels."
    if reference.fitted:
        rates = f"{seen_percent(own.train.rate)} and {seen_percent(other.train.rate)}"
        fits = f"Training errors are {rates}: the copy has memorized its labels."
    return f"This network errs on {held_out}. {fits}{repeated_sentence(own)}"


def _note(found: Measures, audit: Audit | None) -> str:
    """About the reference, or how to get one."""
    if found.reference is not None:
        return found.reference.note
    return "" if audit is not None or found.no_reference else CALIBRATE


def _leading(found: Measures, audit: Audit | None, names: list[str]) -> dict[str, Any]:
    """The few that predict best, with tau and its interval."""
    rows = [line(name, found, audit) | {"zoo": real_minus(tau_sentence(name))} for name in names]
    return {"rows": rows, "columns": columns(found, audit)}


def _audit(audit: Audit) -> dict[str, str]:
    return {
        "times": "once" if audit.times == 1 else f"{audit.times} times",
        "channels": f"{audit.channels:,}",
        "std": f"{audit.std:g}",
        "change": at_most(audit.change),
        "wrong": ", ".join(audit.wrongly_declared),
    }
