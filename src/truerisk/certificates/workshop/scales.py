"""Prior scales of a certificate: widths for groups of layers from a grid, paid for in the ledger.

The indices on the grid are stored beside the prior, which itself stays the one that the seed gives. See
``pacbayes.layer_scales``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from truerisk.certificates.evidence import Evidence
from truerisk.errors import VerificationError
from truerisk.pacbayes import Gaussian, with_layer_scales

ARRAY = "scales"  # the name of the file


def stored(indices: list[int]) -> dict[str, Tensor]:
    """The array that keeps the indices."""
    return {"index": torch.tensor(indices, dtype=torch.int64)}


def scaled_prior(evidence: Evidence, layers: int) -> Gaussian:
    """The prior with the scales that were chosen for so many groups of layers; 0 leaves it as it is."""
    if not layers:
        return evidence.prior
    index = evidence.arrays[ARRAY].get("index")
    if index is None or index.dtype != torch.int64 or tuple(index.shape) != (layers,):
        raise VerificationError(f"{ARRAY}.safetensors must hold {layers} integers; certify again.")
    return with_layer_scales(evidence.prior, index.tolist())
