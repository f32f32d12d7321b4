"""`mystery`: what makes networks generalize? One factorial experiment for the hypotheses of a lecture.

Ollion and Grisel (lecture slides "Learning with Deep Networks") end with a list of suspects: piecewise linear
activations, deep architectures, SGD with small batches and large steps, early stopping, many parameters and small
random initial weights. Here all of them change at once, in a fraction of a factorial design that was chosen before any
run (`lab.factorial`), with batch norm as a control. Each factor has two levels; its effect on a number is the mean over
all runs at the high level minus the mean over all runs at the low level, one number per seed.

Every network is trained until its loss is at most 0.05, or to the last step, and is looked at twice: there, and where a
validation set would have stopped it. So early stopping costs no further training, and is crossed with all factors.

Trials with seeds 1 to 3 chose sizes and rates so that nearly all networks reach the loss; no threshold rests on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from scipy.stats import kendalltau

from truerisk.data import Data
from truerisk.lab.claim import OURS, Claim, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.factorial import Generators, fraction, main_effect
from truerisk.lab.mystery_runs import run
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.rows import IncompleteError, Row, Rows
from truerisk.lab.units import CORRELATION, POINTS, at_least, at_most

ASKED = "a hypothesis in lecture slides by Ollion and Grisel (no number)"
JIANG = Paper(
    "Jiang, Neyshabur, Mobahi, Krishnan, Bengio", 2020, "Fantastic generalization measures and where to find them",
    "ICLR", arxiv="1912.02178",
)  # fmt: skip

LEVELS: dict[str, tuple[Any, Any]] = {  # low and high; the high level is the one that a hypothesis credits
    "activation": ("tanh", "relu"),
    "depth": (1, 4),
    "width": (64, 512),
    "batches": ("large", "small"),
    "start": (2.0, 1.0),
    "norm": ("none", "batch"),
}
STOPPING = "stopping"  # the factor within a run
LOOKS = {"end": -1, "stopped": 1}
CORNER = ("activation", "width", "batches")
EIGHT = {"start": CORNER}  # resolution 4
BOTH = ("activation", "norm")
FOUR = {"depth": BOTH[:1], "width": BOTH[1:], "batches": BOTH, "start": BOTH}
THIRTY_TWO = {"norm": ("activation", "depth", "width", "batches", "start")}  # resolution 6
MEASURED = {"bound": "certificate", "adaptive-sharpness": "adaptive sharpness", "hessian-trace": "trace of the Hessian"}
MEASURED |= {"spectral-product": "product of spectral norms", "parameters": "number of parameters"}


def task(setting: Setting) -> Record:
    """Train one network; look at it where a validation set would stop, and at the end."""
    return run(setting)


# ---- the grids -----------------------------------------------------------------------------------------------------


def _design(how: Setting, factors: Sequence[str], generators: Generators, seeds: Sequence[int]) -> list[Setting]:
    found = []
    for signs in fraction(factors, generators):
        chosen = {name: LEVELS[name][sign > 0] for name, sign in signs.items()}
        found += product({**how, **chosen, "signs": signs}, seed=seeds)
    return found


def smoke() -> list[Setting]:
    """Both levels of every factor in four runs: main effects are aliased with each other."""
    how = {"data": "digits", "n": 60, "n_valid": 30, "n_test": 200, "steps": {"small": 60, "large": 40}}
    return _design(how, BOTH, FOUR, [20])


def quick() -> list[Setting]:
    """A corner: two hidden layers, no batch norm."""
    how = {"data": "mnist1d", "n": 500, "n_valid": 250, "n_test": 10_000, "steps": {"small": 1500, "large": 900}}
    return _design({**how, "depth": 2, "norm": "none"}, CORNER, EIGHT, range(20, 25))


def medium() -> list[Setting]:
    how = {"data": "fashion-mnist", "n": 1000, "n_valid": 500, "n_test": 10_000}
    how |= {"steps": {"small": 3000, "large": 1500}}
    return _design(how, tuple(LEVELS)[:5], THIRTY_TWO, range(20, 23))


def paper() -> list[Setting]:
    """All 64 combinations."""
    how = {"data": "cifar-10", "n": 10_000, "n_valid": 2000, "n_test": 10_000}
    return _design({**how, "steps": {"small": 30_000, "large": 6000}}, tuple(LEVELS), {}, range(20, 23))


def own_data(setting: Setting, data: Data) -> Setting:
    """A quarter of the training examples validates."""
    sizes = fit_sizes({**setting, "n": setting["n"] + setting["n_valid"]}, data)
    n_valid = min(setting["n_valid"], sizes["n"] // 4)
    return {**sizes, "n": sizes["n"] - n_valid, "n_valid": n_valid}


def cost(setting: Setting) -> float:
    return 1 + setting["width"] / 256 * setting["depth"] / 2


# ---- effects -------------------------------------------------------------------------------------------------------


def looks(runs: Iterable[Row]) -> list[dict[str, Any]]:
    """Each run twice: the levels of its factors as signs, errors, and logarithms of certificate and measures."""
    found = []
    for row in runs:
        for name, sign in LOOKS.items():
            logs = {"bound": math.log(row[name]["bound"]), **row[name]["logs"]}
            own = {key: row[name][key] for key in ("train_error", "test_error", "gap")}
            found.append({**own, "logs": logs, "signs": {**row["signs"], STOPPING: sign}, "seed": row["seed"]})
    return found


def effect(runs: Rows, factor: str, of: str) -> float:
    """The main effect of a factor on an error (``gap``, ``test_error``), or on the logarithm of a measure."""
    seen = looks(runs.complete(factor))
    if any(factor not in one["signs"] for one in seen):
        raise IncompleteError(f"{factor} does not change in these runs")
    return main_effect([one["signs"][factor] for one in seen], [response(one, of) for one in seen])


def response(look: Row, of: str) -> float:
    value = look[of] if of in look else look["logs"].get(of)
    if value is None:
        raise IncompleteError(f"{MEASURED.get(of, of)} has no value for some network")
    return float(value)


def agreement(runs: Rows, of: str) -> float:
    """Kendall's tau between a measure and the gap, over the networks at the end of training."""
    ends = [one for one in looks(runs.complete(of)) if one["signs"][STOPPING] == LOOKS["end"]]
    found = kendalltau([response(one, of) for one in ends], [one["gap"] for one in ends]).statistic
    if math.isnan(found):
        raise IncompleteError(f"{MEASURED.get(of, of)} is the same for all networks")
    return float(found)


