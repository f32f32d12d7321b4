"""Numbers as people read them. Bounds are rounded up, counts and observations to the nearest."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal

from truerisk.certificates.ledger import exact


def observed(value: float) -> str:
    """An observed rate in percent, to the nearest; ``sentences.percent`` is for bounds.

    >>> observed(0.03871), observed(0.0012301), observed(0.0)
    ('3.9 %', '0.12 %', '0 %')
    """
    number = 100 * exact(value)
    step = Decimal("0.01") if 0 < number < 1 else Decimal("0.1") if 0 < number < 100 else Decimal(1)
    return f"{number.quantize(step, ROUND_HALF_UP)} %"


def shares(values: Iterable[float]) -> tuple[list[str], str]:
    """Parts of a bound and their sum in percent; as printed they add up, and the sum is rounded up.

    >>> shares([0.03871, 0.00088, 0.036, 0.00053])
    (['3.87 %', '0.09 %', '3.60 %', '0.06 %'], '7.62 %')
    """
    ends, total = [], Decimal(0)
    for value in values:
        total += 100 * exact(max(value, 0.0))
        ends.append(total)
    step = Decimal("0.01") if total >= 1 else Decimal("0.001")
    rounded = [end.quantize(step, ROUND_HALF_UP) for end in ends[:-1]] + [total.quantize(step, ROUND_CEILING)]
    parts = [end - start for start, end in zip([Decimal(0), *rounded], rounded, strict=False)]
    return [f"{part} %" for part in parts], f"{rounded[-1]} %"


def nats(value: float) -> str:
    """A KL: one decimal from 10 up, two significant digits below.

    >>> nats(1234.56), nats(3.14159), nats(0.25039), nats(0.0)
    ('1,234.6', '3.1', '0.25', '0')
    """
    return f"{value:,.1f}" if value >= 9.95 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def decimal(value: float | Decimal) -> str:
    """All digits, without an exponent.

    >>> decimal(0.05), decimal(1e-7)
    ('0.05', '0.0000001')
    """
    number = value if isinstance(value, Decimal) else exact(value)
    return f"{number.normalize():f}"
