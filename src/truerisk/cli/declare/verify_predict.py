"""``truerisk verify`` and ``truerisk predict``: their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerisk.cli.options import DataDir, Folder, Json, Model, Quiet


def verify(
    folder: Folder,
    data: Annotated[str | None, typer.Option(help="The certified data, if it is your own.", show_default=False)] = None,
    model: Model = None,
    retrain: Annotated[
        bool, typer.Option("--retrain", help="Train again what was trained before it certified.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Seed of verify's own draws.", show_default="a secret one")] = None,
    data_dir: DataDir = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Derive a bound from a certificate's files, and compare what the certificate claims with it.

    Exit code 0: confirmed. 1: contradicted, or not repeated here (training again gave other weights).
    The bound to rely on is the one that verify prints. Example: truerisk verify truerisk-out
    """
    from truerisk.cli import commands

    commands.verify(folder, data, model, {"retrain": retrain, "seed": seed, "data_dir": data_dir}, json, quiet)


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
