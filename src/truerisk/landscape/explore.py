"""All surfaces of one network: several planes, each next to the same plane of a rescaled twin.

One slice proves nothing: another random plane, or other weights of the same function, may look otherwise. So every
plane is shown with its twin, and random planes come in groups.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.engine import Engine, Store
from truerisk.errors import TrueriskError
from truerisk.landscape.directions import NORMALIZATIONS, weights_of
from truerisk.landscape.planes import KINDS, Plane, hessian_plane, line, pca_plane, random_plane
from truerisk.landscape.reading import Reading, read
from truerisk.landscape.surface import Surface, Workers, axes, evaluate, refuse_long, seconds
from truerisk.landscape.twin import Twin, rescaled_twin
from truerisk.nets import check_network
from truerisk.nets.evaluate import as_input, precision
from truerisk.seeds import derive

ROWS, SIZE, PLANES = 500, 51, 3
REACH = {"random": 1.0, "line": 1.0, "hessian": 0.02, "pca": 1.0}  # where none is given
CHECKED = 7  # points along each side of the surfaces that are compared exactly
MOST_PLANES = 50


@dataclass(frozen=True)
class Pair:
    """A plane of the network and of its twin (None: there is none). Both planes come from the same random numbers."""

    plane: Plane
    network: Surface
    twin_plane: Plane | None = None
    twin: Surface | None = None

    @property
    def readings(self) -> tuple[Reading, Reading | None]:
        return read(self.network), None if self.twin is None else read(self.twin)

    def record(self) -> dict[str, Any]:
        mine, other = self.readings
        plane = self.plane
        return {
            "plane": plane.name,
            "kind": plane.kind,
            **({"path": [list(p) for p in plane.path], "explained": list(plane.explained)} if plane.path else {}),
            **({"eigenvalues": list(plane.eigenvalues)} if plane.eigenvalues else {}),
            "network": {**mine.record(), "surface": self.network.record()},
            "twin": None if other is None or self.twin is None else {**other.record(), "surface": self.twin.record()},
        }


@dataclass(frozen=True)
class Landscape:
    """What `explore` found. ``twin``: the twin, or why there is none. ``agreement``: the largest relative difference
    between the losses of network and twin along directions in proportion to each weight; rounding alone."""

    pairs: tuple[Pair, ...]
    twin: Twin | str
    directions: str
    examples: int
    agreement: float | None = None

    def record(self) -> dict[str, Any]:
        """Plain JSON."""
        twin = (
            {"none": self.twin}
            if isinstance(self.twin, str)
            else {"channels": self.twin.channels, "std": self.twin.std, "largest_change_of_an_output": self.twin.change}
        )
        return {
            "examples": self.examples,
            "directions": self.directions,
            "twin": {**twin, "largest_difference_along_elementwise_directions": self.agreement},
            "planes": [pair.record() for pair in self.pairs],
        }


def explore(
    module: nn.Module,
    data: Data,
    *,
    plane: str = "random",
    planes: int = PLANES,
    size: int = SIZE,
    reach: float | None = None,
    directions: str = "filter",
    trajectory: Sequence[Mapping[str, Tensor]] = (),
    rows: int = ROWS,
    std: float = 1.0,
    seed: int = 0,
    workers: int | None = None,
    store: str | Path | None = None,
) -> Landscape:
    """Loss and error of a trained network over planes of weight space, and the same for a rescaled twin.

    ``plane``: "random", "line", "hessian" (two largest curvatures), or "pca" (of the checkpoints in ``trajectory``).
    ``directions``: one of `NORMALIZATIONS`, for random planes and lines. ``store``: a folder in which finished rows are
    kept, so that a killed run resumes there. Numbers do not depend on ``workers``.

    >>> from truerisk.data import load
    >>> found = explore(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), load("digits"), planes=1, size=3, rows=20)
    >>> found.pairs[0].network.loss.shape, found.twin
    ((3, 3), 'no hidden unit of this network can be rescaled without changing its function.')
    """
    _check(plane, planes, directions, rows)
    module = check_network(module, data.X, data.classes)
    chosen = np.random.default_rng(derive(seed, "landscape", "rows")).permutation(len(data))[: min(rows, len(data))]
    X, y = data.X[np.sort(chosen)], data.y[np.sort(chosen)]
    twin = rescaled_twin(module, X, std, seed)
    how = _Planes(plane, directions, REACH[plane] if reach is None else reach, seed, list(trajectory), X, y)
    count = planes if plane in ("random", "line") else 1
    made = [
        (how.of(module, k, None), None if isinstance(twin, str) else how.of(twin.module, k, twin)) for k in range(count)
    ]
    axes(made[0][0], size)
    needed = seconds(module, X, y, made[0][0], size, count * (1 if isinstance(twin, str) else 2))
    refuse_long(needed, workers or Engine("local").width, size)
    pairs = []
    with tempfile.TemporaryDirectory() as folder, Workers(Store(store or folder), workers).opened() as places:
        for mine, other in made:
            surface = evaluate(module, X, y, mine, size, workers=places, label=f"{_slug(mine)}-network")
            second = None
            if other is not None and not isinstance(twin, str):
                second = evaluate(twin.module, X, y, other, size, workers=places, label=f"{_slug(mine)}-twin")
            pairs.append(Pair(mine, surface, other, second))
    if not math.isfinite(pairs[0].network.center):
        raise TrueriskError("the loss of the network itself is not finite; check its weights and its data.")
    agreement = None if isinstance(twin, str) else _agreement(module, twin, X, y, seed)
    return Landscape(tuple(pairs), twin, directions, len(X), agreement)


def _check(plane: str, planes: int, directions: str, rows: int) -> None:
    if plane not in KINDS:
        raise TrueriskError(f"the plane is {plane!r}, but must be one of {', '.join(KINDS)}; choose one.")
    if directions not in NORMALIZATIONS:
        raise TrueriskError(f"the directions are {directions!r}, but must be one of {', '.join(NORMALIZATIONS)}.")
    if not 1 <= planes <= MOST_PLANES:
        raise TrueriskError(f"the number of planes is {planes}, but must be from 1 to {MOST_PLANES}; try --planes 3.")
    if rows < 1:
        raise TrueriskError(f"the number of examples is {rows}, but must be at least 1; try --rows 500.")


@dataclass(frozen=True)
class _Planes:
    """How planes are made, for the network and for its twin alike."""

    kind: str
    directions: str
    reach: float
    seed: int
    path: list[Mapping[str, Tensor]]
    X: np.ndarray
    y: np.ndarray

    def of(self, module: nn.Module, number: int, twin: Twin | None) -> Plane:
        center = weights_of(module)
        if self.kind == "random":
            return random_plane(center, self.seed, number, self.directions, self.reach)
        if self.kind == "line":
            return line(center, self.seed, number, self.directions, self.reach)
        if self.kind == "pca":
            path = self.path if twin is None else [twin.carried(each) for each in self.path]
            return pca_plane(center, path, self.reach)
        x = as_input(self.X, precision(module))
        return hessian_plane(module, x, torch.from_numpy(self.y), self.seed, self.reach)


def _agreement(module: nn.Module, twin: Twin, X: np.ndarray, y: np.ndarray, seed: int) -> float:
    """The same small grid along directions that rescale with the weights, of network and twin."""
    first, second = (
        evaluate(each, X, y, random_plane(weights_of(each), seed, 0, "elementwise", 0.25), CHECKED).loss
        for each in (module, twin.module)
    )
    known = np.isfinite(first) & np.isfinite(second)
    return float((np.abs(first - second) / (1 + np.abs(first)))[known].max()) if known.any() else math.nan


def _slug(plane: Plane) -> str:
    return plane.name.replace(" ", "-")
