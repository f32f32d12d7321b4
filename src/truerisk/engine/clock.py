"""Times of day as text that sorts: UTC, to the millisecond."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def stamp(moment: datetime | None = None) -> str:
    """This moment, or now.

    >>> stamp(datetime(2026, 11, 18, 4, 40, 12, tzinfo=UTC))
    '2026-11-18T04:40:12.000Z'
    """
    text = (moment or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def before(text: str, seconds: float) -> str:
    """So many seconds before a time of day; "" where that is not known.

    >>> before("2026-11-18T04:40:12.000Z", 12.5), before("", 1)
    ('2026-11-18T04:39:59.500Z', '')
    """
    return stamp(datetime.fromisoformat(text) - timedelta(seconds=seconds)) if text else ""
