"""Batch norm merged into the layer before it: fewer numbers, the same function.

In eval mode batch norm is  gain * (x - mean) / sqrt(var + eps) + shift  with fixed numbers for each channel (Ioffe and
Szegedy 2015, section 3.1). After a layer that is affine in its weights, W x + b, both together are one such layer:

    scale = gain / sqrt(var + eps),    W' = scale * W  (by output channel),    b' = shift + scale * (b - mean).

What batch norm learnt from data is then in weights that a prior draws or a code tells, and none of it in buffers
(rule 7 of the design). Which norm follows which layer is found by ``torch.fx``, without an input.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from truerisk.errors import TrueriskError
from truerisk.nets.hidden import replaced_forwards

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *TRANSPOSED)


def fold_batch_norm(module: nn.Module) -> nn.Module:
    """A copy of ``module`` in eval mode, with batch norm merged into the layers before it; the function stays.

    Merged is a norm with running statistics whose input comes straight from a linear or convolutional layer that feeds
    nothing else. It becomes an ``nn.Identity`` of the same name, and the layer gets a bias where it has none. All other
    norms are left as they are (``truerisk.nets.unfoldable`` says which, and why): those that come first, or behind an
    activation or pooling. What enters a linear layer before a ``BatchNorm1d`` is taken to be (batch, features).

    The arithmetic is in float64; the layers keep their precision.

    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    >>> folded = fold_batch_norm(net)
    >>> list(folded.state_dict()), folded[1]
    (['0.weight', '0.bias'], Identity())
    """
    twin = _copied(module)
    for norm, layer in _plan(copy.deepcopy(twin))[0].items():  # a copy: tracing may leave constants in a module
        merged = twin.get_submodule(norm)
        _merge(twin.get_submodule(layer), merged)
        places = [name for name, other in twin.named_modules(remove_duplicate=False) if other is merged]
        for place in places:
            parent, _, last = place.rpartition(".")
            setattr(twin.get_submodule(parent), last, nn.Identity())
    return twin.eval()


def unfoldable(module: nn.Module) -> list[tuple[str, str]]:
    """The batch norms that ``fold_batch_norm`` leaves as they are: (name, why).

    >>> unfoldable(nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)))
    [('0', 'no linear or convolutional layer comes straight before it')]
    """
    return _plan(_copied(module))[1]


@dataclass(frozen=True)
class _Calls:
    """How the modules of a network are called: the nodes of each by its name, and the tensors read by name."""

    nodes: dict[str, list[fx.Node]]
    read: tuple[str, ...]

    def before(self, name: str) -> str | None:
        """The one module whose output enters every call of ``name``."""
        inputs = [node.args[0] if node.args else node.kwargs.get("input") for node in self.nodes[name]]
        sources = {str(x.target) if isinstance(x, fx.Node) and x.op == "call_module" else None for x in inputs}
        return sources.pop() if len(sources) == 1 else None

    def feeds(self, name: str, other: str) -> bool:
        """Whether all calls of ``name`` are followed by ``other`` and by nothing else."""
        users = [user for node in self.nodes[name] for user in node.users]
        return all(user.op == "call_module" and user.target == other for user in users)

    def reads(self, name: str) -> bool:
        """Whether something reads this module's tensors without calling it."""
        return any(tensor.startswith(f"{name}.") for tensor in self.read)


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True  # a buffer that is read shows up in the graph, as a parameter does

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """A user's own kind of norm or layer is one step, too: the checks inside torch's can't be followed."""
        return isinstance(m, (_BatchNorm, *LAYERS)) or super().is_leaf_module(m, module_qualified_name)


def _follow(network: nn.Module) -> _Calls:
    """Trace the network, with the defaults of whatever else its forward takes."""
    parameters = inspect.signature(network.forward).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    try:
        graph = _Tracer().trace(network, concrete_args=defaults)
    except Exception as error:  # whatever the network's own forward may raise on values that are not there
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TrueriskError(
            f"torch.fx could not follow the network ({reason}), so batch norm can't be folded; write its forward "
            "without a path that depends on the input."
        ) from error
    nodes: dict[str, list[fx.Node]] = {}
    for node in graph.nodes:
        if node.op == "call_module":
            nodes.setdefault(str(node.target), []).append(node)
    return _Calls(nodes, tuple(str(node.target) for node in graph.nodes if node.op == "get_attr"))


