"""The lesson of `nonconvex`: plateaus and saddles are real, and width and noise are why they rarely matter."""

from __future__ import annotations

from collections.abc import Sequence

from truerisk.lab.experiments.nonconvex import NOISE
from truerisk.lab.figure import Axis, Exhibit, Figure, Rule
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Line, Points
from truerisk.lab.nonconvex_pictures import demo, pictures
from truerisk.lab.nonconvex_runs import LEFT
from truerisk.lab.rows import Row, Rows
from truerisk.lab.spelling import spell
from truerisk.lab.units import PERCENT, STEPS

WIDTH = Axis("width", "hidden units", log=True)
MEASURED, INDEPENDENT = "gradient descent", "if units died independently"
ADAPTIVE = ("AdaGrad", "RMSProp", "AdaDelta", "Adam")
DIES = 5 / 8  # probability that one unit dies


def figures(rows: Rows) -> Sequence[Exhibit]:
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in ("surface", "starts", "plane", "equal")}
    starts = [{**row, "cell": _cell(row)} for row in kinds["starts"] if not row.get("diverged")]
    found: list[Exhibit] = [_fitted(starts), _ends(starts)]
    if kinds["surface"] or not kinds["starts"]:  # a user's own data have the part about starts alone
        found += [_units(kinds["surface"]), _steps(kinds["plane"]), _equal(kinds["equal"]), _apart(kinds["equal"])]
    return found


def _cell(row: Row) -> str:
    labels = "random labels" if row["labels"] == "random" else "true labels"
    return f"{spell(row['data'].rpartition('/')[2])}, {labels}"


def _fitted(rows: Sequence[Row]) -> Figure:
    return Figure(
        "fitted",
        "How often does training reach an error of 0?",
        "Share of random starts of one network that end with every training label fitted, against its number of hidden "
        "units. If bad local minima were common at every size, no width would reach 100%.",
        rows,
        WIDTH,
        Axis("fitted", "starts with training error 0", PERCENT, zero=True, counted_on="starts"),
        series="cell",
        series_title="data",
        claims=("wide-fits", "narrow-fails"),
    )


def _ends(rows: Sequence[Row]) -> Figure:
    return Figure(
        "end-losses",
        "Do different starts end at the same loss?",
        "Training loss at the end, one point for each random start of the same network on the same examples. Narrow "
        "networks end at different losses, so the start decides. Where points of a width form one dot, it does not "
        "matter.",
        Rows([row for row in rows if row["seed"] == rows[0]["seed"]]).unrolled(loss="losses"),
        WIDTH,
        Axis("loss", "end loss", zero=True),
        Points(),
        facet="cell",
        group=None,
        claims=("similar-ends", "narrow-ends"),
    )


def _units(rows: Sequence[Row]) -> Figure:
    shown = Rows(rows).unrolled(count="units", reached="at_minimum")
    points = [{**row, "way": MEASURED, "share": row["reached"] / row["starts"]} for row in shown]
    points += [{**row, "way": INDEPENDENT, "share": 1 - DIES ** row["count"]} for row in shown]
    return Figure(
        "units",
        "How many units does it take to survive a random start?",
        "Share of random starts that reach the minimum, for sums of several units w2 relu(w1 x) on the same 30 points. "
        "One unit reaches it from 3/8 of all directions; the others die on the plateau. A network is lost only if all "
        "its units die.",
        points,
        Axis("count", "hidden units", log=True),
        Axis("share", "starts that reach the minimum", PERCENT, zero=True, counted_on="starts"),
        series="way",
        claims=("three-eighths", "units-help"),
    )


def _steps(rows: Sequence[Row]) -> Figure:
    points = [
        {"seed": row["seed"], "far": far, "steps": steps, "optimizer": name,
         "panel": "a rate for each coordinate" if name in ADAPTIVE else "one rate"}
        for row in rows
        for name, counts in row["left"].items()
        for far, steps in zip(row["offsets"], counts, strict=True)
        if name != "Nesterov" and steps is not None
    ]  # fmt: skip
    return Figure(
        "steps",
        "How long does each optimizer stay at a saddle?",
        "Steps until x\u00b2 \u2212 y\u00b2 is left (|y| > 1), against the distance of the start from the ridge y = 0. "
        "Gradient descent needs as many more steps for each factor of ten; momentum does what a larger rate does. "
        "Optimizers with a rate for each coordinate hardly notice the distance.",
        points,
        Axis("far", "distance from the ridge at the start", log=True),
        Axis("steps", "steps until the saddle is left", STEPS, log=True),
        series="optimizer",
        series_title="optimizer",
        facet="panel",
        claims=("descent-formula", "momentum-leaves", "rate-leaves", "adam-ignores-distance"),
    )


