"""`batch-size`: do large batches end in sharp minima that err more? (Keskar et al. 2017, Dinh et al. 2017.)

Three kinds of run:

    batches   the same network from the same initial weights with a small, a middle, and a large batch (10% of the
              examples, as published), for a fixed number of epochs or until a training loss is reached, and with one
              rate for all batches or a rate in proportion to the batch. Keskar sharpness depends on the scale of the
              weights, adaptive sharpness does not. Losses on the line through both networks are recorded.
    copies    the training set once, twice, and four times: examples that enter gradients until a loss is reached
    twins     one network with its first layer multiplied by a factor and its second divided by it: the same function

Fully connected networks train by SGD with momentum. At medium and paper scale, a convolutional network with batch norm
trains by Adam on CIFAR-10, as published.
"""

from __future__ import annotations

from collections.abc import Sequence

from truerisk.data import Data
from truerisk.lab.batch_runs import KINDS
from truerisk.lab.claim import OURS, AnyClaim, Checked, Claim, Exact, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.rows import Rows
from truerisk.lab.units import POINTS, TIMES, at_least, between
from truerisk.training.loop import DivergedError

KESKAR = Paper(
    "Keskar, Mudigere, Nocedal, Smelyanskiy, Tang",
    2017,
    "On large-batch training for deep learning: generalization gap and sharp minima",
    "ICLR",
    arxiv="1609.04836",
)
DINH = Paper("Dinh, Pascanu, Bengio, Bengio", 2017, "Sharp minima can generalize for deep nets", "ICML",
             arxiv="1703.04933")  # fmt: skip
GOYAL = Paper("Goyal, Dollar, Girshick, Noordhuis, Wesolowski, Kyrola, Tulloch, Jia, He", 2017,
              "Accurate, large minibatch SGD: training ImageNet in 1 hour", arxiv="1706.02677")  # fmt: skip
SLIDES = Paper("Ollion, Grisel", 2021, "Learning with deep networks: expressivity, optimization and generalization",
               "lecture slides, 2021 or later")  # fmt: skip
FACTORS = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
ROUNDING = 1e-6  # relative difference of sharpness that float64 explains


def task(setting: Setting) -> Record:
    """One run, of the kind that its setting names."""
    try:
        return KINDS[setting["kind"]](setting)
    except DivergedError:
        return {"diverged": True}


# ---- the grids -----------------------------------------------------------------------------------------------------

WAYS = (("epochs", "same"), ("loss", "same"), ("loss", "scaled"))  # when training stops, and the rate of large batches


def _mlps(how: Setting, epochs: int, most: int, seeds: Sequence[int]) -> list[Setting]:
    fixed = {"kind": "batches", "net": "mlp", "hidden": [64, 64], **how}
    found = []
    for stop, rate in WAYS:
        until = {"target": None, "epochs": epochs} if stop == "epochs" else {"target": 0.02, "epochs": most}
        found += product({**fixed, "stop": stop, "rate": rate, **until}, seed=seeds)
    return found


def _rest(how: Setting, seeds: Sequence[int], epochs: int, factors: Sequence[float] = FACTORS) -> list[Setting]:
    """Copies and twins."""
    fixed = {"kind": "copies", "hidden": [64], "copies": [1, 2, 4], "target": 0.1, "epochs": 2000, **how}
    full = product({**fixed, "batch": None, "lr": 0.5}, seed=seeds)
    some = product({**fixed, "batch": 10, "lr": 0.05}, seed=seeds)
    twins = {"kind": "twins", "hidden": [64, 64], "batch": 10, "lr": 0.01, "epochs": epochs, **how}
    return full + some + product({**twins, "factors": list(factors)}, seed=seeds)


