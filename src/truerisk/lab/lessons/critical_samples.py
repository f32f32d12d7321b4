"""The lesson of `critical-samples`: noise puts a decision boundary next to nearly every point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.critical_samples import MIXED
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Strip, Tile, percent
from truerisk.lab.images import pixels
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line, Regions
from truerisk.lab.networks import build, halving_sgd
from truerisk.lab.noise import NAMES, RAND_Y, REAL, noisy_samples
from truerisk.lab.rows import Rows
from truerisk.lab.units import PERCENT
from truerisk.measures.critical_samples import search
from truerisk.seeds import derive
from truerisk.training.learn import learn

RADII = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # of the demo, in standard deviations of an image
TRAINED = {REAL: "trained on true labels", RAND_Y: "trained on random labels"}  # the networks of the demo
TILES = 8  # of a strip
SIDE = 44  # points of the plane in each direction
MARGIN = 0.35  # of the plane around its three images
MOST = {"n": 1000, "n_test": 600, "epochs": 80, "search": 20}  # of the demo, whatever the scale
HIDDEN = 256


def figures(rows: Rows) -> list[Exhibit]:
    long = rows.converged().having(data=_name)
    long = long.unrolled(step="steps", ratio="critical", train="train_error", test="test_error")
    pure, mixed = long.where(level=[0.0, 1.0]), long.where(level=list(MIXED))
    return [_ratios(pure), _patterns(mixed), _mixtures(long.where(noise=[REAL, RAND_Y]))]


def _name(row: Mapping[str, Any]) -> str:
    mixed = row["level"] in MIXED
    return f"{percent(row['level'], 0)} random labels" if mixed else NAMES[row["noise"]]


def _ratios(rows: Rows) -> Figure:
    return Figure(
        "critical-samples",
        "How many points lie next to a decision boundary?",
        "Share of unseen inputs (Gaussian ones for random inputs) with another predicted class in a small box around "
        "them, against steps of SGD. A search finds these critical samples and can miss some, so the share is a lower "
        "bound. Higher curves on noise mean a boundary that winds between the points.",
        rows,
        Axis("step", "steps of SGD"),
        Axis("ratio", "critical samples, at least", PERCENT, zero=True, counted_on="n_test"),
        Line(points=False),
        series="data",
        series_title="training data",
        claims=("critical-noise", "critical-found", "critical-rise"),
    )


def _patterns(rows: Rows) -> Figure:
    accuracies = rows.longer("error", {"training examples": "train", "unseen examples": "test"}, into="on")
    return Figure(
        "patterns-first",
        "Are patterns learned before noise?",
        "Accuracy on training examples, some with random labels, and on unseen examples with true labels, against "
        "steps of SGD. Move the slider to change the share of random labels. If unseen examples are classified best "
        "while training accuracy is still low, networks learn shared patterns first and memorize labels later.",
        accuracies.having(accuracy=lambda row: 1 - row["error"]),
        Axis("step", "steps of SGD"),
        Axis("accuracy", "accuracy", PERCENT, zero=True, counted_on="n_test"),
        Line(points=False),
        series="on",
        slider=Axis("level", "training labels drawn at random", PERCENT),
        claims=("patterns-first", "patterns-lost"),
    )


def _mixtures(rows: Rows) -> Figure:
    return Figure(
        "critical-mixtures",
        "Do critical samples multiply while noise is memorized?",
        "Share of critical samples against steps of SGD, for four shares of random labels among the training "
        "examples. A curve that falls first and then rises belongs to networks that learned the pattern, and then bent "
        "their boundary around the wrong labels.",
        Rows(sorted(rows, key=lambda row: row["level"])).having(
            labels=lambda row: f"{percent(row['level'], 0)} random labels"
        ),
        Axis("step", "steps of SGD"),
        Axis("ratio", "critical samples, at least", PERCENT, zero=True, counted_on="n_test"),
        Line(points=False),
        series="labels",
        claims=("critical-rise",),
    )


def demo(setting: Setting) -> Record:
    """Networks for true and for random labels: neighbors in another class, critical shares by radius, a plane."""
    own = {**setting, **{name: min(setting[name], most) for name, most in MOST.items()}}
    seed = setting["seed"]
    neighbors, shares, planes = {}, {}, {}
    for noise in TRAINED:
        train, test = noisy_samples(own["data"], own["n"], own["n_test"], noise, 1.0, seed)
        module = build("mlp", train.input_shape, train.classes, [HIDDEN], derive(seed, "demo weights"))
        plan = halving_sgd({**own, "seed": derive(seed, "demo training")})
        learn(module, train, test, plan, until_error=None, every=own["epochs"])
        X = torch.from_numpy(test.X)
        found = [_searched(module, X, radius, own["search"], seed) for radius in RADII]
        shares[noise] = [float(critical.double().mean()) for _, critical in found]
        neighbors[noise] = [
            {**_nearest(module, X[i], [(ends[i], bool(hit[i])) for ends, hit in found]), "true": int(test.y[i])}
            for i in _of_each_class(test)[:TILES]
        ]
        planes[noise] = _plane(module, X[np.flatnonzero(test.y == test.y[0])[:3]])
    return {"neighbors": neighbors, "shares": shares, "planes": planes, "box": setting["radius"]}


def _searched(module: nn.Module, X: Tensor, radius: float, steps: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(derive(seed, "demo search", radius))
    return search(module, X, radius, steps, generator)


def _of_each_class(data: Data) -> list[int]:
    """The first example of each class, in the order of the classes."""
    return [int(np.flatnonzero(data.y == j)[0]) for j in range(data.classes) if (data.y == j).any()]


def _nearest(module: nn.Module, x: Tensor, found: list[tuple[Tensor, bool]]) -> Record:
    """An image, and its neighbor in another class from the smallest box that has one; the last box if none has."""
    place = next((i for i, (_, critical) in enumerate(found) if critical), len(RADII) - 1)
    end = found[place][0]
    with torch.no_grad():
        classes = module(torch.stack([x, end])).argmax(1).tolist()
    low, high = float(x.min()), float(x.max())
    half = (high - low) / 2
    return {
        "image": pixels(x.numpy(), low, high),
        "neighbor": pixels(end.numpy(), low, high),
        "difference": pixels((end - x).numpy(), -half, half),  # on the scale of the image; gray is no change
        "classes": classes,
        "reach": RADII[place],
    }


def _plane(module: nn.Module, corners: Tensor) -> list[str]:
    """The class at each point of a plane through three images, one text of classes for each row of points."""
    ticks = torch.from_numpy(_ticks()).to(corners.dtype)
    across, up = (corners[i] - corners[0] for i in (1, 2))
    rows = []
    for y in ticks:
        points = torch.stack([corners[0] + x * across + y * up for x in ticks])
        with torch.no_grad():
            rows.append(" ".join(str(j) for j in module(points).argmax(1).tolist()))
    return rows


def _ticks() -> np.ndarray:
    return np.linspace(-MARGIN, 1 + MARGIN, SIDE).round(3)


def pictures(record: Record) -> list[Exhibit]:
    if not record.get("neighbors"):
        return []
    return [_neighbors(record), _planes(record), _radii(record)]


def _neighbors(record: Record) -> Images:
    strips = []
    for noise in TRAINED:
        found = record["neighbors"][noise]
        images = [Tile(one["image"], f"class {one['classes'][0]}", one["classes"][0] != one["true"]) for one in found]
        others = [Tile(one["neighbor"], _other(one["classes"])) for one in found]
        changes = [Tile(one["difference"], f"\u2264 {one['reach']:g}") for one in found]
        names = (
            f"unseen images, {TRAINED[noise]}",
            "nearest image found in another class",
            "difference of the two images",
        )
        strips += [Strip(name, tiles) for name, tiles in zip(names, (images, others, changes), strict=True)]
    return Images(
        "neighbors",
        "How far is the next image of another class?",
        "Unseen images, and the nearest image in another class that a search found, with predicted classes (wrong ones "
        "colored). In differences, gray is no change; the number limits the change of each pixel, in standard "
        "deviations. If small changes suffice, the decision boundary is close.",
        strips,
        claims=("critical-noise",),
    )


def _other(classes: list[int]) -> str:
    return f"class {classes[1]}" if classes[0] != classes[1] else "none found"


def _planes(record: Record) -> Figure:
    ticks = _ticks().tolist()
    points = [
        {"x": x, "y": y, "class": label, "network": TRAINED[noise]}
        for noise in TRAINED
        for y, row in zip(ticks, record["planes"][noise], strict=True)
        for x, label in zip(ticks, row.split(), strict=True)
    ]
    corners = [{"x": x, "y": y, "network": TRAINED[noise]} for noise in TRAINED for x, y in ((0, 0), (1, 0), (0, 1))]
    return Figure(
        "plane",
        "What lies between three images of the same class?",
        "Predicted class on a plane through three unseen images of one true class (dots); all other points are "
        "mixtures of the three images. One region around all dots means that the network has learned the class. "
        "Several regions mean that boundaries run between images that are alike.",
        points,
        Axis("x", "share of the second image"),
        Axis("y", "share of the third image"),
        Regions("class", "predicted class"),
        facet="network",
        dots=corners,
        dots_title="unseen image",
        claims=("critical-noise",),
    )


def _radii(record: Record) -> Figure:
    shares = [
        {"radius": radius, "share": share, "network": TRAINED[noise]}
        for noise in TRAINED
        for radius, share in zip(RADII, record["shares"][noise], strict=True)
    ]
    return Figure(
        "radius",
        "How does the size of the box change the count?",
        "Share of unseen images with another predicted class in a box around them, against the radius (half the side) "
        f"of the box, in one run. The other figures use a radius of {record['box']:.2g}. A curve farther left means "
        "that the decision boundary is closer to the images.",
        shares,
        Axis("radius", "radius of the box, in standard deviations", log=True),
        Axis("share", "critical samples, at least", PERCENT, zero=True),
        Line(),
        series="network",
        claims=("critical-found",),
        group=None,
    )


LESSON = Lesson(
    figures=figures,
    hero="critical-samples",
    findings=(
        Finding(
            ("critical-noise",),
            reproduced="Training on noise puts at least {0.mean} as many points near a boundary.",
            not_reproduced="Training on {0.cell} puts only {0.mean} as many points near a boundary.",
            no_verdict="Training on {0.cell} may put {0.mean} as many points near a boundary.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "On MNIST, with images of 28 x 28 pixels, is the boundary as near to real data as on digits?",
            "truerisk lab run critical-samples --scale medium",
        ),
        Question(
            "Does dropout keep a network from memorizing the wrong labels?",
            "truerisk lab run memory-regularizers",
        ),
        Question(
            "Does a wider network put a boundary next to fewer of its training examples?",
            "truerisk measure mlp:64 mlp:512 --only critical-sample-ratio",
        ),
    ),
    formulas=(
        Formula(
            r"\max_i |x_i - \hat x_i| \le r, \quad f(x) \ne f(\hat x)",
            "A point x is critical if its box of radius r holds a point that the network f puts in another class.",
        ),
    ),
)
