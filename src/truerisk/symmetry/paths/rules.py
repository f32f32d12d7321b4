"""The table of operations that paths can follow, and the rules in which each entry stays by itself.

The choices (after Gonon, Brisebarre, Riccietti and Gribonval 2024, "A path-norm toolkit for modern networks"):

* ReLU and abs have weight 1; a leaky ReLU of slope a (PReLU too) has weight max(1, |a|).
* A max-pool is the sum over its window; an average counts its coefficients 1/n, an interpolation its own.
* Batch norm is a weight gamma/sqrt(var + eps) and one bias beta + gamma (b - mean)/sqrt(var + eps), where b is the bias
  of a linear or convolutional layer straight before it that feeds nothing else: the network with its norms folded.

To teach paths an operation, write it in the primitives of :class:`truerisk.symmetry.paths.follow.Paths`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from truerisk.nets.graph import compute
from truerisk.symmetry.paths import layers
from truerisk.symmetry.paths.follow import UNKNOWN, Paths, Rule, Step

# --- entries that only change places ------------------------------------------------------------------------


def keep(step: Step) -> Paths:
    if not step.node.meta["val"].is_floating_point():
        raise step.refusal("rounds its input")
    return step.input()


def move(step: Step) -> Paths:
    if step.named.get("value") not in (None, 0):
        raise step.refusal("pads with a value other than zero")
    return step.input().move(step.run)


def split(step: Step) -> list[Paths]:
    x = step.input()
    return [x.move(lambda t, k=k: step.run(t)[k]) for k in range(len(step.node.meta["val"]))]  # type: ignore[misc]


def join(step: Step) -> Paths:
    parts = [step.paths(value) for value in step["tensors"]]
    zeros = [torch.zeros(part.shape, dtype=torch.float64) for part in parts]

    def place(k: int) -> Callable[[Tensor], Tensor]:
        return lambda t: compute(step.node, ([*zeros[:k], t, *zeros[k + 1 :]], step["dim"]), {})

    return step.sum(*(part.move(place(k)) for k, part in enumerate(parts)))


def choose(step: Step) -> Paths:
    """One of two for each entry. The condition is a constant: a comparison of activations is refused by itself."""
    chosen, x, y = step["condition"], step.paths(step["self"]), step.paths(step["other"])
    return step.sum(x.move(lambda t: torch.where(chosen, t, 0.0)), y.move(lambda t: torch.where(chosen, 0.0, t)))


# --- sums and multiples -------------------------------------------------------------------------------------


def add(step: Step, of_self: float = 1.0, of_other: float = 1.0) -> Paths:
    """of_self * self + of_other * other."""
    return step.sum(step.paths(step["self"], of_self), step.paths(step["other"], of_other))


def multiply(step: Step) -> Paths:
    x, y = step["self"], step["other"]
    return x.scale(step.weight(y)) if isinstance(x, Paths) else y.scale(step.weight(x))


def divide(step: Step) -> Paths:
    if step.named.get("rounding_mode") is not None:
        raise step.refusal("rounds its input")
    return step.input().scale(step.weight(1.0 / torch.as_tensor(step["other"], dtype=torch.float64)))


# --- activations --------------------------------------------------------------------------------------------


def slope(step: Step, slope: Any) -> Paths:
    """A function that is linear on either side of zero, with slope 1 above."""
    if step.named.get("training"):
        raise step.refusal("draws random numbers")
    factor = step.weight(slope).abs().clamp(min=1.0)
    x = step.input()
    if factor.numel() > 1:  # one for each channel
        factor = factor.reshape(-1, *[1] * (len(x.shape) - 2))
    return x if bool((factor == 1).all()) else x.scale(factor)


def clamp(step: Step) -> Paths:
    low, high = step["min"], step.named.get("max")
    if isinstance(low, Tensor) or low != 0 or high is not None:
        raise step.refusal("is not homogeneous unless it is max(x, 0)")
    return step.input()


def dropout(step: Step) -> Paths:
    if step["train"]:
        raise step.refusal("draws random numbers, also in eval mode")
    return step.input()


def largest(step: Step) -> Any:
    """max and min: of two activations, of an activation and zero, or over axes."""
    if "other" not in step.named:
        return (layers.reduce(step), UNKNOWN) if "dim" in step.named else layers.reduce(step)
    terms = [x for x in (step["self"], step["other"]) if isinstance(x, Paths) or step.weight(x).any()]
    if not all(isinstance(x, Paths) for x in terms):
        raise step.refusal("compares with a constant other than zero")
    return step.sum(*terms)


# --- the table ----------------------------------------------------------------------------------------------

_TABLE: list[tuple[Rule, str]] = [
    (lambda step: None, "_assert_tensor_metadata"),
    (Step.input, "relu abs absolute"),
    (clamp, "clamp clip clamp_min"),
    (lambda step: slope(step, step["negative_slope"]), "leaky_relu"),
    (lambda step: slope(step, step["weight"]), "prelu"),
    (lambda step: slope(step, (step["lower"] + step["upper"]) / 2), "rrelu"),
    (dropout, "dropout feature_dropout alpha_dropout feature_alpha_dropout"),
    (keep, "to _to_copy clone contiguous detach alias lift_fresh_copy"),
    (move, "view reshape _unsafe_view flatten unflatten squeeze unsqueeze"),
    (move, "permute transpose swapaxes t numpy_T mT movedim moveaxis flip roll"),
    (move, "select slice narrow index index_select diagonal tril triu expand repeat repeat_interleave tile"),
    (move, "pixel_shuffle pixel_unshuffle channel_shuffle unfold im2col"),
    (move, "pad constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d"),
    (move, "replication_pad1d replication_pad2d replication_pad3d"),
    (move, "upsample_nearest1d upsample_nearest2d upsample_nearest3d"),
    (move, "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d"),
    (split, "split split_with_sizes chunk tensor_split unbind"),
    (join, "cat concat concatenate stack"),
    (choose, "where"),
    (lambda step: add(step, of_other=step.named.get("alpha", 1)), "add"),
    (lambda step: add(step, of_other=-step.named.get("alpha", 1)), "sub subtract"),
    (lambda step: add(step, of_self=-step.named.get("alpha", 1)), "rsub"),
    (lambda step: step.input().scale(step.weight(-1.0)), "neg negative"),
    (multiply, "mul multiply"),
    (divide, "div divide true_divide"),
    (largest, "max min maximum minimum"),
    (layers.linear, "linear"),
    (layers.matmul, "matmul mm bmm mv dot"),
    (layers.add_matmul, "addmm addmv baddbmm"),
    (layers.einsum, "einsum"),
    (layers.convolve, "conv1d conv2d conv3d"),
    (layers.convolve_transposed, "conv_transpose1d conv_transpose2d conv_transpose3d"),
    (layers.batch_norm, "batch_norm"),
    (lambda step: (layers.batch_norm(step), UNKNOWN, UNKNOWN), "_native_batch_norm_legit_no_training"),
    (layers.reduce, "sum amax amin"),
    (lambda step: layers.reduce(step, mean=True), "mean"),
    (layers.window, "max_pool1d max_pool2d max_pool3d"),
    (
        lambda step: (layers.window(step), UNKNOWN),
        "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices "
        "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d",
    ),
    (layers.average, "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d"),
    (layers.interpolate, "upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d"),
]
RULES: dict[str, Rule] = {name: rule for rule, names in _TABLE for name in names.split()}
