"""`run`: an experiment from its name to its verdicts."""

from __future__ import annotations

import os
import platform
import shlex
from importlib.metadata import version
from typing import Any

from truerisk._version import __version__
from truerisk.data import catalogue as data_catalogue
from truerisk.engine import Engine, Grid, Store, pending, run_grid
from truerisk.engine.clock import before
from truerisk.errors import TrueriskError
from truerisk.lab.catalogue import load
from truerisk.lab.experiment import Experiment, Setting
from truerisk.lab.own_data import on_own_data
from truerisk.lab.result import Failure, Result
from truerisk.lab.rows import Rows


def run(
    name: str | Experiment,
    scale: str = "quick",
    engine: str | Engine = "local",
    out: str | os.PathLike[str] | Store = "runs",
    workers: int | None = None,
    data: str | None = None,
) -> Result:
    """Run what is missing of an experiment, and judge its claims on everything that is there.

    ``engine`` is ``local`` (as many processes as cores, or ``workers``), ``inline`` or the address of a Dask scheduler
    (``tcp://host:port``). ``out`` is a folder or any fsspec path: finished runs are found there and not run again.
    ``data`` is a data set of your own (a name or a path), for experiments that take one.
    """
    experiment = load(name) if isinstance(name, str) else name
    label = ""
    if data is not None:
        experiment, label = on_own_data(experiment, scale, data)
    settings = experiment.settings(scale)
    experiment.check(scale)
    store = out if isinstance(out, Store) else Store(out)
    grid = Grid(experiment.name, experiment.task, settings, experiment.version, experiment.cost, experiment.same)
    command = _command(name if isinstance(name, str) else experiment.name, scale, store.out, data)
    if isinstance(engine, Engine):
        return _run(experiment, scale, grid, engine, store, command, label)
    with Engine(engine, workers) as opened:
        return _run(experiment, scale, grid, opened, store, command, label)


def _run(
    experiment: Experiment, scale: str, grid: Grid, engine: Engine, store: Store, command: str, label: str
) -> Result:
    if "://" not in engine.spec:  # the workers of a cluster have their own folders
        _check_data(grid, store)
    report = run_grid(grid, store, engine)
    rows = Rows(
        ({**done.setting, **done.record} for done in report.done),
        missing=(failed.setting for failed in report.failed),
        fields=experiment.fields(grid.settings),
    )
    reused = sum(done.reused for done in report.done)
    demo, trouble = _demo(experiment, grid, engine, store)
    return Result(
        experiment=experiment,
        scale=scale,
        rows=rows,
        verdicts=experiment.judge(rows, scale),
        failures=[Failure(failed.setting, failed.error, failed.trace) for failed in report.failed],
        computed=len(report.done) - reused,
        reused=reused,
        seconds=sum(done.seconds for done in report.done),
        command=command,
        software=_software(),
        started=[(done.setting, before(done.at, done.seconds)) for done in report.done],
        data=label,
        demo=demo,
        demo_failed=trouble,
    )


def _demo(experiment: Experiment, grid: Grid, engine: Engine, store: Store) -> tuple[dict[str, Any] | None, str]:
    """The record of the lesson's demo, and why there is none: a slip in it must not cost the page."""
    if experiment.lesson is None or experiment.lesson.demo is None:
        return None, ""
    report = run_grid(Grid(grid.experiment, experiment.lesson.demo, grid.settings[:1], grid.version), store, engine)
    return (report.done[0].record, "") if report.done else (None, report.failed[0].error)


def _check_data(grid: Grid, store: Store) -> None:
    """Data that are not here: one sentence now, not one failure for each task. Stored results need none."""
    absent = {row["name"]: row for row in data_catalogue() if row["where"] == "not found"}
    if not any(_needs(setting) & absent.keys() for setting in grid.settings):
        return
    for setting in pending(grid, store):
        for part in sorted(_needs(setting) & absent.keys()):
            raise TrueriskError(f"{grid.experiment} needs {part}, which is not here: {absent[part]['how_to_get']}.")


def _needs(setting: Setting) -> set[str]:
    return {setting["data"], f"{setting['data']}:test"} if "data" in setting else set()


def _command(name: str, scale: str, out: str, data: str | None) -> str:
    parts = ["truerisk", "lab", "run", name, "--scale", scale, "--out", out, *(["--data", data] if data else [])]
    return " ".join(shlex.quote(part) for part in parts)


def _software() -> dict[str, str]:
    packages = {name: version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")}
    return {"truerisk": __version__, "python": platform.python_version(), **packages}
