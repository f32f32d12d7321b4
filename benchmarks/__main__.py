"""Run all benchmarks on one core and print one table: ``python -m benchmarks [NAME...]``."""

from __future__ import annotations

import sys
import time
from importlib import import_module

import torch
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.timing import Row
from truerisk import progress

NAMES = (
    "kl_inverse",
    "gibbs_risk",
    "gaussian_kl",
    "end_to_end",
    "convolutions",
    "rescaling",
    "tightening",
    "engine",
    "nested_least_squares",
    "landscape",
    "winsorized",
    "measures",
)


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"there is no benchmark {', '.join(unknown)}; choose among {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    threadpool_limits(1)  # numpy's matrix products too
    progress.enable(False)
    start, rows = time.perf_counter(), []
    for name in names or NAMES:
        print(f"{name} ...", file=sys.stderr)
        rows += import_module(f"benchmarks.{name}").rows()
    show(rows)
    print(f"{time.perf_counter() - start:.0f} s in all", file=sys.stderr)
    return 0


def show(rows: list[Row]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)
    table = Table(title="ratio = opponent's time / our time, from one run: above 1 we are faster", title_justify="left")
    table.add_column("what", ratio=3)
    table.add_column("opponent", ratio=3)
    table.add_column("ratio", justify="right", style="bold", no_wrap=True)
    table.add_column("ours, theirs", justify="right", style="dim", no_wrap=True)
    table.add_column("note", ratio=6)
    for row in rows:
        times = f"{duration(row.ours_seconds)}, {duration(row.opponent_seconds)}"
        table.add_row(row.what, row.opponent, f"{row.ratio:.3g}", times, row.note)
    console.print(table)


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}" if seconds < 100 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds / 1e-9:.2g} ns"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