def _plan(network: nn.Module) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """(norm to layer for all that can be merged, what can't be and why)."""
    norms = {name: m for name, m in network.named_modules() if isinstance(m, _BatchNorm)}
    merged: dict[str, str] = {}
    left: list[tuple[str, str]] = []
    calls = _follow(network) if norms else _Calls({}, ())
    for name, norm in norms.items():
        layer = calls.before(name) if name in calls.nodes else None
        why = _obstacle(norm) or _misplaced(network, calls, name, layer)
        if why or layer is None:
            left.append((name, why))
        else:
            merged[name] = layer
    return merged, left


def _obstacle(norm: nn.Module) -> str:
    """What about the norm itself forbids to merge it; empty if nothing does."""
    if type(norm) not in NORMS or _hooked(norm):
        return "it is no plain batch norm: a class of its own, or with hooks"
    if norm.running_mean is None or norm.running_var is None or norm.training:
        return "it uses the statistics of the batch, not running ones"
    return ""


def _misplaced(network: nn.Module, calls: _Calls, name: str, before: str | None) -> str:
    """What about its place in the network forbids to merge it."""
    if name not in calls.nodes:
        return "it is not called as a layer of the network"
    layer = network.get_submodule(before) if before is not None else None
    if before is None or not isinstance(layer, LAYERS):
        return "no linear or convolutional layer comes straight before it"
    if type(layer) not in LAYERS or _hooked(layer) or layer._parameters.get("weight") is None:
        return f"the weights of {before} before it are computed (a parametrization, a hook, a class of its own)"
    if not calls.feeds(before, name):
        return f"the output of {before} before it is used elsewhere too"
    owned = [id(p) for m in network.modules() for p in m._parameters.values()]
    if any(owned.count(id(p)) > 1 for p in layer.parameters()):
        return f"the weights of {before} before it are shared with another layer"
    if network.get_submodule(name).num_features != _outputs(layer):
        return f"its channels are not the outputs of {before} before it"
    if calls.reads(before) or calls.reads(name):
        return f"the network reads tensors of {name} or {before} directly"
    return ""


def _outputs(layer: nn.Module) -> int:
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return weight.shape[1] * layer.groups if isinstance(layer, TRANSPOSED) else weight.shape[0]


def _hooked(layer: nn.Module) -> bool:
    return bool(layer._forward_hooks or layer._forward_pre_hooks)


@torch.no_grad()
def _merge(layer: nn.Module, norm: nn.Module) -> None:
    """Put the norm's affine map into the layer's weights and bias."""
    assert isinstance(layer, LAYERS)
    assert isinstance(norm, _BatchNorm)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    mean = norm.running_mean.double()
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    scale = scale if norm.weight is None else norm.weight.double() * scale
    shift = torch.zeros_like(mean) if norm.bias is None else norm.bias.double()
    bias = torch.zeros_like(mean) if layer.bias is None else layer.bias.double()
    layer.weight.copy_(_by_output(layer, scale) * layer.weight.double())
    bias = (shift + scale * (bias - mean)).to(layer.weight.dtype)
    if layer.bias is None:
        layer.bias = nn.Parameter(bias, requires_grad=layer.weight.requires_grad)
    else:
        layer.bias.copy_(bias)


def _by_output(layer: nn.Module, scale: Tensor) -> Tensor:
    """One number for each output channel, in a shape that broadcasts to the weights."""
    weight = layer.weight
    assert isinstance(weight, Tensor)
    if not isinstance(layer, TRANSPOSED):
        return scale.reshape(-1, *(1,) * (weight.ndim - 1))
    # Inputs come first there, in groups, each with outputs of its own.
    groups = scale.reshape(layer.groups, 1, -1).expand(-1, weight.shape[0] // layer.groups, -1)
    return groups.reshape(weight.shape[0], -1, *(1,) * (weight.ndim - 2))


def _copied(module: nn.Module) -> nn.Module:
    if not isinstance(module, nn.Module):
        raise TrueriskError(f"fold_batch_norm takes a torch module, not a {type(module).__name__}.")
    replaced = replaced_forwards(module)
    if replaced:
        raise TrueriskError(f"the module can't be copied, because {', '.join(replaced)} was replaced; use a subclass.")
    try:
        return copy.deepcopy(module).eval()
    except RuntimeError as error:
        raise TrueriskError(f"the module can't be copied: {str(error).splitlines()[0]}") from error
