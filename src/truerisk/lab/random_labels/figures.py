"""Figures and table of the experiment `random-labels`."""

from __future__ import annotations

from collections.abc import Iterator

from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Rule, Table, percent
from truerisk.lab.random_labels.claims import (
    CHANCE,
    PUBLISHED_ACCURACY,
    SMALL_FACTOR,
    by_level,
    networks,
    published_name,
)
from truerisk.lab.rows import Rows


def figures(rows: Rows) -> list[Exhibit]:
    """Learning curves, time to fit, test error, and the table of accuracies; from the runs that are there."""
    present = Rows(rows.present)
    return [_curves(present), _times(present), _test_errors(present), _table(present)]


def _curves(rows: Rows) -> Figure:
    points = [
        {"network": title, "treatment": _treatment(row), "step": step, "error": error}
        for title, some in networks(rows)
        for row in some.where(seed=0)
        for step, error in zip(row["curve_steps"], row["curve_train_error"], strict=True)
    ]
    return Figure(
        name="learning-curves",
        title="Learning what cannot be learned",
        caption=(
            "Training error against the number of updates, one panel per network (seed 0). A curve ends where all "
            "training examples are right. Look at two things: whether every curve reaches zero, also those of labels "
            "and images that mean nothing, and how much later those of random labels do."
        ),
        rows=points,
        x=Axis("step", "updates", zero=True),
        y=Axis("error", "training error", percent=True, zero=True),
        series="treatment",
        series_title="training examples",
        facet="network",
    )


def _times(rows: Rows) -> Figure:
    points: list[dict[str, Cell]] = []
    for title, some in networks(rows):
        means = by_level(some, "steps")
        if means.get(0.0):
            points += [{"network": title, "p": p, "ratio": steps / means[0.0]} for p, steps in means.items()]
    return Figure(
        name="time-to-fit",
        title="Time to fit against corruption",
        caption=(
            "Updates until all training examples are right, divided by those for true labels (mean over seeds). Each "
            "label is replaced by a random class with the probability on the horizontal axis. A run that had not "
            "fitted everything in its last epoch counts with all its updates. Look for a smooth rise by a small "
            "factor, which the paper saw on 50,000 colour images."
        ),
        rows=points,
        x=Axis("p", "probability of corruption", zero=True),
        y=Axis("ratio", "updates, relative to true labels", zero=True),
        series="network",
        series_title="network",
        rules=[Rule(1.0, "true labels"), Rule(SMALL_FACTOR, "about the largest published")],
    )


def _test_errors(rows: Rows) -> Figure:
    points: list[dict[str, Cell]] = []
    for title, some in networks(rows):
        labels = some.where(treatment=["true labels", "corrupted labels", "random labels"])
        for (p,), level in labels.groups("p"):
            errors = level.column("test_error")
            mean = sum(errors) / len(errors)
            points.append({"network": title, "p": p, "error": mean, "low": min(errors), "high": max(errors)})
    return Figure(
        name="test-error",
        title="Test error against corruption",
        caption=(
            "Error on new images with true labels, of networks that were trained until their own labels were fitted; "
            "mean, smallest and largest over seeds. Nothing but the labels tells the left end from the right one: "
            "network, size and training are the same. Look how much of the test error that leaves open."
        ),
        rows=points,
        x=Axis("p", "probability of corruption", zero=True),
        y=Axis("error", "test error", percent=True, zero=True),
        series="network",
        series_title="network",
        low="low",
        high="high",
        rules=[Rule(1 - CHANCE, "blind guess")],
    )


def _table(rows: Rows) -> Table:
    return Table(
        name="accuracies",
        title="Accuracies of all networks and treatments",
        caption=(
            "Means over seeds. Published numbers are those of Zhang et al. 2017 for 50,000 images of CIFAR-10, "
            "without crops and weight decay; networks called small are narrow copies of the published ones. Test "
            "images have the pixels treated like the training images, and always their true labels."
        ),
        columns=[
            "network",
            "data",
            "n",
            "parameters",
            "training examples",
            "training accuracy",
            "test accuracy",
            "updates",
            "published training accuracy",
            "published test accuracy",
        ],
        rows=list(_lines(rows)),
    )


def _lines(rows: Rows) -> Iterator[list[Cell]]:
    for (data, model, treatment, _), some in rows.groups("data", "model", "treatment", "p"):
        row = some.present[0]
        published = PUBLISHED_ACCURACY.get((published_name(model), treatment))
        yield [
            model,
            data,
            row["n"],
            f"{row['parameters']:,}",
            _treatment(row),
            percent(1 - some.mean("train_error"), 2),
            percent(1 - some.mean("test_error")),
            round(some.mean("steps")),
            *([f"{value:.2f} %" for value in published] if published else ["", ""]),
        ]


def _treatment(row: dict[str, Cell]) -> str:
    return f"{row['treatment']} ({row['p']})" if row["treatment"] == "corrupted labels" else str(row["treatment"])
