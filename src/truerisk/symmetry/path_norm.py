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
from truerisk.symmetry.graph import capture, operation, shape_of, spoken, where

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
        """The paths after ``x @ weight``, which has two dimensions or more, and x no fewer.

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
    tensors = dict(graph.module.named_parameters()) | dict(graph.module.named_buffers(remove_duplicate=False))
    entering: dict[fx.Node, Any] = {node: tensors[name] for node, name in (graph.parameters | graph.buffers).items()}
    entering |= graph.constants
    entering |= {n: start(torch.ones_like(x)) for n, x in zip(graph.inputs, graph.example, strict=True)}
    with torch.no_grad():
        values = graph.walk(entering, _apply)
        ends = [values[node] for node in graph.outputs]
        if any(end is _UNKNOWN for end in ends):
            raise TrueriskError("the network returns the places of maxima, where no path can end: return only values.")
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
            raise self.refusal("is not linear in its activations")
        return first

    def run(self, tensor: Tensor) -> Any:
        """The operation itself, on a tensor in the place of its activation."""
        tensor = tensor.contiguous()  # as view may need
        args, kwargs = (
            fx.node.map_aggregate(a, lambda leaf: tensor if isinstance(leaf, Paths) else leaf)
            for a in (self.args, self.kwargs)
        )
        return self.node.target(*args, **kwargs)  # type: ignore[operator]

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
        return TrueriskError(f"{spoken(self.node)} (in {where(self.node)}) {reason}, so paths can't follow it.")


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
        raise step.refusal("is not among the linear maps, ReLUs and max-pools known here")
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
    zeros = [torch.zeros(part.shape, dtype=torch.float64) for part in parts]

    def place(k: int) -> Callable[[Tensor], Tensor]:
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
    weight = step.weight(step["weight"])
    sizes = weight.shape[2:]
    stride, dilation = _each(step, "stride", len(sizes)), _each(step, "dilation", len(sizes))
    wide = [d * (k - 1) for d, k in zip(dilation, sizes, strict=True)]
    if step["padding"] == "valid":
        padding = [(0, 0) for _ in wide]
    elif step["padding"] == "same":
        padding = [(w // 2, w - w // 2) for w in wide]
    else:
        padding = [(p, p) for p in _each(step, "padding", len(wide))]
    return _correlate(step, step.input(), weight, padding, stride, dilation)


def _convolve_transposed(step: _Step) -> Paths:
    """Zeros between the entries, then a convolution with the weights turned round."""
    weight = step.weight(step["weight"])
    n = weight.dim() - 2
    stride, dilation, less, more = (_each(step, a, n) for a in ("stride", "dilation", "padding", "output_padding"))

    def stretch(t: Tensor) -> Tensor:
        wider = t.new_zeros(*t.shape[:-n], *[s * (size - 1) + 1 for s, size in zip(stride, t.shape[-n:], strict=True)])
        places: tuple[Any, ...] = (..., *[slice(None, None, s) for s in stride])
        wider[places] = t
        return wider

    ends = [d * (k - 1) - p for d, k, p in zip(dilation, weight.shape[2:], less, strict=True)]
    padding = [(end, end + extra) for end, extra in zip(ends, more, strict=True)]
    weight = weight.unflatten(0, (step["groups"], -1)).transpose(1, 2).flatten(0, 1).flip(list(range(2, n + 2)))
    return _correlate(step, step.input().move(stretch), weight, padding, [1] * n, dilation)


def _correlate(
    step: _Step, x: Paths, weight: Tensor, padding: list[tuple[int, int]], stride: list[int], dilation: list[int]
) -> Paths:
    """A matrix product with all the windows of the padded input."""
    n, groups = len(stride), step["groups"]

    def unfold(t: Tensor) -> Tensor:  # to [batch, group, place, weights of one output]
        t = F.pad(t if t.dim() == n + 2 else t.unsqueeze(0), list(chain(*reversed(padding))))
        for i in range(n):
            t = t.unfold(2 + i, dilation[i] * (weight.shape[2 + i] - 1) + 1, stride[i])[..., :: dilation[i]]
        t = t.unflatten(1, (groups, -1)).movedim(2, 2 + n)
        return t.flatten(2 + n).flatten(2, 1 + n)

    matrix = weight.reshape(groups, weight.shape[0] // groups, -1).mT
    product = x.move(unfold).matmul(matrix).move(lambda t: t.mT.reshape(step.shape))
    return _biased(step, product, step["bias"], -1 - n)


def _each(step: _Step, name: str, n: int) -> list[int]:
    """An argument for each axis, where one value may stand for all."""
    return list(step[name]) * (n if len(step[name]) == 1 else 1)


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
        x = _along(x, axis, (matrix > 0).double())
    return x


def _average(step: _Step) -> Paths:
    """A sum over windows divided by their sizes, which padding makes uneven."""
    x = step.input()
    spatial = torch.ones((1, 1, *x.shape[-_rank(step) :]), dtype=torch.float64)
    sums = spatial
    for axis, matrix in _axes(step, x):
        sums = (sums.movedim(axis, -1) @ (matrix > 0).double()).movedim(-1, axis)
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
        out = step.run(slabs.expand(size, 1, *spatial))
        out = out[0] if isinstance(out, tuple) else out
        yield i - n, out.movedim(2 + i, 1).flatten(2)[..., 0]


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
    if "other" not in step.named:
        return (_reduce(step), _UNKNOWN) if "dim" in step.named else _reduce(step)
    terms = [x for x in (step["self"], step["other"]) if isinstance(x, Paths) or step.weight(x).any()]
    if not all(isinstance(x, Paths) for x in terms):
        raise step.refusal("compares with a constant other than zero")
    return _sum(step, *terms)


_NAMES: list[tuple[Callable[[_Step], Any], str]] = [
    (lambda step: None, "_assert_tensor_metadata"),
    (_Step.input, "relu abs absolute"),
    (_clamp, "clamp clip clamp_min"),
    (lambda step: _slope(step, step["negative_slope"]), "leaky_relu"),
    (lambda step: _slope(step, step["weight"]), "prelu"),
    (lambda step: _slope(step, (step["lower"] + step["upper"]) / 2), "rrelu"),
    (_dropout, "dropout feature_dropout alpha_dropout feature_alpha_dropout"),
    (_keep, "to _to_copy clone contiguous detach alias lift_fresh_copy"),
    (_move, "view reshape _unsafe_view flatten unflatten squeeze unsqueeze"),
    (_move, "permute transpose swapaxes t numpy_T mT movedim moveaxis flip roll"),
    (_move, "select slice narrow index index_select diagonal tril triu expand repeat repeat_interleave tile"),
    (_move, "pixel_shuffle pixel_unshuffle channel_shuffle unfold im2col"),
    (_move, "pad constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d"),
    (_move, "replication_pad1d replication_pad2d replication_pad3d"),
    (_move, "upsample_nearest1d upsample_nearest2d upsample_nearest3d"),
    (_move, "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d"),
    (_interpolate, "upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d"),
    (_split, "split split_with_sizes chunk tensor_split unbind"),
    (_join, "cat concat concatenate stack"),
    (_add, "add"),
    (lambda step: _add(step, right=-1.0), "sub subtract"),
    (lambda step: _add(step, left=-1.0), "rsub"),
    (lambda step: step.input().scale(step.weight(-1.0)), "neg negative"),
    (_multiply, "mul multiply"),
    (_divide, "div divide true_divide"),
    (_linear, "linear"),
    (_matmul, "matmul mm bmm mv"),
    (_convolve, "conv1d conv2d conv3d"),
    (_convolve_transposed, "conv_transpose1d conv_transpose2d conv_transpose3d"),
    (_batch_norm, "batch_norm"),
    (lambda step: (_batch_norm(step), _UNKNOWN, _UNKNOWN), "_native_batch_norm_legit_no_training"),
    (_reduce, "sum amax amin"),
    (lambda step: _reduce(step, mean=True), "mean"),
    (_largest, "max min maximum minimum"),
    (_window, "max_pool1d max_pool2d max_pool3d"),
    (lambda step: (_window(step), _UNKNOWN), "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices"),
    (lambda step: (_window(step), _UNKNOWN), "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d"),
    (_average, "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d"),
]
_RULES = {name: rule for rule, names in _NAMES for name in names.split()}


# --- the norm -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Logs(Paths):
    """For each entry, the logarithm of the sum over its paths of |product|^p; of the largest one if p is infinite.

    Logarithms carry deep networks past the range of floats and very uneven rescalings within a layer.
    """

    logs: Tensor
    p: float

    @property
    def shape(self) -> torch.Size:
        return self.logs.shape

    def start(self, bias: Tensor) -> _Logs:
        return _Logs(self._log(bias), self.p)

    def move(self, fn: Callable[[Tensor], Tensor]) -> _Logs:
        # The zeros that fn may put between the entries stand for no path, whose logarithm is -inf.
        there = fn(torch.ones((), dtype=torch.float64).expand(self.shape)) != 0
        return _Logs(fn(self.logs).where(there, -math.inf), self.p)

    def scale(self, weight: Tensor) -> _Logs:
        return _Logs(self.logs + self._log(weight), self.p)

    def plus(self, other: _Logs) -> _Logs:
        sum_of = torch.maximum if math.isinf(self.p) else torch.logaddexp
        return _Logs(sum_of(self.logs, other.logs), self.p)

    def matmul(self, weight: Tensor, sparse: bool = False) -> _Logs:
        """A matrix product of numbers that are at most 1.

        What is large or small in the weights out of an entry or into an entry is taken out as logarithms first,
        so that only terms 1e-308 times smaller than their neighbours in one sum can vanish.
        """
        logs = self._log(weight)
        if math.isinf(self.p):
            columns = [(self.logs + column.unsqueeze(-2)).amax(-1) for column in logs.unbind(-1)]
            return _Logs(torch.stack(columns, -1), self.p)
        out_of = _finite(logs.amax(-1, keepdim=True))
        logs -= out_of
        into = _finite(logs.amax(-2, keepdim=True))
        logs -= into
        entries = self.logs + out_of.mT
        top = _finite(entries.amax(-1, keepdim=True))
        return _Logs(((entries - top).exp() @ logs.exp_()).log_() + top + into, self.p)

    def _log(self, weight: Tensor) -> Tensor:
        return weight.abs().log_().mul_(1.0 if math.isinf(self.p) else self.p)


def _finite(logs: Tensor) -> Tensor:
    return logs.where(logs > -math.inf, 0.0)


def path_norm(model: nn.Module, example_input: Tensor | tuple[Tensor, ...], p: float = 1.0, log: bool = False) -> float:
    """Return ( sum over paths of |product of weights|^p )^(1/p), from inputs and biases to outputs.

    The network is taken in eval mode; ``example_input`` gives only the shape of one input, whatever its batch
    size. With ``p=math.inf`` it is the largest |product|; for p below 1 the same formula, though not a norm.
    ``log=True`` gives the natural logarithm, which is finite where the norm is too large for a float and -inf
    where every path is zero. A network with an operation that is not linear, a ReLU or a max-pool is refused.

    >>> model = nn.Sequential(nn.Linear(1, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False)).double()
    >>> model[0].weight.data, model[2].weight.data = torch.tensor([[3.0], [2.0]]), torch.tensor([[1.0, -2.0]])
    >>> round(path_norm(model, torch.zeros(1, 1)), 12), round(path_norm(model, torch.zeros(1, 1), p=2), 12)
    (7.0, 5.0)
    """
    if not p > 0:
        raise TrueriskError("p must be a positive number: 1 and 2 are the usual path norms.")
    ends = follow(model, example_input, _Logs(torch.zeros(0), float(p)).start)
    logs = torch.cat([end.logs.flatten() for end in ends])
    total = logs.max().item() if math.isinf(p) else torch.logsumexp(logs, 0).item() / p
    if math.isinf(total) and total > 0:
        raise TrueriskError(f"the path norm with p = {p} is too large even for its logarithm: take a larger p.")
    if not log and total > _LARGEST_LOG:
        raise TrueriskError(f"the path norm is exp({total:.6g}), too large for a float: ask for log=True.")
    return total if log else math.exp(total)
