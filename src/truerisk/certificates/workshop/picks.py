"""Which examples a network is trained on next, for ``methods.pick_to_learn``, whose proof this code must keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.certificates.settings import Settings
from truerisk.certificates.workshop.trainer import Trainer
from truerisk.data import Split, shuffle
from truerisk.errors import VerificationError
from truerisk.nets import check_network, margins, outputs, tally
from truerisk.seeds import derive

REPLAY = 3_000  # rows of the prior that are trained on beside the picks

Model = TypeVar("Model")


def pick(
    model: Model,
    judge: Callable[[Model], tuple[np.ndarray, np.ndarray]],
    learn: Callable[[Model, int, np.ndarray], Model],
    batch: int,
    rounds: int,
) -> tuple[Model, np.ndarray, np.ndarray]:
    """(last model, positions of the picks in their order, the round of each).

    ``judge(model)`` says of each certifying example whether it is wrong, and its loss. ``learn(model, round, picks)``
    trains on; it may use nothing of the certifying examples but the picks.
    """
    picks, numbers = np.empty(0, np.int64), np.empty(0, np.int64)
    for number in range(1, rounds + 1):
        wrong, loss = judge(model)
        candidates = np.setdiff1d(np.flatnonzero(wrong), picks)  # sorted: a stable sort then keeps positions in order
        worst = candidates[np.argsort(-loss[candidates], kind="stable")][:batch]
        if not len(worst):
            break
        picks = np.concatenate([picks, worst])
        numbers = np.concatenate([numbers, np.full(len(worst), number)])
        model = learn(model, number, picks)
    return model, picks, numbers


def picks_from(
    trainer: Trainer, first: nn.Module, parts: Split, batch: int, rounds: int
) -> tuple[nn.Module, np.ndarray, np.ndarray]:
    """``pick`` with networks: warm starts, the plan "picks", and rows of the prior so that they are not forgotten."""
    settings, data, rows = trainer.settings, trainer.data, parts.certify
    brief = replace(trainer, work=None)  # a round is short: a checkpoint of each would only fill the disk
    X, labels = data.X[rows], torch.from_numpy(data.y[rows])

    def judge(network: nn.Module) -> tuple[np.ndarray, np.ndarray]:
        logits = outputs(network, X).double()
        wrong = ~(margins(logits, labels)[0] > 0)
        loss = nn.functional.cross_entropy(logits, labels, reduction="none").nan_to_num(nan=torch.inf)
        return wrong.numpy(), loss.numpy()

    def learn(network: nn.Module, number: int, picks: np.ndarray) -> nn.Module:
        again = replayed(settings, parts.prior, number, len(picks))
        return brief.continued(network, f"picks-{number}", np.concatenate([again, rows[picks]]), role="picks")

    return pick(first, judge, learn, batch, rounds)


def replayed(settings: Settings, prior: np.ndarray, number: int, picked: int) -> np.ndarray:
    """Rows of the prior that round ``number`` trains on: all of them where a user's function starts anew."""
    if settings.own_training or len(prior) <= REPLAY:
        return prior
    return prior[shuffle(len(prior), derive(settings.seed, "replay", number, picked))[:REPLAY]]


def stored(rows: np.ndarray, rounds: np.ndarray) -> dict[str, Tensor]:
    """The array that keeps the picks in their order, and the round of each."""
    return {"rows": torch.from_numpy(rows), "rounds": torch.from_numpy(rounds)}


def checked_picks(arrays: Mapping[str, Tensor], certify: np.ndarray, batch: int, most: int) -> tuple[np.ndarray, int]:
    """The picks, distinct certification rows in rounds that follow one another and are not too large; the last."""
    sound = arrays.keys() == {"rows", "rounds"} and all(t.ndim == 1 and t.dtype == torch.int64 for t in arrays.values())
    if sound:
        rows, rounds = arrays["rows"].numpy(), arrays["rounds"].numpy()
        sound = len(rows) == len(rounds) == len(np.unique(rows)) and bool(np.isin(rows, certify).all())
        sound = sound and _follow(rounds, batch, most)
    if not sound:
        raise VerificationError(
            "picks.safetensors must hold distinct certification rows and the round of each; certify again."
        )
    return rows, int(rounds[-1]) if len(rounds) else 0


def wrong_of_the_rest(network: nn.Module, X: np.ndarray, y: np.ndarray, left: np.ndarray) -> tuple[int, int]:
    """Errors and near ties of a network on the examples that are ``left``; all are computed together."""
    logits, labels = outputs(network, X), torch.from_numpy(y)
    found = tally(logits[left], labels[left])
    return found.errors, found.near_ties


def untrained(trainer: Trainer) -> nn.Module:
    """The seeded initial network, in eval mode."""
    return check_network(trainer.fresh(), trainer.data.X, trainer.data.classes)


def _follow(rounds: np.ndarray, batch: int, most: int) -> bool:
    """Rounds 1, 2, 3, ... of at most ``batch`` picks each, in this order."""
    if not len(rounds):
        return True
    steps = np.diff(rounds, prepend=0)
    sizes = np.unique(rounds, return_counts=True)[1]
    return bool(rounds[0] == 1 and (steps >= 0).all() and (steps <= 1).all() and sizes.max() <= batch) and (
        int(rounds[-1]) <= most
    )