def _curves(rows: Sequence[Row], name: str) -> list[dict[str, object]]:
    return [
        {"seed": row["seed"], "step": step, name: value, "way": way, "panel": _panel(row)}
        for row in rows
        if row["start"] == "equal"
        for way, values in row[name].items()
        for step, value in zip(row["at"], values, strict=True)
    ]


def _panel(row: Row) -> str:
    return f"noise of {row['noise']:g} on the weights" if row["noise"] else "hidden units exactly equal"


def _equal(rows: Sequence[Row]) -> Figure:
    return Figure(
        "equal",
        "Can training tell equal units apart?",
        "Training loss of a network on two moons whose eight hidden units start with equal weights, exactly or up to "
        f"noise of {NOISE:g}. Exactly equal units act as one unit forever, with mini-batches as well. A little noise "
        "on the weights is enough to leave, sooner with momentum or with ten times the rate.",
        _curves(rows, "losses"),
        Axis("step", "steps"),
        Axis("losses", "training loss", log=True),
        Line(points=False),
        series="way",
        series_title="descent",
        facet="panel",
        rules=[Rule(LEFT, "saddle left")],
        claims=("equal-units", "units-momentum", "units-rate"),
    )


def _apart(rows: Sequence[Row]) -> Figure:
    noisy = [row for row in rows if row["noise"]]
    return Figure(
        "apart",
        "How does noise grow at the saddle?",
        f"Largest difference between weights of two hidden units that start equal up to noise of {NOISE:g}. A straight "
        "line on this axis is exponential growth: a saddle pushes units apart in proportion to their difference. A "
        "difference of exactly 0 has nothing to grow from.",
        _curves(noisy, "apart"),
        Axis("step", "steps"),
        Axis("apart", "largest difference between units", log=True),
        Line(points=False),
        series="way",
        series_title="descent",
        claims=("equal-units", "units-momentum"),
    )


LESSON = Lesson(
    figures=figures,
    hero="descents",
    findings=(
        Finding(
            ("three-eighths", "units-help"),
            "One hidden unit learns from {0.mean} of starts, eight units from {1.mean}.",
            "One hidden unit learns from {0.mean} of starts, eight from {1.mean}: unlike predicted.",
            "One hidden unit learns from about {0.mean} of starts, eight from {1.mean}.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Do all starts reach an error of 0 on MNIST too, and how many units does that take?",
            "truerisk lab run nonconvex --scale medium",
        ),
        Question(
            "How many units do the noisy moons need, and is the spread over starts as small?",
            "truerisk lab run nonconvex --data moons",
        ),
        Question(
            "With weight decay, does the best of several starts reach a provably optimal loss?",
            "truerisk lab run infinite-width",
        ),
    ),
    formulas=(
        Formula(
            r"L(w_1, w_2) = S_{xx} \, p^2 - 2 S_{xy} \, p + S_{yy}, \quad p = w_2 \max(w_1, 0)",
            "The squared error of the smallest network depends on the product of its weights alone, and on nothing at "
            "all where its unit is dead.",
        ),
        Formula(
            r"\frac{d}{dt} ( w_1^2 - w_2^2 ) = 0",
            "Gradient flow keeps the difference of the squares, so the start decides where in the valley it ends, and "
            "whether it gets there.",
        ),
        Formula(
            r"y_k = (1 + 2 \eta)^k \, y_0 \quad \mathrm{and} \quad z^2 - (1 + m + 2 \eta) z + m = 0",
            "At a saddle, gradient descent with rate eta grows by a fixed factor per step; with momentum m, by the "
            "larger root z.",
        ),
    ),
)
