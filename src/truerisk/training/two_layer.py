"""SGD on a two-layer ReLU network, with gradients written out: no graph, no module, little overhead.

For a batch of b inputs (rows of X) with labels y, Z = max(X U', 0), P = softmax(Z V'), and G = (P - onehot(y)) / b, the
gradients of the mean cross-entropy are

    dV = G' Z,        dU = ((G V) * [Z > 0])' X,

and the momentum buffers M <- momentum M + dW, W <- W - lr M are those of `torch.optim.SGD`. Each gradient is added to
its buffer within the matrix product, so that an update of U reads and writes it once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from truerisk.errors import TrueriskError
from truerisk.nets.two_layer import TwoLayer


@dataclass(frozen=True)
class Trained:
    """A trained network, and how its training ended.

    ``reached``: the mean loss over the batches of the last epoch was below the target. ``diverged``: a loss was not
    finite; the network is then the one of that moment and good for nothing.
    """

    network: TwoLayer
    epochs: int
    loss: float  # mean over the batches of the last epoch, each before its update
    reached: bool
    diverged: bool


def train_two_layer(
    start: TwoLayer,
    X: Tensor,
    y: Tensor,
    *,
    lr: float,
    epochs: int,
    seed: int,
    momentum: float = 0.9,
    batch_size: int = 64,
    target_loss: float = 0.01,
) -> Trained:
    """Train by SGD on the cross-entropy until the mean loss of an epoch is below ``target_loss``, or for ``epochs``.

    ``start`` is left as it is. Each epoch visits all examples in an order of its own, in batches of even size, at most
    ``batch_size``. The stopping rule is that of the authors' code (Neyshabur et al. 2019).

    >>> from truerisk.nets.two_layer import initial_two_layer
    >>> X, y = torch.eye(4), torch.tensor([0, 1, 0, 1])
    >>> found = train_two_layer(initial_two_layer(4, 32, 2, seed=0), X, y, lr=0.5, epochs=500, seed=0)
    >>> found.reached, found.epochs < 500, bool((found.network(X).argmax(1) == y).all())
    (True, True, True)
    """
    _check(start, X, y, lr, epochs, momentum, batch_size)
    generator = torch.Generator().manual_seed(seed % 2**63)
    U, V = start.U.clone(), start.V.clone()
    move_U, move_V = torch.zeros_like(U), torch.zeros_like(V)
    batches, loss, done = math.ceil(len(X) / batch_size), math.inf, 0
    while done < epochs and not loss < target_loss:
        total = 0.0
        for batch in torch.randperm(len(X), generator=generator).tensor_split(batches):
            inputs, rows = X[batch], torch.arange(len(batch))
            hidden = (inputs @ U.T).clamp_(min=0)
            logs = torch.log_softmax(hidden @ V.T, dim=1)
            total -= float(logs[rows, y[batch]].sum())
            errors = logs.exp_()
            errors[rows, y[batch]] -= 1
            errors /= len(batch)
            back = (errors @ V).mul_(hidden > 0)
            move_V.addmm_(errors.T, hidden, beta=momentum)
            move_U.addmm_(back.T, inputs, beta=momentum)
            V.add_(move_V, alpha=-lr)
            U.add_(move_U, alpha=-lr)
        done, loss = done + 1, total / len(X)
        if not math.isfinite(loss):
            break
    return Trained(TwoLayer(U, V), done, loss, loss < target_loss, not math.isfinite(loss))


def _check(start: TwoLayer, X: Tensor, y: Tensor, lr: float, epochs: int, momentum: float, batch_size: int) -> None:
    if X.ndim != 2 or X.shape[1] != start.U.shape[1] or len(X) != len(y) or not len(X):
        raise TrueriskError(
            f"inputs of shape {tuple(X.shape)} and {len(y)} labels do not fit a network of {start.U.shape[1]} inputs; "
            "pass one row for each example."
        )
    if not 0 <= int(y.min()) <= int(y.max()) < len(start.V):
        raise TrueriskError(
            f"labels must be integers from 0 to {len(start.V) - 1}; the network has {len(start.V)} outputs."
        )
    if not (lr > 0 and epochs >= 1 and 0 <= momentum < 1 and batch_size >= 1):
        raise TrueriskError(
            f"lr, epochs, momentum, and batch_size are {lr:g}, {epochs}, {momentum:g}, and {batch_size}, but must be "
            "positive, with momentum below 1; try lr=0.01 and momentum=0.9."
        )
