"""The lesson of `random-labels`: training error cannot tell learning from memorizing; new images can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.data.randomization import randomize
from truerisk.data.scaling import is_images, shrink_images
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.random_labels import (
    CORRUPTED,
    FIGURE_1B,
    NOISE,
    PUBLISHED,
    RANDOM,
    SHUFFLED,
    SIDE,
    TRUE,
)
from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Images, Rule, Table, percent
from truerisk.lab.lesson import Finding, Lesson, Question
from truerisk.lab.marks import Line, Points, Slope
from truerisk.lab.rows import Row, Rows
from truerisk.lab.samples import samples
from truerisk.lab.spelling import spell
from truerisk.lab.strips import class_words, one_of_each, strip, strips
from truerisk.lab.units import PERCENT, TIMES

ON = {"training images": "train_error", "new images": "test_error"}
KINDS = (TRUE, SHUFFLED, RANDOM, *NOISE)  # in the order in which they are shown
# One network of each family is shown where each has a panel, and two of them on top: they are read from afar.
MLP, ALEXNET, INCEPTION = ("mlp-1x512",), ("alexnet", "alexnet-small"), ("inception", "inception-small")
PLACES = 60  # of a learning curve
TILES = 10


def figures(rows: Rows) -> list[Exhibit]:
    runs = rows.converged().having(network=_network(rows), examples=_examples)
    labels = runs.where(treatment=(TRUE, CORRUPTED, RANDOM))
    guess = Rule(1 - 1 / max(runs.values("classes"), default=10), "guessing")
    swept = labels.where(model=FIGURE_1B)
    return [
        _errors(_shown(labels, MLP, INCEPTION), guess),
        _learning_curves(swept),
        _test_error(swept, guess),
        _treatments(_shown(runs, MLP, ALEXNET, INCEPTION), guess),
        _time(runs),
        _table(runs),
    ]


def _network(rows: Rows) -> Any:
    """The name of a run's network, with its data where there are several."""
    several = len(rows.values("data")) > 1
    return lambda row: spell(row["model"]) + (f", {spell(row['data'])}" if several else "")


def _examples(row: Row) -> str:
    return f"{percent(row['p'], 0)} {CORRUPTED}" if row["treatment"] == CORRUPTED else row["treatment"]


def _shown(runs: Rows, *families: tuple[str, ...]) -> Rows:
    """The runs of these networks on the first data set."""
    return runs.where(model=sum(families, ()), data=runs.values("data")[:1])


def _on_both(runs: Rows) -> Rows:
    """Each run twice: its error on training images, and on new ones."""
    both = runs.longer("error", ON, into="measured on")
    return both.having(**{"counted on": lambda row: row["n" if row["measured on"] == "training images" else "n_test"]})


def _errors(runs: Rows, guess: Rule) -> Figure:
    return Figure(
        "errors",
        "Error on training images and on new ones",
        "Error after training on true labels, and after training on random labels; answers for new images are compared "
        "with their true labels. A flat line at 0 means that every training label is fitted, random or not. If the "
        "training error showed how well a network generalizes, the line of new images would be flat as well.",
        _on_both(runs.where(treatment=(TRUE, RANDOM))),
        Axis("treatment", "", ordinal=True),
        Axis("error", "error", PERCENT, zero=True, counted_on="counted on"),
        Slope(),
        series="measured on",
        series_title="error on",
        facet="network",
        rules=[guess],
        claims=("fits-everything", "generalizes", "chance"),
    )


def _learning_curves(runs: Rows) -> Figure:
    return Figure(
        "learning-curves",
        "How long does it take to fit wrong labels?",
        "Training error against the number of updates; move the slider to corrupt more labels. Training stops when "
        "every label is fitted, and the curve stays at 0 from there on. If networks could fit only labels that have a "
        "pattern, the curves of corrupted labels would stay high.",
        _on_common_steps(runs),
        Axis("step", "updates", zero=True),
        Axis("error", "training error", PERCENT, zero=True),
        Line(points=False),
        series="network",
        slider=Axis("p", "labels corrupted", PERCENT),
        claims=("slower-with-corruption",),
    )


def _on_common_steps(runs: Rows) -> list[dict[str, Any]]:
    """Learning curves at the same numbers of updates in all runs; a run that has fitted all labels stays at 0."""
    places = np.linspace(0, max((run["steps"] for run in runs), default=0), PLACES + 1)
    found = []
    for run in runs:
        here = places if run["fitted"] else places[places <= run["steps"]]
        errors = np.interp(here, run["curve_steps"], run["curve_train_error"])
        kept = {name: run[name] for name in ("network", "p", "seed")}
        found += [{**kept, "step": float(s), "error": float(e)} for s, e in zip(here, errors, strict=True)]
    return found


def _test_error(runs: Rows, guess: Rule) -> Figure:
    return Figure(
        "test-error",
        "Error on new images against corruption",
        "Test error, counted against true labels, after training until all labels were fitted. A corrupted label is "
        "drawn from all classes, so some stay right by chance. If size or training error governed generalization, the "
        "curves would be flat.",
        runs,
        Axis("p", "labels corrupted", PERCENT, zero=True),
        Axis("test_error", "test error", PERCENT, zero=True, counted_on="n_test"),
        series="network",
        rules=[guess],
        claims=("test-error-rises",),
    )


