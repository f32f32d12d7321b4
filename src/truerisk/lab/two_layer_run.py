"""One two-layer network, trained until its loss is small: its errors, capacity terms, and bounds.

A setting has ``data``, ``n``, ``n_test``, ``width``, ``lr``, ``epochs`` (at most), and ``seed``; ``noise`` is the
probability of a random training label, or "none"; ``init``, where it is there, the scheme of initial weights.
"""

from __future__ import annotations

import math
from dataclasses import asdict

import torch

from truerisk.data import Data, corrupt_labels
from truerisk.data.scaling import normalize
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.measures import BOUNDS, Subject
from truerisk.measures.two_layer import terms, unit_capacity
from truerisk.nets.two_layer import TwoLayer, initial_two_layer
from truerisk.seeds import derive
from truerisk.training.two_layer import Trained, train_two_layer

BOUND, COUNT = "unit-capacity-impact", "vc"  # the bound of Neyshabur et al. (2019), and one that counts weights
OTHERS = {  # bounds by other norms
    "row-sums-root": "row sums (2018)",
    "frobenius-doubling": "Frobenius (2015)",
    "spectral-covering-init": "spectral (2017)",
    "spectral-pac-bayes": "spectral (2018)",
}
DELTA, TARGET, BATCH, KEPT = 0.05, 0.01, 64, 60  # KEPT: quantiles of unit capacity in a record


def run_two_layer(setting: Setting) -> Record:
    """Train one network until its loss is below the target; its errors, terms, and bounds."""
    train, test = learned(setting)
    start, found = trained(setting, train)
    if found.diverged:
        return {"diverged": True}
    X, y = tensors(train)
    measured = asdict(terms(found.network, start, X, y))
    subject = Subject(found.network.module(train.input_shape), train, start.module(train.input_shape))
    bounds = {name: BOUNDS[name](subject, DELTA).value for name in (BOUND, COUNT, *OTHERS)}
    units = unit_capacity(found.network, start)
    levels = units.quantile((torch.arange(KEPT, dtype=torch.float64) + 0.5) / KEPT) if len(units) > KEPT else units
    return {
        **{"diverged": False, "reached": found.reached, "trained_epochs": found.epochs},
        "train_error": error(found.network, train),
        "test_error": error(found.network, test),
        **{name: value if math.isfinite(value) else None for name, value in measured.items()},
        "bounds": {name: value if math.isfinite(value) else None for name, value in bounds.items()},
        "unit_capacities": [float(f"{beta:.4g}") for beta in levels.sort().values],
    }


def learned(setting: Setting) -> tuple[Data, Data]:
    """Training examples, some with random labels, and test examples; normalized."""
    s = setting
    seed = derive(s["seed"], "examples")
    train, test = normalize(*samples(s["data"], s["n"], s["n_test"], seed, s.get("data_sha256")))
    return (train if s["noise"] == "none" else corrupt_labels(train, s["noise"], derive(s["seed"], "noise"))), test


def trained(setting: Setting, train: Data) -> tuple[TwoLayer, Trained]:
    """The network before training, and what training made of it."""
    s = setting
    X, y = tensors(train)
    weights, scheme = derive(s["seed"], "weights"), s.get("init", "uniform")
    start = initial_two_layer(X.shape[1], s["width"], train.classes, weights, scheme)
    seed, rate, most = derive(s["seed"], "batches"), s["lr"], s["epochs"]
    return start, train_two_layer(start, X, y, lr=rate, epochs=most, seed=seed, batch_size=BATCH, target_loss=TARGET)


def tensors(data: Data) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(data.X.reshape(len(data), -1)).float(), torch.from_numpy(data.y)


def error(network: TwoLayer, data: Data) -> float:
    X, y = tensors(data)
    return float((network(X).argmax(dim=1) != y).double().mean())
