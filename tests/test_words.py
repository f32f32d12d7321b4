"""Printed numbers against slow fractions: upper ends never shrink, lower ends never grow, neither moves by a step."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from truerisk import words

RISKS = st.floats(0, 1)
SIZES = st.floats(0, 1e300)
ANY = st.floats(-1e300, 1e300)
NUMBER = re.compile(r"(-?)([\d,]+)(?:\.(\d+))?(?:e([+-]\d+))?(%)?")


def parsed(text: str) -> tuple[Fraction, Fraction]:
    """The number that was printed and one unit of its last digit, both exact."""
    match = NUMBER.fullmatch(text)
    assert match, text
    sign, whole, decimals, exponent, percent = match.groups(default="")
    scale = Fraction(10) ** int(exponent or 0) / (100 if percent else 1)
    unit = scale / 10 ** len(decimals)
    size = int(whole.replace(",", "") + decimals) * unit
    return -size if sign else size, unit


def slow(x: float, unit: Fraction, how: str) -> Fraction:
    """A multiple of the unit next to x, with whole numbers only."""
    steps = Fraction(repr(x)) / unit
    down = steps.numerator // steps.denominator
    if how == "down" or steps == down:
        return down * unit
    if how == "up":
        return (down + 1) * unit
    return (down + (steps - down >= Fraction(1, 2))) * unit


def check(text: str, x: float, how: str) -> None:
    shown, unit = parsed(text)
    assert shown == slow(x, unit, how)
    if how != "nearest":
        assert (shown >= Fraction(repr(x))) if how == "up" else (shown <= Fraction(repr(x)))
    assert abs(shown - Fraction(repr(x))) < unit
    assert shown or how != "up" or x <= 0, "a positive upper end is not printed as 0"


@given(SIZES, st.integers(1, 8))
@example(0.06614813, 4)
@example(0.06614813, 6)
@example(1e-9, 4)
@example(math.nextafter(0.05, 1), 4)
@example(math.nextafter(1.0, 2), 4)
@example(999_999.99999, 2)
@example(1.3e12, 4)
def test_decimals(x, digits):
    check(words.bound(x, digits), x, "up")
    check(words.lower(x, digits), x, "down")
    check(words.seen(x, digits), x, "nearest")


@given(RISKS | SIZES)
@example(0.06614813)
@example(1e-9)
@example(0.99995)
def test_percent(x):
    check(words.bound_percent(x), x, "up")
    check(words.lower_percent(x), x, "down")
    check(words.seen_percent(x), x, "nearest")


@given(SIZES)
@example(0.00099999)
@example(9999.9999)
@example(999_999.5)
def test_any_size(x):
    check(words.magnitude(x), x, "up")
    check(words.magnitude_percent(x), x, "up")
    check(words.nats(x), x, "up")
    check(words.nats(x, down=True), x, "down")
    for digits in (1, 2):
        check(words.at_most(x, digits), x, "up")
        check(words.at_least(x, digits), x, "down")


@given(ANY)
def test_log_ratios_of_either_sign(x):
    check(words.nats(x), x, "up")
    check(words.nats(x, down=True), x, "down")


@given(st.floats(1e-300, 1, exclude_max=True))
@example(1e-12)
@example(1e-20)
def test_probabilities(x):
    check(words.delta(x), x, "up")
    assert Fraction(words.confidence(x)) == 1 - Fraction(repr(x))
    assert Fraction(words.decimal(x)) == Fraction(repr(x))


@given(st.lists(st.floats(0, 0.2), min_size=1, max_size=5))
@example([0.03, 0.00001, 0.03613813, 0.0])
@example([1e-9])
def test_parts_add_up_to_the_bound(values):
    total = sum(values)
    parts = [parsed(part)[0] for part in words.shares(values, total)]
    assert sum(parts) == parsed(words.bound_percent(total))[0]
    assert min(parts) >= 0
    ends = [sum(parts[: k + 1]) for k in range(len(parts))]
    exact = [sum(Fraction(repr(value)) for value in values[: k + 1]) for k in range(len(parts))]
    rounding = Fraction(1, 10**12)  # of the float ``total``
    assert all(shown >= end - rounding for shown, end in zip(ends[1:], exact[1:], strict=True))


def test_parts_that_overshoot_their_bound_still_add_up():
    assert words.shares([0.1, 0.2, 0.3], 0.25) == ["10.0%", "15.0%", "0.0%"]
    assert words.shares([0.1, -1e-17, 0.1], 0.2) == ["10.0%", "0.0%", "10.0%"]


@pytest.mark.parametrize(
    ("x", "bound", "lower", "seen", "percent"),
    [
        (0.0, "0.0000", "0.0000", "0.0000", "0.00%"),
        (0.05, "0.0500", "0.0500", "0.0500", "5.0%"),
        (1.0, "1.0000", "1.0000", "1.0000", "100%"),
        (0.06614813, "0.0662", "0.0661", "0.0661", "6.7%"),
        (1.00001, "1.0001", "1.0000", "1.0000", "101%"),
        (1.3e12, "1.300e+12", "1.300e+12", "1.300e+12", "1.300e+14%"),
        (-1e-9, "0.0000", "-0.0001", "0.0000", "0.00%"),
        (math.inf, "infinite", "infinite", "infinite", "infinite"),
        (-math.inf, "-infinite", "-infinite", "-infinite", "-infinite"),
        (math.nan, "not a number", "not a number", "not a number", "not a number"),
    ],
)
def test_edges(x, bound, lower, seen, percent):
    assert (words.bound(x), words.lower(x), words.seen(x), words.bound_percent(x)) == (bound, lower, seen, percent)


@pytest.mark.parametrize("x", [math.inf, math.nan])
def test_what_is_no_number_says_so(x):
    printed = [words.magnitude(x), words.magnitude_percent(x), words.nats(x), words.at_most(x), words.at_least(x)]
    assert set(printed) == {"infinite" if x > 0 else "not a number"}


@given(st.floats(710, 1e12))
def test_powers_of_ten_from_a_logarithm(log):
    exponent = Fraction(words.magnitude(math.inf, log).removeprefix("10^"))
    assert 0 <= exponent - Fraction(log / math.log(10)) + Fraction(1, 10**3) < Fraction(102, 1000)
    assert exponent >= Fraction(log / math.log(10)) * (1 - Fraction(1, 2**52))


def test_no_torch_is_needed():
    code = "import sys, truerisk.words; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_reference_has_teeth():
    """What was printed before: to the nearest, below the bound."""
    for text in ("0.0661", "0.066148", "6.6%", "6.61%"):
        with pytest.raises(AssertionError):
            check(text, 0.06614813, "up")
