"""Self-contained HTML pages from what the other packages computed. Nothing is computed here."""

from truerisk.report.certificate import write_report
from truerisk.report.orbit import Step, write_orbit

__all__ = ["Step", "write_orbit", "write_report"]
