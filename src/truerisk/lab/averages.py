"""The families of `averaging`: each trains its members on the same examples and counts errors of their averages.

A family is a function of the setting, the training examples (with the labels that were given), and the test examples.
Records have numbers of members in ``at``, and for each of them the errors of an average of that many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from truerisk.data import Data
from truerisk.lab.experiment import Record, Setting
from truerisk.nets import mlp, outputs
from truerisk.nets.dropout import dropout_mlp, masked_probabilities
from truerisk.nets.perfect_trees import perfect_trees
from truerisk.nets.votes import average_errors, running_shares, voting_margins
from truerisk.plan import Plan
from truerisk.seeds import derive, seeded_globals
from truerisk.training.loop import run
from truerisk.training.snapshots import snapshots

SIZES = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500)  # members of an average
LOW = 0.1  # the share of examples whose margin is at most the "low margin"


def _rows(data: Data) -> np.ndarray:
    return data.X.reshape(len(data), -1)


def _scaled(train: Data, *others: Data) -> list[Data]:
    """Inputs for networks, in units of the largest absolute training input: images from 0 to 1 stay as they are."""
    unit = float(np.abs(train.X).max()) or 1.0
    return [replace(data.floats(), X=data.X / np.float32(unit)) for data in (train, *others)]


def _exchangeable(members: int, on_train: np.ndarray, on_test: np.ndarray, train: Data, test: Data) -> Record:
    at = [k for k in SIZES if k <= members]
    errors = average_errors(on_test, test.y, at)
    return {"at": at, "test_errors": errors, "train_errors": average_errors(on_train, train.y, at)}


def pert(s: Setting, train: Data, test: Data) -> Record:
    forest = perfect_trees(train.X, train.y, s["members"], derive(s["seed"], "trees"), train.classes)
    return _exchangeable(s["members"], forest.labels(train.X), forest.labels(test.X), train, test)


def bagging(s: Setting, train: Data, test: Data) -> Record:
    """Trees on bootstrap samples, and for comparison one tree on all examples."""
    from sklearn.tree import DecisionTreeClassifier

    X, Z, rng = _rows(train), _rows(test), np.random.default_rng(derive(s["seed"], "bootstrap"))
    on_train, on_test = [], []
    for k in range(s["members"]):
        drawn = rng.integers(len(X), size=len(X))
        tree = DecisionTreeClassifier(random_state=derive(s["seed"], "tree", k) % 2**32).fit(X[drawn], train.y[drawn])
        on_train.append(tree.predict(X))
        on_test.append(tree.predict(Z))
    whole = DecisionTreeClassifier(random_state=derive(s["seed"], "tree") % 2**32).fit(X, train.y)
    record = _exchangeable(s["members"], np.array(on_train), np.array(on_test), train, test)
    return {**record, "whole_error": float(np.mean(whole.predict(Z) != test.y))}


def boosted(X: np.ndarray, y: np.ndarray, rounds: int, depth: int, seed: int) -> tuple[list[Any], np.ndarray]:
    """The trees of AdaBoost and their weights.

    It ends early where a tree has no weighted training error, or is no better than guessing. Where even the first tree
    is not, because equal inputs have different labels, that tree is all there is.
    """
    from sklearn.ensemble import AdaBoostClassifier
    from sklearn.tree import DecisionTreeClassifier

    weak = DecisionTreeClassifier(max_depth=depth)
    try:
        found = AdaBoostClassifier(weak, n_estimators=rounds, random_state=seed % 2**32).fit(X, y)
    except ValueError as error:
        if "worse than random" not in str(error):
            raise
        return [weak.fit(X, y)], np.ones(1)
    return found.estimators_, found.estimator_weights_[: len(found.estimators_)]


def boosting(s: Setting, train: Data, test: Data) -> Record:
    """Errors and margins by round, and where the training error first is 0 (a fit that is lost later still counts)."""
    X, Z = _rows(train), _rows(test)
    trees, weights = boosted(X, train.y, s["rounds"], s["depth"], derive(s["seed"], "boosting"))
    every = range(1, len(trees) + 1)
    path: dict[str, list[float]] = {"train": [], "test": [], "smallest": [], "low": []}
    on_train, on_test = (np.array([tree.predict(x) for tree in trees]) for x in (X, Z))
    for shares in running_shares(on_train, train.classes, every, weights):
        margins = voting_margins(shares, train.y)
        path["train"].append(float(np.mean(shares.argmax(axis=1) != train.y)))
        path["smallest"].append(round(float(margins.min()), 6))
        path["low"].append(round(float(np.quantile(margins, LOW)), 6))
    for shares in running_shares(on_test, train.classes, every, weights):
        path["test"].append(float(np.mean(shares.argmax(axis=1) != test.y)))
    fitted = next((k for k in every if path["train"][k - 1] == 0), None)
    at = [k for k in SIZES if k <= len(trees)]
    return {
        "at": at,
        **{f"{name}_errors": [path[name][k - 1] for k in at] for name in ("train", "test")},
        **{f"{name}_margins": [path[name][k - 1] for k in at] for name in ("smallest", "low")},
        "fitted": fitted,
        "at_fit": {name: path[name][fitted - 1] for name in path} if fitted else None,
        "at_end": {name: path[name][-1] for name in path},
    }


def dropout(s: Setting, train: Data, test: Data) -> Record:
    train, test = _scaled(train, test)
    with seeded_globals(derive(s["seed"], "weights")):
        net = dropout_mlp(train.input_shape, train.classes, (s["width"], s["width"]), s["p"])
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)

    def loss(batch: Tensor) -> Tensor:
        return F.cross_entropy(net(X[batch]), y[batch])

    plan = Plan(epochs=s["epochs"], batch_size=50, lr=s["lr"], seed=derive(s["seed"], "batches"))
    run(net.train(), [{"params": list(net.parameters())}], loss, len(train), plan)
    masked = partial(masked_probabilities, net, masks=s["members"], seed=derive(s["seed"], "masks"))
    scaled = float(np.mean(outputs(net.eval(), test.X).numpy().argmax(axis=1) != test.y))
    return {**_exchangeable(s["members"], masked(train.X), masked(test.X), train, test), "scaled_error": scaled}


def snapshot(s: Setting, train: Data, test: Data) -> Record:
    """Averages of the last snapshots, and one long cycle with the same number of epochs from the same weights."""
    train, test = _scaled(train, test)
    plan = Plan(epochs=s["epochs"], batch_size=50, optimizer="sgd", lr=s["lr"], seed=derive(s["seed"], "batches"))
    ends = {}
    for cycles in (s["cycles"], 1):
        with seeded_globals(derive(s["seed"], "weights")):
            net = mlp(train.input_shape, train.classes, (s["width"], s["width"]))
        ends[cycles] = snapshots(net, train, plan, cycles)[::-1]  # the last one first

    def errors(nets: list[Any], data: Data) -> list[float]:
        each = np.array([outputs(net, data.X).softmax(dim=1).numpy() for net in nets])
        return [float(np.mean(each[: k + 1].sum(axis=0).argmax(axis=1) != data.y)) for k in range(len(each))]

    own, alone = ends[s["cycles"]], [errors([net], test)[0] for net in ends[s["cycles"]]]
    one_run = errors(ends[1], test)[0]
    found = {"test_errors": errors(own, test), "train_errors": errors(own, train)}
    return {"at": list(range(1, len(own) + 1)), **found, "cycle_errors": alone[::-1], "one_run_error": one_run}


FAMILIES: dict[str, Callable[[Setting, Data, Data], Record]] = {
    "pert": pert,
    "bagging": bagging,
    "boosting": boosting,
    "dropout": dropout,
    "snapshots": snapshot,
}
