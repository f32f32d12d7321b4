"""Where to slice: random planes and lines, the plane of largest curvature, and the plane of a path of checkpoints.

Both directions of a plane have lengths in proportion to the weights, so a coordinate of 1 is a move as long as the
weights themselves. The network is at (0, 0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.landscape.directions import Direction, norm, random_direction, weights_of
from truerisk.measures.families.hessian import Curvature
from truerisk.measures.perturbation import Movable
from truerisk.measures.registry import NotDefined
from truerisk.seeds import derive

KINDS = ("random", "line", "hessian", "pca")
ROWS = 250  # examples of a Hessian
DENSE = 20  # weights up to which the whole Hessian is built
TOLERANCE = 1e-3  # of eigenvalues, relative
MARGIN = 1.25  # of the window around a path
WALK = 6 / np.pi**2  # share of the first component of a random walk in high dimension; the k-th has 1/k^2 of it


@dataclass(frozen=True)
class Plane:
    """Two directions from the weights of a network, or one: a line.

    ``reach``: how far the window extends in each direction, in units of it. ``path``: coordinates of checkpoints, the
    network itself last. ``explained``: share of the path's variance along each direction. ``eigenvalues``: curvatures
    along unit vectors in both directions.
    """

    name: str
    kind: str
    first: Direction
    second: Direction | None = None
    reach: tuple[float, float] = (1.0, 1.0)
    path: tuple[tuple[float, float], ...] = ()
    explained: tuple[float, ...] = ()
    eigenvalues: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not all(0 < r < float("inf") for r in self.reach):
            raise TrueriskError(f"the reach is {self.reach[0]:g}, but must be a positive number; try 1.")


def random_plane(
    center: Mapping[str, Tensor], seed: int = 0, number: int = 0, how: str = "filter", reach: float = 1.0
) -> Plane:
    """The plane of two random directions; of a network with one weight, its line."""
    if sum(w.numel() for w in center.values()) < 2:
        return line(center, seed, number, how, reach)
    first, second = (random_direction(center, seed, 2 * number + k, how) for k in (0, 1))
    return Plane(f"random {number + 1}", "random", first, second, (reach, reach))


def line(
    center: Mapping[str, Tensor], seed: int = 0, number: int = 0, how: str = "filter", reach: float = 1.0
) -> Plane:
    """A line in a random direction."""
    return Plane(f"line {number + 1}", "line", random_direction(center, seed, 2 * number, how), None, (reach, reach))


class _AsItIs(Movable):
    """A network whose batch norms are not folded: the surface moves its own parameters."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.weights = [p for p in module.parameters() if p.requires_grad]
        self.centre = [p.detach().clone() for p in self.weights]


def hessian_plane(module: nn.Module, X: Tensor, y: Tensor, seed: int = 0, reach: float = 0.02) -> Plane:
    """The plane of the eigenvectors of the two largest eigenvalues of the Hessian of the mean cross-entropy.

    H is taken at the weights on at most 250 of the examples, by Lanczos iterations on products with H. Eigenvectors
    have the norm of the weights; of either sign, that with the larger sum of cubes.
    """
    center = weights_of(module)
    try:
        values, vectors = _top_two(Curvature(_AsItIs(module), X[:ROWS], y[:ROWS]), seed)
    except NotDefined as error:
        raise TrueriskError(f"there is no Hessian plane, because {error} Try --plane random.") from error
    length = norm(center)
    if not length:
        raise TrueriskError("all trainable weights are 0, so the plane has no scale; train the network first.")
    found = [_shaped(length * np.sign((v**3).sum() or 1.0) * v, center) for v in vectors.T]
    second = found[1] if len(found) > 1 else None
    return Plane("hessian", "hessian", found[0], second, (reach, reach), eigenvalues=tuple(map(float, values)))


def _top_two(curvature: Curvature, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(eigenvalues, unit eigenvectors as columns), the largest first."""
    if curvature.size <= DENSE:
        values, vectors = np.linalg.eigh(np.stack([curvature.apply(row) for row in np.eye(curvature.size)]))
    else:
        start = np.random.default_rng(derive(seed, "landscape", "Lanczos")).standard_normal(curvature.size)
        if not curvature.apply(start).any():
            raise NotDefined("all second derivatives are 0.")
        operator = LinearOperator((curvature.size,) * 2, matvec=curvature.apply, dtype=np.float64)
        try:
            values, vectors = eigsh(operator, 2, which="LA", v0=start, tol=TOLERANCE)
        except ArpackError as error:
            raise NotDefined("the search for its largest eigenvalues did not converge.") from error
    order = np.argsort(values)[::-1][:2]
    return values[order], vectors[:, order]


def pca_plane(center: Mapping[str, Tensor], checkpoints: Sequence[Mapping[str, Tensor]], reach: float = 1.0) -> Plane:
    """The plane of the two principal components of a path of checkpoints (Li et al. 2018, Section 7).

    The components are those of the differences w_t - w, about their mean, of all checkpoints and the network w itself,
    in float64; directions have the norm of the weights. ``reach`` 1: the window holds the whole path. A random walk in
    high dimension has 61% of its variance in the first component and 15% in the second (Antognini and Sohl-Dickstein
    2018): large shares say little.
    """
    if len(checkpoints) < 2:
        raise TrueriskError(f"the path has {len(checkpoints)} checkpoints, but needs at least 2; save more of them.")
    here = _flat(center, center)
    moves = np.stack([*(_flat(each, center) - here for each in checkpoints), np.zeros_like(here)])
    if not np.isfinite(moves).all():
        raise TrueriskError("a checkpoint holds numbers that are not finite; leave it out of the path.")
    about = moves - moves.mean(0)
    _, sizes, rows = np.linalg.svd(about, full_matrices=False)
    total = float((sizes**2).sum())
    if not total:
        raise TrueriskError("all checkpoints are equal, so the path has no plane; give checkpoints that differ.")
    length = norm(center)
    if not length:
        raise TrueriskError("all trainable weights are 0, so the plane has no scale; train the network first.")
    count = min(2, len(here))
    signs = [np.sign((rows[k] ** 3).sum() or 1.0) for k in range(count)]
    units = [signs[k] * rows[k] for k in range(count)]
    path = np.stack([moves @ unit / length for unit in units], axis=1)
    window = MARGIN * np.abs(path).max(0)
    window = reach * np.where(window > 0, window, window.max())
    found = [_shaped(length * unit, center) for unit in units]
    return Plane(
        "path",
        "pca",
        found[0],
        found[1] if count > 1 else None,
        (float(window[0]), float(window[-1])),
        path=tuple((float(p[0]), float(p[1]) if count > 1 else 0.0) for p in path),
        explained=tuple(float(s) ** 2 / total for s in sizes[:count]),
    )


def _flat(weights: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> np.ndarray:
    """One vector in float64, in the order of ``like``; other names or shapes are refused."""
    missing = next((name for name in like if name not in weights or weights[name].shape != like[name].shape), None)
    if missing is not None:
        raise TrueriskError(f"a checkpoint does not fit the network ({missing}); give checkpoints of this network.")
    return torch.cat([weights[name].detach().double().flatten() for name in like]).numpy()


def _shaped(vector: np.ndarray, like: Mapping[str, Tensor]) -> Direction:
    pieces = torch.from_numpy(np.ascontiguousarray(vector)).split([w.numel() for w in like.values()])
    return {name: piece.reshape(w.shape).to(w.dtype) for (name, w), piece in zip(like.items(), pieces, strict=True)}
