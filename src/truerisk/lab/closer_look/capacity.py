"""Capacity and data size (Arpit et al. 2017, section 3.3): what it takes to fit real data, and to fit noise.

Networks with two hidden layers are trained until every training example is right. Time is counted in steps of SGD. A
run that never gets there within its epochs is kept as "not reached": its time is only known to exceed the limit, and
where that matters the limit is used, which can make the effect on noise look smaller but never larger.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from truerisk.lab.closer_look.networks import build, plan_of
from truerisk.lab.closer_look.noise import NAMES, RAND_X, RAND_Y, REAL, noisy_samples
from truerisk.lab.experiment import Claim, Outcome, Record, Setting
from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Table, percent
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.seeds import derive
from truerisk.training.learn import learn

PART = "capacity"
SOURCE = "Arpit et al. 2017, section 3.3"
HALF = 0.4  # the noise level of the mixtures

_QUICK = {"data": "digits", "n": 1000, "n_test": 600, "width": 128, "batch": 50, "lr": 0.05, "halve_every": None,
          "epochs": 150}  # fmt: skip
_BASES = {
    "smoke": {**_QUICK, "n": 120, "n_test": 100, "width": 32, "epochs": 10},
    "quick": _QUICK,
    "medium": {**_QUICK, "data": "mnist", "n": 4000, "n_test": 2000, "width": 256, "batch": 100, "epochs": 150},
    "paper": {**_QUICK, "data": "mnist", "n": 50000, "n_test": 10000, "width": 4096, "lr": 0.01, "batch": 100,
              "epochs": 1000},
}  # fmt: skip
_WIDTHS = {
    "smoke": [8, 32],
    "quick": [16, 32, 64, 128, 256],
    "medium": [64, 128, 256, 512],
    "paper": [256, 512, 1024, 2048, 4096, 8192, 16384],
}
_SIZES = {
    "smoke": [60, 120],
    "quick": [125, 250, 500, 1000],
    "medium": [500, 1000, 2000, 4000],
    "paper": [6250, 12500, 25000, 50000],
}


def capacity_grid(scale: str) -> list[Setting]:
    base, widths, sizes = _BASES[scale], _WIDTHS[scale], _SIZES[scale]
    pure = [(REAL, 0.0), (RAND_X, 1.0), (RAND_Y, 1.0)]
    mixed = [(RAND_X, HALF), (RAND_Y, HALF)]
    runs = [
        {**base, "width": width, "noise": noise, "level": level} for width in widths for noise, level in pure + mixed
    ]
    # the largest size at the middle width is in the list already
    runs += [{**base, "n": n, "noise": noise, "level": level} for n in sizes[:-1] for noise, level in pure]
    seeds = {"smoke": 1, "quick": 2, "medium": 1, "paper": 3}[scale]
    return [{"part": PART, **run, "seed": seed} for seed in range(seeds) for run in runs]


def capacity_task(setting: Setting) -> Record:
    seed = setting["seed"]
    train, test = noisy_samples(
        setting["data"], setting["n"], setting["n_test"], setting["noise"], setting["level"], seed
    )
    hidden = [setting["width"]] * 2
    module = build("mlp", train.input_shape, train.classes, hidden, derive(seed, "weights"))
    curve = learn(module, train, test, plan_of(setting))
    return {
        "fitted_step": curve.fitted_step,  # None: not reached
        "last_step": curve.steps[-1],
        "train_error": curve.train_error[-1],
        "test_error": curve.test_error[-1],
        "best_test_error": curve.best_test_error,
        "diverged": curve.diverged,
    }


def steps_to_fit(rows: Rows) -> tuple[float, bool]:
    """(the mean number of steps to fit the training set, whether all runs got there); a limit counts as a time."""
    fitted, last = rows.column("fitted_step"), rows.column("last_step")
    times = [step if step is not None else limit for step, limit in zip(fitted, last, strict=True)]
    return statistics.fmean(times), None not in fitted


def _middle(rows: Rows) -> tuple[int, int]:
    """(the width at which n varies, the n at which the width varies), read from the runs."""
    rows = rows.where(part=PART)
    rows.column("fitted_step")  # complete, or no verdict
    n = max(rows.column("n"))
    return rows.where(n=[size for size in rows.values("n") if size != n]).column("width")[0], n


def _slower(rows: Rows, noise: str, field: str) -> tuple[float, bool]:
    """How many times longer it takes at the hard end of ``field``; the flag says that it may be longer still."""
    width, n = _middle(rows)
    level = 0.0 if noise == REAL else 1.0
    some = rows.where(part=PART, noise=noise, level=level, **({"n": n} if field == "width" else {"width": width}))
    ends = sorted(some.values(field))
    hard, easy = (ends[0], ends[-1]) if field == "width" else (ends[-1], ends[0])
    (long, reached), (short, started) = (steps_to_fit(some.where(**{field: end})) for end in (hard, easy))
    if not started:
        raise IncompleteError(f"{NAMES[noise]} were not fitted even at {field} = {easy}")
    return long / short, not reached


def _depends(rows: Rows, field: str) -> Outcome:
    values = {noise: _slower(rows, noise, field) for noise in (REAL, RAND_X, RAND_Y)}
    said = [
        f"{'at least ' if open_end else ''}{ratio:.1f} times on {NAMES[noise]}"
        for noise, (ratio, open_end) in values.items()
    ]
    seen = values[RAND_X][0] >= 1.25 * values[REAL][0] and not values[REAL][1]
    return Outcome(seen, f"the time rises {said[0]}, {said[1]} and {said[2]}")


def _shortfalls(rows: Rows) -> dict[str, float]:
    """How far the test accuracy at the middle width lies below the best over all widths, relative to it."""
    width, n = _middle(rows)
    found = {}
    for noise, level in ((REAL, 0.0), (RAND_X, HALF), (RAND_Y, HALF)):
        some = rows.where(part=PART, noise=noise, level=level, n=n)
        best = max(1 - part.mean("test_error") for _, part in some.groups("width"))
        found[noise] = 1 - (1 - some.where(width=width).mean("test_error")) / best
    return found


def _needs_capacity(rows: Rows) -> Outcome:
    value = _shortfalls(rows)
    # 600 test examples: an accuracy of 97 % is known to 0.7 points, a mean over two seeds to 0.5
    seen = value[REAL] <= 0.01 and min(value[RAND_X], value[RAND_Y]) >= value[REAL] + 0.01
    return Outcome(
        seen,
        f"{percent(value[REAL])} below the best on real data, {percent(value[RAND_X])} with random inputs and "
        f"{percent(value[RAND_Y])} with random labels among the training examples",
    )


CAPACITY_CLAIMS = (
    Claim(
        "capacity-time",
        "Capacity speeds up the fitting of noise more than that of real data.",
        SOURCE,
        "training time falls with capacity for noise inputs and hardly at all for real data (figure 6, left)",
        "a rise from the widest to the narrowest network that is at least 1.25 times as large on random inputs as on "
        "real data (which must be fitted)",
        lambda rows: _depends(rows, "width"),
    ),
    Claim(
        "size-time",
        "More examples slow down the fitting of noise more than that of real data.",
        SOURCE,
        "training time rises with the number of examples much more for noise inputs (figure 6, right)",
        "a rise from the fewest to the most examples that is at least 1.25 times as large on random inputs as on real "
        "data (which must be fitted)",
        lambda rows: _depends(rows, "n"),
    ),
    Claim(
        "capacity-needed",
        "A width that is enough for real data is not enough when some of the training examples are noise.",
        SOURCE,
        "close to the best accuracy with 4096 units on MNIST, but more needed with noise in the data (figure 5)",
        "at most 1 % below the best test accuracy on real data at the middle width, and 1 point more with noise",
        _needs_capacity,
    ),
)


def capacity_figures(rows: Rows) -> list[Exhibit]:
    some = rows.where(part=PART)
    sizes, widths = some.values("n"), some.values("width")
    if not len(some):
        return []
    n = max(sizes)
    middle = next((row["width"] for row in some if row["n"] != n), widths[-1])
    return [
        _times(some.where(n=n, level=[0.0, 1.0]), "width", "hidden units in each of two layers"),
        _times(some.where(width=middle, level=[0.0, 1.0]), "n", "training examples"),
        _accuracies(some.where(n=n, level=[0.0, HALF])),
        _not_reached(some),
    ]


def _means(rows: Rows, field: str, value: str) -> list[dict[str, Cell]]:
    points: list[dict[str, Cell]] = []
    for (at, noise), some in rows.groups(field, "noise"):
        if len(some):
            values = [row[value] for row in some]
            mean, low, high = statistics.fmean(values), min(values), max(values)
            points.append({field: at, "value": mean, "low": low, "high": high, "noise": NAMES[noise]})
    order = list(NAMES.values())  # the same colours in all figures
    return sorted(points, key=lambda point: (order.index(str(point["noise"])), point[field]))


def _times(rows: Rows, field: str, title: str) -> Figure:
    counted = Rows(
        {**row, "time": row["last_step"] if row["fitted_step"] is None else row["fitted_step"]} for row in rows
    )
    return Figure(
        f"time-by-{field}",
        f"Time to fit the training set, by {title}",
        "Steps of SGD until every training example is right: mean and range over seeds. Runs that were not done at "
        "the limit count with the limit (see the table). The steeper the line, the more that kind of data depends on "
        f"the number of {title}.",
        _means(counted, field, "time"),
        Axis(field, title, log=True),
        Axis("value", "steps of SGD", log=True),
        series="noise",
        series_title="training data",
        low="low",
        high="high",
    )


def _accuracies(rows: Rows) -> Figure:
    accurate = Rows({**row, "accuracy": 1 - row["test_error"]} for row in rows)
    return Figure(
        "capacity-accuracy",
        "Capacity and test accuracy, with and without noise among the training examples",
        f"Accuracy on real test examples at the end of training, when the inputs or labels of {percent(HALF, 0)} of "
        "the training examples are noise: mean and range over seeds. Look for the width from which on a line is flat.",
        _means(accurate, "width", "accuracy"),
        Axis("width", "hidden units in each of two layers", log=True),
        Axis("value", "test accuracy", percent=True),
        series="noise",
        series_title="noise in the training data",
        low="low",
        high="high",
    )


def _not_reached(rows: Sequence | Rows) -> Table:
    late = [
        [NAMES[row["noise"]], percent(row["level"], 0), row["width"], row["n"], row["seed"], row["last_step"],
         percent(1 - row["train_error"])]
        for row in rows if row["fitted_step"] is None
    ]  # fmt: skip
    return Table(
        "not-reached",
        "Runs that did not fit their training set in time",
        "Their time is only known to exceed the limit. An empty table means that all runs got there.",
        ("training data", "noise level", "width", "examples", "seed", "limit in steps", "training accuracy"),
        late,
    )
