"""The networks of the paper's figures, and the posteriors around them: the paper's recipe as far as it is known, and
trained ones.

Known: prior N(0, sigma_p^2), posterior N(w, sigma_q^2), the same two numbers for all weights, w trained. Not known: how
w was trained, sigma_p and sigma_q on MNIST, and the convolutional network. What follows from the published bounds
*before* rescaling: they grow with the number of weights N as r + sqrt(c N / (2 n)) with a single c of about 3.3 = ln 44
- 1/2, so sigma_p / sigma_q was about 44 in every row, the prior scale was far above the weights, and r was a few
percent. Two guesses follow this:

* ``widest``: sigma_q is the largest of a grid at which the Gibbs error on training examples is at most 5%, and
  sigma_p = 44 sigma_q. The prior depends on that choice, so delta is split over the whole grid.
* ``standard``: sigma_p = 1 and sigma_q = 1/44 everywhere.

The first rule does not use the published bounds after rescaling. The second is a round number, chosen knowing that for
one network (512) those bounds point to a sigma_q of about 0.02: its distances after rescaling are not a blind test.
This code is frozen: see the package.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from torch import nn

from truerisk.data import Data
from truerisk.lab.experiment import Setting
from truerisk.lab.samples import samples
from truerisk.nets import builtin
from truerisk.pacbayes import Gaussian, fan_in_std, gibbs_risk, plan_draws, train_posterior
from truerisk.seeds import derive, seeded_globals
from truerisk.training import Plan, fit

Pair = tuple[Gaussian, Gaussian]  # posterior, prior


def build(name: str, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """A built-in network (``mlp:64-32``), or ``cnn:A-B-C``: convolutions with A and B channels, C hidden units.

    >>> sum(p.numel() for p in build("cnn:32-64-512", (3, 32, 32), 10).parameters())
    2122186
    """
    kind, _, widths = name.partition(":")
    if kind != "cnn":
        return builtin(name, input_shape, classes)
    first, second, dense = map(int, widths.split("-"))
    colours, height, width = input_shape
    return nn.Sequential(
        *(nn.Conv2d(colours, first, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(first, second, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Flatten(),
        *(nn.Linear(second * (height // 4) * (width // 4), dense), nn.ReLU(), nn.Linear(dense, classes)),
    )


@lru_cache(maxsize=1)  # several posteriors are put around the same weights, one after the other
def fitted(data: str, n: int, n_test: int, model: str, epochs: int, batch_size: int, lr: float, seed: int) -> nn.Module:
    """The network trained by Adam on cross-entropy, with a rate that falls as a cosine; in eval mode."""
    train, _ = samples(data, n, n_test, seed)
    with seeded_globals(derive(seed, "weights")):
        network = build(model, train.input_shape, train.classes)
    plan = Plan(epochs=epochs, batch_size=batch_size, lr=lr, seed=derive(seed, "batches"))
    fit(network, train, plan)
    return network.eval()


def network_of(setting: Setting) -> nn.Module:
    """The trained network of a setting; never changed, because others may get the same object."""
    keys = ("data", "n", "n_test", "model", "fit_epochs", "batch_size", "fit_lr", "seed")
    return fitted(*(setting[key] for key in keys))


def same_noise(setting: Setting, train: Data) -> Pair:
    """The paper's recipe: one standard deviation for all weights of the posterior, one for the prior."""
    network = network_of(setting)
    sigma_p, sigma_q = setting["pair"] or _widest(setting, network, train)
    return Gaussian.around(network, sigma_q), Gaussian.zero(network, sigma_p)


def _widest(setting: Setting, network: nn.Module, train: Data) -> tuple[float, float]:
    """The largest sigma_q that keeps the Gibbs error on some training examples small, and its sigma_p."""
    X, y = train.X[: setting["looked_at"]], train.y[: setting["looked_at"]]
    for sigma in sorted(setting["sigmas"], reverse=True):
        posterior = Gaussian.around(network, sigma)
        plan = replace(plan_draws(posterior, X), passes=1)
        if gibbs_risk(posterior, X, y, derive(setting["seed"], "width"), plan).risk <= setting["risk_limit"]:
            break
    return setting["ratio"] * sigma, sigma


def trained(setting: Setting, train: Data) -> Pair:
    """A posterior whose means and standard deviations were trained, from narrow noise around the trained weights.

    The prior is N(0, (prior_std / sqrt(fan-in))^2): no data in it. In a trial with the narrow network of five hidden
    layers, noise that started at 0.2 of the prior's and a rate of 0.04 ended at chance; 0.1 and 0.02 did not.
    """
    network = network_of(setting)
    scale = fan_in_std(network, setting["prior_std"])
    prior = Gaussian.zero(network, scale)
    start = Gaussian.around(network, {name: setting["start_std"] * std for name, std in scale.items()})
    seed = derive(setting["seed"], "posterior")
    plan = Plan(epochs=setting["epochs"], batch_size=setting["batch_size"], lr=setting["lr"], seed=seed)
    posterior, _ = train_posterior(prior, train.X, train.y, plan, start=start, objective_name="tempered")
    return posterior, prior
