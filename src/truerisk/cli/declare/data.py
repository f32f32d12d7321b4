"""``truerisk data``: its commands and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from truerisk.cli.options import DataDir, Json

data_app = typer.Typer(help="Data sets: what is here, what can be fetched.", no_args_is_help=True)


@data_app.command("list")
def data_list(data_dir: DataDir = None, json: Json = False) -> None:
    """What is here, what can be fetched, and where files are looked for. Example: truerisk data list"""
    from truerisk.cli import commands

    commands.data_list(data_dir, json)


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="mnist, fashion-mnist or cifar-10.")], data_dir: DataDir = None
) -> None:
    """Fetch a data set into the first folder of 'data list'. Example: truerisk data get mnist"""
    from truerisk.cli import commands

    commands.data_get(name, data_dir)