def _treatments(runs: Rows, guess: Rule) -> Figure:
    ordered = Rows(
        sorted(runs.where(treatment=KINDS), key=lambda row: KINDS.index(row["treatment"])), fields=runs.fields
    )
    return Figure(
        "treatments",
        "From which training images can a network learn?",
        "Error on training and on new images after each treatment. One shuffle of pixels shared by all images "
        "keeps what distinguishes the classes. A separate shuffle per image (random pixels) or Gaussian noise destroys "
        "it; if the training error is 0 in all cases, it cannot tell learning from memorizing.",
        _on_both(ordered),
        Axis("treatment", "training images", ordinal=True),
        Axis("error", "error", PERCENT, zero=True, counted_on="counted on"),
        Points(),
        series="measured on",
        series_title="error on",
        facet="network",
        rules=[guess],
        claims=("fits-everything", "permutation"),
    )


def _time(runs: Rows) -> Figure:
    order = [*(f"{percent(p, 0)} {CORRUPTED}" for p in (0.25, 0.5, 0.75)), RANDOM, SHUFFLED, *NOISE]
    true = {(run["network"], run["seed"]): run for run in runs if run["treatment"] == TRUE}
    # A run that did not fit true labels gives no unit of time.
    pairs = ((run, true.get((run["network"], run["seed"]))) for run in runs if run["examples"] in order)
    ratios = [{**run, "ratio": run["steps"] / other["steps"]} for run, other in pairs if other and other["fitted"]]
    return Figure(
        "time-to-fit",
        "Time to fit, compared with true labels",
        "Updates until all training examples are fitted, relative to true labels with the same seed. The upper line is "
        "the largest published slowdown (Inception on CIFAR-10). Easy data make this ratio large, because true labels "
        "are fitted soon.",
        sorted(ratios, key=lambda row: order.index(row["examples"])),
        Axis("examples", "training examples", ordinal=True),
        Axis("ratio", "updates, relative to true labels", TIMES, zero=True),
        Points(),
        series="network",
        rules=[Rule(1.0, "true labels"), Rule(3.6, "largest published slowdown")],
        claims=("random-slower", "small-factor", "pixels-faster"),
    )


def _table(runs: Rows) -> Table:
    lines = [_line(some) for _, some in runs.groups("network", "examples")]
    return Table(
        "accuracies",
        "Accuracies of all networks and treatments",
        "Means over seeds. Accuracies below 10% happen by chance: on 500 images, the accuracy of a guess varies by 1.3 "
        "points (one standard deviation). Published accuracies (training, test) are for 50,000 images of CIFAR-10; "
        "networks called small have fewer channels.",
        ("network", "parameters", "training examples", "training accuracy", "test accuracy", "updates",
         "published accuracies"),
        lines,
    )  # fmt: skip


def _line(some: Rows) -> list[Cell]:
    row = some.present[0]
    known = PUBLISHED[row["model"].replace("-small", "")]
    published = dict(zip((TRUE, RANDOM), known[2:], strict=True)).get(row["treatment"])
    accuracies = [percent(1 - some.mean("train_error"), 2), percent(1 - some.mean("test_error"))]
    anchor = ", ".join(percent(value, 2) for value in published or ())
    return [row["network"], f"{row['parameters']:,}", row["examples"], *accuracies, round(some.mean("steps")), anchor]


def demo(setting: Setting) -> Record:
    """One training image of each class, as it is and after each treatment: those that the runs of this seed see."""
    both = samples(setting["data"], setting["n"], setting["n_test"], setting["seed"], setting.get("data_sha256"))
    train, test = (shrink_images(part, SIDE) for part in both)
    if not is_images(train):
        return {"strips": []}
    chosen = one_of_each(train, TILES)
    found = []
    for kind in KINDS:
        treated = randomize(train, test, kind, 1.0 if kind == RANDOM else 0.0, setting["seed"])[0].take(chosen)
        found.append(strip(kind, treated.X, class_words(train, treated.y), treated.y != train.y[chosen]))
    return {"strips": found}


def pictures(record: Record) -> Sequence[Exhibit]:
    shown = strips(record)
    caption = (
        "Training images of one run with the labels given to the network. Labels that differ "
        "from the image's own class are marked. Ask of each strip what a person could learn from it, and what can only "
        "be memorized."
    )
    return (
        [
            Images(
                "training-images",
                "Training images and their labels, after each treatment",
                caption,
                shown,
                ("fits-everything",),
            )
        ]
        if shown
        else []
    )


LESSON = Lesson(
    figures=figures,
    hero="errors",
    findings=(
        Finding(
            ("generalizes", "fits-everything"),
            "Networks also fit random labels, which raise test error by at least {0.low}.",
            "Some network misses training labels, or random labels raise its test error only little.",
            "It is open whether every network fits random labels and then errs far more.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Are random labels slow to fit, or are the true labels of digits just quick to learn?",
            "truerisk lab run random-labels --data mnist1d",
        ),
        Question(
            "Can a certificate tell a network that learned from a network that memorized?",
            "truerisk tour",
        ),
        Question(
            "Does a network need to be larger to fit random labels than to fit true ones?",
            "truerisk lab run capacity",
        ),
    ),
)
