"""The runs of `nonconvex`: two weights, many starts, a saddle in the plane, and hidden units that are all equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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

EQUAL_RATE, UNITS = 0.1, 8
LEFT = 0.1  # loss below which the saddle is left: equal units, which act as one, end at 0.2 or more
FINE, COARSE = 10, 100  # steps between measurements, and between those that are recorded
WAYS: dict[str, tuple[float, float, int | None]] = {  # rate, momentum, batch; None is the full batch
    "gradient descent": (EQUAL_RATE, 0.0, None),
    "momentum": (EQUAL_RATE, 0.9, None),
    FAST: (10 * EQUAL_RATE, 0.0, None),
    "SGD": (EQUAL_RATE, 0.0, 20),
}


def equal(s: Setting) -> Record:
    """A tanh network on two moons whose hidden units all begin alike, up to noise on their weights, or at 0."""
    data = generate_toy("moons", s["n"], derive(s["seed"], "moons") % 2**32, noise=0.1)
    found: dict[str, dict[str, Any]] = {name: {} for name in ("losses", "apart", "largest", "left")}
    for way in s["ways"]:
        losses, apart, largest = train_equal(data.X, data.y, s["start"], s["noise"], way, s["steps"], s["seed"])
        each, left = COARSE // FINE, np.flatnonzero(np.array(losses) < LEFT)
        found["losses"][way] = [float(f"{loss:.4g}") for loss in losses[::each]]
        found["apart"][way] = [float(f"{gap:.4g}") for gap in apart[::each]]
        found["largest"][way] = largest
        found["left"][way] = int(left[0]) * FINE if len(left) else None
    return {**found, "at": list(range(0, s["steps"] + 1, COARSE))}


def train_equal(
    X: np.ndarray, y: np.ndarray, start: str, noise: float, way: str, steps: int, seed: int
) -> tuple[list[float], list[float], float]:
    """Losses and the largest difference between two units, every 10 steps, and the largest weight at the end.

    The network is c + sum_j v_j tanh(<w_j, x> + b_j), its loss the logistic one. All sums run over examples or
    features, in one order for every unit. So units with equal weights get gradients that are equal to the last bit: a
    difference of exactly 0 is not an accident of rounding.
    """
    rate, momentum, batch = WAYS[way]
    inputs, sign = np.hstack([np.asarray(X, np.float64), np.ones((len(X), 1))]), np.where(y > 0, 1.0, -1.0)
    rng, order = (np.random.default_rng(derive(seed, purpose)) for purpose in ("units", "order"))
    one = rng.normal(0.0, 1.0, (inputs.shape[1] + 1, 1)) * (start == "equal")  # incoming weights, bias, outgoing weight
    one[-1] /= UNITS
    w = np.repeat(one, UNITS, axis=1) + noise * rng.normal(0.0, 1.0, (len(one), UNITS))
    shift, velocity, pull = 0.0, np.zeros_like(w), 0.0
    losses, apart = [], []
    for step in range(steps + 1):
        if step % FINE == 0:
            margin = sign * ((_hidden(w, inputs) * w[-1]).sum(1) + shift)
            losses.append(float(np.logaddexp(0, -margin).mean()))
            apart.append(float((w.max(axis=1) - w.min(axis=1)).max()))
        rows = slice(None) if batch is None else order.choice(len(X), batch, replace=False)
        x, labels = inputs[rows], sign[rows]
        hidden = _hidden(w, x)
        margin = labels * ((hidden * w[-1]).sum(1) + shift)
        delta = -labels * np.exp(-np.logaddexp(0, margin)) / len(labels)
        back = delta[:, None] * w[-1] * (1 - hidden**2)
        slopes = [(x[:, d, None] * back).sum(0) for d in range(x.shape[1])]
        velocity = momentum * velocity + np.stack([*slopes, (delta[:, None] * hidden).sum(0)])
        pull = momentum * pull + delta.sum()
        w, shift = w - rate * velocity, shift - rate * pull
    return losses, apart, float(np.abs(w).max())


def _hidden(w: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    total = inputs[:, 0, None] * w[0]
    for d in range(1, inputs.shape[1]):
        total = total + inputs[:, d, None] * w[d]
    return np.asarray(np.tanh(total))


KINDS: dict[str, Callable[[Setting], Record]] = {"surface": surface, "starts": starts, "plane": plane, "equal": equal}
