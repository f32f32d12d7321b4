"""The inverse of the binary kl: 100,000 at once, and one by one, against ``scipy.optimize.brentq``."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from benchmarks.timing import Row, in_turns
from truerisk.bounds import kl_bernoulli, kl_inverse

VALUES, SUBSET, ONE_BY_ONE = 100_000, 5_000, 200
EVALUATION = 64 * 2.0**-52  # what kl_bernoulli may be off, relatively


def textbook_inverse(q: float, c: float) -> float:
    """The usual way: the formula as printed in papers, and a root finder with its usual tolerances."""

    def excess(p: float) -> float:
        return q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p)) - c

    return brentq(excess, q, 1 - 1e-15)


def rows() -> list[Row]:
    rng = np.random.default_rng(0)
    q = rng.uniform(1e-4, 0.5, VALUES)  # empirical risks
    c = 10.0 ** rng.uniform(-4, -1, VALUES)  # (KL + ln(2 sqrt(n)/delta)) / n
    some_q, some_c = q[:SUBSET].tolist(), c[:SUBSET].tolist()

    def one_by_one() -> list[float]:
        return [textbook_inverse(a, b) for a, b in zip(some_q, some_c, strict=True)]

    ours, subset = in_turns(lambda: kl_inverse(q, c), one_by_one, repeats=3)
    theirs = np.array(one_by_one())
    # A point whose divergence is below c by more than the evaluation error lies below the true inverse.
    unsafe = int((kl_bernoulli(q[:SUBSET], theirs) * (1 + EVALUATION) < c[:SUBSET]).sum())
    own = kl_inverse(q, c)
    own_unsafe = int((kl_bernoulli(q, own) * (1 + EVALUATION) < c).sum())
    gap = float((own[:SUBSET] - theirs).max())
    note = (
        f"below the true inverse (a false bound): brentq {unsafe:,} of {SUBSET:,}, by at most {gap:.1e}; "
        f"ours {own_unsafe:,} of {VALUES:,}"
    )
    first = Row(
        f"kl_inverse of {VALUES:,} values",
        f"loop of brentq (timed on {SUBSET:,}, scaled)",
        ours,
        subset * VALUES / SUBSET,
        note,
    )
    few = list(zip(some_q[:ONE_BY_ONE], some_c[:ONE_BY_ONE], strict=True))
    single = in_turns(
        lambda: [kl_inverse(a, b) for a, b in few],
        lambda: [textbook_inverse(a, b) for a, b in few],
        repeats=3,
    )
    second = Row("kl_inverse of one value", "brentq", *(t / ONE_BY_ONE for t in single), note="scalar calls")
    return [first, second]
