"""Rules for operations in which entries meet: products with weights, convolutions, batch norm, pools, means.

Each is a matrix product along paths, ``(x W)_o = sum_i x_i W_io``: an edge of weight W_io from each i to each o.
An operation that is written down nowhere as a matrix (an average, an interpolation) is asked for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from truerisk.nets.graph import operation
from truerisk.symmetry.paths.follow import Paths, Step

NORMS = {"batch_norm", "_native_batch_norm_legit_no_training"}

# --- products with a weight ---------------------------------------------------------------------------------


def contract(step: Step, x: Any, at_x: str, y: Any, at_y: str, at_out: str) -> Paths:
    """A sum of products of an activation and a constant, in either order, with their axes named by letters.

    It is the product [batch, rows, inner] @ [batch, inner, columns]: letters of both that are kept are the batch,
    and over those that are not kept one sums, wherever they come from.
    """
    if not isinstance(x, Paths):
        x, at_x, y, at_y = y, at_y, x, at_x
    weight = step.weight(y)
    sizes: dict[str, int] = {}
    for letter, size in chain(zip(at_x, x.shape, strict=True), zip(at_y, weight.shape, strict=True)):
        sizes[letter] = sizes.get(letter, 1) if size == 1 else size
    batch = "".join(c for c in at_out if c in at_x and c in at_y)
    rows = "".join(c for c in at_out if c not in at_y)
    columns = "".join(c for c in at_out if c not in at_x)
    inner = "".join(sorted(set(at_x + at_y) - set(at_out)))

    def matrix(t: Tensor, at: str, first: str, second: str) -> Tensor:  # [batch, first, second]
        letters = batch + first + second
        t = t.permute([at.index(c) for c in letters if c in at])
        t = t[tuple(slice(None) if c in at else None for c in letters)].expand([sizes[c] for c in letters])
        return t.reshape([*(sizes[c] for c in batch), *(prod(sizes[c] for c in block) for block in (first, second))])

    product = x.move(lambda t: matrix(t, at_x, rows, inner)).matmul(matrix(weight, at_y, inner, columns))
    made = batch + rows + columns
    return product.move(lambda t: t.reshape([sizes[c] for c in made]).permute([made.index(c) for c in at_out]))


def linear(step: Step) -> Paths:
    x, weight = step.input(), step["weight"]
    lead = "abcdefgh"[: len(x.shape) - 1]
    out = contract(step, x, lead + "i", weight, "oi"[-weight.dim() :], lead + "o"[: weight.dim() - 1])
    return _biased(step, out, step["bias"], 0)


def matmul(step: Step) -> Paths:
    x, y = list(step.named.values())[:2]
    return _product(step, x, y)


def add_matmul(step: Step) -> Paths:
    """beta * c + alpha * (x @ y)."""
    c, x, y = list(step.named.values())[:3]
    product = _product(step, x, y) if isinstance(x, Paths) or isinstance(y, Paths) else x @ y
    return step.sum(step.paths(c, step["beta"]), step.paths(product, step["alpha"]))


def _product(step: Step, x: Any, y: Any) -> Paths:
    """x @ y, where a vector is a row on the left and a column on the right."""
    of_x, of_y = len(x.shape), len(y.shape)
    lead_x, lead_y = ("stuvwxyz"[: max(n - 2, 0)][::-1] for n in (of_x, of_y))  # from the right, as they broadcast
    row, column = "i"[: of_x - 1], "j"[: of_y - 1]
    return contract(step, x, lead_x + row + "k", y, lead_y + "k" + column, max(lead_x, lead_y, key=len) + row + column)


def einsum(step: Step) -> Paths:
    terms, arrow, out = step["equation"].replace(" ", "").partition("->")
    letters = terms.split(",")
    if len(letters) != 2 or not arrow or "..." in terms or any(len(set(term)) < len(term) for term in letters):
        raise step.refusal("is not one of two operands like 'ab,bc->ac'")
    return contract(step, step["tensors"][0], letters[0], step["tensors"][1], letters[1], out)


def _biased(step: Step, x: Paths, bias: Any, behind: int) -> Paths:
    """Plus one bias for each channel, where so many axes come behind the channels."""
    if bias is None:
        return x
    if _before_norm(step, behind):
        step.later[step.node] = step.weight(bias)
        return x
    return step.sum(x, x.start(step.weight(bias).reshape(-1, *[1] * behind)))


def _before_norm(step: Step, behind: int) -> bool:
    """Whether nothing but a batch norm over the same channels takes the result of a layer."""
    user = next(iter(step.node.users)) if len(step.node.users) == 1 else None
    called = user is not None and operation(user) in NORMS and user.args[:1] == (step.node,)
    return called and len(step.shape) == behind + 2


def batch_norm(step: Step) -> Paths:
    """gamma (x - mean) / sqrt(var + eps) + beta: one weight and one bias, whatever it is made of.

    The bias of a linear or convolutional layer straight before it is part of that one bias, as if the norm were folded
    into the layer.
    """
    x, mean, var = step.input(), step["running_mean"], step["running_var"]
    if step.named.get("training") or mean is None:
        raise step.refusal("normalises by the statistics of the batch, also in eval mode")
    scale = step.weight(1.0 / (var + step["eps"]).sqrt())
    scale = scale if step["weight"] is None else scale * step.weight(step["weight"])
    shift = -scale * step.weight(mean) + (0.0 if step["bias"] is None else step.weight(step["bias"]))
    behind = len(x.shape) - 2
    for layer in step.node.all_input_nodes:
        if layer in step.later:
            shift = shift + scale * step.later.pop(layer)
    return _biased(step, x.scale(scale.reshape(-1, *[1] * behind)), shift, behind)


# --- convolutions -------------------------------------------------------------------------------------------


def convolve(step: Step) -> Paths:
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


def convolve_transposed(step: Step) -> Paths:
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
    step: Step, x: Paths, weight: Tensor, padding: list[tuple[int, int]], stride: list[int], dilation: list[int]
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
    return _biased(step, product, step["bias"], n)


def _each(step: Step, name: str, n: int) -> list[int]:
    """An argument for each axis, where one value may stand for all."""
    return list(step[name]) * (n if len(step[name]) == 1 else 1)


# --- pools, interpolations, sums over axes ------------------------------------------------------------------


def window(step: Step) -> Paths:
    """A sum over windows, which are products of one interval for each of the last axes."""
    x = step.input()
    for axis, matrix in _axes(step, x):
        x = _along(x, axis, (matrix > 0).double())
    return x


def average(step: Step) -> Paths:
    """A sum over windows divided by their sizes, which padding makes uneven."""
    x = step.input()
    spatial = torch.ones((1, 1, *x.shape[-_rank(step) :]), dtype=torch.float64)
    sums = spatial
    for axis, matrix in _axes(step, x):
        sums = (sums.movedim(axis, -1) @ (matrix > 0).double()).movedim(-1, axis)
    return window(step).scale((step.run(spatial) / sums)[0])


def interpolate(step: Step) -> Paths:
    x = step.input()
    for axis, matrix in _axes(step, x):
        x = _along(x, axis, matrix)
    return x


def reduce(step: Step, mean: bool = False) -> Paths:
    """A sum, mean or maximum over whole axes."""
    x, dim = step.input(), step.named.get("dim")
    for axis in range(len(x.shape)) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim:
        size = x.shape[axis]
        x = _along(x, axis, torch.full((size, 1), 1.0 / size if mean else 1.0, dtype=torch.float64))
    return x.move(lambda t: t.reshape(step.shape))


def _along(x: Paths, axis: int, matrix: Tensor) -> Paths:
    """``matrix`` [in, out] applied along one axis, where its zeros are no edges."""
    axis = axis % len(x.shape)
    rest = [size for i, size in enumerate(x.shape) if i != axis]
    x = x.move(lambda t: t.movedim(axis, -1).reshape(-1, t.shape[axis])).matmul(matrix, sparse=True)
    return x.move(lambda t: t.reshape(*rest, matrix.shape[1]).movedim(-1, axis))


def _axes(step: Step, x: Paths) -> Iterator[tuple[int, Tensor]]:
    """The matrices [in, out] whose tensor product the operation is, found by giving it slabs of ones."""
    n = _rank(step)
    spatial = x.shape[-n:]
    for i, size in enumerate(spatial):
        slabs = torch.eye(size, dtype=torch.float64).reshape(size, 1, *[size if j == i else 1 for j in range(n)])
        out = step.run(slabs.expand(size, 1, *spatial))
        out = out[0] if isinstance(out, tuple) else out
        yield i - n, out.movedim(2 + i, 1).flatten(2)[..., 0]


def _rank(step: Step) -> int:
    return int(next(c for c in operation(step.node) if c.isdigit()))
