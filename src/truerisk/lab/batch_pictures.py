"""A picture for `batch-size`: full-batch and mini-batch gradient descent with the same examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerisk.lab.experiment import Record, Setting
from truerisk.lab.figure import Axis, Exhibit, Figure
from truerisk.lab.marks import Path
from truerisk.seeds import derive

POINTS, SMALL, RATE, MOST = 200, 10, 0.1, 6  # a line through points: their number, batch, rate, epochs


def demo(setting: Setting) -> Record:
    """Paths of full-batch and mini-batch gradient descent for a straight line, by examples that were used."""
    rng = np.random.default_rng(derive(setting["seed"], "demo line"))
    x = np.stack([np.ones(POINTS), rng.normal(0.0, 1.0, POINTS)], axis=1)
    y = x @ np.array([1.0, 2.0]) + rng.normal(0.0, 0.5, POINTS)
    paths = {}
    for name, batch in (("full batch", POINTS), (f"batches of {SMALL}", SMALL)):
        w, found = np.zeros(2), [[0.0, 0.0, 0.0]]
        for epoch in range(MOST):
            for k, rows in enumerate(np.array_split(rng.permutation(POINTS), POINTS // batch), 1):
                w = w - RATE * x[rows].T @ (x[rows] @ w - y[rows]) / len(rows)
                found.append([epoch + k * batch / POINTS, *w.round(4).tolist()])
        paths[name] = found
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    return {"paths": paths, "best": best.round(4).tolist()}


def pictures(record: Record) -> Sequence[Exhibit]:
    if not record.get("paths"):
        return []
    rows = [
        {"way": way, "epochs": epochs, "a": a, "b": b}
        for epochs in range(1, MOST + 1)
        for way, path in record["paths"].items()
        for done, a, b in path
        if done <= epochs
    ]
    return [
        Figure(
            "updates",
            "How far do both get with the same examples?",
            f"Intercept and slope of a line through {POINTS} points, on their way from (0, 0) to least squares (dot). "
            "Move the slider through the epochs: each uses every point once. The full batch makes one careful step in "
            f"that time, batches of {SMALL} make {POINTS // SMALL} noisy ones.",
            rows,
            Axis("a", "intercept"),
            Axis("b", "slope"),
            Path(arrow=True),
            series="way",
            series_title="gradient descent",
            slider=Axis("epochs", "epochs"),
            starts_at=2,
            dots=[{"a": record["best"][0], "b": record["best"][1]}],
            dots_title="least squares",
            group=None,
        )
    ]
