"""When a certificate was made: in UTC, to the second, in one form. No number and no verdict depends on it."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from truerisk.errors import TrueriskError

VARIABLE = "SOURCE_DATE_EPOCH"  # seconds since 1970 in place of the clock, for files that come out the same every time


def now() -> str:
    """The time of the clock, or the one that ``SOURCE_DATE_EPOCH`` says."""
    given = os.environ.get(VARIABLE)
    if not given:
        return _written(datetime.now(UTC))
    try:
        return _written(datetime.fromtimestamp(int(given), UTC))
    except (ValueError, OverflowError, OSError) as error:
        raise TrueriskError(f"{VARIABLE} is {given[:60]!r}, but must be seconds since 1970; unset it.") from error


def checked(text: str) -> str:
    """The same text, if it is a date that ``now`` could have written.

    >>> checked("2026-11-17T21:14:12Z")
    '2026-11-17T21:14:12Z'
    """
    if text != _written(_read(text)):
        raise TrueriskError(_wrong(text))
    return text


def shown(text: str) -> str:
    """A date for people.

    >>> shown("2026-11-17T21:14:12Z")
    '2026-11-17 21:14:12 UTC'
    """
    return text.replace("T", " ").replace("Z", " UTC")


def _written(moment: datetime) -> str:
    return moment.replace(tzinfo=None, microsecond=0).isoformat() + "Z"


def _read(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError as error:
        raise TrueriskError(_wrong(text)) from error


def _wrong(text: str) -> str:
    return f"certificate.json was made at {text[:60]!r}, but a date must look like 2026-11-17T21:14:12Z; certify again."
