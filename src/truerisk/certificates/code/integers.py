"""The model of an array of whole numbers: which odds each decision about them gets.

Made for weights of networks that were pruned and rounded: most are 0, and where the others are is most of the code.
Those sit together (a kernel, an input that matters), so the odds of "is it 0?" depend on how many of the numbers just
before it are not. The order of the entries is input-major: all weights that read one input come together. All odds
are learnt on the way (Krichevsky-Trofimov counts), separately for each array. Signs are fair coins.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from truerisk.certificates.code.coder import Coder, Fair, Odds
from truerisk.errors import TrueriskError

NEAR, FAR = 4, 50  # how many numbers back a context looks
FAR_LEVELS = (0, 3, 8)  # contexts differ in how many of these the non-zero numbers among the last FAR exceed
CONTEXTS = 2 * (len(FAR_LEVELS) + 1)
DIGITS = 15  # binary digits of a number's absolute value, at most

_FAIR = Fair()


def code_integers(coder: Coder, shape: tuple[int, ...], values: np.ndarray | None = None) -> np.ndarray:
    """Write ``values``, or read an array of this shape; returns it either way."""
    flat = None if values is None else input_major(values).tolist()
    if flat and max(map(abs, flat)) >> DIGITS:
        raise TrueriskError(f"a rounded weight is 2^{DIGITS} steps or more away; take a coarser step.")
    result = np.array(_walk(coder, int(np.prod(shape)), flat), dtype=np.int64)
    if len(shape) < 2:
        return result.reshape(shape)
    return np.ascontiguousarray(result.reshape(shape[1], shape[0], *shape[2:]).swapaxes(0, 1))


def input_major(values: np.ndarray) -> np.ndarray:
    """Entries in the order of the code: (input, output, place in the kernel)."""
    return (values if values.ndim < 2 else values.swapaxes(0, 1)).reshape(-1)


def contexts(nonzero: np.ndarray) -> np.ndarray:
    """The context of "is it 0?" for each entry, all at once: for a search that wants to know what a weight costs.

    >>> contexts(np.array([False, False, True, False, False, False, False, False])).tolist()
    [0, 0, 0, 3, 3, 3, 3, 2]
    """
    before = np.concatenate([[0], np.cumsum(nonzero)])
    places = np.arange(len(nonzero))
    near = before[places] - before[np.maximum(places - NEAR, 0)]
    far = before[places] - before[np.maximum(places - FAR, 0)]
    return 2 * np.searchsorted(FAR_LEVELS, far) + (near > 0)


def _walk(coder: Coder, size: int, known: list[int] | None) -> list[int]:
    """All decisions about ``size`` numbers, in order; the numbers themselves."""
    zero = [Odds() for _ in range(CONTEXTS)]
    magnitude: defaultdict[tuple[int, int], Odds] = defaultdict(Odds)
    before, done = [0], []  # how many of the first numbers are not 0; the numbers
    for place in range(size):
        value = known[place] if known is not None else 0
        count = before[place]
        far = count - before[max(place - FAR, 0)]
        context = 2 * sum(far > level for level in FAR_LEVELS) + (count > before[max(place - NEAR, 0)])
        nonzero = coder.decide(zero[context], value != 0)
        if nonzero:
            negative = coder.decide(_FAIR, value < 0)
            absolute = _magnitude(coder, magnitude, abs(value))
            value = -absolute if negative else absolute
        done.append(value)
        before.append(count + nonzero)
    return done


def _magnitude(coder: Coder, odds: defaultdict[tuple[int, int], Odds], value: int) -> int:
    """A positive number: how many binary digits it has, one by one, then the digits after the first."""
    digits = 1
    while digits < DIGITS and coder.decide(odds[digits, -1], value.bit_length() > digits):
        digits += 1
    result = 1
    for place in reversed(range(digits - 1)):
        # The digit after the first has odds of its own; those behind it are close to fair.
        chance = odds[digits, place] if place == digits - 2 else _FAIR
        result = 2 * result + coder.decide(chance, bool(value >> place & 1))
    return result
