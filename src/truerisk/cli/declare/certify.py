"""``truerisk certify``: its options are the fields of a request, and those of the methods.

They are read from where they are declared, and only when this command is asked for: ``truerisk --help`` waits for
nothing.
"""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from truerisk.cli import complete
from truerisk.cli.options import Json, Quiet

if TYPE_CHECKING:
    from truerisk.certificates.schema import Flag

NAMES = {"predictor": "--for", "unlabelled": "--unlabeled"}  # flags that are not called like their field
FORMER = {"--unlabelled": "--unlabeled"}  # spellings that still work
Out = Annotated[Path, typer.Option(help="Folder for certificate.json, weights, and report.html.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the certificate that is in the folder.")]
WRITTEN = {
    "out": (Out, Path("truerisk-out")),
    "force": (Force, False),
    "json": (Json, False),
    "quiet": (Quiet, False),
}  # next to what is read


def certify() -> None:
    """Certify an upper bound on the error rate of a network on unseen data.

    Examples: truerisk certify
    | truerisk certify --data mnist --prior init
    | truerisk certify --method all --for deterministic
    | truerisk certify --model net.py:build --weights w.safetensors --fresh test.npz --two-sided
    | truerisk certify --model net.py:build --weights w.safetensors --data train.npz --unlabeled new.npy
    """


class CertifyCommand(TyperCommand):
    """Stands for the command with all its options, which is made on demand."""

    def make_context(self, *args: Any, **keywords: Any) -> Any:
        return _whole().make_context(*args, **keywords)

    def get_params(self, ctx: Any) -> list[Any]:
        return list(_whole().get_params(ctx))


class _WholeCommand(TyperCommand):
    """Its help ends with the list of methods; former spellings of flags are read, but not listed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = (word.partition("=") for word in args)
        return super().parse_args(ctx, [FORMER.get(name, name) + equals + value for name, equals, value in words])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        from truerisk.certificates.methods import METHODS

        rows = [(name, f"{method.summary} [{method.predictor}]") for name, method in METHODS.items()]
        with formatter.section("Methods"):
            formatter.write_dl(
                [("all", "every applicable method, each with an equal share of delta; keeps the best"), *rows]
            )


@cache
def _whole() -> Any:
    """The command that typer makes of all declared options."""
    from truerisk.certificates.request import Request
    from truerisk.certificates.schema import flags

    of_methods = _of_methods()

    def whole(out: Path, force: bool, json: bool, quiet: bool, **asked: Any) -> None:
        from truerisk.cli import commands

        own = {flag.name: asked.pop(flag.name) for flag in of_methods}
        options = {name: value for name, value in own.items() if value is not None}
        commands.certify({**asked, "options": options}, out, force, json, quiet)

    # A method's own default is not the command's: only what was given is handed to it.
    declared = {flag.name: _annotated(flag, flag.default) for flag in flags(Request)}
    declared |= {flag.name: _annotated(flag, None) for flag in of_methods} | WRITTEN
    whole.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in declared.items()
        ]
    )
    whole.__annotations__ = {name: kind for name, (kind, _) in declared.items()}
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command("certify", cls=_WholeCommand, help=inspect.getdoc(certify))(whole)
    return get_command(alone)


def _of_methods() -> list[Flag]:
    """The options of all methods; one that several have is listed once."""
    from truerisk.certificates.methods import METHODS
    from truerisk.certificates.schema import flags

    found: dict[str, Flag] = {}
    for method in METHODS.values():
        for flag in flags(method):
            found.setdefault(flag.name, flag)
    return list(found.values())


def _annotated(flag: Flag, default: Any) -> tuple[Any, Any]:
    """The type and the default that typer reads; what no value means is said by ``flag.shown``."""
    kind = flag.kind if flag.kind in (bool, int, float) else str
    shown: bool | str = (flag.shown or False) if default is None else kind is not bool
    name = NAMES.get(flag.name, f"--{flag.name.replace('_', '-')}")
    option = typer.Option(name, help=flag.help, show_default=shown, autocompletion=complete.of(flag))
    annotation: Any = Annotated[kind if default is not None else kind | None, option]
    return annotation, default
