"""`averaging`: does an average of members that fit every training label err less than one of them?

Five families, each with a way to get many members from the same examples:

    pert        perfect random trees, each of which fits all labels (Cutler and Zhao 2001)
    bagging     trees without pruning on bootstrap samples (Breiman 1996)
    boosting    trees of limited depth in a weighted vote, by AdaBoost (SAMME)
    dropout     networks that share weights, one for each mask (Srivastava et al. 2014)
    snapshots   one network at the ends of the cycles of its learning rate (Huang et al. 2017)

Each run trains one family once and counts errors for averages of 1, 2, 5, ... members. Trees vote; networks average
their probabilities. Where the order of members means nothing, the error is the mean over disjoint groups. Boosting
takes its first rounds, snapshots the last cycles. Noise replaces training labels by random classes; test labels stay
true.
"""

from __future__ import annotations

from collections.abc import Sequence

from truerisk.data import corrupt_labels
from truerisk.lab.averages import FAMILIES
from truerisk.lab.claim import OURS, AnyClaim, Checked, Claim, Exact, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.samples import samples
from truerisk.lab.units import PERCENT, PLAIN, POINTS, TIMES, at_least, at_most, between
from truerisk.seeds import derive
from truerisk.training.loop import DivergedError

PERT = Paper("Cutler, Zhao", 2001, "PERT: perfect random tree ensembles", "Computing Science and Statistics 33")
BREIMAN = Paper("Breiman", 1996, "Bagging predictors", "Machine Learning 24", doi="10.1007/BF00058655")
MARGIN = "Boosting the margin: a new explanation for the effectiveness of voting methods"
SCHAPIRE = Paper("Schapire, Freund, Bartlett, Lee", 1998, MARGIN, "Annals of Statistics 26")
DROPOUT = "Dropout: a simple way to prevent neural networks from overfitting"
SRIVASTAVA = Paper("Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov", 2014, DROPOUT, "JMLR 15")
SNAPSHOTS = "Snapshot ensembles: train 1, get M for free"
HUANG = Paper("Huang, Li, Pleiss, Liu, Hopcroft, Weinberger", 2017, SNAPSHOTS, "ICLR", arxiv="1704.00109")
NOISE = 0.2


def task(setting: Setting) -> Record:
    """Train one family, and count errors of its averages."""
    s, seed = setting, setting["seed"]
    train, test = samples(s["data"], s["n"], s["n_test"], derive(seed, "examples"), s.get("data_sha256"))
    given = corrupt_labels(train, s["noise"], derive(seed, "noise"))
    try:
        return {**FAMILIES[s["family"]](s, given, test), "diverged": False}
    except DivergedError:
        return {"diverged": True}


FIGURES_ONLY = (("bagging", NOISE), ("dropout", NOISE))  # no claim needs several seeds here
SHAPES: dict[str, Setting] = {
    "pert": {"members": 100},
    "bagging": {"members": 100},
    "boosting": {"rounds": 200, "depth": 8},
    "dropout": {"members": 100, "width": 256, "p": 0.5, "epochs": 60, "lr": 0.003},
    "snapshots": {"cycles": 5, "width": 256, "epochs": 60, "lr": 0.2},
}


def grid(how: Setting, seeds: Sequence[int], more: Sequence[int] = (), **other: int) -> list[Setting]:
    """All families with true and noisy labels; all seeds where claims look, and ``more`` for PERT on true labels."""
    found = []
    for family, shape in SHAPES.items():
        own = {"family": family, **how, **{name: other.get(name, value) for name, value in shape.items()}}
        for noise in (0.0, NOISE):
            many = [*seeds, *more] if (family, noise) == ("pert", 0.0) else seeds
            found += product({**own, "noise": noise}, seed=seeds[:1] if (family, noise) in FIGURES_ONLY else many)
    return found


def smoke() -> list[Setting]:
    how = {"data": "digits", "n": 100, "n_test": 100}
    return grid(how, [20], members=10, rounds=20, depth=3, epochs=5, width=32)


def quick() -> list[Setting]:
    return grid({"data": "digits", "n": 1000, "n_test": 797}, range(20, 25), range(25, 35))


def medium() -> list[Setting]:
    return grid({"data": "mnist", "n": 3000, "n_test": 5000}, range(20, 23), rounds=100, depth=9)


