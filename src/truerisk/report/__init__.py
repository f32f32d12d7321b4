"""Self-contained HTML pages from what the other packages computed. Nothing is computed here.

The names are loaded when they are first used: the page of a certificate needs no torch, those of measures do.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from truerisk.report.certificate import write_report
    from truerisk.report.compare import write_comparison
    from truerisk.report.lab import render_index, render_lab, write_index, write_lab
    from truerisk.report.landscape import write_landscape
    from truerisk.report.measures import write_measures
    from truerisk.report.orbit import Step, write_orbit
    from truerisk.report.tighten import write_tighten
    from truerisk.report.tour import write_tour

_WHERE = {
    "Step": "orbit",
    "render_index": "lab",
    "render_lab": "lab",
    "write_comparison": "compare",
    "write_index": "lab",
    "write_lab": "lab",
    "write_landscape": "landscape",
    "write_measures": "measures",
    "write_orbit": "orbit",
    "write_report": "certificate",
    "write_tighten": "tighten",
    "write_tour": "tour",
}

__all__ = [
    "Step", "render_index", "render_lab", "write_comparison", "write_index", "write_lab", "write_landscape",
    "write_measures",
    "write_orbit", "write_report", "write_tighten", "write_tour",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
