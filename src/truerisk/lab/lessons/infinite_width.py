"""The lesson of `infinite-width`: wide networks with weight decay end at the optimum of a convex problem."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from truerisk.lab.experiment import Record, Setting
from truerisk.lab.experiments.infinite_width import problem
from truerisk.lab.figure import Axis, Exhibit, Figure, Rule, Table
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line, Points
from truerisk.lab.rows import Row, Rows
from truerisk.lab.spelling import spell
from truerisk.lab.units import PERCENT, TIMES
from truerisk.nets.convex_network import objective, solve_convex
from truerisk.seeds import derive
from truerisk.training.norm_regularized import train_regularized

WIDTH = Axis("width", "hidden units", log=True)
BEST, MEDIAN, WORST = "best run", "median run", "worst run"
MANY = 8  # units from which imbalances are shown: fewer may all be dead
CONVEX, NETWORK = "convex solution", "trained network"
# The demo: a curve through the points of the line, at these widths.
SHOWN, POINTS, PENALTY, STEPS, STARTS = (1, 2, 4, 8, 16, 64), 20, 1e-3, 4000, 2


def figures(rows: Rows) -> Sequence[Exhibit]:
    named = rows.having(panel=_panel)
    unrolled = named.unrolled(width="widths", reached="objectives", imbalance="imbalances", test="test_losses")
    return [_objectives(unrolled), _excess(unrolled), _tests(named, unrolled), _balance(unrolled), _table(rows)]


def _panel(run: Row) -> str:
    where = "on two components" if run["problem"] != "line" else "noisy sine"
    return f"{'line' if run['problem'] == 'line' else spell(run['problem'])}, {where}, {run['n']} points"


def _objectives(rows: Rows) -> Figure:
    """Best, median, and worst over all runs of a width: an interval of means would reach below the optimum."""
    ratios: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        ratios.setdefault((row["panel"], row["width"]), []).extend(one / row["bound"] for one in row["reached"])
    shown = [
        {"panel": panel, "width": width, "which": which, "ratio": choose(found)}
        for (panel, width), found in ratios.items()
        for which, choose in ((WORST, max), (MEDIAN, statistics.median), (BEST, min))
    ]
    return Figure(
        "objectives",
        "Objective of trained networks against their width",
        "Objective (loss plus weight decay) after training from random starts, divided by a certified lower bound: the "
        "worst, the median, and the best of all runs. At 1 is the convex optimum, which no network of any width can "
        "pass. If the curves meet there, width has removed the bad minima.",
        shown,
        WIDTH,
        Axis("ratio", "objective / convex optimum", TIMES, log=True),
        series="which",
        facet="panel",
        rules=[Rule(1.0, "convex optimum")],
        group=None,
        claims=("wide-reaches-convex", "width-above-n", "narrow-stays-above", "never-below"),
    )


def _excess(rows: Rows) -> Figure:
    shown = [{**row, "excess": max(min(row["reached"]) / row["bound"] - 1, 1e-7)} for row in rows]
    return Figure(
        "excess",
        "How close do the best networks come?",
        "Objective of the best start minus the certified lower bound, as a share of that bound. The dashed line is 1%. "
        "Below it, training has found the convex optimum for most purposes, without being told of it.",
        shown,
        WIDTH,
        Axis("excess", "excess over the bound", PERCENT, log=True),
        series="panel",
        series_title="problem",
        rules=[Rule(0.01, "1%")],
        claims=("width-above-n",),
    )


def _tests(runs: Rows, rows: Rows) -> Figure:
    shown = [{**row, "model": NETWORK} for row in rows]
    for run in runs:
        ends = (run["widths"][0], run["widths"][-1])
        own = {name: run[name] for name in ("panel", "seed")}
        shown += [{**own, "width": end, "model": CONVEX, "test": run["convex_test_loss"]} for end in ends]
    return Figure(
        "test-losses",
        "Does width hurt new examples?",
        "Mean squared error on new examples for the best start of each width, and for the convex solution. With weight "
        "decay the norm of the network is limited, not its width. If width were the capacity that counts, the curves "
        "would keep rising after they meet the convex solution.",
        shown,
        WIDTH,
        Axis("test", "mean squared error, new examples", zero=True),
        series="model",
        facet="panel",
        claims=("wide-reaches-convex",),
    )


def _balance(rows: Rows) -> Figure:
    shown = [{**row, "imbalance": max(row["imbalance"], 1e-7)} for row in rows if row["width"] >= MANY]
    return Figure(
        "balance",
        "Are incoming and outgoing weights of equal size?",
        "Imbalance of squared norms over all hidden units, at the worst start: 0 if every unit has equal incoming and "
        "outgoing norms, 1 if it has only one of them. Weight decay balances every unit at a minimum, so the curves "
        "show how far training is from one.",
        shown,
        WIDTH,
        Axis("imbalance", "imbalance", log=True),
        series="panel",
        series_title="problem",
        rules=[Rule(0.01, "1%")],
        claims=("balanced",),
    )


def _table(rows: Rows) -> Table:
    found = []
    for (name,), runs in Rows(rows).groups("problem"):
        units = [run["units"] for run in runs]
        excess = max(run["rebuilt"] / run["bound"] - 1 for run in runs)
        first = runs.present[0]
        found.append(
            [spell(name), first["n"], f"{first['penalty']:g}", f"{min(units)} to {max(units)}", f"{excess:.0e}"]
        )
    return Table(
        "solutions",
        "How many units does an infinitely wide network use?",
        "Hidden units of the convex solution, smallest and largest number over runs, and how far the network that is "
        "rebuilt from them lies above the certified bound, as a share. Theory says that n + 1 units are enough.",
        ["problem", "examples n", "weight decay", "units used", "excess over the bound"],
        found,
    )


# ---- pictures ------------------------------------------------------------------------------------------------------


def demo(setting: Setting) -> Record:
    """Curves of trained networks and of the convex solution through the same points, and the norms of all units."""
    s = {"problem": "line", "n": POINTS, "n_test": 1, "seed": setting["seed"]}
    X, y, _, _ = problem(s)
    grid = np.linspace(-1.1, 1.1, 221)[:, None]
    convex = solve_convex(X, y, PENALTY)
    found: Record = {
        "x": grid[:, 0].round(4).tolist(),
        "convex": convex(grid).round(4).tolist(),
        "points": np.column_stack([X[:, 0], y]).round(4).tolist(),
        "lines": [],
    }
    for width in SHOWN:
        seeds = (derive(s["seed"], "demo", width, start) for start in range(STARTS))
        networks = [train_regularized(X, y, width, PENALTY, seed, STEPS) for seed in seeds]
        best = min(networks, key=lambda one: objective(X, y, one.hidden, one.outer, PENALTY))
        found["lines"].append({"width": width, "values": best(grid).round(4).tolist()})
    inner = np.linalg.norm(best.hidden, axis=1)
    found["units"] = np.column_stack([inner, np.abs(best.outer)]).round(5).tolist()
    return found


def pictures(record: Record) -> Sequence[Exhibit]:
    return [_curves(record), _units(record)] if record.get("lines") else []


def _curves(record: Record) -> Figure:
    rows = [
        {"x": x, "y": y, "curve": kind, "width": line["width"]}
        for line in record["lines"]
        for kind, values in ((CONVEX, record["convex"]), (NETWORK, line["values"]))
        for x, y in zip(record["x"], values, strict=True)
    ]
    return Figure(
        "curves",
        "Networks of growing width, and infinitely many units: move the slider",
        "The function of a trained network with weight decay through 20 noisy points, and the solution of the convex "
        "problem, which stands for infinitely many units. With more units the network moves to the convex solution and "
        "then stays there: more width adds no wiggles.",
        rows,
        Axis("x", "x"),
        Axis("y", "y"),
        Line(points=False),
        series="curve",
        slider=Axis("width", "hidden units"),
        dots=[{"x": x, "y": y} for x, y in record["points"]],
        dots_title="training points",
        group=None,
        claims=("wide-reaches-convex",),
    )


def _units(record: Record) -> Figure:
    return Figure(
        "units",
        f"Each of the {SHOWN[-1]} units: incoming against outgoing weights",
        "Outgoing weight of each hidden unit against the norm of its incoming weights, bias included, after training "
        "with weight decay. Units on the diagonal are balanced. Many units have shrunk to 0: weight decay on both "
        "layers acts like an l1 penalty on units.",
        [{"inner": inner, "outer": outer} for inner, outer in record["units"]],
        Axis("inner", "norm of incoming weights"),
        Axis("outer", "outgoing weight"),
        Points(),
        group=None,
        claims=("balanced", "finite-solution"),
    )


LESSON = Lesson(
    figures=figures,
    hero="objectives",
    findings=(
        Finding(
            ("wide-reaches-convex", "narrow-stays-above"),
            "Wide networks end at {0.mean} the convex optimum, one hidden unit at {1.mean}.",
            "Not as expected: width 256 ends at {0.mean} the convex optimum.",
            "Still open: width 256 ends at {0.mean} the convex optimum.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    formulas=(
        Formula(
            r"\min_{u, v} \frac{1}{2n} \sum_i (f(x_i) - y_i)^2 + \frac{\lambda}{2} \sum_j (u_j^2 + |v_j|^2)",
            "Training with weight decay: not convex, because outer and hidden weights are multiplied.",
        ),
        Formula(
            r"\frac{1}{2} (u_j^2 + |v_j|^2) \geq |u_j| |v_j|",
            "Equal where incoming and outgoing weights have equal norms, which rescaling a unit can always reach.",
        ),
        Formula(
            r"\min_{c} \frac{1}{2n} \sum_i (f(x_i) - y_i)^2 + \lambda \sum_k |c_k|",
            "So with unlimited width the problem is convex: an l1 penalty on all ReLU units of norm 1.",
        ),
    ),
    questions=(
        Question(
            "Do wide networks reach the convex optimum on MNIST, where the classes overlap?",
            "truerisk lab run infinite-width --scale medium",
        ),
        Question(
            "Does your own data, on two principal components, need more units?",
            "truerisk lab run infinite-width --data digits",
        ),
        Question(
            "What is the infinite-width limit if the hidden layer is never trained?",
            "truerisk lab run kernels",
        ),
    ),
)
