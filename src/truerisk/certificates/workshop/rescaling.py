"""Rescaling in a certificate: the posterior is moved to where its KL is smallest, and the log-scales are kept.

For a rescaling T, KL(Q, T P) = KL(T^-1 Q, P). A certificate stores, draws and certifies T^-1 Q: in real numbers the
same random function as Q, at a smaller distance from the prior itself. Posteriors are free, so nothing rests on T being
a symmetry, nor on what floating point makes of it. (Were the prior moved in place of the posterior, factors so small
that activations underflow could pick a subnetwork, and no KL would pay for the choice.) The log-scales only lead back
to Q: they tell what the KL was before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from truerisk.certificates.counts import RescaledKL
from truerisk.errors import TrueriskError, VerificationError
from truerisk.pacbayes import Gaussian, in_float32, kls, rescale_and_tune, tighten
from truerisk.symmetry import Symmetry, find_symmetry

BEST, TOGETHER = (
    "best",
    "with a tuned prior",
)  # names in the file: for the KL; for the comparison with a tuned prior scale


def followed(gaussian: Gaussian, blank: np.ndarray) -> Symmetry | None:
    """The rescalings of this network for inputs like ``blank``, or None for one that cannot be traced."""
    try:
        return find_symmetry(gaussian.module, torch.from_numpy(blank))
    except TrueriskError:
        return None


def best_log_scales(posterior: Gaussian, prior: Gaussian, symmetry: Symmetry | None) -> dict[str, Tensor] | None:
    """The log-scales of the smallest KL, or None for a network that can't be followed."""
    if symmetry is None:
        return None
    best = tighten(posterior, prior, symmetry).log_scales
    return {BEST: best, TOGETHER: rescale_and_tune(posterior, prior, symmetry, best)}


def rescaled_prior(prior: Gaussian, log_scales: Mapping[str, Tensor] | None, symmetry: Symmetry | None) -> Gaussian:
    """The prior moved by these log-scales: for choosing its widths, never for a bound."""
    if log_scales is None or symmetry is None:
        return prior
    return prior.rescaled(symmetry.factors(log_scales[BEST]))


def moved(
    posterior: Gaussian, log_scales: dict[str, Tensor] | None, symmetry: Symmetry | None
) -> tuple[Gaussian, dict[str, Tensor] | None]:
    """T^-1 Q in float32 numbers, so that a file keeps exactly what is certified, and the log-scales of T.

    Where there are none, or float32 can't hold T^-1 Q, it is Q itself, without log-scales.
    """
    if log_scales is None or symmetry is None:
        return posterior, None
    try:
        return in_float32(symmetry.rescale(posterior, -log_scales[BEST])), log_scales
    except TrueriskError:
        return posterior, None


def rescaled_kl(
    posterior: Gaussian, prior: Gaussian, log_scales: Mapping[str, Tensor] | None, blank: np.ndarray
) -> RescaledKL:
    """The KL that a certificate uses, of both distributions as they are, and what it was before the posterior moved."""
    kl = posterior.kl(prior)
    if log_scales is None:
        return RescaledKL(kl, kl)
    symmetry, stored = followed(prior, blank), _checked(log_scales)
    if symmetry is None:
        raise VerificationError("log_scales.safetensors exists, but this network cannot be traced; certify again.")
    trained = symmetry.rescale(posterior, stored[BEST])
    original, tuned, _, both = kls(trained, prior, symmetry, stored[BEST], stored[TOGETHER])
    if not all(map(math.isfinite, (original, tuned, both))):
        raise VerificationError("log_scales.safetensors gives a posterior without a finite KL; certify again.")
    return RescaledKL(kl, original, tuned, both, symmetry.dim)


def _checked(log_scales: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    if log_scales.keys() != {BEST, TOGETHER} or any(t.dtype != torch.float64 for t in log_scales.values()):
        raise VerificationError("log_scales.safetensors must hold two float64 vectors; certify again.")
    return log_scales
