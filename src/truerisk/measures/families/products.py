"""Products of the norms of all layers: how much a network could stretch its input, and how much room that leaves.

Each comes with three norms of a layer: spectral norm of the weight matrix (a kernel reshaped to out x rest, as in the
published code, which for a convolution is not the norm of the map), operator norm of the map itself, Frobenius norm.
All are computed as logarithms. gamma is the 10th percentile of the margins, d the number of layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from torch import Tensor
from torch.linalg import vector_norm

from truerisk.measures.anatomy import Layer
from truerisk.measures.families.margins import gamma
from truerisk.measures.layerwise import (
    FROBENIUS,
    OPERATOR,
    SPECTRAL,
    Norm,
    acting_layers,
    logs,
    ratios,
    squared_frobenius,
    squared_moves,
)
from truerisk.measures.registry import Need, Value, measure
from truerisk.measures.subject import Subject

JIANG = "Jiang et al. 2020"
CODE = "Dziugaite et al. 2020 (code); Jiang et al. 2020 with another norm"
NEYSHABUR = "Neyshabur et al. 2017, Exploring generalization (code)"
DELTA = 0.05


def log_product(subject: Subject, norm: Norm, power: float = 2.0) -> Value:
    """Product over layers of ||W||^power; each layer's part is its norm."""
    each = logs(subject, norm)
    total = power * sum(each[layer.name] for layer in acting_layers(subject))
    return Value.of_log(total, {name: math.exp(value) for name, value in each.items()})


def _plain(norm: Norm) -> Callable[[Subject], Value]:
    return lambda subject: log_product(subject, norm)


def _over_margin(norm: Norm) -> Callable[[Subject], Value]:
    def compute(subject: Subject) -> Value:
        product = log_product(subject, norm)
        return Value.of_log(_log(product) - 2 * math.log(gamma(subject)), product.layers)

    return compute


def _root(inner: Callable[[Subject], Value]) -> Callable[[Subject], Value]:
    def compute(subject: Subject) -> Value:
        product = inner(subject)
        depth = len(acting_layers(subject))
        return Value.of_log(math.log(depth) + _log(product) / depth, product.layers)

    return compute


def _main(norm: Norm, squares: Callable[[Subject], dict[str, float]]) -> Callable[[Subject], Value]:
    """prod ||W||^2 * sum (squares / ||W||^2) / gamma^2; each layer's part is its term of the sum."""

    def compute(subject: Subject) -> Value:
        parts = ratios(subject, squares(subject), norm)
        total = sum(parts.values())
        product = _log(_over_margin(norm)(subject))
        return Value.of_log(product + math.log(total) if total > 0 else -math.inf, parts)

    return compute


def _whole_bound(norm: Norm, squares: Callable[[Subject], dict[str, float]]) -> Callable[[Subject], Value]:
    """((84 B sum k_i sqrt(c_i) + sqrt(ln(4 n^2 d)))^2 prod ||W||^2 sum (squares / ||W||^2) + ln(m / delta)) / gamma^2.

    B: the largest l2 norm of an input; k_i^2: places of layer i's kernel; c_i: its output channels; n^2: pixels.
    """

    def compute(subject: Subject) -> Value:
        main = _main(norm, squares)(subject)
        layers = acting_layers(subject)
        X = subject.X
        largest = float(np.linalg.norm(X.reshape(len(X), -1).astype(np.float64), axis=1).max())
        pixels = math.prod(X.shape[2:]) if X.ndim > 2 else X.shape[1]
        widths = sum(math.sqrt(math.prod(layer.weight.shape[2:]) * layer.weight.shape[0]) for layer in layers)
        factor = 84 * largest * widths + math.sqrt(math.log(4 * pixels * len(layers)))
        constant = math.log(math.log(subject.n / DELTA)) - 2 * math.log(gamma(subject))
        return Value.of_log(float(np.logaddexp(2 * math.log(factor) + _log(main), constant)), main.layers)

    return compute


def _log(value: Value) -> float:
    assert value.log is not None
    return value.log


def _enter(
    name: str,
    equation: str,
    meaning: str,
    compute: Callable[[Subject], Value],
    *,
    paper: str = JIANG,
    margin: bool = True,
    needs: tuple[Need, ...] = (),
    settings: str = "",
) -> None:
    measure(
        name,
        family="products",
        meaning=meaning,
        paper=paper,
        equation=equation,
        invariant=False,
        cost="forward" if margin else "weights",
        needs=needs,
        settings=settings,
    )(compute)


