"""The runs of `nonconvex`: two weights, many starts, a saddle in the plane, and hidden units that are all equal."""

from __future__ import annotations

import numpy as np
import torch

from truerisk.data.toy import generate_toy
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.samples import samples
from truerisk.nets.two_weights import example_points, many_units_end, two_weights
from truerisk.seeds import derive
from truerisk.training.paths import OPTIMIZERS, descent_leaves_after, first_beyond, path, saddle
from truerisk.training.starts import train_starts

FAST = "gradient descent, rate x 10"  # as much as momentum 0.9 amounts to in the long run
RATE, TEN = 0.05, 0.5
RATES = {**dict.fromkeys(OPTIMIZERS, RATE), "AdaDelta": 1.0}  # AdaDelta has no rate of its own
LIMIT = 1.0  # |y| beyond which the saddle x^2 - y^2 is left
NEAR = 1e-6  # of the minimum or of the plateau, as a share of their distance


def surface(s: Setting) -> Record:
    """Gradient descent on w2 relu(w1 x) from many starts, and on sums of several such units."""
    net = two_weights(*example_points(s["n"]))
    rng = np.random.default_rng(derive(s["seed"], "starts"))
    found = []
    for units in s["units"]:
        drawn = rng.normal(0.0, s["scale"], (s["starts"], units, 2))
        ends = many_units_end(drawn, net, s["lr"], s["steps"])
        high, low = np.abs(ends - net.plateau), np.abs(ends - net.minimum)
        near = NEAR * (net.plateau - net.minimum)
        one = {"at_minimum": int((low <= near).sum()), "on_plateau": int((high <= near).sum())}
        if units == 1:
            said = net.reaches_valley(drawn[:, 0, 0], drawn[:, 0, 1])
            one["foretold"] = int(((low <= near) == said).sum())
        found.append(one)
    return {
        "product": net.product,
        "minimum": net.minimum,
        "plateau": net.plateau,
        "foretold": found[0]["foretold"],
        "at_minimum": [one["at_minimum"] for one in found],
        "elsewhere": [s["starts"] - one["at_minimum"] - one["on_plateau"] for one in found],
    }


def starts(s: Setting) -> Record:
    """End losses of one network from many random starts on the same examples."""
    train, _ = samples(s["data"], s["n"], s["n_test"], derive(s["seed"], "examples"), s.get("data_sha256"))
    X = np.asarray(train.X, np.float32).reshape(len(train), -1)
    X = X / (np.abs(X).max() or 1.0)
    y = train.y
    if s["labels"] == "random":
        y = np.random.default_rng(derive(s["seed"], "labels")).integers(train.classes, size=len(y))
    ends = train_starts(
        torch.from_numpy(X),
        torch.from_numpy(np.asarray(y, np.int64)),
        train.classes,
        [s["width"]],
        starts=s["starts"],
        epochs=s["epochs"],
        batch=s["batch"],
        lr=s["lr"],
        seed=derive(s["seed"], "training"),
    )
    if not np.isfinite(ends.losses).all():
        return {"diverged": True}
    return {
        "losses": [float(f"{loss:.5g}") for loss in ends.losses],
        "first_loss": float(ends.first_losses.mean()),
        "spread": ends.spread,
        "fitted": ends.fitted,
        "train_error": float(ends.errors.mean()),
        "diverged": False,
    }


def plane(s: Setting) -> Record:
    """Steps until each optimizer has left the saddle x^2 - y^2, from several distances to its ridge."""
    rng = np.random.default_rng(derive(s["seed"], "start"))
    x, side = float(rng.uniform(0.5, 1.5)), float(rng.choice([-1.0, 1.0]))
    offsets = [float(offset * np.exp(rng.uniform(-0.5, 0.5))) for offset in s["offsets"]]
    left: dict[str, list[int | None]] = {}
    for name in [*OPTIMIZERS, FAST]:
        own = name if name in OPTIMIZERS else "gradient descent"
        rate = RATES.get(name, TEN)
        walks = path(saddle(), [(x, side * y) for y in offsets], own, rate, s["steps"])
        left[name] = [first_beyond(walk, LIMIT) for walk in walks[..., 1].T]
    exact = [descent_leaves_after(y, LIMIT, RATE) for y in offsets]
    return {"offsets_drawn": offsets, "left": left, "closed_form": exact}


