"""How much does rescaling lower PAC-Bayes bounds? (Rouchouse, Gonon, Gribonval, and Guedj 2025).

Multiply the weights that enter a hidden unit by a number and divide those that leave it by the same: the function is
unchanged, the KL between posterior and prior is not. How much does the best rescaling lower a bound, and how does that
compare with a tuned prior scale, and with a trained posterior? Each run has four columns: original, tuned prior scale
(delta is split over the scales), rescaled, and both.

At paper scale, the runs are the paper's ten fully connected networks on MNIST and a convolutional one on CIFAR-10 at
the paper's pairs of standard deviations, by two recipes (`truerisk.lab.rescaling.settings`): ``stated`` fills the gaps
of the text with torch's defaults, and verdicts rest on it; ``inferred`` was fitted to the published figure. At quick
scale, the data are digits: they say nothing about MNIST, but show what a bound does when nothing but the weights'
scales change.
"""

from __future__ import annotations

from functools import partial

from truerisk.lab.claim import OURS, Checked, Claim, Exact, Paper
from truerisk.lab.experiment import Experiment, Setting
from truerisk.lab.rescaling import task
from truerisk.lab.rescaling.published import ARCHITECTURES, BEFORE_AFTER
from truerisk.lab.rescaling.settings import SPREADS, STORED, TWINS, cost, noise, published, recipes, trained
from truerisk.lab.rows import Rows
from truerisk.lab.units import PLAIN, TIMES, at_least, at_most, between

QUESTION = "Non-vacuous generalization bounds: can rescaling invariances help?"
ROUCHOUSE = Paper("Rouchouse, Gonon, Gribonval, Guedj", 2025, QUESTION, arxiv="2509.26149")
LANGFORD = Paper("Langford, Caruana", 2001, "(Not) bounding the true error", "NeurIPS")

# ---- the grids -----------------------------------------------------------------------------------------------------

FEW = ("512", "128-128-128", "64-32", "32")  # networks at quick scale


def smoke() -> list[Setting]:
    how = {"data": "digits", "n": 200, "n_test": 100}
    short = {**how, "training": {"epochs": 8, "batch_size": 50}}
    older = {**how, "batch_size": 50, "fit_lr": 0.01, "passes": 1}
    few = ["64-32", "32-64-128", "32"]
    found = recipes(few, 4, [20], {**short, "spreads": [1, 4], "twins": 1})
    found += trained(few, 4, [20], [(8, 4)] * 3, older)
    return found + noise("vgg:4-4-8-8", [20], {**short, "training": {"epochs": 4, "augment": "shift:1"}})


def quick() -> list[Setting]:
    """Four architectures with a quarter of the widths, on digits: random twins, and trained posteriors."""
    how = {"data": "digits", "n": 1500, "n_test": 297}
    seeds, training = range(30, 35), {"epochs": 60, "batch_size": 50}
    twins = recipes(FEW, 4, seeds, {**how, "training": training, "spreads": list(SPREADS), "twins": TWINS}, ["stated"])
    return twins + trained(FEW, 4, seeds, [(60, 60)] * 3, {**how, "batch_size": 50, "fit_lr": 0.01, "passes": 1})


def medium() -> list[Setting]:
    """The first seed of `paper`, for the figures; one seed settles no claim."""
    return published([20], [23], STORED[:1])


def paper() -> list[Setting]:
    return published([20, 21, 22], [23, 24, 25], STORED)


# ---- effects -------------------------------------------------------------------------------------------------------


def value(runs: Rows, of: str) -> float:
    """A field of the run: an effect in itself, where the claim is about its size."""
    return float(runs.one(of))


def ratio(runs: Rows, of: str, to: str) -> float:
    """One field of the run divided by another."""
    return float(runs.one(of) / runs.one(to))


def largest_kl_ratio(runs: Rows) -> float:
    """The KL before rescaling divided by that after it, for the network where this is largest."""
    return float(max(a / b for a, b in zip(runs.column("original_kl"), runs.column("rescaled_kl"), strict=True)))


def smallest_bound_ratio(runs: Rows) -> float:
    """The bound after rescaling divided by that before it, for the network where this is smallest."""
    after, before = runs.column("rescaled_mcallester"), runs.column("original_mcallester")
    return float(min(a / b for a, b in zip(after, before, strict=True)))


