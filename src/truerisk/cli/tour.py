"""``truerisk tour``: what it does once its options are parsed, and what a person sees of it."""

from __future__ import annotations

import json as json_module
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truerisk import progress
from truerisk.errors import TrueriskError
from truerisk.progress import printable

if TYPE_CHECKING:
    from truerisk.tours import Tour

WIDTH, LINES = 80, 25
INDENT = "   "
PAGE = "tour.html"


def tour(asked: dict[str, Any], out: Path, json: bool, quiet: bool) -> None:
    """Compute the three acts, write the page and the certificates, print the story."""
    from truerisk.report.extra import extra
    from truerisk.tours.asked import Asked

    progress.enable(not quiet)
    if out.exists() and not out.is_dir():
        raise TrueriskError(f"--out {out} is a file, but must be a folder; give another path.")
    Asked(**asked)  # bad options end here, before anything is loaded
    extra("jinja2")  # better missed now than after the work
    work = out / ".work"
    _try_to_write(work)

    from truerisk.report import write_tour
    from truerisk.tours import tour as take

    try:
        found = take(**asked, work=work, tell=None if quiet else _say)
    except KeyboardInterrupt:
        print("stopped; the same command resumes its training, and nothing else was written.", file=sys.stderr)
        sys.exit(130)
    (out / PAGE).unlink(missing_ok=True)  # a page never stands beside the certificates of another tour
    found.save(out)
    write_tour(found, out / PAGE, out)
    shutil.rmtree(work, ignore_errors=True)
    if json:
        print(json_module.dumps(found.to_json(), allow_nan=False))
    else:
        print("\n".join(lines(found, out)))


def _try_to_write(folder: Path) -> None:
    """A folder that cannot be written to is better noticed before the work than after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        with suppress(OSError):  # what was made for the test goes again, unless something is in it
            folder.rmdir()
            folder.parent.rmdir()
    except OSError as error:
        raise TrueriskError(
            f"--out {folder.parent} cannot be written to ({error.strerror}); give another folder."
        ) from error


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def lines(found: Tour, out: Path) -> list[str]:
    """The story in at most 25 lines of 80 columns: an act is a question, its numbers, and a line of code."""
    from truerisk.tours.labels import TRUE
    from truerisk.tours.result import FOLDER

    story = found.story
    told = [*_wrapped(story.headline, "")]
    for number, act in enumerate(story.acts, start=1):
        told += [
            f"{number}. {printable(act.question)}",
            *_wrapped(act.brief, INDENT),
            f"{INDENT}> {printable(act.code)}",
        ]
    told += _wrapped(story.left_out, "") if story.left_out else []
    verify = found.subject.given.verify_words(f"{out}/{FOLDER}/{TRUE}")
    return [*told, f"Report  {printable(str(out / PAGE))}", *command_lines("Verify  ", verify)]


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        printable(text), WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def command_lines(label: str, words: Sequence[str], width: int = WIDTH) -> list[str]:
    """A command that can be copied; a long one goes on after a backslash, between two words of the shell."""
    lines, room = [""], width - len(label) - 2
    for word in words:
        if lines[-1] and len(lines[-1]) + 1 + len(word) > room:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    ends = [" \\"] * (len(lines) - 1) + [""]
    return [f"{label if i == 0 else ' ' * len(label)}{line}{ends[i]}" for i, line in enumerate(lines)]
