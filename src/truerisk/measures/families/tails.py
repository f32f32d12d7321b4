"""How heavy the tail of a layer's spectrum is: the exponent of a power law fitted to its largest eigenvalues.

The eigenvalues are those of W^T W (squared singular values). A density c x^(-alpha) on x >= xmin is fitted to those of
at least xmin by maximum likelihood,

    alpha = 1 + k / sum of log(x_i / xmin)

and xmin is the eigenvalue for which the fit is closest in Kolmogorov-Smirnov distance (Clauset, Shalizi and Newman
2009, sections 3.1 and 3.3, numbers from memory). That distance is two-sided: the fitted distribution is compared with
the empirical one on both sides of each of its steps. WeightWatcher compares on one side of each step. Most layers
have the same xmin and alpha either way. In others the two alphas can be far apart: of 48 layers with random weights of
heavy tails (24 to 100 eigenvalues) 39 agree, and the largest ratio of the others is 3.8.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from truerisk.measures.layerwise import trained_layers
from truerisk.measures.registry import NotDefined, Value, measure
from truerisk.measures.subject import Subject

PAPER = "Martin, Peng and Mahoney 2021 (WeightWatcher)"
ENOUGH = 20  # eigenvalues of a layer that is looked at
ZERO = 1e-12  # smaller ones, relative to the largest, are rounding
CHUNK = 256  # tails that are fitted at a time
SETTINGS = (
    f"layers with at least {ENOUGH} eigenvalues that are not 0; kernels reshaped to out x rest; xmin by the two-sided "
    "Kolmogorov-Smirnov distance (WeightWatcher's is one-sided: equal in most layers, far apart in some)"
)


def tail_exponent(values: Tensor) -> tuple[float, float, float]:
    """(alpha, xmin, two-sided Kolmogorov-Smirnov distance) of the best fit to the tail of positive ``values``.

    >>> alpha, xmin, distance = tail_exponent(torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0], dtype=torch.float64))
    >>> round(alpha, 4), xmin
    (1.7213, 1.0)
    """
    x = values.double().sort().values
    starts = torch.unique(x)[:-1]  # the tail above the largest would be empty
    if not len(starts):
        raise NotDefined("all eigenvalues are the same, so they have no tail.")
    logs = x.log()
    above = torch.searchsorted(x, starts)  # index of the first value of each tail
    size = (len(x) - above).double()
    sums = logs.flip(0).cumsum(0).flip(0)[above] - size * starts.log()
    alphas = 1 + size / sums
    tails = zip(*(part.split(CHUNK) for part in (alphas, starts.log(), above, size)), strict=True)
    distances = torch.cat([_distances(logs, *tail) for tail in tails])
    best = int(distances.argmin())
    return float(alphas[best]), float(starts[best]), float(distances[best])


def _distances(logs: Tensor, alphas: Tensor, starts: Tensor, above: Tensor, size: Tensor) -> Tensor:
    """Largest difference of the fitted and the empirical distribution, on both sides of its steps, for each tail."""
    place = torch.arange(len(logs)) - above[:, None]  # of each value in each tail; negative where it is not in it
    law = -torch.expm1(-(alphas - 1)[:, None] * (logs - starts[:, None]))
    gaps = torch.maximum(law - place / size[:, None], (place + 1) / size[:, None] - law)
    return gaps.where(place >= 0, 0.0).amax(dim=1)


def layer_exponents(subject: Subject) -> Mapping[str, float]:
    """alpha of each layer with enough eigenvalues."""
    return subject.shared("tail exponents", lambda: _layer_exponents(subject))


def _layer_exponents(subject: Subject) -> Mapping[str, float]:
    found = {}
    for layer in trained_layers(subject):
        eigenvalues = subject.singular_values[layer.name] ** 2
        eigenvalues = eigenvalues[eigenvalues > ZERO * eigenvalues.max()]
        if len(eigenvalues) >= ENOUGH:
            found[layer.name] = tail_exponent(eigenvalues)[0]
    if not found:
        raise NotDefined(f"no layer has {ENOUGH} eigenvalues that are not 0, too few for a tail.")
    return found


@measure(
    "tail-exponent",
    family="tails",
    meaning="Power-law exponent of layer spectra: small for heavy tails; reported as 2 to 4 after training.",
    paper=PAPER,
    equation="mean over layers of alpha, the power-law exponent of the eigenvalues of W^T W",
    invariant=False,
    cost="weights",
    settings=SETTINGS,
)
def mean_exponent(subject: Subject) -> Value:
    found = layer_exponents(subject)
    return Value(sum(found.values()) / len(found), layers=found)


@measure(
    "tail-exponent-weighted",
    family="tails",
    meaning="Weighted power-law exponent (alpha-hat): layers count by their log largest eigenvalue.",
    paper=PAPER,
    equation="alpha-hat: mean over layers of alpha log10(largest eigenvalue of W^T W)",
    invariant=False,
    cost="weights",
    settings=SETTINGS,
)
def weighted_exponent(subject: Subject) -> Value:
    parts = {
        name: alpha * 2 * math.log10(float(subject.singular_values[name][0]))
        for name, alpha in layer_exponents(subject).items()
    }
    return Value(sum(parts.values()) / len(parts), layers=parts)
