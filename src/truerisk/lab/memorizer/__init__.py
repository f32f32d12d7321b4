"""`memorizer`: the network with 2n + d weights that fits any labels, built instead of trained (Zhang et al. 2017)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from truerisk.lab.experiment import Claim, Experiment, Outcome, Setting
from truerisk.lab.figure import percent
from truerisk.lab.memorizer.figures import figures
from truerisk.lab.memorizer.runs import task
from truerisk.lab.rows import Rows
from truerisk.words import at_least, at_most

THEOREM = "Zhang et al. 2017, Theorem 1"
LABELS = ("true", "random", "real numbers")


def _setting(data: str, n: int, n_test: int, labels: str, seed: int, **more: Any) -> Setting:
    setting = {"data": data, "n": n, "n_test": n_test, "labels": labels, "layers": 1, "kinks": "points"}
    if data == "gaussian":
        setting["dimension"] = 50
    return {**setting, "precision": "float64", "directions": 64, "seed": seed, **more}


def _grid(
    sizes: Mapping[str, Sequence[int]], n_test: int, depths: Sequence[int], deep: int, seeds: int
) -> list[Setting]:
    """All sizes with all labels in both precisions; kinks in the middle, and depth, for random labels only."""
    out: list[Setting] = []
    for data, seed in product(sizes, range(seeds)):
        for n, labels, precision in product(sizes[data], LABELS, ("float64", "float32")):
            out.append(_setting(data, n, n_test, labels, seed, precision=precision))
        out += [_setting(data, n, n_test, "random", seed, kinks="middle") for n in sizes[data]]
    first = next(iter(sizes))
    for seed, layers in product(range(seeds), depths):
        out.append(_setting(first, deep, n_test, "random", seed, layers=layers))
    return out


def _smoke() -> list[Setting]:
    return _grid({"digits": (30, 200), "gaussian": (30, 200)}, 500, (2, 10), 200, 1)


def _quick() -> list[Setting]:
    sizes = {
        "digits": (30, 100, 300, 1000),
        "mnist1d": (30, 100, 300, 1000),
        "gaussian": (30, 100, 300, 1000, 3000, 10_000),
    }
    return _grid(sizes, 797, (2, 3, 5, 10, 30, 100), 1000, 3)


def _medium() -> list[Setting]:
    return _grid({"mnist": (1000, 10_000), "cifar-10": (1000, 10_000)}, 10_000, (3, 10, 100), 1000, 1)


def _paper() -> list[Setting]:
    """The theorem knows no size; these are the training sets of the paper's other experiments."""
    return _grid({"cifar-10": (1000, 50_000), "mnist": (1000, 60_000)}, 10_000, (3, 10, 100), 1000, 3)


def _shallow(rows: Rows, **more: Any) -> Rows:
    return rows.where(layers=1, kinks="points", **more)


def _up_to(rows: Rows, largest: int) -> Rows:
    return rows.where(n=[n for (n,), _ in rows.groups("n") if n <= largest])


def _fits(rows: Rows) -> Outcome:
    some = _up_to(_shallow(rows, precision="float64"), 1000)
    worst, n = some.max("max_error"), max(some.column("n"))
    return Outcome(worst < 1e-6, f"an error of at most {at_most(worst, 2)} in {len(some)} networks (n up to {n})")


def _counts(rows: Rows) -> Outcome:
    some = rows.where(layers=1)
    excess = [w - 2 * n - d for w, n, d in zip(*(some.column(c) for c in ("weights", "n", "inputs")), strict=True)]
    return Outcome(not any(excess), f"2n + d weights in {excess.count(0)} of {len(excess)} networks")


def _accuracy(rows: Rows) -> Outcome:
    worst = _shallow(rows, precision="float64", labels=["true", "random"]).max("train_error")
    return Outcome(worst == 0, f"{percent(1 - worst)} training accuracy at worst")


def _depth(rows: Rows) -> Outcome:
    rows.where(layers=1).column("seed")
    deep = [row for (k,), some in rows.groups("layers") if k > 1 for row in _all(some)]
    worst = max(row["max_error"] for row in deep)
    narrow = all(row["width"] <= row["n"] / (row["layers"] - 1) + 4 for row in deep)
    light = all(row["weights"] <= 4 * row["n"] + row["inputs"] + 5 * row["layers"] for row in deep)
    k = max(row["layers"] for row in deep)
    widest = max(row["width"] for row in deep if row["layers"] == k)
    measured = f"an error of at most {at_most(worst, 2)}; {widest} units wide with {k} layers"
    return Outcome(worst < 1e-6 and narrow and light, measured)


