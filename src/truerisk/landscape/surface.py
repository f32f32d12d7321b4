"""Loss and error on a grid over a plane, row by row: on all cores, with progress; a killed run resumes.

Each row of the grid is a task of ``truerisk.engine``. Its key covers weights, directions, examples, grid, and the
outputs of the network, so a stored row is never that of another surface.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from torch import nn

from truerisk import progress
from truerisk.engine import Engine, Grid, Store, run_grid
from truerisk.engine.version import code_of
from truerisk.errors import TrueriskError
from truerisk.landscape.planes import Plane
from truerisk.landscape.probe import Probe
from truerisk.threads import limited

MOST = 301  # points along each side
PATIENCE = 8.0  # seconds of work from which other processes are started
LIMIT = 12 * 3600.0  # seconds of work that are refused
TRIES = 3  # points that are timed


@dataclass(frozen=True)
class Surface:
    """Loss (NaN where it is not finite) and error on a grid: ``loss[i, j]`` at (x[j], y[i]); a line has one row.

    ``rays``: distances at which the loss doubles (see `Probe.rays`), finer than the grid.
    """

    x: np.ndarray
    y: np.ndarray
    loss: np.ndarray
    error: np.ndarray
    rays: tuple[float, ...] = ()

    @property
    def is_line(self) -> bool:
        return len(self.y) == 1

    @property
    def middle(self) -> tuple[int, int]:
        """Where the network itself is."""
        return len(self.y) // 2, len(self.x) // 2

    @property
    def center(self) -> float:
        """Loss at the network itself."""
        return float(self.loss[self.middle])

    @property
    def not_finite(self) -> int:
        return int((~np.isfinite(self.loss)).sum())

    def record(self) -> dict[str, Any]:
        """Plain JSON; losses that are not finite are null."""
        losses = [[None if not np.isfinite(v) else float(v) for v in row] for row in self.loss]
        return {"x": self.x.tolist(), "y": self.y.tolist(), "loss": losses, "error": self.error.tolist()}


def axes(plane: Plane, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The coordinates of a grid with the network in the middle."""
    if not 3 <= size <= MOST or size % 2 == 0:
        raise TrueriskError(
            f"the size is {size}, but must be an odd number from 3 to {MOST}, so that the network is in the middle; "
            "try --size 51."
        )
    steps = np.arange(-(size // 2), size // 2 + 1) / (size // 2)
    return plane.reach[0] * steps, plane.reach[1] * steps if plane.second is not None else np.zeros(1)


@dataclass
class Workers:
    """Where rows are computed and kept: ``count`` processes (None: one for each core), and a store."""

    store: Store
    count: int | None = None
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        self.engine = Engine("local", self.count)

    @contextmanager
    def opened(self) -> Iterator[Workers]:
        try:
            yield self
        finally:
            self.engine.close()


def evaluate(
    module: nn.Module,
    X: np.ndarray,
    y: np.ndarray,
    plane: Plane,
    size: int = 51,
    *,
    workers: Workers | None = None,
    label: str = "surface",
) -> Surface:
    """The surface of a network over a plane on these examples. Without ``workers``: in this process, nothing is kept.

    >>> from truerisk.landscape.directions import weights_of
    >>> from truerisk.landscape.planes import random_plane
    >>> net = nn.Linear(2, 2)
    >>> plane = random_plane(weights_of(net))
    >>> evaluate(net, np.eye(2, dtype=np.float32), np.array([0, 1]), plane, size=5).loss.shape
    (5, 5)
    """
    across, up = axes(plane, size)
    with limited(1):
        probe = Probe(module, X, y, plane)
        if workers is None:
            rows = [_row(probe, across, b) for b in up]
        else:
            rows = _kept(probe, (module, X, y, plane), across, up, workers, label)
        rays = tuple(probe.rays(plane.reach))
    loss = np.array([[np.nan if v is None else v for v in row["loss"]] for row in rows])
    return Surface(across, up, loss, np.array([row["error"] for row in rows]), rays)


def seconds(module: nn.Module, X: np.ndarray, y: np.ndarray, plane: Plane, size: int, surfaces: int) -> float:
    """How long this many surfaces take on one core, from the time of a few points."""
    across, up = axes(plane, size)
    with limited(1):
        probe = Probe(module, X, y, plane)
        probe.at(0.0, 0.0)
        start = time.perf_counter()
        for _ in range(TRIES):
            probe.at(0.0, 0.0)
    return surfaces * len(across) * len(up) * (time.perf_counter() - start) / TRIES


def refuse_long(needed: float, cores: int, size: int) -> None:
    """Refuse a grid that would take more than half a day, with the time that it would take."""
    if needed / cores > LIMIT:
        fits = max(3, int(size * (LIMIT * cores / needed) ** 0.5) // 2 * 2 - 1)
        raise TrueriskError(
            f"this grid would take about {progress.span(needed / cores)} on {cores} cores, but at most "
            f"{progress.span(LIMIT)} are allowed; try --size {fits}, or fewer --rows."
        )


def _row(probe: Probe, across: np.ndarray, b: float) -> dict[str, Any]:
    points = [probe.at(float(a), float(b)) for a in across]
    losses = [loss if np.isfinite(loss) else None for loss, _ in points]
    return {"loss": losses, "error": [error for _, error in points]}


# ---- rows as tasks -------------------------------------------------------------------------------------------------

_LAST: dict[str, Probe] = {}  # of this process: the surface that its last row was of


@dataclass(frozen=True)
class Rowwise:
    """The task of one surface; it carries the network to other processes."""

    payload: bytes
    name: str

    @cached_property
    def fingerprint(self) -> str:
        return code_of(__name__, "_row")

    def __call__(self, setting: dict[str, Any]) -> dict[str, Any]:
        if self.name not in _LAST:
            _LAST.clear()
            _LAST[self.name] = Probe(*pickle.loads(self.payload))
        return _row(_LAST[self.name], np.array(setting["across"]), setting["at"])


def _kept(probe: Probe, job: Any, across: np.ndarray, up: np.ndarray, workers: Workers, label: str) -> list[Any]:
    name = _digest(probe, across)
    start = time.perf_counter()
    probe.at(0.0, 0.0)
    needed = (time.perf_counter() - start) * len(across) * len(up)
    near = workers.count == 1 or needed < PATIENCE
    payload = b"" if near else _pickled(job)
    settings = [{"surface": name, "across": across.tolist(), "at": float(b)} for b in up]
    grid = Grid(label, Rowwise(payload, name), settings)
    _LAST.clear()
    _LAST[name] = probe
    try:
        report = run_grid(grid, workers.store, workers.engine if payload else Engine("inline"))
        if report.failed and payload:  # a network that other processes cannot load: then here
            report = run_grid(grid, workers.store, Engine("inline"))
    finally:
        _LAST.clear()
    if report.failed:
        raise TrueriskError(f"a row of the surface failed ({report.failed[0].error}); try --plane line.")
    return [done.record for done in report.done]


def _pickled(job: Any) -> bytes:
    """With the code of classes that other processes cannot import; b"" where that fails."""
    try:
        from joblib.externals.loky.backend.reduction import dumps

        return bytes(dumps(job))
    except Exception:  # networks hold anything
        return b""


def _digest(probe: Probe, across: np.ndarray) -> str:
    """A hash of all that the surface depends on."""
    found = hashlib.sha256(across.tobytes())
    for _, center, d, e in probe.moves:
        for tensor in (center, d, *([] if e is None else [e])):
            found.update(tensor.contiguous().cpu().numpy().tobytes())
    for x, labels in probe.batches:
        found.update(x.contiguous().numpy().tobytes() + labels.numpy().tobytes())
    found.update(probe.outputs().contiguous().numpy().tobytes())
    return found.hexdigest()[:32]