def crossing(runs: Rows) -> dict[str, float]:
    """How far the bound lies from 1 on the right side: above before rescaling, below after it."""
    return {"before": runs.one("original_mcallester") - 1, "after": 1 - runs.one("rescaled_mcallester")}


def noise_ratios(runs: Rows) -> dict[str, float]:
    """The bound after rescaling divided by that before it, for each pair of standard deviations."""
    after, before = runs.one("rescaled_mcallester"), runs.one("original_mcallester")
    return {name: a / b for name, a, b in zip(runs.one("noise"), after, before, strict=True)}


def distance(runs: Rows, column: str) -> float:
    """Our McAllester bound minus the published one: before rescaling (original) or after (rescaled)."""
    known = BEFORE_AFTER[runs.one("row")][column == "rescaled"]
    return float(runs.one(f"{column}_mcallester") - known)


def tuned_minus_rescaled(runs: Rows) -> float:
    return float(runs.one("tuned_mcallester") - runs.one("rescaled_mcallester"))


def trained_below(runs: Rows) -> float:
    """By how much the trained posterior's bound, not rescaled, lies below the rescaled bound of the recipe."""
    mine = runs.where(posterior="trained").one("original_mcallester")
    return float(runs.where(posterior="stated").one("rescaled_mcallester") - mine)


def explosion(runs: Rows) -> float:
    """The mean bound of the twins with the largest random factors, as they are, divided by the network's own."""
    spreads, bounds = runs.one("twin_spread"), runs.one("twin_raw")
    wild = [bound for spread, bound in zip(spreads, bounds, strict=True) if spread == max(spreads)]
    return float(sum(wild) / len(wild) / runs.one("original_mcallester"))


def stand_still(runs: Rows) -> Checked:
    """How far the bounds of twins after their best rescaling lie from that of their network, at most."""
    apart = max(
        abs(bound / row["rescaled_mcallester"] - 1) for row in runs.complete("twins") for bound in row["twin_tightened"]
    )
    moved = max(max(row["twin_moved"]) for row in runs.complete("twins"))
    return Checked(
        apart <= STILL and moved <= STILL, f"bounds differ by at most {apart:.1g}, outputs by {moved:.1g} (relative)"
    )


# ---- claims --------------------------------------------------------------------------------------------------------

