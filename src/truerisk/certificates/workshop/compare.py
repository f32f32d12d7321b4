"""Two networks compared on inputs without labels, for ``methods.disagreement``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.certificates.counts import Count, errors_of
from truerisk.certificates.draws import UNLABELLED, Draws, equal_rows, unexplained
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.methods.base import STOCHASTIC, Method
from truerisk.certificates.settings import Settings
from truerisk.certificates.workshop.trainer import Trainer
from truerisk.data import Data
from truerisk.errors import TrueriskError, VerificationError
from truerisk.pacbayes.monte_carlo import NORMALS
from truerisk.seeds import derive

if TYPE_CHECKING:
    from truerisk.certificates.frozen import Frozen

LEAST = 10  # unlabeled inputs
PIECE = 100  # inputs answered at a time by a stochastic surrogate


def with_target(evidence: Evidence, trainer: Trainer, target: str, inputs: str) -> Evidence:
    """The surrogate's evidence together with the given network and the inputs on which the two are compared."""
    if trainer.arch.given is None or trainer.unlabelled is None:
        raise TrueriskError(
            "disagreement needs a trained network and inputs that it never saw; give --weights and --unlabeled."
        )
    return evidence.having({target: trainer.arch.given}, arrays={inputs: {"X": torch.from_numpy(trainer.unlabelled)}})


def settle_inputs(X: np.ndarray, data: Data, draws: Draws) -> Draws:
    """What is said about equal rows, refused where the inputs cannot be fresh draws of what ``data`` is drawn from."""
    _refuse_shape(X, data)
    return draws.between(X, data.X, UNLABELLED, "the labeled data")


def checked_inputs(stored: Mapping[str, Tensor], data: Data, settings: Settings) -> np.ndarray:
    """The unlabeled inputs of a certificate; all equal rows must be among those that its settings speak of.

    Nothing else stands between an input that is listed twice and a smaller bound.
    """
    if stored.keys() != {"X"} or stored["X"].dtype not in (torch.float32, torch.int64):
        raise VerificationError("the file of unlabeled inputs must hold one array of float32 or int64; certify again.")
    X = np.asarray(stored["X"].numpy())
    _refuse_shape(X, data)
    within, across = equal_rows(X, data.X)
    repeats = len({*within, *across})
    if repeats and not (settings.repeats_are_draws or settings.row_ids):
        raise TrueriskError(unexplained(repeats, len(X)))
    if repeats != settings.repeats:
        raise TrueriskError(
            f"{repeats:,} unlabeled inputs equal another row, but the settings mention {settings.repeats:,}; certify "
            "again."
        )
    return X


def _refuse_shape(X: np.ndarray, data: Data) -> None:
    if X.dtype != data.X.dtype or X.shape[1:] != data.X.shape[1:] or len(X) < LEAST or not np.isfinite(X).all():
        raise TrueriskError(
            f"the unlabeled inputs have shape {X.shape} and type {X.dtype}; give at least {LEAST} finite inputs of "
            f"shape {data.input_shape} and type {data.X.dtype}, as in the data."
        )


def answers(method: Method, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> np.ndarray:
    """The surrogate's answers; a stochastic one gets so few inputs at a time that each has weights of its own."""
    return np.concatenate(list(_answers(method, settings, frozen, X, seed)))


def differences(target: nn.Module, X: np.ndarray, labels: np.ndarray, drawn: bool) -> Count:
    """Errors of the target if the surrogate's answers were right; a tie or a NaN of the target differs."""
    return replace(errors_of(target, X, labels), drawn=drawn)


def _answers(method: Method, settings: Settings, frozen: Frozen, X: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    if method.predictor != STOCHASTIC:
        yield method.predict(settings, frozen, X, seed)
        return
    # ``plan_draws`` lets inputs share a drawn network only where there are more inputs than it may draw networks.
    largest = max((g.size for g in frozen.evidence.gaussians.values()), default=1)
    step = max(1, min(PIECE, NORMALS // largest))
    for start in range(0, len(X), step):
        yield method.predict(settings, frozen, X[start : start + step], derive(seed, start))
