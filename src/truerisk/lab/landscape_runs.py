"""What `loss-landscape` runs: a thin deep network with or without skips, its surfaces, and those of rescaled twins.

Training stops at the first step after which the loss on the examples of the surface is at most the target, so networks
with and without skips are compared at the same training loss.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.landscape import Plane, Surface, evaluate, random_plane, read, weights_of
from truerisk.landscape.probe import Probe
from truerisk.nets.evaluate import as_input, count_errors, outputs, precision
from truerisk.nets.skips import skip_network
from truerisk.seeds import derive
from truerisk.symmetry import Symmetry, find_symmetry

PUBLISHED = "filter-weights"  # directions of the published code: biases and batch norms do not move
RATE, MOMENTUM, DECAY, BATCH = 0.1, 0.9, 5e-4, 100
EXACT_ROWS, EXACT_SIZE, EXACT_REACH = 100, 5, 0.5  # surfaces that are compared exactly, in float64
DIGITS = 4  # of losses in a record


def run_landscape(setting: Setting) -> Record:
    """Train, slice, rescale, slice again."""
    train, test = _examples(setting)
    net, taken, loss = trained(setting, train)
    found: Record = {
        "reached": loss <= setting["target"],
        "taken": taken,
        "train_loss": loss,
        "test_error": count_errors(net, test.X, test.y)[0] / len(test),
    }
    X, y = train.X[: setting["rows"]], train.y[: setting["rows"]]
    symmetry = find_symmetry(net, as_input(X[:1], precision(net)))
    unit = setting["std"] * symmetry.random(1.0, derive(setting["seed"], "twin"))
    networks = {"network": net} | ({"twin": symmetry.rescale(net, unit)} if setting["std"] else {})
    for name, each in networks.items():
        planes = [_plane(each, setting, number) for number in range(setting["planes"])]
        if name == "twin" and setting["view"] == "numbers":  # distances alone: at this grid its surface is not resolved
            found[name] = [{"doubling": _distance(Probe(each, X, y, plane).rays(plane.reach))} for plane in planes]
            continue
        surfaces = [evaluate(each, X, y, plane, setting["size"]) for plane in planes]
        found[name] = [_numbers(surface) for surface in surfaces]
        if setting["view"] == "picture":
            found[f"{name}_surface"] = _rounded(surfaces[0])
    return found | (_exact(net, train, setting) if setting["std"] and setting["view"] == "numbers" else {})


def _examples(setting: Setting) -> tuple[Data, Data]:
    parts = samples(setting["data"], setting["n"], setting["n_test"], setting["seed"], setting.get("data_sha256"))
    train, test = (part.floats() if part.integers else part for part in parts)
    return train, test


def trained(setting: Setting, train: Data) -> tuple[nn.Module, int, float]:
    """(the network in eval mode, steps taken, loss on the examples of the surface)."""
    torch.manual_seed(derive(setting["seed"], "network"))
    convolutional = setting["layers"] == "convolutional"
    net = skip_network(
        train.input_shape, train.classes, setting["blocks"], setting["width"], skips=setting["skips"],
        convolutional=convolutional,
    )  # fmt: skip
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    if convolutional:  # the layout in which convolutions are fastest
        net, X = net.to(memory_format=torch.channels_last), X.contiguous(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)
    generator = torch.Generator().manual_seed(derive(setting["seed"], "batches"))
    rows, taken, loss = setting["rows"], 0, float("inf")
    while taken < setting["steps"] and not loss <= setting["target"]:
        order = torch.randperm(len(X), generator=generator)
        for batch in order.tensor_split(max(1, len(X) // BATCH)):
            net.train()
            optimizer.zero_grad()
            F.cross_entropy(net(X[batch]), y[batch]).backward()
            optimizer.step()
            taken += 1
            if taken % setting["every"] == 0 or taken == setting["steps"]:
                loss = _loss(net.eval(), X[:rows], y[:rows])
                if loss <= setting["target"] or taken == setting["steps"]:
                    break
    if not np.isfinite(loss):
        raise TrueriskError("training diverged; lower its rate.")
    return net.eval().to(memory_format=torch.contiguous_format), taken, loss  # type: ignore[call-overload]


def _loss(net: nn.Module, X: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float(F.cross_entropy(net(X), y))


def _plane(net: nn.Module, setting: Setting, number: int) -> Plane:
    return random_plane(weights_of(net), derive(setting["seed"], "planes"), number, PUBLISHED)


def _distance(rays: Sequence[float]) -> float:
    """The median; 1, the end of the window, where the loss does not double within it."""
    return min(1.0, float(np.median(rays)))


def _numbers(surface: Surface) -> dict[str, float]:
    numbers = read(surface)
    return {"doubling": _distance(surface.rays), "nonconvex": numbers.nonconvex, "highest": numbers.highest}


def _rounded(surface: Surface) -> list[list[float | None]]:
    return [[float(f"{v:.{DIGITS}g}") if np.isfinite(v) else None for v in row] for row in surface.loss]


# ---- what rescaling leaves as it is ----------------------------------------------------------------------------------


def by_layer(symmetry: Symmetry, seed: int) -> Tensor:
    """Log factors that are equal for all units of a layer."""
    group = torch.from_numpy(np.asarray(symmetry.group_of)).long()
    generator = torch.Generator().manual_seed(derive(seed, "layers"))
    return torch.randn(int(group.max()) + 1, generator=generator, dtype=torch.float64)[group]


def _exact(net: nn.Module, train: Data, setting: Setting) -> Record:
    """Largest relative differences between a network and its twins in float64, of outputs and of surfaces."""
    net = copy.deepcopy(net).double()
    X, y = train.X[:EXACT_ROWS].astype(np.float64), train.y[:EXACT_ROWS]
    symmetry = find_symmetry(net, torch.from_numpy(X[:1]))
    unit = setting["std"] * symmetry.random(1.0, derive(setting["seed"], "twin"))
    layers, units = (symmetry.rescale(net, u) for u in (setting["std"] * by_layer(symmetry, setting["seed"]), unit))
    before, after = outputs(net, X), outputs(units, X)
    return {
        "channels": symmetry.dim,
        "outputs_change": float((after - before).abs().max() / before.abs().max()),
        "labels_change": int((after.argmax(1) != before.argmax(1)).sum()),
        "layers_filter": _difference((net, layers), X, y, setting, PUBLISHED),
        "units_filter": _difference((net, units), X, y, setting, PUBLISHED),
        "units_elementwise": _difference((net, units), X, y, setting, "elementwise"),
    }


def _difference(pair: Sequence[nn.Module], X: np.ndarray, y: np.ndarray, setting: Setting, how: str) -> float:
    seed = derive(setting["seed"], "planes")
    planes = [random_plane(weights_of(each), seed, 0, how, EXACT_REACH) for each in pair]
    one, two = (evaluate(each, X, y, plane, EXACT_SIZE).loss for each, plane in zip(pair, planes, strict=True))
    return float((np.abs(one - two) / one).max())


def spread(values: Sequence[float]) -> float:
    """Sample standard deviation."""
    return float(np.std(np.asarray(values, dtype=float), ddof=1))


def column(planes: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [plane[name] for plane in planes]