def smoke() -> list[Setting]:
    how = {"data": "digits", "n": 120, "n_test": 100}
    return [
        *_mlps({**how, "batches": [6, 20, 60], "lr": 0.02}, 4, 600, [20]),
        *product({**how, "kind": "batches", "net": "convnet", "stop": "epochs", "rate": "same", "batches": [20, 60],
                  "target": None, "epochs": 1, "lr": 1e-3}, seed=[20]),
        *_rest({**how, "target": 1.0}, [20], 10, [0.1, 1.0, 10.0]),
    ]  # fmt: skip


def quick() -> list[Setting]:
    seeds, sizes = range(20, 25), {"n": 1000, "batches": [10, 30, 100], "lr": 0.01}
    return [
        *_mlps({"data": "digits", "n_test": 797, **sizes}, 60, 1500, seeds),
        *_mlps({"data": "mnist1d", "n_test": 2000, **sizes}, 60, 2500, seeds),
        *_rest({"data": "digits", "n": 1000, "n_test": 797}, seeds, 20),
    ]


def medium() -> list[Setting]:
    """As many steps per epoch as published, on a tenth of the images: 200 of small batches, 10 of large ones."""
    seeds, mnist = range(20, 23), {"data": "mnist", "n": 5000, "n_test": 5000}
    cifar = {"data": "cifar-10", "n": 5000, "n_test": 5000, "batches": [25, 500], "epochs": 40}
    return [*_mlps({**mnist, "batches": [25, 100, 500], "lr": 0.005}, 40, 3000, seeds), *_convnets(cifar, seeds),
            *_rest({**mnist, "n": 2000}, seeds, 20)]  # fmt: skip


def paper() -> list[Setting]:
    """The published sizes and batches; the convolutional network is smaller than the published ones."""
    seeds, mnist = range(20, 23), {"data": "mnist", "n": 60_000, "n_test": 10_000}
    cifar = {"data": "cifar-10", "n": 50_000, "n_test": 10_000, "batches": [256, 5000], "epochs": 100}
    return [*_mlps({**mnist, "batches": [256, 1024, 6000], "lr": 0.005}, 100, 3000, seeds), *_convnets(cifar, seeds),
            *_rest(mnist, seeds, 20)]  # fmt: skip


def _convnets(how: Setting, seeds: Sequence[int]) -> list[Setting]:
    fixed = {"kind": "batches", "net": "convnet", "stop": "epochs", "rate": "same", "target": None, "lr": 1e-3}
    return product({**fixed, **how}, seed=seeds)


def own_data(setting: Setting, data: Data) -> Setting | None:
    """Fully connected networks only; other inputs than images have no convolutions."""
    return None if setting.get("net") == "convnet" else fit_sizes(setting, data)


def cost(setting: Setting) -> float:
    """Seconds, roughly."""
    size = setting["n"] / 1000 * (4 if setting["data"] in ("mnist", "cifar-10") else 1)
    if setting.get("net") == "convnet":
        return 0.2 * setting["epochs"] * size
    return {"batches": 2.0, "copies": 1.0, "twins": 2.0}[setting["kind"]] * size


# ---- the claims ----------------------------------------------------------------------------------------------------


def error_gap(runs: Rows) -> float:
    """Test error with the largest batch minus that with the smallest."""
    errors = runs.one("test_errors")
    return float(errors[-1] - errors[0])


def sharpness_ratio(runs: Rows) -> float:
    found = runs.one("keskar")
    return float(found[-1] / found[0])


def adaptive_ratio(runs: Rows) -> float:
    found = runs.one("adaptive")
    return float(found[-1] / found[0])


def rise_ratio(runs: Rows) -> float:
    """Training loss one distance beyond the large-batch network over that one distance beyond the small-batch one."""
    losses = runs.one("line_train")
    return float(losses[-1] / losses[0])


def copy_ratio(runs: Rows) -> float:
    """Examples until the loss is reached with every example twice, over those with every example once."""
    found = runs.one("processed")
    return float(found[1] / found[0])


def sharpness_range(runs: Rows) -> float:
    found = runs.one("keskar")
    return float(max(found) / min(found))


