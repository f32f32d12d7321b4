"""``truerisk certify``: its options are the fields of a request, and those of the methods."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from truerisk.certificates.methods import METHODS
from truerisk.certificates.request import Request
from truerisk.certificates.schema import Flag, flags
from truerisk.cli.options import Json, Quiet

NAMES = {"predictor": "--for"}  # flags that are not called like their field


class CertifyCommand(TyperCommand):
    """Its help ends with the list of methods."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        rows = [(name, f"{method.summary} [{method.predictor}]") for name, method in METHODS.items()]
        with formatter.section("Methods"):
            formatter.write_dl(
                [("all", "every method that applies, each with its part of delta; the best is kept"), *rows]
            )


def certify(
    *,
    out: Annotated[Path, typer.Option(help="Folder for certificate.json, weights and report.html.")] = Path(
        "truerisk-out"
    ),
    json: Json = False,
    quiet: Quiet = False,
    **asked: Any,
) -> None:
    """Certify how wrong a network can be on data it has never seen.

    Examples: truerisk certify
    | truerisk certify --data mnist --prior init
    | truerisk certify --method all --for deterministic
    | truerisk certify --model net.py:build --weights w.safetensors --fresh test.npz
    | truerisk certify --model net.py:build --weights w.safetensors --data train.npz --unlabelled new.npy
    """
    from truerisk.cli import commands

    own = {flag.name: asked.pop(flag.name) for flag in _of_methods()}
    options = {name: value for name, value in own.items() if value is not None}
    commands.certify({**asked, "options": options}, out, json, quiet)


def _of_methods() -> list[Flag]:
    """The options of all methods; one that several have is listed once."""
    found: dict[str, Flag] = {}
    for method in METHODS.values():
        for flag in flags(method):
            found.setdefault(flag.name, flag)
    return list(found.values())


def _parameters() -> Iterator[inspect.Parameter]:
    """What typer reads: the declared options, then the request's and the methods', whose defaults stay their own."""
    for flag in flags(Request):
        yield _parameter(flag, flag.default)
    for flag in _of_methods():
        yield _parameter(flag, None)
    hints = get_type_hints(certify, include_extras=True)
    for name, each in inspect.signature(certify).parameters.items():
        if each.kind is inspect.Parameter.KEYWORD_ONLY:
            yield each.replace(annotation=hints[name])


def _parameter(flag: Flag, default: Any) -> inspect.Parameter:
    kind = flag.kind if flag.kind in (bool, int, float, Path) else str
    names = [NAMES[flag.name]] if flag.name in NAMES else [f"--{flag.name.replace('_', '-')}"]
    shown: bool | str = flag.shown if default is None and flag.shown else kind is not bool and default is not None
    option = typer.Option(*names, help=flag.help, show_default=shown)
    annotation: Any = Annotated[kind if default is not None else kind | None, option]
    return inspect.Parameter(flag.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_PARAMETERS = list(_parameters())
certify.__signature__ = inspect.Signature(_PARAMETERS)  # type: ignore[attr-defined]
certify.__annotations__ = {each.name: each.annotation for each in _PARAMETERS}
