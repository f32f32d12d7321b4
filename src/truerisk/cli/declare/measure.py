"""``truerisk measure``: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerisk.cli import complete
from truerisk.cli.options import DataDir, Json, Model, Outputs, Quiet


def measure(
    networks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[A] [B]",
            help="Networks: models, or weight files of one --model. Two are compared.",
            show_default=False,
        ),
    ] = None,
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
    init: Annotated[
        str | None,
        typer.Option(
            help="Weights before training: a file, or seed:N (torch's seed).",
            show_default=False,
        ),
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="JSON file with facts about the training.", show_default=False)
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Names of measures and bounds, joined by commas (see --list).", show_default="all that train nothing"
        ),
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Train the network on random labels, too, as a reference.")
    ] = False,
    test: Annotated[
        str | None,
        typer.Option(
            help="Held-out examples: data, or a share of --data to train without.",
            show_default="0.2 if the network is trained here",
        ),
    ] = None,
    train: Annotated[bool, typer.Option("--train", help="Include measures that train networks of their own.")] = False,
    delta: Annotated[float, typer.Option(help="Failure probability of each bound.")] = 0.05,
    rows: Annotated[int, typer.Option(help="Number of examples for gradients and searches.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    full: Annotated[bool, typer.Option("--all", help="Print every measure and bound.")] = False,
    family: Annotated[
        str | None, typer.Option(help="Print the measures of this family, such as norms.", show_default=False)
    ] = None,
    layers: Annotated[bool, typer.Option("--layers", help="Print the contribution of each layer.")] = False,
    every: Annotated[bool, typer.Option("--list", help="List all measures and bounds, and stop.")] = False,
    audit: Annotated[bool, typer.Option("--audit", help="Rescale the network at random and measure again.")] = False,
    times: Annotated[int, typer.Option(help="Number of rescalings (--audit).")] = 5,
    std: Annotated[float, typer.Option(help="Spread (standard deviation) of the random log factors (--audit).")] = 1.0,
    out: Annotated[Path, typer.Option(help="Folder for the tables and report.html.")] = Path("truerisk-measures"),
    outputs: Outputs = None,
    data_dir: DataDir = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compute complexity measures and classical bounds of a network, next to references.

    Examples: truerisk measure --calibrate
    | truerisk measure mlp:64 mlp:512
    | truerisk measure a.safetensors b.safetensors --model net.py:build --data train.npz
    | truerisk measure --list
    | truerisk measure --model net.py:build --weights w.safetensors --init seed:0 --data train.npz
    | truerisk measure --audit
    """
    from truerisk.cli import measure as command
    from truerisk.cli.measured_network import chosen

    if every:
        command.show_list(json)
        return
    names = [name.strip() for name in only.split(",") if name.strip()] if only is not None else None
    options = command.Options(
        init=init,
        record=record,
        only=names,
        train=train,
        delta=delta,
        rows=rows,
        seed=seed,
        layers=layers,
        times=times if audit else None,
        std=std,
        out=out,
        data_dir=data_dir,
        outputs=outputs,
        test=test,
        calibrate=calibrate,
        full=full,
        family=family,
    )
    command.measure(chosen(networks or [], model, weights), data, options, json, quiet)
