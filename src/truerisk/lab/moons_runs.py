"""The runs of `moons-widths`: scikit-learn's networks on thirty points of two moons, as in the lecture's notebooks.

`make_moons` with 30 points and noise 0.15, training points drawn first and test points after them from the same stream
of random numbers, both standardized by the training points. The published stream is ``RandomState(1)``.

The lecture's grid of Lipschitz constants has four slips that are not made here: its logits are those of a linear
network (activations are computed and dropped), its margins are absolute values (a wrong point counts as right), its
seeds all give the same data, and its excess risk is cut at 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from truerisk.errors import TrueriskError
from truerisk.lab.experiment import Record, Setting
from truerisk.seeds import derive

NOISE, STREAM, ITERATIONS = 0.15, 1, 2000
SOLVERS: dict[str, dict[str, Any]] = {
    "lbfgs": {"solver": "lbfgs"},
    "adam": {"solver": "adam", "learning_rate_init": 0.01, "max_iter": ITERATIONS},
    "sgd": {"solver": "sgd", "learning_rate_init": 0.1, "max_iter": ITERATIONS},
}
Arrays = tuple[np.ndarray, np.ndarray]


def moons(n: int, n_test: int, stream: int, label_noise: float = 0.0) -> tuple[Arrays, Arrays]:
    """Training and test points; each training label is replaced by a random one with probability ``label_noise``.

    >>> (X, y), (_, answers) = moons(30, 1000, stream=1)
    >>> X.shape, y.sum().item(), answers.mean().item()
    ((30, 2), 15, 0.5)
    """
    rng = np.random.RandomState(stream)  # the published stream
    (X, y), (X_test, y_test) = (make_moons(count, shuffle=True, noise=NOISE, random_state=rng) for count in (n, n_test))
    replaced = rng.uniform(size=n) < label_noise  # the same points at every larger rate
    y = np.where(replaced, rng.randint(0, 2, n), y)
    scaler = StandardScaler().fit(X)
    return (scaler.transform(X), y), (scaler.transform(X_test), y_test)


def fitted(train: Arrays, hidden: Sequence[int], start: int, **how: Any) -> MLPClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the published networks stop at the same limit
        return MLPClassifier(hidden_layer_sizes=list(hidden), random_state=start, **how).fit(*train)


def run_width(setting: Setting) -> Record:
    """One network of the table: two hidden layers, L-BFGS without weight decay."""
    s = setting
    stream, start = (STREAM if s["arm"] != "new points" else derive(s["seed"], "points") % 2**32), s["seed"]
    train, test = moons(s["n"], s["n_test"], stream)
    model = fitted(train, [s["width"]] * 2, s["start"] if s["arm"] == "published" else start, solver="lbfgs", alpha=0.0)
    return {"train_accuracy": model.score(*train), "test_accuracy": model.score(*test)}


def logits(model: MLPClassifier, X: np.ndarray) -> np.ndarray:
    """Logit of class 1, with the activations that the network has."""
    for weight, bias in zip(model.coefs_[:-1], model.intercepts_[:-1], strict=True):
        X = np.maximum(X @ weight + bias, 0)
    return (X @ model.coefs_[-1] + model.intercepts_[-1]).ravel()


def lipschitz(model: MLPClassifier) -> float:
    """The product of the spectral norms of all layers: an upper bound on the Lipschitz constant of the logit."""
    return float(np.prod([np.linalg.norm(weight, 2) for weight in model.coefs_]))


def margins(model: MLPClassifier, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Signed: negative where the network is wrong."""
    if set(np.unique(y)) - {0, 1}:
        raise TrueriskError("labels must be 0 or 1 for the margin of one logit; number the two classes 0 and 1.")
    return (2 * y - 1) * logits(model, X)


def run_grid(setting: Setting) -> Record:
    """All networks of one solver and shape on one draw of points, over rates of label noise."""
    s, found = setting, []
    for rate in s["rates"]:
        train, test = moons(s["n"], s["n_test"], derive(s["seed"], "grid points") % 2**32, rate)
        if len(np.unique(train[1])) < 2:  # all labels replaced by one class
            continue
        start = derive(s["seed"], "grid start", s["solver"], s["hidden"], rate) % 2**32
        model = fitted(train, s["hidden"], start, **SOLVERS[s["solver"]])
        of = margins(model, *train)
        found.append(
            {
                "rate": rate,
                "train": round(model.score(*train), 4),
                "test": round(model.score(*test), 4),
                "lipschitz": float(f"{lipschitz(model):.5g}"),
                "mean_margin": float(f"{of.mean():.4g}"),
                "median_margin": float(f"{np.median(of):.4g}"),
                "parameters": sum(part.size for part in (*model.coefs_, *model.intercepts_)),
            }
        )
    return {"networks": found}
