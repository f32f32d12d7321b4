"""What the surfaces of a network say, in sentences that terminal and page share."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from truerisk.landscape.explore import Landscape
from truerisk.landscape.planes import WALK
from truerisk.landscape.reading import Reading
from truerisk.words import at_most, seen_percent

UNIT = {
    "random": "1 is as far as each filter is long",
    "line": "1 is as far as each filter is long",
    "hessian": "1 is as far as the weights are long",
    "pca": "1 is as far as the weights are long",
}
CAUTION = "One slice proves nothing: other planes, and other weights of the same function, can look different."
SAME = 1.1  # ratio of distances up to which network and twin count as alike


def loss(value: float | None) -> str:
    """
    >>> loss(0.00718571), loss(41946.9), loss(1.5e11), loss(None)
    ('0.0072', '42,000', '1.5e+11', 'not finite')
    """
    if value is None or not math.isfinite(value):
        return "not finite"
    return f"{float(f'{value:.2g}'):,g}" if 1e-3 <= abs(value) < 1e6 else f"{value:.1e}".replace("e+0", "e+")


def distance(value: float, reach: float = math.inf) -> str:
    """
    >>> distance(0.178796), distance(math.inf, 1.0), distance(math.nan)
    ('0.179', 'over 1', 'none')
    """
    if math.isnan(value):
        return "none"
    return f"over {reach:g}" if math.isinf(value) else f"{value:.3g}"


def _each(readings: Sequence[Reading], reach: float) -> str:
    values = [reading.doubling for reading in readings]
    if any(map(math.isnan, values)):
        return "no distance, because a loss of 0 cannot double"
    middle = distance(statistics.median(values), reach)
    if len(values) == 1:
        return middle
    return f"{middle} ({distance(min(values), reach)} to {distance(max(values), reach)} over {len(values)} planes)"


def headline(found: Landscape) -> str:
    """One sentence: how far the loss doubles, for the network and its twin."""
    pairs = [pair.readings for pair in found.pairs]
    reach = max(found.pairs[0].plane.reach)
    own = _each([mine for mine, _ in pairs], reach)
    twins = [other for _, other in pairs if other is not None]
    if not twins:
        return f"The loss of this network doubles at a distance of {own}."
    return (
        f"The loss of this network doubles at a distance of {own}; that of its rescaled twin, which computes the same "
        f"function, at {_each(twins, reach)}."
    )


def meanings(found: Landscape) -> list[str]:
    """Plain sentences about what the numbers mean."""
    first = found.pairs[0]
    mine, _ = first.readings
    told = [
        f"At its weights the loss is {loss(mine.center)} and the error {seen_percent(mine.center_error)} on "
        f"{found.examples:,} examples. Distances are medians over "
        f"{'both sides of a line' if first.network.is_line else 'eight rays of a plane'}; {UNIT[first.plane.kind]}.",
        *_twin(found),
        *_plane(found),
    ]
    lost = sum(pair.network.not_finite + (0 if pair.twin is None else pair.twin.not_finite) for pair in found.pairs)
    if lost:
        told.append(f"At {lost:,} points the loss is not finite; pictures show them at the upper end of their scale.")
    return [*told, CAUTION]


def _twin(found: Landscape) -> list[str]:
    if isinstance(found.twin, str):
        return [f"There is no twin to compare with: {found.twin}"]
    change = at_most(found.twin.change)
    told = (
        f"The twin has {found.twin.channels:,} rescaled channels; its outputs differ by at most {change} "
        "of the largest one, by rounding. What differs between the two surfaces is not a property of the function."
    )
    if found.agreement is None or not math.isfinite(found.agreement):
        return [told]
    return [
        told,
        "Along directions in proportion to each weight (--directions elementwise) both have the same surface: the "
        f"largest relative difference is {at_most(found.agreement)}.",
    ]


def _plane(found: Landscape) -> list[str]:
    plane = found.pairs[0].plane
    if plane.eigenvalues:
        values = " and ".join(f"{value:.3g}" for value in plane.eigenvalues)
        which = "eigenvalues" if len(plane.eigenvalues) > 1 else "eigenvalue"
        return [f"Along the directions of the picture, the Hessian of the loss has its largest {which}: {values}."]
    if plane.explained:
        shares = " and ".join(seen_percent(share) for share in plane.explained)
        walk = seen_percent(WALK * 1.25)
        return [
            f"The two directions hold {shares} of the variance of {len(plane.path):,} checkpoints. Two directions of a "
            f"random walk in high dimension hold {walk}, so a large share says little."
        ]
    return []