# ---- hidden units that are all equal -------------------------------------------------------------------------------

EQUAL_RATE, EQUAL_UNITS, APART = 0.1, 8, 1.0
WAYS = {  # (rate, momentum, batch): None is the full batch
    "gradient descent": (EQUAL_RATE, 0.0, None),
    "momentum": (EQUAL_RATE, 0.9, None),
    FAST: (10 * EQUAL_RATE, 0.0, None),
    "SGD": (EQUAL_RATE, 0.0, 20),
}


def equal(s: Setting) -> Record:
    """A tanh network on two moons whose hidden units all begin alike, up to noise on their weights."""
    data = generate_toy("moons", s["n"], derive(s["seed"], "moons") % 2**32, noise=0.1)
    found = {}
    for way in s["ways"]:
        rate, momentum, batch = WAYS[way]
        curve = train_equal(data.X, data.y, s["noise"], rate, momentum, batch, s["steps"], s["every"], s["seed"])
        left = first_beyond(np.array(curve["apart"]), APART)
        found[way] = {**curve, "left": None if left is None else left * s["every"]}
    return {"ways": found}


def train_equal(
    X: np.ndarray,
    y: np.ndarray,
    noise: float,
    rate: float,
    momentum: float,
    batch: int | None,
    steps: int,
    every: int,
    seed: int,
) -> dict[str, list[float]]:
    """Losses and the largest difference between two units, every so many steps of descent.

    All sums run over examples or features, in one order for every unit. So units with equal weights get gradients that
    are equal to the last bit, and a difference of exactly 0 is no accident of rounding.
    """
    X, sign = np.asarray(X, np.float64), np.where(np.asarray(y) > 0, 1.0, -1.0)
    rng = np.random.default_rng(derive(seed, "units"))
    one = rng.normal(0.0, 1.0, (X.shape[1] + 2, 1))  # weights, bias, and outgoing weight of a unit
    one[-1] /= EQUAL_UNITS
    w = np.repeat(one, EQUAL_UNITS, axis=1) + noise * rng.normal(0.0, 1.0, (len(one), EQUAL_UNITS))
    shift = 0.0
    inputs = np.hstack([X, np.ones((len(X), 1))])
    order, velocity, pull = np.random.default_rng(derive(seed, "order")), np.zeros_like(w), 0.0
    losses, apart = [], []
    for step in range(steps + 1):
        if step % every == 0:
            hidden = _hidden(w, inputs)
            losses.append(float(np.logaddexp(0, -sign * ((hidden * w[-1]).sum(1) + shift)).mean()))
            apart.append(float((w.max(axis=1) - w.min(axis=1)).max()))
        rows = slice(None) if batch is None else order.choice(len(X), batch, replace=False)
        x, labels = inputs[rows], sign[rows]
        hidden = _hidden(w, x)
        margin = labels * ((hidden * w[-1]).sum(1) + shift)
        delta = -labels / (1 + np.exp(margin)) / len(labels)
        back = delta[:, None] * w[-1] * (1 - hidden**2)
        slopes = [(x[:, d, None] * back).sum(0) for d in range(x.shape[1])]
        velocity = momentum * velocity + np.stack([*slopes, (delta[:, None] * hidden).sum(0)])
        pull = momentum * pull + delta.sum()
        w, shift = w - rate * velocity, shift - rate * pull
    return {"losses": losses, "apart": apart}


def _hidden(w: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    total = inputs[:, 0, None] * w[0]
    for d in range(1, inputs.shape[1]):
        total = total + inputs[:, d, None] * w[d]
    return np.tanh(total)
