"""`conditioning`: how badly is the training loss conditioned, and which remedy repairs it?

The condition number is measured, not guessed: all eigenvalues of the Gauss-Newton matrix of a small network, dense and
in float64. It is the largest eigenvalue over the n-th largest, n being the number of examples (fitting n examples takes
about n directions). The plain network has six hidden ReLU layers, inputs as they are, and torch's default start; each
remedy changes one thing in it (`REMEDIES` of `conditioning_runs`): inputs centered or standardized, He's start, skips,
batch norm, layer norm, weight norm with gains that start at |v| or from data, and four of these at once.

Then gradient descent on all examples takes a number of steps at each of five rates; the best one counts. Runs with
``kind`` "words" learn documents with Zipf word frequencies by logistic regression, with SGD and with diagonal
preconditioners at their best of six rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy.stats import spearmanr

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.lab.claim import OURS, AnyClaim, Checked, Claim, Exact, Paper
from truerisk.lab.conditioning_runs import REMEDIES, run_network, run_words
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.rows import Rows
from truerisk.lab.units import CORRELATION, PLAIN, TIMES, at_least, at_most, between

LECUN = Paper("LeCun, Bottou, Orr, Müller", 1998, "Efficient BackProp", "Neural Networks: Tricks of the Trade")
SPEED = "Weight normalization: a simple reparameterization to accelerate training of deep neural networks"
SALIMANS = Paper("Salimans, Kingma", 2016, SPEED, "NeurIPS", arxiv="1602.07868")
DENSITY = "An investigation into neural net optimization via Hessian eigenvalue density"
GHORBANI = Paper("Ghorbani, Krishnan, Xiao", 2019, DENSITY, "ICML", arxiv="1901.10159")
ADAPTIVE = "Adaptive subgradient methods for online learning and stochastic optimization"
DUCHI = Paper("Duchi, Hazan, Singer", 2011, ADAPTIVE, "JMLR 12")

STRONG = ("He start", "skips", "batch norm", "weight norm, data start")  # at least a factor of 50
WEAK = ("standardized inputs", "layer norm")  # at least a factor of 4
NETWORK, WORDS, SCALES, DEPTHS = "network", "words", "scales", "depths"
SWEPT = ("none", "He start", "batch norm")  # over depth
MOST_NUMBERS = 3e7  # of a Jacobian


def task(setting: Setting) -> Record:
    """One network with one remedy, or one set of documents."""
    return run_words(setting) if setting["kind"] == WORDS else run_network(setting)


# ---- the grids -----------------------------------------------------------------------------------------------------


def _grid(how: Setting, words: Setting, seeds: Sequence[int], scales: Sequence[float]) -> list[Setting]:
    """All seeds where claims look; one seed for the sweeps over initial scale and depth."""
    found = product({"kind": NETWORK, **how}, remedy=list(REMEDIES), seed=seeds)
    found += product({"kind": WORDS, **words}, seed=seeds)
    sweep = {**how, "steps": 0}
    found += product({"kind": SCALES, **sweep, "remedy": "He start"}, scale=scales, seed=seeds[:1])
    for depth in (1, 2, 4, 8, 16):
        found += product({"kind": DEPTHS, **sweep, "depth": depth}, remedy=SWEPT, seed=seeds[:1])
    return found


def smoke() -> list[Setting]:
    how = {"data": "digits", "n": 20, "side": 14, "depth": 3, "width": 8, "steps": 10}
    return _grid(how, {"n": 200, "words": 60, "length": 10, "epochs": 1, "batch": 20}, [20], (0.5, 1.0))


def quick() -> list[Setting]:
    how = {"data": "digits", "n": 100, "side": 14, "depth": 6, "width": 16, "steps": 100}
    words = {"n": 2000, "words": 600, "length": 20, "epochs": 2, "batch": 20}
    return _grid(how, words, range(20, 25), (0.25, 0.5, 0.7, 1.0, 1.4))


def medium() -> list[Setting]:
    """MNIST, averaged over blocks of 2 x 2 pixels."""
    how = {"data": "mnist", "n": 200, "side": 14, "depth": 6, "width": 16, "steps": 200}
    words = {"n": 4000, "words": 1000, "length": 20, "epochs": 2, "batch": 20}
    return _grid(how, words, range(20, 23), (0.25, 0.5, 0.7, 1.0, 1.4))


def paper() -> list[Setting]:
    """No common size is published; whole MNIST images and 500 examples of them need 8 GB."""
    how = {"data": "mnist", "n": 500, "side": 28, "depth": 6, "width": 32, "steps": 500, "threads": 8}
    words = {"n": 20_000, "words": 5000, "length": 50, "epochs": 2, "batch": 20}
    return _grid(how, words, range(20, 23), (0.25, 0.5, 0.7, 1.0, 1.4))


def own_data(setting: Setting, data: Data) -> Setting | None:
    """As many examples as a dense Jacobian allows; words have data of their own."""
    if setting["kind"] == WORDS:
        return None
    side = min(setting["side"], *data.input_shape[1:]) if len(data.input_shape) == 3 else 0
    features = data.input_shape[0] * side**2 if side else math.prod(data.input_shape)
    weights = (features + 6 * setting["width"]) * setting["width"]
    n = int(min(setting["n"], len(data) - 1, 2000 // data.classes, MOST_NUMBERS / weights / data.classes))
    if n < 10:
        raise TrueriskError(f"{data.name} has too many features or classes for a dense spectrum; give fewer columns.")
    return {**setting, "n": n}


def cost(setting: Setting) -> float:
    return setting["words"] * setting["n"] / 6e5 if setting["kind"] == WORDS else (setting["n"] / 100) ** 2


# ---- the claims ----------------------------------------------------------------------------------------------------


def conditions(runs: Rows) -> dict[str, float]:
    """The condition number at the start, for each remedy."""
    return {row["remedy"]: row["start"]["condition"] for row in runs.complete("condition")}


def gains(runs: Rows, remedies: Sequence[str]) -> dict[str, float]:
    found = conditions(runs)
    return {name: found["none"] / found[name] for name in remedies}


def batch_lead(runs: Rows) -> float:
    """The best condition number of the other remedies, one at a time, over that of batch norm."""
    found = conditions(runs)
    return min(found[name] for name in (*STRONG, *WEAK) if name != "batch norm") / found["batch norm"]


def together(runs: Rows) -> float:
    found = conditions(runs)
    return found["batch norm"] / found["all"]


def outliers(runs: Rows) -> float:
    ranks = {row["remedy"]: row["start"]["effective_rank"] for row in runs.complete("spectrum")}
    return float(ranks["batch norm"] / ranks["none"])


def predicts(runs: Rows) -> float:
    """Rank correlation, over remedies, of the condition number at the start and the loss of gradient descent."""
    rows = runs.complete("loss")
    return float(spearmanr([row["start"]["condition"] for row in rows], [row["loss"] for row in rows])[0])


def word_share(runs: Rows) -> float:
    return float(runs.one("ratios")["SGD"])


def adaptive_shares(runs: Rows) -> dict[str, float]:
    ratios = runs.one("ratios")
    return {name: ratios[name] for name in ("AdaGrad", "Adam")}


def word_condition(runs: Rows) -> float:
    found = runs.one("word_conditions")
    return float(found["plain"] / found["scaled"])


def same_spectrum(rows: Rows) -> Checked:
    """Eigenvalues with weight norm at gains |v| over those without, for all seeds."""
    spectra = {(row["seed"], row["remedy"]): row["start"]["values"][:15] for row in rows.complete("spectrum")}
    seeds = {seed for seed, _ in spectra}
    gaps = [np.divide(spectra[seed, "weight norm"], spectra[seed, "none"]) - 1 for seed in seeds]
    worst = float(max(np.abs(gap).max() for gap in gaps))
    return Checked(worst < 0.002, f"the largest relative difference over {len(seeds)} seeds is {worst:.1g}")


NETS, DOCUMENTS = {"kind": NETWORK}, {"kind": WORDS}
TRIAL = "trials with seeds 0 to 4 on digits"
CLAIMS: tuple[AnyClaim, ...] = (
    Claim(
        "strong-remedies",
        "He start, skips, batch norm, and weight norm with a data start each lower the condition number 50-fold.",
        partial(gains, remedies=STRONG),
        at_least(50, TIMES),
        OURS,
        where=NETS,
        pilot=f"{TRIAL} had 450 to 6,700 times for skips and He start, 2,400 to 300,000 for both norms",
    ),
    Claim(
        "weak-remedies",
        "Standardized inputs and layer norm each lower the condition number at least 4-fold.",
        partial(gains, remedies=WEAK),
        at_least(4, TIMES),
        LECUN.at("Section 4.3"),
        "inputs of mean 0 and equal variance speed up learning (no number; nothing about layer norm)",
        where=NETS,
        pilot=f"{TRIAL} had 12 to 26 times for inputs, 130 to 5,600 for layer norm",
        note="The section is quoted from memory.",
    ),
    Claim(
        "centering-alone",
        "Centering the inputs alone changes the condition number of the deep network by less than a factor of 3.",
        partial(gains, remedies=("centered inputs",)),
        between(1 / 3, 3, TIMES),
        OURS,
        where=NETS,
        pilot=f"{TRIAL} had 0.9 to 1.8 times",
    ),
    Claim(
        "batch-norm-first",
        "Of all single remedies, batch norm leaves the smallest condition number.",
        batch_lead,
        at_least(1, TIMES),
        OURS,
        where=NETS,
        pilot=f"{TRIAL} had 4 to 7 times",
    ),
    Claim(
        "remedies-add",
        "All remedies together leave a smaller condition number than batch norm alone.",
        together,
        at_least(1, TIMES),
        OURS,
        where=NETS,
        pilot=f"{TRIAL} had 0.06 to 0.85 times: a failure is expected",
    ),
    Claim(
        "outliers",
        "Batch norm suppresses outliers: the effective rank, trace over largest eigenvalue, grows 1.5-fold.",
        outliers,
        at_least(1.5, TIMES),
        GHORBANI.at("abstract"),
        "batch norm suppresses the outlier eigenvalues of the Hessian (no number)",
        where=NETS,
        pilot=f"{TRIAL} had 1.7 to 3.6 times",
        note="The paper measures Hessians during training of large networks; here: Gauss-Newton at the start.",
    ),
    Exact(
        "weight-norm-default",
        "Weight norm whose gains start at |v| changes no eigenvalue: only a start from data does.",
        same_spectrum,
        OURS,
        "the 15 largest eigenvalues agree to 0.2%",
        "Salimans and Kingma (2016) say that weight norm improves the conditioning",
        where={**NETS, "remedy": ["none", "weight norm"]},
        note="It follows from w = g v / |v|: at g = |v| the Jacobian of (g, v) to w has orthonormal rows.",
    ),
    Claim(
        "predicts-descent",
        "Over the ten networks, the condition number at the start orders the losses of gradient descent.",
        predicts,
        at_least(0.6, CORRELATION),
        OURS,
        where=NETS,
        pilot="trials with seeds 2 and 3 had 0.83 and 0.88",
        note="One order of ten networks per seed; each has the best of five learning rates.",
    ),
    Claim(
        "words-sgd",
        "SGD gives rare words at most 0.3 times the weight of frequent ones, though both matter equally.",
        word_share,
        at_most(0.3, PLAIN),
        OURS,
        where=DOCUMENTS,
        pilot="trials with seeds 0 and 2 had 0.22 and 0.12; an earlier trial with a fixed rate had 0.09",
    ),
    Claim(
        "words-adaptive",
        "AdaGrad and Adam give rare words at least 0.7 times the weight of frequent ones.",
        adaptive_shares,
        at_least(0.7, PLAIN),
        DUCHI.at("abstract and introduction"),
        "adaptive rates find predictive features that are rarely seen (no number)",
        where=DOCUMENTS,
        pilot="trials with seeds 0 and 2 had 0.88 to 0.96; an earlier one at fixed rates 0.93, Adam 0.52",
        note="At a rate of 0.01, below its best, Adam has about 0.5 here as well.",
    ),
    Claim(
        "words-condition",
        "Scaling each word's weight by its own curvature lowers the condition number at least 20-fold.",
        word_condition,
        at_least(20, TIMES),
        OURS,
        where=DOCUMENTS,
        pilot="a trial with seed 2 had 97 times",
        note="Here the condition number is over the median of all positive eigenvalues of the Hessian at weights 0.",
    ),
)

EXPERIMENT = Experiment(
    name="conditioning",
    title="How badly is a network conditioned, and what repairs it?",
    about=(
        "Gradient descent needs many steps where the loss curves far more in one direction than in another. "
        "Normalization, skip connections, and careful starts are said to repair this conditioning. This experiment "
        "computes all eigenvalues of small networks, before and after each remedy, and asks whether they predict speed."
    ),
    papers=(LECUN, SALIMANS, GHORBANI, DUCHI),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
