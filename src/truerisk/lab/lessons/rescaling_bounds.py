"""The page of `rescaling-bounds`: bounds before and after, other ways to lower them, and twins of one network."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from truerisk.bounds import mcallester
from truerisk.lab.figure import Axis, Cell, Exhibit, Figure, Rule, Table, percent
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Contour, Line, Points, Slope
from truerisk.lab.rescaling.columns import COLUMNS
from truerisk.lab.rescaling.posteriors import fitted
from truerisk.lab.rescaling.published import ARCHITECTURES, BEFORE_AFTER
from truerisk.lab.rescaling.settings import RATIO, RISK_LIMIT
from truerisk.lab.rows import Rows
from truerisk.lab.samples import samples
from truerisk.lab.units import TIMES
from truerisk.pacbayes import Gaussian, gibbs_risk, tighten
from truerisk.seeds import derive
from truerisk.symmetry import find_symmetry
from truerisk.words import bound, nats

LABELS = {"original": "original", "tuned": "tuned prior scale", "rescaled": "rescaled", "both": "both"}
TRAINED, FAILED = "trained posterior", "training failed"
PUBLISHED = {False: "published, original", True: "published, rescaled"}
RECIPES = {"widest": "widest noise", "standard": "standard prior"}
FEW = ("256-256-256-256", "512", "128-128-128", "64-32", "32")  # networks of the first figure, of all sizes
HALF = 0.5  # sampled networks that err on more than half of their training examples have learned nothing of use
LEAST = min(ratio for *_, ratio in ARCHITECTURES.values())  # the smallest published ratio of KLs
VACUOUS = Rule(1.0, "vacuous above")
WIDTHS = "hidden layers in the paper (on digits: a quarter of these widths)"


def figures(rows: Rows) -> Sequence[Exhibit]:
    """Bounds before and after, all ways to lower them, KL ratios, the convolutional network, and all numbers."""
    return [_hero(rows), _ways(rows), _ratios(rows), _convolutional(rows), _numbers(rows)]


# ---- before and after ----------------------------------------------------------------------------------------------


def _states(rows: Rows) -> Rows:
    """Each run before and after rescaling."""
    fields = {"before rescaling": "original_mcallester", "after rescaling": "rescaled_mcallester"}
    return rows.longer("bound", fields, into="state")


def _hero(rows: Rows) -> Figure:
    some = _states(rows.where(part="architectures", posterior="standard", row=FEW))
    return Figure(
        "before-after", "Bounds of five networks before and after the best rescaling",
        "McAllester's bound with a standard prior, for five of ten networks, named by the paper's hidden layers (on "
        "digits, a quarter of these widths). Above the dashed line a bound is vacuous: it says nothing. Rescaling "
        "changes no prediction, so every drop shows how much of a bound was about the scale of weights.",
        sorted(some, key=lambda row: FEW.index(row["row"])),
        Axis("state", "", ordinal=True), Axis("bound", "bound on the error rate", zero=True, bound=True),
        mark=Slope(), series="row", series_title="hidden layers", rules=[VACUOUS],
        claims=("lowers-bounds", "vacuous-to-non-vacuous"),
    )  # fmt: skip


def _convolutional(rows: Rows) -> Figure:
    return Figure(
        "convolutional", "A convolutional network at the paper's noise levels",
        "McAllester's bound of one convolutional network before and after the best rescaling; each line is a pair of "
        "standard deviations (prior / posterior). Above the dashed line a bound says nothing. Pairs whose prior scale "
        "already suits the weights have little to gain.",
        _states(rows.where(part="noise")), Axis("state", "", ordinal=True),
        Axis("bound", "bound on the error rate", zero=True, bound=True),
        mark=Slope(), series="row", series_title="prior / posterior", rules=[VACUOUS], claims=("lowers-convolutional",),
    )  # fmt: skip


# ---- other ways to lower a bound -----------------------------------------------------------------------------------


def _failed(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """The networks whose trained posteriors, on average over seeds, err on more than half of the training examples."""
    trained = Rows(row for row in rows if row["posterior"] == "trained")
    return {row for (row,), some in trained.groups("row") if some.mean("risk") > HALF}


def _by_size(rows: Rows) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["weights"])


def _comparable(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the data are those of the paper."""
    return all((row["data"], row["n"]) in (("mnist", 60_000), ("cifar-10", 50_000)) for row in rows)