def _enter_products(norm: Norm, numbers: tuple[str, str, str, str], kind: str, paper: str = JIANG) -> None:
    """The four products of one norm, with and without margin, as a product and as a mean."""
    w = f"||W|| = {norm.sign}"
    _enter(
        f"{norm.name}-product",
        f"eq. {numbers[0]}: prod ||W||^2, {w}",
        f"Product of squared {kind}: how much the layers together may stretch an input.",
        _plain(norm),
        paper=paper,
        margin=False,
    )
    _enter(
        f"{norm.name}-product-over-margin",
        f"eq. {numbers[1]}: prod ||W||^2 / gamma^2, {w}",
        f"Product of squared {kind} over the squared margin: stretching relative to the margin.",
        _over_margin(norm),
        paper=paper,
    )
    _enter(
        f"{norm.name}-mean",
        f"eq. {numbers[2]}: d (prod ||W||^2)^(1/d), {w}",
        f"Geometric mean of squared {kind}, times depth: how much a layer may stretch on average.",
        _root(_plain(norm)),
        paper=paper,
        margin=False,
    )
    _enter(
        f"{norm.name}-mean-over-margin",
        f"eq. {numbers[3]}: d (prod ||W||^2 / gamma^2)^(1/d), {w}",
        f"Geometric mean of squared {kind} over the margin, times depth: stretching per layer.",
        _root(_over_margin(norm)),
        paper=paper,
    )


def _enter_mains(norm: Norm, paper: str = JIANG) -> None:
    """The main terms of a spectral margin bound, around the initialization and around zero."""
    w = f"||W|| = {norm.sign}"
    _enter(
        f"{norm.name}-main-init",
        f"eq. 29: prod ||W||^2 sum (||W - W_0||_F^2 / ||W||^2) / gamma^2, {w}",
        f"Main term of a bound by {norm.name} norms: stretching times relative moves, over the margin.",
        _main(norm, squared_moves),
        paper=paper,
        needs=("init",),
    )
    _enter(
        f"{norm.name}-main-origin",
        f"eq. 30: prod ||W||^2 sum (||W||_F^2 / ||W||^2) / gamma^2, {w}",
        f"Main term of a bound by {norm.name} norms: stretching times stable ranks, over the margin.",
        _main(norm, squared_frobenius),
        paper=paper,
    )


_enter_products(SPECTRAL, ("32", "31", "35", "34"), "spectral norms")
_enter_products(OPERATOR, ("32", "31", "35", "34"), "operator norms", CODE)
_enter_products(FROBENIUS, ("37", "36", "39", "38"), "Frobenius norms")
_enter_mains(SPECTRAL)
_enter_mains(OPERATOR, CODE)

_FORM = (
    "((84 B sum k_i sqrt(c_i) + sqrt(ln(4 n^2 d)))^2 prod ||W||_2^2 sum ({} / ||W||_2^2) + ln(m/delta)) / gamma^2"
    " (eqs. 24 to 28, after Pitas et al. 2017; constants from memory)"
)
_enter(
    "spectral-bound-init",
    _FORM.format("||W - W_0||_F^2"),
    "Spectral bound around the initialization: its main term with constants of widths and inputs.",
    _whole_bound(SPECTRAL, squared_moves),
    needs=("init",),
    settings=f"delta = {DELTA}",
)
_enter(
    "spectral-bound-origin",
    _FORM.format("||W||_F^2"),
    "Spectral bound around the origin: its main term with constants of widths and inputs.",
    _whole_bound(SPECTRAL, squared_frobenius),
    settings=f"delta = {DELTA}",
)


def _by_layer(of: Callable[[Subject, Layer], Tensor]) -> Callable[[Subject], Value]:
    """prod of a norm of each layer's matrix, over gamma."""

    def compute(subject: Subject) -> Value:
        norm = Norm("", "", lambda subject: {layer.name: float(of(subject, layer)) for layer in subject.layers})
        product = log_product(subject, norm, power=1.0)
        return Value.of_log(_log(product) - math.log(gamma(subject)), product.layers)

    return compute


_enter(
    "largest-unit-product-over-margin",
    "prod ||W||_{1,inf} / gamma: largest l1 norm of a row (reshaped kernels)",
    "Product of (1,inf) norms over the margin: how much the strongest unit of each layer takes in.",
    _by_layer(lambda _, layer: layer.matrix.abs().sum(dim=1).max()),
    paper=f"{NEYSHABUR}; Bartlett and Mendelson 2002",
)
_enter(
    "group-product-over-margin",
    "prod ||W||_{3,1.5} / gamma: l1.5 norm of the l3 norms of rows (reshaped kernels)",
    "Product of (3,1.5) group norms over the margin: small for few units with even weights.",
    _by_layer(lambda _, layer: vector_norm(vector_norm(layer.matrix, ord=3, dim=1), ord=1.5)),
    paper=f"{NEYSHABUR}; Neyshabur, Tomioka and Srebro 2015",
)
_enter(
    "trace-product-over-margin",
    "prod (sum of singular values of W) / gamma (reshaped kernels)",
    "Product of trace norms over the margin: small if the weight matrices have low rank.",
    _by_layer(lambda subject, layer: subject.singular_values[layer.name].sum()),
    paper=NEYSHABUR,
)
