"""Which regularizers hinder memorization (Arpit et al. 2017, section 5)?

For each regularizer and strength, two networks: one trained on random labels, whose final training accuracy says how
well it still memorizes, and one trained on real data, whose best test accuracy says how well it still learns. A good
regularizer takes away the first and leaves the second: its curve is flat.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable

import torch
from torch import Tensor, nn

from truerisk.lab.closer_look.critical import search
from truerisk.lab.closer_look.networks import build, plan_of
from truerisk.lab.closer_look.noise import RAND_Y, REAL, noisy_samples
from truerisk.lab.experiment import Claim, Outcome, Record, Setting
from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, percent
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.seeds import derive
from truerisk.training.learn import learn

PART = "regularizers"
SOURCE = "Arpit et al. 2017, section 5 and figure 10"
NONE, DROPOUT, ADVERSARIAL, DECAY = "none", "dropout", "dropout and adversarial", "weight decay"
FIELDS = {DROPOUT: "dropout", ADVERSARIAL: "dropout", "input dropout": "input_dropout", "input noise": "input_noise",
          "hidden noise": "hidden_noise"}  # fmt: skip
LEVEL = 0.5  # of the training accuracy on random labels: about half way between chance and a perfect memory

# Published ranges: dropout and input dropout 0 to 0.9, input noise 0 to 5, hidden noise 0 to 0.3, weight decay 0 to 1.
# The ReLU outputs of a whitened digit are not those of a CIFAR image behind batch norm: hidden noise goes further here.
_STRENGTHS: dict[str, list[float]] = {
    DROPOUT: [0.25, 0.5, 0.75, 0.9],
    "input dropout": [0.25, 0.5, 0.75, 0.9],
    "input noise": [0.25, 0.5, 1.0, 2.0, 5.0],
    "hidden noise": [0.3, 1.0, 2.0, 4.0],
    DECAY: [0.003, 0.01, 0.03, 0.1],
    ADVERSARIAL: [0.1, 0.25, 0.5, 0.75, 0.9],
}
_PUBLISHED: dict[str, list[float]] = {
    DROPOUT: [0.1, 0.25, 0.5, 0.75, 0.9],
    "input dropout": [0.1, 0.25, 0.5, 0.75, 0.9],
    "input noise": [0.1, 0.25, 0.5, 1.0, 2.0, 5.0],
    "hidden noise": [0.05, 0.1, 0.2, 0.3],
    DECAY: [0.0001, 0.001, 0.01, 0.1, 1.0],
    ADVERSARIAL: [0.03, 0.1, 0.25, 0.5],
}
_QUICK = {"data": "digits", "n": 500, "n_test": 1000, "net": "mlp", "hidden": [256], "batch": 50, "lr": 0.05,
          "halve_every": None, "epochs": 100, "every": 4, "radius": 0.1, "search": 2}  # fmt: skip
_BASES = {
    "smoke": {**_QUICK, "n": 100, "n_test": 100, "hidden": [32], "epochs": 4},
    "quick": _QUICK,
    "medium": {**_QUICK, "data": "mnist", "n": 1000, "n_test": 2000, "hidden": [512]},
    "paper": {**_QUICK, "data": "cifar-10", "n": 45000, "n_test": 5000, "net": "cnn", "hidden": [], "batch": 128,
              "lr": 0.01, "halve_every": 15, "radius": 0.3 / 255 / 0.25, "search": 10},
}  # fmt: skip


def regularizers_grid(scale: str) -> list[Setting]:
    strengths = {"smoke": {DROPOUT: [0.5], DECAY: [0.1], ADVERSARIAL: [0.5], "input noise": [1.0]}, "paper": _PUBLISHED}
    runs = [(NONE, 0.0)] + [
        (name, value) for name, values in strengths.get(scale, _STRENGTHS).items() for value in values
    ]
    seeds = {"smoke": 1, "quick": 2, "medium": 1, "paper": 1}[scale]
    return [
        # half of each batch is adversarial; the published share is 0.2 to 0.7
        {"part": PART, **_BASES[scale], "share": 0.5 if name == ADVERSARIAL else 0.0, "regularizer": name,
         "strength": value, "noise": noise, "seed": seed}
        for seed in range(seeds) for name, value in runs for noise in (REAL, RAND_Y)
    ]  # fmt: skip


def regularizers_task(setting: Setting) -> Record:
    seed, name = setting["seed"], setting["regularizer"]
    train, test = noisy_samples(setting["data"], setting["n"], setting["n_test"], setting["noise"], 1.0, seed)
    built_in = {FIELDS[name]: setting["strength"]} if name in FIELDS else {}
    weights = derive(seed, "weights")
    module = build(setting["net"], train.input_shape, train.classes, setting["hidden"], weights, **built_in)
    plan = plan_of(setting, weight_decay=setting["strength"] if name == DECAY else 0.0)
    share = setting["share"]
    augment = adversarial(module, share, setting["radius"], setting["search"]) if share else None
    curve = learn(module, train, test, plan, until_error=None, every=setting["every"], augment=augment)
    return {
        "train_accuracy": 1 - curve.train_error[-1],
        "best_accuracy": 1 - curve.best_test_error,
        "diverged": curve.diverged,
    }


def adversarial(module: nn.Module, share: float, radius: float, steps: int) -> Callable[[Tensor], Tensor]:
    """Batches in which each input is, with probability ``share``, the end point of an adversarial search from it.

    Its expected loss is (1 - share) times the loss on plain inputs plus share times that on adversarial ones.
    """

    def augment(X: Tensor) -> Tensor:
        module.eval()
        ends, _ = search(module, X, radius, steps)
        module.train()
        chosen = torch.rand(len(X)) < share
        return torch.where(chosen.view(-1, *[1] * (X.ndim - 1)), ends, X)

    return augment


def crossing(curve: list[tuple[float, float]], level: float) -> float | None:
    """The y at which a curve of points (x, y), in order of strength, first falls to x = level; None if it never does.

    >>> crossing([(1.0, 0.9), (0.8, 0.9), (0.2, 0.6)], level=0.5)
    0.75
    """
    for (x0, y0), (x1, y1) in itertools.pairwise(curve):
        if x0 > level >= x1:
            return y0 + (y1 - y0) * (x0 - level) / (x0 - x1)
    return None


def _curve(rows: Rows, name: str) -> list[tuple[float, float, float]]:
    """(strength, training accuracy on random labels, best test accuracy on real data), from none to strong."""
    points = []
    for regularizer in (NONE, name):
        for (strength,), some in rows.where(part=PART, regularizer=regularizer).groups("strength"):
            memory = some.where(noise=RAND_Y).mean("train_accuracy")
            points.append((strength, memory, some.where(noise=REAL).mean("best_accuracy")))
    return sorted(points)


def _kept(rows: Rows) -> dict[str, float | None]:
    """The test accuracy that each regularizer keeps where it halves the training accuracy on random labels."""
    names = [name for (name,), _ in rows.where(part=PART).groups("regularizer") if name != NONE]
    return {name: crossing([(x, y) for _, x, y in _curve(rows, name)], LEVEL) for name in names}


def _said(kept: dict[str, float | None]) -> str:
    return ", ".join(
        f"{percent(y)} with {name}" if y is not None else f"{name} never there" for name, y in kept.items()
    )


def _dropout_is_best(rows: Rows) -> Outcome:
    kept = _kept(rows)
    mine = kept[DROPOUT]
    others = [y for name, y in kept.items() if name not in (DROPOUT, ADVERSARIAL) and y is not None]
    if not others:
        raise IncompleteError("no other regularizer halves the memory")
    # the mean over two seeds of 1000 test examples at 95 % is known to half a point
    seen = mine is not None and all(mine >= y - 0.005 for y in others)
    return Outcome(seen, _said(kept))


def _adversarial_helps(rows: Rows) -> Outcome:
    kept = _kept(rows)
    both = kept[ADVERSARIAL]
    others = [y for name, y in kept.items() if name != ADVERSARIAL and y is not None]
    if not others:
        raise IncompleteError("no other regularizer halves the memory")
    seen = kept[DROPOUT] is not None and both is not None and all(both >= y - 0.005 for y in others)
    return Outcome(seen, _said(kept))


def _costs_nothing(rows: Rows) -> Outcome:
    curve = _curve(rows, DROPOUT)
    _, memory, plain = curve[0]
    strong = [point for point in curve[1:] if point[1] <= LEVEL]
    if memory < 0.9 or not strong:  # no memory to take away, or none taken
        return Outcome(
            False,
            f"{percent(memory)} training accuracy on random labels without dropout, {percent(curve[-1][1])} with most",
        )
    strength, x, y = max(strong, key=lambda point: point[2])
    return Outcome(
        y >= plain - 0.01,
        f"{percent(x)} training accuracy on random labels at dropout {strength:g}, with a test accuracy on real data "
        f"of {percent(y)} ({percent(plain)} without dropout)",
    )


REGULARIZER_CLAIMS = (
    Claim(
        "dropout-best",
        "Of all regularizers, dropout hinders memorization at the least cost to learning.",
        SOURCE,
        "the flattest curve of all; no number",
        "a best test accuracy at half the memory (50 % training accuracy on random labels, between two strengths on a "
        "straight line) that no other regularizer, dropout with adversarial training aside, beats by more than half a "
        "point",
        _dropout_is_best,
    ),
    Claim(
        "dropout-adversarial",
        "Dropout together with adversarial training is best of all.",
        SOURCE,
        "the best curve together with dropout alone; no number",
        "at half the memory a best test accuracy that no other regularizer beats by more than half a point",
        _adversarial_helps,
    ),
    Claim(
        "dropout-free",
        "Well chosen dropout takes away the memory for random labels without harm to generalization on real data.",
        "Arpit et al. 2017, abstract and section 5",
        "no harm on real data; no number",
        "at most 50 % training accuracy on random labels with a best test accuracy on real data at most a point lower",
        _costs_nothing,
    ),
)


def regularizers_figures(rows: Rows) -> list[Exhibit]:
    complete = Rows(rows.where(part=PART))  # a figure may have gaps
    points: list[dict[str, Cell]] = []
    for (name, strength), some in complete.groups("regularizer", "strength"):
        memory = [row["train_accuracy"] for row in some if row["noise"] == RAND_Y]
        real = [row["best_accuracy"] for row in some if row["noise"] == REAL]
        if memory and real:
            points.append({
                "memory": statistics.fmean(memory), "error": 1 - statistics.fmean(real), "regularizer": name,
                "strength": strength,
            })  # fmt: skip
    return [
        Figure(
            "regularizers",
            "What does it cost to take the memory away?",
            "Each point is a regularizer at one strength: to the left, the less a network can memorize random labels; "
            "the lower, the better one learns from real data. A good regularizer goes left without going up.",
            sorted(points, key=lambda point: (str(point["regularizer"]), point["memory"])),
            Axis("memory", "final training accuracy on random labels", percent=True),
            Axis("error", "lowest test error on real data", percent=True, log=True),
            series="regularizer",
        )
    ]
