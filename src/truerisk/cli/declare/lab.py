"""``truerisk lab``: its commands and their options."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from truerisk.cli.options import Json, Quiet

lab_app = typer.Typer(help="Classic experiments on memorization and generalization.", no_args_is_help=True)


@lab_app.command("list")
def lab_list(json: Json = False) -> None:
    """The experiments, what they show, and the scales they run at. Example: truerisk lab list"""
    from truerisk.cli import lab

    lab.show_list(json)


@lab_app.command("run")
def lab_run(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Experiments, or Python files with one.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Run all experiments that come with truerisk.")] = False,
    scale: Annotated[str, typer.Option(help="smoke, quick, medium or paper: see 'lab list'.")] = "quick",
    engine: Annotated[
        str, typer.Option(help="local (processes), inline, or a Dask scheduler: tcp://host:port.")
    ] = "local",
    out: Annotated[str, typer.Option(help="Folder (or any fsspec path) for records and pages.")] = "runs",
    workers: Annotated[int | None, typer.Option(help="Local processes.", show_default="as many as cores")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run experiments, check their published claims, write a page for each and an index.

    Finished runs are kept in --out and found again: a command that was interrupted goes on where it was.

    Examples: truerisk lab run random-labels
    | truerisk lab run --all
    | truerisk lab run rademacher memorizer --engine tcp://127.0.0.1:8786
    """
    from truerisk.cli import lab

    try:
        lab.run(names or [], every, scale, engine, out, workers, json, quiet)
    except KeyboardInterrupt:
        print("\nstopped; what was finished is kept, and the same command goes on from there", file=sys.stderr)
        raise typer.Exit(130) from None
