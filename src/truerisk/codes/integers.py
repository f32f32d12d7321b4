"""The model of an array of whole numbers: which odds each decision about them gets.

Made for weights of networks that were pruned and rounded: most are 0, and where the others are is most of the code.
Those sit together, and neighbours in a kernel have the same sign (filters are smooth). So the odds of "is it 0?"
depend on how many of the numbers before it are not: the direct neighbours, and the last 50. A sign is coded as
"is it that of the neighbours?", or as a fair coin where they don't say. The entries come input-major: all weights that
read one input, one after the other. All odds are learnt on the way (Krichevsky-Trofimov counts), for each array anew.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from truerisk.codes.coder import Coder, Fair, Odds
from truerisk.errors import TrueriskError

FAR = 50  # how many numbers back a context looks
LEVELS = (1, 5)  # contexts differ in how many of these the non-zero numbers among the last FAR exceed
MOST_NEAR = 2  # more neighbours that are not 0 make no difference
CONTEXTS = (MOST_NEAR + 1) * (len(LEVELS) + 1)
DIGITS = 15  # binary digits of a number's absolute value, at most

_FAIR = Fair()


def code_integers(coder: Coder, shape: tuple[int, ...], values: np.ndarray | None = None) -> np.ndarray:
    """Write ``values``, or read an array of this shape; returns it either way."""
    flat = None if values is None else input_major(values).tolist()
    if flat and max(map(abs, flat)) >> DIGITS:
        raise TrueriskError(f"a rounded weight is 2^{DIGITS} steps or more away; take a coarser step.")
    return from_input_major(np.array(_walk(coder, shape, flat), dtype=np.int64), shape)


def input_major(values: np.ndarray) -> np.ndarray:
    """Entries in the order of the code: (input, output, place in the kernel)."""
    return (values if values.ndim < 2 else values.swapaxes(0, 1)).reshape(-1)


def from_input_major(flat: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The inverse of ``input_major``."""
    if len(shape) < 2:
        return flat.reshape(shape)
    return np.ascontiguousarray(flat.reshape(shape[1], shape[0], *shape[2:]).swapaxes(0, 1))


def neighbours(shape: tuple[int, ...]) -> np.ndarray:
    """For each place of the code the places of its neighbours, all earlier; the size of the array where there is none.

    Neighbours are one step back along each axis of the kernel. A matrix has none; there it is the weight of the same
    output and the input before, as the inputs of a layer after a convolution are pixels in a row.

    >>> neighbours((2, 3)).tolist()  # the place of (output, input) is 2 * input + output
    [[6], [6], [0], [1], [2], [3]]
    """
    turned = (shape[1], shape[0], *shape[2:]) if len(shape) > 1 else shape
    size = int(np.prod(turned))
    axes = [axis for axis in range(2, len(turned)) if turned[axis] > 1] or [0] * (len(turned) > 1)
    places = np.arange(size).reshape(turned)
    result = np.full((len(axes), *turned), size)
    for row, axis in zip(result, axes, strict=True):
        length = turned[axis]
        row.swapaxes(0, axis)[1:] = places.swapaxes(0, axis)[: max(length - 1, 0)]
    return result.reshape(len(axes), size).T


def contexts(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(context of "is it 0?", sum of the neighbours' signs) for each entry, in the order of the code, all at once.

    For a search that wants to know what each weight would cost.
    """
    signs = np.append(np.sign(input_major(values)), 0)[neighbours(values.shape)]
    before = np.concatenate([[0], np.cumsum(input_major(values) != 0)])
    places = np.arange(values.size)
    far = before[places] - before[np.maximum(places - FAR, 0)]
    near = np.minimum((signs != 0).sum(axis=1), MOST_NEAR)
    return near * (len(LEVELS) + 1) + np.searchsorted(LEVELS, far), signs.sum(axis=1)


def _walk(coder: Coder, shape: tuple[int, ...], known: list[int] | None) -> list[int]:
    """All decisions about the numbers, in order; the numbers themselves."""
    zero = [Odds() for _ in range(CONTEXTS)]
    same: defaultdict[int, Odds] = defaultdict(Odds)
    magnitude: defaultdict[tuple[int, int], Odds] = defaultdict(Odds)
    near_places = neighbours(shape).tolist()
    done = [0] * (len(near_places) + 1)  # the last one stands for a neighbour that is not there
    before = [0]  # how many of the first numbers are not 0
    for place, near_by in enumerate(near_places):
        value = known[place] if known is not None else 0
        near = [done[p] for p in near_by if done[p]]
        far = before[place] - before[max(place - FAR, 0)]
        level = sum(far > limit for limit in LEVELS)
        nonzero = coder.decide(zero[min(len(near), MOST_NEAR) * (len(LEVELS) + 1) + level], value != 0)
        if nonzero:
            lean = sum(1 if other > 0 else -1 for other in near)
            agrees = coder.decide(same[abs(lean)] if lean else _FAIR, (value > 0) == (lean >= 0))
            absolute = _magnitude(coder, magnitude, abs(value))
            done[place] = absolute if agrees == (lean >= 0) else -absolute
        before.append(before[place] + nonzero)
    return done[:-1]


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
