"""Bars in docstrings are absolute values and norms, never the marks of reStructuredText's substitutions."""

from __future__ import annotations

from typing import Any


def escape(app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """Put a backslash before each bar, but for lines with examples or literal text, which show what they hold."""
    for place, line in enumerate(lines):
        if "``" not in line and ">>>" not in line:
            lines[place] = line.replace("|", "\\|")


def setup(app: Any) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", escape)
    return {"parallel_read_safe": True}
