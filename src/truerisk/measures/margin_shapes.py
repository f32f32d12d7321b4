"""How margins are distributed over the examples: as they are, and relative to what the network could do.

The margin of an example is the logit of its label minus the largest other logit, so the network is wrong where it is 0
or negative. Bartlett, Foster and Telgarsky (2017) draw these distributions after division by the spectral complexity;
division by the l1 path norm is the variant that no rescaling of the weights changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from truerisk.measures.families.normalized import normalized_margins
from truerisk.measures.registry import NotDefined
from truerisk.measures.subject import Subject

PLAIN, SPECTRAL, PATH = "margins", "over spectral complexity", "over path norm"  # how margins are normalized
NORMALIZED: Mapping[str, Literal["spectral", "path"]] = {SPECTRAL: "spectral", PATH: "path"}


def margin_panels(subject: Subject) -> dict[str, np.ndarray]:
    """Margins as they are, over spectral complexity and over path norm; what is not defined is left out."""
    panels = {PLAIN: subject.margins.numpy()}
    for title, by in NORMALIZED.items():
        try:
            panels[title] = normalized_margins(subject, by).numpy()
        except NotDefined:
            continue
    return {title: values for title, values in panels.items() if np.isfinite(values).all()}


def misclassified(margins: np.ndarray) -> int:
    """Number of examples with a margin of at most 0: a tie counts as an error.

    >>> misclassified(np.array([-1.0, 0.0, 2.0]))
    2
    """
    return int((margins <= 0).sum())


def medians(panels: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The median of each distribution.

    >>> medians({PLAIN: np.array([1.0, 2.0, 4.0])})
    {'margins': 2.0}
    """
    return {title: float(np.median(values)) for title, values in panels.items()}


@dataclass(frozen=True)
class Bin:
    """The share of the examples with a margin above ``start`` and at most ``end``."""

    start: float
    end: float
    share: float
    wrong: bool  # on the left of zero


def histogram(margins: np.ndarray, bins: int) -> tuple[list[Bin], float]:
    """(bins that hold examples, width of a bin). Zero is always a border, so errors and correct answers stay apart.

    Bins have one width, such that about ``bins`` of them reach from the smallest margin (or 0) to the largest (or 0).

    >>> found, _ = histogram(np.array([-1.0, 1.0, 1.0, 2.0]), 30)
    >>> sum(each.share for each in found if each.wrong), sum(each.share for each in found)
    (0.25, 1.0)
    """
    low, high = min(0.0, float(margins.min())), max(0.0, float(margins.max()))
    step = (high - low) / bins or 1.0
    # a margin of exactly 0 is an error, so bins are open on the left
    places = np.ceil(margins / step).astype(int)
    counts: dict[int, int] = dict(zip(*(part.tolist() for part in np.unique(places, return_counts=True)), strict=True))
    found = [Bin((k - 1) * step, k * step, count / len(margins), k <= 0) for k, count in counts.items()]
    return found, step


def log_histogram(both: Sequence[np.ndarray], bins: int) -> list[list[Bin]]:
    """Histograms of positive margins on one logarithmic axis; the ends of a bin are powers of ten.

    Margins of 0 or less have no logarithm and are left out; shares are of all examples, so they need not add up to 1.

    >>> one, two = log_histogram([np.array([1.0, 10.0]), np.array([100.0, -1.0])], 2)
    >>> [(b.start, b.end, b.share) for b in one], [(b.start, b.end, b.share) for b in two]
    ([(0.0, 1.0, 0.5), (1.0, 2.0, 0.5)], [(1.0, 2.0, 0.5)])
    """
    logs = [np.log10(values[values > 0]) for values in both]
    known = np.concatenate(logs)
    if not len(known):
        return [[] for _ in both]
    edges = np.linspace(known.min(), known.max() if known.max() > known.min() else known.min() + 1, bins + 1)
    found = []
    for values, every in zip(logs, both, strict=True):
        counts, _ = np.histogram(values, edges)
        filled = np.flatnonzero(counts)
        shares = (counts / len(every)).tolist()
        found.append([Bin(float(edges[k]), float(edges[k + 1]), shares[k], False) for k in filled])
    return found
