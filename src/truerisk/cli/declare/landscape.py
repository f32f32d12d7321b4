"""``truerisk landscape``: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerisk.cli import complete
from truerisk.cli.options import DataDir, Json, Model, Outputs, Quiet


def landscape(
    data: Annotated[
        str | None,
        typer.Option(
            help="Data that the network was trained on: a name or a path.",
            show_default="digits",
            autocompletion=complete.data,
        ),
    ] = None,
    model: Model = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="Trained weights (safetensors or .pt state dict).", show_default="the network is trained first"
        ),
    ] = None,
    plane: Annotated[str, typer.Option(help="Kind of plane: random, line, hessian, or pca.")] = "random",
    planes: Annotated[int, typer.Option(help="Number of random planes or lines.")] = 3,
    size: Annotated[int, typer.Option(help="Points along each side of the grid; odd.")] = 51,
    reach: Annotated[
        float | None,
        typer.Option(
            help="Distance from the network to the edge; 1 is the weights' length.",
            show_default="1; for hessian 0.02",
        ),
    ] = None,
    directions: Annotated[
        str, typer.Option(help="Normalization: filter, filter-weights, elementwise, or none.")
    ] = "filter",
    trajectory: Annotated[
        list[Path] | None,
        typer.Option(
            help="Checkpoint on the path of training (pca); repeatable, in order.",
            show_default="one for each epoch, if the network is trained first",
        ),
    ] = None,
    std: Annotated[float, typer.Option(help="Spread (standard deviation) of the twin's random log factors.")] = 1.0,
    rows: Annotated[int, typer.Option(help="Number of examples on which the loss is computed.")] = 500,
    workers: Annotated[int | None, typer.Option(help="Number of processes.", show_default="one for each core")] = None,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for landscape.json and landscape.html.")] = Path(
        "truerisk-landscape"
    ),
    outputs: Outputs = None,
    data_dir: DataDir = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show the loss around a trained network, next to a rescaled twin that computes the same function.

    Examples: truerisk landscape
    | truerisk landscape --model net.py:build --weights w.safetensors --data train.npz
    | truerisk landscape --plane pca
    | truerisk landscape --plane pca --trajectory 1.pt --trajectory 2.pt --model mlp:64 --weights 3.pt --data mnist
    """
    from truerisk.cli import landscape as command

    options = command.Options(
        data, model, weights, plane, planes, size, reach, directions, tuple(trajectory or ()), std, rows, workers, seed,
        out, outputs, data_dir,
    )  # fmt: skip
    command.landscape(options, json, quiet)
