"""The JSON of two small certificates, and a result of the lab with figures of every kind."""

import json
import pathlib
from dataclasses import replace
from typing import Any

import pytest

from truerisk.lab.claim import OURS, Claim, Paper
from truerisk.lab.commitment import Commitment
from truerisk.lab.effect import Above
from truerisk.lab.experiment import Experiment
from truerisk.lab.figure import Axis, Figure, Images, Linked, Rule, Strip, Switch, Table, Tile
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars, Contour, Histogram, Map, Path, Points, Polygons, Regions, Slope, Surface
from truerisk.lab.result import Failure, Result
from truerisk.lab.rows import Rows
from truerisk.lab.units import PERCENT, TIMES, at_least, at_most

KEPT = pathlib.Path(__file__).parents[1] / "certificates" / "goldens"
SOFTWARE = {"torch": "2.13.0", "numpy": "2.4.6", "machine": "x86_64"}
MADE = {"software": SOFTWARE, "version": "0.1.0", "made": "2026-11-17T21:14:12Z"}


def claims(name: str, **changes: Any) -> dict[str, Any]:
    """The JSON of a kept certificate with other values in some of its fields."""
    kept = json.loads((KEPT / f"{name}.json").read_text())["record"] | MADE
    data = {"name": "digits", "source": "digits", "n": 1797, "classes": 3, "counts": [600, 600, 597]}
    floor = {"errors": 35, "n": 900, "delta": 0.003125}
    settings = {"seed": 7, "tried": 16, "model": "mlp:16", "delta": 0.05}
    return kept | {
        "delta": 0.05,
        "seed": 7,
        "model": {"name": "mlp:16", "kind": "built-in"},
        "n_certify": 900,
        "n_prior": 897,
        "data": kept["data"] | data,
        "settings": kept["settings"] | settings,
        "floor": 0.0512884547306824,
        "floor_detail": kept["floor_detail"] | floor,
        "assumptions": ["The 900 certification examples are independent draws.", "No examples are near copies."],
        "warnings": [],
        **changes,
    }


@pytest.fixture
def pac_bayes() -> dict[str, Any]:
    draws = {"n": 900, "groups": 900, "size": 1, "passes": 884, "chunk": 2000, "precision": "float64", "layered": True}
    kls = {"free_log_scales": 16, "original": 1234.5678, "tuned_scale": 99.5, "rescaled": 12.345, "both": 11.5}
    return claims(
        "pac-bayes-kl",
        risk_bound=0.07612676990910476,
        empirical_risk=0.03871320069056115,
        empirical_risk_upper=0.03958886681613277,
        kl=12.345,
        kl_unrescaled=1234.5678,
        rescaling=kls,
        draws=draws,
        counts={"floor": 35, "draws": 30766},
        breakdown=[
            {"part": "errors of the drawn networks", "value": 0.03871320069056115},
            {"part": "Monte Carlo", "value": 0.0008756661255716197},
            {"part": "confidence (delta)", "value": 0.035999541355375184},
            {"part": "KL(posterior, prior)", "value": 0.0005383617375968042},
        ],
        ledger=[
            {"event": "PAC-Bayes-kl inequality: the certification examples are unrepresentative", "delta": 0.0028125},
            {"event": "Monte Carlo: the drawn networks erred less often", "delta": 0.0003125},
            {"event": "15 other configurations that you may have tried on this data", "delta": 0.046875},
        ],
        other_forms={"McAllester": 0.11497392075276315, "quadratic": 0.08303428349032146, "Thiemann": 1.0},
        warnings=["The certificate was made for a test."],
        sentence="With 95% confidence, this network errs on at most 7.7% of unseen examples. Weights are resampled for "
        "each prediction.",
    )


@pytest.fixture
def compared() -> dict[str, Any]:
    """A network that was compared with a certified one."""
    return claims("disagreement")


@pytest.fixture
def chain() -> dict[str, Any]:
    """A page with a table of five columns."""
    return claims("recursive", sentence="With 95% confidence, this network errs on at most 94.9% of unseen examples.")


@pytest.fixture
def hold_out() -> dict[str, Any]:
    return claims(
        "hold-out",
        risk_bound=0.0575,
        empirical_risk=35 / 900,
        empirical_risk_upper=35 / 900,
        counts={"floor": 35},
        breakdown=[
            {"part": "errors on the tested examples", "value": 35 / 900},
            {"part": "confidence (delta)", "value": 0.0575 - 35 / 900},
        ],
        ledger=[
            {"event": "Clopper-Pearson: the tested examples are misleading", "delta": 0.003125},
            {"event": "15 other configurations that you may have tried on this data", "delta": 0.046875},
        ],
        sentence="With 95% confidence, this network errs on at most 5.8% of unseen examples.",
    )


NETWORKS = ("mlp-1x512", "mlp-3x512", "alexnet", "inception", "linear")
LABELS = ("true labels", "half of them random", "random labels")
ERROR = Axis("error", "training error", PERCENT, zero=True, counted_on=50)


