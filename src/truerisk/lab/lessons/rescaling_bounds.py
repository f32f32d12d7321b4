"""The page of `rescaling-bounds`: published and measured bounds, other ways to lower them, and twins of one network."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Rule, Table, percent
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Contour, Line, Points
from truerisk.lab.rescaling.distance import Bounds, split
from truerisk.lab.rescaling.published import ARCHITECTURES, BEFORE_AFTER, NOISE, SQUARES, WEIGHTS, noise_name
from truerisk.lab.rows import Rows
from truerisk.lab.units import TIMES
from truerisk.pacbayes import COLUMNS
from truerisk.words import bound, nats

STATES = {"original": "before rescaling", "rescaled": "after rescaling"}
LABELS = {"original": "original", "tuned": "tuned prior scale", "rescaled": "rescaled", "both": "both"}
TRAINED, FAILED = "trained posterior", "training failed"
NAMES = {"stated": "torch's defaults", "inferred": "fitted recipe", "trained": TRAINED}
HALF = 0.5  # sampled networks that err on more than half of their training examples have learned nothing of use
VACUOUS = Rule(1.0, "vacuous above", shaded=True)
HERO = "bounds"
SMALL = "64-32"  # the network of the first figure at quick scale
LEFT = 0.9 * 0.05  # of delta, for the PAC-Bayes inequality
LISTS = ["noise", "risk", "risk_upper", *(f"{c}_{k}" for c in COLUMNS for k in ("kl", "mcallester", "kl_form"))]


def figures(rows: Rows) -> Sequence[Exhibit]:
    """The paper's figure, or twins on digits; one function, many KLs; other ways to lower bounds; all numbers."""
    dense, wide = rows.where(part="architectures"), unrolled(rows)
    first = [_published(dense)] if _comparable(dense) else [_twins(dense)]
    found: list[Exhibit] = [*first, _curve(), _ways(dense), _ratios(dense)]
    if len(wide):
        found += [_convolutional(wide)] if _comparable(wide) else []
    return [*found, *([_distances(dense, wide)] if _comparable(dense) else []), _numbers(dense, wide)]


def unrolled(rows: Rows) -> Rows:
    """The runs of convolutional networks, once for each pair of standard deviations, which becomes their ``row``."""
    some = Rows(row for row in rows if row["part"] == "noise")
    return some.unrolled(**{name: name for name in LISTS}).having(row=lambda row: row["noise"])


