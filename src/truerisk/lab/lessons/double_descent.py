"""The lesson of `double-descent`: the solution is worst where it barely fits its examples, and better far beyond."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from truerisk.lab.descent import EPSILON, effective_complexity
from truerisk.lab.effect import Above
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.double_descent import RANDOM
from truerisk.lab.figure import Axis, Exhibit, Figure, Linked, Rule, Switch
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line
from truerisk.lab.rows import Row, Rows
from truerisk.lab.spelling import spell
from truerisk.lab.twenty_points import POINTS, curve_rows, dot_rows, fit_rows, moving_rows, twenty_points
from truerisk.lab.units import PERCENT

KINDS = {"fourier": "Fourier features", "relu": "ReLU features"}
RIDGES = {"none": "no ridge", "tuned": "tuned ridge"}
RATIO = Axis("ratio", "features / training examples", log=True)
ERROR = Axis("error", "error", PERCENT, zero=True, counted_on="counted")
AT_N = (Rule(1.0, "N = n", upright=True),)

# ---- figures -------------------------------------------------------------------------------------------------------


def figures(rows: Rows) -> list[Exhibit]:
    sweeps = [run for run in rows if run["sweep"] == "features"]
    places = _places(sweeps)
    # On a user's own data the number of classes is not in the records.
    guess = [] if any("data_sha256" in run for run in rows) else [Rule(0.9, "guessing")]
    found: list[Exhibit] = [_descent(places, guess), _squared(places), _norms(places)]
    found += [_kinds(places, guess), _independent(places)] if any(p["kind"] == "relu" for p in places) else []
    examples = [run for run in rows if run["sweep"] == "examples"]
    found += [_examples(examples, guess)] if examples else []
    return [*found, _complexity(rows)] if examples else found


def _panel(run: Row) -> str:
    """The data and their labels, in words."""
    p = run["noise"]
    noise = "true labels" if p == 0 else "random labels" if p == RANDOM else f"{p:.0%} of labels replaced"
    return f"{spell(run['data'])}, {noise}" if "data_sha256" not in run else noise


def _places(runs: Sequence[Row]) -> list[dict[str, Any]]:
    """One row for each number of features of each run."""
    names = {"count": "counts", **{name: name for name in ("test_error", "test_squared", "train_error")}}
    names |= {name: name for name in ("train_squared", "norm", "directions")}
    unrolled = Rows(runs).unrolled(**names)
    shown = unrolled.having(
        ratio=lambda row: row["count"] / row["n"], panel=_panel, name=lambda row: KINDS[row["kind"]]
    )
    return sorted(shown.present, key=lambda row: (row["noise"], row["ratio"]))


def _long(rows: Sequence[Row], names: dict[str, str]) -> list[dict[str, Any]]:
    """Each row once for each error, with the number of examples that the error was counted on."""
    made = Rows(rows).longer("error", names, into="curve").present
    return [{**row, "counted": row["n_test" if names[row["curve"]].startswith("test") else "n"]} for row in made]


def _descent(places: Sequence[Row], guess: list[Rule]) -> Figure:
    fourier = [row for row in places if row["kind"] == "fourier"]
    plain, tuned = ([row for row in fourier if row["ridge"] == ridge] for ridge in RIDGES)
    rows = _long(plain, {"test error": "test_error"}) + _long(tuned, {"test error, tuned ridge": "test_error"})
    rows += _long(plain, {"training error": "train_error"})
    return Figure(
        "descent",
        "Error against the number of features",
        "Error of exact least squares on random Fourier features against their number N, divided by the number n of "
        "training examples. At 1 the model can just fit every label. Classical advice stops left of the peak; if the "
        "curve ends lower on the right, more features than examples are better.",
        rows,
        RATIO,
        ERROR,
        series="curve",
        facet="panel",
        rules=[*guess, *AT_N],
        claims=("peak-at-threshold", "second-descent", "ridge-removes-peak", "noise-second-descent"),
    )


def _squared(places: Sequence[Row]) -> Figure:
    names = {"test": "test_squared", "training": "train_squared"}
    shown = _long([row for row in places if row["kind"] == "fourier"], names)
    rows = [{**row, "curve": f"{row['curve']}, {RIDGES[row['ridge']]}"} for row in shown if row["error"] > 1e-6]
    return Figure(
        "squared",
        "The loss that is minimized: squared error",
        "Squared error on new and on training examples, Fourier features. Without a ridge, the training error is 0 "
        "from N = n on and leaves the figure. If the peak comes from fitting every label exactly, a ridge chosen on "
        "held-out examples removes it.",
        rows,
        RATIO,
        Axis("error", "squared error", log=True),
        series="curve",
        facet="panel",
        rules=AT_N,
        claims=("peak-at-threshold", "interpolates"),
    )


def _norms(places: Sequence[Row]) -> Figure:
    rows = [{**row, "ridge": RIDGES[row["ridge"]]} for row in places if row["kind"] == "fourier"]
    return Figure(
        "norm",
        "Norm of the solution",
        "Norm of the readout against the number of Fourier features. At N = n only one readout fits all labels, "
        "however large it is. Beyond, many do, and the smallest is taken. If the norm explains the test error, both "
        "fall together.",
        rows,
        RATIO,
        Axis("norm", "norm of the readout", log=True),
        series="ridge",
        facet="panel",
        rules=AT_N,
        claims=("norm-peaks",),
    )


def _kinds(places: Sequence[Row], guess: list[Rule]) -> Figure:
    rows = [{**row, "error": row["test_error"], "counted": row["n_test"]} for row in places if row["ridge"] == "none"]
    return Figure(
        "kinds",
        "Do ReLU features have the same curve?",
        "Test error without a ridge for two kinds of random features. Compare the lowest point left of the peak with "
        "the end of each curve. If the left minimum is lower, the second descent is not the better one.",
        rows,
        RATIO,
        ERROR,
        series="name",
        facet="panel",
        rules=[*guess, *AT_N],
        claims=("second-descent", "noise-second-descent", "relu-noise-favors-few"),
    )


def _independent(places: Sequence[Row]) -> Figure:
    relu = [row for row in places if row["kind"] == "relu" and 0.5 <= row["ratio"] <= 2]
    rows = [{**row, "counting": "all features"} for row in relu]
    rows += [{**row, "counting": "independent features", "ratio": row["directions"] / row["n"]} for row in relu]
    return Figure(
        "independent",
        "Which features count?",
        "Squared test error of ReLU features near the threshold, against all of them and against those that can be "
        "linearly independent. Units that are off for all images, or on for all, add little. If they explain a shift "
        "of the peak, the curve of independent features peaks at 1.",
        _first_of_each(rows),
        Axis("ratio", "features / training examples"),
        Axis("test_squared", "squared test error", log=True),
        series="counting",
        facet="panel",
        claims=("relu-peak-at-rank",),
        group=None,
    )


def _first_of_each(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first seed alone: the number of independent features differs from seed to seed."""
    first = min((row["seed"] for row in rows), default=None)
    return sorted((row for row in rows if row["seed"] == first), key=lambda row: row["ratio"])


