"""Low rank or low norm: which matrix does gradient descent on two factors find, and when is that bias the right one?

A network with one linear hidden layer computes W = U V^T. Limiting its units limits the rank of W; limiting the squares
of its weights limits the trace norm of W. Five kinds of run:

- *descent*: gradient descent on full factors of a 30 x 30 matrix of rank 2 from starts of several sizes, for Gaussian
  measurements of U U^T, observed entries of U V^T, and measurements that commute, next to the least trace norm.
- *optima*: the losses at which 30 random starts of alternating least squares end, at several widths.
- *identity*: the trace norm against the least sum of squares of factors, found by descent.
- *map*: matrices with few strong or many weak factors, filled in by limited rank, limited trace norm, or stopped
  descent, each with one parameter chosen on the same held-out entries (`lab.matrix_biases`); *images*: real ones.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from truerisk.data import Data
from truerisk.lab.claim import OURS, Claim, Exact, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.matrix_effects import (
    at_start,
    commuting,
    distinct,
    equal_norms,
    gain_of_descent,
    gain_over_least,
    one_optimum,
    ratio,
)
from truerisk.lab.matrix_runs import descent, identity, images, one_cell, optima
from truerisk.lab.units import PLAIN, TIMES, at_least, at_most

IMPLICIT = "Implicit regularization in matrix factorization"
GUNASEKAR = Paper("Gunasekar, Woodworth, Bhojanapalli, Neyshabur, Srebro", 2017, IMPLICIT, "NeurIPS", "1705.09280")
SREBRO = Paper("Srebro, Jaakkola", 2003, "Weighted low-rank approximations", "ICML")
BURER = Paper("Burer, Choi", 2006, "Computational enhancements in low-rank semidefinite programming")
SEARCH = "In search of the real inductive bias: on the role of implicit regularization in deep learning"
NEYSHABUR = Paper("Neyshabur, Tomioka, Srebro", 2015, SEARCH, "ICLR workshop", "1412.6614")
DEEP = "Implicit regularization in deep matrix factorization"
ARORA = Paper("Arora, Cohen, Hu, Luo", 2019, DEEP, "NeurIPS", "1905.13655")

LARGE, SMALL, TINY = 0.1, 0.01, 1e-6  # starts that claims name
STARTS = [1.0, LARGE, SMALL, 1e-3, 1e-4, TINY]
ENOUGH, FEW = ["gaussian", "entries"], ["few gaussian", "few entries"]


def task(setting: Setting) -> Record:
    """One run, of the kind that its setting names."""
    kinds = {"descent": descent, "optima": optima, "identity": identity, "map": one_cell, "images": images}
    return kinds[setting["kind"]](setting)


# ---- the grids -----------------------------------------------------------------------------------------------------

FACTORS = ("2 equal", "4 equal", "8 equal", "power 2", "power 1", "power 0.5")  # from few strong to many weak ones
SHARES, NOISES = (0.2, 0.35, 0.5, 0.65, 0.8), (0.0, 0.3, 1.0)
FEW_STRONG = {"kind": "map", "factors": "4 equal", "share": 0.5, "noise": 0.0}
MANY_EQUAL = {"kind": "map", "factors": "8 equal", "share": 0.65, "noise": 0.3}
MANY_WEAK = {"kind": "map", "factors": "power 1", "share": 0.35, "noise": 1.0}
JUDGED = (FEW_STRONG, MANY_EQUAL, MANY_WEAK)
NARROW, FULL = 3, 20  # widths of the factors of a 20 x 20 matrix


def descents(size: int, few: int, steps: int, seeds: range) -> list[Setting]:
    how = {"kind": "descent", "size": size, "rank": 2, "starts": STARTS, "steps": steps}
    counts = {"gaussian": 6 * size, "few gaussian": 3 * size, "entries": 12 * size, "few entries": few}
    dense = {**how, "measured": "commuting", "rank": size, "m": min(12, size // 2)}
    dense |= {"starts": STARTS[1:-1], "steps": 2 * steps}
    planned = [{**how, "measured": name, "m": count} for name, count in counts.items()]
    return [run for each in [*planned, dense] for run in product(each, seed=seeds)]


def landscapes(widths: tuple[int, ...], seeds: range, starts: int = 30) -> list[Setting]:
    how = {"kind": "optima", "size": FULL, "rank": 3, "share": 0.4, "noise": 0.5, "ridge": 0.2, "starts": starts}
    return product(how, width=widths, seed=seeds)


def pictures(data: str, n: int, steps: int, ranks: list[int], shares: tuple[float, ...], seeds: range) -> list[Setting]:
    return product({"kind": "images", "data": data, "n": n, "steps": steps, "ranks": ranks}, share=shares, seed=seeds)


def identities(seeds: range) -> list[Setting]:
    return product({"kind": "identity", "rows": 12}, columns=(12, 8), width=(3, 8), seed=seeds)


def smoke() -> list[Setting]:
    one, how = range(20, 21), {"size": 12, "steps": 100, "seed": 20}
    return [
        *pictures("digits", 40, 60, [1, 4], (0.5,), one),
        *descents(10, 40, 300, one),
        *landscapes((NARROW, FULL), one, 5),
        *identities(one),
        *({**how, **cell} for cell in (*JUDGED, {**FEW_STRONG, "noise": 1.0}, {**MANY_WEAK, "share": 0.65})),
    ]


def quick() -> list[Setting]:
    five, one, ranks = range(20, 25), range(20, 21), [1, 2, 3, 4, 6, 8, 12]
    how = {"kind": "map", "size": 40, "steps": 1500}
    return [
        *pictures("digits", 150, 300, ranks, (0.5,), five),
        *pictures("digits", 150, 300, ranks, (0.2, 0.35, 0.65, 0.8), one),
        *descents(30, 240, 3000, five),
        *landscapes((NARROW, FULL), five),
        *landscapes((1, 2, 4, 6, 10), one),
        *identities(five),
        *product(how, factors=FACTORS, share=SHARES, noise=NOISES, seed=one),
        *(run for cell in JUDGED for run in product({**how, **cell}, seed=five[1:])),
    ]


def medium() -> list[Setting]:
    """Real images with 784 pixels."""
    three, ranks = range(20, 23), [1, 2, 4, 8, 16, 24]
    return [run for data in ("mnist", "fashion-mnist") for run in pictures(data, 200, 300, ranks, (0.5,), three)]


def paper() -> list[Setting]:
    return descents(50, 400, 3000, range(20, 23))  # the published size: 50 x 50 and rank 2


def own_data(setting: Setting, data: Data) -> Setting | None:
    """Rows of the dataset with entries missing; the other kinds of run draw their own matrices."""
    return {**setting, "n": min(setting["n"], len(data) - 10)} if setting["kind"] == "images" else None


def cost(setting: Setting) -> float:
    return {"images": 1.5, "descent": 0.5, "optima": 0.3, "identity": 0.1, "map": 0.5}[setting["kind"]]


# ---- the claims ----------------------------------------------------------------------------------------------------

TRIALS = "Trials with seeds 0 to 4"
CHOICE = "Ranks, penalties, and numbers of steps are chosen on the same held-out entries; errors below 1% count as 1%."
COMPARED: dict[str, Any] = {"scales": ("quick",), "note": CHOICE}
CONJECTURE: dict[str, Any] = {
    "effect": partial(at_start, field="traces", start=TINY),
    "wants": at_most(1.01, TIMES),
    "whose": GUNASEKAR.at("Abstract"),
    "published": "conjecture: descent in small steps from near 0 converges to the solution of least nuclear norm",
    **{"every": ("measured",), "scales": ("quick", "paper")},
}
CLAIMS = (
    Claim(
        "small-start-recovers",
        "Descent from a start of 0.01 recovers a matrix of rank 2 up to 5% from Gaussian measurements.",
        partial(at_start, field="errors", start=SMALL),
        at_most(0.05, PLAIN),
        OURS,
        where={"kind": "descent", "measured": "gaussian"},
        scales=("quick",),
        pilot="Trials with seeds 0 to 3 had errors of 0.8% to 1.7%.",
    ),
    Claim(
        "large-start-does-not",
        "Descent from a start of 0.1 fits the same measurements and misses the matrix by over 5%.",
        partial(at_start, field="errors", start=LARGE),
        at_least(0.05, PLAIN),
        OURS,
        where={"kind": "descent", "measured": "gaussian"},
        scales=("quick", "paper"),
        pilot="Trials with seeds 0 to 3 had errors of 11% to 17%.",
    ),
    Claim(
        "least-trace-norm",
        "With enough measurements, descent from a tiny start ends within 1% of the least trace norm.",
        where={"kind": "descent", "measured": ENOUGH},
        **CONJECTURE,
        pilot="Trials with seeds 0 and 1 were within 0.6% from a start of 1e-4.",
    ),
    Claim(
        "least-trace-norm-few",
        "With few measurements, descent from a tiny start ends within 1% of the least trace norm.",
        where={"kind": "descent", "measured": FEW},
        **CONJECTURE,
        pilot=f"{TRIALS} were 1.5% to 6.1% above, did not come nearer from smaller starts, and had lower ranks.",
        note="Arora et al. 2019 argue that descent prefers low rank where this differs from a small trace norm.",
    ),
    Claim(
        "better-than-least",
        "With few entries, descent errs at most two thirds as much as the solution of least trace norm.",
        partial(gain_over_least, start=TINY),
        at_least(1.5, TIMES),
        OURS,
        where={"kind": "descent", "measured": "few entries"},
        scales=("quick", "paper"),
        pilot=f"{TRIALS} had factors of 2.2 to 11.",
    ),
    Exact(
        "commuting",
        "For commuting measurements, descent approaches the least trace norm as fast as theory says.",
        commuting,
        GUNASEKAR.theorem("Theorem 1 (number from memory)"),
        "above the least trace norm by at most what gradient flow allows, up to 0.001",
        "proved for gradient flow from a I as a goes to 0; the bound for each start is derived here",
        where={"kind": "descent", "measured": "commuting"},
        scales=("quick", "paper"),
    ),
    Exact(
        "same-norm",
        "The trace norm is the least half sum of squares of all factorizations.",
        equal_norms,
        NEYSHABUR.theorem("matrix factorization"),
        "equal within 1e-06 after descent that leaves the product unchanged",
        "a known identity",
        where={"kind": "identity"},
        scales=("quick",),
    ),
    Claim(
        "local-minima",
        "At width 3, 30 starts of one problem end in at least 2 different local minima.",
        distinct,
        at_least(2, PLAIN),
        SREBRO.at("weighted low-rank approximation"),
        "low-rank problems with missing entries have local minima (no number)",
        where={"kind": "optima", "width": NARROW},
        scales=("quick",),
        pilot="Trials with seeds 0 to 6 had 6 to 17 (losses that differ by less than 0.1% count as one).",
    ),
    Exact(
        "one-minimum",
        "At full width with the same ridge, all starts end at the optimum of the convex problem.",
        one_optimum,
        BURER.theorem("global minima at sufficient width"),
        "every loss within 0.1% of the least one",
        "proved for factors of full width; cited by Neyshabur et al. 2015",
        where={"kind": "optima", "width": FULL},
        scales=("quick",),
    ),
    Claim(
        "rank-for-few-strong",
        "Four equal factors without noise: the trace norm errs at least 1.5 times as much as limited rank.",
        partial(ratio, worse="trace", better="rank"),
        at_least(1.5, TIMES),
        OURS,
        where=FEW_STRONG,
        pilot="Trials with seeds 0 to 6 had factors of 1 to 28.",
        **COMPARED,
    ),
    Claim(
        "trace-for-many",
        "Eight equal factors with noise: limited rank errs at least 1.2 times as much as the trace norm.",
        partial(ratio, worse="rank", better="trace"),
        at_least(1.2, TIMES),
        OURS,
        where=MANY_EQUAL,
        pilot=f"{TRIALS} had factors of 1.5 to 1.7.",
        **COMPARED,
    ),
    Claim(
        "trace-for-many-weak",
        "Many weak factors with strong noise: limited rank errs at least 1.03 times as much as the trace norm.",
        partial(ratio, worse="rank", better="trace"),
        at_least(1.03, TIMES),
        OURS,
        where=MANY_WEAK,
        pilot=f"{TRIALS} had factors of 1 to 1.18.",
        **COMPARED,
    ),
    Claim(
        "descent-for-many",
        "Eight equal factors with noise: rank and trace norm err at least 1.05 times as much as stopped descent.",
        gain_of_descent,
        at_least(1.05, TIMES),
        OURS,
        where=MANY_EQUAL,
        pilot=f"{TRIALS} had factors of 1.15 to 1.23.",
        **COMPARED,
    ),
    Claim(
        "trace-for-images",
        "Half of the pixels missing: limited rank errs at least 1.02 times as much as the trace norm.",
        partial(ratio, worse="rank", better="trace"),
        at_least(1.02, TIMES),
        OURS,
        every=("data",),
        where={"kind": "images", "share": 0.5},
        pilot="Trials had factors of 1.10 to 1.14 (digits), 1.12 (MNIST), and 1.03 (Fashion-MNIST, 70% missing).",
        **{**COMPARED, "scales": ("quick", "medium")},
    ),
)


EXPERIMENT = Experiment(
    name="matrix-factorization",
    title="Low rank or low norm: the bias of matrix factorization",
    about="A network with one linear layer is a matrix in two factors, and most matrices that fit its data generalize "
    "badly. Limiting its units limits the rank; limiting its weights limits the trace norm, which is convex; descent "
    "from a small start limits neither and still finds simple matrices. This experiment shows which one descent "
    "prefers, and maps where each bias fills in missing entries best.",
    papers=(GUNASEKAR, SREBRO, BURER, NEYSHABUR, ARORA),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
