"""How much memory the machine has to spare, asked before something large is allocated."""

from __future__ import annotations

import math
import os
from pathlib import Path

CAP = 16 << 30  # more is never used, whatever the machine says
UNKNOWN = 2 << 30  # where it says nothing


def spare() -> int:
    """Bytes that can be taken without harm: half of what is available here, to this process's group too, up to a cap.

    >>> 0 < spare() <= CAP
    True
    """
    said = [amount for amount in (_available(), _group_left()) if amount is not None]
    return max(0, min(CAP, min(said, default=UNKNOWN) // 2))


def gib(size: int) -> str:
    """
    >>> gib(3 << 29), gib(1000), gib(150 * 2**30), gib(10**30)
    ('1.5 GiB', '0.1 GiB', '150 GiB', '10^21.0 GiB')
    """
    if size > 10**15:
        return f"10^{math.log10(size) - math.log10(2**30):.1f} GiB"
    amount = max(size / 2**30, 0.1)
    return f"{amount:.1f} GiB" if amount < 100 else f"{amount:,.0f} GiB"


def _available() -> int | None:
    """Linux counts memory that it can free at once; other systems say what is free, or what there is."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        pass
    for pages in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):
        try:
            return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):
            continue
    return None


def _group_left(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What a container may still take, if it has a limit."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            return max(0, int((folder / limit).read_text()) - int((folder / used).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return None