def _examples(runs: Sequence[Row], guess: list[Rule]) -> Figure:
    names = {"size": "sizes", "test_error": "test_error", "train_error": "train_error"}
    made = Rows(runs).unrolled(**names).having(ratio=lambda row: row["size"] / row["width"], panel=_panel)
    rows = _long(made.present, {"test error": "test_error", "training error": "train_error"})
    width = f"{runs[0]['width']:,}" if runs else "N"
    return Figure(
        "examples",
        "Can more data hurt?",
        f"Errors of {width} Fourier features against the number of training examples, divided by the number of "
        "features. At 1 the features can just fit every label. If more data always helped, the test error would only "
        "fall.",
        [{**row, "counted": row["n_test"]} for row in rows],
        Axis("ratio", "training examples / features", log=True),
        ERROR,
        series="curve",
        facet="panel",
        rules=[*guess, *AT_N],
        claims=("more-data-hurt",),
    )


def _complexity(rows: Rows) -> Figure:
    found = []
    for run in (run for run in rows if run["sweep"] != "features" and run["noise"] > 0):
        ratio = effective_complexity(Rows([run]))
        if not isinstance(ratio, Above):
            found.append({**run, "fitted": ratio * run["width"], "labels": _panel(run)})
        found.append({**run, "fitted": float(run["width"]), "labels": "as many examples as features"})
    alone = {(row["labels"], row["width"], row["seed"]): row for row in found}
    return Figure(
        "complexity",
        "How many examples can N features fit?",
        "Effective model complexity: the largest number of examples whose labels N Fourier features fit with at most "
        f"{EPSILON:.0%} training error. The lowest line is where the test error peaks. If this complexity located the "
        "peak, the other lines would fall on it.",
        sorted(alone.values(), key=lambda row: row["width"]),
        Axis("width", "number of features", log=True),
        Axis("fitted", "examples fitted", log=True),
        series="labels",
        claims=("effective-complexity",),
    )


