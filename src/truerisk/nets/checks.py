"""Is this network something a certificate can speak about? All problems at once, not the first."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.seeds import torch_seed

PROBE = 16  # examples that the checks run on
SAME = 1e-3  # relative difference of outputs that rounding alone does not explain (float32, deep networks)


def check_network(module: nn.Module, X: np.ndarray, classes: int) -> nn.Module:
    """An eval-mode copy of ``module``, or an error that lists everything wrong with it.

    Refused: weights that are not finite, outputs of the wrong shape or width, outputs that are random
    in eval mode, outputs of one example that depend on the others in its batch.
    """
    twin = copy.deepcopy(module).eval()
    tensors = list(twin.named_parameters()) + list(twin.named_buffers())
    broken = [name for name, t in tensors if t.is_floating_point() and not bool(t.isfinite().all())]
    problems = [f"its weights are not finite ({', '.join(broken[:5])})"] if broken else []
    problems += _output_problems(twin, torch.from_numpy(X[:PROBE]), classes, finite_weights=not broken)
    if problems:
        raise TrueriskError(f"this network can't be certified: {'; '.join(problems)}.")
    return twin


def _output_problems(module: nn.Module, x: Tensor, classes: int, *, finite_weights: bool) -> list[str]:
    try:
        first = logits(module, x, seed=0)
    except Exception as error:
        shape = tuple(x.shape[1:])
        detail = " ".join(str(error).split())
        return [f"it does not run on inputs of shape {shape} ({type(error).__name__}: {detail})"]
    if first.ndim != 2 or first.shape[0] != len(x):
        return [f"its output has shape {tuple(first.shape)}, but one row of {classes} logits an example is needed"]
    if first.shape[1] < classes:
        return [f"its output has {first.shape[1]} columns, but the labels need {classes} (one for each class)"]
    problems = []
    if finite_weights and not bool(first.isfinite().all()):
        problems.append("its outputs are not finite")
    if not torch.equal(first, logits(module, x, seed=1)):
        problems.append(
            "it is still random in eval mode (is dropout or noise applied without looking at self.training?); "
            "make it deterministic in eval mode"
        )
    elif _differ(first[: len(x) // 2], logits(module, x[: len(x) // 2], seed=0)):
        problems.append(
            "its output for an example depends on the other examples of the batch; use running statistics in eval mode"
        )
    return problems


def logits(module: nn.Module, x: Tensor, seed: int) -> Tensor:
    """Outputs with torch's global generator seeded: two seeds that disagree reveal randomness."""
    with torch.no_grad(), torch_seed(seed):
        return module(x)


def _differ(a: Tensor, b: Tensor) -> bool:
    scale = a.abs().max().clamp_min(1e-30)
    return bool(((a - b).abs().max() / scale) > SAME)
