"""The runs of `kernels`: random features against the kernel that they approach, entry by entry and as predictors."""

from __future__ import annotations

import math

import numpy as np

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.nets.feature_kernels import ArcCosineKernel, FeatureKernel, FourierKernel, median_bandwidth
from truerisk.nets.kernels import fit, one_hot
from truerisk.nets.random_features import LeastSquares
from truerisk.seeds import derive

RIDGE = 1e-4
SPARE = 10  # test examples that approximations draw and leave: no dataset has fewer
AT = (0.5, -0.3, 0.8)  # the difference of two inputs at which the table is checked


def solve(setting: Setting) -> Record:
    return {"table": _table, "approximation": _approximation, "predictor": _predictor}[setting["kind"]](setting)


def _table(s: Setting) -> Record:
    """The mean of cos<w, D> over frequencies, the kernel at D, and the kernel as the lecture prints it."""
    kernel, at = FourierKernel(s["kernel"]), np.array([AT])
    frequencies = kernel.features(3, s["draws"], derive(s["seed"], "frequencies")).directions
    exact = kernel(np.zeros((1, 3)), at).item()
    printed = exact * (2**3 if s["kernel"] == "cauchy" else 1)
    return {"mean": float(np.cos(frequencies @ at[0]).mean()), "exact": exact, "printed": printed}


def _approximation(s: Setting) -> Record:
    """Root-mean-square and largest error of each number of features over all pairs of different examples."""
    data, _ = samples(s["data"], s["n"], SPARE, derive(s["seed"], "examples"), s.get("data_sha256"))
    (X,) = standardized(data)
    kernel, pairs = named_kernel(s["kernel"], X), np.triu_indices(len(X), 1)
    exact, rms, largest = kernel(X, X)[pairs], [], []
    for width in s["widths"]:
        phi = kernel.features(X.shape[1], width, derive(s["seed"], "features", width))(X)
        errors = (phi @ phi.T)[pairs] - exact
        rms.append(float(np.sqrt(np.mean(errors**2))))
        largest.append(float(np.abs(errors).max()))
    variance = float(kernel.variance(X, X)[pairs].mean()) if isinstance(kernel, FourierKernel) else None
    typical = float(np.median(exact))
    return {"rms": rms, "largest": largest, "variance": variance, "pairs": len(exact), "median_kernel": typical}


def _predictor(s: Setting) -> Record:
    """Readouts of N features without and with a ridge against the kernel machine with the same ridge.

    A norm is sqrt(y' (K + n r)^-1 y) for a ridge r, the square root of 2/r times the smallest objective; without a
    ridge it is the norm of the readout, and of the function in the kernel's space. Of equal training inputs the first
    counts, because no function could fit them all.
    """
    train, test = samples(s["data"], s["n"], s["n_test"], derive(s["seed"], "examples"), s.get("data_sha256"))
    train = train.take(np.sort(np.unique(train.X.reshape(len(train), -1), axis=0, return_index=True)[1]))
    X, Z = standardized(train, test)
    kernel, targets = named_kernel(s["kernel"], X), one_hot(train.y, train.classes)
    found: Record = {"conditions": []}
    machines = {}
    for name, ridge in (("", 0.0), ("ridge_", RIDGE)):
        machine = fit(kernel, X, targets, len(X) * ridge)
        if machine.jitter:
            raise TrueriskError(
                f"the Gram matrix of {len(X)} examples is numerically singular for the {s['kernel']} kernel; use data "
                "with more coordinates."
            )
        outputs = kernel.apply(Z, X, machine.coefficients)
        machines[name] = outputs, math.sqrt(float((machine.coefficients * targets).sum()))
        wrong = float(np.mean(outputs.argmax(axis=1) != test.y))
        found |= {f"{name}machine_error": wrong, f"{name}machine_norm": machines[name][1]}
        found |= {f"{name}{each}": [] for each in ("distances", "norms", "errors")}
    found["condition"] = _condition(kernel(X, X))
    for ratio in s["ratios"]:
        draw = kernel.features(X.shape[1], ratio * len(X), derive(s["seed"], "features"))
        phi, new = draw(X), draw(Z)
        problem = LeastSquares(phi, targets)
        found["conditions"].append(_condition(phi @ phi.T))
        for name, ridge in (("", 0.0), ("ridge_", RIDGE)):
            readout = problem.ridge(ridge) if ridge else problem.least_norm()
            outputs, (machine_outputs, norm) = new @ readout, machines[name]
            square = np.sum(readout**2) + (np.sum((phi @ readout - targets) ** 2) / (len(X) * ridge) if ridge else 0)
            distance = np.linalg.norm(outputs - machine_outputs) / np.linalg.norm(machine_outputs)
            found[f"{name}distances"].append(float(distance))
            found[f"{name}norms"].append(float(math.sqrt(square) / norm))
            found[f"{name}errors"].append(float(np.mean(outputs.argmax(axis=1) != test.y)))
    return found


def standardized(train: Data, *others: Data) -> list[np.ndarray]:
    """Inputs as rows, minus the mean of the training rows and divided by one standard deviation for all coordinates."""
    rows = [data.X.reshape(len(data), -1).astype(np.float64) for data in (train, *others)]
    center = rows[0].mean(axis=0)
    return [(each - center) / ((rows[0] - center).std() or 1.0) for each in rows]


def named_kernel(name: str, X: np.ndarray) -> FeatureKernel:
    return ArcCosineKernel() if name == "arc-cosine" else FourierKernel(name, median_bandwidth(name, X))


def _condition(gram: np.ndarray) -> float | None:
    """The condition number; None where rounding leaves no positive smallest eigenvalue."""
    values = np.linalg.eigvalsh(gram)
    return float(values[-1] / values[0]) if values[0] > 0 else None
