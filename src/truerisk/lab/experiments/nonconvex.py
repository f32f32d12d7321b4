"""`nonconvex`: are networks hard to minimize? Three statements of a lecture, and the smallest network there is.

surface   w2 relu(w1 x) on the lecture's 30 points: its loss in closed form, and gradient descent from many starts;
          then sums of several such units
starts    one network from 16 random starts on the same examples: how far apart are the end losses, and how many
          starts reach a training error of 0, from narrow to wide
plane     seven optimizers leave the saddle x^2 - y^2 from several distances to its ridge
equal     a network whose hidden units are all equal: a saddle that descent leaves only if weights are noisy
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from truerisk.data import Data
from truerisk.lab.claim import OURS, AnyClaim, Checked, Claim, Exact, Paper
from truerisk.lab.effect import Above
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.nonconvex_runs import FAST, KINDS, WAYS
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.units import PERCENT, TIMES, at_least, at_most, between

SLIDES = Paper(
    "Ollion, Grisel",
    2021,
    "Learning with deep networks: expressivity, optimization and generalization",
    "lecture slides, 2021 or later",
)
DU = Paper("Du, Hu, Lee", 2018, "Algorithmic regularization in learning deep homogeneous models: layers are "
           "automatically balanced", "NeurIPS", arxiv="1806.00900")  # fmt: skip
NARROW, WIDE = 4, 128
NOISE = 0.01  # on the weights of hidden units that are otherwise equal


def task(setting: Setting) -> Record:
    """One run, of the kind that its setting names."""
    return KINDS[setting["kind"]](setting)


# ---- the grids -----------------------------------------------------------------------------------------------------


def _starts(
    how: Setting, cells: Sequence[tuple[str, str]], seeds: Sequence[int], widths: Sequence[int]
) -> list[Setting]:
    """All seeds where claims are judged, one elsewhere."""
    found = []
    for data, labels in cells:
        fixed = {"kind": "starts", "data": data, "labels": labels, **how}
        for width in widths:
            found += product({**fixed, "width": width}, seed=seeds if width in (NARROW, WIDE) else seeds[:1])
    return found


def _drawn(seeds: Sequence[int], starts: int, far: Sequence[float], steps: int) -> list[Setting]:
    """The parts that need no dataset."""
    surface = {"kind": "surface", "n": 30, "units": [1, 2, 4, 8, 16], "starts": starts, "scale": 0.5, "lr": 0.02,
               "steps": 1000}  # fmt: skip
    plane = {"kind": "plane", "offsets": list(far), "steps": min(200, steps)}
    fixed = {"kind": "equal", "n": 200, "steps": steps, "ways": list(WAYS)}
    return [
        *product(surface, seed=seeds),
        *product(plane, seed=seeds),
        *product({**fixed, "start": "equal"}, noise=(0.0, NOISE), seed=seeds),
        *product({**fixed, "start": "zero", "noise": 0.0}, seed=seeds[:1]),
    ]


FAR = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
WIDTHS = (2, 4, 8, 16, 32, 64, 128)


def smoke() -> list[Setting]:
    how = {"n": 60, "n_test": 10, "starts": 4, "epochs": 3, "batch": 20, "lr": 0.1}
    cells = [("digits", "true"), ("mnist1d", "random")]
    return [*_drawn([20], 100, (1e-1, 1e-3), 100), *_starts(how, cells, [20], (NARROW, WIDE))]


def quick() -> list[Setting]:
    how = {"n": 500, "n_test": 10, "starts": 16, "epochs": 100, "batch": 50, "lr": 0.4}
    cells = [("digits", "true"), ("mnist1d", "true"), ("mnist1d", "random")]
    return [*_drawn(range(20, 25), 2000, FAR, 6000), *_starts(how, cells, range(25, 30), WIDTHS)]


def medium() -> list[Setting]:
    how = {"n": 1000, "n_test": 10, "starts": 8, "epochs": 120, "batch": 50, "lr": 0.05}
    cells = [("mnist", "true"), ("fashion-mnist", "true")]
    return [*_drawn(range(20, 23), 2000, FAR, 6000), *_starts(how, cells, range(30, 33), WIDTHS)]


def paper() -> list[Setting]:
    """The lecture names no sizes: all of MNIST."""
    how = {"n": 60_000, "n_test": 10, "starts": 16, "epochs": 100, "batch": 50, "lr": 0.05}
    wide = (*WIDTHS, 512)
    return [*_drawn(range(20, 23), 2000, FAR, 6000), *_starts(how, [("mnist", "true")], range(30, 33), wide)]


def own_data(setting: Setting, data: Data) -> Setting | None:
    """The part about starts; the others draw their own points."""
    return fit_sizes(setting, data) if setting["kind"] == "starts" else None


def cost(setting: Setting) -> float:
    """Seconds, roughly."""
    if setting["kind"] != "starts":
        return {"surface": 0.5, "plane": 1.0, "equal": 1.5}[setting["kind"]]
    size = setting["n"] * setting["epochs"] / 30_000 * setting["starts"] / 16
    return size * (0.5 + setting["width"] / 200) * (4 if "mnist" in setting["data"] and setting["n"] > 1000 else 1)


# ---- the claims ----------------------------------------------------------------------------------------------------


def share_at_minimum(runs: Rows, units: int) -> float:
    """Of the starts, for a sum of so many units."""
    return float(runs.one("at_minimum")[runs.one("units").index(units)] / runs.one("starts"))


def spread(runs: Rows) -> float:
    """Standard deviation of the end losses over starts, as a share of the mean fall from the start."""
    return float(runs.where(width=WIDE).one("spread"))


def spread_ratio(runs: Rows) -> float:
    return float(runs.where(width=NARROW).one("spread") / runs.where(width=WIDE).one("spread"))


def fitted(runs: Rows, width: int) -> float:
    """The share of starts that end without a training error."""
    return float(runs.where(width=width).one("fitted"))


NEAR = 1e-3  # distance to the ridge at which optimizers are compared


def sooner(runs: Rows, slow: str, quick_one: str) -> float:
    """Steps of one optimizer over those of another until the saddle x^2 - y^2 is left, from a thousandth away."""
    left, at = runs.one("left"), runs.one("offsets").index(NEAR)
    return float(left[slow][at] / left[quick_one][at])


def far_over_near(runs: Rows, name: str) -> float:
    """Steps from the smallest distance to the ridge over those from a thousandth."""
    left, at = runs.one("left")[name], runs.one("offsets").index(NEAR)
    return float(left[-1] / left[at])


def units_sooner(runs: Rows, slow: str, quick_one: str) -> float | Above:
    """The same ratio for a network whose units begin almost equal; a run that stays may stay longer."""
    left, most = runs.one("left"), runs.one("steps")
    if left[quick_one] is None:
        raise IncompleteError(f"{quick_one} has not left the saddle in {most} steps")
    return Above(most / left[quick_one]) if left[slow] is None else float(left[slow] / left[quick_one])


def closed_form(rows: Rows) -> Checked:
    """Every end of gradient descent against the formula for the minimum, the plateau, and which start ends where."""
    total = sum(rows.column("starts"))
    foretold, elsewhere = sum(rows.column("foretold")), sum(map(sum, rows.column("elsewhere")))
    first = rows.complete()[0]
    known = [round(first[name], 4) for name in ("product", "minimum", "plateau")]
    numbers = first["n"] != 30 or known == [1.9487, 0.2094, 5.6855]
    return Checked(foretold == total and elsewhere == 0 and numbers, f"{foretold:,} of {total:,} starts end where the "
                   f"formula says, {elsewhere} of all between minimum and plateau; valley w1 w2 = {known[0]:g}, "
                   f"minimum {known[1]:g}, plateau {known[2]:g}")  # fmt: skip


def descent_formula(rows: Rows) -> Checked:
    pairs = [(run["left"]["gradient descent"], run["closed_form"]) for run in rows.complete("steps")]
    right = sum(a == b for left, exact in pairs for a, b in zip(left, exact, strict=True))
    total = sum(len(exact) for _, exact in pairs)
    return Checked(right == total, f"{right} of {total} counts of steps are those of the formula")


def never_leaves(rows: Rows) -> Checked:
    """Units that begin equal are equal to the last bit; weights that begin at 0 are 0."""
    equal, zero = ([run for run in rows.complete("units") if run["start"] == kind] for kind in ("equal", "zero"))
    apart = max((max(gaps) for run in (*equal, *zero) for gaps in run["apart"].values()), default=0.0)
    largest = max((size for run in zero for size in run["largest"].values()), default=0.0)
    count = sum(len(run["ways"]) for run in (*equal, *zero))
    return Checked(apart == 0 and largest == 0, f"largest difference of two units in {count} trainings: {apart:g}, "
                   f"largest weight after a start at 0: {largest:g}")  # fmt: skip


STARTS, PLANE = {"kind": "starts", "width": [NARROW, WIDE]}, {"kind": "plane"}
CELLS, NOISY = ("data", "labels"), {"kind": "equal", "start": "equal", "noise": NOISE}
TRIAL = "trials with seeds below 20"
FIRST = (
    "At first, with 60 epochs at rate 0.1 and seeds 20 to 24, training ended before networks of 128 units had fitted "
    "MNIST-1D. This is a second commitment, with more and larger steps and new seeds."
)
SIMILAR = "different random seeds yield similar final training losses (no number)"
EVADE = "SGD with momentum seems to evade saddles quite easily (no number)"
CLAIMS: tuple[AnyClaim, ...] = (
    Exact("closed-form", "Every start of the two-weight network ends in the valley or on the plateau, as foretold.",
          closed_form, DU.theorem("Theorem 2.1"), "all starts, and valley, minimum, and plateau of the lecture's data",
          "w1^2 - w2^2 is conserved by gradient flow; which start reaches the valley follows", {"kind": "surface"},
          note="The theorem's number is quoted from memory. The lecture's listing does not run as printed; the numbers "
               "are those of its data."),
    Claim("three-eighths", "Of random starts of one unit, 3/8 reach the minimum; the others die.",
          partial(share_at_minimum, units=1), between(35, 40, PERCENT), OURS, where={"kind": "surface"},
          counted_on="starts", pilot=f"{TRIAL} had 38.1% and 37.9%",
          note="Gradient flow reaches the minimum if w1 > 0 and w1 > -w2: three of eight equal angles, 37.5%."),
    Claim("units-help", "Of random starts of eight units, at least 95% reach the minimum.",
          partial(share_at_minimum, units=8), at_least(95, PERCENT), OURS, "when wide enough, training error can often "
          "reach zero: no bad local minima", where={"kind": "surface"}, counted_on="starts",
          pilot=f"{TRIAL} had 97.3% and 97.6%",
          note="If units died independently, (5/8)^8 = 2.3% of starts would die."),
    Claim("similar-ends", "At 128 units, end losses over starts differ by at most 5% of the fall of the loss.", spread,
          at_most(5, PERCENT), SLIDES.at("non-convex optimization"), SIMILAR, every=CELLS, where=STARTS,
          counted_on=10_000, pilot=f"{TRIAL} had 0.001% to 0.01%; seeds 20 to 24, with fewer steps, 1.4%",
          note=f"{FIRST} The spread is a standard deviation, not a share of examples, taken to be known to 0.01%."),
    Claim("narrow-ends", "At 4 units, end losses differ at least 10 times as much as at 128.", spread_ratio,
          at_least(10, TIMES), OURS, every=CELLS, where=STARTS,
          pilot=f"{TRIAL} had 1,000 times and more; seeds 20 to 24, with fewer steps, 5.7 times", note=FIRST),
    Claim("wide-fits", "At 128 units, most starts reach a training error of 0.", partial(fitted, width=WIDE),
          at_least(75, PERCENT), SLIDES.at("non-convex optimization"), "when wide enough, training error can often "
          "reach zero (no number)", every=CELLS, where=STARTS, counted_on="starts",
          pilot=f"{TRIAL} had 100%; seeds 20 to 24, with fewer steps, 0% on MNIST-1D", note=FIRST),
    Claim("narrow-fails", "At 4 units, few starts reach a training error of 0.", partial(fitted, width=NARROW),
          at_most(25, PERCENT), OURS, every=CELLS, where=STARTS, counted_on="starts", pilot=f"{TRIAL} had 0%"),
    Exact("descent-formula", "Gradient descent leaves the saddle after exactly as many steps as its formula says.",
          descent_formula, OURS, "the smallest k with |y| (1 + 2 rate)^k > 1, in every run", where=PLANE),
    Claim("momentum-leaves", "Near the ridge, momentum leaves the saddle in at most half the steps.",
          partial(sooner, slow="gradient descent", quick_one="momentum"), at_least(2, TIMES),
          SLIDES.at("non-convex optimization"), EVADE, where=PLANE, pilot=f"{TRIAL} had 2.7 times"),
    Claim("rate-leaves", "Gradient descent at ten times the rate leaves at least as soon as momentum.",
          partial(sooner, slow="momentum", quick_one=FAST), at_least(1, TIMES), OURS, where=PLANE,
          pilot=f"{TRIAL} had 2.5 times", note="Momentum 0.9 amounts to ten times the rate in the long run."),
    Claim("adam-ignores-distance", "Adam needs hardly more steps from a millionth away than from a thousandth.",
          partial(far_over_near, name="Adam"), at_most(1.2, TIMES), OURS, where=PLANE, pilot=f"{TRIAL} had 1.0 times",
          note="Gradient descent needs about twice as many: its steps grow with the logarithm of the distance."),
    Exact("equal-units", "Equal hidden units stay equal to the last bit, and weights at 0 stay at 0.", never_leaves,
          OURS, "a difference of 0 in every training, with full batches, momentum, and mini-batches",
          where={"kind": "equal", "noise": 0.0},
          note="Mini-batches do not help: each gradient, of whatever examples, treats equal units alike."),
    Claim("units-momentum",
          "With noise of 0.01 on equal units, momentum leaves their saddle in at most half the steps.",
          partial(units_sooner, slow="gradient descent", quick_one="momentum"), at_least(2, TIMES),
          SLIDES.at("non-convex optimization"), EVADE, where=NOISY, pilot=f"{TRIAL} had 2.9 to 7.4 times or more"),
    Claim("units-rate", "Ten times the rate leaves the saddle of equal units at least as soon as momentum.",
          partial(units_sooner, slow="momentum", quick_one=FAST), at_least(1, TIMES), OURS, where=NOISY,
          pilot=f"{TRIAL} had 1.1 to 2.8 times"),
)  # fmt: skip


EXPERIMENT = Experiment(
    name="nonconvex",
    title="Are networks hard to minimize?",
    about="The loss of a network is not convex: it has plateaus, saddles, and whole valleys of equal minima. Nothing "
    "guarantees that training finds a good one, and yet it usually does. This experiment draws the smallest such loss, "
    "counts which starts succeed from narrow to wide, and times how optimizers leave saddles.",
    papers=(SLIDES, DU),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
