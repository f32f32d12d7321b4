"""Sharpness: how much the worst small change of the weights can do.

The worst case over a box is a maximization that nobody solves. Here, as everywhere, it is searched for along gradients:
what is found is a lower bound of the true maximum, and an upper bound of the radius at which it does its damage. Each
measure states how long it searched. Equation numbers are those of Jiang et al. 2020; those of the worst-case measures
are from memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from truerisk.measures.families.flatness import CONSTANT, JIANG, magnitude_terms, moves, squares
from truerisk.measures.perturbation import NO_EPSILON, SHARE, WORST_SETTINGS, Movable, part, radius
from truerisk.measures.registry import Value, measure
from truerisk.measures.subject import Subject

DELTA = 0.05  # the delta of formulas that have one
STEPS = 3  # corners that a maximization tries
KESKAR = 1e-3  # half the side of Keskar's box, relative
INFINITY, EUCLID = 0.01, 0.5  # radii of adaptive sharpness
SEARCH = "a tenth of the sample (at least 50 examples); 3 steps of projected gradient ascent: a lower bound"


def _box(subject: Subject, tensors: dict[str, Tensor]) -> Value:
    alpha = radius(subject, "worst").value
    omega = sum(t.numel() for t in tensors.values())
    parts = {name: square * math.log(2 * omega) / (4 * alpha**2) for name, square in squares(tensors).items()}
    return Value(sum(parts.values()) + math.log(subject.n / DELTA) + CONSTANT, layers=parts)


def _magnitude(subject: Subject, reference: float) -> Value:
    alpha, steps = radius(subject, "worst-magnitude").value, moves(subject)
    omega = sum(t.numel() for t in steps.values())
    parts = magnitude_terms(reference, steps, alpha, alpha**2 + 4 * math.log(2 * omega / DELTA))
    return Value(sum(parts.values()) + math.log(subject.n / DELTA) + CONSTANT, layers=parts)


@measure(
    "sharpness-init",
    family="sharpness",
    meaning="Sharpness around the initialization: distance from it, in units of the worst harmless change.",
    paper=JIANG,
    equation="eq. 50 (number from memory): ||w - w_0||^2 ln(2 omega) / (4 alpha^2) + ln(m / delta) + 10",
    invariant=False,
    cost="search",
    needs=("init",),
    settings=f"{WORST_SETTINGS}; delta = 0.05",
)
def sharpness_init(subject: Subject) -> Value:
    return _box(subject, moves(subject))


@measure(
    "sharpness-origin",
    family="sharpness",
    meaning="Sharpness around the origin: size of the weights, in units of the worst harmless change.",
    paper=JIANG,
    equation="eq. 51 (number from memory): ||w||^2 ln(2 omega) / (4 alpha^2) + ln(m / delta) + 10",
    invariant=False,
    cost="search",
    settings=f"{WORST_SETTINGS}; delta = 0.05",
)
def sharpness_origin(subject: Subject) -> Value:
    return _box(subject, subject.parameters)


@measure(
    "sharpness",
    family="sharpness",
    meaning="Inverse squared worst-case radius: large if a tiny adversarial change of weights does harm.",
    paper=JIANG,
    equation="eq. 52 (number from memory): 1 / alpha^2",
    invariant=False,
    cost="search",
    settings=WORST_SETTINGS,
)
def sharpness(subject: Subject) -> float:
    return radius(subject, "worst").value ** -2


@measure(
    "sharpness-magnitude-init",
    family="sharpness",
    meaning="Relative sharpness around the initialization: distance over changes in proportion to weights.",
    paper=JIANG,
    equation=(
        "eq. 58 (number from memory): (1/4) sum_i ln[(eps^2 + (alpha'^2 + 4 ln(2 omega / delta)) ||w - w_0||^2 / "
        "omega) / (eps^2 + alpha'^2 (w_i - w_0i)^2)] + ln(m / delta) + 10"
    ),
    invariant=False,
    cost="search",
    needs=("init",),
    settings=f"{WORST_SETTINGS}{NO_EPSILON}; delta = 0.05",
)
def sharpness_magnitude_init(subject: Subject) -> Value:
    return _magnitude(subject, sum(squares(moves(subject)).values()))


@measure(
    "sharpness-magnitude-origin",
    family="sharpness",
    meaning="Relative sharpness around the origin: size of weights over changes in proportion to weights.",
    paper=JIANG,
    equation="eq. 59 (number from memory): eq. 58 with ||w||^2 for ||w - w_0||^2 (the denominator keeps w_i - w_0i)",
    invariant=False,
    cost="search",
    needs=("init",),
    settings=f"{WORST_SETTINGS}{NO_EPSILON}; delta = 0.05",
)
def sharpness_magnitude_origin(subject: Subject) -> Value:
    return _magnitude(subject, sum(squares(subject.parameters).values()))


@measure(
    "sharpness-magnitude",
    family="sharpness",
    meaning="Inverse squared relative radius: large if changing weights by a small share of each does harm.",
    paper=JIANG,
    equation="eq. 60 (number from memory): 1 / alpha'^2",
    invariant=True,
    cost="search",
    settings=WORST_SETTINGS + NO_EPSILON,
)
def sharpness_magnitude(subject: Subject) -> float:
    return radius(subject, "worst-magnitude").value ** -2


Oracle = Callable[[list[Tensor], list[Tensor]], list[Tensor]]


def rise(subject: Subject, best: Oracle) -> tuple[float, float]:
    """(loss at w, largest loss found at w + u). ``best(g, w)`` is the allowed u with the largest <g, u>.

    The gradient g is taken at w first, and then at the point that the last one led to.
    """
    X, y = part(subject, SHARE)
    net = Movable(subject)
    start, slopes = subject.shared("slope", lambda: net.gradient(X, y))
    highest = start
    for step in range(STEPS):
        net.move(best(slopes, net.centre))
        if step < STEPS - 1:
            loss, slopes = net.gradient(X, y)
        else:
            loss = net.loss(X, y)
        highest = max(highest, loss)
    return start, highest


@measure(
    "keskar-sharpness",
    family="sharpness",
    meaning="Keskar sharpness: percent by which the loss rises if weights may move by 0.001 (1 + their size).",
    paper="Keskar et al. 2017",
    equation=(
        "metric 2.1 (number from memory): 100 (max of f(w + u) - f(w)) / (1 + f(w)) over |u_i| <= eps (|w_i| + 1), "
        "eps = 0.001, full space"
    ),
    invariant=False,
    cost="search",
    settings=SEARCH,
)
def keskar_sharpness(subject: Subject) -> float:
    start, highest = rise(subject, lambda g, w: [KESKAR * (b.abs() + 1) * a.sign() for a, b in zip(g, w, strict=True)])
    return 100 * (highest - start) / (1 + start)


@measure(
    "adaptive-sharpness",
    family="sharpness",
    meaning="Adaptive sharpness (l-inf): rise of the loss if every weight may change by 1% of itself.",
    paper="Kwon et al. 2021; Andriushchenko et al. 2023",
    equation="max of f(w + u) - f(w) over |u_i| <= rho |w_i|, rho = 0.01",
    invariant=True,
    cost="search",
    settings=SEARCH,
)
def adaptive_sharpness(subject: Subject) -> float:
    start, highest = rise(subject, lambda g, w: [INFINITY * b.abs() * a.sign() for a, b in zip(g, w, strict=True)])
    return highest - start


@measure(
    "adaptive-sharpness-l2",
    family="sharpness",
    meaning="Adaptive sharpness (l2): rise of the loss if the relative changes have a norm of at most 0.5.",
    paper="Kwon et al. 2021; Andriushchenko et al. 2023",
    equation="max of f(w + u) - f(w) over sum_i (u_i / w_i)^2 <= rho^2, rho = 0.5",
    invariant=True,
    cost="search",
    settings=SEARCH,
)
def adaptive_sharpness_l2(subject: Subject) -> float:
    start, highest = rise(subject, _ellipsoid)
    return highest - start


def _ellipsoid(slopes: list[Tensor], weights: list[Tensor]) -> list[Tensor]:
    """rho w_i^2 g_i / ||w g||; no move where the loss has no slope."""
    relative = [w.double() * g for g, w in zip(slopes, weights, strict=True)]
    norm = math.sqrt(sum(float(r.square().sum()) for r in relative))
    return [EUCLID * w * r / norm if norm > 0 else torch.zeros_like(r) for r, w in zip(relative, weights, strict=True)]
