"""SGD with momentum for small fully connected ReLU networks, at little more than the time of its matrix products.

In networks of a few thousand weights, most of a step of an ordinary loop is overhead: recording a graph, an optimizer
that visits every tensor, a loader that collates. Here the gradient is written out, and all weights share one vector.
With inputs h_0 of a batch B, targets Y, and layers h_l = relu(h_{l-1} W_l + b_l) (the last one without relu):

    D_L = (softmax(h_L) - Y) / |B|     or     (h_L - Y) / |B|          cross-entropy, or squared error |h_L - Y|^2 / 2
    dL/dW_l = h_{l-1}^T D_l     dL/db_l = 1^T D_l     D_{l-1} = (D_l W_l^T) * [h_{l-1} > 0]
    v <- momentum v + dL/dw     w <- w - lr v

Arrays are numpy's: for matrices this small, its products start sooner than those of torch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from truerisk.errors import TrueriskError
from truerisk.seeds import derive
from truerisk.training.loop import DivergedError

Weights = list[np.ndarray]  # weight, bias, weight, bias, ...; weights have shape (fan-in, fan-out)
LOSSES = ("cross-entropy", "squared")
AT_ONCE = 4096  # examples of an evaluation


def uniform_weights(widths: Sequence[int], seed: int, glorot: bool = False) -> Weights:
    """Initial weights and biases in float32, uniform on +-1/sqrt(fan-in), as torch's linear layers have them.

    ``glorot``: weights uniform on +-sqrt(6 / (fan-in + fan-out)) and biases 0 (Glorot and Bengio 2010, eq. 16).

    >>> [part.shape for part in uniform_weights([40, 9, 10], seed=0)]
    [(40, 9), (9,), (9, 10), (10,)]
    """
    rng, weights = np.random.default_rng(seed), []
    for fan_in, fan_out in itertools.pairwise(widths):
        most = math.sqrt(6 / (fan_in + fan_out)) if glorot else 1 / math.sqrt(fan_in)
        weights.append(rng.uniform(-most, most, (fan_in, fan_out)).astype(np.float32))
        bias = rng.uniform(-most, most, fan_out)
        weights.append((bias * (not glorot)).astype(np.float32))
    return weights


def grow(weights: Weights, width: int, seed: int, variance: float = 0.01) -> Weights:
    """A network with one hidden layer of ``width`` units that begins with the units of a smaller one.

    The weights of the first units are copied; those into and out of the new units, and their biases, are drawn from
    N(0, variance). Belkin et al. 2019 start each network below the interpolation threshold from the next smaller one in
    this way, with variance 0.01.

    >>> small = uniform_weights([40, 3, 10], seed=0)
    >>> large = grow(small, 5, seed=1)
    >>> [part.shape for part in large], bool((large[0][:, :3] == small[0]).all())
    ([(40, 5), (5,), (5, 10), (10,)], True)
    """
    if len(weights) != 4 or width < weights[0].shape[1]:
        raise TrueriskError(
            f"the network has {len(weights) // 2 - 1} hidden layers and {weights[0].shape[1]} units in the first, but "
            f"must have one layer of at most {width} units; give a smaller network."
        )
    into, bias, out, last = weights
    rng, more = np.random.default_rng(seed), width - into.shape[1]

    def drawn(*shape: int) -> np.ndarray:
        return rng.normal(0.0, math.sqrt(variance), shape).astype(into.dtype)

    return [
        np.hstack([into, drawn(len(into), more)]),
        np.concatenate([bias, drawn(more)]),
        np.vstack([out, drawn(more, out.shape[1])]),
        last.copy(),
    ]


def answers(weights: Weights, X: np.ndarray) -> np.ndarray:
    """Outputs of the network for each row of ``X``.

    >>> size = [np.array([[1.0, -1.0]]), np.zeros(2), np.ones((2, 1)), np.zeros(1)]  # relu(x) + relu(-x)
    >>> answers(size, np.array([[-3.0], [2.0]])).tolist()
    [[3.0], [2.0]]
    """
    found = []
    for first in range(0, len(X), AT_ONCE):
        hidden = X[first : first + AT_ONCE]
        for weight, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
            hidden = np.maximum(hidden @ weight + bias, 0)
        found.append(hidden @ weights[-2] + weights[-1])
    return np.concatenate(found)


def sgd_epochs(
    weights: Weights,
    X: np.ndarray,
    targets: np.ndarray,
    *,
    epochs: int,
    batch_size: int,
    lr: float | Callable[[int], float],
    momentum: float = 0.9,
    loss: str = "cross-entropy",
    seed: int = 0,
) -> Iterator[int]:
    """Train ``weights`` in place; yields the number of finished epochs after each, when the caller may read or stop.

    ``targets`` has a row for each example: one-hot classes, or any numbers for the squared loss. ``lr`` may be a
    function of the number of finished epochs. Batches are of even size. The order of an epoch derives from the seed
    and the epoch, so a longer training begins like a shorter one.

    >>> weights, X = uniform_weights([1, 1], seed=0), np.array([[0], [1]], dtype=np.float32)
    >>> *_, last = sgd_epochs(weights, X, 3 * X + 1, epochs=200, batch_size=2, lr=0.1, loss="squared")
    >>> last, [round(w.item(), 4) for w in weights]
    (200, [3.0, 1.0])
    """
    _refuse(weights, X, targets, batch_size, loss)
    kind = weights[0].dtype
    X, targets = np.asarray(X, kind), np.asarray(targets, kind)  # in one precision, or every product would be cast
    step = _stepper(weights, momentum, loss == "cross-entropy")
    cuts = np.array_split(np.arange(len(X)), math.ceil(len(X) / batch_size))
    batches = [slice(cut[0], cut[-1] + 1) for cut in cuts]
    for epoch in range(epochs):
        rate = kind.type(lr(epoch) if callable(lr) else lr)
        order = np.random.default_rng(derive(seed, "epoch", epoch)).permutation(len(X))
        inputs, wanted = X[order], targets[order]
        with np.errstate(over="ignore", invalid="ignore"):  # a run that diverges is refused below
            for batch in batches:
                step(inputs[batch], wanted[batch], rate)
        if not all(np.isfinite(part).all() for part in weights):
            raise DivergedError(f"training diverged in epoch {epoch + 1}; lower the learning rate.")
        yield epoch + 1


def _stepper(weights: Weights, momentum: float, softmax: bool) -> Callable[[np.ndarray, np.ndarray, np.floating], None]:
    """One step of SGD on the inputs and targets of a batch. The arrays in ``weights`` become views of one vector."""
    flat = np.concatenate([part.ravel() for part in weights])
    gradient, velocity, change = np.zeros_like(flat), np.zeros_like(flat), np.empty_like(flat)
    ends = np.cumsum([part.size for part in weights])[:-1]
    shapes = [part.shape for part in weights]
    weights[:] = [part.reshape(shape) for part, shape in zip(np.split(flat, ends), shapes, strict=True)]
    grads = [part.reshape(shape) for part, shape in zip(np.split(gradient, ends), shapes, strict=True)]
    layers = list(zip(weights[::2], weights[1::2], grads[::2], grads[1::2], strict=True))
    last, kept = len(layers) - 1, flat.dtype.type(momentum)

    def step(inputs: np.ndarray, wanted: np.ndarray, rate: np.floating) -> None:
        hidden = [inputs]
        for depth, (weight, bias, _, _) in enumerate(layers):
            out = hidden[-1] @ weight
            out += bias
            hidden.append(out if depth == last else np.maximum(out, 0, out=out))
        delta = hidden.pop()
        if softmax:
            delta -= np.maximum.reduce(delta, axis=1, keepdims=True)
            np.exp(delta, out=delta)
            delta /= np.add.reduce(delta, axis=1, keepdims=True)
        delta -= wanted
        delta /= flat.dtype.type(len(inputs))
        for depth in range(last, -1, -1):
            weight, _, into_weight, into_bias = layers[depth]
            np.matmul(hidden[depth].T, delta, out=into_weight)
            np.add.reduce(delta, axis=0, out=into_bias)
            if depth:  # the derivative of relu: 1 where its output is positive
                delta = delta @ weight.T
                delta *= hidden[depth] > 0
        np.multiply(velocity, kept, out=velocity)
        np.add(velocity, gradient, out=velocity)
        np.multiply(velocity, rate, out=change)
        np.subtract(flat, change, out=flat)

    return step


def _refuse(weights: Sequence[np.ndarray], X: np.ndarray, targets: np.ndarray, batch_size: int, loss: str) -> None:
    if loss not in LOSSES:
        raise TrueriskError(f"the loss is {loss!r}, but must be one of {', '.join(LOSSES)}; choose one.")
    if batch_size < 1:
        raise TrueriskError(f"batch_size is {batch_size}, but must be at least 1; try batch_size=100.")
    if X.shape[1:] != weights[0].shape[:1] or targets.shape != (len(X), *weights[-1].shape):
        raise TrueriskError(
            f"inputs and targets have shapes {X.shape} and {targets.shape}, which do not fit a network from "
            f"{len(weights[0])} to {len(weights[-1])} numbers; flatten inputs and give one-hot targets."
        )
