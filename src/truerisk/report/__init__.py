"""Self-contained HTML pages from what the other packages computed. Nothing is computed here."""

from truerisk.report.certificate import write_report

__all__ = ["write_report"]
