"""Prior scales of a certificate: one width for all layers, or one for each from a grid, paid for in the ledger.

The option ``scales`` is "fixed" or "grid:K", with K groups of neighbouring layers. The indices on the grid are stored
beside the prior, which itself stays the one that the seed gives. See ``pacbayes.layer_scales``.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import torch
from torch import Tensor, nn

from truerisk.certificates.evidence import Evidence
from truerisk.certificates.settings import Settings, split_fraction
from truerisk.errors import TrueriskError, VerificationError
from truerisk.pacbayes import Gaussian, layer_groups, with_layer_scales
from truerisk.pacbayes.layer_scales import MOST_LAYERS, POINTS

FIXED, GRID = "fixed", "grid"
ARRAY = "scales"  # the name of the file
OTHERS = "the same for the other prior scales on the grid"


def scale_layers(settings: Settings) -> int:
    """How many groups of layers choose a width; 0 for fixed scales."""
    kind, _, layers = str(settings.options.get("scales", FIXED)).partition(":")
    if kind == FIXED and not layers:
        return 0
    if kind != GRID or not layers.isdecimal() or not 1 <= int(layers) <= MOST_LAYERS:
        raise TrueriskError(
            f"scales is {settings.options['scales']!r}, but must be {FIXED}, {GRID} or {GRID}:K with K from 1 to "
            f"{MOST_LAYERS} groups of layers (the others are tied)."
        )
    if settings.prior == "none" or split_fraction(settings.prior):
        raise TrueriskError(
            "a grid of prior scales is for data-free priors; give --prior zero or init, or --scales fixed."
        )
    return int(layers)


def with_layers(options: dict[str, Any], network: Callable[[], nn.Module]) -> dict[str, Any]:
    """Options in which "grid" says how many groups of layers this network has, up to a limit."""
    kind, _, layers = str(options.get("scales", FIXED)).partition(":")
    if kind != GRID:
        return options
    most = len(layer_groups(network()))
    if layers.isdecimal() and int(layers) > most:
        raise TrueriskError(f"the network has {most} groups of layers for the grid of prior scales; give grid:{most}.")
    return {**options, "scales": f"{GRID}:{layers or most}"}


def divided(settings: Settings, event: str, part: Decimal) -> list[tuple[str, Decimal]]:
    """The ``part`` of delta that belongs to an event about the prior, shared among all priors of the grid."""
    own = part / POINTS ** scale_layers(settings)
    return [(event, own)] if own == part else [(event, own), (OTHERS, part - own)]


def stored(indices: list[int]) -> dict[str, Tensor]:
    """The array that keeps the indices."""
    return {"index": torch.tensor(indices, dtype=torch.int64)}


def scaled_prior(settings: Settings, evidence: Evidence) -> Gaussian:
    """The prior with the widths that were chosen for it."""
    prior, layers = evidence.prior, scale_layers(settings)
    assert prior is not None
    if not layers:
        return prior
    index = evidence.arrays[ARRAY].get("index")
    if index is None or index.dtype != torch.int64 or tuple(index.shape) != (layers,):
        raise VerificationError(f"{ARRAY}.safetensors must hold {layers} whole numbers.")
    return with_layer_scales(prior, index.tolist())
