"""The weight layers of a network in the order in which they run, and whether it is a chain.

Most norms and most theorems speak of weight matrices W_1, ..., W_d with fixed functions between them. Here a network is
taken apart into just that, from its graph of operations. A graph with branches (a residual network) still has layers;
it is no chain, and theorems about chains must not be applied to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from truerisk.nets.graph import Graph, capture, operation, shape_of, spoken, where

CONVOLUTION = {"conv1d": 1, "conv2d": 2, "conv3d": 3}
NORM = {"batch_norm", "_native_batch_norm_legit_no_training"}
SAME = {  # moves entries about, changes none and loses none
    "view", "reshape", "flatten", "_unsafe_view", "permute", "transpose", "contiguous", "clone", "dropout", "squeeze",
    "unsqueeze", "alias", "_to_copy", "to", "getitem",
}  # fmt: skip
CONTRACTION = {"relu": 1.0, "amax": 1.0, "abs": 1.0, "tanh": 1.0, "silu": 1.1, "gelu": 1.13}
RELU = {"relu"}


@dataclass(frozen=True)
class Geometry:
    """How a convolution slides; one number for each axis of the image."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    entering: tuple[int, ...]  # height and width of what enters
    leaving: tuple[int, ...]

    @property
    def places(self) -> int:
        """Positions of the kernel."""
        return math.prod(self.leaving)


@dataclass(frozen=True)
class Layer:
    """A linear map with weights. ``matrix`` has one row for each output unit (channel)."""

    name: str
    weight: Tensor  # float64, in the module's shape; of a batch norm that can't be folded, its factor of each channel
    bias: Tensor | None
    geometry: Geometry | None = None
    fixed: bool = False  # its weights are no parameters of the network
    repeats: int = 1  # places at which the same weights are used: positions of a kernel, tokens

    @property
    def matrix(self) -> Tensor:
        """(units that leave, weights of each). Of a convolution: the reshaped kernel, not the operator."""
        return self.weight.diag() if self.weight.ndim == 1 else self.weight.flatten(1)

    @property
    def fan_in(self) -> int:
        return 1 if self.weight.ndim == 1 else math.prod(self.weight.shape[1:])


@dataclass(frozen=True)
class Between:
    """What is between two layers of a chain: a fixed map with f(0) = 0 and this Lipschitz constant for the l2 norm."""

    operation: str
    lipschitz: float


@dataclass(frozen=True)
class Anatomy:
    """``chain``: layers and what is between them, in order; empty if the network is none, and then ``why`` says so."""

    layers: tuple[Layer, ...]
    chain: tuple[Layer | Between, ...]
    why: str
    graph: Graph
    loose: tuple[str, ...] = ()  # parameters that are in no layer (of an embedding, a layer norm): layers tell not all

    @property
    def relu_only(self) -> bool:
        """A chain in which only ReLUs (and reshapes) are between the layers."""
        return bool(self.chain) and all(isinstance(step, Layer) or step.operation in RELU | SAME for step in self.chain)


def anatomy(module: nn.Module, example: Tensor) -> Anatomy:
    """Take a network apart. Batch norm should be folded before (``truerisk.fold_batch_norm``).

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> parts = anatomy(net, torch.zeros(1, 2))
    >>> [layer.name for layer in parts.layers], parts.relu_only
    (['0', '2'], True)
    """
    graph = capture(module, example)
    tensors = dict(graph.module.named_parameters()) | dict(graph.module.named_buffers())
    names = graph.parameters | graph.buffers

    def tensor(node: Any) -> Tensor | None:
        return tensors[names[node]].detach() if isinstance(node, fx.Node) and node in names else None

    layers: dict[fx.Node, Layer] = {}
    for node in graph.nodes:
        layer = _layer(node, tensor)
        if layer is not None:
            own = [names[arg] for arg in node.all_input_nodes if arg in names]
            fixed = not any(arg in graph.parameters for arg in node.all_input_nodes)
            layers[node] = replace(layer, name=own[0].removesuffix("weight").rstrip(".") or "weight", fixed=fixed)
    _extend_last(graph, layers)
    chain, why = _chain(graph, layers)
    held = {arg for node in layers for arg in node.all_input_nodes}
    loose = tuple(name for node, name in graph.parameters.items() if node.users and node not in held)
    return Anatomy(tuple(layers.values()), tuple(chain), why, graph, loose)


def _extend_last(graph: Graph, layers: dict[fx.Node, Layer]) -> None:
    """One logit z as the two logits (0, z) (see ``nets.adapt``) is a last layer with a first row of zeros."""
    last = graph.outputs[0] if len(graph.outputs) == 1 else None
    if last is None or not _adds_zero(last):
        return
    before: Any = last.args[0]
    layer = layers.get(before)
    if layer is not None and layer.weight.ndim == 2 and len(before.users) == 1:
        bias = None if layer.bias is None else F.pad(layer.bias, (1, 0))
        layers[before] = replace(layer, weight=F.pad(layer.weight, (0, 0, 1, 0)), bias=bias)


def _adds_zero(node: fx.Node) -> bool:
    """Whether an operation puts a zero in front of each row of a matrix, and does nothing else."""
    named = operation(node) == "constant_pad_nd" and len(shape_of(node)) == 2
    return named and list(node.args[1]) == [1, 0] and not any(node.args[2:])  # type: ignore[arg-type]


