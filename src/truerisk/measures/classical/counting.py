"""Bounds that know the architecture and the training error, and nothing of the weights' values."""

from __future__ import annotations

import math

from truerisk.bounds import description_length, finite_class, vc_bound, vc_dimension
from truerisk.bounds.vc import Questions
from truerisk.measures.classical.pieces import pieces
from truerisk.measures.subject import Subject
from truerisk.measures.theorems import theorem


def training_errors(subject: Subject) -> int:
    """Ties count as errors."""
    return int((~(subject.margins > 0)).sum())


@theorem(
    "float-count",
    paper="Blumer et al. 1987",
    theorem="Occam's razor: r + sqrt((bits ln 2 + ln(1/delta)) / (2n))",
    meaning="Occam bound: each stored bit doubles the number of networks that training could have found.",
    invariant=True,
    cost="forward",
)
def float_count(subject: Subject, delta: float) -> tuple[float, dict[str, float]]:
    """All parameters and buffers as they are stored (32 bits each in float32). It holds for any architecture."""
    tensors = [*subject.original.parameters(), *subject.original.buffers()]
    bits = 8 * sum(t.numel() * t.element_size() for t in tensors)
    errors = training_errors(subject)
    value = finite_class(errors, subject.n, bits * math.log(2), delta)
    exact = description_length(errors, subject.n, bits, delta)
    return value, {"training_error": errors / subject.n, "bits": float(bits), "with_exact_tails": exact}


@theorem(
    "vc",
    paper="Bartlett, Harvey, Liaw and Mehrabian 2019",
    theorem="Theorem 6 (its proof, for several classes): r + sqrt(2 ln(predictions)/n) + sqrt(ln(1/delta)/(2n))",
    meaning="VC bound: counts the ways in which the architecture can label the examples, for any weights.",
    invariant=True,
    cost="forward",
)
def vc(subject: Subject, delta: float) -> tuple[float, dict[str, float]]:
    """Weights that are shared (convolutions) count once; skip connections and max-pools are covered."""
    found = pieces(subject)
    last = Questions(subject.logits.shape[1] - 1, found.output.count, max(1, found.output.degree))
    errors = training_errors(subject)
    parts = {"training_error": errors / subject.n, "weights": float(found.output.count)}
    if subject.anatomy.relu_only:
        parts["vc_dimension"] = _dimension(subject, found.questions)
    return vc_bound(errors, subject.n, [*found.questions, last], delta), parts


def _dimension(subject: Subject, questions: tuple[Questions, ...]) -> float:
    """Of a chain that tells one class from another: the difference of two outputs is one output."""
    layer = subject.layers[-1]
    own = layer.fan_in + (layer.bias is not None)
    before = questions[-1].weights if questions else 0
    weights, units = [q.weights for q in questions], [q.tests for q in questions]
    return vc_dimension([*weights, before + own], [*units, 1])
