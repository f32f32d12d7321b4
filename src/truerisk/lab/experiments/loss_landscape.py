"""`loss-landscape`: what does a picture of the loss show? (Li, Xu, Taylor, Studer, and Goldstein 2018.)

Networks of 22 thin layers with batch norm, with and without skips and alike in all else, are trained to the same
training loss. Their loss is computed on random planes through the weights, along filter-normalized directions as in the
published code (biases and batch norms do not move; batch norms use their stored statistics). Then each network is
rescaled: what enters each channel is multiplied by a random factor, what leaves it is divided by it. The twin computes
the same function. Its surface is computed along directions from the same random numbers.

Two numbers describe a surface on the published window [-1, 1]^2: the share of its points that are not convex (smallest
curvature in the plane negative, and at least a tenth of the largest in size), and the distance from the network at
which the loss doubles (median over eight rays).

Runs with the view "numbers" are judged; of twins they have distances alone, because a twin is too steep for a coarse
grid: its share of points that are not convex depends on the grid. One pair of runs with the view "picture" has a finer
grid, and runs with the view "depth" have fewer blocks. Not as published: dense layers on digits at quick scale, thin
convolutions on MNIST at medium scale, training that stops at a loss instead of after 300 epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean

from truerisk.data import Data
from truerisk.lab.claim import OURS, Checked, Claim, Exact, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.landscape_runs import column, run_landscape, spread
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.units import PLAIN, POINTS, TIMES, at_least

LI = Paper(
    "Li, Xu, Taylor, Studer, Goldstein", 2018, "Visualizing the loss landscape of neural nets", "NeurIPS",
    arxiv="1712.09913",
)  # fmt: skip
TOLERANCE = 1e-8  # relative difference in float64 that rounding explains
SKIPS = (True, False)


def task(setting: Setting) -> Record:
    """One network: its training, its surfaces, and those of its twin."""
    return run_landscape(setting)


# ---- the grids -----------------------------------------------------------------------------------------------------


def _grid(
    how: Setting, seeds: Sequence[int], planes: int, size: int, fine: int, shallow: Sequence[int]
) -> list[Setting]:
    judged = {**how, "view": "numbers", "planes": planes, "size": size, "points": planes * (size - 2) ** 2}
    picture = {**how, "view": "picture", "planes": 1, "size": fine, "points": (fine - 2) ** 2}
    depth = {**judged, "view": "depth", "std": 0.0}
    found = product(judged, skips=SKIPS, seed=seeds)
    found += [{**picture, "std": how["std"] if skips else 0.0, "skips": skips, "seed": seeds[0]} for skips in SKIPS]
    return found + [
        {**setting, "blocks": blocks} for blocks in shallow for setting in product(depth, skips=SKIPS, seed=seeds[:1])
    ]


DIGITS = {"data": "digits", "n": 1000, "n_test": 500, "blocks": 10, "width": 32, "layers": "dense", "std": 1.0}


def smoke() -> list[Setting]:
    how = {**DIGITS, "n": 200, "n_test": 100, "blocks": 3, "width": 8, "rows": 50, "every": 5}
    return _grid({**how, "target": 1.0, "steps": 60}, [20], 2, 5, 7, (1,))


def quick() -> list[Setting]:
    how = {**DIGITS, "rows": 200, "every": 4, "target": 0.2, "steps": 2500}
    return _grid(how, range(20, 25), 3, 13, 25, (1, 3, 6))


def medium() -> list[Setting]:
    how = {**DIGITS, "data": "mnist", "n": 2000, "n_test": 2000, "width": 8, "layers": "convolutional"}
    return _grid({**how, "rows": 200, "every": 5, "target": 0.2, "steps": 1000}, range(20, 23), 2, 11, 21, ())


def paper() -> list[Setting]:
    """56 layers on CIFAR-10, and the published grid of 51 x 51 points."""
    how = {**DIGITS, "data": "cifar-10", "n": 50_000, "n_test": 10_000, "width": 16, "layers": "convolutional"}
    how |= {"blocks": 27, "rows": 2000, "every": 500, "target": 0.1, "steps": 150_000, "threads": 4}
    return _grid(how, range(20, 23), 3, 51, 51, (4, 9))


def own_data(setting: Setting, data: Data) -> Setting | None:
    """Dense networks; three seeds, and as many examples as there are."""
    if setting["seed"] > 22:
        return None
    fitted = fit_sizes({**setting, "layers": "dense"}, data)
    return {**fitted, "rows": min(setting["rows"], fitted["n"])}


def cost(setting: Setting) -> float:
    points = setting["planes"] * (setting["size"] ** 2 + 80) * (2 if setting["std"] else 1)
    return setting["blocks"] * (points + (300 if setting["skips"] else 2500)) / 1000


# ---- the claims ----------------------------------------------------------------------------------------------------


def of(runs: Rows, skips: bool, which: str, name: str) -> list[float]:
    """A number of every plane of one network, or of its twin; a network that missed its target loss is refused."""
    row = runs.where(skips=skips)
    if not row.one("reached"):
        raise IncompleteError(f"a network did not reach its training loss of {row.one('target'):g}")
    return column(row.one(which), name)


def rougher_without(runs: Rows) -> float:
    return fmean(of(runs, False, "network", "nonconvex")) - fmean(of(runs, True, "network", "nonconvex"))


def flatter_with(runs: Rows) -> float:
    return fmean(of(runs, True, "network", "doubling")) / fmean(of(runs, False, "network", "doubling"))


def sharper_twin(runs: Rows) -> float:
    skips = bool(runs.one("skips"))
    return fmean(of(runs, skips, "network", "doubling")) / fmean(of(runs, skips, "twin", "doubling"))


def sharper_than_other(runs: Rows) -> float:
    """Doubling distance of the network without skips over that of the twin of the network with skips."""
    return fmean(of(runs, False, "network", "doubling")) / fmean(of(runs, True, "twin", "doubling"))


def apart(runs: Rows) -> float:
    """Difference between the means of two networks over the standard deviation between planes of one network."""
    own = [of(runs, skips, "network", "nonconvex") for skips in SKIPS]
    pooled = (fmean([spread(values) ** 2 for values in own])) ** 0.5
    return (fmean(own[1]) - fmean(own[0])) / max(pooled, 1 / runs.present[0]["points"])


def unchanged(rows: Rows, names: tuple[str, ...]) -> Checked:
    largest = max(float(row[name]) for row in rows.complete() for name in names)
    return Checked(largest <= TOLERANCE, f"largest relative difference {largest:.1g} in {len(rows)} networks")


NUMBERS = {"view": ["numbers"]}
TRIAL = "A trial with seeds 0 to 4 on digits"
CLAIMS = (
    Claim(
        "skips-smooth",
        "At the same training loss, more of the surface is not convex without skips than with them.",
        rougher_without,
        at_least(0, POINTS),
        LI.at("Figure 1"),
        "without skips a 56-layer network has a chaotic surface, with them a nearly convex one (no number)",
        where=NUMBERS,
        counted_on="points",
        note="The share of points that are not convex is our number for the pictures; the figure is cited from memory.",
    ),
    Claim(
        "skips-flatten",
        "At the same training loss, the loss doubles at a larger distance with skips than without.",
        flatter_with,
        at_least(1, TIMES),
        LI.at("abstract and Figure 1"),
        "skips promote flat minimizers (no number)",
        where=NUMBERS,
        note="Distances are relative to the norms of filters, as in the paper.",
    ),
    Claim(
        "planes-agree",
        "With and without skips, the share of points that are not convex differs by 2 standard deviations over planes.",
        apart,
        at_least(2, PLAIN),
        OURS,
        where=NUMBERS,
        pilot=f"{TRIAL} saw differences of about 50 points, and 2 to 6 points between planes of one network.",
        note="With so large an effect, one random plane tells these two networks apart.",
    ),
    Exact(
        "same-function",
        "The rescaled twin computes the same function: outputs and predicted labels do not change.",
        partial(unchanged, names=("outputs_change", "labels_change")),
        OURS,
        f"outputs change by at most {TOLERANCE:g} of the largest, in float64",
        where=NUMBERS,
    ),
    Claim(
        "twin-looks-sharper",
        "On filter-normalized planes the loss of the twin doubles at half the distance or less: the same function.",
        sharper_twin,
        at_least(2, TIMES),
        OURS,
        every=("skips",),
        where=NUMBERS,
        pilot=f"{TRIAL} saw 2.8 to 9 times.",
    ),
    Claim(
        "twin-reverses-order",
        "Rescaled, the network with skips looks sharper than the one without: its loss doubles at a smaller distance.",
        sharper_than_other,
        at_least(1, TIMES),
        OURS,
        where=NUMBERS,
        pilot=f"{TRIAL} saw 1.5 to 4 times.",
        note="At a factor of 1, the twin's loss doubles at the same distance as that of the network without skips.",
    ),
    Exact(
        "layers-keep-filter",
        "Rescaling whole layers, without changing the function, leaves filter-normalized surfaces unchanged.",
        partial(unchanged, names=("layers_filter",)),
        LI.theorem("Section 4"),
        f"losses differ by at most {TOLERANCE:g}, relatively, in float64",
        "filter normalization removes the scale of the weights (no theorem number; cited from memory)",
        where=NUMBERS,
    ),
    Exact(
        "units-keep-elementwise",
        "Along directions in proportion to each weight, the surfaces of network and twin are the same.",
        partial(unchanged, names=("units_elementwise",)),
        OURS,
        f"losses differ by at most {TOLERANCE:g}, relatively, in float64",
        where=NUMBERS,
    ),
)


EXPERIMENT = Experiment(
    name="loss-landscape",
    title="What does a picture of the loss show?",
    about=(
        "Pictures of the loss around a trained network are shown as reasons why networks with skip connections train "
        "and generalize well: their surfaces look smooth, those without skips look rough. This experiment repeats the "
        "pictures at the same training loss and puts numbers on them. Then it rescales the weights without changing "
        "the function: a property of the picture that changes is not a property of the function."
    ),
    papers=(LI,),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
