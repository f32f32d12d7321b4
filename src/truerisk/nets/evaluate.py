"""Count what a deterministic network gets wrong."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

ROWS, NUMBERS = 1_000, 2**18  # of a chunk, at most: what stays near the processor is faster
TIE = {torch.float64: 1e-9, torch.float32: 1e-4}  # relative gap of two logits that rounding may close


def margins(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """(logit of the label minus the largest other logit, larger absolute value of the two) of each row.

    >>> margins(torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([2]))
    (tensor([-1.]), tensor([3.]))
    """
    own = logits.gather(1, y[:, None])[:, 0]
    others = logits.scatter(1, y[:, None], -torch.inf).amax(dim=1)
    scale = torch.maximum(own.abs(), torch.where(others == -torch.inf, own, others).abs())
    if logits.shape[1] == 2 and len(logits) and not bool(logits[:, 0].any()):
        # One logit against 0 (``adapt``): its own size does not show what it was rounded from, that of others does.
        finite = scale[scale.isfinite()]
        scale = finite.max().expand(len(scale)) if len(finite) else scale
    return own - others, scale


class Tally(NamedTuple):
    """Wrong answers, counted for three purposes.

    ``errors``: a tie or a NaN is an error, so that an upper bound stays true however ties are broken. ``near_ties``:
    what rounding elsewhere could flip. ``sure``: errors without near ties and NaNs, so that a lower bound stays true.
    ``answered``: labels that the network gives here, ties broken as it does, which are wrong.
    """

    errors: int
    near_ties: int
    sure: int
    answered: int

    def __add__(self, other: tuple[int, ...]) -> Tally:  # type: ignore[override]
        return Tally(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING = Tally(0, 0, 0, 0)


def tally(logits: Tensor, y: Tensor) -> Tally:
    """The wrong answers among these outputs.

    >>> tally(torch.tensor([[2.0, 1.0], [0.0, 0.0], [1.0, 2.0]]), torch.tensor([0, 0, 0]))
    Tally(errors=2, near_ties=1, sure=1, answered=1)
    """
    margin, scale = margins(logits, y)
    close = margin.abs() <= TIE.get(logits.dtype, 1e-2) * scale
    wrong = logits.argmax(dim=1) != y
    return Tally(*(int(each.sum()) for each in (~(margin > 0), close, (margin < 0) & ~close, wrong)))


def count_wrong(module: nn.Module, X: np.ndarray, y: np.ndarray) -> Tally:
    """The wrong answers of ``module``, which must be in eval mode, in its own precision."""
    if not len(X):
        return NOTHING
    return tally(outputs(module, X), torch.from_numpy(y))  # at once: how many rows share a chunk must not matter


def count_errors(module: nn.Module, X: np.ndarray, y: np.ndarray) -> tuple[int, int]:
    """(errors, near ties) of ``module``, which must be in eval mode, in its own precision."""
    found = count_wrong(module, X, y)
    return found.errors, found.near_ties


def predict_labels(module: nn.Module, X: np.ndarray) -> np.ndarray:
    """The class with the largest output for each row of ``X``."""
    return outputs(module, X).argmax(dim=1).numpy()


def outputs(module: nn.Module, X: np.ndarray) -> Tensor:
    """All outputs of ``module``, which must be in eval mode, in its own precision."""
    return torch.cat([logits for _, logits in _logits(module, X)])


def precision(module: nn.Module) -> torch.dtype:
    """The dtype in which a module wants its inputs: that of its first parameter."""
    return next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)


def has_table(module: nn.Module) -> bool:
    """Whether a network looks integers up in a table."""
    return any(isinstance(layer, nn.Embedding | nn.EmbeddingBag) for layer in module.modules())


def is_lazy(module: nn.Module) -> bool:
    """Whether some layers do not know their shapes yet."""
    return any(nn.parameter.is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers()))


def as_input(X: np.ndarray, dtype: torch.dtype) -> Tensor:
    """Inputs as a network takes them: integers (token ids) as they are, real numbers in its precision."""
    x = torch.from_numpy(X)
    return x.to(dtype) if x.is_floating_point() else x


@contextmanager
def quiet_vmap() -> Iterator[None]:
    """Without torch's warning that vmap takes some layers (an EmbeddingBag) example by example."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is a performance drop")
        yield


def _logits(module: nn.Module, X: np.ndarray) -> Iterator[tuple[slice, Tensor]]:
    dtype = precision(module)
    each = max(1, min(ROWS, NUMBERS // max(1, X[:1].size)))
    for start in range(0, len(X), each):
        rows = slice(start, start + each)
        with torch.no_grad():  # closed before the yield: a caller that stops midway must not leave gradients off
            logits = module(as_input(X[rows], dtype))
        yield rows, logits


def identical(a: Tensor, b: Tensor) -> bool:
    """The same numbers in the same form, bit for bit: the sign of a zero is a bit that a network could read.

    >>> zero = torch.zeros(1)
    >>> torch.equal(zero, -zero), identical(zero, -zero), identical(zero, zero)
    (True, False, True)
    """
    if a.dtype != b.dtype or a.shape != b.shape or not torch.equal(a, b):
        return False
    return not a.is_floating_point() or torch.equal(a.signbit(), b.signbit())
