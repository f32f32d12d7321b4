"""The Hessian H of the mean cross-entropy with respect to the weights: how strongly the loss curves.

H is never built: products H v come from differentiating a gradient once more. Where a ReLU switches, the loss has a
kink that no second derivative sees: H speaks of the smooth pieces only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor

from truerisk.measures.perturbation import CHUNK, Movable, blocks, part
from truerisk.measures.registry import NotDefined, Value, measure
from truerisk.measures.subject import Subject

TRACE_SHARE = 0.25  # of the sample
PARTS = 10  # of a small sample, at least, for the error of the largest eigenvalue
PROBES, EACH = 25, 5  # random signs; at least so many examples for each
VECTORS = 6  # of a Lanczos basis
TOLERANCE = 0.02  # of the largest eigenvalue

ONCE = "one of its operations can't be differentiated twice."


def twice_differentiable(slopes: Sequence[Tensor]) -> bool:
    """Whether the graph of a gradient has no dead end: autograd would take one for a second derivative of zero."""
    waiting = [g.grad_fn for g in slopes if g.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if node.name().endswith("Error"):
            return False
        new = {following for following, _ in node.next_functions if following is not None} - seen
        seen |= new
        waiting += new
    return True


class Curvature:
    """Products with the Hessian of the mean cross-entropy of some examples. The graph of the gradient is kept."""

    def __init__(self, net: Movable, X: Tensor, y: Tensor, chunk: int = CHUNK) -> None:
        self.weights = net.weights
        self.size = sum(w.numel() for w in self.weights)
        self.gradients = []
        self.shares = []
        for x, label in zip(X.split(chunk), y.split(chunk), strict=True):
            loss = F.cross_entropy(net.module(x), label, reduction="sum") / len(X)
            slopes = torch.autograd.grad(
                loss, self.weights, create_graph=True, allow_unused=True, materialize_grads=True
            )
            if not twice_differentiable(slopes):
                raise NotDefined(ONCE)
            self.gradients.append(slopes)
            self.shares.append(len(x) / len(X))

    def products(self, vectors: list[Tensor]) -> Iterator[list[Tensor]]:
        """The part of H v that each chunk of examples contributes, in the shapes of the weights."""
        for slopes in self.gradients:
            pairs = [(g, v.to(g.dtype)) for g, v in zip(slopes, vectors, strict=True) if g.requires_grad]
            try:
                yield list(
                    torch.autograd.grad(
                        [g for g, _ in pairs], self.weights, [v for _, v in pairs], retain_graph=True,
                        allow_unused=True, materialize_grads=True,
                    )
                )  # fmt: skip
            except RuntimeError as error:
                raise NotDefined(ONCE) from error

    def times(self, vectors: list[Tensor]) -> list[Tensor]:
        """H v, in float64, in the shapes of the weights."""
        found = [torch.zeros_like(w, dtype=torch.float64) for w in self.weights]
        for pieces in self.products(vectors):
            for sum_, piece in zip(found, pieces, strict=True):
                sum_ += piece
        return found

    def apply(self, vector: np.ndarray) -> np.ndarray:
        """H v for one flat vector."""
        return torch.cat([p.flatten() for p in self.times(self.shaped(vector))]).numpy()

    def along(self, vector: np.ndarray) -> np.ndarray:
        """v' H_k v with the Hessian H_k of the mean cross-entropy of each chunk k."""
        vectors = self.shaped(vector)
        sums = [sum(float((p * v).sum()) for p, v in zip(ps, vectors, strict=True)) for ps in self.products(vectors)]
        return np.array(sums) / np.array(self.shares)

    def shaped(self, vector: np.ndarray) -> list[Tensor]:
        """A flat vector in the shapes of the weights."""
        flat = torch.from_numpy(np.ascontiguousarray(vector.reshape(-1)))
        pieces = flat.split([w.numel() for w in self.weights])
        return [v.reshape(w.shape) for v, w in zip(pieces, self.weights, strict=True)]