def _all(rows: Rows) -> list[dict[str, Any]]:
    rows.column("seed")  # raises where a planned run is missing
    return rows.present


def _single(rows: Rows) -> Outcome:
    least = _shallow(rows, precision="float32", n=1000).min("max_error")
    return Outcome(least >= 1e-3, f"an error of at least {at_least(least, 2)} in float32 (n = 1000)")


def _no_learning(rows: Rows) -> Outcome:
    some = _shallow(rows, precision="float64", data="digits", n=1000, labels="true")
    net, neighbour = some.mean("test_error"), some.mean("neighbour_test_error")
    measured = f"{percent(net)} test error, {percent(neighbour)} for the nearest neighbour"
    return Outcome(net >= 0.7 and neighbour <= 0.05, measured)


def _chance(rows: Rows) -> Outcome:
    some = _shallow(rows, precision="float64", labels="random", n=1000)
    errors = [group.mean("test_error") for _, group in some.groups("data")]
    measured = f"test errors from {percent(min(errors))} to {percent(max(errors))}"
    return Outcome(bool(errors) and all(abs(error - 0.9) <= 0.03 for error in errors), measured)


CLAIMS = (
    Claim(
        "fits-any-labels",
        "A two-layer ReLU network with 2n + d weights represents any function on n points in d dimensions.",
        THEOREM,
        "exact",
        "an error below 1e-6 in float64, with kinks on the points, for every sample of up to 1000 points",
        _fits,
    ),
    Claim(
        "weights",
        "The network has 2n + d weights.",
        THEOREM,
        "2n + d",
        "exactly 2n + d in every two-layer network",
        _counts,
    ),
    Claim(
        "training-accuracy",
        "All labels are reproduced, true or random.",
        THEOREM,
        "100 %",
        "100 % training accuracy in float64 at every size",
        _accuracy,
    ),
    Claim(
        "depth",
        "For every depth k, width O(n/k) and O(n + d) weights are enough.",
        "Zhang et al. 2017, Corollary 1",
        "width O(n/k), O(n + d) weights",
        "an error below 1e-6, at most n/(k - 1) + 4 units per layer and at most 4n + d + 5k weights",
        _depth,
    ),
    Claim(
        "rounding",
        "The theorem is about real numbers: in single precision the network does not fit.",
        "a consequence of its large weights; not discussed in the paper",
        "no number; an earlier trial had weights of 4e5 and gaps of 7e-6",
        "an error of at least 1e-3 in float32 for every sample of 1000 points",
        _single,
        ("quick", "medium"),
    ),
    Claim(
        "no-learning",
        "Fitting a sample is no learning: given true labels, this network is as good as useless on other examples.",
        "Zhang et al. 2017, section 4: the theorem is about the sample only",
        "no number; chance is 90 %",
        "at least 70 % test error on digits, where the nearest neighbour has at most 5 %",
        _no_learning,
        ("quick",),
    ),
    Claim(
        "chance",
        "After random labels the test error is that of guessing.",
        "Zhang et al. 2017, section 2",
        "90 %",
        "90 % with a tolerance of 3 points on every data set (five standard errors of three runs with 797 examples)",
        _chance,
        ("quick", "medium"),
    ),
)


EXPERIMENT = Experiment(
    name="memorizer",
    title="A network that memorizes by construction",
    about=(
        "How large must a network be to fit any labels of n examples? Two layers and 2n + d weights are enough, and "
        "the proof is a recipe: project all points on one direction, and draw a broken line through the labels. Here "
        "the recipe is carried out, not trained, on digits, signals and Gaussian points, for true labels, random "
        "labels and real numbers, and its deep version too. The network does what was promised and nothing more: its "
        "test error tells that fitting is not learning, its weights are huge, it needs double precision, and tiny "
        "moves of the inputs break it. Counting weights cannot explain why trained networks are better than this."
    ),
    papers=("Zhang et al.: Understanding deep learning requires rethinking generalization. ICLR 2017",),
    grids={"smoke": _smoke, "quick": _quick, "medium": _medium, "paper": _paper},
    task=task,
    claims=CLAIMS,
    figures=figures,
    cost=lambda setting: 1.0 + setting["n"] / 300,
)
