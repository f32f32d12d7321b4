"""Two-layer ReLU networks without biases, f(x) = V max(U x, 0), as a pair of matrices.

The bounds of Neyshabur, Li, Bhojanapalli, LeCun and Srebro (2019) are about exactly these networks. Rows u_j of U are
the incoming weights of hidden unit j, columns v_j of V its outgoing weights. `truerisk.training.two_layer` trains them,
`truerisk.measures.two_layer` measures them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError

SCHEMES = ("uniform", "he")


@dataclass(frozen=True)
class TwoLayer:
    """f(x) = V max(U x, 0); call it on inputs (examples, inputs) for outputs (examples, outputs)."""

    U: Tensor  # (width, inputs)
    V: Tensor  # (outputs, width)

    def __post_init__(self) -> None:
        if self.U.ndim != 2 or self.V.ndim != 2 or self.V.shape[1] != self.U.shape[0]:
            raise TrueriskError(
                f"U and V have shapes {tuple(self.U.shape)} and {tuple(self.V.shape)}, but V needs one column for each "
                "row of U; pass (width, inputs) and (outputs, width)."
            )

    @property
    def width(self) -> int:
        return len(self.U)

    def __call__(self, X: Tensor) -> Tensor:
        return (X @ self.U.T).clamp_(min=0) @ self.V.T

    def double(self) -> TwoLayer:
        """The same network in float64."""
        return TwoLayer(self.U.double(), self.V.double())

    def module(self, input_shape: Sequence[int]) -> nn.Sequential:
        """The network as a torch module that flattens its inputs, for everything that takes any network."""
        first, second = (nn.Linear(W.shape[1], W.shape[0], bias=False, dtype=W.dtype) for W in (self.U, self.V))
        if math.prod(input_shape) != self.U.shape[1]:
            raise TrueriskError(
                f"inputs of shape {tuple(input_shape)} have {math.prod(input_shape)} values, but the network takes "
                f"{self.U.shape[1]}; give the shape of its inputs."
            )
        with torch.no_grad():
            first.weight.copy_(self.U)
            second.weight.copy_(self.V)
        return nn.Sequential(nn.Flatten(), first, nn.ReLU(), second)


def initial_two_layer(inputs: int, width: int, outputs: int, seed: int, scheme: str = "uniform") -> TwoLayer:
    """Draw the initial weights of a network.

    ``uniform`` is the default of `torch.nn.Linear`, which the authors' code uses: independent entries, uniform between
    -1/sqrt(k) and 1/sqrt(k) for a layer with k inputs. ``he`` (He et al. 2015) draws Gaussians of variance 2/k, six
    times as large. With one seed, the units of a narrow network are the first of a wider one; their outgoing weights
    differ by a factor alone.

    >>> narrow, wide = (initial_two_layer(4, width, 3, seed=0) for width in (8, 16))
    >>> bool((narrow.U == wide.U[:8]).all()), round(float((narrow.V / wide.V[:, :8]).mean()), 3)
    (True, 1.414)
    """
    if scheme not in SCHEMES:
        raise TrueriskError(f"the scheme is {scheme!r}, but must be one of {', '.join(SCHEMES)}; choose one.")
    if min(inputs, width, outputs) < 1:
        raise TrueriskError(
            f"inputs, width, and outputs are {inputs}, {width}, and {outputs}, but must be positive; raise them."
        )

    def drawn(rows: int, columns: int, purpose: int) -> Tensor:
        generator = torch.Generator().manual_seed((seed + purpose) % 2**63)
        if scheme == "he":
            return torch.randn(rows, columns, generator=generator)
        return torch.rand(rows, columns, generator=generator) * 2 - 1

    first, second = (1.0, 1.0) if scheme == "uniform" else (math.sqrt(2.0), math.sqrt(2.0))
    U = drawn(width, inputs, 0) * (first / math.sqrt(inputs))
    V = drawn(width, outputs, 1).T.contiguous() * (second / math.sqrt(width))
    return TwoLayer(U, V)
