"""The runs of `batch-size`: the same network with several batch sizes, a training set with copies, rescaled twins."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.data import Data
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.measures.families.sharpness import adaptive_sharpness, keskar_sharpness
from truerisk.measures.subject import Subject
from truerisk.nets import mlp, outputs
from truerisk.nets.interpolate import line
from truerisk.seeds import derive, seeded_globals
from truerisk.symmetry import find_symmetry
from truerisk.training import Plan, run
from truerisk.training.loop import DivergedError
from truerisk.training.swift import Weights, answers, sgd_epochs, uniform_weights

PLACES = tuple(float(t) for t in np.linspace(-1, 2, 25).round(4))  # the published ones
REACH, TICKS = 3.0, 31  # a section of the loss through a network: half its length, places
TWIN = 10.0  # the factor of the twin at the other end of a line


def examples(s: Setting) -> tuple[Data, Data]:
    """Training and test examples, as float32 in units of the largest training input."""
    train, test = samples(s["data"], s["n"], s["n_test"], derive(s["seed"], "examples"), s.get("data_sha256"))
    unit = float(np.abs(train.X).max()) or 1.0
    parts = [(np.asarray(part.X, np.float64) / unit).astype(np.float32) for part in (train, test)]
    return Data(train.name, parts[0], train.y, train.classes), Data(test.name, parts[1], test.y, test.classes)


# ---- several batch sizes -------------------------------------------------------------------------------------------


def batches(s: Setting) -> Record:
    """Train from the same initial weights with each batch size, and compare where training ends."""
    train, test = examples(s)
    make = _small_convnet if s["net"] == "convnet" else _plain
    nets = [make(s, train, batch) for batch in s["batches"]]
    found: dict[str, list[float]] = {}
    for net, epochs in nets:
        for name, value in {**described(net, train, test, s["seed"]), "epochs_run": epochs}.items():
            found.setdefault(name, []).append(value)
    first, last = nets[0][0], nets[-1][0]
    norms = train.X if s["net"] == "convnet" else None
    on = {"train": train, "test": test}
    lines = {part: line(first, last, data.X, data.y, PLACES, norms) for part, data in on.items()}
    return {
        **found,
        "line_at": list(PLACES),
        **{f"line_{part}": [_short(loss) for loss in each.losses] for part, each in lines.items()},
        "line_errors": list(lines["test"].errors),
        "diverged": False,
    }


def described(net: nn.Module, train: Data, test: Data, seed: int) -> dict[str, float]:
    """Losses, errors, and sharpness of a trained network, its batch norms folded."""
    subject = Subject(net, train, seed=derive(seed, "sharpness"))
    loss, error = loss_and_error(net, train)
    return {
        "train_losses": loss,
        "train_errors": error,
        "test_errors": loss_and_error(net, test)[1],
        "keskar": cast(float, keskar_sharpness(subject)),
        "adaptive": cast(float, adaptive_sharpness(subject)),
    }


def loss_and_error(net: nn.Module, data: Data) -> tuple[float, float]:
    logits, y = outputs(net, data.X).double(), torch.from_numpy(data.y)
    return float(F.cross_entropy(logits, y)), float((logits.argmax(1) != y).double().mean())


def _plain(s: Setting, train: Data, batch: int) -> tuple[nn.Module, int]:
    """A fully connected network by SGD with momentum, to the last epoch or to the target loss."""
    weights, X, Y = _start(s, train)
    target, epochs = s["target"], 0
    size = min(batch, len(X))
    rate = s["lr"] * size / min(s["batches"][0], len(X)) if s["rate"] == "scaled" else s["lr"]
    how = {"batch_size": size, "lr": rate, "momentum": 0.9}
    for epochs in sgd_epochs(weights, X, Y, epochs=s["epochs"], seed=derive(s["seed"], "order"), **how):  # noqa: B007
        if target is not None and cross_entropy(weights, X, train.y) <= target:
            break
    if target is not None and cross_entropy(weights, X, train.y) > target:
        raise DivergedError(f"batches of {batch} do not reach a loss of {target:g} in {epochs} epochs; allow more.")
    return as_module(weights, train), epochs


def _small_convnet(s: Setting, train: Data, batch: int) -> tuple[nn.Module, int]:
    """Three convolutions with batch norm, by Adam at a constant rate, as published, for a fixed number of epochs."""
    with seeded_globals(derive(s["seed"], "weights")):
        net = batch_norm_convnet(train.input_shape, train.classes)
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    plan = Plan(epochs=s["epochs"], batch_size=batch, optimizer="adam", lr=s["lr"], schedule="constant",
                seed=derive(s["seed"], "order"))  # fmt: skip
    net.train()
    run(net, [{"params": list(net.parameters())}], lambda rows: F.cross_entropy(net(X[rows]), y[rows]), len(X), plan)
    return net.eval(), s["epochs"]


def batch_norm_convnet(input_shape: Sequence[int], classes: int, channels: Sequence[int] = (16, 32, 64)) -> nn.Module:
    """3x3 convolutions, each with batch norm and ReLU, then one linear layer.

    The first convolution has stride 2, each of the others is followed by 2x2 max-pooling.
    """
    layers: list[nn.Module] = []
    for depth, (fan_in, fan_out) in enumerate(itertools.pairwise([input_shape[0], *channels])):
        stride = 1 if depth else 2
        layers += [nn.Conv2d(fan_in, fan_out, 3, stride=stride, padding=1), nn.BatchNorm2d(fan_out), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if depth else []
    trunk = nn.Sequential(*layers, nn.Flatten())
    with torch.no_grad():
        features = trunk.eval()(torch.zeros(1, *input_shape)).shape[1]
    return nn.Sequential(*trunk, nn.Linear(features, classes)).train()


def _start(s: Setting, train: Data, kind: type = np.float32) -> tuple[Weights, np.ndarray, np.ndarray]:
    X: np.ndarray = train.X.reshape(len(train), -1).astype(kind)
    weights = uniform_weights([X.shape[1], *s["hidden"], train.classes], derive(s["seed"], "weights"))
    return [part.astype(kind) for part in weights], X, np.eye(train.classes, dtype=kind)[train.y]


def cross_entropy(weights: Weights, X: np.ndarray, y: np.ndarray) -> float:
    logits = answers(weights, X).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    return float((np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(y)), y]).mean())


def as_module(weights: Weights, train: Data, kind: torch.dtype = torch.float32) -> nn.Module:
    """The weights of `training.swift` as a torch network."""
    net = mlp(train.input_shape, train.classes, [part.shape[1] for part in weights[:-2:2]]).to(kind)
    with torch.no_grad():
        for own, part in zip(net.parameters(), weights, strict=True):
            own.copy_(torch.from_numpy(np.ascontiguousarray(part.T)))
    return net.eval()


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None


# ---- copies --------------------------------------------------------------------------------------------------------


def copies(s: Setting) -> Record:
    """Examples that enter gradients until a training loss is reached, with each example once, twice, ..."""
    train, _ = examples(s)
    found = []
    for times in s["copies"]:
        weights, X, Y = _start(s, train, np.float64)
        many = np.tile(X, (times, 1)), np.tile(Y, (times, 1))
        batch = len(many[0]) if s["batch"] is None else s["batch"]
        how = {"batch_size": batch, "lr": s["lr"], "momentum": 0.0, "epochs": s["epochs"]}
        before, reached = cross_entropy(weights, X, train.y), None
        for epoch in sgd_epochs(weights, *many, seed=derive(s["seed"], "order"), **how):
            now = cross_entropy(weights, X, train.y)
            if now <= s["target"]:
                # Steps are counted in full batches; within an epoch of SGD the logarithm of the loss is interpolated.
                share = 1.0 if s["batch"] is None else math.log(before / s["target"]) / math.log(before / now)
                reached = (epoch - 1 + share) * len(many[0])
                break
            before = now
        found.append(reached)
    return {"diverged": True} if None in found else {"processed": found, "diverged": False}


# ---- rescaled twins ------------------------------------------------------------------------------------------------


def twins(s: Setting) -> Record:
    """One trained network, its first layer multiplied by several factors and its second divided by them."""
    train, test = examples(s)
    weights, X, Y = _start(s, train)
    for _ in sgd_epochs(weights, X, Y, epochs=s["epochs"], batch_size=s["batch"], lr=s["lr"],
                        seed=derive(s["seed"], "order")):  # fmt: skip
        pass
    net = as_module(weights, train, torch.float64)
    data = Data(train.name, train.X.astype(np.float64), train.y, train.classes)
    held = Data(test.name, test.X.astype(np.float64), test.y, test.classes)
    found: dict[str, list[float]] = {}
    sections, before = [], outputs(net, held.X)
    for factor in s["factors"]:
        twin = rescaled_twin(net, factor, data.X)
        after = outputs(twin, held.X)
        change = float((after - before).abs().max() / before.abs().max())
        for name, value in {**described(twin, data, held, s["seed"]), "output_change": change}.items():
            found.setdefault(name, []).append(value)
        sections.append([_short(loss) for loss in section(twin, data, derive(s["seed"], "direction"))])
    way = line(net, rescaled_twin(net, TWIN, data.X), data.X, data.y, PLACES)
    return {
        **found,
        "section_at": [float(t) for t in np.linspace(-REACH, REACH, TICKS).round(4)],
        "sections": sections,
        "line_at": list(PLACES),
        "line_train": [_short(loss) for loss in way.losses],
        "diverged": False,
    }


def rescaled_twin(net: nn.Module, factor: float, X: np.ndarray) -> nn.Module:
    """The same function: what enters the first hidden layer times ``factor``, what leaves it divided by it."""
    symmetry = find_symmetry(net, torch.from_numpy(X[:1]))
    scales = torch.where(torch.from_numpy(symmetry.group_of == symmetry.group_of.min()), math.log(factor), 0.0)
    twin = symmetry.rescale(net, scales)
    first, own = next(net.parameters()), next(twin.parameters())
    grown = float(own.detach().abs().sum() / first.detach().abs().sum())
    return twin if math.isclose(grown, factor, rel_tol=1e-6) else symmetry.rescale(net, -scales)


def section(net: nn.Module, data: Data, seed: int) -> list[float]:
    """Training losses along one random direction of unit length, the same for all twins."""
    generator = torch.Generator().manual_seed(seed)
    moved = copy.deepcopy(net)
    steps = [torch.randn(w.shape, generator=generator, dtype=torch.float64) for w in net.parameters()]
    size = math.sqrt(sum(float(step.square().sum()) for step in steps))
    losses = []
    for t in np.linspace(-REACH, REACH, TICKS):
        with torch.no_grad():
            for own, weight, step in zip(moved.parameters(), net.parameters(), steps, strict=True):
                own.copy_(weight + t * step / size)
        losses.append(loss_and_error(moved, data)[0])
    return losses


KINDS: dict[str, Callable[[Setting], Record]] = {"batches": batches, "copies": copies, "twins": twins}