def _ways(rows: Rows) -> Figure:
    found, failed = [], _failed(rows)
    for row in _by_size(rows.where(part="architectures")):
        place = {name: row[name] for name in ("row", "seed")}
        if row["posterior"] == "trained":
            way, value = FAILED if row["row"] in failed else TRAINED, row["original_mcallester"]
            found += [{**place, "recipe": recipe, "way": way, "bound": value} for recipe in RECIPES.values()]
            continue
        values = {LABELS[column]: row[f"{column}_mcallester"] for column in ("original", "tuned", "rescaled")}
        if _comparable([row]):
            values |= {PUBLISHED[after]: BEFORE_AFTER[row["row"]][after] for after in (False, True)}
        found += [{**place, "recipe": RECIPES[row["posterior"]], "way": way, "bound": v} for way, v in values.items()]
    return Figure(
        "ways", "Rescaled, tuned, or trained: which bound is lowest?",
        f"Bounds of all ten networks, smallest first, for two guesses of the recipe: the widest noise with at most "
        f"{RISK_LIMIT:.0%} training error, and a standard prior. If a tuned prior scale does as well as rescaling, one "
        "number does the work of all factors. Posteriors whose training failed err on over half of the training "
        "examples.",
        found, Axis("row", WIDTHS, ordinal=True), Axis("bound", "bound on the error rate", log=True, bound=True),
        mark=Points(), series="way", series_title="bound", facet="recipe", rules=[VACUOUS],
        claims=("tuned-scale-matches", "trained-non-vacuous", "trained-under-half", "training-beats-rescaling",
                "published-before", "published-after"),
    )  # fmt: skip


def _ratios(rows: Rows) -> Figure:
    names = {**RECIPES, "trained": TRAINED}
    found = [
        {"row": row["row"], "seed": row["seed"], "posterior": names[row["posterior"]], "way": LABELS[column],
         "ratio": row["original_kl"] / row[f"{column}_kl"]}
        for row in _by_size(rows.where(part="architectures"))
        for column in COLUMNS[1:]
    ]  # fmt: skip
    return Figure(
        "kl-ratios", "By which factor does each method divide the KL?",
        "The original KL divided by the KL after tuning the prior scale, after rescaling, or after both. At the lower "
        "line nothing is gained; the upper line is the smallest factor in the paper. Check whether rescaling adds "
        "anything to a tuned scale, or to a trained posterior.",
        found, Axis("row", WIDTHS, ordinal=True), Axis("ratio", "original KL / KL", TIMES, log=True),
        mark=Points(), series="way", series_title="after", slider=Axis("posterior", "posterior"),
        rules=[Rule(1.0, "nothing gained"), Rule(LEAST, "smallest in the paper")],
        claims=("kl-ratio", "on-top-of-tuned", "trained-gain-little"),
    )  # fmt: skip


def _numbers(rows: Rows) -> Table:
    lines: list[list[Cell]] = []
    failed = _failed(rows)
    for (row, kind), some in Rows(rows).groups("row", "posterior"):
        name = FAILED if kind == "trained" and row in failed else {**RECIPES, "trained": TRAINED}.get(kind, "published")
        errors = [percent(some.mean(field)) for field in ("test_error", "risk")]
        kls = [nats(some.mean(f"{column}_kl")) for column in ("original", "rescaled", "both")]
        forms = [bound(some.mean(f"{column}_kl_form"), 3) for column in ("original", "rescaled", "both")]
        lines.append([row, name, *errors, *kls, *forms])
    return Table(
        "numbers", "KLs, and the bounds in their tightest form",
        f"Means over seeds. Errors of the network on test examples and of sampled networks on training examples; KLs "
        "in nats; PAC-Bayes-kl bounds, rounded up, at delta = 0.05. The noise of the first recipe is the widest with "
        f"at most {RISK_LIMIT:.0%} training error, its prior {RATIO:g} times as wide.",
        ["network or noise", "posterior", "test error", "sampled, training"]
        + [f"{what} {label}" for what in ("KL", "bound") for label in ("original", "rescaled", "both")],
        lines,
    )  # fmt: skip


# ---- a worked case: twins of one network ---------------------------------------------------------------------------

TRAINING: dict[str, Any] = {"data": "digits", "n": 1500, "n_test": 200}
TRAINING |= {"model": "mlp:16", "epochs": 20, "batch_size": 50, "lr": 0.01}
NOISE, PRIOR, DELTA = 0.1, 1.0, 0.05  # standard deviations of posterior and prior
SPREADS, TWINS = (1, 2, 3, 4, 6, 8), 4


