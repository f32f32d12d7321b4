"""Flatness: how much random noise the weights bear, and the PAC-Bayes bounds that come of it.

    sigma:   u_i ~ N(0, sigma^2)                     sigma':  u_i ~ N(0, sigma'^2 w_i^2)

are the largest noises under which the training accuracy of w + u falls by no more than 0.1 on average (see
``truerisk.measures.perturbation``), each the lower end of a search bracket that is not a confidence interval. Jiang et
al. 2020 turn them into measures; equation numbers are theirs. m is the number of training examples, omega that of
trainable parameters, eps = 0.001. Two mistakes of public code are not made: sigma is a standard deviation, not a
variance, and the norms are of the same parameters that get the noise.
"""

from __future__ import annotations

import math

from torch import Tensor

from truerisk.measures.perturbation import GAUSSIAN_SETTINGS, NO_EPSILON, radius
from truerisk.measures.registry import Value, measure
from truerisk.measures.subject import Subject

JIANG = "Jiang et al. 2020"
CONSTANT, EPSILON = 10.0, 1e-3  # of the published formulas


def moves(subject: Subject) -> dict[str, Tensor]:
    """w - w_0 of every trainable parameter, in float64."""
    before = subject.initial_parameters
    return {name: w - before[name] for name, w in subject.parameters.items()}


def squares(tensors: dict[str, Tensor]) -> dict[str, float]:
    """The squared norm of each."""
    return {name: float(t.square().sum()) for name, t in tensors.items()}


def magnitude_terms(reference: float, steps: dict[str, Tensor], scale: float, spread: float) -> dict[str, float]:
    """(1/4) sum_i ln[(eps^2 + spread * reference / omega) / (eps^2 + scale^2 steps_i^2)], by parameter."""
    omega = sum(t.numel() for t in steps.values())
    top = math.log(EPSILON**2 + spread * reference / omega)
    return {
        name: 0.25 * (t.numel() * top - float((EPSILON**2 + scale**2 * t.square()).log().sum()))
        for name, t in steps.items()
    }


def _quadratic(subject: Subject, tensors: dict[str, Tensor]) -> Value:
    sigma = radius(subject, "gaussian").value
    parts = {name: square / (4 * sigma**2) for name, square in squares(tensors).items()}
    return Value(sum(parts.values()) + math.log(subject.n / sigma) + CONSTANT, layers=parts)


def _magnitude(subject: Subject, reference: float) -> Value:
    sigma = radius(subject, "gaussian-magnitude").value
    parts = magnitude_terms(reference, moves(subject), sigma, sigma**2 + 1)
    return Value(sum(parts.values()) + math.log(subject.n / sigma) + CONSTANT, layers=parts)


@measure(
    "pacbayes-init",
    family="flatness",
    meaning="PAC-Bayes around the initialization: distance from it, in units of noise that the weights bear.",
    paper=JIANG,
    equation="eq. 48: ||w - w_0||^2 / (4 sigma^2) + ln(m / sigma) + 10",
    invariant=False,
    cost="search",
    needs=("init",),
    settings=GAUSSIAN_SETTINGS,
)
def pacbayes_init(subject: Subject) -> Value:
    return _quadratic(subject, moves(subject))


@measure(
    "pacbayes-origin",
    family="flatness",
    meaning="PAC-Bayes around the origin: size of the weights, in units of noise that they bear.",
    paper=JIANG,
    equation="eq. 49: ||w||^2 / (4 sigma^2) + ln(m / sigma) + 10",
    invariant=False,
    cost="search",
    settings=GAUSSIAN_SETTINGS,
)
def pacbayes_origin(subject: Subject) -> Value:
    return _quadratic(subject, subject.parameters)


@measure(
    "pacbayes-flatness",
    family="flatness",
    meaning="Inverse squared noise radius: large if little noise on the weights spoils the predictions.",
    paper=JIANG,
    equation="eq. 53: 1 / sigma^2",
    invariant=False,
    cost="search",
    settings=GAUSSIAN_SETTINGS,
)
def pacbayes_flatness(subject: Subject) -> float:
    return radius(subject, "gaussian").value ** -2


@measure(
    "pacbayes-magnitude-init",
    family="flatness",
    meaning="PAC-Bayes around the initialization, noise in proportion to each weight: distance over noise.",
    paper=JIANG,
    equation=(
        "eq. 56: (1/4) sum_i ln[(eps^2 + (sigma'^2 + 1) ||w - w_0||^2 / omega) / (eps^2 + sigma'^2 (w_i - w_0i)^2)] "
        "+ ln(m / sigma') + 10"
    ),
    invariant=False,
    cost="search",
    needs=("init",),
    settings=GAUSSIAN_SETTINGS + NO_EPSILON,
)
def pacbayes_magnitude_init(subject: Subject) -> Value:
    return _magnitude(subject, sum(squares(moves(subject)).values()))


@measure(
    "pacbayes-magnitude-origin",
    family="flatness",
    meaning="PAC-Bayes around the origin, noise in proportion to each weight: size of weights over noise.",
    paper=JIANG,
    equation="eq. 57: eq. 56 with ||w||^2 for ||w - w_0||^2 (the denominator keeps w_i - w_0i)",
    invariant=False,
    cost="search",
    needs=("init",),
    settings=GAUSSIAN_SETTINGS + NO_EPSILON,
)
def pacbayes_magnitude_origin(subject: Subject) -> Value:
    return _magnitude(subject, sum(squares(subject.parameters).values()))


@measure(
    "pacbayes-magnitude-flatness",
    family="flatness",
    meaning="Inverse squared relative noise radius: large if noise of a small share of each weight does harm.",
    paper=JIANG,
    equation="eq. 61: 1 / sigma'^2",
    invariant=True,
    cost="search",
    settings=GAUSSIAN_SETTINGS + NO_EPSILON,
)
def pacbayes_magnitude_flatness(subject: Subject) -> float:
    return radius(subject, "gaussian-magnitude").value ** -2
