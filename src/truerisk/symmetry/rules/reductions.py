"""Pooling, means, maxima and resampling: entries that meet must share one log-scale."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from truerisk.symmetry.rules.elementwise import add
from truerisk.symmetry.tracer import NONE, Flow, Known, Rule, Trace, Weight


def over_space(dimensions: int) -> Rule:
    """Windows slide over the last axes."""

    def rule(trace: Trace, x: Any, *args: Any, **kwargs: Any) -> Any:
        labels = trace.labels(x)
        labels = trace.collapse(labels, range(labels.ndim - dimensions, labels.ndim))
        return labels if isinstance(trace.shape, torch.Size) else [labels, NONE]  # values, positions

    return rule


def resample(trace: Trace, x: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Upsampling: copies or averages over space."""
    labels = trace.labels(x)
    return trace.collapse(labels, range(2, labels.ndim))


def reduce(degree: int) -> Rule:
    """Sums, means and maxima along some axes (all of them by default)."""

    def rule(trace: Trace, x: Any, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
        return _reduced(trace, x, dim, degree)

    return rule


def extreme(trace: Trace, x: Any, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    """max and min: along an axis, or of two tensors."""
    return add(trace, x, dim) if isinstance(dim, Flow | Weight | Known) else _reduced(trace, x, dim, 1)


def norm(trace: Trace, x: Any, ord: Any = 2, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    return _reduced(trace, x, dim, 1 if ord else 0)


def _reduced(trace: Trace, x: Any, dim: Any, degree: int) -> Any:
    """One log-scale along the axes; the example's shape tells whether they are kept. A bool is no axis."""
    ndim = len(x.shape)
    chosen = [dim] if isinstance(dim, int) and not isinstance(dim, bool) else dim
    axes = [axis % ndim for axis in (chosen if isinstance(chosen, list | tuple) and chosen else range(ndim))]
    labels = trace.collapse(trace.labels(x), axes)
    labels = trace.combine((degree, labels))
    single = isinstance(trace.shape, torch.Size)
    if labels.ndim > len(trace.shape if single else trace.shape[0]):
        for axis in sorted(axes, reverse=True):
            labels = labels.squeeze(axis)
    return labels if single else [labels, NONE]


def along(trace: Trace, x: Any, dim: Any = -1, *args: Any, **kwargs: Any) -> Any:
    """Running sums, sorting: entries along one axis meet."""
    labels = trace.collapse(trace.labels(x), [dim % len(x.shape)])
    return labels if isinstance(trace.shape, torch.Size) else [labels, NONE]


def largest(trace: Trace, x: Any, k: int, dim: int = -1, *args: Any, **kwargs: Any) -> Any:
    return along(trace, x, dim)


def position(trace: Trace, x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """argmax: does not change with the scale."""
    trace.collapse(trace.labels(x), range(len(x.shape)) if dim is None else [dim % len(x.shape)])
    return NONE


def grid_sampler(trace: Trace, x: Any, grid: Any, *args: Any, **kwargs: Any) -> Tensor:
    if not isinstance(grid, Known):
        trace.pin(trace.labels(grid), "is a position")
    labels = trace.labels(x)
    return trace.collapse(labels, range(2, labels.ndim))


RULES: dict[str, Rule] = (
    {f"{name}{n}d": over_space(n) for n in (1, 2, 3) for name in ("max_pool", "avg_pool", "adaptive_avg_pool")}
    | {f"adaptive_max_pool{n}d": over_space(n) for n in (1, 2, 3)}
    | {f"max_pool{n}d_with_indices": over_space(n) for n in (1, 2, 3)}
    | {f"_adaptive_avg_pool{n}d": over_space(n) for n in (2, 3)}
    | dict.fromkeys(
        [
            f"upsample_{kind}"
            for kind in "nearest1d nearest2d nearest3d linear1d bilinear2d bicubic2d trilinear3d".split()
        ]
        + ["_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"],
        resample,
    )
    | dict.fromkeys("sum mean amax amin".split(), reduce(1))
    | dict.fromkeys(["max", "min"], extreme)
    | {"var": reduce(2), "std": reduce(1), "linalg_vector_norm": norm}
    | dict.fromkeys(["cumsum", "sort"], along)
    | {"topk": largest, "argmax": position, "argmin": position, "grid_sampler": grid_sampler}
)
