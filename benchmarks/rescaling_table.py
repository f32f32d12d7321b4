"""Write ``benchmarks/rescaling.md`` from the records: ``python -m benchmarks.rescaling_table``."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from truerisk.atomic import write_atomically
from truerisk.engine import Grid, Store, stored
from truerisk.lab.catalogue import load
from truerisk.lab.rescaling.columns import COLUMNS
from truerisk.lab.rescaling.published import ARCHITECTURES, BEFORE_AFTER, NOISE, noise_name
from truerisk.words import bound, nats, seen

HERE = Path(__file__).parent
HEAD = """# What rescaling gives to PAC-Bayes bounds

Made by `make certificates` from the records in `records/rescaling-bounds` (the experiment `rescaling-bounds` of the
lab, scale `paper`). The ten networks of Rouchouse, Gonon, Gribonval, and Guedj (2025, arXiv 2509.26149), and their
pairs of noise levels. Four columns: the original bound, with a tuned prior scale (delta is split over a grid of 41),
rescaled (uses no delta), and both. delta is 0.05 in total, split over sampled networks and compared priors, too. Where
several seeds were run, each cell is the mean over them ± half of their range. Bounds and KLs are rounded up.
"""
GUESSES = """The paper does not publish its training; these are guesses. Initial weights are torch's own, Adam trains on
all examples, pixels lie between 0 and 1, sigma_p = 44 sigma_q (fitted to the published bounds before rescaling).
Two guesses of sigma_q: the largest of a grid with an empirical risk of at most 5% (**widest**), or 1/44 (**standard**).
The bound is McAllester's, not cut at 1; published numbers are read off the plot (± 0.02). The distances are the bounds
here minus the published ones.
"""
TRAINED = """Means and standard deviations trained, prior around 0 with a scale of 4 / sqrt(fan-in); PAC-Bayes-kl form.
Rescaling and a tuned prior scale hardly lower the KL of a posterior that was trained against its prior.
"""
NOISY = """A convolutional network (32 and 64 channels, 512 hidden units: a guess; 62% to 63% test accuracy, the paper's
has 86%) with the published pairs of standard deviations; McAllester's form, not cut at 1. The sixth published pair was
read off the figure after these runs.
"""


def rows() -> list[dict[str, Any]]:
    """All records that are there: settings and findings in one."""
    experiment = load("rescaling-bounds")
    grid = Grid(experiment.name, experiment.task, experiment.settings("paper"), experiment.version, experiment.cost)
    return [{**done.setting, **done.record} for done in stored(grid, Store(HERE / "records"))]


def write() -> Path:
    """The whole file."""
    found = rows()
    noises = [noise_name(pair) for pair in NOISE]
    text = [HEAD]
    for guess in ("widest", "standard"):
        text += [f"## The paper's recipe on MNIST, guess {guess!r}\n", *([GUESSES] if guess == "widest" else [])]
        text += _recipe(_of(found, guess), ARCHITECTURES)
    text += ["## Trained posteriors on MNIST\n", TRAINED, *_trained(_of(found, "trained"))]
    text += ["## The grid of noise levels on CIFAR-10\n", NOISY, *_recipe(_of(found, "published"), noises)]
    path = HERE / "rescaling.md"
    write_atomically(path, "\n".join(text).encode())
    return path


def _of(found: list[dict[str, Any]], posterior: str) -> list[dict[str, Any]]:
    return [row for row in found if row["posterior"] == posterior]


def _recipe(found: list[dict[str, Any]], names: Iterable[str]) -> list[str]:
    """Four columns in McAllester's form beside what was published before and after rescaling."""
    lines = [
        "| network | seeds | original | tuned | rescaled | both | published | published, rescaled | distances |",
        "|" + "---|" * 9,
    ]
    for name in names:
        group = [row for row in found if row["row"] == name]
        before, after = BEFORE_AFTER[name]
        if not group:
            lines.append(f"| {name} | 0 |" + " |" * 4 + f" {before:.2f} | {after:.2f} | |")
            continue
        cells = [_cell(bound, group, f"{column}_mcallester", 2) for column in COLUMNS]
        apart = [_mean(group, "original_mcallester") - before, _mean(group, "rescaled_mcallester") - after]
        cells += [f"{before:.2f}", f"{after:.2f}", ", ".join(f"{value:+.2f}" for value in apart)]
        lines.append(f"| {name} | {len(group)} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _trained(found: list[dict[str, Any]]) -> list[str]:
    """Four columns in kl form, with the KL, the empirical risk and the test error of the mean network."""
    lines = [
        "| network | seeds | original | tuned | rescaled | both | KL before, after | empirical risk | test error |",
        "|" + "---|" * 9,
    ]
    for name in ARCHITECTURES:
        group = [row for row in found if row["row"] == name]
        if not group:
            lines.append(f"| {name} | 0 |" + " |" * 7)
            continue
        cells = [_cell(bound, group, f"{column}_kl_form") for column in COLUMNS]
        cells.append(", ".join(nats(_mean(group, f"{column}_kl")) for column in ("original", "rescaled")))
        cells += [_cell(seen, group, "risk"), _cell(seen, group, "test_error")]
        lines.append(f"| {name} | {len(group)} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _mean(group: list[dict[str, Any]], name: str) -> float:
    return statistics.mean(row[name] for row in group)


def _cell(rounded: Callable[[float, int], str], group: list[dict[str, Any]], name: str, digits: int = 4) -> str:
    """Mean and half of the range over seeds."""
    values = [row[name] for row in group]
    text = rounded(statistics.mean(values), digits)
    return text if len(values) < 2 else f"{text} ± {(max(values) - min(values)) / 2:.{digits}f}"


if __name__ == "__main__":
    print(write())