# ---- pictures ------------------------------------------------------------------------------------------------------


def demo(setting: Setting) -> Record:
    """Curves through twenty points, with few and many features."""
    return twenty_points(setting["seed"])


def pictures(record: Record) -> Sequence[Exhibit]:
    return [_linked(record)] if record.get("fits") else []


def _linked(record: Record) -> Linked:
    """The fit, its error, and its norm, moved by one slider."""
    moved: dict[str, Any] = {
        "slider": Axis("features", "number of features N"),
        "starts_at": POINTS,
        "switches": (Switch("noise", "noise", on=True), Switch("ridge", "ridge")),
        "group": None,
    }
    x, y, count = Axis("x", "input"), Axis("y", "output"), Axis("count", "number of features N", log=True)
    points: dict[str, Any] = {"dots": dot_rows(record), "dots_title": f"{POINTS} training points"}
    fit = Figure("fit", "The fitted curve", "", fit_rows(record), x, y, Line(points=False), "curve", **points, **moved)
    place = {"rules": [Rule(POINTS, "N = n", upright=True)], "dots": moving_rows(record), **moved}
    along = [
        Figure(name, title, "", curve_rows(record), count, Axis(name, axis, log=True), Line(points=False), **place)
        for name, title, axis in (
            ("test_error", "Its error", "squared error"),
            ("norm", "Its norm", "norm of the readout"),
        )
    ]
    return Linked(
        "fit",
        "One curve, more and more features",
        f"Least squares through {POINTS} points with N Fourier features; move the slider, or let it play. At N = n "
        "only one combination of the features meets all points, however large. With many more features the smallest "
        "of many is taken, and the curve is calm. Curves are cut off at \u22123 and 3.",
        [fit, *along],
        shares=(4, 3, 3),
        claims=("peak-at-threshold", "norm-peaks", "ridge-removes-peak"),
    )


LESSON = Lesson(
    figures=figures,
    hero="fit",
    findings=(
        Finding(
            ("peak-at-threshold", "second-descent"),
            "Error peaks at N = n, then ends at least {1.mean} below every N < n.",
            "Double descent is not reproduced: the peak or the second descent is missing.",
            "Not settled for all data and features: error ends {1.mean} below N < n.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    formulas=(
        Formula(
            r"\hat{W}_N = \Phi_N^{+} Y = \sum_j (1 / s_j) v_j u_j^T Y",
            "Of all readouts that fit best, the pseudoinverse gives the smallest. Where N = n, the smallest singular "
            "value s is nearly 0, so the norm explodes.",
        ),
        Formula(
            r"\mathrm{EMC}(N) = \max \{ n : \mathrm{training \; error}(n, N) \leq \epsilon \}",
            "Effective model complexity: how many examples N features fit with a training error of at most epsilon.",
        ),
    ),
    questions=(
        Question(
            "Does the peak stay at N = n on one-dimensional signals?",
            "truerisk lab run double-descent --data mnist1d",
        ),
        Question(
            "Does the second descent survive noisy labels on MNIST and Fashion-MNIST, for both kinds of features?",
            "truerisk lab run double-descent --scale medium",
        ),
        Question(
            "SGD does not solve least squares exactly. Does it have the peak?",
            "truerisk lab run convex-regularization",
        ),
    ),
)
