"""``truerisk verify`` and ``truerisk predict``: their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerisk.cli.options import DataDir, Folder, Json, Model


def verify(
    folder: Folder,
    data: Annotated[str | None, typer.Option(help="The certified data, if it is your own.", show_default=False)] = None,
    model: Model = None,
    retrain: Annotated[bool, typer.Option("--retrain", help="Train the prior again from its seed.")] = False,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Re-derive every number of a certificate; exit code 1 if one does not hold.

    Example: truerisk verify truerisk-out
    """
    from truerisk.cli import commands

    commands.verify(folder, data, model, retrain, data_dir, json)


def predict(
    folder: Folder,
    data: Annotated[str, typer.Option(help="Inputs: a name, a folder, .npz (X) or .npy.", show_default=False)],
    model: Model = None,
    out: Annotated[Path | None, typer.Option(help="Write the labels here, one a line.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="Seed of a stochastic predictor's draws.")] = 0,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Predictions of exactly the predictor that was certified, one label a line.

    Example: truerisk predict truerisk-out --data mnist:test --out labels.txt
    """
    from truerisk.cli import commands

    commands.predict(folder, data, model, out, seed, data_dir, json)
