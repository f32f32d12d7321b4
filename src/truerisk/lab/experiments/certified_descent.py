"""Does a certificate see the second descent? Bounds along a double-descent curve (Belkin et al. 2019).

The model has N random ReLU features and the least-norm readout of n examples (`truerisk.nets.random_network`). Its test
error peaks at N = n. Six certificates, each by `truerisk.certify` with delta 0.05 of its own, are asked about it:

    hold-out             the readout of n/2 examples, tested on the others; its threshold is N = n/2
    progressive          readouts of n/2, 0.6n, ..., 0.9n examples, each tested on the next n/10: five thresholds
    PAC-Bayes, split     a posterior whose prior is centered at the readout of n/2 examples
    PAC-Bayes, zero      a posterior trained by its own objective from a data-free prior; no readout is solved for
    PAC-Bayes, around    noise around the readout of all n examples, with a data-free prior
    description length   a short code of weights, searched from the readout of all n examples

The features come from a seed and are fixed, so priors and decoders know them, and only the readout costs nats or bits.
The true risk of each certified predictor, and of the readout of all n examples, is measured on new examples.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from scipy.stats import binom

from truerisk.data import Data
from truerisk.lab.claim import OURS, Checked, Claim, Exact
from truerisk.lab.experiment import Experiment, Setting, product
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.papers import BELKIN
from truerisk.lab.readout_certificates import AROUND, CODE, DELTA, MODEL, task
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.units import NATS, PERCENT, PLAIN, POINTS, TIMES, at_least, at_most, between

# Where the certificate's own training set meets N, as a share of n. Progressive validation has five; this is the third.
THRESHOLDS = {
    "hold-out": 0.5,
    "progressive": 0.7,
    "pac-bayes-split": 0.5,
    "pac-bayes-zero": 1.0,
    AROUND: 1.0,
    CODE: 1.0,
}
RATIOS = (0.125, 0.25, 0.5, 0.7, 1.0, 2.0, 4.0)
FIRST, LAST = 0.125, 4.0  # a size below all thresholds, and the end of the second descent
CHANCE = 0.001  # a certificate fails if chance explains its measured risk with less probability; so for their number


# ---- grids -----------------------------------------------------------------------------------------------------------


def runs(how: Setting, cells: dict[str, Any], draws: int, epochs: dict[str, int], **seeds: Any) -> list[Setting]:
    """Settings of these methods at these ratios; sampled predictions and passes over the data where a method asks."""
    found = []
    for method, ratios in cells.items():
        own = {"draws": draws} if method.startswith("pac-bayes") else {}
        own |= {"epochs": epochs[method]} if method in epochs else {}
        found += product({**how, "method": method, **own}, ratio=ratios, **seeds)
    return found


EVERYWHERE: dict[str, Any] = dict.fromkeys((MODEL, *THRESHOLDS), RATIOS)
CLAIMED: dict[str, Any] = {
    MODEL: (1.0, LAST),
    "hold-out": (0.25, 0.5, 1.0, LAST),
    "progressive": (0.7, LAST),
    "pac-bayes-split": (0.5, LAST),
    "pac-bayes-zero": (1.0, LAST),
    AROUND: (FIRST, LAST),
    CODE: (FIRST, 1.0, LAST),
}
EPOCHS = {AROUND: 10, CODE: 30}  # elsewhere those that certify chooses


def smoke() -> list[Setting]:
    digits = {"data": "digits", "n": 100, "n_test": 200}
    return runs(digits, CLAIMED, 500, dict.fromkeys(THRESHOLDS, 1), seed=[20])


def quick() -> list[Setting]:
    digits = {"data": "digits", "n": 500, "n_test": 1000}
    return runs(digits, EVERYWHERE, 5000, EPOCHS, seed=[20]) + runs(digits, CLAIMED, 5000, EPOCHS, seed=range(21, 25))


def medium() -> list[Setting]:
    mnist = {"data": "mnist", "n": 2000, "n_test": 10_000}
    return runs(mnist, EVERYWHERE, 20_000, EPOCHS, seed=[20]) + runs(mnist, CLAIMED, 20_000, EPOCHS, seed=[21, 22])


def paper() -> list[Setting]:
    """As many examples as Belkin et al. took of MNIST; the largest readouts need 16 GiB and hours."""
    return runs({"data": "mnist", "n": 10_000, "n_test": 10_000}, EVERYWHERE, 100_000, EPOCHS, seed=range(20, 23))


def own_data(setting: Setting, data: Data) -> Setting | None:
    """Five blocks of a progressive certificate need 100 examples."""
    fitted = fit_sizes(setting, data)
    return fitted if fitted["n"] >= 100 else None


def cost(setting: Setting) -> float:
    """Solving for a readout of N features and n examples takes about n^2 N operations; progressive solves for six."""
    solves = {MODEL: 1.0, "hold-out": 0.3, "progressive": 3.0, "pac-bayes-split": 0.3}.get(setting["method"], 2.0)
    return setting["n"] ** 2 * setting["ratio"] * setting["n"] * solves + 1e7


# ---- effects ---------------------------------------------------------------------------------------------------------


def at(rows: Rows, method: str, ratio: float, field: str) -> float:
    return float(rows.where(method=method, ratio=ratio).one(field))


def descent(rows: Rows) -> float:
    """How far the measured risk of the readout of all examples falls from N = n to the end."""
    return at(rows, MODEL, 1.0, "risk") - at(rows, MODEL, LAST, "risk")


def drop(rows: Rows, method: str) -> float:
    """How far a certificate falls from its own threshold to the end."""
    return at(rows, method, THRESHOLDS[method], "bound") - at(rows, method, LAST, "bound")


def followed(rows: Rows, method: str) -> float:
    """The same, as a share of the fall of the measured risk."""
    fall = descent(rows)
    if fall < 0.01:
        raise IncompleteError(f"the measured risk falls by {fall:.3f}, which is no descent to follow")
    return drop(rows, method) / fall


def smeared(rows: Rows) -> float:
    first, fifth = drop(rows, "hold-out"), drop(rows, "progressive")
    if not (first > 0 and fifth > 0):
        raise IncompleteError("a certificate does not fall from its threshold on, so their falls have no ratio")
    return first / fifth


def change(rows: Rows, method: str, first: float, last: float) -> float:
    """Bound at the first ratio minus bound at the last one."""
    return at(rows, method, first, "bound") - at(rows, method, last, "bound")


def half_beats_all(rows: Rows) -> float:
    return at(rows, MODEL, 1.0, "risk") - at(rows, "hold-out", 1.0, "bound")


def divergence(rows: Rows) -> float:
    return at(rows, "pac-bayes-split", 0.5, "kl")


def least_around(rows: Rows) -> float:
    return min(at(rows, AROUND, ratio, "bound") for ratio in (FIRST, LAST))


def divergence_growth(rows: Rows) -> float:
    return at(rows, AROUND, LAST, "kl") / at(rows, AROUND, FIRST, "kl")


def failures(rows: Rows) -> Checked:
    """Certificates whose measured risk exceeds the bound by more than chance allows, against the number allowed."""
    made = [row for row in rows.complete("certificates") if row["method"] != MODEL]
    tails = [float(binom.sf(row["wrong"] - 1, row["n_test"], min(1.0, row["bound"]))) for row in made]
    failed, allowed = sum(tail < CHANCE for tail in tails), int(binom.ppf(1 - CHANCE, len(made), DELTA))
    return Checked(failed <= allowed, f"{failed} of {len(made)} certificates failed; {allowed} allowed")


# ---- claims ----------------------------------------------------------------------------------------------------------

TRIAL = "trial runs on digits with seeds 0 to 5 at n = 500; nothing was tried on MNIST"
HALF = "Followed means: from its own threshold to N = 4n, the bound falls by at least half of the fall of the measured "
HALF += "risk of the readout of all n examples from N = n to N = 4n."
own_question = partial(Claim, whose=OURS, every=("data",), pilot=TRIAL)
CLAIMS = (
    own_question(
        "double-descent",
        "The error of the least-norm readout of all n examples falls from N = n features to 4n.",
        descent,
        at_least(20, POINTS),
        published="Belkin et al. show this shape for random Fourier features on MNIST",
        where={"method": [MODEL]},
        counted_on="n_test",
    ),
    own_question(
        "hold-out-follows",
        "A hold-out certificate follows the second descent, from a threshold at n/2.",
        partial(followed, method="hold-out"),
        at_least(0.5, PLAIN),
        where={"method": [MODEL, "hold-out"]},
        note=f"{HALF} A hold-out bound is an error rate plus a margin, so it must follow its own network; the claim is "
        "that half of the data has the same descent.",
    ),
    own_question(
        "half-beats-all",
        "At N = n, the certificate of the readout of half of the examples is below the measured risk of all.",
        half_beats_all,
        at_least(10, POINTS),
        where={"method": [MODEL, "hold-out"]},
        counted_on="n_test",
    ),
    own_question(
        "hold-out-prefers-many",
        "The hold-out certificate of 4n features is below that of n/4, where its first descent ends.",
        partial(change, method="hold-out", first=0.25, last=LAST),
        at_least(1, POINTS),
        where={"method": ["hold-out"]},
        counted_on="n",
    ),
    own_question(
        "progressive-follows",
        "A progressive certificate follows the second descent, from the third of its five thresholds.",
        partial(followed, method="progressive"),
        at_least(0.5, PLAIN),
        where={"method": [MODEL, "progressive"]},
        note=HALF,
    ),
    own_question(
        "progressive-smears",
        "The hold-out certificate falls farther than the progressive one, whose five networks peak at five sizes.",
        smeared,
        at_least(1.3, TIMES),
        where={"method": ["hold-out", "progressive"]},
    ),
    own_question(
        "split-prior-follows",
        "A PAC-Bayes certificate with a prior from half of the data follows the second descent.",
        partial(followed, method="pac-bayes-split"),
        at_least(0.5, PLAIN),
        where={"method": [MODEL, "pac-bayes-split"]},
        note=HALF,
    ),
    own_question(
        "split-prior-in-disguise",
        "That posterior moves less than 1 nat from its prior at the threshold: it only tests the prior.",
        divergence,
        at_most(1, NATS),
        where={"method": ["pac-bayes-split"]},
    ),
    own_question(
        "data-free-prior-is-flat",
        "With a data-free prior, the PAC-Bayes bound of 4n features is that of n: the posterior has no peak to leave.",
        partial(change, method="pac-bayes-zero", first=1.0, last=LAST),
        between(-5, 5, POINTS),
        where={"method": ["pac-bayes-zero"]},
        counted_on="n",
    ),
    own_question(
        "around-is-vacuous",
        "Noise around the readout of all examples is certified at no less than guessing, with few features and many.",
        least_around,
        at_least(90, PERCENT),
        where={"method": [AROUND]},
        counted_on="n",
    ),
    own_question(
        "around-divergence-grows",
        "Around the readout of all examples, the KL of 4n features exceeds that of n/8.",
        divergence_growth,
        at_least(5, TIMES),
        where={"method": [AROUND]},
    ),
    own_question(
        "code-does-not-follow",
        "A description-length certificate does not follow the second descent.",
        partial(followed, method=CODE),
        at_most(0.5, PLAIN),
        where={"method": [MODEL, CODE]},
        note=f"{HALF} The search for a code is short (30 epochs, two prices); a longer one could find better codes.",
    ),
    own_question(
        "code-prefers-few",
        "The description-length certificate of n/8 features is below that of 4n.",
        partial(change, method=CODE, first=LAST, last=FIRST),
        at_least(5, POINTS),
        where={"method": [CODE]},
        counted_on="n",
    ),
    Exact(
        "certificates-hold",
        "No more certificates fail on new examples than their failure probability allows.",
        failures,
        OURS,
        f"no more than the {1 - CHANCE:.1%} quantile of a binomial with probability {DELTA:g}; a certificate fails "
        f"where chance explains its errors with probability below {CHANCE:g}",
        where={"method": list(THRESHOLDS)},
        note="Certificates of one seed share their examples, so they are not independent.",
    ),
)

EXPERIMENT = Experiment(
    name="certified-descent",
    title="Does a certificate see the second descent?",
    about="Test error can peak where a model just fits its training labels, and fall again as the model grows. A "
    "certificate is an upper bound on that error from the training data alone. This experiment computes six of them "
    "along the curve: which follow the second descent, which are blind to it, and why?",
    papers=(BELKIN,),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
