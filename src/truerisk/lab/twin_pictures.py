"""The pictures of `stability`: training examples that matter most and least to a network."""

from __future__ import annotations

import numpy as np

from truerisk.data.scaling import is_images
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.figure import Exhibit, Images
from truerisk.lab.samples import samples
from truerisk.lab.strips import class_words, strip, strips
from truerisk.lab.twin_runs import prepared
from truerisk.seeds import derive
from truerisk.training.swift import uniform_weights
from truerisk.training.twins import Twins

TILES, CANDIDATES, FEW, PASSES = 8, 60, 200, 40


def demo(setting: Setting) -> Record:
    """Training examples whose replacement changes their own loss most and least."""
    most = min(CANDIDATES, setting["n"] // 3)
    s = {**setting, "n": min(FEW, setting["n"] + setting["twins"] - most), "twins": most}
    raw, _ = samples(s["data"], s["n"] + most, s["n_test"], derive(s["seed"], "examples"), s.get("data_sha256"))
    if not is_images(raw):
        return {}
    sets, own = prepared(s), np.arange(most)
    start = uniform_weights([sets.X.shape[1], *s["hidden"], sets.classes], derive(s["seed"], "demo weights"))
    twins = Twins(start, sets.X, sets.y, own, sets.X_new, sets.y_new, rates=[0.04])
    for _ in twins.epochs(PASSES, batch_size=s["batch_size"], seed=derive(s["seed"], "demo order")):
        pass
    p = twins.probabilities(sets.X[own])[0][:, own, sets.y[own]]
    with_it, without = p[0], p[1 + own, own]
    order = np.argsort(without - with_it)
    words = class_words(raw, raw.y[own])
    rows = {"matter most": order[:TILES], "matter least": order[::-1][:TILES]}
    told = [f"{word}: {100 * a:.0f} → {100 * b:.0f}%" for word, a, b in zip(words, with_it, without, strict=True)]
    made = [strip(name, raw.X[which], [told[i] for i in which]) for name, which in rows.items()]
    return {"strips": made, "examples": s["n"], "pairs": most}


def pictures(record: Record) -> list[Exhibit]:
    if not record.get("strips"):
        return []
    return [
        Images(
            "examples",
            "Which examples matter?",
            f"Of {record['pairs']} training examples (of {record['examples']:,}), those whose replacement changes the "
            "network most and least. Below each: its class, and the probability of that class with the example in the "
            "training set and without it.",
            strips(record),
        )
    ]
