"""Experiment `shattering`: which sets of points can a family of classifiers label in every way?

Vapnik and Chervonenkis 1971, Cover 1965, and the examples in Mohri et al. 2018, Section 3.3. For a few points, the
labelings that half-planes, intervals, rectangles, and sine waves realize are counted exactly; small ReLU networks are
trained on every labeling, so their counts are lower estimates. Random labels of random points in ten dimensions show
how often hyperplanes separate them. The counts are in `truerisk.measures.shattering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.lab.claim import OURS, Checked, Claim, Exact, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.figure import percent
from truerisk.lab.papers import MOHRI
from truerisk.lab.rows import Rows
from truerisk.lab.units import POINTS, between
from truerisk.measures import shattering
from truerisk.measures.shattering import count_intervals, count_rectangles, count_sine
from truerisk.seeds import derive

COVER_TITLE = "Geometrical and statistical properties of systems of linear inequalities"
COVER = Paper("Cover", 1965, COVER_TITLE, "IEEE Trans. Electronic Computers 14")
VAPNIK = Paper("Vapnik, Chervonenkis", 1971, "On the uniform convergence of relative frequencies", "TPA 16")
COUNTS: dict[str, Any] = {"intervals": count_intervals, "rectangles": count_rectangles, "sine": count_sine}

# ---- the task ------------------------------------------------------------------------------------------------------


def task(setting: Setting) -> Record:
    """Count labelings of m points, or separate random labels of n random points."""
    return _capacity(setting) if setting["part"] == "capacity" else _shatter(setting)


def _capacity(s: Setting) -> Record:
    rng = np.random.default_rng(derive(s["seed"], "capacity", s["d"], s["n"], s["draws"]))
    X, labels = rng.standard_normal((s["n"], s["d"])), rng.random((s["draws"], s["n"])) < 0.5
    share = float(np.mean([shattering.separable(X, row) for row in labels]))
    return {"share": share, "formula": shattering.cover(s["n"], s["d"]) / 2 ** s["n"]}


def _shatter(s: Setting) -> Record:
    """The smallest and the largest number of labelings of m points that a family realizes, over the sets tried."""
    exact = COUNTS.get(s["family"])
    found = np.atleast_1d(exact(s["m"])).tolist() if exact else [_count(s, k) for k in range(s["sets"])]
    return {"least": min(found), "most": max(found), "tried": len(found)}


def _count(s: Setting, k: int) -> int:
    """Labelings of the k-th set of Gaussian points."""
    X = np.random.default_rng(derive(s["seed"], "points", s["d"], s["m"], k)).standard_normal((s["m"], s["d"]))
    if s["family"] == "affine":
        return shattering.count_affine(X)
    if s["family"] == "nearest":
        return shattering.count_nearest(X)
    seed = derive(s["seed"], "networks", s["width"], s["m"], s["rounds"], k)
    return shattering.count_trained(X, s["width"], s["steps"], s["rounds"], seed)


# ---- the grids -----------------------------------------------------------------------------------------------------

SIZES = (11, 16, 22, 28, 33)  # random points in R^10, 1 to 3 per parameter; 22 is the capacity


def _grid(largest: int, networks: int, many: int, draws: int, seeds: Sequence[int], rounds: int = 6) -> list[Setting]:
    """Exact counts for up to `largest` points, and small networks on up to `networks` points, need one seed each."""
    grid: list[Setting] = []
    for m in range(1, largest + 1):
        # More sets of d + 2 points: by Radon's theorem none of them is shattered.
        grid += [{"family": "affine", "d": d, "m": m, "sets": many if m == d + 2 else 2} for d in (1, 2, 3)]
        grid += [{"family": "nearest", "d": 2, "m": m, "sets": 1}]
        grid += product(family=("intervals", "sine"), m=[m])
        grid += [{"family": "rectangles", "m": m}] if m <= 6 else []  # m! orders
    # 500 steps and six attempts: only so that training converges.
    how = {"family": "relu", "d": 2, "sets": 1, "steps": 500, "rounds": rounds}
    grid += product(how, m=range(3, networks + 1), width=dict.fromkeys((1, 2, 4, networks)))
    counts = [{"part": "shatter", "seed": seeds[0], **each} for each in grid]
    return counts + product({"part": "capacity", "d": 10, "draws": draws}, n=SIZES, seed=seeds)


def smoke() -> list[Setting]:
    return _grid(5, 4, 3, 20, [20], rounds=2)


def quick() -> list[Setting]:
    return _grid(8, 8, 30, 1000, range(20, 25))


def medium() -> list[Setting]:
    return _grid(8, 8, 30, 5000, range(20, 23))


def paper() -> list[Setting]:
    return _grid(10, 8, 100, 5000, range(20, 23))


# ---- effects and checks --------------------------------------------------------------------------------------------


def off_formula(runs: Rows) -> float:
    """The share of separable labelings, minus Cover's."""
    return float(runs.one("share") - runs.one("formula"))