def curves(epochs: int, seeds: int = 5) -> list[dict[str, Any]]:
    """Errors that fall with the epochs, faster for true labels; one row per run, as experiments have them."""
    rows = [
        (n, label, e, s) for n in range(5) for label in range(3) for e in range(1, epochs + 1) for s in range(seeds)
    ]
    return [
        {"network": NETWORKS[n], "labels": LABELS[k], "epoch": e, "seed": s,
         "error": 0.9 / (1 + e / (1 + k + n)) + 0.01 * (s - (seeds - 1) / 2)}
        for n, k, e, s in rows
    ]  # fmt: skip


def plane() -> list[dict[str, Any]]:
    """A valley on a grid, and the side on which each point lies."""
    places = [(a / 4, b / 4) for a in range(-8, 9) for b in range(-8, 9)]
    return [{"a": a, "b": b, "loss": a * a + 2 * b * b + 0.1, "side": "left" if a < b else "right"} for a, b in places]


def linked() -> Linked:
    """A line through few points whose slope is moved, and its error: one slider and two switches for both panels."""
    states = [
        {"slope": s, "noisy": n, "bent": b} for s in (0.5, 1.0, 2.0, 3.0) for n in (False, True) for b in (False, True)
    ]
    lines = [{**state, "x": x, "y": state["slope"] * x + state["bent"] * x * x} for state in states for x in (0, 1, 2)]
    points = [
        {"noisy": n, "bent": b, "x": x, "y": x + n} for n in (False, True) for b in (False, True) for x in (0, 1, 2)
    ]
    errors = [
        {**state, "error": abs(state["slope"] - 1) + 0.1 + state["noisy"] + 2 * state["bent"]} for state in states
    ]
    curve = [{"at": row["slope"], **{name: row[name] for name in ("noisy", "bent", "error")}} for row in errors]
    moved: dict[str, Any] = {
        "slider": Axis("slope", "slope"),
        "starts_at": 1.0,
        "switches": (Switch("noisy", "noise", on=True), Switch("bent", "bend")),
        "group": None,
    }
    one = Figure(
        "line", "The line", "", lines, Axis("x", "x"), Axis("y", "y"), dots=points, dots_title="points", **moved
    )
    dots = [{**row, "at": row["slope"]} for row in errors]
    two = Figure(
        "error",
        "Its error",
        "",
        curve,
        Axis("at", "slope", log=True),
        Axis("error", "error", log=True),
        rules=[Rule(1.0, "truth", upright=True)],
        dots=dots,
        **moved,
    )
    return Linked("linked", "Linked", "Two panels.", [one, two], shares=(3, 2), claims=["fit"])


def lab_figures() -> list[Figure | Linked | Table | Images]:
    """Every mark, axis and ornament at least once."""
    epochs, networks = Axis("epoch", "epochs"), Axis("network", "network", ordinal=True)
    few, many = curves(6), [row for row in curves(50) if row["network"] == "alexnet"]
    last = [row for row in few if row["epoch"] == 6 and row["network"] != "linear"]
    one = [row for row in few if row["network"] == "alexnet"]
    ends = [row for row in curves(6, 3) if row["epoch"] in (1, 6) and row["network"] == "inception"]
    sizes = (0, 100, 1000, 5000)
    norms = [{"n": n, "norm": n**1.5 * (k + 1), "kernel": f"kernel {k}"} for n in sizes for k in range(6)]
    cells = [{"width": w, "noise": p, "ratio": w * p} for p in (0.0, 0.5, 1.0) for w in (256, 16)]
    log_n, log_norm = Axis("n", "examples", log=True), Axis("norm", "norm of the solution", log=True)
    units, noise = Axis("width", "hidden units", log=True), Axis("noise", "label noise")
    look: dict[str, Any] = {"series": "labels", "series_title": "labels"}
    chance = [Rule(0.9, "chance: 90 %"), Rule(0.89, "published: 89 %")]
    upright = [Rule(500, "as many as weights", upright=True), Rule(2000, "four times", upright=True)]
    counts = [["mlp", 1209866, True, "51.2 %"], ["a" * 60, 1387786, None, "14 %"]]
    a, b, loss = Axis("a", "first weight"), Axis("b", "second weight"), ("loss", "training loss")
    dots = [{"a": -1.0, "b": 1.0, "side": "left"}, {"a": 1.0, "b": -1.0, "side": "right"}]
    corners = [
        {"x": x + i, "y": y, "piece": i, "slope": float(i)} for i in range(3) for x, y in ((0, 0), (1, 0), (0, 1))
    ]
    walk = [{"a": 2 - t / 10, "b": (2 - t / 10) ** 2 / 2 - 1} for t in range(30)]
    tiles = [Tile([[0, 255], [128, 64]], "7"), Tile([[[255, 0, 0], [0, 255, 0]]] * 2, "3", wrong=True)]
    return [
        Figure("curves", "Curves", "One network.", many, epochs, ERROR, **look, rules=chance, claims=["fit"]),
        Figure("panels", "Panels", "All networks.", few, epochs, ERROR, **look, facet="network", rules=chance),
        Figure("norms", "Norms", "Logarithms.", norms, log_n, log_norm, series="kernel",
               rules=[Rule(10, "ten"), *upright]),
        Figure("dots", "Dots", "Side by side.", last, networks, ERROR, Points(), **look),
        Figure("bars", "Bars", "From zero.", last, networks, ERROR, Bars(), **look, rules=chance[:1]),
        Figure("heights", "Log bars", "No series.", norms[6:12], Axis("kernel", "kernel"), log_norm, Bars()),
        Figure("before", "Before and after", "Three seeds.", ends, Axis("epoch", "epoch"), ERROR, Slope(), **look),
        Figure("moving", "Slider", "Networks.", one, epochs, ERROR, slider=Axis("labels", "labels"), claims=["time"]),
        Figure("shares", "Shares", "Counts.", many, Axis("error", "error", PERCENT), Axis("", "share", PERCENT),
               Histogram(10), **look),
        Figure("walk", "Walk", "Downhill.", walk, a, b, Path(arrow=True)),
        Figure("map", "Map", "Numbers in cells.", cells, units, noise, Map("ratio", "ratio")),
        Figure("sides", "Sides", "Two classes.", plane(), a, b, Regions("side"), dots=dots),
        Figure("valley", "Valley", "Lines.", plane(), a, b, Contour(*loss), dots=walk),
        Figure("hill", "Hill", "Turned.", plane(), a, b, Surface(*loss)),
        Figure("pieces", "Pieces", "Triangles.", corners, Axis("x", "x"), Axis("y", "y"), Polygons("piece", "slope")),
        linked(),
        Figure("empty", "Empty", "All of it is missing.", [{"a": 1, "b": None}], Axis("a", "a"), Axis("b", "b")),
        Images("digits", "Digits", "With labels.", [Strip("random labels", tiles)], claims=["fit"]),
        Table("sizes", "Sizes", "Exact counts.", ["network", "parameters", "fits", "error"], counts),
    ]  # fmt: skip


