"""``truerisk search``: what it does once its options are parsed, and what a person sees of it."""

from __future__ import annotations

import json as json_module
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from truerisk import progress, words
from truerisk.errors import TrueriskError

if TYPE_CHECKING:
    from truerisk.certificates.search import Search


def search(
    models: list[str] | None,
    data: str | None,
    priors: list[str] | None,
    work: Path,
    options: dict[str, Any],
    json: bool,
    quiet: bool,
) -> None:
    """Search, print, remove the checkpoints."""
    from truerisk.certificates.prior import splits_of
    from truerisk.certificates.request import Request

    progress.enable(not quiet)
    if work.exists() and not work.is_dir():
        raise TrueriskError(f"--work {work} is a file, but must be a folder; give another path.")
    Request(**{name: options[name] for name in ("delta", "seed", "device")})  # bad options end here
    if priors:
        splits_of(priors)

    from truerisk.certificates.search import PRIORS
    from truerisk.certificates.search import search as look

    try:
        found = look(models, data, priors=priors or PRIORS, work=work, **options)
    except KeyboardInterrupt:
        print("stopped; run the same command again to resume.", file=sys.stderr)
        sys.exit(130)
    if json:
        print(json_module.dumps(found.record(), allow_nan=False))
    else:
        show(found)
    _remove_checkpoints(work)


def _remove_checkpoints(work: Path) -> None:
    """Those of the search; the folder too, unless it holds anything else."""
    for path in work.glob("prior-*.pt"):
        path.unlink()
    with suppress(OSError):
        work.rmdir()


def show(found: Search) -> None:
    """The rows that were used, the candidates and the splits, best first, and what to run next."""
    console = Console(highlight=False)
    console.print(f"\n{escape(found.sentence)}")
    console.print(_candidates(found))
    console.print(_splits(found))
    console.print(f"\n{_curve(found)}")
    console.print(f"\n[bold]Next[/bold]  {escape(found.command)}", soft_wrap=True)


def _candidates(found: Search) -> Table:
    n = found.winner.n
    table = _table(f"Candidates, tested on {n:,} held-out rows")
    table.add_column("model")
    for column in ("learning rate", "epochs", "errors", "observed error"):
        table.add_column(column, justify="right")
    for c in sorted(found.candidates, key=lambda c: (c is not found.winner, -c.epochs, c.errors)):
        wrong = "diverged" if c.errors == n else f"{c.errors:,}"
        style = "bold" if c is found.winner else None
        table.add_row(escape(c.model), f"{c.lr:g}", f"{c.epochs:,}", wrong, words.seen(c.errors / n), style=style)
    return table


def _splits(found: Search) -> Table:
    table = _table("Splits, as predicted by the winner's learning curve")
    table.add_column("prior")
    for column in ("training rows", "certification rows", "error", "baseline"):
        table.add_column(column, justify="right")
    for p in found.predictions:
        style = "bold" if p.prior == found.prior else None
        numbers = (f"{p.n_prior:,}", f"{p.n_certify:,}", words.seen(p.error), words.bound(p.floor))
        table.add_row(p.prior, *numbers, style=style)
    return table


def _curve(found: Search) -> str:
    """What the prediction rests on."""
    curve = found.curve
    points = ", ".join(f"{point.errors:,} from {point.trained_on:,}" for point in curve.points)
    return (
        f"Learning curve: error = {curve.scale:.3g} m^-{curve.power:.2f} for m training rows, fitted to {points} "
        f"(errors on {curve.n:,} other rows). The baseline is the hold-out bound that certify prints."
    )


def _table(title: str) -> Table:
    return Table(title=f"\n{escape(title)}", title_justify="left", box=None, padding=(0, 2, 0, 0))
