"""The folder of a certificate: one certificate at a time, never next to the files of another.

While files are written or removed, ``certificate.json`` is away: its text lies under the name ``UNFINISHED``, so that
whoever comes after an interruption knows which files to remove.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from truerisk.atomic import write_atomically
from truerisk.certificates.origins import SUFFIX
from truerisk.errors import TrueriskError

CERTIFICATE, REPORT = "certificate.json", "report.html"
OTHERS = "others"  # the folder of certificates by other methods
UNFINISHED = ".certificate.json.unfinished"
# Files of certificates, by name: a certificate that names others, whoever wrote it, makes us remove none of them.
OWN = re.compile(r"(split|network|prior|posterior|log_scales|scales|picks|code|unlabelled)(-\w+)?" + re.escape(SUFFIX))
MEASURES = "measures.json"  # of truerisk measure, which writes a page and a network under the same names


def holds_certificate(folder: Path) -> bool:
    """Whether a certificate is there, or one by another method; what an interruption left is none."""
    if (folder / CERTIFICATE).exists() or (folder / UNFINISHED).exists():
        return (folder / CERTIFICATE).exists()
    return any((place / CERTIFICATE).exists() for place in others(folder))


def refuse_certificate(folder: Path, fix: str) -> None:
    """Refuse a folder that holds a certificate."""
    if holds_certificate(folder):
        raise TrueriskError(f"{folder} already holds a certificate; {fix}.")


def refuse_measures(folder: Path) -> None:
    """Refuse a folder with the files of ``truerisk measure``: some have the names of a certificate's files."""
    if (folder / MEASURES).exists():
        raise TrueriskError(f"{folder} holds the files of truerisk measure; give another folder.")


def begin(folder: Path, certificate: bytes) -> None:
    """Remove what is there of other certificates, and keep the text of the new one under another name."""
    with _told(folder):
        remove(folder)
    write_atomically(folder / UNFINISHED, certificate)


def finish(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write the files; ``certificate.json`` comes last, so that a certificate is never half there."""
    for name, content in files.items():
        write_atomically(folder / name, content)
    with _told(folder):
        return (folder / UNFINISHED).replace(folder / CERTIFICATE)


def remove(folder: Path) -> None:
    """Remove the certificate in ``folder``, and what an interruption left of one: nothing else, whatever it claims."""
    if (folder / CERTIFICATE).is_file():
        _remove_named(folder)  # of an interruption before
        (folder / CERTIFICATE).replace(folder / UNFINISHED)
    for place in others(folder):
        remove(place)
        with suppress(OSError):  # something else is in it
            place.rmdir()
    if _is_own(folder / OTHERS):
        with suppress(OSError):
            (folder / OTHERS).rmdir()
    _remove_named(folder)


def _remove_named(folder: Path) -> None:
    """Remove the files that an unfinished certificate names, its page, and at last its own text."""
    if not (folder / UNFINISHED).is_file():
        return
    for name in (*_named(folder / UNFINISHED), REPORT):
        if (folder / name).is_file() or (folder / name).is_symlink():
            (folder / name).unlink()
    (folder / UNFINISHED).unlink()


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """One sentence where the system refuses."""
    try:
        yield
    except OSError as error:
        raise TrueriskError(
            f"the files of {folder} cannot be replaced ({error.strerror or error}); choose another folder."
        ) from error


def _named(path: Path) -> list[str]:
    """Files that the certificate names, as far as a certificate may name them."""
    try:
        files = json.loads(path.read_bytes())["files"]
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return []
    return [name for name in files if OWN.fullmatch(name)] if isinstance(files, dict) else []


def others(folder: Path) -> list[Path]:
    """The folders of certificates by other methods; a link leads elsewhere."""
    if not _is_own(folder / OTHERS):
        return []
    return [place for place in sorted((folder / OTHERS).iterdir()) if _is_own(place)]


def _is_own(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink()
