"""Can networks fit labels and images that mean nothing? (Zhang et al. 2017, Section 2)

Treatments are drawn once and stay fixed over all epochs. Corrupted labels are for training only: test errors are
counted against true labels. Pixels of test images are treated like those of training images: by the same permutation
where all images share one, by new draws where each image has its own.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import torch
from scipy.stats import spearmanr

from truerisk.data import Data
from truerisk.data.randomization import LABELS, PIXELS, label_treatment, randomize
from truerisk.data.scaling import is_images, normalize, shrink_images
from truerisk.lab.claim import OURS, Checked, Claim, Exact
from truerisk.lab.effect import Above
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.figure import percent
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.papers import ZHANG
from truerisk.lab.rows import IncompleteError, Rows
from truerisk.lab.samples import samples
from truerisk.lab.scales import SCALES
from truerisk.lab.sgd import decaying_sgd
from truerisk.lab.units import CORRELATION, PERCENT, POINTS, TIMES, Unit, at_least, at_most, between
from truerisk.nets import classic
from truerisk.seeds import derive, seeded_globals
from truerisk.training import learn

# Title, parameters; training and test accuracy on true, then on random labels, without crops and weight decay (Table 1)
PUBLISHED = {
    "mlp-1x512": ("MLP 1x512", 1_209_866, (1.0, 0.5051), (0.9934, 0.1061)),
    "mlp-3x512": ("MLP 3x512", 1_735_178, (1.0, 0.5239), (1.0, 0.1048)),
    "alexnet": ("AlexNet", 1_387_786, (1.0, 0.7607), (0.9982, 0.0986)),
    "inception": ("Inception", 1_649_402, (1.0, 0.8575), (1.0, 0.0978)),
    "inception-no-bn": ("Inception without batch norm", 1_649_402, (1.0, 0.8200), (1.0, 0.1012)),
}
TRUE, CORRUPTED, RANDOM = LABELS
SHUFFLED, *NOISE = PIXELS
SIDE = 28  # pixels: the paper crops the 32 of CIFAR-10 to the middle 28


def task(setting: Setting) -> Record:
    """Train one network on one treatment until it fits all its training examples, or to the last epoch."""
    train, test = treated(setting)
    with seeded_globals(derive(setting["seed"], "weights")):
        network = classic(setting["model"], train.input_shape, train.classes)
    # convolutions take a sixth less time; the stubs of torch do not know the argument
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    plan = decaying_sgd(setting, derive(setting["seed"], "batches"))
    curve = learn(network, train, test, plan, every=setting["every"])
    kept = np.unique(np.linspace(0, len(curve.steps) - 1, 60).round().astype(int))  # enough points to draw it
    original = classic(_original(setting["model"]), (3, SIDE, SIDE), 10)
    return {
        "classes": train.classes,
        "parameters": sum(p.numel() for p in network.parameters()),
        "published_parameters": sum(p.numel() for p in original.parameters()),
        "train_error": curve.train_error[-1],
        "test_error": curve.test_error[-1],
        "steps": curve.steps[-1],
        "fitted": curve.fitted_step is not None,
        "diverged": curve.diverged,
        "curve_steps": [curve.steps[i] for i in kept],
        "curve_train_error": [curve.train_error[i] for i in kept],
    }


def treated(setting: Setting) -> tuple[Data, Data]:
    """Training and test examples of a setting: cropped, treated, then whitened image by image."""
    seed = setting["seed"]
    both = samples(setting["data"], setting["n"], setting["n_test"], seed, setting.get("data_sha256"))
    train, test = (shrink_images(part, SIDE) for part in both)
    return normalize(*randomize(train, test, setting["treatment"], setting["p"], seed))


def _original(model: str) -> str:
    """The published network of which a network called small has the layers, with fewer channels."""
    return model.replace("-small", "")


# The paper's learning rates are 0.1 for Inception and 0.01 for the rest, times 0.95 after each epoch of 50,000 images.
# Epochs of fewer steps need a factor nearer to 1: training would freeze before it ends. Single trials on random labels
# chose the other rates so that training converges. The paper states neither batch sizes nor numbers of epochs.
RATES = {"mlp-1x512": 0.01, "mlp-3x512": 0.01, "alexnet": 0.01, "inception": 0.1, "inception-no-bn": 0.01}
DENSE = {"mlp-1x512": 0.05, "mlp-3x512": 0.05}
SMALL = {"alexnet-small": 0.02, "inception-small": 0.1, "inception-small-no-bn": 0.01}
QUICK = {"n_test": 500, "lr_decay": 0.99, "epochs": 150}
SUBSET = {"n": 1000, "n_test": 500, "batch_size": 25, "lr_decay": 0.98, "every": 2}
LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
# The networks of Figure 1b get all levels, but the small Inception the first and the last: quick has three minutes.
FIGURE_1B = ("mlp-1x512", "alexnet-small", "alexnet", "inception")
# fmt: off
RECIPES: dict[str, list[tuple[tuple[str, ...], dict[str, float], Setting]]] = {  # data, learning rates, all else
    "smoke": [(("digits",), DENSE | SMALL, {**QUICK, "n": 20, "n_test": 50, "batch_size": 10, "every": 4})],
    "quick": [(("digits",), DENSE, {**QUICK, "n": 1000, "batch_size": 50, "every": 1}),
              (("digits",), SMALL, {**QUICK, "n": 500, "batch_size": 20, "every": 2})],
    # Inception takes two thirds of the time, so it is not trained on MNIST and always has batch norm. Batches of 25
    # are noisy: in a trial its published learning rate of 0.1 took more than twice as many steps.
    "medium": [(("cifar-10", "mnist"), {"mlp-1x512": 0.01, "mlp-3x512": 0.01},
                {"n": 5000, "n_test": 2000, "batch_size": 50, "lr_decay": 0.98, "epochs": 100, "every": 2}),
               (("cifar-10", "mnist"), {"alexnet": 0.01}, {**SUBSET, "epochs": 80}),
               (("cifar-10",), {"inception": 0.02}, {**SUBSET, "epochs": 40})],
    "paper": [(("cifar-10",), RATES,
               {"n": 50_000, "n_test": 10_000, "batch_size": 128, "lr_decay": 0.95, "epochs": 300, "every": 1})],
}
# fmt: on


def grid(scale: str) -> list[Setting]:
    """Each network on its levels of corruption and on treated pixels; without batch norm, on true and random labels."""
    seeds = {"smoke": range(20, 21), "quick": range(20, 25)}.get(scale, range(20, 23))
    runs = []
    for data, rates, how in RECIPES[scale]:
        for model, lr in rates.items():
            common = {**how, "model": model, "lr": lr}
            levels = LEVELS if model in FIGURE_1B else (LEVELS[0], LEVELS[-1])
            labels = product(common, data=data, p=levels, seed=seeds)
            runs += [{**run, "treatment": label_treatment(run["p"])} for run in labels]
            if not model.endswith("no-bn"):
                runs += product({**common, "p": 0.0}, data=data, treatment=PIXELS, seed=seeds)
    return runs


def cost(setting: Setting) -> float:
    """Roughly proportional to the time of a setting: random labels take four times as many epochs as true ones."""
    epoch = {"mlp-1x512": 0.15, "mlp-3x512": 0.25, "alexnet": 5, "inception": 25, "inception-no-bn": 22}
    return epoch.get(setting["model"], 0.5) * setting["n"] * (1 + 3 * setting["p"])


def own_data(setting: Setting, data: Data) -> Setting | None:
    """Convolutional networks need at least 8x8 pixels, which they halve twice; only images have pixels to treat."""
    dense, labels = setting["model"] in DENSE, setting["treatment"] in LABELS
    fits = (dense or min(data.input_shape[1:]) >= 8) if is_images(data) else (dense and labels)
    again = setting["data"] == "mnist"  # at medium: the runs for CIFAR-10 a second time
    return fit_sizes(setting, data) if fits and not again else None


def training_accuracy(runs: Rows) -> float:
    return 1 - float(runs.one("train_error"))


def above_chance(runs: Rows) -> float:
    """Test accuracy minus that of a blind guess among the classes, in binomial standard deviations of the test set."""
    guess = 1 / int(runs.one("classes"))
    return (1 - float(runs.one("test_error")) - guess) / (guess * (1 - guess) / int(runs.one("n_test"))) ** 0.5


def error_change(runs: Rows, treatment: str) -> float:
    """Test error after a treatment minus test error after plain training."""
    changed, plain = (float(runs.where(treatment=name).one("test_error")) for name in (treatment, TRUE))
    return changed - plain


def rises(runs: Rows) -> dict[str, float]:
    """The rise of the test error from each level of corruption to the next."""
    errors = sorted(zip(runs.column("p"), runs.column("test_error"), strict=True))
    return {f"{percent(p, 0)} to {percent(q, 0)}": late - early for (p, early), (q, late) in pairwise(errors)}


def rank_of_steps(runs: Rows) -> float:
    """Spearman's correlation of level and steps. Runs that did not fit all examples took equally long: the limit."""
    steps = runs.column("steps")
    return float(spearmanr(runs.column("p"), steps).statistic) if len(set(steps)) > 1 else 0.0