def demo(setting: dict[str, Any]) -> dict[str, Any]:
    """Twins of one small network on digits: rescaled at random, with the KL of each and its lowest KL.

    Always digits, whatever the experiment runs on: pages of stored runs need no data set.
    """
    seed = derive(setting["seed"], "demo twins")
    train, _ = samples(TRAINING["data"], TRAINING["n"], TRAINING["n_test"], seed)
    network = copy.deepcopy(fitted(**TRAINING, seed=seed)).double()
    posterior, prior = Gaussian.around(network, NOISE), Gaussian.zero(network, PRIOR)
    symmetry = find_symmetry(network, torch.zeros(1, *train.input_shape, dtype=torch.float64))
    X = torch.from_numpy(train.X).double()
    outputs = network(X).detach()
    twins = []
    for spread in SPREADS:
        for twin in range(TWINS):
            factors = symmetry.random(math.log(spread), derive(seed, f"twin {twin}"))
            other = symmetry.rescale(posterior, factors)
            moved = float((other.network()(X) - outputs).abs().max().detach() / outputs.abs().max())
            kls = {"raw": other.kl(prior), "tightened": tighten(other, prior, symmetry).kl_after}
            twins.append({"spread": spread, "seed": twin, "moved": moved, **kls})
    return {"risk": gibbs_risk(posterior, train.X, train.y, derive(seed, "draws")).risk, "twins": twins}


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    """The twins' bounds, and the curve of twins of the smallest network there is."""
    return [_curve(), *([_twins(record)] if record.get("twins") else [])]


def _twins(record: dict[str, Any]) -> Figure:
    names = {"raw": "as it is", "tightened": "after the best rescaling"}
    found = [
        {"spread": twin["spread"], "twin": twin["seed"], "kind": label,
         "bound": mcallester(record["risk"], twin[kl], TRAINING["n"], DELTA, clip=False)}
        for twin in record["twins"]
        for kl, label in names.items()
    ]  # fmt: skip
    return Figure(
        "twins", "How do random factors change a bound?",
        "Bounds of twins of one network on digits: each twin rescales its units by random factors, whose typical size "
        "is on the horizontal axis. All twins make the same predictions. A bound about the function alone would give a "
        "flat curve.",
        found, Axis("spread", "typical random factor of a unit", TIMES, log=True),
        Axis("bound", "bound on the error rate", log=True, bound=True),
        mark=Line(), series="kind", series_title="bound", rules=[VACUOUS], group="twin",
    )  # fmt: skip


def _curve() -> Figure:
    """KL over the two weights of w2 relu(w1 x), and the weights with the same function as w1 = 3, w2 = 1/3."""
    places = [0.1 + 0.1 * step for step in range(36)]
    plane = [{"w1": a, "w2": b, "kl": (a * a + b * b) / (2 * PRIOR**2)} for a in places for b in places]
    twins = [math.exp(math.log(3.5) * step / 12) for step in range(-12, 13)]
    return Figure(
        "curve", "Different weights, one function, many KLs",
        "A network with two weights, f(x) = w2 max(0, w1 x). Every dot has w1 w2 = 1, so all dots are one function; "
        "lines join weights with equal KL to the prior. The best rescaling moves along the dots to the lowest KL, "
        "where both weights are equal.",
        plane, Axis("w1", "weight into the unit, w1"), Axis("w2", "weight out of the unit, w2"),
        mark=Contour("kl", "KL in nats, up to a constant", levels=10),
        dots=[{"w1": w, "w2": 1 / w} for w in twins], dots_title="weights of one function",
    )  # fmt: skip


LESSON = Lesson(
    figures,
    hero="before-after",
    findings=(
        Finding(
            ("lowers-bounds",),
            reproduced="Rescaling lowers the bound of every network, to at most {0.high} its size.",
            not_reproduced="Rescaling cuts some bounds by under a quarter: one to {0.mean} its size.",
            no_verdict="Rescaling lowers every bound, one to {0.mean} its size: no verdict on a quarter.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Which channels of a convolutional network can be rescaled, and which are pinned?",
            "truerisk symmetry --model convnet --input 1,1,28,28",
        ),
        Question("Which complexity measures does a random rescaling fool?", "truerisk measure --audit"),
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
