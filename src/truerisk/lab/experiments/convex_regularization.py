"""Do convex models need a regularizer where deep networks do not? (Zhang et al. 2017, Section 1.1.)

Zhang et al. contrast deep networks with convex empirical risk minimization, which needs a regularizer to rule out
trivial solutions. Their experiments have only the deep half; this one has both. All models learn the same examples:

    convex    N random ReLU features and a linear readout. The readout minimizes the squared error or the cross-entropy,
              either exactly (float64; the least-norm solution where there are several) or by SGD from zero.
    network   two hidden layers of N units, trained by SGD.

The regularizer is |W|^2: a ridge on the readout, weight decay in the network. Each run chooses its strength from one
list by the error on validation examples that no model trains on. The width N goes from below n to far above it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.lab.claim import OURS, Checked, Claim, Exact, Paper
from truerisk.lab.experiment import Experiment, Record, Setting, product
from truerisk.lab.own_data import fit_sizes
from truerisk.lab.papers import ZHANG
from truerisk.lab.rows import Rows
from truerisk.lab.samples import samples
from truerisk.lab.sgd import decaying_sgd
from truerisk.lab.units import POINTS, at_least, between
from truerisk.nets import mlp, outputs
from truerisk.nets.random_features import LeastSquares, random_features, softmax_readout
from truerisk.seeds import derive, seeded_globals
from truerisk.training.loop import DivergedError, run

PEAK = "Reconciling modern machine-learning practice and the classical bias-variance trade-off"
BELKIN = Paper("Belkin, Hsu, Ma, Mandal", 2019, PEAK, "PNAS 116(32)", arxiv="1812.11118")
NAMES = {
    "least-squares-exact": "least squares, exact",
    "least-squares-sgd": "least squares, SGD",
    "softmax-exact": "softmax regression, exact",
    "softmax-sgd": "softmax regression, SGD",
    "network": "network, SGD",
}
STRENGTHS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # fixed before the first run


def task(setting: Setting) -> Record:
    """Train a model with no regularizer, or with each strength: the best in validation counts, of ties the largest."""
    s = setting
    sizes, seed = (s["n"] + s["n_validation"], s["n_test"]), derive(s["seed"], "examples")
    rows, test = samples(s["data"], *sizes, seed, s.get("data_sha256"))
    parts = rows.take(np.arange(s["n"])), rows.take(np.arange(s["n"], len(rows))), test
    X, width = _standardized(*parts), round(s["ratio"] * s["n"])
    if s["model"] != "network":
        X = list(map(random_features(X[0].shape[1], width, derive(s["seed"], "features")), X))
    solve, found = _solver(s, X[0], parts[0], width), []
    for strength in STRENGTHS if s["regularized"] else (0.0,):
        with contextlib.suppress(DivergedError):
            found.append({**_errors(solve(strength), X, parts), "strength": strength, "diverged": False})
    return min(found, key=lambda one: one["validation_error"]) if found else {"diverged": True}


def _solver(s: Setting, X: np.ndarray, train: Data, width: int) -> Callable[[float], np.ndarray | nn.Module]:
    """From a strength to a trained readout or network."""
    if s["model"] == "least-squares-exact":
        problem = LeastSquares(X, np.eye(train.classes)[train.y])
        return lambda strength: problem.ridge(strength) if strength else problem.least_norm()
    if s["model"] == "softmax-exact":
        return lambda strength: softmax_readout(X, train.y, train.classes, strength)
    return lambda strength: _by_sgd(s, X, train, width, strength)


def _by_sgd(s: Setting, X: np.ndarray, train: Data, width: int, strength: float) -> nn.Module:
    readout = nn.Linear(X.shape[1], train.classes, bias=False)
    nn.init.zeros_(readout.weight)
    with seeded_globals(derive(s["seed"], "weights")):
        module = mlp((X.shape[1],), train.classes, (width, width)) if s["model"] == "network" else readout
    inputs, labels = torch.from_numpy(X).float(), torch.from_numpy(train.y)
    truth = F.one_hot(labels, train.classes).float()

    def loss(batch: Tensor) -> Tensor:
        scores = module(inputs[batch])
        if s["model"] == "least-squares-sgd":
            return (scores - truth[batch]).square().sum(dim=1).mean() / 2
        return F.cross_entropy(scores, labels[batch])

    plan = decaying_sgd(s, derive(s["seed"], "batches"), strength)
    run(module, [{"params": list(module.parameters())}], loss, len(train), plan)
    return module.eval()


def _standardized(train: Data, *others: Data) -> list[np.ndarray]:
    """Inputs as rows, minus the mean of the training rows and divided by one standard deviation for all coordinates."""
    rows = [data.X.reshape(len(data), -1).astype(np.float64) for data in (train, *others)]
    center = rows[0].mean(axis=0)
    return [(each - center) / (rows[0] - center).std() for each in rows]


def _errors(model: np.ndarray | nn.Module, X: Sequence[np.ndarray], parts: Sequence[Data]) -> dict[str, float]:
    found = {}
    for name, x, data in zip(("train_error", "validation_error", "test_error"), X, parts, strict=True):
        scores = outputs(model, x).numpy() if isinstance(model, nn.Module) else x @ model
        found[name] = float(np.mean(scores.argmax(axis=1) != data.y))
    return found


# ---- the grids -----------------------------------------------------------------------------------------------------

# Rates suit features of norm 1; a trial with seed 0 checked that training without a regularizer ends at an error of 0.
SGD = {"least-squares-sgd": (0.5, 300), "softmax-sgd": (2.0, 300), "network": (0.05, 60)}  # rate, epochs
AT_N, WIDE = 1, 8  # width / n where claims look
RATIOS = (1 / 8, 1 / 4, 1 / 2, 3 / 4, AT_N, 3 / 2, 2, 4, WIDE)
NETWORK_RATIOS = (1 / 8, 1 / 2, AT_N, 2)  # weights grow with the square of the width


def _grid(seeds: Sequence[int], how: Setting, ratios: Sequence[float] = RATIOS, short: bool = False) -> list[Setting]:
    """All seeds where claims look: width n, and far above it for exact least squares. One seed elsewhere."""
    grid = []
    for model in NAMES:
        lr, epochs = SGD.get(model, (0, 0))
        sgd = {"batch_size": 50, "lr": lr, "lr_decay": 0.99, "epochs": 3 if short else epochs} if epochs else {}
        for ratio in ratios if model != "network" else NETWORK_RATIOS:
            judged = ratio == AT_N or (ratio == WIDE and model == "least-squares-exact")
            fixed = {**how, "model": model, **sgd, "ratio": ratio}
            grid += product(fixed, regularized=(False, True), seed=seeds if judged else seeds[:1])
    return grid


def smoke() -> list[Setting]:
    return _grid([20], {"data": "digits", "n": 40, "n_validation": 50, "n_test": 100}, (1 / 2, AT_N, WIDE), True)


def quick() -> list[Setting]:
    return _grid(range(20, 25), {"data": "digits", "n": 500, "n_validation": 250, "n_test": 1000})


def medium() -> list[Setting]:
    return _grid(range(20, 23), {"data": "mnist", "n": 1000, "n_validation": 1000, "n_test": 5000})


def paper() -> list[Setting]:
    """No size is published. With 5,000 examples, width 8n has 40,000 features: 1.6 GB in float64."""
    return _grid(range(20, 23), {"data": "mnist", "n": 5000, "n_validation": 1000, "n_test": 10_000})


def own_data(setting: Setting, data: Data) -> Setting:
    """As many examples as there are, of which up to a third validate."""
    fitted = fit_sizes({**setting, "n": setting["n"] + setting["n_validation"]}, data)
    validation = min(setting["n_validation"], fitted["n"] // 3)
    return {**fitted, "n": fitted["n"] - validation, "n_validation": validation}


def cost(setting: Setting) -> float:
    """Seconds for n = 500, roughly."""
    each = 0.5 if setting["model"] in SGD else 0.05
    return each * (len(STRENGTHS) if setting["regularized"] else 1) * (1 + setting["ratio"]) * setting["n"] / 500


# ---- the claims ----------------------------------------------------------------------------------------------------


def gain(runs: Rows) -> float:
    """Test error without the regularizer minus test error with it."""
    without, regularized = (runs.where(regularized=on).one("test_error") for on in (False, True))
    return float(without - regularized)


def interpolates(runs: Rows) -> Checked:
    most = runs.max("train_error")
    return Checked(most == 0, f"the largest training error of {len(runs)} runs is {100 * most:g}%")


CLAIMS = (
    Claim(
        "least-squares-needs-ridge",
        "At width n, the exact least-squares solution errs at least 20 points more without a ridge than with one.",
        gain,
        at_least(20, POINTS),
        ZHANG.at("Section 1.1"),
        "convex empirical risk minimization needs a regularizer to rule out trivial solutions (no number)",
        where={"model": "least-squares-exact", "ratio": AT_N},
        counted_on="n_test",
        pilot="A trial on digits with other seeds erred on 79% without a ridge and on 3% with one, at width n.",
    ),
    Claim(
        "network-needs-no-decay",
        "At width n, weight decay changes the test error of a deep network by at most 3 points.",
        gain,
        between(-3, 3, POINTS),
        ZHANG.at("Section 3, Table 1"),
        "weight decay alone changes the test accuracy by -0.1 to 1.3 points (CIFAR-10)",
        published_at=(-0.12, 1.29),
        where={"model": "network", "ratio": AT_N},
        counted_on="n_test",
        note="The region is that of decay-changes-little in the experiment regularizers.",
    ),
    Claim(
        "sgd-needs-no-ridge",
        "At width n, a ridge changes the test error of a convex model trained by SGD by at most 3 points.",
        gain,
        between(-3, 3, POINTS),
        OURS,
        "not published; it would show that SGD, rather than depth, makes the regularizer dispensable",
        every=("model",),
        where={"model": ["least-squares-sgd", "softmax-sgd"], "ratio": AT_N},
        counted_on="n_test",
        pilot="A trial on digits with other seeds saw that the convex problem trained by SGD needs no ridge either.",
    ),
    Claim(
        "softmax-needs-ridge",
        "At width n, exact softmax regression errs at least 3 points more without a ridge than with one.",
        gain,
        at_least(3, POINTS),
        OURS,
        "not published; it asks whether convexity or the squared error makes a ridge necessary",
        where={"model": "softmax-exact", "ratio": AT_N},
        counted_on="n_test",
        note="Without a ridge there is no minimizer; minimization ends where no derivative exceeds 1e-6.",
    ),
    Claim(
        "wide-needs-no-ridge",
        "At width 8n, a ridge changes the test error of the exact least-squares solution by at most 3 points.",
        gain,
        between(-3, 3, POINTS),
        OURS,
        "not published for this model; Zhang et al. report no gain from a regularizer for a Gaussian kernel on MNIST",
        where={"model": "least-squares-exact", "ratio": WIDE},
        counted_on="n_test",
        pilot="A trial with Fourier features on digits (n = 500, width 8,000) erred on 1.7% without a ridge.",
    ),
    Exact(
        "interpolates",
        "From width n on, the least-squares solution without a ridge fits every training example.",
        interpolates,
        ZHANG.theorem("Section 5"),
        "training error 0 in every run",
        "with at least as many features as examples, a linear model fits any labels",
        where={"model": "least-squares-exact", "regularized": False, "ratio": [r for r in RATIOS if r >= AT_N]},
    ),
)


EXPERIMENT = Experiment(
    name="convex-regularization",
    title="Do convex models need a regularizer where networks do not?",
    about=(
        "Zhang et al. contrast deep networks, which generalize without a regularizer, with convex models, which need "
        "one. Here both learn the same digits: random features with a linear readout, minimized exactly or by SGD, and "
        "a network of the same width. Test errors with and without a regularizer show who needs it: convex models as "
        "such, exact minimizers, or only the width at which interpolation becomes possible (double descent)."
    ),
    papers=(ZHANG, BELKIN),
    grids={"smoke": smoke, "quick": quick, "medium": medium, "paper": paper},
    task=task,
    claims=CLAIMS,
    cost=cost,
    own_data=own_data,
)
