"""The norm of the linear map that a layer is, from above and from below.

For a convolution this is the norm of the map from images to images, not that of its reshaped kernel: the two may differ
by the square root of the kernel's size in either direction.

From above, three facts are used. (1) A convolution with a stride is one without, on more channels: entries of the image
that are a stride apart become one channel. (2) A convolution with zero padding is a piece of a circular one on a grid
at least as large as the padded image, so its norm is at most the circular one's, which is the largest singular value of
the kernel's Fourier transform over all frequencies of the grid (Sedghi, Gupta and Long 2019). (3) Each entry is in at
most as many patches as the kernel has places, so the norm is at most the root of that number times the norm of the
reshaped kernel (Singla and Feizi 2021). Small operators are written out as a matrix instead.

Of a large grid with many channels only a coarser one is looked at. Between its frequencies u^H K(w) v, for k taps, is a
trigonometric polynomial of degree (k - 1)/2 in w, and so at most 1 / cos(pi (k - 1) / (2 N)) times its largest value at
N evenly spaced ones (Ehlich and Zeller 1964, from memory); once for each axis, whatever the unit vectors u and v are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vjp

from truerisk.measures.anatomy import Geometry, Layer

SLACK = 1e-9  # relative; far more than float64 loses in a transform and a singular value (about 1e-12 at size 1e5)
ENTRIES = 2**22  # of a matrix that is written out, and of a batch of frequencies
DENSE_WORK = 2e8  # multiplications for the singular values of a written-out operator, about a quarter of a second
EVERY_WORK = 1e9  # the same over all frequencies, about a second; beyond, a coarse grid is looked at
WORK = 1e10  # on a coarse grid; beyond, only the reshaped kernel is looked at
AT_ONCE = 4  # frequencies, the most promising first
FINE = 6  # frequencies of a coarse grid for each tap and axis: 16 for a 3 x 3 kernel, which gives at most 4 % too much
CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def operator_norm_upper(layer: Layer) -> float:
    """A number that is certainly not below ``max ||A x|| / ||x||``, where A is the layer without its bias.

    >>> round(operator_norm_upper(Layer("", torch.tensor([[3.0, 4.0]]).double(), None)), 6)
    5.0
    """
    if layer.geometry is None:
        top = float(layer.weight.abs().max()) if layer.weight.ndim == 1 else _norm(layer.matrix)
        return top * (1 + SLACK)
    rows, columns = operator_shape(layer)
    if rows * columns <= ENTRIES and rows * columns * min(rows, columns) <= DENSE_WORK:
        return _norm(dense(layer)) * (1 + SLACK)
    kernel, grid = _unstrided(layer.weight, layer.geometry)
    by_patches = _by_patches(kernel)
    if max(kernel.shape[3:]) == 1:  # the same matrix at every place: exact
        return by_patches * (1 + SLACK)
    if _work(kernel, _coarse(kernel, grid)) > WORK:
        return by_patches * (1 + SLACK)
    return min(by_patches, _by_frequency(kernel, grid)) * (1 + SLACK)


def operator_norm_lower(layer: Layer, generator: torch.Generator, steps: int = 30) -> float:
    """``||A x|| / ||x||`` for a good x, found by ``steps`` power iterations: never above the norm."""
    x = torch.randn((1, *entering_shape(layer)), generator=generator, dtype=torch.float64)
    best = 0.0
    for _ in range(steps):
        x = x / x.norm()
        y, adjoint, *_ = vjp(partial(apply, layer), x)
        best = max(best, float(y.norm()))
        (x,) = adjoint(y)
        if not x.any():
            break
    return best * (1 - SLACK)


def entering_shape(layer: Layer) -> tuple[int, ...]:
    """The shape of what enters, without the batch; of a layer that is applied to tokens, of one token."""
    if layer.geometry is None:
        return (layer.weight.shape[-1],)
    return (layer.weight.shape[1] * layer.geometry.groups, *layer.geometry.entering)


def operator_shape(layer: Layer) -> tuple[int, int]:
    """Rows and columns of the matrix that ``dense`` gives."""
    places = layer.repeats if layer.geometry is None else 1
    leaving = layer.weight.shape[0] * (1 if layer.geometry is None else layer.geometry.places)
    return leaving * places, math.prod(entering_shape(layer)) * places


def apply(layer: Layer, x: Tensor) -> Tensor:
    """The layer without its bias on a batch of inputs."""
    if layer.geometry is None:
        return x * layer.weight if layer.weight.ndim == 1 else x @ layer.weight.T
    g = layer.geometry
    y = CONVOLVE[len(g.entering)](x, layer.weight, None, g.stride, g.padding, g.dilation, g.groups)
    # Of "same" padding with an even kernel, ``padding`` is the larger side: the surplus is in front.
    kept: list[Any] = [slice(size - kept, None) for size, kept in zip(y.shape[2:], g.leaving, strict=True)]
    return y[(..., *kept)]


def dense(layer: Layer) -> Tensor:
    """The whole map as a matrix, entries of images in the order in which ``flatten`` puts them."""
    if layer.geometry is not None:
        size = math.prod(entering_shape(layer))
        units = torch.eye(size, dtype=torch.float64).reshape(size, *entering_shape(layer))
        return apply(layer, units).flatten(1).T
    if layer.weight.ndim == 1:
        return layer.weight.repeat_interleave(layer.repeats).diag()  # places of one channel are neighbours
    return torch.kron(torch.eye(layer.repeats, dtype=torch.float64), layer.weight)


def _norm(matrix: Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix, ord=2).max())


def _unstrided(weight: Tensor, geometry: Geometry) -> tuple[Tensor, list[int]]:
    """(kernel (groups, leaving, entering, ...) of an equivalent convolution with stride 1; grid that holds it)."""
    axes = len(geometry.entering)
    spans = [d * (k - 1) + 1 for k, d in zip(weight.shape[2:], geometry.dilation, strict=True)]
    spread = weight.new_zeros(*weight.shape[:2], *spans)
    steps: list[Any] = [slice(None, None, d) for d in geometry.dilation]
    spread[(..., *steps)] = weight
    sizes = [math.ceil(span / s) for span, s in zip(spans, geometry.stride, strict=True)]
    missing = [size * s - span for size, s, span in zip(sizes, geometry.stride, spans, strict=True)]
    spread = F.pad(spread, [x for miss in reversed(missing) for x in (0, miss)])
    split = [x for size, s in zip(sizes, geometry.stride, strict=True) for x in (size, s)]
    phases = [3 + 2 * axis for axis in range(axes)]
    kernel = spread.reshape(*spread.shape[:2], *split)
    kernel = kernel.permute(0, 1, *phases, *(phase - 1 for phase in phases)).flatten(1, 1 + axes)
    kernel = kernel.reshape(geometry.groups, -1, *kernel.shape[1:])
    each = zip(geometry.entering, geometry.leaving, geometry.stride, sizes, strict=True)
    return kernel, [_length(*axis) for axis in each]


def _length(entering: int, leaving: int, stride: int, taps: int) -> int:
    """Of a circle on which no window that is needed meets its own other end.

    Either as long as the padded image, or as the image with room for the kernel on one side, whichever is shorter.
    """
    touched = math.ceil((entering - 1) / stride) + 1  # places of the image, after entries a stride apart became one
    return min(leaving - 1 + taps, touched - 1 + taps)


def _work(kernel: Tensor, grid: Sequence[int]) -> float:
    """Multiplications for the singular values at all frequencies of a grid."""
    short, long = sorted(kernel.shape[1:3])
    return math.prod(grid) / 2 * kernel.shape[0] * short**2 * long


def _coarse(kernel: Tensor, grid: Sequence[int]) -> list[int]:
    """The grid that is looked at: the one that is asked for, unless that is too much work."""
    if _work(kernel, grid) <= EVERY_WORK:
        return list(grid)
    return [min(n, FINE * (taps - 1) + 4) for n, taps in zip(grid, kernel.shape[3:], strict=True)]


def _by_frequency(kernel: Tensor, grid: Sequence[int]) -> float:
    """The largest singular value of the kernel's Fourier transform on the grid; conjugate frequencies once."""
    groups, leaving, entering, *taps = kernel.shape
    coarse = _coarse(kernel, grid)
    gaps = [math.cos(math.pi * (t - 1) / (2 * c)) for c, n, t in zip(coarse, grid, taps, strict=True) if c < n]
    ranges = [torch.arange(n, dtype=torch.float64) / n for n in coarse]
    ranges[-1] = ranges[-1][: coarse[-1] // 2 + 1]
    frequencies = torch.cartesian_prod(*ranges).reshape(-1, len(grid))
    places = torch.cartesian_prod(*(torch.arange(t, dtype=torch.float64) for t in taps)).reshape(-1, len(grid))
    flat = kernel.flatten(3).permute(3, 0, 1, 2).flatten(1).to(torch.complex128)
    best = 0.0  # the largest squared singular value so far
    for batch in frequencies.split(max(1, ENTRIES // flat.shape[1])):
        angles = 2 * math.pi * (batch @ places.T)
        transform = (torch.polar(torch.ones_like(angles), -angles) @ flat).reshape(-1, groups, leaving, entering)
        squares = transform @ transform.mH if leaving < entering else transform.mH @ transform
        best = _largest(squares.flatten(0, 1), best)
    return math.sqrt(best) / math.prod(gaps)


def _largest(squares: Tensor, best: float) -> float:
    """The largest eigenvalue of positive matrices, and ``best`` if that is larger.

    No eigenvalue is above the Frobenius norm, so only matrices whose norm is above the best so far are looked at.
    """
    ceilings, order = torch.linalg.matrix_norm(squares).sort(descending=True)
    for start in range(0, len(order), AT_ONCE):
        if float(ceilings[start]) * (1 + SLACK) <= best:
            break
        chosen = squares[order[start : start + AT_ONCE]]
        best = max(best, float(torch.linalg.eigvalsh(chosen)[:, -1].max()))
    return best


def _by_patches(kernel: Tensor) -> float:
    """sqrt(places of the kernel) times the norm of the kernel, reshaped by rows or by columns."""
    taps = math.prod(kernel.shape[3:])
    by_rows, by_columns = kernel.flatten(2), kernel.transpose(1, 2).flatten(2)
    return math.sqrt(taps) * min(_norm(by_rows), _norm(by_columns))
