"""The runs of `good-bad-minima`: networks with the same training loss that differ in what else they were made to fit.

    good     fits the n training examples
    control  fits them and 2n further examples with their true labels: as many labels as the bad network fits
    bad      fits them and 2n further examples with wrong labels (poison)

All three start from the same weights and learn by Adam on all their examples at once. The bad network trains until the
loss on its 3n examples is at most ``until``; the others until their losses reach its loss on the n training examples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from truerisk.bounds import chernoff_upper, clopper_pearson, clopper_pearson_lower, pac_bayes_kl
from truerisk.bounds.pac_bayes import LEAST_N
from truerisk.data import Data
from truerisk.data.poison import wrong_labels
from truerisk.data.scaling import normalize
from truerisk.data.toy import generate_toy
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.measures import measure
from truerisk.measures.basin import basin_radius, errors_under_noise
from truerisk.names import TOYS
from truerisk.nets import mlp
from truerisk.seeds import derive
from truerisk.training.full_batch import Descended, descend, one_of, stacked_weights
from truerisk.training.unrolled import Weights, forward

KINDS = ("good", "control", "bad")
LEVELS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)  # of the noise on the weights
MEASURES = (
    "hessian-trace", "hessian-top", "pacbayes-magnitude-flatness", "adaptive-sharpness",
    "path-norm-l2-squared", "spectral-product", "spectral-product-over-margin", "distance-l2", "fisher-rao",
    "input-gradient-norm", "inverse-margin", "median-margin", "parameters",
)  # fmt: skip
BOUNDS = ("path-norm-root", "spectral-covering-init", "spectral-pac-bayes")
SIDE, REACH = 41, 2.6  # of a map of the plane
FRESH, DELTA = 100, 0.05  # examples of a hold-out bound, and the failure probability of all bounds
SIGMAS = tuple(2.0**-k for k in range(1, 13))  # standard deviations of a posterior
SCALES = tuple(2.0**-k for k in range(-3, 9))  # of a prior
DRAWS = 50
BOTH_STEPS = (0.2, 0.002)  # step sizes of the descent that goes on from the bad network


def parts(setting: Setting) -> tuple[Data, Data, Data]:
    """Training examples, the pool that poison comes from, and test examples, normalized by the training examples."""
    n = setting["n"]
    several, test = drawn(setting, 3 * n)
    train = several.take(range(n))
    several, test = normalize(train, several)[1], normalize(train, test)[1]
    return several.take(range(n)), several.take(range(n, 3 * n)), test


def drawn(setting: Setting, count: int) -> tuple[Data, Data]:
    """So many examples to learn from, and test examples; toy data with the noise of the setting."""
    s, seed = setting, derive(setting["seed"], "examples")
    if s["data"] not in TOYS:
        return samples(s["data"], count, s["n_test"], seed, s.get("data_sha256"))
    both = (("train", count), ("test", s["n_test"]))
    first, second = (generate_toy(s["data"], size, derive(seed, part) % 2**32, s["noise"]) for part, size in both)
    return first, second


def tensors(data: Data) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(data.floats().X).flatten(1), torch.from_numpy(data.y)


def errors(weights: Weights, data: Data) -> list[float]:
    """The error rate of each network."""
    X, y = tensors(data)
    with torch.no_grad():
        return [float(e) for e in (_outputs(weights, X).argmax(2) != y).double().mean(1)]


def _outputs(weights: Weights, X: Tensor) -> Tensor:
    return torch.cat([forward(weights, some.expand(len(weights[0]), -1, -1)) for some in X.split(1000)], dim=1)


def losses(weights: Weights, data: Data) -> Tensor:
    X, y = tensors(data)
    with torch.no_grad():
        logs = torch.log_softmax(_outputs(weights, X).double(), 2)
        return -logs.gather(2, y.expand(len(logs), -1)[..., None]).squeeze(2).mean(1)


def trained(setting: Setting, train: Data, pool: Data) -> tuple[Weights, Descended, Descended]:
    """(initial weights of one network, networks with rising numbers of poisoned examples, good and control)."""
    s, n = setting, setting["n"]
    (X, y), (more, right), wrong = tensors(train), tensors(pool), tensors(wrong_labels(pool))[1]
    start = stacked_weights([X.shape[1], *s["hidden"], train.classes], [derive(s["seed"], "weights")])
    inputs, how = torch.cat([X, more]), {"lr": s["lr"], "steps": s["steps"], "rule": "adam"}
    sizes = [n + count for count in poisoned(s)]
    counts = torch.stack([_weights(n, size) for size in sizes])
    bad = descend(_copies(start, len(sizes)), inputs, torch.cat([y, wrong]), until=s["until"], counts=counts, **how)
    same = float(losses(bad.weights, train)[-1])
    counts = torch.stack([_weights(n, size) for size in (n, 3 * n)])
    good = descend(_copies(start, 2), inputs, torch.cat([y, right]), until=min(same, s["until"]), counts=counts, **how)
    return one_of(start, 0), bad, good


def _weights(n: int, size: int) -> Tensor:
    """How often each of 3n examples counts: training examples as much, in all, as the further ones up to ``size``."""
    places = torch.arange(3 * n)
    return torch.where(places < n, (size - n) / n if size > n else 1.0, (places < size).float())


def poisoned(setting: Setting) -> list[int]:
    """Numbers of poisoned examples, besides none."""
    return [round(share * setting["n"]) for share in setting["shares"]]


def _copies(weights: Weights, count: int) -> Weights:
    return [part.expand(count, -1, -1) for part in weights]


def run_poison(setting: Setting) -> Record:
    """Good, control, and bad networks of one draw of examples: errors, basins, measures, and bounds."""
    train, pool, test = parts(setting)
    start, bad, good = trained(setting, train, pool)
    seed, finite = setting["seed"], bool(torch.cat([bad.losses, good.losses]).isfinite().all())
    if not finite:
        return {"diverged": True}
    three = {"good": one_of(good.weights, 0), "control": one_of(good.weights, 1), "bad": one_of(bad.weights, -1)}
    stacked = [torch.stack([one[k] for one in three.values()]) for k in range(len(start))]
    whole = [part if part.ndim == 3 else part[:, None] for part in stacked]
    X, y = tensors(train)
    basins = {
        kind: errors_under_noise(one, X, y, LEVELS, draws=50, seed=derive(seed, "basin")) for kind, one in three.items()
    }
    modules = {kind: as_module(one, train, setting["hidden"]) for kind, one in three.items()}
    first = as_module(start, train, setting["hidden"])
    fresh = test.take(range(min(FRESH, len(test))))
    record = {
        "poisoned": [0, *poisoned(setting)],
        "train_errors": [errors(whole, train)[0], *errors(bad.weights, train)],
        "test_errors": [errors(whole, test)[0], *errors(bad.weights, test)],
        "reached": [bool(good.reached[0]), *bad.reached.tolist()],
        "errors": dict(zip(KINDS, errors(whole, test), strict=True)),
        "losses": dict(zip(KINDS, losses(whole, train).tolist(), strict=True)),
        "basins": basins,
        "radii": {kind: basin_radius(LEVELS, found) for kind, found in basins.items()},
        "measures": {
            kind: measured(module, train, first, derive(seed, "measures")) for kind, module in modules.items()
        },
        "twin_trace": measured(twin(modules["good"]), train, first, 0, ("hessian-trace",))["hessian-trace"],
        "pac_bayes": {kind: around(one, start, train, derive(seed, "posterior")) for kind, one in three.items()},
        "hold_out": {kind: holdout(errors(_stacked(one), fresh)[0], len(fresh)) for kind, one in three.items()},
        "diverged": False,
    }
    return {**record, **onward(setting, whole, train, test), **maps(setting, train, pool, good, bad)}


def _stacked(one: Weights) -> Weights:
    return [part[None] if part.ndim == 2 else part[None, None] for part in one]


def as_module(weights: Weights, data: Data, hidden: Sequence[int]) -> nn.Module:
    module = mlp(data.input_shape, data.classes, hidden)
    with torch.no_grad():
        for own, given in zip(module.parameters(), weights, strict=True):
            own.copy_(given.T if given.ndim == 2 else given)
    return module


def twin(module: nn.Module, factor: float = 100.0) -> nn.Module:
    """Equivalent weights: those into the first hidden layer times ``factor``, those out of it divided by it."""
    layers = [layer for layer in module.children() if isinstance(layer, nn.Linear)]
    copies = [nn.Linear(layer.in_features, layer.out_features) for layer in layers]
    for copy, layer in zip(copies, layers, strict=True):
        copy.load_state_dict(layer.state_dict())
    with torch.no_grad():
        copies[0].weight.mul_(factor)
        copies[0].bias.mul_(factor)
        copies[1].weight.div_(factor)
    found: list[nn.Module] = [nn.Flatten()]
    for copy in copies[:-1]:
        found += [copy, nn.ReLU()]
    return nn.Sequential(*found, copies[-1])


def measured(
    module: nn.Module, train: Data, start: nn.Module, seed: int, names: Sequence[str] = (*MEASURES, *BOUNDS)
) -> dict[str, float | None]:
    """Measures and bounds by name; None where one is not defined or not finite."""
    found = measure(module, train.floats(), start, only=names, seed=seed % 2**31, delta=DELTA)
    values = {name: found[name] if name not in found.skipped else math.nan for name in names}
    return {name: float(f"{value:.6g}") if math.isfinite(value) else None for name, value in values.items()}


def around(weights: Weights, start: Weights, train: Data, seed: int) -> float:
    """A PAC-Bayes bound for Gaussian noise on the weights, from the training examples alone.

    Q = N(w, sigma^2), P = N(w_0, scale^2) with w_0 the initial weights. The scale and the sigma are the best of a list;
    delta is split over the scales, and half of it over the estimates of the empirical risk.
    """
    if len(train) < LEAST_N:
        return 1.0
    X, y = tensors(train)
    size = sum(part.numel() for part in weights)
    distance = sum(float((w - w_0).double().square().sum()) for w, w_0 in zip(weights, start, strict=True))
    generator, best = torch.Generator().manual_seed(seed), 1.0
    for sigma in SIGMAS:
        kls = (0.5 * (distance + size * sigma**2) / c**2 - 0.5 * size + size * math.log(c / sigma) for c in SCALES)
        noise = [torch.randn((DRAWS, *part.shape), generator=generator) for part in weights]
        moved = [part + sigma * drawn for part, drawn in zip(weights, noise, strict=True)]
        stacked = [part if part.ndim == 3 else part[:, None] for part in moved]
        with torch.no_grad():
            wrong = (forward(stacked, X.expand(DRAWS, -1, -1)).argmax(2) != y).double().mean(1)
        risk = chernoff_upper(float(wrong.mean()), DRAWS, DELTA / 2 / len(SIGMAS))
        best = min(best, pac_bayes_kl(risk, max(0.0, min(kls)), len(train), DELTA / 2 / len(SCALES)))
    return best


def holdout(error: float, n: int) -> list[float]:
    """Lower and upper end of the true error from the errors on fresh examples, each with half of delta."""
    count = round(error * n)
    return [clopper_pearson_lower(count, n, DELTA / 2), clopper_pearson(count, n, DELTA / 2)]


def onward(setting: Setting, three: Weights, train: Data, test: Data) -> Mapping[str, object]:
    """Gradient descent from the bad network on the true examples alone, in large and in small steps."""
    X, y = tensors(train)
    bad, found = [part[-1:] for part in three], []
    for lr in BOTH_STEPS:
        later = descend(bad, X, y, lr=lr, steps=setting["onward"], rule="gd", until=setting["until"] / 10)
        found.append(errors(later.weights, test)[0])
    return {"onward_errors": found}


def maps(setting: Setting, train: Data, pool: Data, good: Descended, bad: Descended) -> Mapping[str, object]:
    """Of examples in the plane: the class at each place of a grid, one text for each line, and the examples."""
    if train.input_shape != (2,) or train.classes > 10 or not setting.get("maps"):
        return {}
    ticks = torch.linspace(-REACH, REACH, SIDE)
    grid = torch.stack(torch.meshgrid(ticks, ticks, indexing="xy"), dim=-1).reshape(-1, 2)
    both = [torch.cat([a[:1], b]) for a, b in zip(good.weights, bad.weights, strict=True)]
    with torch.no_grad():
        classes = _outputs(both, grid).argmax(2).reshape(-1, SIDE, SIDE)
    dots = {"train": train, "pool": pool}
    return {
        "planes": [["".join(map(str, line)) for line in one.tolist()] for one in classes],
        "dots": {name: [[round(float(v), 3) for v in x] for x in data.X] for name, data in dots.items()},
        "labels": {name: data.y.tolist() for name, data in dots.items()},
    }


def run_starts(setting: Setting) -> Record:
    """Full-batch gradient descent from many random starts: how many end where they fit but err like guessing?"""
    s = setting
    train, test = normalize(*drawn(s, s["n"]))
    (X, y), starts = tensors(train), [derive(s["seed"], "start", k) for k in range(s["starts"])]
    start = stacked_weights([X.shape[1], *s["hidden"], train.classes], starts, s["scale"])
    end = descend(start, X, y, lr=s["lr"], steps=s["steps"], rule="gd", until=s["until"])
    fits = [error == 0 for error in errors(end.weights, train)]
    found = sorted(error for error, fit in zip(errors(end.weights, test), fits, strict=True) if fit)
    return {"fitted": sum(fits), "found": [round(error, 4) for error in found], "diverged": False}
