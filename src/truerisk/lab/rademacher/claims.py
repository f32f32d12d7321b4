"""The claims of the experiment `rademacher`: what was published or proved, and when it counts as seen again."""

from __future__ import annotations

import math

import numpy as np

from truerisk.lab.experiment import Claim, Outcome
from truerisk.lab.rademacher.figures import largest_shattered
from truerisk.lab.rademacher.shattering import cover
from truerisk.lab.rademacher.signs import proven_complexity, risk_bound
from truerisk.lab.rows import Rows
from truerisk.words import lower

ZHANG = "Zhang et al. 2017"


def _fits_signs(rows: Rows) -> Outcome:
    means = {
        f"{model}, {data}, n = {n}": some.mean("correlation")
        for (model, data, n), some in rows.where(part="signs").groups("model", "data", "n")
    }
    worst = min(means, key=lambda name: means[name])
    return Outcome(means[worst] >= 0.98, f"{means[worst]:.3f} at worst ({worst})")


def _says_nothing(rows: Rows) -> Outcome:
    bounds = {
        f"{model}, {data}, n = {n}": risk_bound(0.0, proven_complexity(some.column("correlation"), n), n)
        for (model, data, n), some in rows.where(part="signs").groups("model", "data", "n")
    }
    least = min(bounds, key=lambda name: bounds[name])
    return Outcome(bounds[least] >= 1, f"a bound of no less than {lower(bounds[least], 2)} in the best case ({least})")


def _linear_falls(rows: Rows) -> Outcome:
    linear = rows.where(part="linear")
    n, found = np.array(linear.column("n")), np.array(linear.column("correlation"))
    # Below n = 4(d + 1) some or all signs are still separable, and the square-root law has not set in.
    late = n >= 4 * (np.array(linear.column("dimension")) + 1)
    slope = float(np.polyfit(np.log(n[late]), np.log(found[late]), 1)[0])
    below = bool((found <= np.array(linear.column("upper")) + 1e-12).all())
    words = f"n to the power {slope:.2f}, down to {found[late].min():.3f}"
    return Outcome(-0.65 <= slope <= -0.4 and below, words if below else f"{words}, but above the bound from Cover")


def _ball_formula(rows: Rows) -> Outcome:
    chosen = rows.where(part="linear")
    triples = list(zip(*(chosen.column(name) for name in ("ball", "ball_error", "ball_upper")), strict=True))
    # Four standard errors: a false alarm in 30,000 runs for each number of examples.
    seen = all(upper / math.sqrt(2) - 4 * error <= ball <= upper + 4 * error for ball, error, upper in triples)
    ratios = [ball / upper for ball, _, upper in triples]
    return Outcome(seen, f"{min(ratios):.3f} to {max(ratios):.3f} of the upper bound")


def _cover_share(rows: Rows) -> Outcome:
    chosen = rows.where(part="capacity")
    shares, formulas, draws = (np.array(chosen.column(name)) for name in ("share", "formula", "draws"))
    # A formula that says "all" has no spread: any other share is infinitely far from it.
    far = np.abs(shares - formulas) / np.sqrt(np.maximum(formulas * (1 - formulas) / draws, 1e-12))
    half = next(row for row in chosen if row["n"] == 2 * (row["d"] + 1))
    where = f"{half['n']} points in {half['d']} dimensions ({half['draws']} draws)"
    text = f"{100 * half['share']:.1f} % for {where}, at most {far.max():.1f} standard deviations off the formula"
    return Outcome(bool(far.max() <= 4), text)


def _cover_count(rows: Rows) -> Outcome:
    chosen = rows.where(part="shatter", family="affine")
    sets = sum(chosen.column("tried"))
    wrong = [r for r in chosen if {r["least"], r["most"]} != {cover(r["m"], r["d"])}]
    return Outcome(not wrong, f"the formula's number on {sets - sum(r['tried'] for r in wrong)} of {sets} sets")


def _vc_affine(rows: Rows) -> Outcome:
    found = {d: largest_shattered(some) for (d,), some in rows.where(part="shatter", family="affine").groups("d")}
    words = ", ".join(f"{vc} points in R^{d}" for d, vc in found.items())
    return Outcome(all(vc == d + 1 for d, vc in found.items()), f"{words}, and no set of one point more")