def _comparable(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the data are those of the paper."""
    return all((row["data"], row["n"]) in (("mnist", 60_000), ("cifar-10", 50_000)) for row in rows)


def _by_size(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(rows, key=lambda row: row["weights"])


def _recipe(rows: Iterable[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["posterior"] == name]


# ---- published and measured ----------------------------------------------------------------------------------------


def _side_by_side(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each run before and after rescaling, and the published numbers next to it."""
    found = []
    for row in rows:
        place = {"row": row["row"], "seed": row["seed"], "recipe": NAMES[row["posterior"]]}
        for number, (column, state) in enumerate(STATES.items()):
            found.append({**place, "what": f"published, {state}", "bound": BEFORE_AFTER[row["row"]][number]})
            found.append({**place, "what": f"measured, {state}", "bound": row[f"{column}_mcallester"]})
    return sorted(found, key=lambda row: row["what"].endswith(STATES["rescaled"]))


def _published(rows: Rows) -> Figure:
    some = [row for name in ("stated", "inferred") for row in _recipe(_by_size(rows), name)]
    order = list(dict.fromkeys(row["row"] for row in _by_size(rows)))
    found = sorted(_side_by_side(some), key=lambda row: (row["recipe"] == NAMES["inferred"], order.index(row["row"])))
    return Figure(
        HERO, "Published and measured bounds of ten networks on MNIST",
        "McAllester's bound of ten networks on MNIST, from the smallest to the largest, published and measured. In the "
        "shaded region a bound is vacuous: it says nothing. The slider changes to a recipe that was fitted to the "
        "published points, so agreement there is no evidence.",
        found, Axis("row", "hidden layers", ordinal=True),
        Axis("bound", "bound on the error rate", log=True, bound=True), mark=Points(), series="what",
        series_title="bound", slider=Axis("recipe", "gaps filled by"), rules=[VACUOUS],
        claims=("kl-up-to-five", "bounds-up-to-half", "vacuous-to-non-vacuous", "fits-before", "fits-after"),
    )  # fmt: skip


def _convolutional(rows: Rows) -> Figure:
    return Figure(
        "convolutional", "A convolutional network at six noise levels",
        "McAllester's bound of a convolutional network on CIFAR-10, published and measured, for six pairs of standard "
        "deviations. All bounds are vacuous. The measured network's size was fitted to the published points, so only "
        "the gain from rescaling is evidence.",
        _side_by_side(rows), Axis("row", "standard deviations: prior / posterior", ordinal=True),
        Axis("bound", "bound on the error rate", zero=True, bound=True), mark=Points(), series="what",
        series_title="bound", rules=[VACUOUS], claims=("lowers-convolutional",),
    )  # fmt: skip


def _distances(dense: Rows, wide: Rows) -> Table:
    """Means over seeds of all distances and their parts."""
    lines: list[list[Cell]] = []
    for rows, sizes in ((dense, None), (wide, (WEIGHTS, SQUARES))):
        for (row, kind), some in (
            rows.where(posterior=["stated", "inferred"]).groups("row", "posterior") if rows else ()
        ):
            parts = [_parts(run, sizes) for run in some]
            numbers = [statistics.fmean(column) for column in zip(*parts, strict=True)]
            lines.append([row, NAMES[kind], *(f"{number:+.2f}".replace("-", "\u2212") for number in numbers)])
    return Table(
        "distances", "How far from the published bounds, and why",
        "Measured minus published bound, mean over seeds. Before rescaling, the distance is the sum of three parts: "
        "empirical risk, number of weights, and norm of the weights. After rescaling, the part not due to the risk is "
        "due to size and norm. Size and norm of the published convolutional network are estimates.",
        ["network or noise", "gaps filled by", "before", "risk", "size", "norm", "after", "size and norm, after"],
        lines,
    )  # fmt: skip


def _parts(row: Mapping[str, Any], sizes: tuple[float, float] | None) -> tuple[float, ...]:
    """Of one run: distance before, risk, size, norm, distance after, and its part that is not due to the risk."""
    mine = Bounds(row["original_mcallester"], row["rescaled_mcallester"], row["weights"], row["squares"])
    known = Bounds(*BEFORE_AFTER[row["row"]], *(sizes or (row["weights"], row["squares"])))
    pair = row["pair"] if sizes is None else {noise_name(each): each for each in NOISE}[row["row"]]
    parts = split(mine, known, (pair[0], pair[1]), row["n"], LEFT / row["tried"])
    return parts.before, parts.risk, parts.size, parts.norm, parts.after, parts.rest


# ---- other ways to lower a bound -----------------------------------------------------------------------------------


def _failed(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """The networks whose trained posteriors, on average over seeds, err on more than half of the training examples."""
    trained = Rows(_recipe(rows, "trained"))
    return {row for (row,), some in trained.groups("row") if some.mean("risk") > HALF}


def _ways(rows: Rows) -> Figure:
    found, failed = [], _failed(rows)
    recipes = [name for name in ("stated", "inferred") if _recipe(rows, name)]
    for row in _by_size(rows):
        place = {name: row[name] for name in ("row", "seed")}
        if row["posterior"] == "trained":
            way = FAILED if row["row"] in failed else TRAINED
            found += [{**place, "recipe": NAMES[r], "way": way, "bound": row["original_mcallester"]} for r in recipes]
        else:
            values = {LABELS[column]: row[f"{column}_mcallester"] for column in COLUMNS[:3]}
            found += [{**place, "recipe": NAMES[row["posterior"]], "way": w, "bound": v} for w, v in values.items()]
    return Figure(
        "ways", "Rescaled, tuned, or trained: which bound is lowest?",
        "McAllester's bound of each network: as it is, with a prior scale from a grid that delta covers, rescaled, and "
        "with a trained posterior instead. In the shaded region a bound says nothing. If rescaling did what nothing "
        "else can, its points would be the lowest.",
        sorted(found, key=lambda row: row["recipe"] == NAMES["inferred"]),
        Axis("row", _widths(rows), ordinal=True), Axis("bound", "bound on the error rate", log=True, bound=True),
        mark=Points(), series="way", series_title="bound", rules=[VACUOUS],
        slider=Axis("recipe", "gaps filled by") if len(recipes) > 1 else None,
        claims=("tuned-scale-matches", "trained-non-vacuous", "trained-under-half", "training-beats-rescaling"),
    )  # fmt: skip


def _widths(rows: Rows) -> str:
    return "hidden layers" if _comparable(rows) else "hidden layers in the paper (on digits: a quarter of these widths)"


def _ratios(rows: Rows) -> Figure:
    found = [
        {"row": row["row"], "seed": row["seed"], "posterior": NAMES[row["posterior"]], "way": LABELS[column],
         "ratio": row["original_kl"] / row[f"{column}_kl"]}
        for name in NAMES
        for row in _recipe(_by_size(rows), name)
        for column in COLUMNS[1:]
    ]  # fmt: skip
    published = max(ratio for *_, ratio in ARCHITECTURES.values())
    rules = [Rule(published, "largest in the paper")] if _comparable(rows) else []
    return Figure(
        "kl-ratios", "By which factor does each method divide the KL?",
        "The original KL divided by the KL after tuning the prior scale, after rescaling, or after both. At the line "
        "labeled 1 nothing is gained. Check whether rescaling adds anything to a tuned scale, or to a trained "
        "posterior.",
        found, Axis("row", _widths(rows), ordinal=True), Axis("ratio", "original KL / KL", TIMES, log=True),
        mark=Points(), series="way", series_title="after", slider=Axis("posterior", "posterior"),
        rules=[Rule(1.0, "1: nothing gained"), *rules], claims=("on-top-of-tuned", "trained-gain-little"),
    )  # fmt: skip


def _numbers(dense: Rows, wide: Rows) -> Table:
    lines: list[list[Cell]] = []
    failed = _failed(dense)
    for rows in (dense, wide):
        for (row, kind), some in rows.groups("row", "posterior") if rows else ():
            name = FAILED if kind == "trained" and row in failed else NAMES[kind]
            errors = [percent(some.mean(field)) for field in ("test_error", "risk")]
            kls = [nats(some.mean(f"{column}_kl")) for column in ("original", "rescaled", "both")]
            forms = [bound(some.mean(f"{column}_kl_form"), 3) for column in ("original", "rescaled", "both")]
            lines.append([row, name, *errors, *kls, *forms])
    return Table(
        "numbers", "KLs, and the bounds in their tightest form",
        "Means over seeds. Errors of the network on test examples and of sampled networks on training examples; KLs in "
        "nats; PAC-Bayes-kl bounds, rounded up, at delta = 0.05.",
        ["network or noise", "posterior", "test error", "sampled, training"]
        + [f"{what} {label}" for what in ("KL", "bound") for label in ("original", "rescaled", "both")],
        lines,
    )  # fmt: skip


# ---- twins ---------------------------------------------------------------------------------------------------------


def _twins(rows: Rows) -> Figure:
    """Means over the twins of one network and spread, on the logarithmic scale."""
    kinds = {"twin_raw": "as it is", "twin_tightened": "after the best rescaling"}
    found = []
    for row in sorted(_recipe(rows, "stated"), key=lambda row: row["row"] != SMALL):
        for field, kind in kinds.items():
            for spread in dict.fromkeys(row["twin_spread"]):
                logs = [math.log(b) for s, b in zip(row["twin_spread"], row[field], strict=True) if s == spread]
                place = {"row": row["row"], "seed": row["seed"], "spread": spread, "kind": kind}
                found.append({**place, "bound": math.exp(statistics.fmean(logs))})
    return Figure(
        HERO, "The bound of twins that make the same predictions",
        "McAllester's bounds of twins of one network on digits. Each twin multiplies what enters its units by random "
        "factors and divides what leaves them. In the shaded region a bound says nothing. All twins predict the same, "
        "so a bound about the function alone would be flat.",
        found, Axis("spread", "typical random factor of a unit", TIMES, log=True),
        Axis("bound", "bound on the error rate", log=True, bound=True), mark=Line(), series="kind",
        series_title="bound", slider=Axis("row", "hidden layers in the paper (here a quarter of the widths)"),
        rules=[VACUOUS], claims=("twins-explode", "twins-stand-still"),
    )  # fmt: skip


def _curve() -> Figure:
    """KL over the two weights of w2 relu(w1 x), and the weights with the same function as w1 = 3, w2 = 1/3."""
    places = [0.1 + 0.1 * step for step in range(36)]
    plane = [{"w1": a, "w2": b, "kl": (a * a + b * b) / 2} for a in places for b in places]
    twins = [math.exp(math.log(3.5) * step / 12) for step in range(-12, 13)]
    return Figure(
        "curve", "Different weights, one function, many KLs",
        "A network with two weights, f(x) = w2 max(0, w1 x). Every dot has w1 w2 = 1, so all dots are one function; "
        "lines join weights with equal KL to the prior, noise left out. The best rescaling moves along the dots to the "
        "lowest KL, where both weights are equal.",
        plane, Axis("w1", "weight into the unit, w1"), Axis("w2", "weight out of the unit, w2"),
        mark=Contour("kl", "KL in nats, up to a constant", levels=10),
        dots=[{"w1": w, "w2": 1 / w} for w in twins], dots_title="weights of one function",
    )  # fmt: skip


LESSON = Lesson(
    figures,
    hero=HERO,
    findings=(
        Finding(
            ("kl-up-to-five", "bounds-up-to-half", "vacuous-to-non-vacuous"),
            reproduced="Original KLs are up to {0.mean} the rescaled ones; three bounds become informative.",
            not_reproduced="Original KLs are up to {0.mean} the rescaled ones; not all three claims hold.",
            no_verdict="Original KLs are up to {0.mean} the rescaled ones; some verdicts are open.",
        ),
        Finding(
            ("twins-explode",),
            reproduced="With random factors each bound is over {0.low} as large; no prediction changes.",
            not_reproduced="With random factors one bound is only {0.mean} as large; no prediction changes.",
            no_verdict="With random factors one bound is {0.mean} as large: no verdict on five.",
        ),
    ),
    questions=(
        Question(
            "What does rescaling do to the bound of a network of your own?",
            "truerisk tighten --model mlp:64-32 --data digits --sigma-q 0.05 --sigma-p 1 --form mcallester",
        ),
        Question(
            "Which channels of a convolutional network can be rescaled, and which are pinned?",
            "truerisk symmetry --model convnet --input 1,1,28,28",
        ),
        Question(
            "How low does a bound become with a prior that was trained on half of the data?",
            "truerisk certify --model mlp:128-128-128 --method pac-bayes-kl",
        ),
    ),
    formulas=(
        Formula(
            r"L \le \hat{L} + \sqrt{(\mathrm{KL} + \ln (2 \sqrt{n} / \delta)) / (2 n)}",
            "McAllester's bound holds with probability 1 \u2212 delta. The error rate of networks sampled from the "
            "posterior is at most their training error plus a term that grows with the KL to the prior.",
        ),
        Formula(
            r"\mathrm{KL} = \sum_i \frac{w_i^2 + \sigma_q^2}{2 \sigma_p^2} + d \ln \frac{\sigma_p}{\sigma_q} "
            r"- \frac{d}{2}",
            "The KL between Gaussian noise around the d weights w and a Gaussian prior around 0.",
        ),
        Formula(
            r"\mathrm{KL}(\lambda) = \frac{\lambda^2 A + \lambda^{-2} B}{2 \sigma_p^2} - (a - b) \ln \lambda + c",
            "Lambda multiplies the a weights into one unit and divides the b weights out of that unit. A and B are the "
            "sums of their squares, noise included. The best rescaling picks the lambda with the lowest KL.",
        ),
    ),
)