# ---- claims --------------------------------------------------------------------------------------------------------

SMALLER = at_most(-1, POINTS)
CONFOUNDED = "No main effect of the design is aliased with an interaction of two factors."


def _moves(factor: str, says: str, *, corner: bool = True, note: str = CONFOUNDED) -> Claim:
    return Claim(
        f"gap-{factor}",
        says,
        partial(effect, factor=factor, of="gap"),
        SMALLER,
        OURS,
        ASKED,
        counted_on="n_test",
        scales=("quick", "medium", "paper") if corner else ("medium", "paper"),
        note=note,
    )


def _follows(name: str, measure: str, says: str, least: float = 0.2) -> Claim:
    return Claim(
        name, says, partial(agreement, of=measure), at_least(least, CORRELATION), OURS,
        "not known for such a design; Jiang et al. (2020) correlate measures with the gap in theirs",
    )  # fmt: skip


CLAIMS = (
    _moves("activation", "With ReLU the gap is at least 1 point smaller than with tanh."),
    _moves("depth", "With four hidden layers the gap is at least 1 point smaller than with one.", corner=False),
    _moves("width", "With 512 units the gap is at least 1 point smaller than with 64."),
    _moves("batches", "With small batches and large steps the gap is at least 1 point smaller."),
    _moves("start", "From small initial weights the gap is at least 1 point smaller than from twice as large ones."),
    _moves("norm", "Batch norm, the control, makes the gap at least 1 point smaller.", corner=False),
    _moves(
        "stopping",
        "Early stopping on a validation set makes the gap at least 1 point smaller.",
        note="A network stopped early also errs more on its training examples; see its effect on the test error.",
    ),
    Claim(
        "stopping-helps",
        "Early stopping on a validation set lowers the test error by at least 1 point.",
        partial(effect, factor=STOPPING, of="test_error"),
        SMALLER,
        OURS,
        "the slides say that it can help a bit, and mostly saves time",
        counted_on="n_test",
    ),
    _follows("certificate-follows", "bound", "The certificate is larger for networks with a larger gap."),
    _follows("sharpness-follows", "adaptive-sharpness", "Networks that are sharper for their size have larger gaps."),
    _follows("curvature-follows", "hessian-trace", "Networks with more curvature have larger gaps."),
    _follows("norms-follow", "spectral-product", "Networks with a larger product of spectral norms have larger gaps."),
    Claim(
        "counting-fails", "Networks with more parameters do not have larger gaps.",
        partial(agreement, of="parameters"), at_most(0.1, CORRELATION), OURS,
        "not known for such a design; negative in that of Jiang et al. (2020)",
    ),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="mystery",
    title="What makes networks generalize? Seven suspects at once",
    about=(
        "Why do networks that could memorize their training examples err so little on new ones? Lectures name several "
        "suspects: the activation, depth, width, noisy steps, early stopping, and small initial weights. Experiments "
        "usually change one of them. Here they all change at once, in a design fixed beforehand, so that their effects "
        "on the gap, on a certificate, and on complexity measures can be compared with each other and with chance."
    ),
    papers=(JIANG,),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
