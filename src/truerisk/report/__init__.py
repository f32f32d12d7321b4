"""Self-contained HTML pages from what the other packages computed. Nothing is computed here."""

from truerisk.report.certificate import write_report
from truerisk.report.lab import render_index, render_lab, write_index, write_lab
from truerisk.report.measures import write_measures
from truerisk.report.orbit import Step, write_orbit

__all__ = [
    "Step", "render_index", "render_lab", "write_index", "write_lab", "write_measures", "write_orbit", "write_report",
]  # fmt: skip
