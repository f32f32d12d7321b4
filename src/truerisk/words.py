"""Numbers as people read them, each rounded so that what is printed is still true.

Upper ends (bounds, hold-out baselines, failure probabilities, "at most") are rounded up, lower ends ("at least",
confidence) down, observed rates to the nearest. A KL is an upper end: bounds grow with it, so a KL rounded down would
promise too small a bound. Rounding starts from the decimal that Python prints for a float, so 0.05 stays 0.05. JSON
files hold the floats themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import MAX_PREC, ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, localcontext
from functools import cache
from itertools import pairwise

EXACT = Context(prec=MAX_PREC)  # nothing is rounded by the way
PLAIN = Decimal("1e-3"), Decimal("1e6")  # sizes that are written without an exponent
PERCENT_STEPS = ((1, Decimal("0.01")), (100, Decimal("0.1")))  # below 1%: two decimals, below 100%: one
DIGITS = 4  # significant ones, where the size of a number is open


def exact(value: float | Decimal) -> Decimal:
    """The decimal that a person would read: 0.05, not 0.05000000000000000277."""
    return value if isinstance(value, Decimal) else Decimal(repr(float(value)))


def bound(value: float, digits: int = 4) -> str:
    """An upper end with this many decimals, rounded up; from a million on with four significant digits.

    >>> bound(0.06614813), bound(0.05), bound(0.0), bound(1e-9), bound(1.3e12), bound(0.06614813, 6)
    ('0.0662', '0.0500', '0.0000', '0.0001', '1.300e+12', '0.066149')
    """
    return _decimals(value, digits, ROUND_CEILING)


def lower(value: float, digits: int = 4) -> str:
    """A lower end, rounded down.

    >>> lower(0.06618), lower(0.05), lower(1e-9), lower(1.3e12)
    ('0.0661', '0.0500', '0.0000', '1.300e+12')
    """
    return _decimals(value, digits, ROUND_FLOOR)


def seen(value: float, digits: int = 4) -> str:
    """An observed rate, rounded to the nearest; never for a bound.

    >>> seen(0.06614813), seen(0.06615), seen(0.0)
    ('0.0661', '0.0662', '0.0000')
    """
    return _decimals(value, digits, ROUND_HALF_UP)


def bound_percent(value: float) -> str:
    """An upper end in percent, rounded up: one decimal, below 1% two.

    >>> bound_percent(0.07101), bound_percent(0.0012301), bound_percent(1.0), bound_percent(0.0)
    ('7.2%', '0.13%', '100%', '0.00%')
    """
    return _percent(value, ROUND_CEILING)


def lower_percent(value: float) -> str:
    """A lower end in percent, rounded down.

    >>> lower_percent(0.07199), lower_percent(0.0012399)
    ('7.1%', '0.12%')
    """
    return _percent(value, ROUND_FLOOR)


def seen_percent(value: float) -> str:
    """An observed rate in percent, to the nearest.

    >>> seen_percent(0.03871), seen_percent(0.0012301), seen_percent(0.0)
    ('3.9%', '0.12%', '0%')
    """
    return _percent(value, ROUND_HALF_UP) if value else "0%"


def bound_points(value: float) -> str:
    """An upper end of a difference of two rates, in percentage points, rounded up: with the digits of a percentage.

    >>> bound_points(0.03012), bound_points(0.05), bound_points(0.0083)
    ('3.1 points', '5.0 points', '0.83 points')
    """
    return f"{bound_percent(value).removesuffix('%')} points"


def lower_points(value: float) -> str:
    """A lower end of a difference of two rates, in percentage points, rounded down.

    >>> lower_points(0.83199), lower_points(0.00839)
    ('83.1 points', '0.83 points')
    """
    return f"{lower_percent(value).removesuffix('%')} points"


def magnitude(value: float, log: float | None = None) -> str:
    """An upper end of any size to four significant digits, rounded up.

    ``log``: its natural logarithm, which is printed as a power of ten where the value has left the range of floats.

    >>> magnitude(0.123412), magnitude(1.02), magnitude(7510.0), magnitude(31415.926), magnitude(1.3001e12)
    ('0.1235', '1.02', '7,510', '31,416', '1.301e+12')
    >>> magnitude(math.inf, 1000.0), magnitude(math.inf)
    ('10^434.3', 'infinite')
    """
    if log is not None and math.isfinite(log) and (math.isinf(value) or value == 0):
        return f"10^{_to_step(_per_ln10(log), Decimal('0.1'), ROUND_CEILING):f}"
    if not math.isfinite(value):
        return _no_number(value)
    return _of_any_size(exact(value), ROUND_CEILING)


def magnitude_percent(value: float) -> str:
    """An upper end in percent to four significant digits, rounded up.

    >>> magnitude_percent(0.06614813), magnitude_percent(0.07), magnitude_percent(1.0)
    ('6.615%', '7%', '100%')
    """
    return f"{_of_any_size(_times_100(value), ROUND_CEILING)}%" if math.isfinite(value) else _no_number(value)


def nats(value: float, *, down: bool = False) -> str:
    """A KL, rounded up (``down``: the lower end of a range): four significant digits, from 1,000 on one decimal.

    >>> nats(1234.51), nats(37.9), nats(0.0468412), nats(0.0), nats(1.21001e-9), nats(3.1419, down=True)
    ('1,234.6', '37.9', '0.04685', '0', '1.211e-9', '3.141')
    """
    if not math.isfinite(value):
        return _no_number(value)
    number, rounding = exact(value), ROUND_FLOOR if down else ROUND_CEILING
    if 10 ** (DIGITS - 1) <= abs(number) < PLAIN[1]:
        return f"{_to_step(number, Decimal('0.1'), rounding):,f}"
    return _of_any_size(number, rounding)


def at_most(value: float, digits: int = 1) -> str:
    """A tiny upper end: this many significant digits, rounded up.

    >>> at_most(4.01e-16), at_most(1.21e-7, 2), at_most(0.0)
    ('5e-16', '1.3e-7', '0')
    """
    return _tiny(value, digits, ROUND_CEILING)


def at_least(value: float, digits: int = 1) -> str:
    """A tiny lower end: this many significant digits, rounded down.

    >>> at_least(4.99e-16), at_least(1.29e-3, 2)
    ('4e-16', '1.2e-3')
    """
    return _tiny(value, digits, ROUND_FLOOR)


def delta(value: float) -> str:
    """A failure probability: all its digits, or seven rounded up if there are more.

    >>> delta(0.05), delta(0.00015625), delta(0.016666666666666), delta(1e-9)
    ('0.05', '0.00015625', '0.01666667', '1e-9')
    """
    number = _to_digits(exact(value), 7, ROUND_CEILING).normalize()
    if 0 < number < Decimal("1e-4"):
        return _scientific(number, len(number.as_tuple().digits))
    return f"{number:f}"


def confidence(failure: float) -> str:
    """1 - delta with all its digits, so never rounded up to 1.

    >>> confidence(0.05), confidence(1e-12)
    ('0.95', '0.999999999999')
    """
    return decimal(EXACT.subtract(Decimal(1), exact(failure)))


def confidence_percent(failure: float) -> str:
    """1 - delta in percent, with all its digits.

    >>> confidence_percent(0.05), confidence_percent(1e-12)
    ('95%', '99.9999999999%')
    """
    return f"{decimal(EXACT.multiply(Decimal(100), EXACT.subtract(Decimal(1), exact(failure))))}%"


def decimal(value: float | Decimal) -> str:
    """All digits, without an exponent.

    >>> decimal(0.05), decimal(1e-7)
    ('0.05', '0.0000001')
    """
    return f"{exact(value).normalize(EXACT):f}"


def shares(values: Iterable[float], total: float) -> list[str]:
    """Parts of a bound in percent; as printed, they add up to ``bound_percent(total)``.

    The first part is what was observed and is printed as ``seen_percent`` does, all others end at the next step up. A
    part is the distance between two ends as printed.

    >>> shares([0.03871, 0.00088, 0.036, 0.00053], 0.07612)
    ['3.9%', '0.1%', '3.6%', '0.1%']
    >>> shares([0.0098, 0.0045], 0.0143), bound_percent(0.0143)
    (['0.98%', '0.52%'], '1.5%')
    """
    whole = _times_100(total)
    step = _percent_step(whole)
    last = _to_step(whole, step, ROUND_CEILING)
    ends, end = [Decimal(0)], Decimal(0)
    for value in values:
        end = EXACT.add(end, _times_100(max(value, 0.0)))
        observed = len(ends) == 1 and end > 0
        near = _to_step(end, _percent_step(end), ROUND_HALF_UP) if observed else _to_step(end, step, ROUND_CEILING)
        ends.append(min(last, near))
    ends[-1] = last  # where the floats of the parts add up to another one
    return [f"{b - a:f}%" for a, b in pairwise(ends)]


def several(number: int, one: str, more: str | None = None) -> str:
    """An integer number of things.

    >>> several(1, "epoch"), several(1200, "epoch"), several(2, "pass", "passes")
    ('1 epoch', '1,200 epochs', '2 passes')
    """
    return f"{number:,} {one if number == 1 else more or f'{one}s'}"


# ---- the arithmetic ------------------------------------------------------------------------------------------------


def _decimals(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return _no_number(value)
    number = exact(value)
    if abs(number) >= PLAIN[1]:
        return _scientific(_to_digits(number, DIGITS, rounding), DIGITS)
    return f"{_to_step(number, Decimal(1).scaleb(-digits), rounding):f}"


def _percent(value: float, rounding: str) -> str:
    if not math.isfinite(value):
        return _no_number(value)
    number = _times_100(value)
    if abs(number) >= PLAIN[1]:
        return f"{_scientific(_to_digits(number, DIGITS, rounding), DIGITS)}%"
    return f"{_to_step(number, _percent_step(number), rounding):f}%"


def _percent_step(number: Decimal) -> Decimal:
    return next((step for limit, step in PERCENT_STEPS if number < limit), Decimal(1))


def _times_100(value: float) -> Decimal:
    return EXACT.multiply(Decimal(100), exact(value))


def _of_any_size(number: Decimal, rounding: str) -> str:
    if number == 0:
        return "0"
    short = _to_digits(number, DIGITS, rounding)
    if not PLAIN[0] <= abs(short) < PLAIN[1]:
        return _scientific(short, DIGITS)
    if abs(number) >= 10 ** (DIGITS - 1):
        return f"{_to_step(number, Decimal(1), rounding):,f}"
    return f"{short.normalize():,f}"


def _tiny(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return _no_number(value)
    return _scientific(_to_digits(exact(value), digits, rounding), digits) if value else "0"


def _to_step(number: Decimal, step: Decimal, rounding: str) -> Decimal:
    """A multiple of ``step``, a power of ten; adding 0 turns -0 into 0."""
    return EXACT.add(number.quantize(step, rounding, EXACT), Decimal(0))


def _to_digits(number: Decimal, digits: int, rounding: str) -> Decimal:
    """This many significant digits."""
    return _to_step(number, Decimal(1).scaleb(number.adjusted() - digits + 1), rounding) if number else number


def _scientific(number: Decimal, digits: int) -> str:
    return f"{number:.{digits - 1}e}"


def _per_ln10(log: float) -> Decimal:
    return exact(log) / _ln10()


@cache
def _ln10() -> Decimal:
    with localcontext() as context:
        context.prec = 50
        return Decimal(10).ln()


def _no_number(value: float) -> str:
    return "not a number" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
