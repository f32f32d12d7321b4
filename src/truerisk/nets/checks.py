"""Is this network something a certificate can speak about? All problems at once, not the first."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.nets.evaluate import as_input, has_table, is_lazy, precision
from truerisk.nets.tokens import wants_integers
from truerisk.seeds import seeded_globals

PROBE = 16  # examples that the checks run on
SAME = 1e-3  # relative difference of outputs that rounding alone does not explain (float32, deep networks)


def check_network(module: nn.Module, X: np.ndarray, classes: int) -> nn.Module:
    """An eval-mode copy of ``module``, or an error that lists everything wrong with it.

    Refused: weights that are not finite, outputs of the wrong shape or width, outputs that are random
    in eval mode, outputs of one example that depend on the others in its batch.
    """
    twin = copy.deepcopy(module).eval()
    if is_lazy(twin):
        raise TrueriskError("this network can't be certified: it has lazy layers; run it once on one input first.")
    extra = [name for name, value in twin.state_dict().items() if not isinstance(value, Tensor)]
    if extra:
        raise TrueriskError(
            f"this network can't be certified: it saves more than tensors ({', '.join(extra[:5])}); keep numbers in "
            "parameters or buffers."
        )
    tensors = list(twin.named_parameters()) + list(twin.named_buffers())
    broken = [name for name, t in tensors if t.is_floating_point() and not bool(t.isfinite().all())]
    problems = [f"its weights are not finite ({', '.join(broken[:5])})"] if broken else []
    x = as_input(_probe(X), precision(twin))
    problems += _output_problems(twin, x, classes, finite_weights=not broken)
    if problems:
        raise TrueriskError(f"this network can't be certified: {'; '.join(problems)}.")
    return twin


def _probe(X: np.ndarray) -> np.ndarray:
    """The first examples; of integers also those with the smallest and the largest one, which a table may not hold."""
    if X.dtype.kind != "i" or not len(X):
        return X[:PROBE]
    flat = X.reshape(len(X), -1)
    return X[[*range(min(PROBE, len(X))), int(flat.min(axis=1).argmin()), int(flat.max(axis=1).argmax())]]


def _output_problems(module: nn.Module, x: Tensor, classes: int, *, finite_weights: bool) -> list[str]:
    pristine = copy.deepcopy(module)
    before = copy.deepcopy(module.state_dict())
    try:
        first = logits(module, x, seed=0)
    except Exception as error:
        shape = tuple(x.shape[1:])
        detail = " ".join(str(error).split())
        hint = ""
        if x.is_floating_point() and (has_table(module) or wants_integers(error)):
            hint = "; it looks integers up in a table, but the inputs are real numbers (bytes / 255?), so give int64"
        elif x.ndim == 3 and any(isinstance(layer, nn.Conv2d) for layer in module.modules()):
            hint = "; images need an axis for their colors, so give X[:, None]"
        return [f"it does not run on inputs of shape {shape} ({type(error).__name__}: {detail}){hint}"]
    if not isinstance(first, Tensor):
        kind = type(first).__name__
        return [f"its output is a {kind}, but one tensor of logits is needed; return only the logits from forward"]
    if first.ndim != 2 or first.shape[0] != len(x):
        hint = "; add flatten(1)" if first.ndim > 2 and first.flatten(1).shape == (len(x), classes) else ""
        return [f"its output has shape {tuple(first.shape)}, but must have {classes} logits for each of {len(x)}{hint}"]
    if first.shape[1] < classes:
        from_one = first.shape[1] == classes - 1 or (first.shape[1], classes) == (1, 3)
        hint = "; if your labels start at 1, give y - 1" if from_one else ""
        largest = f"the largest label is {classes - 1}, which needs {classes} (one for each class)"
        return [f"its output has {first.shape[1]} columns, but {largest}{hint}"]
    if not first.is_floating_point():
        return [f"its outputs are {str(first.dtype).removeprefix('torch.')}, but must be real numbers (floats)"]
    problems = []
    after = module.state_dict()
    changed = [k for k, v in before.items() if not torch.allclose(v, after[k], rtol=0, atol=0, equal_nan=True)]
    if changed:
        problems.append(f"running it in eval mode changes {', '.join(changed[:5])}; it must only read them there")
    if finite_weights and not bool(first.isfinite().all()):
        problems.append("its outputs are not finite")
    if not torch.allclose(first, logits(module, x, seed=1), rtol=0, atol=0, equal_nan=True):
        problems.append(
            "it is still random in eval mode (is dropout or noise applied without looking at self.training?); "
            "make it deterministic in eval mode"
        )
    elif bool(first.isfinite().all()):  # nan differs from nan, also for one example alone
        alone = _alone(pristine, x)
        if alone is None:
            problems.append(
                "it does not run on one example alone: it depends on the other examples of the batch, or uses "
                "squeeze() without an axis"
            )
        elif _differ(first, alone):
            problems.append(
                "its output for an example depends on the other examples of the batch; use running statistics in eval "
                "mode"
            )
    return problems


def logits(module: nn.Module, x: Tensor, seed: int) -> Tensor:
    """Outputs with torch's global generator seeded: two seeds that disagree reveal randomness."""
    with torch.no_grad(), seeded_globals(seed):
        return module(x)


def _differ(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape:
        return True
    scale = a.abs().amax(dim=0, keepdim=True).clamp_min(1e-30)  # by column: a masked class must hide nothing
    return bool(((a - b).abs() > SAME * scale).any())


def _alone(module: nn.Module, x: Tensor) -> Tensor | None:
    """Outputs of each example by itself, each on a copy that has seen nothing before; None if that fails."""
    try:
        return torch.cat([logits(copy.deepcopy(module), row[None], seed=0) for row in x])
    except Exception:
        return None
