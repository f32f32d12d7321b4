r"""Capacity terms of two-layer ReLU networks f(x) = V max(U x, 0): that of Neyshabur et al. (2019) and its rivals.

"The role of over-parametrization in generalization of neural networks", with rows u_j of U, columns v_j of V, weights
U0, V0 before training, m inputs (the columns of X), c outputs, h hidden units, and a margin gamma:

    unit capacity   beta_j = ||u_j - u_j^0||          unit impact   alpha_j = ||v_j||
    Theorem 1       (2 sqrt(2c) + 2) / (gamma m)  sum_j alpha_j (beta_j ||X||_F + ||u_j^0 X||)
    Theorem 2       sqrt(c) / (gamma m)  ||V||_F (||U - U0||_F ||X||_F + ||U0 X||_F),  and sqrt(h/m) next to it
    Table 1 (1)     number of weights
            (2)     ||U||_{inf,1} ||V||_{inf,1}
            (3)     ||U||_F ||V||_F
            (4)     ||U||_2 ||V - V0||_{1,2} + ||U - U0||_{1,2} ||V||_2
            (5)     ||U||_2 ||V - V0||_F + sqrt(h) ||U - U0||_F ||V||_2
            (6)     ||U0||_2 ||V||_F + ||U - U0||_F ||V||_F,  and sqrt(h) next to it

Norms: ||.||_2 is the spectral norm; ||W||_{p,q} is the l_p norm, over rows of W, of the rows' l_q norms. Terms 2 to 6
are divided by the margin. By the inequality of Cauchy and Schwarz, the sum of Theorem 1 is at most
||V||_F (||U - U0||_F ||X||_F + ||U0 X||_F), the product of Theorem 2.

The ramp loss in eq. (1) of the paper is misprinted as mu/gamma between 0 and gamma; 1 - mu/gamma is meant
(`truerisk.bounds.ramp_loss`).

None of these terms is a bound. `truerisk.measures.BOUNDS` has bounds with all constants: `unit-capacity-impact` (this
paper), `row-sums-root` (2), `frobenius-doubling` (3), `spectral-covering-init` (4), `spectral-pac-bayes` (5), `vc` (1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import scipy.linalg
from torch import Tensor

from truerisk.errors import TrueriskError
from truerisk.nets.evaluate import margins
from truerisk.nets.two_layer import TwoLayer

SHARE = 20  # gamma is the margin that one example in twenty stays below, as in the paper


@dataclass(frozen=True)
class Terms:
    """All terms of one network. Where the margin is not positive, everything that is divided by it is infinite."""

    margin: float  # gamma, the 5th percentile of the margins
    distance: float  # ||U - U0||_F
    distance_top: float  # ||V - V0||_F
    capacity: float  # mean of beta_j
    impact: float  # mean of alpha_j
    unit_wise: float  # Theorem 1, with its constant
    product: float  # Theorem 2, the main term, with sqrt(c)
    table: float  # Table 1 (6), over the margin, without sqrt(h)
    row_sums: float  # Table 1 (2), over the margin
    frobenius: float  # Table 1 (3), over the margin
    spectral_rows: float  # Table 1 (4), over the margin
    spectral_frobenius: float  # Table 1 (5), over the margin
    weights: int  # Table 1 (1)


def unit_capacity(network: TwoLayer, start: TwoLayer) -> Tensor:
    """beta_j = ||u_j - u_j^0|| of each hidden unit, in float64."""
    return (network.U.double() - start.U.double()).norm(dim=1)


def unit_impact(network: TwoLayer) -> Tensor:
    """alpha_j = ||v_j|| of each hidden unit, in float64."""
    return network.V.double().norm(dim=0)


def margin_level(of: Tensor) -> float:
    """The 5th percentile of margins: the largest of the lowest twentieth (at least one) of them.

    >>> import torch
    >>> margin_level(torch.arange(100.0))
    4.0
    """
    return float(of.kthvalue(max(1, len(of) // SHARE)).values)


def unit_wise(
    impact: Tensor, capacity: Tensor, response: Tensor, input_norm: float, margin: float, n: int, outputs: int,
    constant: float = 0.0,
) -> float:  # fmt: skip
    """Theorem 1: (2 sqrt(2c) + 2) / (gamma m) sum_j alpha_j (beta_j ||X||_F + ||u_j^0 X||).

    `response` is ||u_j^0 X|| of each unit, `input_norm` is ||X||_F, `n` the number m of examples, `outputs` c.
    `constant` is the norm of an output bias: a unit that answers 1 to each example and never moves.

    >>> import torch
    >>> unit_wise(torch.tensor([3.0]), torch.tensor([2.0]), torch.tensor([1.0]), 5.0, 1.0, 33, 2)  # 6/33 * 3 * 11
    6.0
    """
    total = float((impact * (capacity * input_norm + response)).sum()) + constant * math.sqrt(n)
    return (2 * math.sqrt(2 * outputs) + 2) * total / (margin * n)


def terms(network: TwoLayer, start: TwoLayer, X: Tensor, y: Tensor) -> Terms:
    """All terms of a network that was trained on inputs ``X`` (a row each) with labels ``y``, in float64.

    ``start`` is the exact copy of the network before training.

    >>> import torch
    >>> still = TwoLayer(torch.eye(2), torch.eye(2))
    >>> found = terms(still, still, torch.eye(2), torch.tensor([0, 1]))
    >>> found.distance, found.margin, found.table, found.weights  # nothing moved: ||U0||_2 ||V||_F
    (0.0, 1.0, 1.4142135623730951, 8)
    """
    if start.U.shape != network.U.shape or start.V.shape != network.V.shape:
        raise TrueriskError("the network and its start differ in shape; pass the exact copy from before training.")
    now, then, X = network.double(), start.double(), X.double()
    (c, h), n = now.V.shape, len(X)
    moved, moved_top = now.U - then.U, now.V - then.V
    margin = margin_level(margins(now(X), y)[0])

    def over(term: float) -> float:
        return term / margin if margin > 0 else math.inf

    answers = (X @ then.U.T).norm(dim=0)
    inputs, top, distance = _norm(X), _norm(now.V), _norm(moved)
    spectral, spectral_top = spectral_norm(now.U), spectral_norm(now.V)
    alpha, beta = unit_impact(now), unit_capacity(now, then)
    return Terms(
        margin=margin,
        distance=distance,
        distance_top=_norm(moved_top),
        capacity=float(beta.mean()),
        impact=float(alpha.mean()),
        unit_wise=over(unit_wise(alpha, beta, answers, inputs, 1.0, n, c)),
        product=over(math.sqrt(c) * top * (distance * inputs + _norm(answers)) / n),
        table=over((spectral_norm(then.U) + distance) * top),
        row_sums=over(_largest_row(now.U) * _largest_row(now.V)),
        frobenius=over(_norm(now.U) * top),
        spectral_rows=over(spectral * _rows(moved_top) + _rows(moved) * spectral_top),
        spectral_frobenius=over(spectral * _norm(moved_top) + math.sqrt(h) * distance * spectral_top),
        weights=now.U.numel() + now.V.numel(),
    )


def spectral_norm(matrix: Tensor) -> float:
    """The largest singular value, from the largest eigenvalue of the smaller of A A' and A' A, in float64.

    >>> import torch
    >>> round(spectral_norm(torch.tensor([[3.0, 0.0, 0.0], [0.0, -4.0, 0.0]])), 12)
    4.0
    """
    A = matrix.double()
    small = A @ A.T if A.shape[0] <= A.shape[1] else A.T @ A
    last = len(small) - 1
    largest = scipy.linalg.eigh(small.numpy(), eigvals_only=True, subset_by_index=[last, last])[0]
    return math.sqrt(max(0.0, float(largest)))


def _norm(matrix: Tensor) -> float:
    return float(matrix.norm())


def _rows(matrix: Tensor) -> float:
    """||.||_{1,2}: the sum over rows of l2 norms."""
    return float(matrix.norm(dim=1).sum())


def _largest_row(matrix: Tensor) -> float:
    """||.||_{inf,1}: the largest l1 norm of a row."""
    return float(matrix.abs().sum(dim=1).max())
