"""``truerisk search``: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerisk.cli import complete
from truerisk.cli.options import DataDir, Device, Epochs, Json, Outputs, Quiet, TrustFactory


def search(
    data: Annotated[
        str | None,
        typer.Option(help="Dataset name or path, as for certify.", show_default="digits", autocompletion=complete.data),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Network, as for certify; repeat the option to compare.",
            show_default="by input",
            autocompletion=complete.model,
        ),
    ] = None,
    lr: Annotated[
        list[float] | None,
        typer.Option(
            help="Peak learning rate; repeat the option to compare.", show_default="the usual one times 0.3, 1, and 3"
        ),
    ] = None,
    prior: Annotated[
        list[str] | None,
        typer.Option(help="Prior split:FRACTION; repeat to compare.", show_default="split:0.5, split:0.8, split:0.9"),
    ] = None,
    delta: Annotated[float, typer.Option(help="Delta of the planned certificate.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Seed of the planned certificate; fixes its certification rows.")] = 0,
    epochs: Epochs = None,
    device: Device = "cpu",
    trust_factory: TrustFactory = False,
    work: Annotated[Path, typer.Option(help="Folder for checkpoints; they are removed at the end.")] = Path(
        "truerisk-search"
    ),
    outputs: Outputs = None,
    data_dir: DataDir = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Choose a network, a learning rate, and a split without using any certification example.

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
        "outputs": outputs,
        "data_dir": data_dir,
    }
    command.search(model, data, prior, work, options, json, quiet)
