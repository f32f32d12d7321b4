"""Normalization layers.

Batch norm in eval mode is an affine map with known statistics, so it is exact: the running mean moves with the
input, gain and shift with the output. The others divide by a norm of their input plus eps: eps does not
scale, so their input is held; behind the gain log-scales are free again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from truerisk.symmetry.rules.contractions import reshaped
from truerisk.symmetry.rules.elementwise import add, mul
from truerisk.symmetry.tracer import NONE, Flow, Known, Move, Rule, Trace

WHY = "divides by a norm of its input plus eps, which does not scale"


def batch_norm(
    trace: Trace, x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, *args: Any
) -> Any:
    if training or not (isinstance(running_mean, Known) and running_mean.name):
        return _gain_and_shift(trace, trace.pin(trace.labels(x), WHY), weight, bias, 1)
    labels = trace.labels(x)
    channels = trace.collapse(labels, (axis for axis in range(labels.ndim) if axis != 1))
    index = torch.arange(running_mean.tensor.numel())
    trace.moves.append(Move(running_mean.name, index, ((1, channels.reshape(-1)),)))
    return _gain_and_shift(trace, channels, weight, bias, 1)


def native_batch_norm(
    trace: Trace, x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, *args: Any
) -> Any:
    """The same after torch made it functional; two more results are empty in eval mode."""
    return [batch_norm(trace, x, weight, bias, running_mean, running_var, False), NONE, NONE]


def layer_norm(
    trace: Trace, x: Any, normalized_shape: list[int], weight: Any = None, bias: Any = None, *args: Any
) -> Tensor:
    return _gain_and_shift(trace, trace.pin(trace.labels(x), WHY), weight, bias, None)


def rms_norm(trace: Trace, x: Any, normalized_shape: list[int], weight: Any = None, eps: Any = None) -> Tensor:
    return _gain_and_shift(trace, trace.pin(trace.labels(x), WHY), weight, None, None)


def group_norm(trace: Trace, x: Any, num_groups: int, weight: Any = None, bias: Any = None, *args: Any) -> Tensor:
    return _gain_and_shift(trace, trace.pin(trace.labels(x), WHY), weight, bias, 1)


def instance_norm(trace: Trace, x: Any, weight: Any, bias: Any, *args: Any) -> Tensor:
    return _gain_and_shift(trace, trace.pin(trace.labels(x), WHY), weight, bias, 1)


def _gain_and_shift(trace: Trace, labels: Tensor, gain: Any, shift: Any, channel_axis: int | None) -> Tensor:
    """Multiply by the gain, add the shift; both lie on the channel axis, or on the last axes."""
    shape = trace.shape if isinstance(trace.shape, torch.Size) else trace.shape[0]
    after = len(shape) - 1 - channel_axis if channel_axis is not None else 0
    flow = Flow(labels, shape)
    for parameter, rule in ((gain, mul), (shift, add)):
        if parameter is not None:
            out = rule(trace, flow, reshaped(parameter, (*parameter.shape, *(1,) * after)))
            flow = Flow(out.reshape((1,) * (len(shape) - out.ndim) + out.shape), shape)
    return flow.labels


def weight_norm(trace: Trace, direction: Any, length: Any, dim: int = 0) -> Tensor:
    """g v / |v|: the scale of v is free and changes nothing, the product scales as g."""
    labels = trace.labels(direction)
    trace.collapse(labels, (axis for axis in range(labels.ndim) if axis != dim))
    return trace.labels(length)


RULES: dict[str, Rule] = {
    "batch_norm": batch_norm,
    "_native_batch_norm_legit_no_training": native_batch_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    "_weight_norm": weight_norm,
}
