"""Operations that only move entries about: labels move with them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from truerisk.nets.graph import compute, operation
from truerisk.symmetry.tracer import NONE, Flow, Known, Trace, Weight, compress

# Reshapes, transpositions and selections. The operation itself is run on the labels.
MOVING = (
    "_reshape_alias _unsafe_view alias chunk diagonal expand flatten flip moveaxis "
    "movedim narrow permute pixel_shuffle pixel_unshuffle channel_shuffle ravel repeat repeat_interleave reshape "
    "roll rot90 select slice split split_with_sizes squeeze swapaxes swapdims t tensor_split tile "
    "transpose unbind unflatten unfold unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze view "
    "numpy_T mT adjoint"
).split()

FILLED = "zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty".split()


def move(trace: Trace, x: Any, *args: Any, **kwargs: Any) -> Any:
    """Run the operation on labels (of an activation) or positions (of a parameter)."""
    assert trace.node is not None
    run: Any = trace.node.target
    others = [_plain(a) for a in args]
    if isinstance(x, Weight):
        moved = run(x.index, *others, **kwargs)
        return [Weight(x.name, m) for m in moved] if isinstance(moved, list | tuple) else Weight(x.name, moved)
    source = trace.labels(x).expand(x.shape)
    if operation(trace.node) in ("view", "_unsafe_view"):
        moved = source.reshape(others[0])  # labels may be laid out otherwise than the activation
    else:
        moved = run(source, *others, **kwargs)
    return [compress(m) for m in moved] if isinstance(moved, list | tuple) else compress(moved)


def _plain(argument: Any) -> Any:
    """Positions as numbers, as long as they can't change."""
    if isinstance(argument, Flow | Weight) or (isinstance(argument, Known) and not argument.settled):
        raise TypeError("the positions depend on the data, on a parameter or on a buffer")
    return argument.tensor if isinstance(argument, Known) else argument


def like(trace: Trace, x: Any, other: Any) -> Any:
    """view_as, expand_as, reshape_as: only the shape of the other counts."""
    shape = tuple(other.shape)
    expands = trace.node is not None and operation(trace.node) == "expand_as"
    if isinstance(x, Weight):
        return Weight(x.name, x.index.expand(shape) if expands else x.index.reshape(shape))
    source = trace.labels(x).expand(x.shape)
    return compress(source.expand(shape) if expands else source.reshape(shape))


def filled(trace: Trace, x: Any, *args: Any, **kwargs: Any) -> Known:
    """A constant that takes nothing but its shape from an activation."""
    assert trace.node is not None
    made: Tensor = compute(trace.node, (torch.zeros(x.shape, dtype=torch.float64), *args), kwargs)
    return Known(made.to(trace.node.meta["val"].dtype), settled=True)


def cat(trace: Trace, tensors: list[Any], dim: int = 0) -> Tensor:
    """Labels side by side. A block of zeros takes any log-scale, so it gets unknowns of its own."""
    ndim = len(trace.shape)
    dim %= ndim
    parts = []
    for value in tensors:
        size = value.shape[dim]
        if isinstance(value, Known) and value.settled and not bool(value.tensor.any()):
            labels = trace.fresh(*(size if axis == dim else 1 for axis in range(ndim)))
        else:
            labels = trace.labels(value)
        parts.append(labels.expand(*(size if axis == dim else -1 for axis in range(ndim))))
    common = torch.broadcast_shapes(*(part.narrow(dim, 0, 1).shape for part in parts))
    sized = [part.expand(*(part.shape[d] if d == dim else common[d] for d in range(ndim))) for part in parts]
    return torch.cat(sized, dim)


def stack(trace: Trace, tensors: list[Any], dim: int = 0) -> Tensor:
    sources = [trace.labels(value).expand(value.shape) for value in tensors]
    return compress(torch.stack(sources, dim))


def constant_pad_nd(trace: Trace, x: Any, pad: list[int], value: float = 0) -> Tensor:
    """Zeros at the border take the labels of their axis where it has one label, else unknowns of their own."""
    labels = trace.labels(x)
    if value:
        trace.pin(labels, f"pads with {value:g}, which does not scale")
        return NONE
    for back, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        axis = labels.ndim - 1 - back
        if labels.shape[axis] == 1 and x.shape[axis] > 1:
            continue
        sides = []
        for width in (before, after):
            shape = [width if d == axis else n for d, n in enumerate(labels.shape)]
            sides.append(trace.fresh(*shape) if width > 0 else labels.narrow(axis, 0, 0))
        start, stop = max(-before, 0), labels.shape[axis] - max(-after, 0)
        labels = torch.cat([sides[0], labels.narrow(axis, start, stop - start), sides[1]], axis)
    return labels


def pad(trace: Trace, x: Any, pad: list[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Reflection, replication and wrapping copy entries along spatial axes, which then share their labels."""
    if mode == "constant":
        return constant_pad_nd(trace, x, pad, value or 0)
    labels = trace.labels(x)
    return trace.collapse(labels, range(labels.ndim - len(pad) // 2, labels.ndim))


def border(trace: Trace, x: Any, padding: list[int]) -> Tensor:
    """``reflection_pad2d`` and its kin."""
    return pad(trace, x, padding, "copies")


def index(trace: Trace, x: Any, indices: list[Any]) -> Tensor:
    """Indexing by tensors; positions that depend on the data need one log-scale for all entries."""
    labels = trace.labels(x)
    if any(isinstance(i, Flow | Weight) or (isinstance(i, Known) and not i.settled) for i in indices):
        trace.pin(labels, "picks entries by position, and the positions depend on the data or on a buffer")
        return NONE
    return compress(labels.expand(x.shape)[tuple(slice(None) if i is None else _plain(i) for i in indices)])


def index_select(trace: Trace, x: Any, dim: int, index: Any) -> Any:
    """One log-scale along the axis that is picked from, unless the positions are known for good."""
    if isinstance(index, Known) and index.settled:
        return move(trace, x, dim, index)
    return trace.collapse(trace.labels(x), [dim % len(x.shape)])


def gather(trace: Trace, x: Any, dim: int, index: Any, sparse_grad: bool = False) -> Tensor:
    """One log-scale along the axis that is picked from; the other axes must not change either."""
    labels = trace.labels(x)
    return trace.collapse(labels, range(labels.ndim))


RULES = (
    dict.fromkeys(MOVING, move)
    | dict.fromkeys(FILLED, filled)
    | {
        "cat": cat,
        "concat": cat,
        "concatenate": cat,
        "stack": stack,
        "constant_pad_nd": constant_pad_nd,
        "pad": pad,
        "reflection_pad1d": border,
        "reflection_pad2d": border,
        "reflection_pad3d": border,
        "replication_pad1d": border,
        "replication_pad2d": border,
        "replication_pad3d": border,
        "index": index,
        "gather": gather,
        "index_select": index_select,
        "view_as": like,
        "reshape_as": like,
        "expand_as": like,
    }
)
