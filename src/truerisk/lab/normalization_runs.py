"""The runs of `normalization`: small convolutional networks and transformers that learn for a fixed number of steps."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truerisk.data.scaling import normalize, shrink_images
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.nets.deep import convnet_of
from truerisk.nets.normalization import rescale_weights, start_from_data
from truerisk.nets.transformer import RowTransformer
from truerisk.seeds import derive, seeded_globals

KINDS: dict[str, str] = {  # the names that readers see
    "none": "none",
    "batch norm": "batch",
    "layer norm": "layer",
    "group norm": "group",
    "weight norm": "weight",
    "weight norm, data start": "weight",
    "weight standardization, group norm": "standardized",
    "scaled weight standardization": "scaled",
}
FIRST = 100  # examples from which weight norm starts


def build(setting: Setting, shape: tuple[int, ...], classes: int, X: Tensor) -> nn.Module:
    """The network of a setting; the weights of all layers but the last are multiplied by ``scale``."""
    s, kind = setting, KINDS[setting["norm"]]
    with seeded_globals(derive(s["seed"], "initial weights")):
        if s["net"] == "transformer":
            return RowTransformer(shape, classes, s["width"], norm=kind)
        net = convnet_of(shape, classes, s["width"], kind)
    assert isinstance(net, nn.Sequential)
    rescale_weights(net[:-1], s["scale"])
    if s["norm"] == "weight norm, data start":
        start_from_data(net[:-1], X[:FIRST])
    return net


def run(setting: Setting) -> Record:
    """Train one network; loss and errors in eval mode. A loss that is not finite, or above guessing, is guessing."""
    s = setting
    train, test = samples(s["data"], s["n"], s["n_test"], derive(s["seed"], "examples"), s.get("data_sha256"))
    train, test = normalize(shrink_images(train, s["side"]), shrink_images(test, s["side"]))
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    net = build(s, train.input_shape, train.classes, X)
    steps = max(1, s["examples"] // s["batch"])
    generator = torch.Generator().manual_seed(derive(s["seed"], "batches"))
    if s["net"] == "transformer":
        optimizer: torch.optim.Optimizer = torch.optim.Adam(net.parameters(), s["lr"])
    else:
        optimizer = torch.optim.SGD(net.parameters(), s["lr"], momentum=0.9)
    net.train()
    losses = []
    for k in range(steps):
        optimizer.param_groups[0]["lr"] = s["lr"] * 0.5 * (1 + math.cos(math.pi * k / steps))
        batch = torch.randperm(len(X), generator=generator)[: s["batch"]]
        optimizer.zero_grad()
        loss = F.cross_entropy(net(X[batch]), y[batch])
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    guessing = math.log(train.classes)
    found, train_error = counted(net, X, y)
    test_error = counted(net, torch.from_numpy(test.X), torch.from_numpy(test.y))[1]
    own = counted(net, X, y, own=True)[1]
    return {
        "loss": found if found < guessing else guessing,
        "lost": not found < guessing,
        "train_error": train_error,
        "test_error": test_error,
        "batch_error": own,
        "path": [round(value, 4) if value < 9 else 9.0 for value in losses[:: max(1, steps // 20)]],
    }


@torch.no_grad()
def counted(net: nn.Module, X: Tensor, y: Tensor, own: bool = False) -> tuple[float, float]:
    """(mean cross-entropy, share of errors) with running averages, or with those of all examples (``own``).

    Outputs that are not numbers are errors.
    """
    net.train(own)
    logits = net(X)
    wrong = ~((logits.argmax(dim=1) == y) & logits.isfinite().all(dim=1))
    return float(F.cross_entropy(logits, y)), float(wrong.double().mean())
