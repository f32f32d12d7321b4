"""Rescaling in a certificate: the log-scales that are stored, and the KLs that follow from them.

Log-scales are free (rule 6 of the design): they may depend on the posterior, the prior and the data, as long as
they move only what both draw. ``Gaussian.kl`` refuses anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from truerisk.errors import TrueriskError, VerificationError
from truerisk.pacbayes import Gaussian, kls, rescale_and_tune, tighten
from truerisk.symmetry import Symmetry, find_symmetry

BEST, TOGETHER = "best", "with a tuned prior"  # names in the file: for the KL; for the comparison with a tuned width


@dataclass(frozen=True)
class RescaledKL:
    """The KLs of a certificate in nats; ``free`` is the number of log-scales, None where none were found."""

    kl: float
    original: float
    tuned_scale: float | None = None
    both: float | None = None
    free: int | None = None

    def record(self) -> dict[str, Any] | None:
        """The four columns that belong together."""
        if self.free is None:
            return None
        return {
            "free_log_scales": self.free,
            "original": self.original,
            "tuned_scale": self.tuned_scale,
            "rescaled": self.kl,
            "both": self.both,
        }


def best_log_scales(posterior: Gaussian, prior: Gaussian, input_shape: Sequence[int]) -> dict[str, Tensor] | None:
    """The log-scales of the smallest KL, or None for a network that can't be followed."""
    try:
        symmetry = _symmetry(prior, input_shape)
    except TrueriskError:
        return None
    best = tighten(posterior, prior, symmetry).log_scales
    return {BEST: best, TOGETHER: rescale_and_tune(posterior, prior, symmetry, best)}


def rescaled_prior(prior: Gaussian, log_scales: Mapping[str, Tensor] | None, input_shape: Sequence[int]) -> Gaussian:
    """The prior moved by the stored log-scales: other weights, the same distribution of functions."""
    if log_scales is None:
        return prior
    return prior.rescaled(_symmetry(prior, input_shape).factors(_checked(log_scales)[BEST]))


def rescaled_kl(
    posterior: Gaussian, prior: Gaussian, log_scales: Mapping[str, Tensor] | None, input_shape: Sequence[int]
) -> RescaledKL:
    """The KL that a certificate may use, from stored log-scales."""
    if log_scales is None:
        kl = posterior.kl(prior)
        return RescaledKL(kl, kl)
    symmetry, stored = _symmetry(prior, input_shape), _checked(log_scales)
    original, tuned, rescaled, both = kls(posterior, prior, symmetry, stored[BEST], stored[TOGETHER])
    return RescaledKL(rescaled, original, tuned, both, symmetry.dim)


def _checked(log_scales: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    if log_scales.keys() != {BEST, TOGETHER} or any(t.dtype != torch.float64 for t in log_scales.values()):
        raise VerificationError("log_scales.safetensors must hold two vectors of float64 numbers.")
    return log_scales


def _symmetry(gaussian: Gaussian, input_shape: Sequence[int]) -> Symmetry:
    return find_symmetry(gaussian.module, torch.zeros(1, *input_shape))
