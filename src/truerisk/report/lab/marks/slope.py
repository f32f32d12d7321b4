"""Few states side by side, joined by lines: before and after."""

from __future__ import annotations

from truerisk.report.lab.keys import Json
from truerisk.report.lab.marks.line import band, line, thin, tips
from truerisk.report.lab.panel import Panel


def layers(panel: Panel) -> list[Json]:
    return [*band(panel), *thin(panel), line(panel), tips(panel), *panel.dots()]