def cover_count(rows: Rows) -> Checked:
    """Every set of points in general position has the formula's number of labelings."""
    runs = rows.complete()
    right = [row["least"] == row["most"] == shattering.cover(row["m"], row["d"]) for row in runs]
    sets = sum(row["tried"] for row in runs)
    good = sum(row["tried"] for row, holds in zip(runs, right, strict=True) if holds)
    return Checked(all(right), f"the formula's number on {good:,} of {sets:,} sets")


def vc_affine(rows: Rows) -> Checked:
    rows.complete()
    found = {d: largest_shattered(some) for (d,), some in rows.groups("d")}
    words = ", ".join(f"{vc} points in R^{d}" for d, vc in found.items())
    return Checked(all(vc == d + 1 for d, vc in found.items()), f"at most {words} shattered")


def vc_boxes(rows: Rows) -> Checked:
    intervals, rectangles = (largest_shattered(rows.where(family=name)) for name in ("intervals", "rectangles"))
    counts = all(row["most"] == row["m"] * (row["m"] + 1) // 2 + 1 for row in rows.where(family="intervals"))
    return Checked((intervals, rectangles, counts) == (2, 4, True), f"intervals {intervals}, rectangles {rectangles}")


def all_shattered(rows: Rows) -> Checked:
    """All labelings of every set are realized."""
    least = min(row["least"] / 2 ** row["m"] for row in rows.complete())
    return Checked(least == 1, f"{percent(least)} of the labelings at worst, for up to {rows.max('m')} points")


def wide_shattered(rows: Rows) -> Checked:
    """All labelings are found for every number of points up to the number of hidden units."""
    present, missing = ([run for run in runs if run["width"] >= run["m"]] for runs in (rows.present, rows.missing))
    return all_shattered(Rows(present, missing))


def largest_shattered(rows: Rows) -> int:
    """The largest m for which some set of m points that was tried is shattered; 0 if there is none."""
    return max((row["m"] for row in rows.complete() if row["most"] == 2 ** row["m"]), default=0)


CLAIMS = (
    Claim(
        "cover-capacity",
        "The share of labelings of n random points that hyperplanes separate is Cover's, one half at n = 2(d + 1).",
        off_formula,
        between(-5, 5, POINTS),
        COVER.theorem("Section 3"),
        "no difference; 50% of the labelings of 22 points in 10 dimensions",
        published_at=0.0,
        every=("n",),
        where={"part": "capacity"},
        counted_on="draws",
        note="Until 2026-11-18 the region was four standard deviations of 400 draws: 10 points at a share of 50%.",
    ),
    Exact(
        "cover-count",
        "Hyperplanes realize exactly 2 sum_{k <= d} C(m - 1, k) labelings of m points in general position in R^d.",
        cover_count,
        COVER.theorem("Theorem 1"),
        "the formula's number on every set of points",
        published="an exact number",
        where={"part": "shatter", "family": "affine"},
    ),
    Exact(
        "vc-affine",
        "The VC dimension of affine classifiers in R^d is d + 1: by Radon's theorem no d + 2 points are shattered.",
        vc_affine,
        VAPNIK.theorem("VC dimension of half-spaces"),
        "d + 1 points shattered in R^d and no set of d + 2",
        published="2, 3, and 4 for d = 1, 2, and 3",
        where={"part": "shatter", "family": "affine"},
    ),
    Exact(
        "vc-boxes",
        "The VC dimension is 2 for intervals and 4 for axis-parallel rectangles in the plane.",
        vc_boxes,
        MOHRI.theorem("Section 3.3"),
        "exactly 2 and 4, over all orders of the points, and m(m + 1)/2 + 1 labelings by intervals",
        published="2 and 4",
        where={"part": "shatter", "family": ("intervals", "rectangles")},
    ),
    Exact(
        "vc-infinite",
        "One parameter is enough for an infinite VC dimension: the sign of a sine realizes every labeling.",
        all_shattered,
        MOHRI.theorem("Section 3.3"),
        "all labelings at every number of points",
        published="all labelings of any number of points",
        where={"part": "shatter", "family": "sine"},
        note="Until 2026-11-18 the claim included the nearest neighbor, which realizes every labeling of different "
        "points by definition. Its counts remain in the table.",
    ),
    Exact(
        "network-shatters",
        "ReLU networks with one hidden unit per point shatter the points: training finds weights for every labeling.",
        wide_shattered,
        OURS,
        "all labelings found, for every number of points up to the number of hidden units",
        published="all labelings have weights (Theorem 1 of Zhang et al. 2017)",
        where={"part": "shatter", "family": "relu"},
        note="The theorem proves that such weights exist, not that training finds them.",
    ),
)

EXPERIMENT = Experiment(
    name="shattering",
    title="VC dimension: which points can be labeled in every way?",
    about="A family of classifiers shatters a set of points if it can label them in every way. The size of the largest "
    "such set is the VC dimension of the family, which enters classical bounds. For small sets, linear programs, "
    "counting, or training decide every labeling. Parameters and VC dimension often agree in number, but a sine with "
    "one parameter shatters any number of points.",
    papers=(VAPNIK, COVER, MOHRI),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=lambda setting: setting.get("draws", 200) / 1000,
)