def lab_grid() -> list[dict[str, Any]]:
    return [{"data": "digits", "network": n, "labels": k, "seed": s} for n in NETWORKS for k in LABELS for s in (0, 1)]


ZHANG = Paper("Zhang, Bengio, Hardt, Recht, Vinyals", 2017, "Rethinking generalization", arxiv="1611.03530")


def fit(runs: Rows) -> float:
    return 0.001 * runs.present[0]["seed"]


def slowdown(runs: Rows) -> Above:
    return Above(5.2 + 0.1 * runs.present[0]["seed"])


def error(runs: Rows) -> float:
    return runs.mean("error")


LAB = Experiment(
    name="random-labels",
    title="Networks fit random labels",
    about="Zhang et al. drew labels at random. The networks fit them.",
    papers=(ZHANG,),
    grids={"quick": lab_grid},
    task=lambda setting: {"error": 0.1},
    claims=(
        Claim("fit", "Networks fit noise.", fit, at_most(10, PERCENT), ZHANG.at("Table 1"), "0%", 0.0,
              ("network",), where={"network": NETWORKS[:4]}, counted_on=1000),
        Claim("time", "Noise takes only a little longer.", slowdown, at_most(4, TIMES), ZHANG.at("Figure 1b"),
              "2 times", 2.0, where={"network": NETWORKS[:4]}, note="Was 3.", pilot="one run of seed 7"),
        Claim("test", "Errors are at chance.", error, at_least(85, PERCENT), OURS, "90%", counted_on=500),
    ),
    lesson=Lesson(
        figures=lambda rows: lab_figures(),
        findings=(Finding(("fit",), "Networks fit all but {0.mean} of noise.", "Noise is not fitted.", "Unknown."),),
        questions=(Question("Does it happen on other data?", "truerisk lab run random-labels --data mnist"),),
        formulas=(Formula(r"\frac{1}{n} \sum_{i=1}^n \ell_i", "The mean loss."),),
    ),
)  # fmt: skip


@pytest.fixture(scope="session")
def lab_result() -> Result:
    """A result with a claim of each verdict, a failed run and a missing one."""
    settings = lab_grid()
    done = [{**setting, "error": 0.1 + 0.001 * setting["seed"]} for setting in settings[:-2]]
    rows = Rows(done, missing=settings[-2:], fields=settings[0])
    failure = Failure(settings[-1], "RuntimeError: the loss is not finite", "Traceback")
    software = {"truerisk": "0.1.0", "torch": "2.13.0"}
    command = "truerisk lab run random-labels --scale quick"
    early = Commitment(at="2026-01-01T00:00:00Z")
    verdicts = [replace(verdict, commitment=early) for verdict in LAB.judge(rows, "quick")]
    started = [(setting, "2026-01-02T00:00:00Z") for setting in settings]
    return Result(LAB, "quick", rows, verdicts, [failure], 20, 8, 133.2, command, software, started)
