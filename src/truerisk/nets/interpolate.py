"""The straight line through the weights of two networks (Goodfellow et al. 2015; Keskar et al. 2017, Figure 3).

    w(t) = (1 - t) a + t b

passes through the first network at t = 0 and through the second at t = 1; it may be followed beyond both. Losses along
it say whether a barrier lies between two solutions, and how fast the loss rises on either side. They are properties of
the weights, not of the functions: a rescaled twin of a network computes the same function and ends another line.

Only parameters are interpolated. The running statistics of batch norm belong to the weights that they were collected
for, so `at` collects them anew from given inputs; extrapolated variances could even be negative.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from truerisk.errors import TrueriskError
from truerisk.nets.evaluate import as_input, outputs, precision

BATCH = 500  # inputs at a time when statistics are collected


@dataclass(frozen=True)
class Line:
    """Mean cross-entropy and error rate at each of the places ``at``."""

    at: tuple[float, ...]
    losses: tuple[float, ...]
    errors: tuple[float, ...]


def at(a: nn.Module, b: nn.Module, t: float, X: np.ndarray | None = None) -> nn.Module:
    """The network with weights (1 - t) a + t b, in eval mode; ``a`` and ``b`` stay as they are.

    ``X`` are the inputs from which batch norm collects its statistics; networks with batch norm need them.

    >>> a, b = nn.Linear(1, 1), nn.Linear(1, 1)
    >>> _ = nn.init.constant_(a.weight, 1.0), nn.init.constant_(b.weight, 3.0)
    >>> at(a, b, 0.5).weight.item(), at(a, b, -1.0).weight.item()
    (2.0, -1.0)
    """
    _refuse(a, b, X)
    found = copy.deepcopy(a).eval()
    ends = dict(b.named_parameters())
    with torch.no_grad():
        for name, weight in found.named_parameters():
            weight.lerp_(ends[name].to(weight.dtype), t)
    if X is not None:
        renew_statistics(found, X)
    return found


def line(
    a: nn.Module, b: nn.Module, X: np.ndarray, y: np.ndarray, places: Sequence[float], norms: np.ndarray | None = None
) -> Line:
    """Losses and error rates of (1 - t) a + t b on the examples (X, y), for each t in ``places``.

    ``norms`` are the inputs from which batch norm collects its statistics: training inputs. A loss that is not finite
    is infinite.

    >>> a, b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    >>> with torch.no_grad():
    ...     _ = a.weight.copy_(torch.eye(2)), b.weight.copy_(-torch.eye(2))
    >>> found = line(a, b, np.eye(2, dtype=np.float32), np.array([0, 1]), (0.0, 0.5, 1.0))
    >>> found.errors, [round(loss, 3) for loss in found.losses]
    ((0.0, 0.5, 1.0), [0.313, 0.693, 1.313])
    """
    labels, losses, errors = torch.from_numpy(np.asarray(y)), [], []
    for t in places:
        logits = outputs(at(a, b, t, norms), X).double()
        loss = float(F.cross_entropy(logits, labels))
        losses.append(loss if np.isfinite(loss) else float("inf"))
        errors.append(float((logits.argmax(1) != labels).double().mean()))
    return Line(tuple(map(float, places)), tuple(losses), tuple(errors))


def renew_statistics(module: nn.Module, X: np.ndarray) -> None:
    """Collect the running means and variances of batch norm anew, as plain averages over batches of ``X``."""
    norms = [layer for layer in module.modules() if isinstance(layer, _BatchNorm) and layer.track_running_stats]
    if not norms:
        return
    batches = np.array_split(X, max(1, len(X) // BATCH))  # of even size, so that plain averages are right
    with _averaging(module, norms), torch.no_grad():
        for batch in batches:
            module(as_input(batch, precision(module)))


@contextmanager
def _averaging(module: nn.Module, norms: Sequence[_BatchNorm]) -> Iterator[None]:
    """Norms in training mode with cumulative averages, and everything else in eval mode, dropout included."""
    momenta = [norm.momentum for norm in norms]
    module.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
        norm.train()
    try:
        yield
    finally:
        module.eval()
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum


def flat_weights(module: nn.Module) -> Tensor:
    """All parameters as one vector in float64."""
    return torch.cat([weight.detach().double().reshape(-1) for weight in module.parameters()])


def _refuse(a: nn.Module, b: nn.Module, X: np.ndarray | None) -> None:
    shapes = [{name: weight.shape for name, weight in module.named_parameters()} for module in (a, b)]
    if shapes[0] != shapes[1]:
        raise TrueriskError("the two networks have other names or shapes of weights; build both the same way.")
    if X is None and any(isinstance(layer, _BatchNorm) for layer in a.modules()):
        raise TrueriskError("these networks have batch norm, but no inputs for its statistics; pass training inputs.")
