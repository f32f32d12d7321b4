"""Pictures of `coherent-gradients`: cosines between gradients, and the examples that agree most and least."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from truerisk.data import Data
from truerisk.data.scaling import is_images
from truerisk.lab.coherent_effects import HALF, RANDOM, REAL
from truerisk.lab.coherent_runs import as_module, epochs_of, learned, tensors
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.figure import Axis, Exhibit, Figure, Images, Strip, Tile
from truerisk.lab.images import pixels
from truerisk.lab.marks import Map
from truerisk.lab.rows import Row
from truerisk.measures.coherence import coherence
from truerisk.nets.signals import signals
from truerisk.seeds import derive
from truerisk.training.swift import Weights, uniform_weights

LABELS = {REAL: "true labels", HALF: "50% redrawn", RANDOM: "random labels"}
PAIRS, MOST, EPOCHS, TILES = 40, 500, 3, 12  # examples of the map; training examples, epochs, and images of the demo


def demo(setting: Setting) -> Record:
    """Cosines between gradients for true and for random labels, and the examples that agree most and least."""
    s = {**setting, "n": min(setting["n"], MOST), "epochs": EPOCHS, "seed": derive(setting["seed"], "demo run") % 2**31}
    maps = {}
    for noise in (REAL, RANDOM):
        train, _, _ = learned({**s, "noise": noise})
        rows = np.argsort(train.y[:PAIRS], kind="stable")
        maps[LABELS[noise]] = _cosines(_trained({**s, "noise": noise}, train), train.take(rows.tolist()))
    return {"maps": maps, "strips": _extremes({**s, "noise": HALF})}


def _trained(s: Setting, train: Data) -> Weights:
    weights = uniform_weights([train.X[0].size, s["hidden"], train.classes], derive(s["seed"], "weights"), glorot=True)
    for _ in epochs_of(s, weights, train):
        pass
    return weights


def _cosines(weights: Weights, data: Data) -> list[list[float]]:
    """cos(g_i, g_j) of all pairs, from the factors of each layer."""
    products = sum(
        (one.deltas @ one.deltas.T) * (one.inputs @ one.inputs.T + 1)
        for one in signals(as_module(weights), *tensors(data)).signals
    )
    norms = torch.as_tensor(products).diagonal().clamp(min=1e-30).sqrt()
    return [[round(float(c), 2) for c in row] for row in products / norms / norms[:, None]]


def _extremes(s: Setting) -> list[dict[str, Any]]:
    train, clean, _ = learned(s)
    if not is_images(train):
        return []
    found = coherence(as_module(_trained(s, train)), *tensors(train)).alignments.numpy()
    order = np.argsort(-found, kind="stable")
    strips: list[dict[str, Any]] = []
    for name, rows in (("best aligned", order[:TILES]), ("worst aligned", order[::-1][:TILES])):
        tiles = [
            {"pixels": pixels(train.X[i]), "label": int(train.y[i]), "cosine": round(float(found[i]), 2),
             "wrong": bool(train.y[i] != clean.y[i])}
            for i in rows
        ]  # fmt: skip
        strips.append({"name": name, "tiles": tiles})
    return strips


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    found: list[Exhibit] = [_map(record["maps"])] if record.get("maps") else []
    return [*found, _images(record["strips"])] if record.get("strips") else found


def _map(maps: dict[str, list[list[float]]]) -> Figure:
    cells = [
        {"x": x, "y": y, "cosine": value, "labels": labels}
        for labels in LABELS.values()
        for y, row in enumerate(maps.get(labels, ()))
        for x, value in enumerate(row)
        if x != y
    ]
    return Figure(
        "pairs",
        "Whose gradients point the same way?",
        f"Cosine between the gradients of two training examples, for {PAIRS} examples sorted by label, after "
        f"{EPOCHS} epochs. Blocks on the diagonal are examples with the same label. They remain with random labels, "
        "because one label always pushes the same outputs. Stronger blocks for true labels mean that the images have "
        "something in common as well.",
        cells,
        Axis("x", "example, sorted by label"),
        Axis("y", "example, sorted by label"),
        Map("cosine", "cosine"),
        facet="labels",
        group=None,
        claims=("real-above-random",),
    )


def _images(strips: Sequence[Row]) -> Images:
    return Images(
        "extremes",
        "Which examples agree with the sum?",
        f"Training examples whose gradients agree best and worst with the sum, after {EPOCHS} epochs with half of the "
        "labels redrawn; below each, its label and the cosine. Wrong labels are colored. If the worst row is colored, "
        "alignment finds mislabeled examples before the network fits them.",
        [
            Strip(
                strip["name"],
                [Tile(t["pixels"], f"{t['label']}: {t['cosine']:.2f}", t["wrong"]) for t in strip["tiles"]],
            )
            for strip in strips
        ],
        claims=("pristine-aligned",),
    )
