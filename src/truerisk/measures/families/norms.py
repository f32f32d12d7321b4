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
    meaning="How large the weights are: the sum of their squares.",
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
    meaning="The length of the vector of all parameters, biases too: what weight decay makes small.",
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
    meaning="The lengths of the weight vectors that enter each unit, added up over all units.",
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
    meaning="The sum of the absolute weights that enter a unit, for the unit where it is largest.",
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
    meaning="The largest absolute weight.",
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
    meaning="How many directions the weight matrices really use, added up over layers; their scale does not count.",
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
    meaning="The same, with a convolution's norm as the map that it is in place of its kernel's.",
    paper=EXTRA,
    equation=f"sum over layers of ||W||_F^2 / ||W||_op^2, with {OPERATOR.sign} and the kernel's ||W||_F",
    invariant=False,
    cost="weights",
)
def stable_ranks_operator(subject: Subject) -> Value:
    parts = ratios(subject, squared_frobenius(subject), OPERATOR)
    return Value(sum(parts.values()), layers=parts)
