"""``truerisk tour``: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerisk.cli import complete
from truerisk.cli.options import DataDir, Json, Model, Outputs, Quiet


def tour(
    data: Annotated[
        str | None,
        typer.Option(help="Name or path, as for certify.", show_default="digits", autocompletion=complete.data),
    ] = None,
    model: Model = None,
    delta: Annotated[float, typer.Option(help="Failure probability of each certificate.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Seed of the split, the training, and the random labels.")] = 0,
    minutes: Annotated[float, typer.Option(help="Time limit; parts that would exceed it are left out.")] = 10.0,
    out: Annotated[Path, typer.Option(help="Folder for tour.html, tour.json and the certificates.")] = Path(
        "truerisk-out"
    ),
    outputs: Outputs = None,
    data_dir: DataDir = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tell what this program is for in two minutes: learned or memorized, and what can be certified.

    Examples: truerisk tour
    | truerisk tour --data mine.npz --model net.py:build --minutes 20
    """
    from truerisk.cli import tour as command

    asked = {"model": model, "data": data, "delta": delta, "seed": seed, "minutes": minutes, "data_dir": data_dir}
    asked["outputs"] = outputs
    command.tour(asked, out, json, quiet)
