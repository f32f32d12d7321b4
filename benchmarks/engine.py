"""What keeping results costs: a grid of tiny tasks on the engine against joblib, which keeps nothing.

Both run the same tasks in two processes that are already up. Ours also hashes, seeds, checks, writes one file for each
task, and shows progress; its second run only reads.
"""

from __future__ import annotations

import tempfile
from typing import Any

from joblib import Parallel, delayed

from benchmarks.timing import Row, in_turns, seconds
from truerisk.engine import Engine, Grid, Store, run_grid

TASKS = 200
SIZE = 200


def work(setting: dict[str, Any]) -> dict[str, Any]:
    """About three milliseconds of linear algebra."""
    import numpy as np

    generator = np.random.default_rng(setting["number"])
    return {"norm": float(np.linalg.norm(generator.normal(size=(SIZE, SIZE)), 2))}


def rows() -> list[Row]:
    grid = Grid("benchmark", work, [{"number": number} for number in range(TASKS)])
    with Engine("local", workers=2) as engine, Parallel(n_jobs=2, batch_size=1) as pool:

        def ours() -> None:
            with tempfile.TemporaryDirectory() as out:
                run_grid(grid, Store(out), engine)

        def joblib() -> None:
            pool(delayed(work)(setting) for setting in grid.settings)

        ours(), joblib()  # processes start, modules are loaded
        times = in_turns(ours, joblib, repeats=3)
        with tempfile.TemporaryDirectory() as out:
            store = Store(out)
            first = seconds(lambda: run_grid(grid, store, engine))
            again = min(seconds(lambda: run_grid(grid, store, engine)) for _ in range(3))
    return [
        Row(f"{TASKS} small tasks, each result kept", "joblib.Parallel, nothing kept", *times),
        Row(f"the same {TASKS} tasks a second time", "the first run", again, first, note="only reads"),
    ]
