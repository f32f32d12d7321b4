"""Margins measured against what the network could do: by spectral complexity, or by path norm.

    R_A = (prod rho_i ||A_i||_op) (sum ||A_i^T - M_i^T||_{2,1}^(2/3) / ||A_i||_op^(2/3))^(3/2)

where ||A^T||_{2,1} adds up the l2 norms of the rows of A (one for each unit that leaves the layer), rho_i are the
Lipschitz constants of what is between the layers and M_i reference matrices (Bartlett, Foster and Telgarsky 2017,
Theorem 1.1). A convolution is taken as the map that it is: its norm from above, one row for each kernel and place.
"""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor

from truerisk.measures.anatomy import Between, Layer
from truerisk.measures.families.paths import log_path_norm
from truerisk.measures.layerwise import chain, operator_norms
from truerisk.measures.registry import NotDefined, Value, measure
from truerisk.measures.subject import Subject

BARTLETT = "Bartlett, Foster and Telgarsky 2017"


def spectral_complexity(subject: Subject, around_init: bool = False) -> Value:
    """R_A with M_i = 0, or with M_i the initial weights; each layer's part is its term of the sum."""
    steps = chain(subject)
    norms = operator_norms(subject)
    log = sum(math.log(step.lipschitz) for step in steps if isinstance(step, Between))
    parts = {}
    for layer in (step for step in steps if isinstance(step, Layer)):
        if not norms[layer.name] > 0:
            raise NotDefined(f"the weights of {layer.name} are all zero, and it divides by their norm.")
        rows = (subject.moves[layer.name] if around_init else layer.matrix).norm(dim=1)
        parts[layer.name] = (layer.repeats * float(rows.sum()) / norms[layer.name]) ** (2 / 3)
        log += math.log(norms[layer.name])
    total = sum(parts.values())
    return Value.of_log(log + 1.5 * math.log(total) if total > 0 else -math.inf, parts)


def normalized_margins(subject: Subject, by: Literal["spectral", "path"] = "spectral") -> Tensor:
    """Margins of all examples, divided by ||X||_2 R_A / n (||X||_2 the root of the sum of ||x_i||_2^2) or by path norm.

    Divided by the spectral complexity, their distribution tells true labels from random ones where that of the plain
    margins does not.
    """
    if by == "path":
        return subject.margins * math.exp(-log_path_norm(subject, 1.0))
    complexity = spectral_complexity(subject).log
    assert complexity is not None
    squares = subject.shared("squared norm of all inputs", lambda: float((subject.X.astype(float) ** 2).sum()))
    if not squares > 0 or complexity == -math.inf:
        raise NotDefined("inputs or weights are all zero, and it divides by their norm.")
    return subject.margins * math.exp(math.log(subject.n) - 0.5 * math.log(squares) - complexity)


@measure(
    "spectral-complexity",
    family="normalized",
    meaning="Spectral complexity: how much the layers stretch an input, corrected for the spread over units.",
    paper=BARTLETT,
    equation="R_A of Theorem 1.1 with reference matrices 0 and the norms of layers as maps, certified from above",
    invariant=False,
    cost="weights",
)
def spectral_complexity_origin(subject: Subject) -> Value:
    return spectral_complexity(subject)


@measure(
    "spectral-complexity-init",
    family="normalized",
    meaning="Spectral complexity around the initialization: stretching, corrected for the spread of changes.",
    paper=BARTLETT,
    equation="R_A of Theorem 1.1 with the initial weights as reference matrices",
    invariant=False,
    cost="weights",
    needs=("init",),
)
def spectral_complexity_init(subject: Subject) -> Value:
    return spectral_complexity(subject, around_init=True)


@measure(
    "median-normalized-margin",
    family="normalized",
    meaning="Median margin over spectral complexity: the margin relative to stretching; larger means simpler.",
    paper=BARTLETT,
    equation="median of margin / (||X||_2 R_A / n), reference matrices 0",
    invariant=False,
    cost="forward",
)
def median_normalized_margin(subject: Subject) -> float:
    return float(normalized_margins(subject).median())


@measure(
    "median-margin-over-path-norm-l1",
    key="median-margin-over-path-norm",
    family="normalized",
    meaning="Median margin over the l1 path norm: relative to the sum over paths (p = 1); larger means simpler.",
    paper="Neyshabur et al. 2017, Exploring generalization (code), there with another quantile",
    equation="median margin / path-norm-l1",
    invariant=True,
    cost="forward",
)
def median_margin_over_path_norm(subject: Subject) -> float:
    return float(normalized_margins(subject, by="path").median())
