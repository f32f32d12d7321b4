"""Operations that act on each entry alone: homogeneous ones pass log-scales on, sums tie, products add."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from truerisk.symmetry.tracer import NONE, Flow, Known, Rule, Trace, Weight, operands

# f(a x) = a f(x) for all a > 0
PASSING = (
    "relu leaky_relu rrelu abs neg positive clone contiguous detach dropout alpha_dropout feature_dropout "
    "feature_alpha_dropout lift_fresh_copy lift_fresh tril triu"
).split()
# f(a x) = a^degree f(x)
DEGREES: dict[str, Fraction | int] = {
    **dict.fromkeys(PASSING, 1),
    **{"square": 2, "sqrt": Fraction(1, 2), "rsqrt": Fraction(-1, 2), "reciprocal": -1, "sign": 0, "sgn": 0},
}

NOT_HOMOGENEOUS = (
    "sigmoid tanh gelu silu mish elu selu celu softplus softsign hardtanh relu6 hardsigmoid hardswish hardshrink "
    "softshrink tanhshrink log_sigmoid softmax log_softmax _softmax _log_softmax exp expm1 log log1p log2 sin cos "
    "tan atan erf floor ceil round trunc logit sinh cosh asinh exp2"
).split()


def of_degree(degree: Fraction | int) -> Rule:
    """Multiply log-scales by the degree."""

    def rule(trace: Trace, x: Any, *args: Any, **kwargs: Any) -> Tensor:
        return trace.combine((degree, trace.labels(x)))

    return rule


def cast(trace: Trace, x: Any, *args: Any, **kwargs: Any) -> Tensor:
    """To another type: whole numbers are rounded, and a bool only says whether it is 0."""
    assert trace.node is not None
    dtype = trace.node.meta["val"].dtype
    if dtype in (torch.float16, torch.bfloat16):
        return trace.pin(trace.labels(x), "rounds to half precision, which overflows and underflows")
    if dtype.is_floating_point or dtype.is_complex:
        return trace.labels(x)
    return NONE if dtype == torch.bool else trace.pin(trace.labels(x), "rounds to whole numbers")


def pinned(trace: Trace, x: Any, *args: Any, **kwargs: Any) -> Tensor:
    return trace.pin(trace.labels(x), "is not homogeneous: f(a x) is not a power of a times f(x)")


def add(trace: Trace, a: Any, b: Any, alpha: float = 1) -> Tensor:
    """Both operands must scale alike: residual streams tie."""
    if isinstance(b, int | float):
        return trace.pin(trace.labels(a), f"adds {b}, which does not scale") if b else trace.labels(a)
    if isinstance(a, Weight | Known):
        a, b = b, a
    if isinstance(a, Weight | Known):  # two parameters, or a parameter and a constant
        a = Flow(trace.labels(a), a.shape)
    if isinstance(b, Known):
        return _add_constant(trace, a, b)
    if isinstance(b, Weight):
        return _add_parameter(trace, trace.labels(a), b)
    left, right = trace.labels(a), trace.labels(b)
    trace.system.tie(left, right)
    return torch.broadcast_tensors(left, right)[0]


def _add_parameter(trace: Trace, labels: Tensor, bias: Weight) -> Tensor:
    """A bias moves with what it is added to; where it is broadcast, that needs one log-scale."""
    ndim = max(labels.ndim, len(bias.shape))
    labels = labels.reshape((1,) * (ndim - labels.ndim) + labels.shape)
    sizes = (1,) * (ndim - len(bias.shape)) + tuple(bias.shape)
    labels = trace.collapse(labels, (axis for axis in range(ndim) if sizes[axis] == 1))
    trace.use(bias, (1, labels.reshape(labels.shape[ndim - len(bias.shape) :])))
    return labels


def _add_constant(trace: Trace, a: Any, constant: Known) -> Tensor:
    labels, tensor = torch.broadcast_tensors(trace.labels(a), constant.tensor)
    moved = tensor != 0 if constant.settled else torch.ones_like(tensor, dtype=torch.bool)
    trace.pin(labels[moved], "adds a constant, which does not scale")
    return labels


def mul(trace: Trace, a: Any, b: Any) -> Tensor:
    """A parameter gets a new log-scale behind it (layer scale, gains); two activations add theirs (gates)."""
    if isinstance(a, Weight) and not isinstance(b, Weight):
        a, b = b, a
    if isinstance(a, Flow) and isinstance(b, Weight):
        ndim = max(a.labels.ndim, len(b.shape))
        labels = a.labels.reshape((1,) * (ndim - a.labels.ndim) + a.labels.shape)
        sizes = (1,) * (ndim - len(b.shape)) + tuple(b.shape)
        if all(size > 1 or labels.shape[axis] == 1 for axis, size in enumerate(sizes)):
            out, skip = trace.fresh(*sizes), ndim - len(b.shape)
            trace.use(b, (1, out.reshape(sizes[skip:])), (-1, labels.reshape(labels.shape[skip:])))
            return out
    return trace.combine((1, trace.labels(a)), (1, trace.labels(b)))


def div(trace: Trace, a: Any, b: Any, rounding_mode: str | None = None) -> Tensor:
    quotient = trace.combine((1, trace.labels(a)), (-1, trace.labels(b)))
    return trace.pin(quotient, "rounds") if rounding_mode else quotient


def power(trace: Trace, x: Any, exponent: Any) -> Tensor:
    if isinstance(exponent, int | float):
        return trace.combine((Fraction(exponent), trace.labels(x)))
    return _pin_all(trace, "has an exponent that is no number", x, exponent)


def clamp(trace: Trace, x: Any, min: Any = None, max: Any = None) -> Tensor:
    """Cutting at 0 is homogeneous, at any other number it is not."""
    if all(limit is None or (isinstance(limit, int | float) and limit == 0) for limit in (min, max)):
        return trace.labels(x)
    return _pin_all(trace, "cuts at a number other than 0", x, min, max)


def _pin_all(trace: Trace, why: str, *values: Any) -> Tensor:
    for value in operands(values):
        trace.pin(trace.labels(value), why)
    return NONE


def clamp_max(trace: Trace, x: Any, max: Any) -> Tensor:
    return clamp(trace, x, None, max)


def threshold(trace: Trace, x: Any, threshold: float, value: float) -> Tensor:
    return clamp(trace, x, threshold, value)


def prelu(trace: Trace, x: Any, weight: Any) -> Tensor:
    """Homogeneous whatever the slope, which itself does not move."""
    if isinstance(weight, Weight):
        trace.use(weight)
    elif isinstance(weight, Flow):
        trace.pin(weight.labels, "is a slope")
    return trace.labels(x)


def glu(trace: Trace, x: Any, dim: int = -1) -> Tensor:
    """First half times the sigmoid of the second."""
    first, second = trace.labels(x).expand(x.shape).chunk(2, dim)
    trace.pin(second, "is the input of a sigmoid")
    return first


def compare(trace: Trace, a: Any, b: Any) -> Tensor:
    """The answer does not change if both sides scale alike; 0 is at every scale."""
    if not _at_every_scale(b):
        add(trace, a, b)
    return NONE


def where(trace: Trace, condition: Any, a: Any, b: Any) -> Tensor:
    trace.pin(trace.labels(condition), "is a condition")
    if _at_every_scale(b):
        return trace.labels(a)
    return trace.labels(b) if _at_every_scale(a) else add(trace, a, b)


def masked_fill(trace: Trace, x: Any, mask: Any, value: Any) -> Tensor:
    return where(trace, mask, x, value)


def _at_every_scale(value: Any) -> bool:
    """0 and the infinities are the same at every scale."""
    if isinstance(value, Known) and value.settled:
        return bool(((value.tensor == 0) | value.tensor.isinf()).all())
    return isinstance(value, int | float) and (value == 0 or math.isinf(value))


RULES: dict[str, Rule] = (
    {name: of_degree(degree) for name, degree in DEGREES.items()}
    | dict.fromkeys(NOT_HOMOGENEOUS, pinned)
    | dict.fromkeys(["to", "_to_copy", "type_as"], cast)
    | dict.fromkeys(["add", "sub", "rsub", "maximum", "minimum", "fmax", "fmin"], add)
    | dict.fromkeys(["mul", "multiply"], mul)
    | dict.fromkeys(["div", "divide", "true_divide"], div)
    | dict.fromkeys(["gt", "lt", "ge", "le", "eq", "ne"], compare)
    | {
        "pow": power,
        "clamp": clamp,
        "clamp_min": clamp,
        "clamp_max": clamp_max,
        "threshold": threshold,
        "prelu": prelu,
        "_prelu_kernel": prelu,
        "glu": glu,
        "where": where,
        "masked_fill": masked_fill,
    }
)
