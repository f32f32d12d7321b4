"""Does noise need more capacity and time? (Arpit et al. 2017, Section 3.3).

Networks with two hidden layers are trained until every training example is correct: real data, random inputs (randX)
and random labels (randY). Time is counted in steps of SGD. For test accuracy, 40% of the training examples are noise.

A run that does not fit its training set within its epochs has a time above its limit (`Above`). With such a time in
its denominator an effect has no number, so there is no verdict.
"""

from __future__ import annotations

from functools import partial

from truerisk.lab.claim import Claim, Number
from truerisk.lab.effect import Above
from truerisk.lab.experiment import Experiment, Record, Setting
from truerisk.lab.networks import build, halving_sgd
from truerisk.lab.noise import NAMES, RAND_X, RAND_Y, REAL, noisy_samples
from truerisk.lab.papers import ARPIT
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.units import POINTS, TIMES, at_least, at_most
from truerisk.seeds import derive
from truerisk.training.learn import learn

HALF = 0.4  # the noise level of the mixtures

BASE: Setting = {"data": "digits", "n_test": 600, "batch": 50, "lr": 0.05, "halve_every": None, "epochs": 150}
SIZES: dict[str, Setting] = {
    "smoke": {"n_test": 100, "epochs": 30},
    "quick": {},
    "medium": {"data": "mnist", "n_test": 2000, "batch": 100},
    "paper": {"data": "mnist", "n_test": 10000, "batch": 100, "lr": 0.01, "epochs": 1000},
}
WIDTHS = {
    "smoke": [8, 16, 32],
    "quick": [16, 32, 64, 128, 256],
    "medium": [64, 128, 256, 512],
    "paper": [256, 512, 1024, 2048, 4096, 8192, 16384],
}
MIDDLE = {"smoke": 16, "quick": 128, "medium": 256, "paper": 4096}  # the width at which the number of examples varies
EXAMPLES = {
    "smoke": [60, 120],
    "quick": [125, 250, 500, 1000],
    "medium": [500, 1000, 2000, 4000],
    "paper": [6250, 12500, 25000, 50000],
}
SEEDS = {"smoke": range(20, 21), "quick": range(20, 25), "medium": range(20, 23), "paper": range(20, 23)}


def grid(scale: str) -> list[Setting]:
    widths, middle, examples = WIDTHS[scale], MIDDLE[scale], EXAMPLES[scale]
    pure, mixed = [(REAL, 0.0), (RAND_X, 1.0), (RAND_Y, 1.0)], [(RAND_X, HALF), (RAND_Y, HALF)]
    drawn = [(kind, width, examples[-1]) for width in widths for kind in pure + mixed]
    drawn += [(kind, middle, n) for n in examples[:-1] for kind in pure]
    # Claims read the ends of both ranges, and the middle width; all other runs are points of figures.
    claimed = [(kind, width, examples[-1]) for width in (widths[0], middle, widths[-1]) for kind in pure[:2]]
    claimed += [(kind, middle, examples[0]) for kind in pure[:2]]
    claimed += [(kind, width, examples[-1]) for width in (middle, widths[-1]) for kind in mixed]
    return [
        {**BASE, **SIZES[scale], "width": width, "n": n, "noise": noise, "level": level, "seed": seed}
        for (noise, level), width, n in drawn
        for seed in SEEDS[scale]
        if seed == SEEDS[scale][0] or ((noise, level), width, n) in claimed
    ]


def task(setting: Setting) -> Record:
    seed, noise, level = setting["seed"], setting["noise"], setting["level"]
    train, test = noisy_samples(setting["data"], setting["n"], setting["n_test"], noise, level, seed)
    module = build("mlp", train.input_shape, train.classes, [setting["width"]] * 2, derive(seed, "weights"))
    curve = learn(module, train, test, halving_sgd(setting))
    return {
        "fitted": curve.fitted_step is not None,
        "steps": curve.steps[-1],  # until it was fitted, or the limit
        "train_error": curve.train_error[-1],
        "test_error": curve.test_error[-1],
        "diverged": curve.diverged,
    }


