"""``truerisk search``: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerisk.cli.options import DataDir, Device, Epochs, Json, Quiet, TrustFactory


def search(
    data: Annotated[str | None, typer.Option(help="As for certify: a name or a path.", show_default="digits")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A network, as for certify; once for each.", show_default="convnet or mlp, by input"),
    ] = None,
    lr: Annotated[
        list[float] | None,
        typer.Option(help="A peak learning rate; once for each.", show_default="the usual one times 0.3, 1 and 3"),
    ] = None,
    prior: Annotated[
        list[str] | None,
        typer.Option(help="split:FRACTION; once for each.", show_default="split:0.5, split:0.8 and split:0.9"),
    ] = None,
    delta: Annotated[float, typer.Option(help="Of the certificate to come.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Of the certificate to come: its certifying rows are not looked at.")] = 0,
    epochs: Epochs = None,
    device: Device = "cpu",
    trust_factory: TrustFactory = False,
    work: Annotated[Path, typer.Option(help="Folder for checkpoints, which are removed at the end.")] = Path(
        "truerisk-search"
    ),
    data_dir: DataDir = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find a network, a learning rate and a split for a certificate, on rows that never certify.

    Examples: truerisk search --data mnist --model mlp --model convnet
    | truerisk search --model net.py:build --lr 0.001 --lr 0.01 --prior split:0.8
    """
    from truerisk.cli import search as command

    options = {
        "lrs": lr,
        "delta": delta,
        "seed": seed,
        "epochs": epochs,
        "trust_factory": trust_factory,
        "device": device,
        "data_dir": data_dir,
    }
    command.search(model, data, prior, work, options, json, quiet)
