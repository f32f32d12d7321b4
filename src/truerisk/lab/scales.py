"""The scales at which experiments run. No torch: `truerisk lab list` needs them."""

from __future__ import annotations

from truerisk.errors import TrueriskError

SCALES = {
    "smoke": "seconds: does everything run? Claims get no verdict",
    "quick": "at most 3 minutes on two cores, built-in data only",
    "medium": "subsets of MNIST and CIFAR-10, up to a few hours on two cores",
    "paper": "the published sizes: a cluster, or patience",
}


def refuse_scale(scale: str) -> None:
    if scale not in SCALES:
        raise TrueriskError(f"the scale is {scale!r}, but must be one of {', '.join(SCALES)}; try --scale quick.")