def copies_exact(rows: Rows) -> Checked:
    """Steps are equal if examples are in the ratio of the copies."""
    pairs = list(zip(rows.column("processed"), rows.column("copies"), strict=True))
    same = all(found[k] == times * found[0] for found, copies in pairs for k, times in enumerate(copies))
    return Checked(same, f"in {len(pairs)} runs, 2 and 4 copies need " + ("2 and 4" if same else "other than 2 and 4")
                   + " times as many examples, in the same number of steps")  # fmt: skip


def twins_equal(rows: Rows) -> Checked:
    outputs = max(max(changes) for changes in rows.column("output_change"))
    spread = max(max(found) / min(found) - 1 for found in rows.column("adaptive"))
    errors = all(len(set(errors)) == 1 for errors in rows.column("test_errors"))
    holds = outputs < ROUNDING and spread < ROUNDING and errors
    return Checked(holds, f"outputs change by at most {outputs:.1g} and adaptive sharpness by at most {spread:.1g}, "
                   f"relative; test errors {'do not change' if errors else 'change'}")  # fmt: skip


MLP = {"kind": "batches", "net": "mlp"}
FIXED, EQUAL = {**MLP, "stop": "epochs"}, {**MLP, "stop": "loss", "rate": "same"}
SCALED, CONV = {**MLP, "stop": "loss", "rate": "scaled"}, {"kind": "batches", "net": "convnet"}
TWO, LARGE = ("medium", "paper"), "0.2 to 5.3 points (98.03% against 97.81% up to 63.08% against 57.81%)"
MEMORY = "The published numbers and the place are quoted from memory."
TRIAL = "trials with seeds below 20"
CLAIMS: tuple[AnyClaim, ...] = (
    Claim("error-gap", "After as many epochs, a large batch errs more than a small one.", error_gap,
          at_least(0, POINTS), KESKAR.at("Table 2"), LARGE, (0.2, 5.3), ("data",), FIXED, counted_on="n_test",
          pilot=f"{TRIAL} had 1.5 to 3.8 points on digits, 12 points on MNIST-1D",
          note=f"{MEMORY} Here the large batch has made a tenth of the steps and has not fitted all labels: most of "
               "the gap is training that has not ended."),
    Claim("gap-at-equal-loss", "At equal training loss, a large batch errs more than a small one.", error_gap,
          at_least(0, POINTS), OURS, every=("data",), where=EQUAL, counted_on="n_test",
          pilot=f"{TRIAL} had 1.0 to 1.8 points on MNIST-1D, -0.3 to 1.3 points on digits"),
    Claim("sharper", "At equal training loss, a large batch ends in a sharper minimum by Keskar's metric.",
          sharpness_ratio, at_least(1.2, TIMES), KESKAR.at("Table 3"), "about 25 to 170 times, after 100 epochs or so",
          (25, 170), ("data",), EQUAL,
          pilot=f"{TRIAL} had 0.8 to 2.7 times on digits, 1.7 to 3.2 times on MNIST-1D",
          note=f"{MEMORY} The published maximum is over 10 iterations of L-BFGS-B and all examples; here it is over 3 "
               "steps of gradient ascent and a tenth of the examples."),
    Claim("sharper-adaptive", "At equal training loss, a large batch is sharper by the scale-invariant measure too.",
          adaptive_ratio, at_least(1.2, TIMES), OURS, every=("data",), where=EQUAL,
          pilot=f"{TRIAL} had 0.9 to 2.5 times on digits, 2.3 to 5.7 times on MNIST-1D"),
    Claim("line-rises", "On the line through both, the loss rises more beyond the large-batch network.",
          rise_ratio, at_least(1.5, TIMES), KESKAR.at("Figure 3"), "minima of large batches look narrower, in all six "
          "networks (no number)", every=("data",), where=EQUAL, pilot=f"{TRIAL} had 2.7 to 4.7 times",
          note="The number of the figure is quoted from memory. Published networks ended at different losses."),
    Claim("scaled-sharpness", "With a rate in proportion to the batch, sharpness hardly depends on the batch.",
          sharpness_ratio, between(0.5, 2, TIMES), OURS, "the rule that the rate grows with the batch is that of Goyal "
          "et al. 2017", every=("data",), where=SCALED,
          pilot=f"{TRIAL} had 0.6 to 2.2 times on digits, 0.9 to 1.6 times on MNIST-1D"),
    Claim("scaled-gap", "With a rate in proportion to the batch, large batches err as often, within 2 points.",
          error_gap, between(-2, 2, POINTS), GOYAL.at("abstract"), "no loss of accuracy for batches up to 8,192 on "
          "ImageNet", every=("data",), where=SCALED, counted_on="n_test",
          pilot=f"{TRIAL} had -0.5 to 0.9 points on digits, -0.4 to 1.6 points on MNIST-1D",
          note="Published with a warm-up, on ImageNet; here without one."),
    Exact("copies-full-batch", "With every example twice, gradient descent computes exactly twice as many gradients.",
          copies_exact, SLIDES.theorem("why minibatch SGD"), "equal numbers of steps in every run",
          "copies double the training time of full-batch gradient descent", {"kind": "copies", "batch": None},
          note="The mean gradient over copies is the mean gradient over the examples."),
    Claim("copies-sgd", "With every example twice, SGD needs as many gradients as before, within 15%.", copy_ratio,
          between(0.85, 1.15, TIMES), SLIDES.at("why minibatch SGD"), "no effect on the training time of SGD", 1.0,
          where={"kind": "copies", "batch": 10}, pilot=f"{TRIAL} had 0.99 and 1.09 times"),
    Claim("twin-sharpness", "Twins that compute the same function differ in Keskar sharpness by a factor of 1,000.",
          sharpness_range, at_least(1000, TIMES), DINH.at("Section 4"), "any value can be had by rescaling (no number)",
          where={"kind": "twins"}, pilot=f"{TRIAL} had 1,700 and 2,800 times on digits",
          note="The place is quoted from memory. The factors reach from 0.01 to 100."),
    Exact("twin-function", "Twins have equal outputs, equal test errors, and equal adaptive sharpness.", twins_equal,
          DINH.theorem("Section 4"), f"relative changes below {ROUNDING:g}, test errors equal",
          "ReLU networks compute the same function after rescaling", {"kind": "twins"}),
    Claim("convnet-gap", "A convolutional network with batch norm errs more with large batches, after equal epochs.",
          error_gap, at_least(0, POINTS), KESKAR.at("Table 2"), LARGE, (0.2, 5.3), where=CONV, scales=TWO,
          counted_on="n_test", note=MEMORY),
    Claim("convnet-sharper", "A convolutional network with batch norm is sharper after training with large batches.",
          sharpness_ratio, at_least(1.2, TIMES), KESKAR.at("Table 3"), "about 25 to 170 times", (25, 170),
          where=CONV, scales=TWO, note=f"{MEMORY} Sharpness is that of the weights with batch norm folded into them."),
    Claim("convnet-line",
          "On the line through two convolutional networks, the loss rises more beyond the large batch.",
          rise_ratio, at_least(1.5, TIMES), KESKAR.at("Figure 3"), "minima of large batches look narrower (no number)",
          where=CONV, scales=TWO, note="Batch norm collects its statistics anew at every place of the line."),
)  # fmt: skip


EXPERIMENT = Experiment(
    name="batch-size",
    title="Do large batches end in sharp minima?",
    about="Large batches are easy to compute in parallel, but networks trained with them are said to err more, because "
    "they end in sharp minima. Sharpness depends on how the weights are scaled, though, and a larger batch at the same "
    "rate is also a shorter training. This experiment takes these explanations apart.",
    papers=(KESKAR, DINH, GOYAL, SLIDES),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