def _layer(node: fx.Node, tensor: Any) -> Layer | None:
    """The layer that a node is, if it is one."""
    name = operation(node)
    args: tuple[Any, ...] = node.args
    if name == "linear":
        weight, bias = tensor(args[1]), tensor(args[2]) if len(args) > 2 else None
        if weight is None:
            return None
        tokens = math.prod(shape_of(node)[1:-1])
        return Layer("", weight, bias, repeats=tokens)
    if name in CONVOLUTION:
        weight = tensor(args[1])
        if weight is None:
            return None
        axes = CONVOLUTION[name]
        rest = [*args[2:], None, None, None, None, None][:5]
        bias, stride, padding, dilation, groups = rest
        entering, leaving = shape_of(args[0])[-axes:], shape_of(node)[-axes:]
        kernel = weight.shape[2:]
        spread = _each(dilation, axes, 1)
        geometry = Geometry(
            stride=_each(stride, axes, 1),
            padding=_padding(padding, kernel, spread),
            dilation=spread,
            groups=int(groups or 1),
            entering=tuple(entering),
            leaving=tuple(leaving),
        )
        return Layer("", weight, tensor(bias), geometry, repeats=geometry.places)
    if name in NORM:
        gamma, beta, mean, variance = (tensor(arg) for arg in args[1:5])
        if mean is None or variance is None:
            return None
        epsilon = float(next(arg for arg in reversed(args) if isinstance(arg, float)))
        factor = (torch.ones_like(mean) if gamma is None else gamma) / (variance + epsilon).sqrt()
        places = math.prod(shape_of(args[0])[2:])
        return Layer("", factor, (0 if beta is None else beta) - mean * factor, repeats=places)
    return None


def _each(value: Any, axes: int, usual: int) -> tuple[int, ...]:
    if value is None:
        return (usual,) * axes
    return tuple(value) * (axes if len(value) == 1 else 1) if isinstance(value, list | tuple) else (int(value),) * axes


def _padding(value: Any, kernel: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    """Zeros on each side; of "same" padding the larger side, which is never too little."""
    if isinstance(value, str):
        spans = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return tuple(0 if value == "valid" else math.ceil(span / 2) for span in spans)
    return _each(value, len(kernel), 0)


def _chain(graph: Graph, layers: dict[fx.Node, Layer]) -> tuple[list[Layer | Between], str]:
    """The steps if every operation takes the last one's result and nothing else that depends on the input."""
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        return [], "it has several inputs or outputs"
    current: fx.Node = graph.inputs[0]
    steps: list[Layer | Between] = []
    names = [layer.name for layer in layers.values()]
    for node in graph.nodes:
        entering = [arg for arg in node.all_input_nodes if arg not in graph.parameters and arg not in graph.buffers]
        if entering != [current]:
            return [], f"{spoken(node)} (in {where(node)}) takes more than the result of the step before it"
        step = layers.get(node) or _between(node)
        if step is None and node is graph.outputs[0] and _adds_zero(node):
            continue  # the layer before it has the row of zeros
        if step is None:
            return [], f"nothing is known of {spoken(node)} (in {where(node)})"
        steps.append(step)
        current = node
    if graph.outputs[0] is not current and not _adds_zero(graph.outputs[0]):
        return [], "its output is not the result of its last step"
    if len(set(names)) < len(names):
        return [], "a layer is used more than once"
    return steps, ""


def _between(node: fx.Node) -> Between | None:
    """A step without weights, with a Lipschitz constant that is safe (never too small)."""
    name = operation(node)
    if name in SAME:
        return Between(name, 1.0)
    if name in CONTRACTION:
        return Between(name, CONTRACTION[name])
    if name == "leaky_relu":
        return Between(name, max(1.0, abs(float(node.args[1])) if len(node.args) > 1 else 0.01))  # type: ignore[arg-type]
    args: tuple[Any, ...] = node.args
    if name == "elu":  # slopes: scale on the right, at most alpha * scale * input_scale on the left
        alpha, scale, inner = (float(arg) for arg in [*args[1:], 1.0, 1.0, 1.0][:3])
        return Between(name, abs(scale) * max(1.0, abs(alpha * inner)))
    if name.startswith(("max_pool", "avg_pool")):
        return _pool(node, name)
    if name.startswith("adaptive_avg_pool") and set(args[1]) == {1}:
        return Between(name, math.prod(shape_of(args[0])[-len(args[1]) :]) ** -0.5)
    return None


def _pool(node: fx.Node, name: str) -> Between | None:
    """Each entry is in ``overlap`` windows: a maximum is sqrt(overlap)-Lipschitz, a mean of k 1/sqrt(k) of that."""
    axes = int(name[8])
    kernel = _each(node.args[1], axes, 1)
    rest: list[Any] = [*node.args[2:], None, None, None, None, None][:5]
    stride = _each(rest[0] or kernel, axes, 1)
    spread = _each(rest[2] if name.startswith("max") else None, axes, 1)
    steps = [s // math.gcd(s, d) for s, d in zip(stride, spread, strict=True)]
    overlap = math.prod(math.ceil(k / s) for k, s in zip(kernel, steps, strict=True))
    if name.startswith("max"):
        return Between(name, math.sqrt(overlap))
    ceil, padded, divisor = rest[2:]
    if divisor is not None:
        return None
    whole = not ceil and padded is not False  # else a window at the border may be a mean of fewer entries, even of one
    return Between(name, math.sqrt(overlap / (math.prod(kernel) if whole else 1)))
