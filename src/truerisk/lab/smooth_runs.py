"""The runs of `smoothness`: error, roughness, and norm of functions that fit all training labels, for growing sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from truerisk.bounds import nearest_neighbor_limit
from truerisk.data import Data, corrupt_labels
from truerisk.data.toy import generate_toy
from truerisk.data.toy_density import toy_posterior, toy_risks
from truerisk.lab.experiment import Record, Setting, product
from truerisk.lab.interpolants import Fitted, classifiers, curves
from truerisk.lab.samples import samples
from truerisk.measures.smoothness import boundary_length, class_changes, total_variation
from truerisk.nets.nearest_neighbor import nearest_labels
from truerisk.seeds import derive

GRID = np.linspace(-1, 1, 1001)  # where curves are compared with their target
CLOSE = 1e-4  # a curve that misses no point by more passes through all of them
SIDE, REACH = 101, 4.5  # places of a grid of the plane in each direction, and its half-width
WAYS, STOPS = 100, 30  # straight lines between new images, and places on each


def run(setting: Setting) -> Record:
    """One run, of the kind that its setting names."""
    return {"curve": curve, "neighbors": neighbors, "plane": plane, "images": images}[setting["kind"]](setting)


def target(name: str, x: np.ndarray) -> np.ndarray:
    """A bump, which polynomials of low degree approximate badly, or a wave, which they approximate well."""
    return np.asarray(1.5 * np.exp(-18 * (x - 0.2) ** 2) - 0.3 if name == "bump" else np.sin(1.5 * np.pi * x))


def points(name: str, n: int, sd: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """n noisy points of a target, one at a random place in each of n equal parts of [-1, 1]."""
    rng = np.random.default_rng(seed)
    x = 2 * (np.arange(n) + rng.uniform(size=n)) / n - 1
    return x, target(name, x) + sd * rng.standard_normal(n)


def curve(s: Setting) -> Record:
    """Geometric means over draws of the points: mean squared test error, total variation, and norm, for each size."""
    truth, found = target(s["target"], GRID), []
    for draw in range(s["draws"]):
        x, y = points(s["target"], s["n"], s["sd"], derive(s["seed"], "points", draw))
        for fitted in curves(s["model"], x, y, s["sizes"], derive(s["seed"], "model", draw)):
            values = fitted.function(GRID)
            error = float(np.mean((values - truth) ** 2)) + s["sd"] ** 2
            missed = float(np.abs(fitted.function(x) - y).max())
            found.append((error, max(total_variation(values), 1e-12), fitted.norm or 1.0, missed))
    each = np.array(found).reshape(s["draws"], -1, 4)
    means, missed = np.exp(np.log(each[:, :, :3]).mean(axis=0)), each[:, :, 3].max(axis=0)
    return {
        "at": list(s["sizes"]) or [None],
        "errors": means[:, 0].tolist(),
        "roughness": means[:, 1].tolist(),
        "norms": means[:, 2].tolist() if s["model"] not in ("line", "neighbor") else [None],
        "fits": (missed <= CLOSE).tolist(),
    }


def neighbors(s: Setting) -> Record:
    """The risk of the nearest neighbor of the first n examples, for growing n, from class probabilities at new inputs.

    Bayes risk and limit are given twice: exactly, and as means over the same new inputs, whose chance they share.
    """
    stored, new = toy_samples(s, max(s["sizes"]))
    eta = toy_posterior(s["toy"], new.X, s["sd"])
    risks = [_risk(eta, nearest_labels(stored.X[:n], stored.y[:n], new.X)) for n in s["sizes"]]
    exact, here = toy_risks(s["toy"], s["sd"]), np.column_stack([1 - eta, eta])
    return {
        "at": list(s["sizes"]),
        "errors": risks,
        "bayes": exact.bayes,
        "limit": exact.neighbor,
        "bayes_here": float(here.min(axis=1).mean()),
        "limit_here": nearest_neighbor_limit(here),
    }


def toy_samples(s: Setting, n: int) -> tuple[Data, Data]:
    """``n`` examples to store, and new ones."""
    stored, new = (derive(s["seed"], part) % 2**32 for part in ("stored", "new"))
    return generate_toy(s["toy"], n, stored, s["sd"]), generate_toy(s["toy"], s["n_test"], new, s["sd"])


def _risk(eta: np.ndarray, answers: np.ndarray) -> float:
    return float(np.where(answers == 1, 1 - eta, eta).mean())


def plane(s: Setting) -> Record:
    stored, new = toy_samples(s, s["n"])
    eta, side = toy_posterior(s["toy"], new.X, s["sd"]), np.linspace(-REACH, REACH, SIDE)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    X, Z, grid = (rows.astype(np.float64) / REACH for rows in (stored.X, new.X, grid))

    def measured(fitted: Fitted) -> tuple[float, float]:
        regions = fitted.function(grid).reshape(SIDE, SIDE)
        return _risk(eta, fitted.function(Z)), boundary_length(regions, side[1] - side[0])

    return _classified(s, stored, X, measured)


def images(s: Setting) -> Record:
    stored, new = samples(s["data"], s["n"], s["n_test"], derive(s["seed"], "examples"), s.get("data_sha256"))
    stored = corrupt_labels(stored, s["noise"], derive(s["seed"], "noise"))
    X, Z = (part.X.reshape(len(part), -1).astype(np.float64) for part in (stored, new))
    center, scale = X.mean(axis=0), float(X.std()) or 1.0
    X, Z = (X - center) / scale, (Z - center) / scale
    ways = min(WAYS, len(Z) // 2)

    def measured(fitted: Fitted) -> tuple[float, float]:
        changes = class_changes(fitted.function, Z[:ways], Z[ways : 2 * ways], STOPS)
        return float(np.mean(fitted.function(Z) != new.y)), changes

    return _classified(s, stored, X, measured)


def _classified(s: Setting, stored: Data, X: np.ndarray, measured: Callable[[Fitted], tuple[float, float]]) -> Record:
    """Error, roughness, and norm of a classifier for each of its sizes."""
    sizes = sorted({max(1, round(ratio * s["n"])) for ratio in s["ratios"]})
    made = classifiers(s["model"], X, stored.y, stored.classes, sizes, derive(s["seed"], "model"), s.get("epochs", 0))
    found = [(fitted, measured(fitted)) for fitted in made]
    return {
        "at": [fitted.size for fitted, _ in found],
        "errors": [error for _, (error, _) in found],
        "roughness": [rough for _, (_, rough) in found],
        "norms": [fitted.norm for fitted, _ in found],
        "fits": [bool((fitted.function(X) == stored.y).all()) for fitted, _ in found],
    }


# ---- settings ------------------------------------------------------------------------------------------------------

TARGETS = ("bump", "wave")
POINTS_ON_CURVE = 15
BELOW = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14)
BEYOND = (15, 16, 18, 22, 30, 45, 75, 150, 300)  # the last: 20 coefficients for each point
NETWORKS = (61, 151, 301)  # smaller ones do not always pass through all points
STORES: tuple[str, ...] = ("kernel", "line", "neighbor")
SIZED = {"smooth": BELOW + BEYOND, "plain": BELOW + BEYOND, "fourier": BELOW[3:] + BEYOND, "network": NETWORKS}
MODELS_OF_PLANE = {"neighbor": (), "gaussian": (), "laplacian": (), "relu": (2, 5, 20), "network": ()}
RATIOS = (1 / 8, 1 / 4, 1 / 2, 3 / 4, 1, 3 / 2, 2, 5, 20)
SPIRALS: Setting = {"toy": "spirals", "sd": 0.42}  # a Bayes risk of 10.8%


def curve_settings(seeds: Sequence[int], draws: int) -> list[Setting]:
    how = {"kind": "curve", "n": POINTS_ON_CURVE, "sd": 0.2, "draws": draws}
    models = [*SIZED.items(), *((model, ()) for model in STORES)]
    return [
        {**how, "target": name, "model": model, "sizes": list(sizes), "seed": seed}
        for name in TARGETS
        for model, sizes in models
        for seed in seeds
    ]


def neighbor_settings(seeds: Sequence[int], sizes: Sequence[int], n_test: int) -> list[Setting]:
    return product({"kind": "neighbors", **SPIRALS, "n_test": n_test, "sizes": list(sizes)}, seed=seeds)


def plane_settings(seeds: Sequence[int], n: int, n_test: int, epochs: int) -> list[Setting]:
    how = {"kind": "plane", **SPIRALS, "n": n, "n_test": n_test, "epochs": epochs}
    return [
        run for m, r in MODELS_OF_PLANE.items() for run in product({**how, "model": m, "ratios": list(r)}, seed=seeds)
    ]


def image_settings(seeds: Sequence[int], how: Setting, ratios: Sequence[float] = RATIOS) -> list[Setting]:
    grid = []
    for model in ("fourier", "neighbor", "gaussian", "laplacian", "network"):
        own = {**how, "kind": "images", "model": model, "ratios": list(ratios) if model == "fourier" else []}
        grid += product(own, noise=(0.0, 0.2), seed=seeds)
    return grid
