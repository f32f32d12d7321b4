"""The Hessian H of the mean cross-entropy with respect to the weights: how strongly the loss curves.

H is never built: products H v come from differentiating a gradient once more. Where a ReLU switches, the loss has a
kink that no second derivative sees: H speaks of the smooth pieces only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor

from truerisk.measures.perturbation import CHUNK, Movable, blocks, part
from truerisk.measures.registry import NotDefined, Value, measure
from truerisk.measures.subject import Subject

TRACE_SHARE, TOP_SHARE = 0.25, 0.1  # of the sample
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

    def __init__(self, net: Movable, X: Tensor, y: Tensor) -> None:
        self.weights = net.weights
        self.size = sum(w.numel() for w in self.weights)
        self.gradients = []
        for x, label in zip(X.split(CHUNK), y.split(CHUNK), strict=True):
            loss = F.cross_entropy(net.module(x), label, reduction="sum") / len(X)
            slopes = torch.autograd.grad(
                loss, self.weights, create_graph=True, allow_unused=True, materialize_grads=True
            )
            if not twice_differentiable(slopes):
                raise NotDefined(ONCE)
            self.gradients.append(slopes)

    def times(self, vectors: list[Tensor]) -> list[Tensor]:
        """H v, in float64, in the shapes of the weights."""
        found = [torch.zeros_like(w, dtype=torch.float64) for w in self.weights]
        for slopes in self.gradients:
            pairs = [(g, v.to(g.dtype)) for g, v in zip(slopes, vectors, strict=True) if g.requires_grad]
            try:
                pieces = torch.autograd.grad(
                    [g for g, _ in pairs], self.weights, [v for _, v in pairs], retain_graph=True, allow_unused=True,
                    materialize_grads=True,
                )  # fmt: skip
            except RuntimeError as error:
                raise NotDefined(ONCE) from error
            for sum_, piece in zip(found, pieces, strict=True):
                sum_ += piece
        return found

    def apply(self, vector: np.ndarray) -> np.ndarray:
        """The same for one flat vector."""
        flat = torch.from_numpy(np.ascontiguousarray(vector.reshape(-1)))
        pieces = flat.split([w.numel() for w in self.weights])
        product = self.times([v.reshape(w.shape) for v, w in zip(pieces, self.weights, strict=True)])
        return torch.cat([p.flatten() for p in product]).numpy()


@measure(
    "hessian-trace",
    family="hessian",
    meaning="Curvature of the training loss, summed over all directions of weight space.",
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
    meaning="Curvature of the training loss in the direction of weight space in which it curves most.",
    paper="Keskar et al. 2017; Yao et al. 2020",
    equation="largest eigenvalue of H",
    invariant=False,
    cost="search",
    settings="a tenth of the sample (at least 50 examples); Lanczos, to 2 %",
)
def hessian_top(subject: Subject) -> float:
    """By ARPACK, from near the gradient, which mostly lies among the top eigenvectors; a random part misses none."""
    X, y = part(subject, TOP_SHARE)
    net = Movable(subject)
    curvature = Curvature(net, X, y)
    if curvature.size <= VECTORS:
        columns = [curvature.apply(row) for row in np.eye(curvature.size)]
        return float(np.linalg.eigvalsh(np.stack(columns)).max())
    slope = torch.stack([torch.cat([g.detach().double().flatten() for g in gs]) for gs in curvature.gradients]).sum(0)
    other = torch.randn(curvature.size, generator=subject.generator("start of Lanczos"), dtype=torch.float64)
    start = (F.normalize(slope, dim=0) + F.normalize(other, dim=0)).numpy()
    if not slope.any() and not curvature.apply(start).any():  # the loss is 0 to the last bit: all derivatives are 0
        return 0.0
    operator = LinearOperator((curvature.size,) * 2, matvec=curvature.apply, dtype=np.float64)
    try:
        values = eigsh(operator, 1, which="LA", v0=start, ncv=VECTORS, tol=TOLERANCE, return_eigenvectors=False)
    except ArpackError as error:
        raise NotDefined("the search for its largest eigenvalue did not converge.") from error
    return float(values[0])