def paper() -> list[Setting]:
    """No common size is published. With all of MNIST, boosting takes hours."""
    return grid({"data": "mnist", "n": 60_000, "n_test": 10_000}, range(20, 23), depth=14)


def cost(setting: Setting) -> float:
    """Seconds for 1,000 digits, roughly."""
    each = {"pert": 0.3, "bagging": 1.0, "boosting": 4.0, "dropout": 3.0, "snapshots": 4.0}[setting["family"]]
    return each * setting["n"] / 1000 * (5 if setting["data"] == "mnist" else 1)


# ---- the claims ----------------------------------------------------------------------------------------------------


def first(runs: Rows) -> float:
    """The error of a single member, the mean over all of them where their order means nothing."""
    return float(runs.one("test_errors")[0])


def last(runs: Rows) -> float:
    """The error of the average of all members."""
    return float(runs.one("test_errors")[-1])


def share_left(runs: Rows) -> float:
    """The error of the average over that of one member; no error at all counts as half an example."""
    least = 0.5 / runs.one("n_test")
    return max(last(runs), least) / max(first(runs), least)


def share_of_whole(runs: Rows) -> float:
    least = 0.5 / runs.one("n_test")
    return max(last(runs), least) / max(float(runs.one("whole_error")), least)


def since_fit(runs: Rows, name: str) -> float:
    """By how much a number has grown from the round in which the training error is first 0 to the last round."""
    if runs.one("fitted") is None:
        raise IncompleteError("boosting has not reached a training error of 0")
    return float(runs.one("at_end")[name] - runs.one("at_fit")[name])


def margin_growth(runs: Rows) -> float:
    return since_fit(runs, "smallest")


def error_fall(runs: Rows) -> float:
    return -since_fit(runs, "test")


def scaling_gap(runs: Rows) -> float:
    return float(runs.one("scaled_error")) - last(runs)


def gain_on_last(runs: Rows) -> float:
    return first(runs) - last(runs)


def gain_on_run(runs: Rows) -> float:
    return float(runs.one("one_run_error")) - last(runs)


def fits_all(rows: Rows) -> Checked:
    worst = max(max(errors) for errors in rows.column("train_errors"))
    return Checked(worst == 0, f"the largest training error of {len(rows)} runs is {100 * worst:g}%")


