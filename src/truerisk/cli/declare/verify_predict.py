"""``truerisk verify`` and ``truerisk predict``: their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerisk.cli import complete
from truerisk.cli.options import DataDir, Folder, Json, Model, Quiet


def verify(
    folder: Folder,
    data: Annotated[
        str | None,
        typer.Option(
            help="Certified data; needed if it is your own.", show_default=False, autocompletion=complete.data
        ),
    ] = None,
    model: Model = None,
    retrain: Annotated[
        bool, typer.Option("--retrain", help="Retrain everything that was trained before certification.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Seed of verify's own random draws.", show_default="a secret one")
    ] = None,
    data_dir: DataDir = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Re-derive the bound from a certificate's files, and compare it with what the certificate claims.

    Exit code 0: confirmed. 1: contradicted, or not reproduced here (retraining gave other weights).
    Rely on the bound that verify prints. Example: truerisk verify truerisk-out
    """
    from truerisk.cli import commands

    commands.verify(folder, data, model, {"retrain": retrain, "seed": seed, "data_dir": data_dir}, json, quiet)


def predict(
    folder: Folder,
    data: Annotated[
        str,
        typer.Option(
            help="Inputs: a dataset name, a folder, .npz (X), or .npy.",
            show_default=False,
            autocompletion=complete.data,
        ),
    ],
    model: Model = None,
    out: Annotated[Path | None, typer.Option(help="File for the labels, one per line.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="Seed for sampling the weights of a stochastic predictor.")] = 0,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Predict with exactly the certified predictor, and print one label per line.

    Example: truerisk predict truerisk-out --data mnist:test --out labels.txt
    """
    from truerisk.cli import commands

    commands.predict(folder, data, model, out, seed, data_dir, json)
