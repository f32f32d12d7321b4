"""``truerisk symmetry`` and ``truerisk rescale``: their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerisk.cli.options import Integers, Json, RequiredModel, Shape, Weights


def symmetry(
    model: RequiredModel,
    shape: Shape,
    weights: Weights = None,
    integers: Integers = None,
    json: Json = False,
) -> None:
    """What of a network can be rescaled without a change of its function, what is held, and why.

    Example: truerisk symmetry --model net.py:build --input 1,3,32,32
    """
    from truerisk.cli import orbit

    orbit.symmetry(model, weights, shape, integers, json)


def rescale(
    model: RequiredModel,
    shape: Shape,
    weights: Weights = None,
    integers: Integers = None,
    to: Annotated[
        str, typer.Option(help="balanced (smallest sum of squares) or unit (incoming norms 1).")
    ] = "balanced",
    out: Annotated[Path, typer.Option(help="Where to write the weights.")] = Path("rescaled.safetensors"),
    json: Json = False,
) -> None:
    """Write a canonical form of a network's weights: other numbers, the same function.

    Example: truerisk rescale --model net.py:build --weights w.pt --input 1,3,32,32 --to balanced
    """
    from truerisk.cli import orbit

    orbit.rescale(model, weights, shape, integers, to, out, json)