STILL = 1e-8  # relative: the solver's tolerance is 1e-10 of the KL
STATED = {"part": "architectures", "posterior": "stated"}
FITTED = {"part": "architectures", "posterior": "inferred"}
TRAINED = {"part": "architectures", "posterior": "trained"}
TURNED = [name for name, (before, after, _) in ARCHITECTURES.items() if after < 1 <= before]
LEFT = ROUCHOUSE.at("left figure")
GAPS = (
    "The text leaves training and noise open. Torch's defaults fill the first gap; the posterior's noise, 1/44 of the "
    "prior's, was read off the published bounds before rescaling."
)
FIT = "The recipe was chosen after seeing the published bounds, so agreement is a fit."
CLAIMS = (
    Claim(
        "kl-up-to-five", "Rescaling divides the KL by up to five (the largest factor among ten networks).",
        largest_kl_ratio, at_least(4.5, TIMES), LEFT, published="2.3 to 5.6, computed from the published bounds",
        published_at=5.6, where=STATED, scales=("paper",), note=f"4.5 rounds to five. {GAPS}",
    ),
    Claim(
        "bounds-up-to-half", "Rescaling halves bounds (the largest reduction among ten networks).",
        smallest_bound_ratio, at_most(0.5, TIMES), LEFT, published="bounds 33% to 57% lower", published_at=0.43,
        where=STATED, scales=("paper",), note=GAPS,
    ),
    Claim(
        "vacuous-to-non-vacuous", "Three networks have a vacuous bound before rescaling, a non-vacuous one after it.",
        crossing, at_least(0, PLAIN), LEFT,
        published="64-32-16-8-4: 1.26 to 0.66; 32-64-128: 1.05 to 0.69; 64-32: 1.24 to 0.60", published_at=(0.05, 0.4),
        every=("row",), where={**STATED, "row": TURNED}, scales=("paper",),
        note=f"The number is the distance of the bound to 1, on the side where it must lie. {GAPS}",
    ),
    Exact(
        "twins-stand-still", "After the best rescaling, all twins of a network have the same bound.", stand_still,
        ROUCHOUSE.theorem("Equation 1"), "relative differences of at most 1e-8", published="equal bounds", where=STATED,
        scales=("quick",),
        note="The least KL over all rescalings of the prior cannot depend on which twin it starts from.",
    ),
    Claim(
        "twins-explode", "Random factors of a typical size of 16 multiply the bound by at least five.",
        explosion, at_least(5, TIMES), OURS, every=("row",), where=STATED, scales=("quick",),
        pilot="twins of one network on an earlier form of this page",
    ),
    Claim(
        "lowers-convolutional", "Rescaling lowers the bound of a convolutional network at all six noise levels.",
        noise_ratios, at_most(0.995, TIMES), OURS, published="bounds 1% to 45% lower", published_at=(0.545, 0.99),
        where={"part": "noise"}, scales=("paper",),
        note="The threshold is half of the smallest published gain. The size of the network was fitted to the figure.",
    ),
    Claim(
        "fits-before", "A recipe fitted to the figure gives the published bounds before rescaling.",
        partial(distance, column="original"), between(-0.15, 0.15, PLAIN), OURS, published="0.87 to 6.46",
        every=("row",), where=FITTED, scales=("paper",), pilot="one seed of six of these networks", note=FIT,
    ),
    Claim(
        "fits-after", "A recipe fitted to the figure gives the published bounds after rescaling.",
        partial(distance, column="rescaled"), between(-0.15, 0.15, PLAIN), OURS, published="0.46 to 3.15",
        every=("row",), where=FITTED, scales=("paper",), pilot="one seed of six of these networks", note=FIT,
    ),
    Claim(
        "tuned-scale-matches", "A tuned prior scale, covered by delta, lowers the bound as much as rescaling does.",
        tuned_minus_rescaled, at_most(0.02, PLAIN), OURS, every=("row",), where=STATED, scales=("quick", "paper"),
        note="A reviewers' question. 0.02 is how exactly the published plot can be read.",
    ),
    Claim(
        "on-top-of-tuned", "With a tuned prior scale, rescaling lowers the KL by at most 26%.",
        partial(ratio, of="both_kl", to="tuned_kl"), at_least(0.74, TIMES), OURS, every=("row",), where=STATED,
        scales=("quick", "paper"), pilot="random weights, where rescaling lowered such KLs by 0% to 26%",
    ),
    Claim(
        "trained-non-vacuous", "Trained posteriors have non-vacuous bounds, without rescaling.",
        partial(value, of="original_mcallester"), at_most(1, PLAIN), OURS, every=("row",), where=TRAINED,
        scales=("quick",),
    ),
    Claim(
        "trained-under-half", "On all of MNIST the PAC-Bayes-kl bounds of trained posteriors are at most one half.",
        partial(value, of="original_kl_form"), at_most(0.5, PLAIN), OURS, every=("row",), where=TRAINED,
        scales=("paper",), pilot="one run on MNIST: 0.34 for two hidden layers of 600 units",
    ),
    Claim(
        "trained-gain-little", "Rescaling lowers the KL of a trained posterior by at most 1%.",
        partial(ratio, of="rescaled_kl", to="original_kl"), at_least(0.99, TIMES), OURS, every=("row",), where=TRAINED,
        scales=("quick",), pilot="earlier certificates of truerisk, whose KL rescaling lowered by less than 1%",
    ),
    Claim(
        "training-beats-rescaling", "A trained posterior has a lower bound than the paper's recipe with rescaling.",
        trained_below, at_least(0, PLAIN), OURS, every=("row",),
        where={"part": "architectures", "posterior": ["stated", "trained"]}, scales=("quick",),
    ),
)  # fmt: skip

EXPERIMENT = Experiment(
    name="rescaling-bounds",
    title="How much does rescaling lower PAC-Bayes bounds?",
    about=(
        "Multiply the weights into a hidden unit by a number, divide those out of it by the same number: the network "
        "computes the same function, but its PAC-Bayes bound changes. Rouchouse and others asked in 2025 how much the "
        "best rescaling lowers the bounds of ten networks on MNIST and of a convolutional one on CIFAR-10. At quick "
        "scale this page shows small networks on digits; verdicts on the paper's claims need its data and sizes "
        "(scale paper)."
    ),
    papers=(ROUCHOUSE, LANGFORD),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    # Of stored runs on MNIST: with trained posteriors, and before a repair of how convolutional networks are trained.
    same=("1-862425d51a6009a9", "1-42f18a1ae413173c"),
)
