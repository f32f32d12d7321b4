"""The commands, in the order of ``truerisk --help``; the options of each are in ``declare``."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from truerisk._version import __version__
from truerisk.cli.declare.certify import CertifyCommand, certify
from truerisk.cli.declare.data import data_app
from truerisk.cli.declare.lab import lab_app
from truerisk.cli.declare.landscape import landscape
from truerisk.cli.declare.measure import measure
from truerisk.cli.declare.search import search
from truerisk.cli.declare.symmetry_rescale import rescale, symmetry
from truerisk.cli.declare.tighten import tighten
from truerisk.cli.declare.tour import tour
from truerisk.cli.declare.verify_predict import predict, verify

COMPLETION = {
    "install_completion": "Install completion for the current shell.",
    "show_completion": "Print the completion script of the current shell.",
}


class Root(TyperGroup):
    """All commands; the help of typer's own options in the words of the others."""

    def get_params(self, ctx: Any) -> list[Any]:
        params = list(super().get_params(ctx))
        for each in params:
            if each.name in COMPLETION:
                each.help = COMPLETION[each.name]  # type: ignore[attr-defined]
        return params


app = typer.Typer(
    name="truerisk",
    help="Certify upper bounds on the true risk of neural networks. Start with: truerisk certify",
    no_args_is_help=True,
    cls=Root,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(show: bool) -> None:
    if show:
        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Certify upper bounds on the true risk of neural networks. Start with: truerisk certify"""


app.command(cls=CertifyCommand)(certify)
app.command()(tour)
app.command()(search)
app.command()(verify)
app.command()(predict)
app.command()(symmetry)
app.command()(rescale)
app.command()(tighten)
app.command()(measure)
app.command()(landscape)
app.add_typer(data_app, name="data")
app.add_typer(lab_app, name="lab")
