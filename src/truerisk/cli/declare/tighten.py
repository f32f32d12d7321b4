"""``truerisk tighten``: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerisk.cli import complete
from truerisk.cli.options import DataDir, Json, Outputs, Quiet


def tighten(
    model: Annotated[
        list[str],
        typer.Option(
            help="Network: FILE.py:NAME, MODULE:NAME, or mlp:64-32; repeatable.",
            show_default=False,
            autocompletion=complete.model,
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            help="Data that the network was trained on: a name or a path.",
            show_default=False,
            autocompletion=complete.data,
        ),
    ],
    sigma_q: Annotated[
        str,
        typer.Option(
            help="Posterior standard deviation: 0.02, or by layer: 0=0.1,2=0.02.",
            show_default=False,
        ),
    ],
    sigma_p: Annotated[
        str,
        typer.Option(help="Prior standard deviation around 0: a number, or by layer.", show_default=False),
    ],
    weights: Annotated[
        list[Path] | None,
        typer.Option(
            help="Trained weights (safetensors or .pt); repeatable.", show_default="those the model comes with"
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Label of a network in table and figure; repeatable.", show_default="by file"),
    ] = None,
    form: Annotated[
        str,
        typer.Option(help="Inequality: kl, mcallester, or catoni.", autocompletion=complete.form),
    ] = "kl",
    delta: Annotated[float, typer.Option(help="Failure probability of each bound.")] = 0.05,
    draws: Annotated[
        int | None,
        typer.Option(help="Number of predictions by sampled networks.", show_default="50000, at least one per example"),
    ] = None,
    lifted: Annotated[int, typer.Option(help="Sampled networks for the lifted KL; 0 leaves it out.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the sampled networks.")] = 0,
    outputs: Outputs = None,
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="Folder for tighten.html.")] = Path("truerisk-out"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what rescaling does to the PAC-Bayes bounds of trained networks: the same functions, a smaller KL.

    Examples: truerisk tighten --model net.py:build --weights w.pt --data train.npz --sigma-q 0.02 --sigma-p 1
    | truerisk tighten --model mlp:64-32 --weights w.pt --data mnist --sigma-q 0.0227 --sigma-p 1 --form mcallester
    | truerisk tighten --model mlp:32 --weights a.pt --model mlp:9 --weights b.pt --data mnist --sigma-q .02 --sigma-p 1
    """
    from truerisk.cli import tighten as command
    from truerisk.cli.tighten_options import Options

    options = Options(
        model,
        weights or [],
        name or [],
        data,
        sigma_q,
        sigma_p,
        form,
        delta,
        draws,
        lifted,
        seed,
        outputs,
        data_dir,
        out,
    )
    command.tighten(options, json, quiet)
