"""The lesson of `coherent-gradients`: gradients of pristine examples add up, those of corrupt ones do not."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from truerisk.lab.coherent_effects import FULL, HALF, RANDOM, REAL
from truerisk.lab.coherent_pictures import LABELS, demo, pictures
from truerisk.lab.figure import Axis, Exhibit, Figure, Linked, Rule
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Histogram, Line
from truerisk.lab.rows import Rows
from truerisk.lab.units import PERCENT

PRISTINE, CORRUPT, DRAWN = "pristine (label true)", "corrupt (label wrong)", "as many random examples"
STEPS = Axis("step", "steps of SGD", log=True)
SLIDER = Axis("look", "steps of SGD")

# ---- figures -------------------------------------------------------------------------------------------------------


def figures(rows: Rows) -> list[Exhibit]:
    runs = rows.converged().having(labels=lambda row: LABELS.get(row["noise"], ""))
    full = Rows(run for run in runs if run["rate"] == FULL)
    half = Rows(run for run in full if run["noise"] == HALF)
    found: list[Exhibit] = [_alignments(half), _shares(Rows(run for run in runs if run["noise"] == HALF))]
    found += [_coherence(full)]
    if any(run["rate"] != FULL for run in runs):
        found.append(_rates(Rows(run for run in runs if run["noise"] == RANDOM)))
    return [*found, _from_new(full), _learning(full)]


def _looks(runs: Rows, **columns: str) -> list[dict[str, Any]]:
    """One row for each look after step 0, which a logarithmic axis does not have, without the long lists."""
    kept = ("labels", "rate", "seed", "lr", "n")
    own = [{**{name: run[name] for name in kept}, **{c: run[c] for c in columns.values()}} for run in runs]
    return [row for row in Rows(own).unrolled(**columns) if row["step"] > 0]


def _alignments(half: Rows) -> Linked:
    names = {"pristine": PRISTINE, "corrupt": CORRUPT}
    bars = [
        {"alignment": value, "examples": shown, "look": int(step), "seed": run["seed"]}
        for run in half
        for step, groups in run["alignments"].items()
        if int(step) > 0  # the logarithmic axis next to it has no 0
        for group, shown in names.items()
        for value in groups.get(group, ())
    ]
    looks = [row for row in _looks(half, step="steps", share="share") if row["share"] is not None]
    lines = Rows(looks).having(rest=lambda row: 1 - row["share"])
    both = lines.longer("part", {PRISTINE: "share", CORRUPT: "rest"}, into="examples").present
    by_step = defaultdict(list)
    for row in both:
        by_step[row["step"], row["examples"]].append(row["part"])
    places = sorted({row["look"] for row in bars})
    dots = [
        {"step": step, "part": math.fsum(parts) / len(parts), "examples": name, "look": step}
        for (step, name), parts in by_step.items()
        if step in places
    ]
    start = places[0] if places else None
    histogram = Figure(
        "histogram",
        "Which examples does the step help?",
        "",
        bars,
        Axis("alignment", "cosine of an example's gradient with the sum"),
        Axis("count", "share of examples", PERCENT),
        Histogram(40),
        series="examples",
        slider=SLIDER,
        starts_at=start,
        rules=[Rule(0.0, "helps to the right", upright=True)],
        group=None,
    )
    shares = Figure(
        "share",
        "Where does the gradient come from?",
        "",
        both,
        STEPS,
        Axis("part", "share of the gradient"),
        Line(points=False),
        series="examples",
        slider=SLIDER,
        starts_at=start,
        rules=[Rule(0.5, "half each")],
        dots=dots,
    )
    return Linked(
        "alignment",
        "Which examples does SGD follow?",
        "Half of the labels were redrawn. Left: cosine of each training example's gradient with the sum of all; a step "
        "helps examples right of 0. Right: how much of the squared sum comes from pristine and from corrupt "
        "examples. Move the slider: which of the two leads first, and which later?",
        [histogram, shares],
        claims=("pristine-early", "corrupt-late", "pristine-aligned"),
    )


def _shares(half: Rows) -> Figure:
    names = {PRISTINE: "share", f"{DRAWN}, mean": "drawn", "random, 2.5%": "low", "random, 97.5%": "high"}
    columns = {"step": "steps", "share": "share", "drawn": "drawn", "low": "drawn_low", "high": "drawn_high"}
    return Figure(
        "shares",
        "Is the share of pristine examples more than chance?",
        "Share of the squared gradient that comes from pristine examples, next to the mean and the middle 95% of "
        "shares of as many examples drawn at random. Above 1, corrupt examples pull the other way. Outside the random "
        "range, labels matter: above it the network learns, below it the network memorizes.",
        Rows(_looks(half, **columns)).longer("part", names, into="of"),
        STEPS,
        Axis("part", "share of the gradient"),
        Line(points=False),
        series="of",
        facet="rate",
        claims=("pristine-early", "corrupt-late"),
    )


def _coherence(full: Rows) -> Figure:
    names = {"all weights": "m_coherence", "hidden layer": "m_hidden", "output layer": "m_output"}
    columns = {"step": "steps", **{name: name for name in names.values()}}
    return Figure(
        "coherence",
        "How many examples does a step on one of them help?",
        "m-coherence of the training set during training, for all weights and by layer. It is 1 where gradients are "
        "orthogonal, larger where they agree, and smaller where they cancel. If it rises in mid-training for random "
        "labels, gradients agree again although there is nothing to learn.",
        Rows(_looks(full, **columns)).longer("value", names, into="part"),
        STEPS,
        Axis("value", "m-coherence", log=True),
        Line(points=False),
        series="labels",
        series_title="training labels",
        facet="part",
        rules=[Rule(1.0, "orthogonal")],
        claims=("real-above-random", "random-rises", "real-falls"),
    )


def _rates(random: Rows) -> Figure:
    made = Rows(_looks(random, step="steps", value="m_coherence"))
    return Figure(
        "rates",
        "Does the rise need a large learning rate?",
        "m-coherence with random labels against the learning rate times the number of steps, at two rates. If examples "
        "had found something in common, both curves would rise. If only the larger rate does, the rise comes from the "
        "size of the steps.",
        made.having(time=lambda row: row["step"] * row["lr"]),
        Axis("time", "learning rate times steps", log=True),
        Axis("value", "m-coherence", log=True),
        Line(points=False),
        series="rate",
        series_title="learning rate",
        rules=[Rule(1.0, "orthogonal")],
        claims=("random-rises", "rise-needs-rate"),
    )


def _from_new(full: Rows) -> Figure:
    rows = [row for row in _looks(full, step="steps", value="from_new") if row["value"] is not None]
    return Figure(
        "new",
        "Does a step on one example help the next?",
        "Loss that a small step on one training example removes from 1,000 new examples together, divided by what it "
        "removes from its own. New examples have labels of the same kind. At 0, less loss on this example means "
        "nothing for the next; below 0, new examples get worse.",
        rows,
        STEPS,
        Axis("value", "loss removed from 1,000 new / own"),
        Line(points=False),
        series="labels",
        series_title="labels",
        rules=[Rule(0.0, "no help")],
        claims=("new-real", "new-random"),
    )


def _learning(full: Rows) -> Figure:
    arms = {REAL: {"all, true labels": "fitted"}, RANDOM: {"all, random labels": "fitted"},
            HALF: {"pristine, 50% redrawn": "fitted_pristine", "corrupt, 50% redrawn": "fitted_corrupt"}}  # fmt: skip
    rows = [
        {**row, "which": which}
        for noise, names in arms.items()
        for which, field in names.items()
        for row in _looks(Rows(run for run in full if run["noise"] == noise), step="steps", value=field)
        if row["value"] is not None
    ]
    return Figure(
        "learning",
        "Are pristine examples learned as if there were no noise?",
        "Share of training labels that the network fits, for pristine and corrupt examples of one training set, and "
        "for training sets with true and with random labels. Chatterjee reports that pristine examples follow the "
        "curve of true labels, and corrupt ones that of random labels.",
        rows,
        STEPS,
        Axis("value", "training labels fitted", PERCENT, zero=True, counted_on="n"),
        Line(points=False),
        series="which",
        series_title="examples",
    )


LESSON = Lesson(
    figures=figures,
    hero="alignment",
    findings=(
        Finding(
            ("pristine-early", "corrupt-late"),
            "SGD first follows examples with true labels, then the mislabeled ones.",
            "SGD does not clearly follow true labels first and wrong labels later.",
            "Whether SGD follows true labels first and wrong labels later is open.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Are shares and coherence on MNIST like those on digits?",
            "truerisk lab run coherent-gradients --scale medium",
        ),
        Question(
            "Two classes share more than ten do. How coherent are gradients on two moons?",
            "truerisk lab run coherent-gradients --data moons",
        ),
        Question(
            "If only directions that many examples share may count, is less memorized?",
            "truerisk lab run winsorized",
        ),
    ),
    formulas=(
        Formula(
            r"\| \sum_i g_i \|^2 = \sum_i \| g_i \|^2 + \sum_{i \neq j} \langle g_i, g_j \rangle",
            "The sum of gradients is long where pairs of examples agree.",
        ),
        Formula(
            r"\alpha = \frac{\| \sum_i g_i \|^2}{\sum_i \| g_i \|^2}, \qquad 0 \le \alpha \le m",
            "m-coherence of m examples is 1 for orthogonal gradients and m for equal ones.",
        ),
        Formula(
            r"f^p = \frac{\langle g, g^p \rangle}{\langle g, g \rangle}, \qquad g = g^p + g^c",
            "The share of pristine examples; with that of corrupt ones it adds up to 1.",
        ),
    ),
)
