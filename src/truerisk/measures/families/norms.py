"""Norms of the trained weights. Biases count only where that is said.

A rescaling of hidden units moves all of them: the function stays, and the norm becomes as large as one likes.
"""

from __future__ import annotations

import math

import torch

from truerisk.measures.layerwise import OPERATOR, SPECTRAL, ratios, require_biases, squared_frobenius, trained_layers
from truerisk.measures.registry import Value, measure
from truerisk.measures.subject import Subject

JIANG = "Jiang et al. 2020"
GROUPS = "Neyshabur, Tomioka and Srebro 2015, Norm-based capacity control"
EXTRA = "Dziugaite et al. 2020 (code), eq. 33 of Jiang et al. 2020 with another norm"


@measure(
    "frobenius-sum",
    family="norms",
    meaning="Sum of squared Frobenius norms: the total size of the weight matrices, biases left out.",
    paper=JIANG,
    equation="eq. 42: sum over layers of ||W||_F^2",
    invariant=False,
    cost="weights",
)
def frobenius_sum(subject: Subject) -> Value:
    squares = squared_frobenius(subject)
    return Value(sum(squares.values()), layers=squares)


@measure(
    "l2-norm",
    family="norms",
    meaning="Euclidean norm of all parameters, biases included: the quantity that weight decay shrinks.",
    paper="Dziugaite et al. 2020 (code), there without biases",
    equation="sqrt(sum of squares of all parameters)",
    invariant=False,
    cost="weights",
)
def l2_norm(subject: Subject) -> Value:
    require_biases(subject, "frobenius-sum")
    squares = {name: float(p.square().sum()) for name, p in subject.parameters.items()}
    return Value(math.sqrt(sum(squares.values())), layers={name: math.sqrt(s) for name, s in squares.items()})


@measure(
    "unit-norm-sum",
    family="norms",
    meaning="Group norm (2,1): the norms of the incoming weights of each unit, added up over all units.",
    paper=GROUPS,
    equation="group norm mu_{2,1}: sum over units of the l2 norm of incoming weights (||W||_{2,1} of each layer)",
    invariant=False,
    cost="weights",
)
def unit_norm_sum(subject: Subject) -> Value:
    sums = {layer.name: float(layer.matrix.norm(dim=1).sum()) for layer in trained_layers(subject)}
    return Value(sum(sums.values()), layers=sums)


@measure(
    "largest-unit",
    family="norms",
    meaning="Group norm (1,inf): the largest sum of absolute incoming weights of any unit.",
    paper=GROUPS,
    equation="group norm mu_{1,inf}: max over units of the l1 norm of incoming weights",
    invariant=False,
    cost="weights",
)
def largest_unit(subject: Subject) -> Value:
    largest = {layer.name: float(layer.matrix.abs().sum(dim=1).max()) for layer in trained_layers(subject)}
    return Value(max(largest.values()), layers=largest)


@measure(
    "largest-weight",
    family="norms",
    meaning="Maximum norm: the largest absolute weight of any layer.",
    paper=GROUPS,
    equation="group norm mu_{inf,inf}: max |w|",
    invariant=False,
    cost="weights",
)
def largest_weight(subject: Subject) -> Value:
    largest = {layer.name: float(torch.max(layer.weight.abs())) for layer in trained_layers(subject)}
    return Value(max(largest.values()), layers=largest)


@measure(
    "stable-ranks",
    family="norms",
    meaning="Sum of stable ranks: how many directions the weight matrices really use, whatever their scale.",
    paper=JIANG,
    equation=f"eq. 33: sum over layers of ||W||_F^2 / ||W||_2^2, with {SPECTRAL.sign}",
    invariant=False,
    cost="weights",
)
def stable_ranks(subject: Subject) -> Value:
    parts = ratios(subject, squared_frobenius(subject), SPECTRAL)
    return Value(sum(parts.values()), layers=parts)


@measure(
    "stable-ranks-operator",
    family="norms",
    meaning="Sum of stable ranks with operator norms: directions used if convolutions are maps of images.",
    paper=EXTRA,
    equation=f"sum over layers of ||W||_F^2 / ||W||_op^2, with {OPERATOR.sign} and the kernel's ||W||_F",
    invariant=False,
    cost="weights",
)
def stable_ranks_operator(subject: Subject) -> Value:
    parts = ratios(subject, squared_frobenius(subject), OPERATOR)
    return Value(sum(parts.values()), layers=parts)
