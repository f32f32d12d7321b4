"""Progress on standard error for anything that takes more than two seconds.

On a terminal it is a bar with the time left; elsewhere (CI, a pipe) one plain line every ten seconds.
Standard output is never touched, so that ``--json`` stays clean.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds before anything is shown
LINE_EVERY = 10.0  # seconds between plain lines where there is no terminal
RARER = 600.0  # seconds after which lines get rarer: a night of work fills no file

_enabled = True


def enable(on: bool) -> None:
    """Switch all progress on or off (``--quiet``)."""
    global _enabled
    _enabled = on


def note(text: str) -> None:
    """One line on standard error about a choice that was made for the user."""
    if _enabled:
        print(f"note: {printable(' '.join(text.split()))}", file=sys.stderr)


def printable(text: str) -> str:
    """A text that does not steer a terminal or garble a page, whatever is in a user's file.

    >>> printable("a\\x1b[2J")
    'a?[2J'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in text)


@contextmanager
def silent() -> Iterator[None]:
    """No progress inside the block, whatever is switched on outside."""
    global _enabled
    before, _enabled = _enabled, False
    try:
        yield
    finally:
        _enabled = before


@contextmanager
def bar(label: str, total: int) -> Iterator[Callable[..., None]]:
    """Yield ``advance(steps=1, note="", left=None)``; draw nothing for the first two seconds.

    ``left`` is the number of seconds left, for callers that know better than the steps so far.

    >>> with bar("counting", total=3) as advance:
    ...     for _ in range(3):
    ...         advance(note="loss 0.1")
    """
    if not _enabled:
        yield lambda steps=1, note="", left=None: None
    elif sys.stderr.isatty():
        with _rich_bar(label, total) as advance:
            yield advance
    else:
        yield _plain_lines(label, total)


@contextmanager
def _rich_bar(label: str, total: int) -> Iterator[Callable[..., None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class TimeLeft(TimeRemainingColumn):
        """The time left that the caller gives, in the words of the plain lines; otherwise rich's own guess."""

        def render(self, task: Task) -> Text:
            left = task.fields["left"]
            return super().render(task) if left is None else Text(_left(left), style="progress.remaining")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeLeft(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    start = time.monotonic()
    display = Progress(*columns, console=Console(stderr=True), transient=True)
    task = display.add_task(label, total=total, note="", left=None)
    started = False

    def advance(steps: int = 1, note: str = "", left: float | None = None) -> None:
        nonlocal started
        display.update(task, advance=steps, note=note, left=left)
        if not started and time.monotonic() - start > PATIENCE:
            display.start()
            started = True

    try:
        yield advance
    finally:
        if started:
            display.stop()


def _plain_lines(label: str, total: int) -> Callable[..., None]:
    done, start, last = 0, time.monotonic(), time.monotonic()

    def advance(steps: int = 1, note: str = "", left: float | None = None) -> None:
        nonlocal done, last
        done += steps
        now = time.monotonic()
        if now - last >= LINE_EVERY * max(1.0, (now - start) / RARER):
            if left is None and done:
                left = (now - start) / done * (total - done)
            time_left = "" if left is None else f", {_left(left)}"
            print(f"{label}: {100 * done / total:.0f}%{time_left}  {note}".rstrip(), file=sys.stderr)
            last = now

    return advance


def _left(seconds: float) -> str:
    """
    >>> _left(90)
    'about 90 s left'
    """
    return f"about {span(seconds)} left"


def span(seconds: float) -> str:
    """
    >>> span(90), span(600), span(9000)
    ('90 s', '10 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