@measure(
    "hessian-trace",
    family="hessian",
    meaning="Trace of the Hessian of the training loss: curvature summed over all directions of weight space.",
    paper="Hutchinson 1990 (estimator); Yao et al. 2020",
    equation="tr H = E z' H z for random signs z",
    invariant=False,
    cost="search",
    settings="a quarter of the sample in 25 parts (of at least 5 examples), each with random signs of its own",
)
def hessian_trace(subject: Subject) -> Value:
    """Each part k of the examples has its own Hessian and signs; the mean of z_k' H_k z_k is unbiased for tr H."""
    X, y = part(subject, TRACE_SHARE)
    net = Movable(subject)
    names = [name for name, p in net.module.named_parameters() if p.requires_grad]
    generator = subject.generator("random signs")
    found = torch.zeros(PROBES, len(names), dtype=torch.float64)
    for k, rows in enumerate(blocks(len(X), PROBES, EACH)):
        signs = [torch.randint(0, 2, w.shape, generator=generator).double() * 2 - 1 for w in net.weights]
        products = Curvature(net, X[rows], y[rows]).times(signs)
        found[k] = torch.stack([(z * hz).sum() for z, hz in zip(signs, products, strict=True)])
    layers = {name: float(v) for name, v in zip(names, found.mean(0), strict=True)}
    totals = found.sum(1)
    return Value(float(totals.mean()), layers=layers, error=float(totals.std()) / math.sqrt(PROBES))


@measure(
    "hessian-top",
    family="hessian",
    meaning="Largest Hessian eigenvalue of the training loss: curvature in the sharpest direction.",
    paper="Keskar et al. 2017; Yao et al. 2020",
    equation="largest eigenvalue of H",
    invariant=False,
    cost="search",
    settings=(
        "all rows of the sample (at most 1000), fewer where their graphs exceed the memory budget; Lanczos, to 2 %; "
        "the standard error is that of v' H v over parts of at most 50 rows, v the eigenvector"
    ),
)
def hessian_top(subject: Subject) -> Value:
    """By ARPACK, from near the gradient, which mostly lies among the top eigenvectors; a random part misses none.

    To first order, other examples change the eigenvalue by the change of v' H v. The spread of v' H_k v over disjoint
    parts k of the rows therefore gives its standard error as an estimate of the eigenvalue for all n examples; with
    m of n rows it has the factor sqrt(1 - m / n) of draws without replacement, so with all rows it is 0.
    """
    net = Movable(subject)
    X, y = part(subject, 1.0)
    chunk = max(1, min(CHUNK, len(X) // PARTS))
    rows = chunk * affordable(net, X, y, chunk, subject.budget)
    curvature = Curvature(net, X[:rows], y[:rows], chunk)
    value, vector = _top(curvature, subject.generator("start of Lanczos"))
    each = curvature.along(vector)
    missing = max(0.0, 1 - rows / subject.n)
    return Value(value, error=math.sqrt(missing * float(each.var(ddof=1)) / len(each)) if len(each) > 1 else None)


def affordable(net: Movable, X: Tensor, y: Tensor, chunk: int, budget: int) -> int:
    """How many chunks of examples have graphs that fit into ``budget`` bytes together: all, or at least two."""
    weights = {w.untyped_storage().data_ptr() for w in net.weights}
    held = sum(w.nbytes for w in net.weights)  # the gradient of each chunk

    def count(tensor: Tensor) -> Tensor:
        nonlocal held
        held += 0 if tensor.untyped_storage().data_ptr() in weights else tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        Curvature(net, X[:chunk], y[:chunk], chunk)
    return min(math.ceil(len(X) / chunk), max(2, budget // held))


def _top(curvature: Curvature, generator: torch.Generator) -> tuple[float, np.ndarray]:
    """(largest eigenvalue, its eigenvector)."""
    if curvature.size <= VECTORS:
        columns = [curvature.apply(row) for row in np.eye(curvature.size)]
        values, vectors = np.linalg.eigh(np.stack(columns))
        return float(values[-1]), vectors[:, -1]
    slope = torch.stack([torch.cat([g.detach().double().flatten() for g in gs]) for gs in curvature.gradients]).sum(0)
    other = torch.randn(curvature.size, generator=generator, dtype=torch.float64)
    start = (F.normalize(slope, dim=0) + F.normalize(other, dim=0)).numpy()
    if not slope.any() and not curvature.apply(start).any():  # the loss is 0 to the last bit: all derivatives are 0
        return 0.0, start
    operator = LinearOperator((curvature.size,) * 2, matvec=curvature.apply, dtype=np.float64)
    try:
        values, vectors = eigsh(operator, 1, which="LA", v0=start, ncv=VECTORS, tol=TOLERANCE)
    except ArpackError as error:
        raise NotDefined("the search for its largest eigenvalue did not converge.") from error
    return float(values[0]), vectors[:, 0]
