"""The effects of `good-bad-minima`: what is compared between a network with poison and one without."""

from __future__ import annotations

from collections.abc import Mapping

from truerisk.bounds import clopper_pearson_unequal
from truerisk.lab.claim import Checked
from truerisk.lab.minima_runs import BOUNDS
from truerisk.lab.rows import IncompleteError, Rows

BAD = 0.4  # error on new examples from which a network that fits every training label is called bad
FLAT = {  # larger: a smaller or sharper basin; no rescaling of hidden units changes them
    "pacbayes-magnitude-flatness": "flatness, relative noise",
    "adaptive-sharpness": "adaptive sharpness",
}
NORMS = {
    "path-norm-l2-squared": "path norm",
    "spectral-product-over-margin": "spectral norms over margin",
    "distance-l2": "distance from initialization",
}


def extra_error(runs: Rows) -> float:
    """How much more often the network with the most poison errs than the one without."""
    found = runs.one("errors")
    return float(found["bad"] - found["good"])


def extra_error_of_half(runs: Rows) -> float:
    errors = dict(zip(runs.one("poisoned"), runs.one("test_errors"), strict=True))
    return float(errors[round(runs.one("n") / 2)] - errors[0])


def smaller_basin(runs: Rows) -> dict[str, float]:
    radii = runs.one("radii")
    return {f"than {kind}": radii[kind] / radii["bad"] for kind in ("good", "control")}


def larger(runs: Rows, names: Mapping[str, str]) -> dict[str, float]:
    """Each measure of the bad network over that of the good one or of the control, whichever is larger."""
    found = runs.one("measures")
    lacking = [name for name in names for kind in found if found[kind][name] is None]
    if lacking:
        raise IncompleteError(f"{lacking[0]} is not defined for a network of this run")
    return {
        shown: found["bad"][name] / max(found["good"][name], found["control"][name]) for name, shown in names.items()
    }


def sharper(runs: Rows) -> dict[str, float]:
    return larger(runs, {"hessian-trace": "Hessian trace", "hessian-top": "top eigenvalue"})


def flatness(runs: Rows) -> dict[str, float]:
    return larger(runs, FLAT)


def norms(runs: Rows) -> dict[str, float]:
    return larger(runs, NORMS)


def margin(runs: Rows) -> float:
    found = runs.one("measures")
    return float(found["bad"]["median-margin"] / found["good"]["median-margin"])


def kept_by_small_steps(runs: Rows) -> float:
    """How much more often the network errs after descent in small steps than after descent in large ones."""
    large, small = runs.one("onward_errors")
    return float(small - large)


def fits(rows: Rows) -> Checked:
    """Training examples that the good network or the one with the most poison misclassifies."""
    wrong = [round(run["train_errors"][k] * run["n"]) for run in rows.complete() for k in (0, -1)]
    return Checked(max(wrong) <= 1, f"at most {max(wrong)} wrong; {sum(map(bool, wrong))} of {len(wrong)} networks")


def twin_is_sharper(rows: Rows) -> Checked:
    pairs = [(run["twin_trace"], run["measures"]["bad"]["hessian-trace"]) for run in rows.complete()]
    ratios = [twin / bad for twin, bad in pairs]
    return Checked(min(ratios) > 1, f"at least {min(ratios):.3g} times the trace of the bad network")


def bounds_say_nothing(rows: Rows) -> Checked:
    """The smallest bound from the training examples alone, of any network without poison, against guessing."""
    least = []
    for run in rows.complete():
        values = [run["pac_bayes"]["good"], *(run["measures"]["good"][name] for name in BOUNDS)]
        least.append(min(value for value in values if value is not None))
    return Checked(min(least) >= 0.9, f"the smallest bound for a good network is {min(least):.4g}")


def hold_out_separates(rows: Rows) -> Checked:
    runs = rows.complete()
    apart = [run["hold_out"]["good"][1] < run["hold_out"]["bad"][0] for run in runs]
    return Checked(all(apart), f"in {sum(apart)} of {len(apart)} runs")


def descent_avoids(rows: Rows) -> Checked:
    """The share of starts that end bad, with the upper end of its exact interval: one-sided, 95%."""
    runs = rows.complete()
    fitted, bad = sum(run["fitted"] for run in runs), sum(error >= BAD for run in runs for error in run["found"])
    upper = clopper_pearson_unequal(bad, max(fitted, 1), 0.05) if fitted > bad else 1.0
    return Checked(upper <= 0.01, f"{bad} of {fitted:,} starts that fit, so at most {100 * upper:.2g}%")
