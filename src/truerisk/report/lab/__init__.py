"""Pages of the lab: one for each experiment, and an index."""

from truerisk.report.lab.index import render_index, write_index
from truerisk.report.lab.page import render_lab, write_lab

__all__ = ["render_index", "render_lab", "write_index", "write_lab"]
