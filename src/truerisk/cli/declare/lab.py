"""``truerisk lab``: its commands and their options."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from truerisk.cli.options import Json, Quiet

lab_app = typer.Typer(help="Classic experiments on memorization and generalization.", no_args_is_help=True)


Scale = Annotated[str, typer.Option(help="smoke, quick, medium, or paper; lab list explains them.")]


@lab_app.command("list")
def lab_list(scale: Scale = "quick", json: Json = False) -> None:
    """List the experiments, what they show, and their runs and claims. Example: truerisk lab list --scale medium"""
    from truerisk.cli import lab

    lab.show_list(scale, json)


@lab_app.command("commit")
def lab_commit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An experiment, or a Python file with one.")],
    restated: Annotated[str, typer.Option(help="Why a claim reads differently although nothing was chosen anew.")] = "",
    json: Json = False,
) -> None:
    """Record the thresholds of an experiment's claims before its runs.

    Lines are appended to NAME.committed.json next to the file. A claim that differs from its line gets no verdict; a
    changed claim is judged on new seeds alone.

    Examples: truerisk lab commit my_experiment.py
    | truerisk lab commit my_experiment.py --restated "the task was renamed"
    """
    from truerisk.cli import lab

    lab.commit(name, restated, json)


@lab_app.command("run")
def lab_run(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Experiments, or Python files with one.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Run all experiments that come with truerisk.")] = False,
    scale: Scale = "quick",
    engine: Annotated[
        str, typer.Option(help="local (processes), inline, or a Dask scheduler: tcp://host:port.")
    ] = "local",
    out: Annotated[str, typer.Option(help="Folder (or any fsspec path) for records and pages.")] = "runs",
    data: Annotated[
        str | None, typer.Option(help="Dataset of your own (experiments that lab list marks with *).")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Local processes.", show_default="as many as cores")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run experiments, check the claims of papers, and write a page for each and an index.

    Finished runs are kept in --out: a command that was interrupted resumes where it was.

    Examples: truerisk lab run random-labels
    | truerisk lab run random-labels --data mine.npz
    | truerisk lab run --all
    | truerisk lab run rademacher memorizer --engine tcp://127.0.0.1:8786
    """
    from truerisk.cli import lab

    try:
        lab.run(names or [], every, scale, engine, out, workers, json, quiet, data)
    except KeyboardInterrupt:
        print("\nstopped; finished runs are kept, and the same command resumes there", file=sys.stderr)
        raise typer.Exit(130) from None