def slowdown(runs: Rows, treatment: str = TRUE) -> float | Above:
    """Steps to fit random labels over steps to fit another treatment."""
    random, other = runs.where(treatment=RANDOM), runs.where(treatment=treatment)
    if not other.one("fitted"):
        raise IncompleteError(f"{other.one('model')} did not fit {treatment}, so its steps are no measure")
    ratio = random.one("steps") / other.one("steps")
    return ratio if random.one("fitted") else Above(ratio)


def longer_than_noise(runs: Rows) -> dict[str, float | Above]:
    return {name: slowdown(runs, name) for name in NOISE}


def same_counts(rows: Rows) -> Checked:
    counts = {_original(model): some.column("published_parameters") for (model,), some in rows.groups("model")}
    text = ", ".join(f"{max(found):,} ({PUBLISHED[model][0]})" for model, found in counts.items())
    return Checked(all(set(found) == {PUBLISHED[model][1]} for model, found in counts.items()), text)


DEVIATIONS = Unit("standard deviations", digits=1, suffix=" standard deviations")
EVERY, ENDS = ("data", "model"), {"treatment": (TRUE, RANDOM)}
CURVES = {"treatment": LABELS, "model": FIGURE_1B}
SLOWER = "3.6 times (Inception), 2.0 times (MLP), 1.55 times (AlexNet)"
PILOT = "a trial with MLP 1x512 on digits (1,000 examples, two seeds)"
# fmt: off
CLAIMS = (
    Exact("parameters", "The rebuilt networks have the published numbers of parameters.", same_counts,
          OURS, "exactly the published number for 28x28 color images",
          "1,209,866 (MLP 1x512), 1,735,178 (MLP 3x512), 1,387,786 (AlexNet), 1,649,402 (Inception)"),
    Claim("fits-everything", "Networks fit true, corrupted, and random labels, and three kinds of random images.",
          training_accuracy, at_least(99, PERCENT), ZHANG.at("Figure 1a and Table 1"),
          "100% training accuracy; on random labels 99.34% (MLP 1x512) and 99.82% (AlexNet)", (99.34, 100),
          every=(*EVERY, "treatment", "p"), counted_on="n"),
    Claim("chance", "After random labels, a network classifies new images no better than a blind guess.", above_chance,
          between(-3, 3, DEVIATIONS), ZHANG.at("Table 1"), "9.78% to 10.61% accuracy among ten classes", (-0.73, 2.03),
          every=EVERY, where={"treatment": RANDOM}, counted_on=6,  # one image of 500 moves the number by 0.15
          note="The number is test accuracy minus that of a guess, in binomial standard deviations of the test set. "
          "Three of them are 4 points for 500 images, 2 for 2,000, and 0.9 for 10,000."),
    Claim("generalizes", "Trained on true labels, the same networks classify new images far better.",
          partial(error_change, treatment=RANDOM), at_least(20, POINTS), ZHANG.at("Table 1"),
          "test accuracy of 50.51% to 85.75%, 40 to 76 points above random labels", (39.9, 75.97),
          every=EVERY, where=ENDS, counted_on="n_test",
          note="The threshold is half of the smallest published gap, because training sets are smaller here."),
    Claim("slower-with-corruption", "The more labels are corrupted, the longer fitting takes.",
          rank_of_steps, at_least(0.8, CORRELATION), ZHANG.at("Figure 1b"),
          "a smooth rise with the level of corruption; no number", every=EVERY, where=CURVES, pilot=PILOT,
          counted_on=10, note="Rank correlation; it falls by a tenth where neighbors change places. Until 2026-11-18 "
          "it was taken of means over seeds, and also for networks with three levels, which have too few ranks."),
    Claim("random-slower", "Random labels take longer to fit than true labels.",
          slowdown, at_least(1, TIMES), ZHANG.at("Figure 1b"), SLOWER, (1.55, 3.6), every=EVERY, where=ENDS,
          note="Until 2026-11-18 this was part of slower-with-corruption."),
    Claim("small-factor", "Even random labels slow fitting down by a small factor only.", slowdown, at_most(4, TIMES),
          ZHANG.at("Section 2.1 and Figure 1b"), SLOWER, (1.55, 3.6), every=EVERY, where=ENDS,
          note="Until 2026-11-18 the threshold was 3, quoted from memory; the published Inception would fail it. The "
          "change came after runs on digits that gave more than 4 (4.4 to 6.3 times)."),
    Claim("test-error-rises", "Test error falls by at most 2 points from one level of corruption to the next.", rises,
          at_least(-2, POINTS), ZHANG.at("Figure 1c"), "a steady rise to 90%", every=EVERY, where=CURVES, pilot=PILOT,
          counted_on="n_test", note="The threshold allows a small fall by chance. Until 2026-11-18 the claim also "
          "required a test error of 85% to 95% at random labels; the claim chance is stricter."),
    Claim("pixels-faster", "Random labels take longer to fit than random pixels or Gaussian noise.", longer_than_noise,
          at_least(1, TIMES), ZHANG.at("Section 2.1 and Figure 1a"), "random pixels and noise are faster; no number",
          every=EVERY, where={"treatment": (RANDOM, *NOISE), "model": (*FIGURE_1B, "mlp-3x512", "inception-small")}),
    Claim("permutation", "A fully connected network learns images with shuffled pixels as well as plain ones.",
          partial(error_change, treatment=SHUFFLED), between(-3, 3, POINTS), OURS, every=EVERY, counted_on="n_test",
          where={"treatment": (TRUE, SHUFFLED), "model": tuple(DENSE)}, pilot=PILOT,
          note="Initial weights have the same distribution for every pixel, so the expected test errors are equal."),
)
# fmt: on


ABOUT = (
    "A network is trained on images with some or all labels replaced by random ones, or with pixels replaced by noise. "
    "With true labels, the same network, trained in the same way, classifies new images well. Size, training, and "
    "training error are the same in both cases, so they cannot explain generalization (Zhang et al. 2017)."
)
GRIDS = {scale: partial(grid, scale) for scale in SCALES}
EXPERIMENT = Experiment("random-labels", "Networks fit random labels", ABOUT, (ZHANG,), GRIDS, task, CLAIMS, cost=cost,
                        own_data=own_data)  # fmt: skip
