"""Sentences and small tables of the lab's pages."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from truerisk.lab.experiment import Setting
from truerisk.lab.figure import Table
from truerisk.lab.result import Result
from truerisk.report.lab.rows import words

MANY = 12  # different values of a setting; more are not listed
NUMBER = re.compile(r"[-+\u2212\u2264\u2265<>~\u2248]?\s?\d.*|\u2013|")  # a cell that looks right at the right edge


def minus(text: str) -> str:
    """Text with a real minus before numbers, as pages have it.

    >>> minus("-0.63 (-0.7 to 0.1) in mlp-3x512 --seed 5")
    '\u22120.63 (\u22120.7 to 0.1) in mlp-3x512 --seed 5'
    """
    return re.sub(r"(?<![\w-])-(?=[\d.])", "\u2212", text)


def duration(seconds: float) -> str:
    """A time as people say it.

    >>> duration(0.31), duration(42.4), duration(133), duration(7384)
    ('0.3 s', '42 s', '2 min 13 s', '2 h 3 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def runs(count: int) -> str:
    """A number of runs.

    >>> runs(1), runs(1200)
    ('1 run', '1,200 runs')
    """
    return f"{count:,} run" + ("" if count == 1 else "s")


def missing(result: Result) -> str:
    """What is said about runs that are not there; nothing if all are."""
    gone = len(result.rows.missing)
    if not gone:
        return ""
    failed = f", {len(result.failures)} of them because they failed (see below)" if result.failures else ""
    are = "is" if gone == 1 else "are"
    return f"{gone} of {runs(gone + len(result.rows))} {are} missing{failed}. Claims that need them have no verdict."


def one_line(setting: Setting) -> str:
    """A setting on one line.

    >>> one_line({"n": 1000, "layers": [512, 512], "model": "mlp"})
    'n=1000 layers=[512, 512] model=mlp'
    """
    return " ".join(f"{name}={_value(value)}" for name, value in setting.items())


def facts(result: Result) -> list[tuple[str, str]]:
    """The grid in a few rows, how much was computed, and with what."""
    settings = result.experiment.settings(result.scale)
    values: dict[str, list[str]] = {}
    for setting in settings:
        for name, value in setting.items():
            values.setdefault(name, []).append(_value(value))
    fixed = {name: some[0] for name, some in values.items() if len(set(some)) == 1}
    everywhere = [f"{name} {value}" for name, value in fixed.items() if len(values[name]) == len(settings)]
    somewhere = [f"{name} {value}" for name, value in fixed.items() if len(values[name]) < len(settings)]
    varied = [(f"Varied: {name}", _listed(list(dict.fromkeys(v)))) for name, v in values.items() if name not in fixed]
    done = f"{runs(len(result.rows))} of {len(settings):,}"
    return [
        ("Runs", f"{done}: {result.computed:,} computed now, {result.reused:,} read back"),
        ("Computing time", f"{duration(result.seconds)}, all runs together"),
        *varied,
        *([("The same in all runs", ", ".join(everywhere))] if everywhere else []),
        *([("Only in some runs", ", ".join(somewhere))] if somewhere else []),
        ("Versions", ", ".join(f"{name} {version}" for name, version in result.software.items())),
    ]


def table(exhibit: Table) -> dict[str, Any]:
    """A table as the template needs it: text, and which columns hold numbers."""
    rows = [[words(cell) for cell in row] for row in exhibit.rows]
    columns = [
        {"title": title, "number": bool(rows) and all(NUMBER.fullmatch(row[i]) for row in rows)}
        for i, title in enumerate(exhibit.columns)
    ]
    return {"columns": columns, "rows": rows}


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _listed(values: Sequence[str]) -> str:
    if len(values) <= MANY:
        return ", ".join(values)
    return f"{', '.join(values[: MANY // 2])}, \u2026, {values[-1]} ({len(values):,} different values)"
