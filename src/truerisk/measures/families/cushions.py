"""Cushions: how much noise the layers of a network swallow, and how far it could be compressed (Arora et al. 2018).

What is measured is defined in ``truerisk.measures.stability``.
"""

from __future__ import annotations

import math

import torch

from truerisk.bounds import projections
from truerisk.measures.families.margins import gamma
from truerisk.measures.registry import NotDefined, Value, measure
from truerisk.measures.stability import (
    DRAWS,
    EXAMPLES,
    NOISE,
    PROBES,
    chain,
    contraction,
    cushions,
    interlayer,
    smoothness,
)
from truerisk.measures.subject import Subject

ARORA = "Arora et al. 2018"
DELTA = 0.05  # probability with which the compression may fail
DERIVATIVES = (
    f"smallest over {EXAMPLES} examples, fewer for large networks; wider than {PROBES}: "
    f"||J||_F estimated with {PROBES} random signs"
)


@measure(
    "layer-cushion",
    family="cushions",
    meaning="Layer cushion: how much better layers carry examples than noise, at worst; larger is simpler.",
    paper=ARORA,
    equation="Definition 4 (from memory): mu_i ||A^i||_F ||phi(x^{i-1})|| <= ||A^i phi(x^{i-1})||; smallest mu_i",
    invariant=False,
    cost="forward",
    settings="over all examples",
)
def layer_cushion(subject: Subject) -> Value:
    found = cushions(subject).tolist()
    return Value(min(found), layers=_named(subject, found))


@measure(
    "interlayer-cushion",
    family="cushions",
    meaning="Interlayer cushion: how much better later layers carry signal than noise; larger is simpler.",
    paper=ARORA,
    equation="Definition 5 (from memory): mu_ij ||J^ij||_F ||x^i|| <= ||J^ij x^i||; smallest mu_ij, i < j",
    invariant=False,
    cost="gradients",
    settings=DERIVATIVES,
)
def interlayer_cushion(subject: Subject) -> Value:
    found = interlayer(subject).amin(1).tolist()[:-1]
    return Value(min(found), layers=_named(subject, found))


@measure(
    "activation-contraction",
    family="cushions",
    meaning="Activation contraction: the largest factor by which an activation shortens the signal.",
    paper=ARORA,
    equation="Definition 6 (from memory): ||phi(x^i)|| >= ||x^i|| / c; smallest c",
    invariant=False,
    cost="forward",
    settings="over all examples; pooling belongs to phi",
)
def activation_contraction(subject: Subject) -> Value:
    found = contraction(subject).tolist()
    if not found:
        raise NotDefined("it is defined for networks with a hidden layer.")
    return Value(max(found), layers=_named(subject, found))


@measure(
    "interlayer-smoothness",
    family="cushions",
    meaning="Interlayer smoothness: how linear later layers are under noise, at worst; larger is simpler.",
    paper=ARORA,
    equation="Definition 7 (from memory): ||M^ij(x^i + eta) - J^ij (x^i + eta)|| <= ||eta|| ||x^j|| / (rho ||x^i||)",
    invariant=False,
    cost="gradients",
    settings=f"Gaussian noise, ||eta|| = {NOISE} ||x^i||; for 95 % of {DRAWS} draws for each of {EXAMPLES} examples",
)
def interlayer_smoothness(subject: Subject) -> Value:
    found = smoothness(subject).amin(1).tolist()[:-1]
    return Value(min(found), layers=_named(subject, found))


@measure(
    "effective-parameters",
    family="cushions",
    meaning="Parameters after compression: numbers left if each layer is projected as its cushions allow.",
    paper=ARORA,
    equation="Theorem 4.1 and its proof: sum_i k(eps mu_i mu_i-> / (6 c d), delta / (6 d^2 h^2 m)), eps = gamma / "
    "(sqrt(2) max ||f(x)||), mu_i-> = min(1/sqrt(h_i), min_j mu_ij), k = ln(4/eta) / (eps^2/4 - eps^3/6)",
    invariant=False,
    cost="gradients",
    settings=f"gamma: 10th percentile of the margins; delta {DELTA}; k with a proven constant, where the paper has "
    f"ln(1/eta)/eps^2; cushions {DERIVATIVES}; the theorem also asks for a smoothness of at least 3 d",
)
def effective_parameters(subject: Subject) -> Value:
    parts = chain(subject)
    d, widths = parts.depth, torch.tensor(parts.widths, dtype=torch.float64)
    epsilon = gamma(subject) / (math.sqrt(2) * float(subject.logits.norm(dim=1).max()))
    c = max(1.0, *contraction(subject).tolist()) if d > 1 else 1.0
    onward = torch.minimum(widths.rsqrt(), interlayer(subject).amin(1)) if d > 1 else widths.rsqrt()
    each = (epsilon * cushions(subject) * onward / (6 * c * d)).tolist()
    eta = DELTA / (6 * d**2 * max(parts.widths) ** 2 * subject.n)
    if not min(each) > 0:
        raise NotDefined("one of its cushions is 0.")
    counts = [0.0 if layer.fixed else projections(e, eta) for layer, e in zip(parts.layers, each, strict=True)]
    return Value(sum(counts), layers=_named(subject, counts))


def _named(subject: Subject, values: list[float]) -> dict[str, float]:
    """Values of the first layers by name."""
    return {layer.name: value for layer, value in zip(chain(subject).layers, values, strict=False)}
