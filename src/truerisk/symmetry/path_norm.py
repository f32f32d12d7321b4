r"""The path norm of a network, and the table of operations that paths can follow.

A path starts at an input coordinate or at a bias and follows one weight after another to an output
coordinate. The path norm is the l_p norm of the vector of all path products,

    ( sum over paths of |product of the weights along the path|^p )^(1/p)

(Neyshabur, Tomioka and Srebro 2015). It does not change when a hidden unit's incoming weights are multiplied
by a positive number and its outgoing weights are divided by it. One pass over the network finds it, with |w|^p
in place of every weight w, a sum in place of every maximum and ones at the input (Gonon, Brisebarre, Riccietti
and Gribonval 2024, "A path-norm toolkit for modern networks").

The table writes each operation in five primitives, which are the methods of :class:`Paths`. Its choices:

* ReLU and abs have weight 1; a leaky ReLU of slope a (PReLU too) has weight max(1, |a|).
* A max-pool is the sum over its window; an average counts its coefficients 1/n, an interpolation its own.
* Batch norm is a weight gamma/sqrt(var + eps) and one bias beta - gamma mean/sqrt(var + eps), apart from the
  bias of a convolution before it.
* What does not depend on the input is a constant, computed first: a weight or a bias like any other.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from truerisk.errors import TrueriskError
from truerisk.symmetry.graph import Graph, capture, operation, shape_of, where

_UNKNOWN = object()  # what an operation returns besides activations: the indices of a max-pool
_LARGEST_LOG = math.log(torch.finfo(torch.float64).max)


class Paths(ABC):
    """What is known of all the paths that end at the entries of one activation."""

    @property
    @abstractmethod
    def shape(self) -> torch.Size: ...

    @abstractmethod
    def start(self, bias: Tensor) -> Self:
        """New paths, one at each entry of ``bias``."""

    @abstractmethod
    def move(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """The paths after ``fn``, each of whose entries is a copy of an entry of its argument, or zero."""

    @abstractmethod
    def scale(self, weight: Tensor) -> Self:
        """The paths after multiplying entries by ``weight``, which broadcasts."""

    @abstractmethod
    def matmul(self, weight: Tensor, sparse: bool = False) -> Self:
        """The paths after ``x @ weight``, both of two or more dimensions, for x at least as many.

        With ``sparse``, zeros in ``weight`` are no edges at all; otherwise they are edges of weight zero.
        """

    @abstractmethod
    def plus(self, other: Self) -> Self:
        """The paths of both, which have the same shape."""


def follow(model: nn.Module, example_input: Tensor | tuple[Tensor, ...], start: Callable[[Tensor], Paths]) -> list[Any]:
    """The paths that end at each output, where ``start`` is given ones in the shape of each input."""
    example = example_input if isinstance(example_input, tuple) else (example_input,)
    if not all(isinstance(x, Tensor) and x.is_floating_point() and x.dim() > 0 for x in example):
        raise TrueriskError("paths start at real inputs with a batch dimension: pass example_input as a float tensor.")
    graph = capture(model, tuple(x.new_zeros((1, *x.shape[1:])) for x in example))
    tensors = dict(graph.module.named_parameters()) | dict(graph.module.named_buffers())
    entering: dict[fx.Node, Any] = {node: tensors[name] for node, name in (graph.parameters | graph.buffers).items()}
    entering |= graph.constants
    entering |= {n: start(torch.ones_like(x)) for n, x in zip(graph.inputs, graph.example, strict=True)}
    with torch.no_grad():
        values = graph.walk(entering, _apply)
        ends = [values[node] for node in graph.outputs]
        return [end if isinstance(end, Paths) else start(end.double()) for end in ends]


# --- one operation ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """An operation of the graph, with its arguments by the names that its schema gives them."""

    node: fx.Node
    args: Any
    kwargs: Any
    named: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.named[name]

    @property
    def shape(self) -> torch.Size:
        shape = shape_of(self.node)
        return shape if isinstance(shape, torch.Size) else shape[0]

    def input(self) -> Paths:
        """The first argument, where it is the only activation among them."""
        first = next(iter(self.named.values()))
        if sum(isinstance(leaf, Paths) for leaf in _leaves(self.args, self.kwargs)) > 1 or not isinstance(first, Paths):
            raise self.refusal("combines activations in a way that is not linear in each")
        return first

    def run(self, tensor: Tensor) -> Any:
        """The operation itself, on a tensor in the place of its activation."""
        args, kwargs = (
            fx.node.map_aggregate(a, lambda leaf: tensor if isinstance(leaf, Paths) else leaf)  # type: ignore[arg-type]
            for a in (self.args, self.kwargs)
        )
        return self.node.target(*args, **kwargs)  # type: ignore[operator, misc]

    def weight(self, value: Any) -> Tensor:
        """A constant as a tensor in float64."""
        if isinstance(value, Paths):
            raise self.refusal("multiplies activations with each other")
        tensor = torch.as_tensor(value, dtype=torch.float64)
        if not tensor.isfinite().all():
            raise self.refusal("has a weight that is infinite or NaN")
        return tensor

    def paths(self, value: Any) -> Paths:
        """An activation, or a constant as a bias."""
        if isinstance(value, Paths):
            return value
        like = next(leaf for leaf in _leaves(self.args, self.kwargs) if isinstance(leaf, Paths))
        return like.start(self.weight(value))

    def refusal(self, reason: str) -> TrueriskError:
        return TrueriskError(f"{operation(self.node)} (in {where(self.node)}) {reason}, so paths can't follow it.")


def _apply(node: fx.Node, args: Any, kwargs: Any) -> Any:
    leaves = list(_leaves(args, kwargs))
    if not any(isinstance(leaf, Paths) or leaf is _UNKNOWN for leaf in leaves):
        return node.target(*args, **kwargs)  # type: ignore[operator]
    schema = getattr(node.target, "_schema", None)
    arguments = schema.arguments if schema is not None else []
    defaults = {a.name: a.default_value for a in arguments}
    named = defaults | dict(zip(defaults, args, strict=False)) | kwargs
    step = _Step(node, args, kwargs, named)
    rule = _RULES.get(operation(node))
    if rule is None or any(leaf is _UNKNOWN for leaf in leaves):
        raise step.refusal("is not a linear map, a ReLU or a max-pool")
    return rule(step)


def _leaves(*values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, dict):
            yield from _leaves(*value.values())
        elif isinstance(value, list | tuple):
            yield from _leaves(*value)
        else:
            yield value


# --- rules --------------------------------------------------------------------------------------------------


def _keep(step: _Step) -> Paths:
    if not step.node.meta["val"].is_floating_point():
        raise step.refusal("rounds its input")
    return step.input()


def _move(step: _Step) -> Paths:
    if step.named.get("value") not in (None, 0):
        raise step.refusal("pads with a value other than zero")
    return step.input().move(step.run)


def _split(step: _Step) -> list[Paths]:
    x = step.input()
    return [x.move(lambda t, k=k: step.run(t)[k]) for k in range(len(step.node.meta["val"]))]  # type: ignore[misc]


def _join(step: _Step) -> Paths:
    parts = [step.paths(value) for value in step["tensors"]]

    def place(k: int) -> Callable[[Tensor], Tensor]:
        zeros = [torch.zeros(part.shape, dtype=torch.float64) for part in parts]
        return lambda t: step.node.target([*zeros[:k], t, *zeros[k + 1 :]], step["dim"])  # type: ignore[operator]

    return _sum(step, *(part.move(place(k)) for k, part in enumerate(parts)))


def _sum(step: _Step, first: Paths, *others: Paths) -> Paths:
    """All the paths together, after broadcasting."""
    total = first.move(lambda t: t.expand(step.shape)) if first.shape != step.shape else first
    for other in others:
        total = total.plus(other.move(lambda t: t.expand(step.shape)) if other.shape != step.shape else other)
    return total


def _add(step: _Step, left: float = 1.0, right: float = 1.0) -> Paths:
    """left * self + right * other, one of them times alpha."""
    alpha = step.named.get("alpha", 1)
    left, right = (left * alpha, right) if left < 0 else (left, right * alpha)
    terms = zip((step["self"], step["other"]), (left, right), strict=True)
    return _sum(step, *(step.paths(x) if c == 1 else step.paths(x).scale(step.weight(c)) for x, c in terms))


def _multiply(step: _Step) -> Paths:
    x, y = step["self"], step["other"]
    return x.scale(step.weight(y)) if isinstance(x, Paths) else y.scale(step.weight(x))


def _divide(step: _Step) -> Paths:
    if step.named.get("rounding_mode") is not None:
        raise step.refusal("rounds its input")
    return step.input().scale(step.weight(1.0 / torch.as_tensor(step["other"], dtype=torch.float64)))


def _slope(step: _Step, slope: Any) -> Paths:
    """A function that is linear on either side of zero."""
    if step.named.get("training"):
        raise step.refusal("draws random numbers")
    factor = step.weight(slope).abs().clamp(min=1.0)
    x = step.input()
    if factor.numel() > 1:  # one for each channel
        factor = factor.reshape(-1, *[1] * (len(x.shape) - 2))
    return x if bool((factor == 1).all()) else x.scale(factor)


def _clamp(step: _Step) -> Paths:
    low, high = step["min"], step.named.get("max")
    if isinstance(low, Tensor) or low != 0 or high is not None:
        raise step.refusal("is not homogeneous unless it is max(x, 0)")
    return step.input()


def _dropout(step: _Step) -> Paths:
    if step["train"]:
        raise step.refusal("draws random numbers, also in eval mode")
    return step.input()


def _biased(step: _Step, x: Paths, bias: Any, axis: int) -> Paths:
    if bias is None:
        return x
    shape = [-1 if i == axis % len(x.shape) else 1 for i in range(len(x.shape))]
    return x.plus(x.start(step.weight(bias).reshape(shape).expand(x.shape)))


def _along(x: Paths, axis: int, matrix: Tensor, sparse: bool = True) -> Paths:
    """``matrix`` [in, out] applied along one axis."""
    axis = axis % len(x.shape)
    rest = [size for i, size in enumerate(x.shape) if i != axis]
    x = x.move(lambda t: t.movedim(axis, -1).reshape(-1, t.shape[axis])).matmul(matrix, sparse)
    return x.move(lambda t: t.reshape(*rest, matrix.shape[1]).movedim(-1, axis))


def _linear(step: _Step) -> Paths:
    return _biased(step, _along(step.input(), -1, step.weight(step["weight"]).mT, sparse=False), step["bias"], -1)


def _matmul(step: _Step) -> Paths:
    x, y = list(step.named.values())[:2]
    flip = not isinstance(x, Paths)  # constant @ x = (x^T @ constant^T)^T
    x, weight = (y, step.weight(x)) if flip else (x, step.weight(y))
    if len(x.shape) == 1:
        x = x.move(lambda t: t.unsqueeze(0))
    elif flip:
        x = x.move(lambda t: t.mT)
    weight = weight.unsqueeze(-1) if weight.dim() == 1 else weight.mT if flip else weight
    batch = torch.broadcast_shapes(x.shape[:-2], weight.shape[:-2])
    product = x.move(lambda t: t.expand(*batch, *t.shape[-2:])).matmul(weight)
    return product.move(lambda t: (t.mT if flip else t).reshape(step.shape))


def _convolve(step: _Step) -> Paths:
    """A convolution as a matrix product with its unfolded input."""
    weight, groups = step.weight(step["weight"]), step["groups"]
    sizes = weight.shape[2:]
    n = len(sizes)
    stride, dilation = (list(step[name]) * (n if len(step[name]) == 1 else 1) for name in ("stride", "dilation"))
    wide = [d * (k - 1) for d, k in zip(dilation, sizes, strict=True)]
    if step["padding"] == "same":
        padding = [(w // 2, w - w // 2) for w in wide]
    else:
        each = [0] if step["padding"] == "valid" else list(step["padding"])
        padding = [(p, p) for p in (each * n if len(each) == 1 else each)]

    def unfold(t: Tensor) -> Tensor:  # to [batch, group, place, weights of one output]
        t = F.pad(t if t.dim() == n + 2 else t.unsqueeze(0), list(chain(*reversed(padding))))
        for i in range(n):
            t = t.unfold(2 + i, wide[i] + 1, stride[i])[..., :: dilation[i]]
        t = t.unflatten(1, (groups, -1)).movedim(2, 2 + n)
        return t.flatten(2 + n).flatten(2, 1 + n)

    matrix = weight.reshape(groups, weight.shape[0] // groups, -1).mT
    product = step.input().move(unfold).matmul(matrix).move(lambda t: t.mT.reshape(step.shape))
    return _biased(step, product, step["bias"], -1 - n)


def _batch_norm(step: _Step) -> Paths:
    x, mean, var = step.input(), step["running_mean"], step["running_var"]
    if step.named.get("training") or mean is None:
        raise step.refusal("normalises by the statistics of the batch, also in eval mode")
    scale = step.weight(1.0 / (var + step["eps"]).sqrt())
    scale = scale if step["weight"] is None else scale * step.weight(step["weight"])
    shift = -scale * step.weight(mean) + (0.0 if step["bias"] is None else step.weight(step["bias"]))
    return _biased(step, x.scale(scale.reshape(-1, *[1] * (len(x.shape) - 2))), shift, 1)


def _window(step: _Step) -> Paths:
    """A sum over windows, which are products of one interval for each of the last axes."""
    x = step.input()
    for axis, matrix in _axes(step, x):
        x = _along(x, axis, (matrix != 0).double())
    return x


def _average(step: _Step) -> Paths:
    """A sum over windows divided by their sizes, which padding makes uneven."""
    x = step.input()
    spatial = torch.ones((1, 1, *x.shape[-_rank(step) :]), dtype=torch.float64)
    sums = spatial
    for axis, matrix in _axes(step, x):
        sums = (sums.movedim(axis, -1) @ (matrix != 0).double()).movedim(-1, axis)
    return _window(step).scale((step.run(spatial) / sums)[0])


def _interpolate(step: _Step) -> Paths:
    x = step.input()
    for axis, matrix in _axes(step, x):
        x = _along(x, axis, matrix)
    return x


def _axes(step: _Step, x: Paths) -> Iterator[tuple[int, Tensor]]:
    """The matrices [in, out] whose tensor product the operation is, found by giving it slabs of ones."""
    n = _rank(step)
    spatial = x.shape[-n:]
    for i, size in enumerate(spatial):
        slabs = torch.eye(size, dtype=torch.float64).reshape(size, 1, *[size if j == i else 1 for j in range(n)])
        out = step.run(slabs.expand(size, 1, *spatial).contiguous())
        out = out[0] if isinstance(out, tuple) else out
        yield i - n, out[:, 0].movedim(1 + i, 1).flatten(2)[..., 0] if n > 1 else out[:, 0]


def _rank(step: _Step) -> int:
    return int(next(c for c in operation(step.node) if c.isdigit()))


def _reduce(step: _Step, mean: bool = False) -> Paths:
    """A sum, mean or maximum over whole axes."""
    x, dim = step.input(), step.named.get("dim")
    for axis in range(len(x.shape)) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim:
        size = x.shape[axis]
        x = _along(x, axis, torch.full((size, 1), 1.0 / size if mean else 1.0, dtype=torch.float64))
    return x.move(lambda t: t.reshape(step.shape))


def _largest(step: _Step) -> Any:
    """max and min: of two activations, of an activation and zero, or over axes."""
    if "other" in step.named:
        terms = step["self"], step["other"]
        return _sum(step, *(x for x in terms if isinstance(x, Paths) or step.weight(x).any()))
    return (_reduce(step), _UNKNOWN) if "dim" in step.named else _reduce(step)
