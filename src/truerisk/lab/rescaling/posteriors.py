"""The networks of the paper's figures, and the posteriors around them: one noise for all weights, or trained ones."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from truerisk.data import Data
from truerisk.engine import canonical
from truerisk.lab.experiment import Setting
from truerisk.lab.samples import samples
from truerisk.nets import builtin
from truerisk.pacbayes import Gaussian, fan_in_std, train_posterior
from truerisk.seeds import derive, seeded_globals
from truerisk.training import Plan, fit

Pair = tuple[Gaussian, Gaussian]  # posterior, prior


def build(name: str, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """A built-in network (``mlp:64-32``), or ``vgg:A-B-C-D``: two 3 x 3 convolutions with A channels, max-pooling,
    two with B, pooling, two with C, pooling, and D hidden units.

    >>> sum(p.numel() for p in build("vgg:32-64-128-1128", (3, 32, 32), 10).parameters())
    2609570
    """
    kind, _, widths = name.partition(":")
    if kind != "vgg":
        return builtin(name, input_shape, classes)
    *channels, dense = map(int, widths.split("-"))
    entering, height, width = input_shape
    layers: list[nn.Module] = []
    for count in channels:
        for into in (entering, count):
            layers += [nn.Conv2d(into, count, 3, padding=1), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
        entering, height, width = count, height // 2, width // 2
    layers += [nn.Flatten(), nn.Linear(entering * height * width, dense), nn.ReLU(), nn.Linear(dense, classes)]
    return nn.Sequential(*layers)


def network_of(setting: Setting) -> nn.Module:
    """The trained network of a setting, in eval mode; never changed, because others may get the same object."""
    if "training" in setting:
        training = setting["training"]
    else:  # around which a posterior is trained
        training = {"epochs": setting["fit_epochs"], "batch_size": setting["batch_size"], "lr": setting["fit_lr"]}
    keys = ("data", "n", "n_test", "model", "seed")
    return fitted(*(setting[key] for key in keys), canonical(training))


@lru_cache(maxsize=1)  # several posteriors are put around the same weights, one after the other
def fitted(data: str, n: int, n_test: int, model: str, seed: int, training: str) -> nn.Module:
    """The network trained on cross-entropy; ``training`` has the fields of a `Plan`, as JSON.

    Convolutions compute in bfloat16, which halves their time; weights and their updates stay in float32.
    """
    train, _ = samples(data, n, n_test, seed)
    with seeded_globals(derive(seed, "weights")):
        network = build(model, train.input_shape, train.classes)
    plan: dict[str, Any] = json.loads(training)
    # Without a cache: it would keep the weights of the first step for as long as this block lasts.
    with torch.autocast("cpu", torch.bfloat16, enabled=model.startswith("vgg:"), cache_enabled=False):
        fit(network, train, Plan(**plan, seed=derive(seed, "batches")))
    return network.eval()


def same_noise(network: nn.Module, pair: tuple[float, float]) -> Pair:
    """The paper's recipe: one standard deviation for all weights of the prior, one for the posterior."""
    sigma_p, sigma_q = pair
    return Gaussian.around(network, sigma_q), Gaussian.zero(network, sigma_p)


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
