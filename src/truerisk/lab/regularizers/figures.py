"""The table and the figures of the experiment `regularizers`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Rule, Table
from truerisk.lab.regularizers.claims import chosen, family, gains, standard_error
from truerisk.lab.rows import IncompleteError, Rows

# Zhang et al. 2017, Table 1 (CIFAR-10): network, crop, weight decay, labels -> training and test accuracy in percent.
PUBLISHED = {
    ("inception", True, True, "true"): ("100.0", "89.05"),
    ("inception", True, False, "true"): ("100.0", "89.31"),
    ("inception", False, True, "true"): ("100.0", "86.03"),
    ("inception", False, False, "true"): ("100.0", "85.75"),
    ("inception", False, False, "random"): ("100.0", "9.78"),
    ("inception-no-bn", False, True, "true"): ("100.0", "83.00"),
    ("inception-no-bn", False, False, "true"): ("100.0", "82.00"),
    ("inception-no-bn", False, False, "random"): ("100.0", "10.12"),
    ("alexnet", True, True, "true"): ("99.90", "81.22"),
    ("alexnet", True, False, "true"): ("99.82", "79.66"),
    ("alexnet", False, True, "true"): ("100.0", "77.36"),
    ("alexnet", False, False, "true"): ("100.0", "76.07"),
    ("alexnet", False, False, "random"): ("99.82", "9.86"),
    ("alexnet", False, True, "random"): ("failed to converge", ""),
    ("mlp-3x512", False, True, "true"): ("100.0", "53.35"),
    ("mlp-3x512", False, False, "true"): ("100.0", "52.39"),
    ("mlp-3x512", False, False, "random"): ("100.0", "10.48"),
    ("mlp-1x512", False, True, "true"): ("99.80", "50.39"),
    ("mlp-1x512", False, False, "true"): ("100.0", "50.51"),
    ("mlp-1x512", False, False, "random"): ("99.34", "10.61"),
}
CHOICES: dict[str, dict[str, bool]] = {
    "nothing": {},
    "weight decay": {"decay": True},
    "dropout": {"dropout": True},
    "random crops": {"crop": True},
    "crops and decay": {"crop": True, "decay": True},
}


def figures(rows: Rows) -> Sequence[Exhibit]:
    """All exhibits; runs that are missing leave gaps."""
    return [_table(rows), _gains(rows), _noise(rows), _curves(rows)]


def _table(rows: Rows) -> Table:
    lines: list[list[Cell]] = []
    keys = ("model", "labels", "crop", "weight_decay", "dropout")
    for (model, labels, crop, decay, dropout), some in Rows(rows).groups(*keys):
        published = ("", "") if dropout else PUBLISHED.get((family(model), crop, decay > 0, labels), ("", ""))
        runs = [some.column("train_error"), some.column("test_error")]
        ours = [f"{100 * (1 - statistics.fmean(run)):.2f}" for run in runs]
        spread = f" ± {100 * standard_error(runs[1]):.2f}" if len(some) > 1 else ""
        words = [labels, *("yes" if on else "no" for on in (crop, decay, dropout))]
        lines.append(
            [model, some.column("parameters")[0], *words, published[0], ours[0], published[1], ours[1] + spread]
        )
    return Table(
        name="table",
        title="The published table and ours, row by row (accuracies in percent)",
        caption=(
            "Published numbers are for CIFAR-10 with the large networks; the levels differ from ours, the question is "
            "whether the differences between rows do. Ours are means over seeds with the standard error of the mean; "
            "rows without published numbers are additions. Training accuracy is counted on unchanged images."
        ),
        columns=[
            *("network", "parameters", "labels", "random crop", "weight decay", "dropout"),
            *("published train", "our train", "published test", "our test"),
        ],
        rows=lines,
    )


def _gains(rows: Rows) -> Figure:
    shown: list[dict[str, Cell]] = []
    for (model,), some in Rows(rows).groups("model"):
        for name, choice in CHOICES.items():
            try:
                found = gains(chosen(some), chosen(some, **choice)) if choice else []
            except IncompleteError:  # a choice that this network is not trained with
                continue
            if found:
                mean, error = statistics.fmean(found), standard_error(found)
                shown.append({"model": model, "choice": name, "gain": mean, "low": mean - error, "high": mean + error})
    return Figure(
        name="gains",
        title="What each regularizer gains in test accuracy",
        caption=(
            "Test error without any regularizer minus test error with one, between runs that share examples, first "
            "weights and batches; bars reach one standard error over seeds to each side. Look at how far the points "
            "lie from 0 compared with the accuracy that the networks have without any help."
        ),
        rows=shown,
        x=Axis("model", "network", ordinal=True),
        y=Axis("gain", "gain in test accuracy", percent=True),
        mark="points",
        series="choice",
        series_title="regularizer",
        low="low",
        high="high",
        rules=[Rule(0.0, "no regularizer")],
    )


def _noise(rows: Rows) -> Figure:
    shown: list[dict[str, Cell]] = []
    for (model,), some in Rows(rows).groups("model"):
        for name, choice in CHOICES.items():
            found = [run["train_error"] for run in chosen(some, "random", **choice)]
            if found:
                shown.append({"model": model, "choice": name, "error": statistics.fmean(found)})
    return Figure(
        name="random-labels",
        title="Random labels: training error that is left",
        caption=(
            "Each network was trained on random labels until it fitted all of them or the epochs were over. At 0 every "
            "label is memorized in spite of the regularizer; a bar that remains means that this regularizer hindered "
            "memorization here, or slowed it beyond the epochs given."
        ),
        rows=shown,
        x=Axis("model", "network", ordinal=True),
        y=Axis("error", "training error on random labels", percent=True, zero=True),
        mark="points",
        series="choice",
        series_title="regularizer",
        rules=[Rule(0.9, "chance")],
    )


def _curves(rows: Rows) -> Figure:
    shown: list[dict[str, Cell]] = []
    for (model,), some in Rows(rows).groups("model"):
        runs = list(chosen(some))
        shown += (
            [
                {"epoch": epoch, "model": model, "error": statistics.fmean(errors)}
                for epoch, *errors in zip(runs[0]["watched"], *(run["test_curve"] for run in runs), strict=False)
            ]
            if runs
            else []
        )
    return Figure(
        name="early-stopping",
        title="Test error during training without regularizers",
        caption=(
            "Means over seeds, true labels. Early stopping could win what lies between a curve's lowest point and its "
            "end: look for curves that rise again."
        ),
        rows=shown,
        x=Axis("epoch", "epochs"),
        y=Axis("error", "test error", percent=True, zero=True),
        series="model",
        series_title="network",
        rules=[Rule(0.9, "chance")],
    )
