"""The runs of `random-label-pretraining`: a network learns random labels, then new labels of new examples.

The second training starts from one of five states of the same network:

    scratch      fresh initial weights
    pretrained   the weights after random labels
    scaled       fresh initial weights, each tensor multiplied to the norm that it has after random labels
    shuffled     the weights after random labels, the entries of each tensor in random order
    aligned      as scaled, but incoming weights of hidden units drawn from a Gaussian with the covariance that they
                 have after random labels: their alignment with the data, and nothing else of what was learned

Examples of the two trainings are disjoint. SGD with momentum, until every label is fitted.
"""

from __future__ import annotations

import math

import numpy as np

from truerisk.data import Data, random_labels
from truerisk.data.scaling import normalize
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.measures.alignment import alignment
from truerisk.seeds import derive
from truerisk.training.loop import DivergedError
from truerisk.training.swift import Weights, answers, sgd_epochs, uniform_weights

STARTS = ("scratch", "pretrained", "scaled", "shuffled", "aligned")
LABELS = ("random", "true")
SHOWN = 64  # directions in a record


def parts(setting: Setting) -> tuple[Data, Data, Data]:
    """Examples of the first training, of the second, and test examples."""
    s, n = setting, setting["n"]
    both, test = samples(s["data"], 2 * n, s["n_test"], derive(s["seed"], "examples"), s.get("data_sha256"))
    first = both.take(range(n))
    both, test = normalize(first, both)[1], normalize(first, test)[1]
    return both.take(range(n)), both.take(range(n, 2 * n)), test


def flat(data: Data) -> np.ndarray:
    return data.floats().X.reshape(len(data), -1)


def learn(weights: Weights, data: Data, setting: Setting, seed: int) -> tuple[Weights, int | None]:
    """(weights once every label is fitted, steps until then), or (the last weights, None)."""
    own, targets = [part.copy() for part in weights], np.eye(data.classes, dtype=np.float32)[data.y]
    X, each = flat(data), math.ceil(len(data) / setting["batch"])
    how = {"epochs": setting["epochs"], "batch_size": setting["batch"], "lr": setting["lr"], "momentum": 0.9}
    for epochs in sgd_epochs(own, X, targets, seed=seed, **how):
        if (answers(own, X).argmax(axis=1) == data.y).all():
            return own, epochs * each
    return own, None


def start(kind: str, fresh: Weights, after: Weights, seed: int) -> Weights:
    """Initial weights of the second training."""
    if kind == "scratch":
        return fresh
    if kind == "pretrained":
        return after
    rng = np.random.default_rng(seed)
    if kind == "shuffled":
        return [rng.permutation(part.ravel()).reshape(part.shape) for part in after]
    scaled = [_to_norm(new, float(np.linalg.norm(old))) for new, old in zip(fresh, after, strict=True)]
    if kind == "aligned":
        incoming = after[0].astype(np.float64)
        drawn = rng.multivariate_normal(incoming.mean(axis=1), np.cov(incoming), incoming.shape[1], method="eigh")
        scaled[0] = _to_norm(drawn.T, float(np.linalg.norm(incoming)))
    return scaled


def _to_norm(part: np.ndarray, size: float) -> np.ndarray:
    own = float(np.linalg.norm(part))
    return (part * (size / own if own > 0 else 1.0)).astype(np.float32)


def run_pretraining(setting: Setting) -> Record:
    """Alignment before and after random labels, and the second training from each start with each kind of labels."""
    s, seed = setting, setting["seed"]
    first, second, test = parts(s)
    shape = [flat(first).shape[1], s["width"], first.classes]
    begin, fresh = (uniform_weights(shape, derive(seed, "weights", part)) for part in ("first", "second"))
    try:
        noise = random_labels(first, derive(seed, "labels", "first"))
        after, took = learn(begin, noise, s, derive(seed, "first"))
        true, steps_true = learn(begin, first, s, derive(seed, "first"))
        seen = {"before": begin, "random labels": after, "true labels": true}
        aligned = {name: alignment(weights[0], flat(first)) for name, weights in seen.items()}
        record: Record = {
            "first_steps": {"random": took, "true": steps_true},
            "correlations": {name: each.correlation for name, each in aligned.items()},
            "eigenvalues": _short(aligned["before"].eigenvalues),
            "variances": {name: _short(each.variances) for name, each in aligned.items()},
            "norms": [[float(f"{np.linalg.norm(part):.5g}") for part in ws] for ws in (begin, after)],
            "steps": {}, "test_errors": {}, "diverged": False,
        }  # fmt: skip
        tasks = {"random": random_labels(second, derive(seed, "labels", "second")), "true": second}
        for kind in STARTS:
            own = start(kind, fresh, after, derive(seed, "start", kind))
            for labels, given in tasks.items():
                end, steps = learn(own, given, s, derive(seed, "second"))
                record["steps"][f"{kind}, {labels}"] = steps
                if labels == "true":
                    wrong = answers(end, flat(test)).argmax(axis=1) != test.y
                    record["test_errors"][kind] = float(wrong.mean())
    except DivergedError:
        return {"diverged": True}
    return record


def _short(values: np.ndarray) -> list[float]:
    """At most 64 numbers, evenly spaced by rank, with few digits."""
    chosen = np.unique(np.linspace(0, len(values) - 1, min(len(values), SHOWN)).round().astype(int))
    return [float(f"{value:.4g}") for value in values[chosen]]
