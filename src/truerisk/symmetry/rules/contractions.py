"""Sums of products: linear layers, convolutions, matrix products, attention, embeddings.

With one parameter as operand, its entry (o, i) moves by u_out[o] - u_in[i], and u_out is new and free. Two
activations must agree: u_a + u_b has to be the same for all terms of a sum.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from truerisk.symmetry.rules.elementwise import add
from truerisk.symmetry.tracer import NONE, Flow, Known, Rule, Trace, Weight


def contract(trace: Trace, a: Any, at_a: str, b: Any, at_b: str, at_out: str) -> Tensor:
    """The labels of a sum of products, with the axes of both operands and of the result named by letters."""
    if isinstance(a, Weight) and not isinstance(b, Weight):
        a, at_a, b, at_b = b, at_b, a, at_a
    if isinstance(b, Weight) and not isinstance(a, Weight):
        return _with_parameter(trace, trace.labels(a), at_a, b, at_b, at_out)
    everywhere = at_out + "".join(sorted(set(at_a + at_b) - set(at_out)))
    left = _laid_out(trace.labels(a), at_a, everywhere)
    right = _laid_out(trace.labels(b), at_b, everywhere)
    summed = range(len(at_out), len(everywhere))
    first_left, first_right = left, right
    for axis in summed:
        first_left, first_right = first_left.narrow(axis, 0, 1), first_right.narrow(axis, 0, 1)
    trace.system.equate([(1, left), (1, right), (-1, first_left), (-1, first_right)])
    out = trace.combine((1, first_left), (1, first_right))
    return out.reshape(out.shape[: len(at_out)]) if out.ndim else out


def _with_parameter(trace: Trace, labels: Tensor, at_a: str, weight: Weight, at_b: str, at_out: str) -> Tensor:
    sizes = dict(zip(at_b, weight.shape, strict=True))
    labels = trace.collapse(labels, (axis for axis, letter in enumerate(at_a) if sizes.get(letter, 1) == 1))
    out = trace.fresh(*(sizes.get(letter, 1) for letter in at_out))
    trace.use(weight, (1, _laid_out(out, at_out, at_b)), (-1, _laid_out(labels, at_a, at_b)))
    return out


def _laid_out(labels: Tensor, letters: str, target: str) -> Tensor:
    """Labels on the axes of ``target``; axes missing there have size 1, axes missing here get it."""
    for axis, letter in reversed(list(enumerate(letters))):
        if letter not in target:
            labels = labels.squeeze(axis)
    kept = [letter for letter in letters if letter in target]
    order = [kept.index(letter) for letter in target if letter in kept]
    labels = labels.permute(order)
    for axis, letter in enumerate(target):
        if letter not in kept:
            labels = labels.unsqueeze(axis)
    return labels


def linear(trace: Trace, x: Any, weight: Any, bias: Any = None) -> Tensor:
    lead = "abcdefgh"[: len(x.shape) - 1]
    if len(weight.shape) == 1:
        return contract(trace, x, lead + "i", weight, "i", lead)
    out = contract(trace, x, lead + "i", weight, "oi", lead + "o")
    return out if bias is None else add(trace, Flow(_ranked(out, len(lead) + 1), trace.shape), bias)


def _ranked(labels: Tensor, ndim: int) -> Tensor:
    return labels.reshape((1,) * (ndim - labels.ndim) + labels.shape)


def convolution(trace: Trace, x: Any, weight: Any, bias: Any = None, *args: Any, **kwargs: Any) -> Tensor:
    """conv1d, conv2d, conv3d: one log-scale for each channel, groups side by side."""
    groups = kwargs.get("groups", args[3] if len(args) > 3 else 1)
    out, rest = weight.shape[0], weight.shape[1]
    return _convolution(trace, x, weight, bias, groups, (groups, out // groups, rest), "goi")


def transposed(trace: Trace, x: Any, weight: Any, bias: Any = None, *args: Any, **kwargs: Any) -> Tensor:
    """conv_transpose1d, 2d, 3d: the weight has its input channels first."""
    groups = kwargs.get("groups", args[3] if len(args) > 3 else 1)
    inner, rest = weight.shape[0], weight.shape[1]
    return _convolution(trace, x, weight, bias, groups, (groups, inner // groups, rest), "gio")


def _convolution(
    trace: Trace, x: Any, weight: Any, bias: Any, groups: int, sizes: tuple[int, ...], letters: str
) -> Tensor:
    spatial = len(weight.shape) - 2
    batch = len(x.shape) - spatial - 1  # 1 or 0 axes
    labels = trace.labels(x)
    labels = trace.collapse(labels, (axis for axis in range(labels.ndim) if axis != batch))
    channels = labels.reshape(-1).expand(x.shape[batch]).reshape(groups, -1)
    split = reshaped(weight, sizes + tuple(weight.shape[2:]))
    out = contract(trace, Flow(channels, channels.shape), "gi", split, letters + "xyz"[:spatial], "go")
    out = _ranked(out, 2).expand(groups, sizes[letters.index("o")]).reshape((1,) * batch + (-1,) + (1,) * spatial)
    return out if bias is None else add(trace, Flow(out, trace.shape), reshaped(bias, (-1,) + (1,) * spatial))


def reshaped(value: Any, shape: tuple[int, ...]) -> Any:
    """An operand of any kind in another shape."""
    if isinstance(value, Weight):
        return Weight(value.name, value.index.reshape(shape))
    if isinstance(value, Known):
        return Known(value.tensor.reshape(shape), value.settled)
    labels = value.full.reshape(shape)
    return Flow(labels, labels.shape)


def matmul(trace: Trace, a: Any, b: Any) -> Tensor:
    """Matrix products of any number of axes; a vector is a row on the left and a column on the right."""
    at_a = _lead(len(a.shape)) + ("ik" if len(a.shape) > 1 else "k")
    at_b = _lead(len(b.shape)) + ("kj" if len(b.shape) > 1 else "k")
    ends = ("i" if len(a.shape) > 1 else "") + ("j" if len(b.shape) > 1 else "")
    return contract(trace, a, at_a, b, at_b, _lead(len(trace.shape) + 2 - len(ends)) + ends)


def _lead(ndim: int) -> str:
    """Letters for the axes before the last two, counted from the right, as they are broadcast."""
    return "stuvwxyz"[: max(ndim - 2, 0)][::-1]


def addmm(trace: Trace, bias: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Tensor:
    return add(trace, Flow(_ranked(matmul(trace, a, b), len(trace.shape)), trace.shape), bias)


def einsum(trace: Trace, equation: str, tensors: list[Any], path: Any = None) -> Tensor:
    terms, _, out = equation.replace(" ", "").partition("->")
    parts = terms.split(",")
    if len(parts) != 2 or "..." in equation or "->" not in equation or any(len(set(p)) < len(p) for p in parts):
        for value in tensors:
            trace.pin(trace.labels(value), "is an einsum of a kind that is not followed")
        return NONE
    return contract(trace, tensors[0], parts[0], tensors[1], parts[1], out)


def embedding(trace: Trace, weight: Any, indices: Any, *args: Any, **kwargs: Any) -> Tensor:
    """One log-scale for each column: which row is used depends on the data."""
    if not isinstance(weight, Weight):
        return trace.collapse(trace.labels(weight), [0])
    columns = trace.fresh(1, weight.shape[1])
    trace.use(weight, (1, columns))
    return columns


def attention(
    trace: Trace,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k') v: query times key is held at 0 in each head dimension, the value passes."""
    q, k, v = (trace.collapse(trace.labels(x), [len(x.shape) - 2]) for x in (query, key, value))
    if enable_gqa:
        q, k, v = (trace.collapse(labels, [len(query.shape) - 3]) for labels in (q, k, v))
    for labels in (trace.labels(attn_mask),) if attn_mask is not None else ():
        trace.pin(labels, "is added before a softmax")
    trace.pin(trace.combine((1, q), (1, k)), "is a softmax of query times key: what one gains, the other loses")
    return v


CONVOLUTIONS: dict[str, Rule] = {"conv": convolution, "conv_transpose": transposed}
RULES: dict[str, Rule] = {
    "linear": linear,
    "matmul": matmul,
    "mm": matmul,
    "bmm": matmul,
    "mv": matmul,
    "dot": matmul,
    "addmm": addmm,
    "addmv": addmm,
    "baddbmm": addmm,
    "einsum": einsum,
    "embedding": embedding,
    "scaled_dot_product_attention": attention,
    **{f"{name}{n}d": rule for n in (1, 2, 3) for name, rule in CONVOLUTIONS.items()},
}
