"""How well the training loss of a small network is conditioned: all eigenvalues, dense and exact, in float64.

Two matrices in the weights. The **Hessian** H of the mean cross-entropy may have negative eigenvalues. The
**generalized Gauss-Newton matrix** (Schraudolph 2002)

    G = 1/n sum_i J_i' (diag(p_i) - p_i p_i') J_i,

with J_i the Jacobian of the logits of example i and p_i its probabilities, has none: it is the Hessian of the network
with its outputs made linear in the weights. Its nonzero eigenvalues are those of A A', where the rows of A are
(diag(sqrt p_i) - sqrt(p_i) p_i') J_i / sqrt(n), so that at most n times the number of classes have to be found.

Networks that overfit have more weights than equations, and softmax, ReLU, and norms have symmetries: many eigenvalues
are 0, in theory or up to rounding. The condition number here is the largest eigenvalue over a quantile of the positive
ones (above ``ZERO`` times the largest), and the quantile belongs to the definition.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.measures.families.hessian import Curvature

ZERO = 1e-10  # relative to the largest eigenvalue: below, an eigenvalue counts as 0
ROUNDING = 1e-15  # relative to the largest eigenvalue: below, float64 has no digits
CHUNK = 512  # rows of a Jacobian at a time
MOST = 6000  # rows or columns of a dense matrix


class Training:
    """A copy of a module in float64 and in the mode it has; `Curvature` takes it for its network."""

    def __init__(self, module: nn.Module) -> None:
        self.module = copy.deepcopy(module).double()
        self.weights = [p for p in self.module.parameters() if p.requires_grad]
        if not self.weights:
            raise TrueriskError("the network has no trainable parameters; give one that has.")


def hessian_spectrum(module: nn.Module, X: Tensor, y: Tensor) -> np.ndarray:
    """All eigenvalues of the Hessian of the mean cross-entropy, the largest first.

    The module stays in its mode: in training mode batch norm uses the statistics of X, as training does.
    """
    net = Training(module)
    _refuse(sum(w.numel() for w in net.weights), "weights")
    curvature = Curvature(net, X.double(), y, chunk=len(X))  # type: ignore[arg-type]
    rows = np.stack([curvature.apply(row) for row in np.eye(curvature.size)])
    return np.linalg.eigvalsh((rows + rows.T) / 2)[::-1]


def gauss_newton_spectrum(module: nn.Module, X: Tensor, y: Tensor | None = None) -> np.ndarray:
    """The min(n times classes, weights) largest eigenvalues of the Gauss-Newton matrix, the largest first.

    Labels do not matter: the curvature of cross-entropy in the logits does not depend on them.

    >>> _ = torch.manual_seed(0)
    >>> found = gauss_newton_spectrum(nn.Linear(3, 2), torch.eye(3))
    >>> len(found), int((found > 1e-12).sum())  # 8 weights, but 6 logits, of which only differences matter
    (6, 3)
    """
    A = gauss_newton_root(module, X)
    _refuse(min(A.shape), "rows")
    small = A @ A.T if len(A) <= A.shape[1] else A.T @ A
    return np.clip(np.linalg.eigvalsh(small.numpy())[::-1], 0.0, None)


def gauss_newton_root(module: nn.Module, X: Tensor) -> Tensor:
    """A with A' A = G: rows for each example and class, columns for each weight."""
    net = Training(module)
    logits = net.module(X.double())
    if logits.ndim != 2:
        raise TrueriskError(f"outputs have shape {tuple(logits.shape)}, but must be (examples, classes); flatten them.")
    p = logits.detach().softmax(dim=1)
    root = torch.diag_embed(p.sqrt()) - p.sqrt()[:, :, None] * p[:, None, :]
    J = jacobian(logits, net.weights).unflatten(0, logits.shape)
    return (root @ J).flatten(0, 1) / len(X) ** 0.5


def jacobian(outputs: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """The derivatives of all outputs (rows) by all weights (columns), from the graph of the outputs."""
    flat = outputs.flatten()
    found = []
    for rows in torch.eye(len(flat), dtype=flat.dtype).split(CHUNK):
        parts = torch.autograd.grad(
            flat, weights, rows, is_grads_batched=True, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        found.append(torch.cat([part.flatten(1) for part in parts], dim=1))
    return torch.cat(found)


def positive(eigenvalues: np.ndarray) -> np.ndarray:
    """The eigenvalues that count as positive: above 1e-10 times the largest."""
    values = np.asarray(eigenvalues, dtype=np.float64)
    if not values.size or not np.isfinite(values).all() or values.max() <= 0:
        raise TrueriskError("no eigenvalue is positive and finite; the loss has no curvature here.")
    return values[values > ZERO * values.max()]


def condition_number(eigenvalues: np.ndarray, quantile: float = 0.5, count: int | None = None) -> float:
    """The largest eigenvalue over a quantile of the ``count`` largest; quantile 0 is the smallest of them.

    ``count`` is how many eigenvalues can be positive: n times (classes - 1) of a Gauss-Newton matrix that has more
    weights than that. Without it those count that are positive up to rounding. What cannot be told from 0 in float64
    is taken for the smallest number that can, so that the result is at most 1e15.

    >>> condition_number(np.array([8.0, 4.0, 2.0, 0.0])), condition_number(np.array([8.0, 4.0, 2.0]), quantile=0)
    (2.0, 4.0)
    """
    if not 0 <= quantile <= 1:
        raise TrueriskError(f"quantile is {quantile:g}, but must be between 0 and 1; try quantile=0.5.")
    largest = positive(eigenvalues)
    if count is not None:
        if not 1 <= count <= len(eigenvalues):
            raise TrueriskError(f"count is {count}, but must be between 1 and {len(eigenvalues)}; try count=None.")
        largest = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1][:count]
    top = float(largest.max())
    return top / max(float(np.quantile(largest, quantile)), ROUNDING * top)


def effective_rank(eigenvalues: np.ndarray) -> float:
    """The sum of the positive eigenvalues over the largest: how many directions curve as the sharpest does.

    >>> effective_rank(np.array([2.0, 2.0, 1.0, -1.0]))
    2.5
    """
    values = positive(eigenvalues)
    return float(values.sum() / values.max())


def _refuse(size: int, what: str) -> None:
    if size > MOST:
        raise TrueriskError(
            f"the matrix has {size:,} {what}, but at most {MOST:,} fit; take fewer examples or weights."
        )
