"""The runs of `conditioning`: spectra of one network with one remedy, and weights of rare words by optimizer."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.data.scaling import shrink_images
from truerisk.data.zipf import zipf_documents
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.measures.conditioning import condition_number, effective_rank, gauss_newton_spectrum
from truerisk.nets.deep import deep_mlp
from truerisk.nets.normalization import start_from_data
from truerisk.seeds import derive, seeded_globals

REMEDIES: dict[str, Setting] = {  # what each changes in the plain network with torch's default start
    "none": {},
    "centered inputs": {},
    "standardized inputs": {},
    "He start": {"start": "he"},
    "skips": {"skips": True},
    "batch norm": {"norm": "batch"},
    "layer norm": {"norm": "layer"},
    "weight norm": {"norm": "weight"},
    "weight norm, data start": {"norm": "weight"},
    "all": {"norm": "batch", "start": "he", "skips": True},
}
RATES = (0.03, 0.1, 0.3, 1.0, 3.0)  # of gradient descent; the best one counts
PLACES = 30  # eigenvalues in a record, evenly spaced on a logarithmic scale of their rank
WORD_RATES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
OPTIMIZERS = {
    "SGD": torch.optim.SGD,
    "AdaGrad": torch.optim.Adagrad,
    "RMSProp": torch.optim.RMSprop,
    "Adam": torch.optim.Adam,
}


def inputs(train: Data, remedy: str) -> Tensor:
    """Flat inputs in units of the largest, as they are, centered, or standardized by their mean and deviation."""
    X = torch.from_numpy(train.X.astype(np.float64)).flatten(1)
    X = X / max(float(X.abs().max()), 1e-300)
    if remedy in ("centered inputs", "standardized inputs", "all"):
        X = X - X.mean(dim=0)
    if remedy in ("standardized inputs", "all"):
        spread = X.std(dim=0, correction=0)
        X = X / torch.where(spread > 1e-12, spread, 1.0)
    return X.float()


def network(setting: Setting, X: Tensor, classes: int) -> nn.Module:
    """The network of a setting in training mode; the same seed draws the same numbers for every remedy."""
    remedy = setting["remedy"]
    how = {"start": "default", **REMEDIES[remedy]}
    with seeded_globals(derive(setting["seed"], "initial weights")):
        net = deep_mlp(X.shape[1:], classes, setting["depth"], setting["width"], "relu", **how)
    if remedy == "weight norm, data start":
        start_from_data(net, X)
    if setting.get("scale", 1.0) != 1.0:
        with torch.no_grad():
            for layer in net.modules():
                if isinstance(layer, nn.Linear):
                    layer.weight *= setting["scale"]
    return net.train()


def run_network(setting: Setting) -> Record:
    """Spectrum at the start, gradient descent on all examples at several rates, and the spectrum after the best.

    Without steps, the spectrum at the start alone.
    """
    s = setting
    train, _ = samples(s["data"], s["n"], 1, derive(s["seed"], "examples"), s.get("data_sha256"))
    train = shrink_images(train, s["side"])
    X, y = inputs(train, s["remedy"]), torch.from_numpy(train.y)
    start = network(s, X, train.classes)
    count = len(X) * (train.classes - 1)
    found: Record = {"start": _spectrum(start, X, count)}
    if not s["steps"]:
        return found
    ends = [descend(network(s, X, train.classes), X, y, rate, s["steps"]) for rate in RATES]
    losses = [loss for loss, _ in ends]
    best = int(np.argmin(losses))
    found |= {"losses": [round(loss, 6) for loss in losses], "loss": losses[best], "rate": RATES[best]}
    found["end"] = _spectrum(ends[best][1], X, count)
    return found


def descend(net: nn.Module, X: Tensor, y: Tensor, rate: float, steps: int) -> tuple[float, nn.Module]:
    """Full-batch gradient descent: (loss at its end, the network). A loss above guessing counts as guessing."""
    optimizer = torch.optim.SGD(net.parameters(), rate)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(net(X), y).backward()
        optimizer.step()
    with torch.no_grad():
        logits = net(X)
        loss, guessing = float(F.cross_entropy(logits, y)), math.log(logits.shape[1])
    return (loss if loss < guessing else guessing), net  # also where it is not a number


def _spectrum(net: nn.Module, X: Tensor, count: int) -> Record:
    """Condition numbers and some eigenvalues, in units of the largest.

    ``condition`` is the largest eigenvalue over the n-th largest of n examples, because fitting n examples takes about
    n directions; ``condition_median`` is over the median of all that are positive up to rounding.
    """
    values = gauss_newton_spectrum(net, X)
    most = min(count, len(values))
    n = min(len(X), most)
    ranks = np.unique(np.geomspace(1, most, PLACES).round().astype(int))
    relative = np.maximum(values[ranks - 1] / values[0], 1e-15)
    return {
        "largest": float(values[0]),
        "condition": condition_number(values, 0.0, n),
        "condition_median": condition_number(values),
        "effective_rank": effective_rank(values),
        "ranks": ranks.tolist(),
        "values": [float(f"{value:.4g}") for value in relative],
    }


def run_words(setting: Setting) -> Record:
    """Logistic regression on documents of words, by each optimizer at each of its rates; the best training loss counts.

    A word's share is the mean absolute weight of the rarer half of all words over that of the most frequent tenth.
    """
    s = setting
    made = zipf_documents(s["n"], s["words"], s["length"], derive(s["seed"], "documents"))
    X, y = torch.from_numpy(made.counts), torch.from_numpy(made.labels).double()
    rank = np.arange(s["words"])
    rare, frequent = (rank >= s["words"] // 2) & (made.occurrences > 0), rank < s["words"] // 10
    H = 0.25 * made.counts.T @ made.counts / s["n"]  # at weights 0
    scale = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
    spectra = {"plain": np.linalg.eigvalsh(H), "scaled": np.linalg.eigvalsh(H / scale / scale[:, None])}
    ratios, losses, shares, bins = {}, {}, {}, {}
    parts = np.array_split(np.arange(s["words"]), 10)
    for name in OPTIMIZERS:
        found = [word_weights(name, rate, X, y, s) for rate in WORD_RATES]
        best = int(np.argmin([loss for loss, _ in found]))
        each = [np.abs(weights) for _, weights in found]
        shares[name] = [float(w[rare].mean() / max(w[frequent].mean(), 1e-300)) for w in each]
        ratios[name], losses[name] = shares[name][best], [round(loss, 5) for loss, _ in found]
        bins[name] = [float(f"{each[best][part].mean():.4g}") for part in parts]
    return {
        "ratios": ratios,
        "word_losses": losses,
        "word_ratios": shares,
        "word_bins": bins,
        "word_occurrences": [float(f"{made.occurrences[part].mean():.4g}") for part in parts],
        "word_conditions": {name: condition_number(values) for name, values in spectra.items()},
    }


def word_weights(name: str, rate: float, X: Tensor, y: Tensor, setting: Setting) -> tuple[float, np.ndarray]:
    """(training loss, weights) of logistic regression from 0."""
    weights = torch.zeros(X.shape[1], dtype=torch.float64, requires_grad=True)
    optimizer = OPTIMIZERS[name]([weights], lr=rate)
    generator = torch.Generator().manual_seed(derive(setting["seed"], "batches"))
    for _ in range(setting["epochs"]):
        for batch in torch.randperm(len(X), generator=generator).split(setting["batch"]):
            optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(X[batch] @ weights, y[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        loss = float(F.binary_cross_entropy_with_logits(X @ weights, y))
    return loss, weights.detach().numpy()
