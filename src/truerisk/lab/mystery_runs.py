"""One network of the factorial experiment: trained once, looked at where a validation set would stop, and at the end.

A setting has ``data``, ``n``, ``n_valid``, ``n_test``, ``steps`` (of small and of large batches), the factors
``activation``, ``depth``, ``width``, ``batches``, ``start``, ``norm``, and ``seed``.

Learning rates are relative to the network: the largest of a ladder at which the loss of a few steps does not rise.
Otherwise a factor that only changes which rate is good (initial weights, depth, batch norm) would look like a cause.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.data.scaling import normalize
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.measures import Subject
from truerisk.measures.table import measure_subject
from truerisk.nets import count_errors, fold_batch_norm
from truerisk.pacbayes import rescaling_report
from truerisk.seeds import derive

MOMENTUM, LARGE = 0.9, 256  # LARGE: examples of a large batch
SMALL = 16
RATES = {"small": 1 / 16, "large": 1 / 32}  # of the largest stable rate, for small and for large batches
TRIED, TRIAL = 12, 12  # rates 1, 1/2, 1/4, ...; steps with each
CONSTANT = 0.5  # share of all steps with the full rate
LOOKS, TARGET = 40, 0.05  # how often the network is looked at; the training loss at which it ends
MEASURES = ("parameters", "spectral-product", "adaptive-sharpness", "hessian-trace")
ROWS = 200  # examples for measures that take many passes
SIGMAS = (0.03, 0.1)  # noise around the weights; delta is split over them
PRIOR, DELTA, DRAWS = 0.1, 0.05, 1  # DRAWS: networks for each example


def run(setting: Setting) -> Record:
    """Train one network; its errors, its certificate, and its measures, early stopped and at the end."""
    train, valid, test = examples(setting)
    network = build(setting, train)
    found = stable_rate(network, train, derive(setting["seed"], "rates"))
    ends, path = trained(network, setting, train, valid, found)
    if ends is None:
        return {"diverged": True, "rate": found}
    record = {"diverged": False, "rate": found, "path": path}
    for name, module in ends.items():
        record[name] = looked_at(module, setting, train, test)
    return record


def examples(setting: Setting) -> tuple[Data, Data, Data]:
    """Training, validation, and test examples, disjoint; normalized."""
    s = setting
    n = s["n"] + s["n_valid"]
    both, test = samples(s["data"], n, s["n_test"], derive(s["seed"], "examples"), s.get("data_sha256"))
    train, rest = both.take(range(s["n"])), both.take(range(s["n"], n))
    scaled, valid = normalize(train, rest)
    return scaled, valid, normalize(train, test)[1]


def build(setting: Setting, train: Data) -> nn.Module:
    """Dense layers of equal width; weights are normal with variance start^2 times 2 (ReLU) or 1 (tanh) over fan-in."""
    s = setting
    generator = torch.Generator().manual_seed(derive(s["seed"], "weights"))
    widths = [math.prod(train.input_shape), *[s["width"]] * s["depth"], train.classes]
    layers: list[nn.Module] = [nn.Flatten()]
    for i, (fan_in, fan_out) in enumerate(itertools.pairwise(widths)):
        layer = nn.Linear(fan_in, fan_out)
        gain = 2.0 if s["activation"] == "relu" else 1.0
        with torch.no_grad():
            layer.weight.normal_(0.0, s["start"] * math.sqrt(gain / fan_in), generator=generator)
            layer.bias.zero_()
        layers.append(layer)
        if i < s["depth"]:
            layers += [nn.BatchNorm1d(fan_out)] if s["norm"] == "batch" else []
            layers.append(nn.ReLU() if s["activation"] == "relu" else nn.Tanh())
    return nn.Sequential(*layers)


def batches(n: int, size: int, seed: int) -> Iterator[Tensor]:
    """Rows of batches without end; each pass has an order of its own, and no batch is smaller than the others."""
    generator = torch.Generator().manual_seed(seed)
    size = min(size, n)
    while True:
        order = torch.randperm(n, generator=generator)
        yield from order[: n - n % size].split(size)


def stable_rate(network: nn.Module, train: Data, seed: int) -> float:
    """The largest of the rates 1, 1/2, 1/4, ... at which a few steps on large batches do not raise the loss."""
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    for k in range(TRIED):
        tried = copy.deepcopy(network)
        optimizer = torch.optim.SGD(tried.parameters(), lr=2.0**-k, momentum=MOMENTUM)
        some = itertools.islice(batches(len(train), LARGE, seed), TRIAL)
        losses = [_step(tried, optimizer, X[rows], y[rows]) for rows in some]
        if all(map(math.isfinite, losses)) and max(losses[1:]) <= losses[0]:
            return 2.0**-k
    return 2.0 ** -(TRIED - 1)


def trained(
    network: nn.Module, setting: Setting, train: Data, valid: Data, stable: float
) -> tuple[dict[str, nn.Module] | None, Record]:
    """The network where its validation error is lowest, and at the target loss or last step; None if it diverged."""
    s = setting
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    size, steps = {"small": SMALL, "large": LARGE}[s["batches"]], s["steps"][s["batches"]]
    optimizer = torch.optim.SGD(network.parameters(), lr=stable * RATES[s["batches"]], momentum=MOMENTUM)
    # constant, then down to 0 in a straight line: noise of small batches would keep the loss up forever
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1.0, (1 - i / steps) / (1 - CONSTANT)))
    path: dict[str, list[float]] = {"step": [], "loss": [], "train": [], "valid": []}
    kept, best = network, math.inf
    for i, rows in enumerate(itertools.islice(batches(len(train), size, derive(s["seed"], "batches")), steps), 1):
        if not math.isfinite(_step(network, optimizer, X[rows], y[rows])):
            return None, path
        schedule.step()
        if i * LOOKS // steps == (i - 1) * LOOKS // steps:
            continue
        network.eval()
        with torch.no_grad():
            loss = F.cross_entropy(network(X), y).item()
        errors = [count_errors(network, part.X, part.y)[0] / len(part) for part in (train, valid)]
        for name, value in zip(path, (i, loss, *errors), strict=True):
            path[name].append(value)
        if errors[1] < best:
            best, kept = errors[1], copy.deepcopy(network)
        network.train()
        if loss <= TARGET:
            break
    return {"stopped": kept.eval(), "end": network.eval()}, path


def _step(network: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> float:
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(network(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def looked_at(network: nn.Module, setting: Setting, train: Data, test: Data) -> Record:
    """Errors, the certificate by noise around the weights, and the measures; batch norm is folded first."""
    folded = fold_batch_norm(network, torch.zeros(1, *train.input_shape))
    found = {name: count_errors(folded, part.X, part.y)[0] / len(part) for name, part in _named(train, test)}
    subject = Subject(folded, train, rows=ROWS, seed=derive(setting["seed"], "measures"))
    values = measure_subject(subject, only=MEASURES).values
    logs = {name: values[name].log if values[name].log is not None else _log(values[name].value) for name in values}
    return found | {"gap": found["test_error"] - found["train_error"], "logs": logs, "bound": bound(folded, train)}


def _named(train: Data, test: Data) -> list[tuple[str, Data]]:
    return [("train_error", train), ("test_error", test)]


def _log(value: float) -> float | None:
    return math.log(value) if value > 0 and math.isfinite(value) else None


def bound(network: nn.Module, train: Data) -> float:
    """McAllester's PAC-Bayes bound for noise around the rescaled weights, the best of all noises (each with its delta).

    The prior is normal around 0, its scale the best of a grid that is paid for. Above 1 it says nothing about risk;
    unlike the kl form it still tells networks apart there.
    """
    found = []
    for sigma in SIGMAS:
        how: dict[str, Any] = {
            "delta": DELTA / len(SIGMAS),
            "form": "mcallester",
            "draws": DRAWS * len(train),
            "lifted": 0,
        }
        report = rescaling_report(network, (train.X, train.y), sigma, PRIOR, **how)
        found.append(report.bounds["mcallester"]["both"])
    return min(found)