def relative_slowdown(runs: Rows, field: str) -> Number:
    """How many times as much random inputs slow down as real data, from the easy end of ``field`` to its hard end.

    (steps on noise, hard / easy) / (steps on real data, hard / easy). The easy end is the widest network at the most
    examples, or the fewest examples at the middle width.
    """
    few, most = min(runs.values("n")), max(runs.values("n"))
    if field == "width":
        some = runs.where(n=most)
        hard, easy = min(some.values("width")), max(some.values("width"))
    else:
        some, hard, easy = runs.where(width=middle_width(runs)), most, few
    times = {(noise, end): some.where(noise=noise, **{field: end}) for noise in (REAL, RAND_X) for end in (hard, easy)}
    over, under = ((RAND_X, hard), (REAL, easy)), ((RAND_X, easy), (REAL, hard))
    for noise, end in under:  # a time above its limit in the denominator: the ratio could be anything
        if not times[noise, end].one("fitted"):
            raise IncompleteError(f"{NAMES[noise]} are not fitted within their epochs at {field} = {end}")
    top, bottom = (times[a].one("steps") * times[b].one("steps") for a, b in (over, under))
    return top / bottom if all(times[each].one("fitted") for each in over) else Above(top / bottom)


def middle_width(runs: Rows) -> int:
    """The width of the runs with the fewest examples: the only ones with that number."""
    return int(runs.where(n=min(runs.values("n"))).values("width")[0])


def gain(runs: Rows, noise: str) -> float:
    """How much higher the test accuracy of the widest network is than that of the middle width."""
    some = runs.where(noise=noise, n=max(runs.values("n")))
    middle, widest = (some.where(width=w).one("test_error") for w in (middle_width(runs), max(some.values("width"))))
    return middle - widest


def gain_on_real_data(runs: Rows) -> float:
    return gain(runs, REAL)


def gains_beyond_real_data(runs: Rows) -> dict[str, float]:
    return {NAMES[noise]: gain(runs, noise) - gain(runs, REAL) for noise in (RAND_X, RAND_Y)}


PURE = {"level": [0.0, 1.0], "noise": [REAL, RAND_X]}
WIDEST = (
    "The rival is the widest network (256, 512, or 16,384 units by scale), fixed beforehand, and the gain is in "
    "points. Until 2026-11-18 the gain was relative to the best of all widths, which is biased upward."
)
FITTED = "A run at its epoch limit counts as above it; there is no verdict where that time is in the denominator."
CLAIMS = (
    Claim(
        "capacity-time",
        "A narrow network slows down the fitting of random inputs more than that of real data.",
        partial(relative_slowdown, field="width"),
        at_least(1.25, TIMES),
        ARPIT.at("Figure 6, left"),
        "training time falls with capacity for noise inputs and hardly at all for real data; no number",
        where=PURE,
        note=f"Slowdown from the widest to the narrowest network, random inputs over real data. {FITTED}",
    ),
    Claim(
        "size-time",
        "More examples slow down the fitting of random inputs more than that of real data.",
        partial(relative_slowdown, field="n"),
        at_least(1.25, TIMES),
        ARPIT.at("Figure 6, right"),
        "training time rises with the number of examples much more for noise inputs; no number",
        where=PURE,
        note=f"Slowdown from the fewest to the most examples, random inputs over real data. {FITTED}",
    ),
    Claim(
        "enough-for-real-data",
        "On real data the widest network is hardly more accurate than a network of the middle width.",
        gain_on_real_data,
        at_most(1, POINTS),
        ARPIT.at("Figure 5"),
        "close to the best accuracy with 4,096 units on MNIST",
        where={"level": [0.0]},
        counted_on="n_test",
        note=f"Middle width: 128, 256, or 4,096 units by scale. {WIDEST}",
    ),
    Claim(
        "not-enough-for-noise",
        "With noise among the training examples, test accuracy gains more from width than on real data.",
        gains_beyond_real_data,
        at_least(1, POINTS),
        ARPIT.at("Figure 5"),
        "more than 4,096 units are needed with noise in the data; no number",
        where={"level": [0.0, HALF]},
        counted_on="n_test",
        note=f"Gain from the middle to the widest width, beyond that on real data, for either noise. {WIDEST}",
    ),
)


EXPERIMENT = Experiment(
    name="capacity",
    title="Does noise need more capacity and time?",
    about=(
        "Examples that share patterns can be fitted together; noise has to be learned example by example. Arpit et "
        "al. report that narrow networks and large training sets slow down the fitting of random inputs, but hardly "
        "that of real data. They also find that noise among the training examples demands wider networks."
    ),
    papers=(ARPIT,),
    grids={scale: partial(grid, scale) for scale in SIZES},
    task=task,
    claims=CLAIMS,
    cost=lambda setting: setting["n"] * (3 if setting["level"] else 1) * (1 + setting["width"] / 100),
)