def _vc_boxes(rows: Rows) -> Outcome:
    chosen = rows.where(part="shatter")
    intervals, rectangles = (largest_shattered(chosen.where(family=name)) for name in ("intervals", "rectangles"))
    counts = all(row["most"] == row["m"] * (row["m"] + 1) // 2 + 1 for row in chosen.where(family="intervals"))
    return Outcome((intervals, rectangles, counts) == (2, 4, True), f"intervals {intervals}, rectangles {rectangles}")


def _vc_infinite(rows: Rows) -> Outcome:
    chosen = rows.where(part="shatter", family=["sine", "nearest"])
    shattered = all(most == 2**m for most, m in zip(chosen.column("most"), chosen.column("m"), strict=True))
    return Outcome(shattered, f"{'all' if shattered else 'not all'} labelings of up to {chosen.max('m')} points")


def _network_shatters(rows: Rows) -> Outcome:
    networks = rows.where(part="shatter", family="relu")
    wide = Rows(*([run for run in runs if run["width"] >= run["m"]] for runs in (networks.present, networks.missing)))
    shares = [most / 2**m for most, m in zip(wide.column("most"), wide.column("m"), strict=True)]
    text = f"{100 * min(shares):.1f} % of the labelings at worst, for up to {wide.max('m')} points"
    return Outcome(min(shares) == 1, text)


CLAIMS = (
    Claim(
        "networks-fit-signs",
        "Networks agree with random signs almost perfectly: their empirical Rademacher complexity is about 1.",
        f"{ZHANG}, section 2.2",
        "about 1 (99.3 to 100 % of random labels fitted)",
        "a mean correlation of at least 0.98 for every network",
        _fits_signs,
    ),
    Claim(
        "bound-says-nothing",
        "The generalization bound that rests on the Rademacher complexity is trivial for these networks.",
        f"{ZHANG}, section 2.2; Mohri et al. 2018, Theorem 3.5",
        "trivial: a true risk of at most 1 or more",
        "a bound of at least 1 for every network, even without training errors, at the smallest R that the signs allow",
        _says_nothing,
    ),
    Claim(
        "linear-falls",
        "Affine classifiers follow random signs less and less, like sqrt((d + 1) / n), and never beyond Cover's bound.",
        "Mohri et al. 2018, Corollaries 3.8 and 3.18",
        "n to the power -1/2, up to a logarithm",
        # least squares on Gaussian inputs would give -0.53 at these sizes
        "a power between -0.65 and -0.40 for least-squares classifiers, never above the bound",
        _linear_falls,
    ),
    Claim(
        "ball-formula",
        "For linear functions of bounded norm it lies between 1/sqrt(2) and 1 times B sqrt(sum |x|^2) / n.",
        "Bartlett and Mendelson 2002, Lemma 22; Latala and Oleszkiewicz 1994",
        "0.707 to 1",
        "0.707 to 1 up to four standard errors",
        _ball_formula,
    ),
    Claim(
        "cover-capacity",
        "Half of all labelings of 2(d + 1) points in general position are linearly separable.",
        "Cover 1965, section 3",
        "50 %",
        "a share within four standard deviations of the formula at every number of points",
        _cover_share,
    ),
    Claim(
        "cover-count",
        "Hyperplanes realise exactly 2 sum_{k <= d} C(m - 1, k) labelings of m points in general position in R^d.",
        "Cover 1965, Theorem 1",
        "an exact number",
        "the formula's number on every set of points",
        _cover_count,
    ),
    Claim(
        "vc-affine",
        "The VC dimension of affine classifiers in R^d is d + 1: by Radon's theorem no d + 2 points are shattered.",
        "Vapnik and Chervonenkis 1971; Radon 1921",
        "2, 3 and 4 for d = 1, 2 and 3",
        "d + 1 points shattered in R^d and no set of d + 2",
        _vc_affine,
    ),
    Claim(
        "vc-boxes",
        "The VC dimension is 2 for intervals and 4 for axis-parallel rectangles in the plane.",
        "Mohri et al. 2018, section 3.3",
        "2 and 4",
        "exactly 2 and 4, over all orders of the points",
        _vc_boxes,
    ),
    Claim(
        "vc-infinite",
        "One parameter is enough for an infinite VC dimension (the sign of a sine); nearest neighbours have it too.",
        "Mohri et al. 2018, section 3.3",
        "all labelings of any number of points",
        "all labelings at every number of points",
        _vc_infinite,
    ),
    Claim(
        "network-shatters",
        "A ReLU network with one hidden unit per point can represent every labeling; here training finds them all.",
        f"{ZHANG}, Theorem 1",
        "all labelings (2n + d weights suffice)",
        "all labelings found by training, for every number of points up to the width",
        _network_shatters,
    ),
)
