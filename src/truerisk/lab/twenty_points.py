"""Least squares through twenty points of a curve, with more and more waves: double descent that can be seen.

`twenty_points` computes all fits, with and without noise and a ridge; the other functions turn its record into rows.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from truerisk.lab.experiment import Record
from truerisk.nets.nested_least_squares import nested_outputs, nested_readouts
from truerisk.nets.random_features import feature_scale, random_features
from truerisk.seeds import derive

POINTS, SPREAD, BANDWIDTH, STRENGTH, LIMIT = 20, 0.2, 0.06, 1e-3, 3.0
WAVES = (
    2, 3, 5, 7, 9, 11, 13, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 30, 40, 60, 100, 200, 500, 2000,
)  # fmt: skip
TRUE, FITTED = "true curve", "fitted curve"
SWITCHES = ("noise", "ridge")
STATE = ("features", *SWITCHES)
SHOWN, FINE = np.linspace(-1, 1, 121), np.linspace(-1, 1, 801)


def truth(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(4 * x) + 0.3 * np.cos(9 * x))


def twenty_points(seed: int) -> Record:
    """The fitted curves on a grid, their norms, and their errors, for each number of waves."""
    rng = np.random.default_rng(derive(seed, "demo points"))
    x = np.linspace(-0.95, 0.95, POINTS) + rng.uniform(-0.03, 0.03, POINTS)
    noise = SPREAD * rng.standard_normal(POINTS)
    phi = random_features(1, WAVES[-1], derive(seed, "demo features"), "fourier", BANDWIDTH)
    at, shown, fine = (phi.block(places[:, None], 0, WAVES[-1]) for places in (x, SHOWN, FINE))
    fits, dots = [], []
    for noisy in (False, True):
        y = truth(x) + noisy * noise
        dots += [{"x": float(a.round(4)), "y": float(b.round(4)), "noise": noisy} for a, b in zip(x, y, strict=True)]
        pairs = nested_readouts(at, y, WAVES, (0.0, STRENGTH), feature_scale)
        for (waves, pair), ridge in itertools.product(zip(WAVES, pairs, strict=True), (False, True)):
            [line], [whole] = (nested_outputs(on, [pair[ridge]], feature_scale) for on in (shown, fine))
            fits.append(
                {
                    "features": waves,
                    "noise": noisy,
                    "ridge": ridge,
                    "test_error": float(f"{np.mean((whole - truth(FINE)) ** 2):.4g}"),
                    "norm": float(f"{np.linalg.norm(pair[ridge]):.4g}"),
                    "y": line.clip(-LIMIT, LIMIT).round(4).tolist(),
                }
            )
    return {"x": SHOWN.round(4).tolist(), "truth": truth(SHOWN).round(4).tolist(), "dots": dots, "fits": fits}


def fit_rows(record: Record) -> list[dict[str, Any]]:
    """The fitted curves for each state of slider and switches, and the true one, which is always there."""
    places = record.get("x", ())
    true = [{"x": x, "y": y, "curve": TRUE} for x, y in zip(places, record.get("truth", ()), strict=True)]
    return true + [
        {"x": x, "y": y, "curve": FITTED, **{name: fit[name] for name in STATE}}
        for fit in record.get("fits", ())
        for x, y in zip(places, fit["y"], strict=True)
    ]


def curve_rows(record: Record) -> list[dict[str, Any]]:
    """Error and norm against the number of features, for each setting of the switches."""
    names = ("test_error", "norm", *SWITCHES)
    return [{"count": fit["features"], **{name: fit[name] for name in names}} for fit in record.get("fits", ())]


def moving_rows(record: Record) -> list[dict[str, Any]]:
    """The place on these curves of each number of features: a dot that moves with the slider."""
    pairs = zip(curve_rows(record), record.get("fits", ()), strict=True)
    return [{**row, "features": fit["features"]} for row, fit in pairs]


def dot_rows(record: Record) -> list[dict[str, Any]]:
    """The training points, which a ridge does not move."""
    return [{**dot, "ridge": ridge} for dot in record.get("dots", ()) for ridge in (False, True)]
