"""What posterior training minimizes. Any of them is valid: the bound holds for every posterior."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from truerisk.bounds import confidence_term, kl_inverse
from truerisk.errors import TrueriskError

P_MIN = 1e-4  # probabilities are cut off here, which bounds the cross-entropy by ln(1/P_MIN)
TRAINING_DELTA = 0.05  # inside the objective only; a certificate's delta is set elsewhere

Objective = Callable[[Tensor, Tensor, int], Tensor]  # (bounded cross-entropy in [0, 1], kl, n) -> scalar


def bounded_cross_entropy(logits: Tensor, y: Tensor, p_min: float = P_MIN) -> Tensor:
    """Mean of min(-ln p_y, ln(1/p_min)) / ln(1/p_min), a loss in [0, 1] (Perez-Ortiz et al. 2021, eq. 14)."""
    worst = math.log(1 / p_min)
    return F.nll_loss(F.log_softmax(logits, dim=1).clamp_min(-worst), y) / worst


def quadratic(risk: Tensor, kl: Tensor, n: int) -> Tensor:
    """(sqrt(risk + B) + sqrt(B))^2 with B = (KL + ln(2 sqrt(n)/delta)) / (2n) (Perez-Ortiz et al. 2021)."""
    b = (kl + confidence_term(n, TRAINING_DELTA)) / (2 * n)
    return ((risk + b).sqrt() + b.sqrt()).square()


def thiemann(risk: Tensor, kl: Tensor, n: int) -> Tensor:
    """risk / (1 - lambda/2) + (KL + ln(2 sqrt(n)/delta)) / (n lambda (1 - lambda/2)), at the best lambda.

    Thiemann, Igel, Wintenberger and Seldin (2017), Theorem 3 and the closed form of its lambda.
    """
    complexity = kl + confidence_term(n, TRAINING_DELTA)
    lam = 2 / ((2 * n * risk / complexity + 1).sqrt() + 1).detach()
    return risk / (1 - lam / 2) + complexity / (n * lam * (1 - lam / 2))


class _KlInverse(torch.autograd.Function):
    """kl_inverse(q, c) with its gradient from the implicit function theorem (Reeb et al. 2018, app. A)."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, c: Tensor) -> Tensor:
        p = torch.as_tensor(kl_inverse(float(q), float(c)), dtype=q.dtype).clamp(1e-6, 1 - 1e-6)
        ctx.save_for_backward(q, p)
        return p

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        q, p = ctx.saved_tensors
        q = q.clamp(1e-6, 1 - 1e-6)
        slope = (1 - q) / (1 - p) - q / p  # d kl(q, p) / dp
        slope = slope.clamp_min(1e-9)
        dq = (((1 - q) / (1 - p)).log() - (q / p).log()) / slope
        return grads[0] * dq, grads[0] / slope


def kl_form(risk: Tensor, kl: Tensor, n: int) -> Tensor:
    """The PAC-Bayes-kl bound itself: kl_inverse(risk, (KL + ln(2 sqrt(n)/delta)) / n)."""
    bound: Tensor = _KlInverse.apply(risk, (kl + confidence_term(n, TRAINING_DELTA)) / n)
    return bound


def tempered(risk: Tensor, kl: Tensor, n: int, weight: float = 4.0) -> Tensor:
    """Cross-entropy in nats + ``weight`` KL / n: regularizes less than the bounds, whose loss is in [0, 1]."""
    return risk * math.log(1 / P_MIN) + weight * kl / n


def kl_weight(progress: float, warmup: float) -> float:
    """The factor on the KL in an objective after a share ``progress`` of all steps: it rises to 1 over ``warmup``.

    What may be compared. The PAC-Bayes-kl inequality holds for all posteriors at once. So posteriors with several
    warm-ups may be compared by anything that the certifying examples say of them, and the choice costs nothing. What is
    drawn is another matter. The Gibbs risk of each posterior is estimated by draws, an event with a share of delta of
    its own in every certificate: the smallest of K certificates fails with probability at most the share of the
    inequality plus K times (not once) that of the draws. And the bound for a single draw is about one posterior, fixed
    before the draw: the choice is free as long as no drawn network was looked at, and the best of K drawn networks
    needs K times its delta. So choose by the objective and certify once, or pay for K with ``tried``.

    >>> [kl_weight(progress, 0.5) for progress in (0, 0.25, 0.5, 1)]
    [0.0, 0.5, 1.0, 1.0]
    >>> kl_weight(0, 0)
    1.0
    """
    return progress / warmup if progress < warmup else 1.0


OBJECTIVES: dict[str, Objective] = {
    "quadratic": quadratic,
    "lambda": thiemann,
    "kl": kl_form,
    "tempered": tempered,
}


def objective(name: str) -> Objective:
    """The objective called ``name``, or an error that lists the names."""
    if name not in OBJECTIVES:
        raise TrueriskError(f"there is no objective {name!r}; choose one of {', '.join(OBJECTIVES)}.")
    return OBJECTIVES[name]