CLEAN, NOISY = {"noise": 0.0}, {"noise": NOISE}
TRIAL = "trials with seeds below 20"
CLAIMS: tuple[AnyClaim, ...] = (
    Claim(
        "pert-tenth",
        "An average of 100 perfect random trees errs at most a tenth as often as one of them.",
        share_left,
        at_most(0.1, TIMES),
        OURS,
        "Cutler and Zhao call PERT surprisingly accurate, given how weak its trees are (no number)",
        where={"family": "pert", **CLEAN},
        pilot=f"{TRIAL} had 0.082 times on 1,000 digits (0.107 on 600, so the size matters) and 0.17 times on MNIST",
        note="Fifteen seeds on digits, because a run takes half a second and the ratio varies by a fifth.",
    ),
    Claim(
        "pert-noise",
        "With 20% random labels, 100 perfect random trees err less often than the labels that each of them fits.",
        last,
        at_most(18, PERCENT),
        OURS,
        where={"family": "pert", **NOISY},
        counted_on="n_test",
        pilot=f"{TRIAL} had 3.6% to 6.0% on digits, 10% on MNIST",
        note="Of ten classes, a random one is wrong nine times out of ten: 18% of the training labels are wrong.",
    ),
    Exact(
        "pert-fits",
        "Every perfect random tree, and every average of them, fits all training labels, including wrong ones.",
        fits_all,
        PERT.theorem("construction"),
        "training error 0 for every number of trees in every run",
        "a tree grows until its leaves are pure",
        where={"family": "pert"},
        note="It cannot hold where equal inputs have different labels; these datasets have no such inputs.",
    ),
    Claim(
        "bagging-half",
        "An average of 100 bagged trees errs at most half as often as one tree on all examples.",
        share_of_whole,
        at_most(0.5, TIMES),
        OURS,
        "Breiman (1996) reports that bagging lowers the error of trees on each of his datasets",
        where={"family": "bagging", **CLEAN},
        pilot=f"{TRIAL} had 0.32 to 0.36 times on digits and MNIST",
    ),
    Claim(
        "margins-grow",
        "The smallest training margin of AdaBoost grows by at least 0.2 after the training error has reached 0.",
        margin_growth,
        at_least(0.2, PLAIN),
        SCHAPIRE.at("Figure 1"),
        "0.41 (from 0.14 in round 5, the first without training errors, to 0.55 in round 1,000)",
        0.41,
        where={"family": "boosting", **CLEAN},
        pilot=f"{TRIAL} had 0.5 and 0.6 on digits, 0.27 on MNIST",
        note="The published numbers, for C4.5 trees on letters, are quoted from memory. The threshold is half of them.",
    ),
    Claim(
        "boosting-falls",
        "The test error of AdaBoost falls by at least 2.5 points after the training error has reached 0.",
        error_fall,
        at_least(2.5, POINTS),
        SCHAPIRE.at("Figure 1"),
        "5.3 points (from 8.4% in round 5 to 3.1% in round 1,000)",
        5.3,
        where={"family": "boosting", **CLEAN},
        counted_on="n_test",
        pilot=f"{TRIAL} had 9 and 10 points on digits, 8 points on MNIST",
        note="The published numbers, for C4.5 trees on letters, are quoted from memory. The threshold is half of them.",
    ),
    Claim(
        "boosting-noise",
        "With 20% random labels, the test error falls by at least 2.5 points after every wrong label is fitted.",
        error_fall,
        at_least(2.5, POINTS),
        OURS,
        where={"family": "boosting", **NOISY},
        counted_on="n_test",
        pilot=f"{TRIAL} had 12 and 13 points on digits, 7 points on MNIST",
    ),
    Claim(
        "dropout-average",
        "An average of 100 masked networks errs at least a tenth less often than one of them.",
        share_left,
        at_most(0.9, TIMES),
        OURS,
        where={"family": "dropout", **CLEAN},
        pilot=f"{TRIAL} had 0.5 to 0.6 times on digits, 0.77 times on MNIST",
    ),
    Claim(
        "weight-scaling",
        "One pass with scaled weights is as good as the average of 100 masked networks, within 1 point.",
        scaling_gap,
        between(-1, 1, POINTS),
        SRIVASTAVA.at("Section 7.5"),
        "about 50 sampled networks reach the error of weight scaling on MNIST, more are slightly better",
        where={"family": "dropout", **CLEAN},
        counted_on="n_test",
        pilot=f"{TRIAL} had at most 0.25 points",
        note="The place in the paper is quoted from memory.",
    ),
    *(
        Claim(
            name,
            f"An average of five snapshots errs less than {rival}, on true labels.",
            effect,
            at_least(0, POINTS),
            HUANG.at("abstract"),
            "snapshot ensembles err less than single networks that train as long (CIFAR and others)",
            where={"family": "snapshots", **CLEAN},
            counted_on="n_test",
            pilot=f"{TRIAL} had {trial} points on digits",
        )
        for name, rival, effect, trial in (
            ("snapshots-last", "the last of them", gain_on_last, "0 to -0.3"),
            ("snapshots-run", "one long run with as many epochs", gain_on_run, "0.3 and -0.5"),
        )
    ),
    Claim(
        "snapshots-noise",
        "With 20% random labels, an average of five snapshots errs at least 3 points less than one long run.",
        gain_on_run,
        at_least(3, POINTS),
        OURS,
        where={"family": "snapshots", **NOISY},
        counted_on="n_test",
        pilot=f"{TRIAL} had 5 and 7 points, but the first snapshot alone, which has fitted few wrong labels, erred "
        "less than the average",
        note="Averaging is not the only cause: early snapshots are networks that stopped early.",
    ),
)


EXPERIMENT = Experiment(
    name="averaging",
    title="Averages of members that fit every label",
    about="Trees and networks that fit every training label, wrong ones included, differ from each other between the "
    "training examples. Their average still fits, but varies less, so it may err less than any member. This experiment "
    "compares one member with averages of many, for trees that vote and networks that average their probabilities.",
    papers=(PERT, BREIMAN, SCHAPIRE, SRIVASTAVA, HUANG),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=fit_sizes,
)
