"""Does the test error fall again once a model has more parameters than examples? (Belkin et al. 2019.)

The model is a linear readout of N random features, cosines (random Fourier features) or ReLU units, fitted by least
squares to one-hot labels. Up to N = n there is one best fit; from N = n on, many readouts fit all n training examples,
and the one of least norm is taken. Solutions are exact (float64); a model has the first features of larger ones.

    features   N grows, n stays: the double-descent curve
    examples   n grows, N stays: where more data hurt, and how many examples N features fit (Nakkiran et al. 2020);
               the same with other N is called capacity

A tuned ridge is chosen for each N by the squared error on held-out examples that no readout is fitted to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from truerisk.data import Data
from truerisk.data.scaling import is_images, normalize
from truerisk.data.treatments import corrupt_labels
from truerisk.lab import descent
from truerisk.lab.claim import OURS, Claim, Exact, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.feature_sweep import median_bandwidth, over_examples, over_features
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.papers import BELKIN
from truerisk.lab.samples import samples
from truerisk.lab.units import POINTS, TIMES, at_least, at_most
from truerisk.nets.random_features import random_features
from truerisk.seeds import derive

NAKKIRAN = Paper(
    "Nakkiran, Kaplun, Bansal, Yang, Barak, Sutskever",
    2020,
    "Deep double descent: where bigger models and more data hurt",
    "ICLR",
    arxiv="1912.02292",
)
MITIGATE = Paper(
    "Nakkiran, Venkat, Kakade, Ma",
    2021,
    "Optimal regularization can mitigate double descent",
    "ICLR",
    arxiv="2003.01897",
)
STRENGTHS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)  # of the ridge, fixed before the first run
MEDIAN = "half the median distance of training examples"  # a bandwidth for data whose scale is not known


def task(setting: Setting) -> Record:
    """A sweep over numbers of features or of examples: lists with an entry for each."""
    s = setting
    train, validation, test = _examples(s)
    bandwidth = median_bandwidth(train) if s["bandwidth"] == MEDIAN else float(s["bandwidth"])
    sizes = sorted({max(1, round(ratio * s["n" if s["sweep"] == "features" else "width"])) for ratio in s["ratios"]})
    inputs, width = int(np.prod(train.input_shape)), sizes[-1] if s["sweep"] == "features" else s["width"]
    phi = random_features(inputs, width, derive(s["seed"], "features"), s["kind"], bandwidth)
    if s["sweep"] != "features":
        return {**over_examples(phi, sizes, train, test), "bandwidth_used": bandwidth}
    found = over_features(phi, sizes, train, test, STRENGTHS if s["ridge"] == "tuned" else (), validation)
    return {**found, "bandwidth_used": bandwidth}


def _examples(s: Setting) -> list[Data]:
    """Training, validation, and test examples; labels of the first two are noisy. Tables get standardized columns."""
    sizes, seed = (s["n"] + s["n_validation"], s["n_test"]), derive(s["seed"], "examples")
    both, test = samples(s["data"], *sizes, seed, s.get("data_sha256"))
    if not is_images(both):
        train = both.take(np.arange(s["n"]))
        both, test = normalize(train, both)[1], normalize(train, test)[1]
    both = corrupt_labels(both, s["noise"], derive(s["seed"], "noise"))
    return [both.take(np.arange(s["n"])), both.take(np.arange(s["n"], len(both))), test]


# ---- the grids -----------------------------------------------------------------------------------------------------

RATIOS = (
    0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.98, 1, 1.02, 1.05, 1.07, 1.1, 1.15, 1.2, 1.4, 1.6,
    2, 3, 4, 8, 16,
)  # fmt: skip
PUBLISHED = (  # for n = 10,000, with four ratios nearer to 1; each part is a task of some minutes
    (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1),
    (1.02, 1.05, 1.1, 1.2, 1.3, 1.4),
    (2, 4, 6),
)
SIZES = (0.25, 0.5, 0.75, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.5, 1.75, 2, 2.25, 2.5, 2.75, 3, 3.5, 4, 4.5, 5, 6)
FOURIER, RELU = ({"sweep": "features", "kind": kind, "ridge": "none"} for kind in ("fourier", "relu"))
FEWEST = 4  # features of a sweep over examples
NOISE, RANDOM = 0.2, 1.0  # probability that a label is replaced by a random class


def _sweeps(how: Setting, seeds: Sequence[int], ratios: Sequence[float] = RATIOS) -> list[Setting]:
    fixed = {"sweep": "features", **how, "ratios": list(ratios)}
    both = product({**fixed, "kind": "fourier"}, noise=(0.0, NOISE), ridge=("none", "tuned"), seed=seeds)
    return both + product({**fixed, "kind": "relu", "ridge": "none"}, noise=(0.0, NOISE), seed=seeds)


def _by_examples(how: Setting, noise: Sequence[float], widths: Sequence[int], seeds: Sequence[int]) -> list[Setting]:
    """Claims are about the first width; the others show how the number of examples that can be fitted grows with N."""
    fixed = {**how, "n_validation": 0, "kind": "fourier", "ridge": "none"}
    found = product({"sweep": "examples", **fixed}, noise=noise, width=widths[:1], seed=seeds)
    found += product({"sweep": "capacity", **fixed}, noise=[p for p in noise if p], width=widths[1:], seed=seeds)
    return [{**s, "ratios": [ratio for ratio in SIZES if ratio * s["width"] <= s["n"]]} for s in found]


def smoke() -> list[Setting]:
    how = {"data": "digits", "n": 40, "n_validation": 30, "n_test": 100, "bandwidth": 1.0}
    grid = _sweeps(how, [20], (0.1, 0.5, 0.8, 1, 1.2, 2, 16))
    return grid + _by_examples({**how, "n": 120, "n_test": 100}, (0.0, NOISE, RANDOM), (20, 10), [20])


def quick() -> list[Setting]:
    grid = _sweeps({"data": "digits", "n": 500, "n_validation": 250, "n_test": 1000, "bandwidth": 1.0}, range(20, 25))
    how = {"data": "digits", "n": 1200, "n_test": 500, "bandwidth": 1.0}
    return grid + _by_examples(how, (0.0, NOISE, RANDOM), (200, 50, 100, 300, 400), range(20, 25))


def medium() -> list[Setting]:
    how = {"n": 1000, "n_validation": 500, "n_test": 5000, "bandwidth": 5.0}
    grid = [s for data in ("mnist", "fashion-mnist") for s in _sweeps({"data": data, **how}, range(20, 23))]
    more = {"data": "mnist", "n": 3000, "n_test": 5000, "bandwidth": 5.0}
    return grid + _by_examples(more, (0.0, NOISE, RANDOM), (500,), range(20, 23))


def paper() -> list[Setting]:
    """MNIST with 10,000 training examples and up to 60,000 features; the published bandwidth is quoted from memory."""
    how = {"data": "mnist", "n": 10_000, "n_validation": 0, "n_test": 10_000, "bandwidth": 5.0}
    return product({**FOURIER, **how, "noise": 0.0}, ratios=map(list, PUBLISHED), seed=range(20, 23))


def own_data(setting: Setting, data: Data) -> Setting | None:
    """As many examples as there are, of which up to a third validate, and a bandwidth that suits their distances."""
    validation = setting["n_validation"]
    fitted = fit_sizes({**setting, "n": setting["n"] + validation}, data)
    validation = min(validation, fitted["n"] // 3)
    own = {**fitted, "n": fitted["n"] - validation, "n_validation": validation, "bandwidth": MEDIAN}
    if setting["sweep"] == "features":
        return own
    width = round(setting["width"] * own["n"] / setting["n"])
    own["ratios"] = [ratio for ratio in setting["ratios"] if round(ratio * width) <= own["n"]]
    return {**own, "width": width} if width >= FEWEST else None


def cost(setting: Setting) -> float:
    """Seconds, roughly."""
    n, most = setting["n"] / 500, max(setting["ratios"]) / 16
    return 0.1 * n if setting["sweep"] != "features" else n**2 * (1 + most) * (4 if setting["ridge"] == "tuned" else 1)


# ---- the claims ----------------------------------------------------------------------------------------------------

FIGURE = BELKIN.at("Figure 2")
TRIAL = "Trials with other seeds on digits (n = 500) and MNIST (n = 1,000)"

CLAIMS = (
    Claim(
        "peak-at-threshold",
        "Fourier features: the largest squared test error within 5% of N = n exceeds all those at other N.",
        descent.peak_at_threshold,
        at_least(1, TIMES),
        FIGURE,
        "a peak of all test risks at N = n (read from the figure; no number in the text)",
        every=("data", "noise"),
        where=FOURIER,
        pilot=f"{TRIAL} saw factors of 30 and more.",
        note="N real cosines replace the published complex exponentials; both interpolate from N = n on.",
    ),
    Claim(
        "second-descent",
        "At the largest N, the test error is at least 1 point below the best of all N < n (labels without noise).",
        descent.second_descent,
        at_least(1, POINTS),
        FIGURE,
        "on MNIST (n = 10,000), the curve peaks near 88% and ends near 4%, below all N < n (figure read from memory)",
        every=("data", "kind"),
        where={"sweep": "features", "ridge": "none", "noise": 0.0},
        counted_on="n_test",
        pilot=f"{TRIAL} saw gains of 3 points and more.",
        note="The best N < n is chosen by its test error, which favors it. An error that only falls, without a peak, "
        "would do as well; peak-at-threshold and norm-peaks are about the peak.",
    ),
    Claim(
        "norm-peaks",
        "Fourier features: the largest norm of the readout within 5% of N = n exceeds all those at other N.",
        partial(descent.peak_at_threshold, field="norm"),
        at_least(1, TIMES),
        FIGURE,
        "the norm of the coefficients peaks at N = n (read from the figure)",
        every=("data", "noise"),
        where=FOURIER,
        pilot=f"{TRIAL} saw factors of 5 and more.",
    ),
    Claim(
        "relu-peak-at-rank",
        "ReLU features: the squared test error peaks where 95% to 105% of n features are linearly independent.",
        partial(descent.peak_at_threshold, along="directions"),
        at_least(1, TIMES),
        OURS,
        "Belkin et al. show the peak of random ReLU features at N = n",
        every=("data", "noise"),
        where=RELU,
        scales=("quick", "medium"),
        pilot="Trials on digits had their peak at N = 1.05 n: units that are off, or on, for all images add little.",
    ),
    Claim(
        "ridge-removes-peak",
        "With a tuned ridge, the test error never rises more than 3 points above its value at fewer features.",
        descent.rise,
        at_most(3, POINTS),
        MITIGATE.at("abstract"),
        "with an optimally tuned ridge, test performance is monotonic in the model size (linear regression)",
        every=("data", "noise"),
        where={"sweep": "features", "kind": "fourier", "ridge": "tuned"},
        scales=("quick", "medium"),
        counted_on="n_test",
        pilot="Trials on digits with other seeds saw rises of 0.3 to 1.8 points, and about 70 without a ridge.",
        note="The theorem is about isotropic data and the best ridge; here held-out examples choose among nine.",
    ),
    Claim(
        "noise-second-descent",
        "With 20% of labels replaced, Fourier features still err at least 1 point less at 16n than at the best N < n.",
        descent.second_descent,
        at_least(1, POINTS),
        OURS,
        "Nakkiran et al. 2020 report networks whose second descent does not reach the first minimum under label noise",
        every=("data",),
        where={**FOURIER, "noise": NOISE},
        scales=("quick", "medium"),
        counted_on="n_test",
        pilot=f"{TRIAL} saw gains of about 10 points.",
    ),
    Claim(
        "relu-noise-favors-few",
        "With 20% of labels replaced, ReLU features err at least 2 points more at 16n than at the best N < n.",
        descent.first_descent_wins,
        at_least(2, POINTS),
        OURS,
        "not published; it shows that a second descent need not be the lower one",
        every=("data",),
        where={**RELU, "noise": NOISE},
        scales=("quick",),
        counted_on="n_test",
        pilot="A trial on digits erred 6 points more at 16n; on MNIST (n = 1,000) both minima were equal.",
    ),
    Claim(
        "more-data-hurt",
        "Fitted to n = N examples, N features err at least 20 points more than fitted to half of these examples.",
        descent.more_data_hurt,
        at_least(20, POINTS),
        NAKKIRAN.at("Section 7"),
        "more training examples can raise the test error near the threshold (number of the section from memory)",
        every=("data", "noise"),
        where={"sweep": "examples", "noise": [0.0, NOISE]},
        scales=("quick", "medium"),
        counted_on="n_test",
        pilot="A trial on digits with 200 features erred 55 points more without noise and 32 with it.",
    ),
    Claim(
        "effective-complexity",
        "With 20% of labels replaced, N features fit at least 2N examples up to a training error of 10%.",
        descent.effective_complexity,
        at_least(2, TIMES),
        OURS,
        "Nakkiran et al. 2020 expect the peak where this number, the effective model complexity, is about n",
        every=("data",),
        where={"sweep": "examples", "noise": NOISE},
        scales=("quick", "medium"),
        pilot="Trials on digits with 200 features found 2.7 N and 3.1 N; the peak is at n = N.",
    ),
    Exact(
        "interpolates",
        "Fourier features fit all training labels exactly if and only if N is at least n.",
        descent.fits_from_n_on,
        BELKIN.theorem("random Fourier features"),
        "squared training error below 1e-10 from N = n on, and above it before",
        "from N = n on, least squares can interpolate any labels",
        where={"kind": "fourier", "ridge": "none"},
    ),
)


EXPERIMENT = Experiment(
    name="double-descent",
    title="Double descent: more features than examples",
    about=(
        "Belkin et al. fit random features by least squares and let their number N grow past the number n of examples. "
        "Textbooks expect the test error to rise from some N on; the published curve peaks at N = n and then falls "
        "below everything before it. This experiment measures the curve with its norm, with label noise, with a tuned "
        "ridge, and with n growing instead of N, where more data can hurt."
    ),
    papers=(BELKIN, NAKKIRAN, MITIGATE),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
