"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerisk.cli import complete

Model = Annotated[
    str | None,
    typer.Option(
        help="Network: mlp, mlp:600-600, convnet, FILE.py:NAME, or MODULE:NAME.",
        show_default="by input",
        autocompletion=complete.model,
    ),
]
RequiredModel = Annotated[
    str,
    typer.Option(
        "--model",
        help="Network: FILE.py:NAME, MODULE:NAME, mlp, or convnet.",
        show_default=False,
        autocompletion=complete.model,
    ),
]
Weights = Annotated[
    Path | None, typer.Option(help="Trained weights (safetensors or .pt state dict).", show_default=False)
]
TrustFactory = Annotated[
    bool, typer.Option("--trust-factory", help="Vouch that the factory's weights and buffers never saw this data.")
]
Outputs = Annotated[
    str | None,
    typer.Option(help="Meaning of a single output: logits or probabilities.", show_default="logits"),
]
Shape = Annotated[str, typer.Option("--input", help="Input shape, batch first, such as 1,3,32,32.", show_default=False)]
Integers = Annotated[
    int | None,
    typer.Option(help="Vocabulary size, if the inputs are integers below it.", show_default=False),
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder that certify wrote.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder to search first for data files.", show_default=False)]
Epochs = Annotated[int | None, typer.Option(help="Number of passes over the data.", show_default="by data size")]
Device = Annotated[str, typer.Option(help="Device for training: cpu, cuda, or auto.", autocompletion=complete.device)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object to standard output and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Hide progress.")]
