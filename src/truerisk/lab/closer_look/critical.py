"""The critical-sample ratio (Arpit et al. 2017, section 4): how near to a decision boundary the data lie.

A point is critical if its box of radius r, in the maximum norm, holds a point that the network puts in another class.
Whether it does is searched for by LASS (Langevin adversarial sample search, the paper's algorithm 1), so the ratio
found is a lower bound of the true one. The published radius is 0.3 of 255 grey levels; a small network on digits has
no critical samples there. The radius here is 0.1 standard deviations of a whitened image, fixed in the setting; step
and noise keep their published proportions to it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.lab.closer_look.networks import build, plan_of
from truerisk.lab.closer_look.noise import NAMES, RAND_X, RAND_Y, REAL, noisy_samples, treat
from truerisk.lab.experiment import Claim, Outcome, Record, Setting
from truerisk.lab.figure import Axis, Exhibit, Figure, percent
from truerisk.lab.rows import Rows
from truerisk.seeds import derive
from truerisk.training.learn import learn

PART = "critical samples"
STEP, JITTER = 0.25 / 0.3, 0.2 / 0.3  # alpha and beta of the paper, in units of the radius
SOURCE = "Arpit et al. 2017, section 4"
AT_ONCE = 1000  # points searched at a time: the gradients of a convolutional network take 2 MB each
MIXED = (0.4, 0.8)  # noise levels of mixtures of true and random labels

_QUICK = {"data": "digits", "n": 1000, "n_test": 600, "net": "mlp", "hidden": [256], "batch": 50, "lr": 0.05,
          "halve_every": None, "epochs": 80, "every": 2, "radius": 0.1, "search": 20}  # fmt: skip
_SMOKE = {**_QUICK, "n": 150, "n_test": 100, "hidden": [32], "epochs": 6, "search": 5}
_MEDIUM = {**_QUICK, "data": "mnist", "n": 2000, "n_test": 1000, "hidden": [512], "epochs": 100, "every": 4}
_PAPER = {**_QUICK, "data": "cifar-10", "n": 50000, "n_test": 10000, "net": "cnn", "hidden": [], "batch": 128,
          "lr": 0.01, "halve_every": 15, "epochs": 200, "radius": 0.3 / 255 / 0.25, "search": 100}  # fmt: skip


def critical_grid(scale: str) -> list[Setting]:
    # 0.3/255 is about 0.3/255/0.25 standard deviations of a whitened CIFAR image, whose pixels have a deviation of 0.25
    base = {"smoke": _SMOKE, "quick": _QUICK, "medium": _MEDIUM, "paper": _PAPER}[scale]
    seeds = {"smoke": 1, "quick": 2, "medium": 2, "paper": 3}[scale]
    kinds = [(REAL, 0.0), (RAND_X, 1.0), (RAND_Y, 1.0), *((RAND_Y, level) for level in MIXED)]
    return [
        {"part": PART, **base, "noise": noise, "level": level, "seed": seed}
        for seed in range(seeds)
        for noise, level in kinds
    ]


def critical_task(setting: Setting) -> Record:
    """Train, and look for critical samples among test inputs of the same kind as the training inputs."""
    seed = setting["seed"]
    train, test = noisy_samples(
        setting["data"], setting["n"], setting["n_test"], setting["noise"], setting["level"], seed
    )
    points = treat(test, setting["noise"], setting["level"], derive(seed, "noise of the test inputs"))
    X = torch.from_numpy(points.X)
    module = build(setting["net"], train.input_shape, train.classes, setting["hidden"], derive(seed, "weights"))
    ratios: list[float] = []

    def watch(epochs: int) -> None:
        generator = torch.Generator().manual_seed(derive(seed, "search", epochs))
        parts = [search(module, x, setting["radius"], setting["search"], generator)[1] for x in X.split(AT_ONCE)]
        ratios.append(float(torch.cat(parts).double().mean()))

    curve = learn(module, train, test, plan_of(setting), until_error=None, every=setting["every"], watch=watch)
    return {
        "steps": curve.steps,
        "train_error": curve.train_error,
        "test_error": curve.test_error,
        "critical": ratios,
        "diverged": curve.diverged,
    }


def search(
    module: nn.Module, X: Tensor, radius: float, steps: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """LASS: (the points it ended at, whether each is classified otherwise than where it started).

    Each step climbs the cross-entropy of the class predicted at the start, by the sign of its gradient, adds Gaussian
    noise, and clips to the box. A point whose class has changed is left alone. ``module`` must be in eval mode.
    """
    with torch.no_grad():
        classes = module(X).argmax(dim=1)
    ends, critical = X.clone(), torch.zeros(len(X), dtype=torch.bool)
    for _ in range(steps):
        rows = (~critical).nonzero()[:, 0]
        if len(rows) == 0:
            break
        start, at = X[rows], ends[rows].requires_grad_()
        loss = F.cross_entropy(module(at), classes[rows], reduction="sum")
        (gradient,) = torch.autograd.grad(loss, at)
        jitter = torch.randn(at.shape, generator=generator, dtype=at.dtype)
        move = STEP * radius * gradient.sign() + JITTER * radius * jitter
        with torch.no_grad():
            ends[rows] = start + (at + move - start).clamp(-radius, radius)
            critical[rows] = module(ends[rows]).argmax(dim=1) != classes[rows]
    return ends, critical


def _final(rows: Rows, noise: str) -> float:
    """The last critical-sample ratio, averaged over seeds."""
    curves = rows.where(part=PART, noise=noise, level=0.0 if noise == REAL else 1.0).column("critical")
    return sum(curve[-1] for curve in curves) / len(curves)


def _noise_is_critical(rows: Rows) -> Outcome:
    real, inputs, labels = (_final(rows, noise) for noise in (REAL, RAND_X, RAND_Y))
    return Outcome(
        min(inputs, labels) >= max(2 * real, 0.05),  # a radius that finds nothing anywhere shows nothing
        f"{percent(real)} on real data, {percent(inputs)} on random inputs, {percent(labels)} on random labels",
    )


def _ratio_rises(rows: Rows) -> Outcome:
    rises = {}
    for noise in (RAND_X, RAND_Y):
        curves = rows.where(part=PART, noise=noise, level=1.0).column("critical")
        # the second look is the first at a network that has been trained
        rises[noise] = sum(curve[-1] - curve[1] for curve in curves) / len(curves)
    return Outcome(
        min(rises.values()) >= 0.1,
        f"a rise by {100 * rises[RAND_X]:.1f} points on random inputs, {100 * rises[RAND_Y]:.1f} on random labels",
    )


def _patterns_first(rows: Rows) -> Outcome:
    """Training accuracy when test accuracy is best, and how much test accuracy is lost from there to the end."""
    fits, losses = [], []
    for row in rows.where(part=PART, noise=RAND_Y, level=list(MIXED)).complete():
        best = min(range(len(row["test_error"])), key=row["test_error"].__getitem__)
        fits.append(1 - row["train_error"][best])
        losses.append(row["test_error"][-1] - row["test_error"][best])
    return Outcome(
        max(fits) <= 0.9 and min(losses) >= 0.05,
        f"at most {percent(max(fits))} training accuracy at the best test accuracy, and at least "
        f"{100 * min(losses):.1f} points of it lost afterwards",
    )


CRITICAL_CLAIMS = (
    Claim(
        "critical-noise",
        "Networks trained on noise have many more critical samples than networks trained on real data.",
        SOURCE,
        "several times as many for randX and randY on CIFAR-10 (figure 9)",
        "at least twice the critical-sample ratio of real data, and at least 5 %, on either kind of noise",
        _noise_is_critical,
    ),
    Claim(
        "critical-rise",
        "On noise the critical-sample ratio keeps rising while the network memorizes.",
        SOURCE,
        "a gradual rise to a high plateau (figure 9)",
        "a rise by at least 10 points from the first epochs to the last",
        _ratio_rises,
    ),
    Claim(
        "patterns-first",
        "With partly random labels, test accuracy is best before the training set is fitted, and falls afterwards.",
        SOURCE,
        "for noise levels 0.2 to 0.8 the best validation accuracy comes before a high training accuracy (figures 7, 8)",
        "at most 90 % training accuracy at the best test accuracy and a later loss of at least 5 points, in every run",
        _patterns_first,
    ),
)


def critical_figures(rows: Rows) -> list[Exhibit]:
    ratios, errors = [], []
    for row in rows.where(part=PART, seed=0):
        name = NAMES[row["noise"]] if row["level"] in (0.0, 1.0) else f"{percent(row['level'], 0)} random labels"
        ratios += [
            {"step": step, "ratio": ratio, "noise": name}
            for step, ratio in zip(row["steps"], row["critical"], strict=True)
        ]
        if row["level"] in MIXED:
            for kind in ("train", "test"):
                errors += [
                    {"step": step, "accuracy": 1 - error, "examples": kind, "noise": name}
                    for step, error in zip(row["steps"], row[f"{kind}_error"], strict=True)
                ]
    return [
        Figure(
            "critical-samples",
            "How many points lie next to a decision boundary?",
            "The fraction of test points (Gaussian ones for random inputs) for which a search in a small box finds a "
            "point of another class, as training goes on. It is a lower bound. A high ratio means a decision function "
            "that twists between the data; compare noise with real data.",
            ratios,
            Axis("step", "steps of SGD"),
            Axis("ratio", "critical samples, at least", percent=True, zero=True),
            series="noise",
            series_title="training data",
        ),
        Figure(
            "patterns-first",
            "Are patterns learned before noise?",
            "Accuracy on training examples, of which some have random labels, and on test examples with true labels. "
            "Look for a test accuracy that is best while the training accuracy is still low: what is shared between "
            "examples is learned before what is peculiar to one.",
            errors,
            Axis("step", "steps of SGD"),
            Axis("accuracy", "accuracy", percent=True, zero=True),
            series="examples",
            facet="noise",
        ),
    ]
