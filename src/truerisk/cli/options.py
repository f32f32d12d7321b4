"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    str | None,
    typer.Option(
        help="mlp, mlp:600-600, convnet, file.py:factory or package.module:factory.",
        show_default="convnet or mlp, by input",
    ),
]
RequiredModel = Annotated[
    str, typer.Option("--model", help="file.py:factory, package.module:factory, mlp or convnet.", show_default=False)
]
Weights = Annotated[
    Path | None, typer.Option(help="Trained weights (safetensors or .pt state dict).", show_default=False)
]
TrustFactory = Annotated[
    bool, typer.Option("--trust-factory", help="Vouch that the factory's weights and buffers never saw this data.")
]
Shape = Annotated[str, typer.Option("--input", help="Shape of an input, batch first: 1,3,32,32.", show_default=False)]
Integers = Annotated[
    int | None,
    typer.Option(help="The input holds whole numbers below this: the size of a vocabulary.", show_default=False),
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder that certify wrote.")]
DataDir = Annotated[Path | None, typer.Option(help="Look for data files here first.", show_default=False)]
Epochs = Annotated[int | None, typer.Option(help="Passes over the data.", show_default="by data size")]
Device = Annotated[str, typer.Option(help="Where networks are trained: cpu, cuda or auto.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
