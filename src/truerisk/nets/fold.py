"""Batch norm merged into the layer before it: fewer numbers, the same function.

In eval mode batch norm is  gain * (x - mean) / sqrt(var + eps) + shift  with fixed numbers for each channel (Ioffe and
Szegedy 2015, section 3.1). After a layer that is affine in its weights, W x + b, both together are one such layer:

    scale = gain / sqrt(var + eps),    W' = scale * W  (by output channel),    b' = shift + scale * (b - mean).

What batch norm learnt from data is then in weights that a prior draws or a code tells, and none of it in buffers
(rule 7 of docs/design.rst). Which norm follows which layer is found by following the network
(``truerisk.nets.calls``).

With ``affine``, the statistics go into the norm's own gain and shift instead,

    gain' = gain sqrt(1 + eps) / sqrt(var + eps),    shift' = shift - gain mean / sqrt(var + eps),

and those of a new norm, mean 0 and variance 1, take their place. There are more weights to draw, and more rescalings:
what enters the norm and what leaves it have a log-scale each, and a mean of 0 holds neither.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from truerisk.errors import TrueriskError
from truerisk.nets.calls import LAYERS, TRANSPOSED, Calls, by_export, by_fx, hooked
from truerisk.nets.hidden import replaced_forwards

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
Example = Tensor | tuple[Tensor, ...]
UNCALLED = "it is not called as a layer of the network"


def fold_batch_norm(module: nn.Module, example_input: Example | None = None, affine: bool = False) -> nn.Module:
    """A copy of ``module`` in eval mode, with batch norm merged into the layers before it; the function stays.

    Merged is a norm with running statistics whose input comes straight from a linear or convolutional layer that feeds
    nothing else. It becomes an ``nn.Identity`` of the same name, and the layer gets a bias where it has none. All other
    norms are left as they are (``truerisk.nets.unfoldable`` says which, and why): those that come first, or behind an
    activation or pooling.

    With ``example_input``, such as ``torch.zeros(1, 3, 32, 32)``, ``torch.export`` follows the network on an input of
    that shape, and the function stays for batches of such inputs. Without it ``torch.fx`` follows the network for any
    input. That fails on a forward with ``len(x)`` or with a choice by shape, and takes the input of a linear layer
    before a ``BatchNorm1d`` to be (batch, features).

    With ``affine``, the statistics of every norm that has running ones, wherever it stands, go into its own gain and
    shift. The norm stays, with the statistics of a new one: a factor and a shift for each channel, as long as the
    network is in eval mode. A norm without gain and shift gets them. ``state_dict`` keeps its names and fits a newly
    built network.

    The arithmetic is in float64; the layers keep their precision.

    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    >>> folded = fold_batch_norm(net)
    >>> list(folded.state_dict()), folded[1]
    (['0.weight', '0.bias'], Identity())
    >>> _ = net[1].running_mean.fill_(3.0)
    >>> kept = fold_batch_norm(net, affine=True)[1]
    >>> kept.running_mean.tolist(), [round(b, 3) for b in kept.bias.tolist()]
    ([0.0, 0.0, 0.0, 0.0], [-3.0, -3.0, -3.0, -3.0])
    """
    twin = _copied(module)
    for norm, layer in _plan(twin, example_input, affine)[0].items():
        if affine:
            _absorb(twin.get_submodule(norm))
        else:
            _merge(twin.get_submodule(layer), twin.get_submodule(norm))
            _replace(twin, twin.get_submodule(norm))
    return twin.eval()


def unfoldable(module: nn.Module, example_input: Example | None = None, affine: bool = False) -> list[tuple[str, str]]:
    """The batch norms that ``fold_batch_norm`` leaves as they are: (name, why).

    >>> unfoldable(nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)))
    [('0', 'no linear or convolutional layer comes straight before it')]
    >>> unfoldable(nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)), affine=True)
    []
    """
    return _plan(_copied(module), example_input, affine)[1]


def _plan(
    module: nn.Module, example_input: Example | None, affine: bool
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """(norm to the layer that takes it, or with ``affine`` to itself; those that cannot be merged and why)."""
    network = copy.deepcopy(module)  # tracing may leave constants in a module
    norms = {name: m for name, m in network.named_modules() if isinstance(m, _BatchNorm)}
    merged: dict[str, str] = {}
    left: list[tuple[str, str]] = []
    if not norms:
        return {}, []
    calls = by_fx(network) if example_input is None else by_export(network, example_input)
    for name, norm in norms.items():
        layer = name if affine else calls.before.get(name)
        why = _obstacle(norm) or (_not_alone if affine else _misplaced)(network, calls, name, layer)
        if why or layer is None:
            left.append((name, why))
        else:
            merged[name] = layer
    return merged, left


def _obstacle(norm: nn.Module) -> str:
    """What about the norm itself forbids to merge it; empty if nothing does."""
    if type(norm) not in NORMS or hooked(norm):
        return "it is no plain batch norm: a class of its own, or with hooks"
    if norm.running_mean is None or norm.running_var is None or norm.training:
        return "it uses the statistics of the batch, not running ones"
    return ""


def _misplaced(network: nn.Module, calls: Calls, name: str, before: str | None) -> str:
    """What about its place in the network forbids to merge it."""
    if name not in calls.before:
        return UNCALLED
    layer = network.get_submodule(before) if before is not None else None
    if before is None or not isinstance(layer, LAYERS):
        return "no linear or convolutional layer comes straight before it"
    if type(layer) not in LAYERS or hooked(layer) or layer._parameters.get("weight") is None:
        return f"the weights of {before} before it are computed (a parametrization, a hook, a class of its own)"
    if calls.after[before] != {name}:
        return f"the output of {before} before it is used elsewhere too"
    if _shared(network, layer.parameters()):
        return f"the weights of {before} before it are shared with another layer"
    if network.get_submodule(name).num_features != _outputs(layer) or before in calls.tokens:
        return f"its channels are not the outputs of {before} before it"
    if calls.read & {before, name}:
        return f"the network reads tensors of {name} or {before} directly"
    return ""


def _not_alone(network: nn.Module, calls: Calls, name: str, _: str | None) -> str:
    """What forbids to change the tensors of a norm: something else reads them."""
    norm = network.get_submodule(name)
    if name not in calls.before:
        return UNCALLED
    if _shared(network, [*norm.parameters(), *norm.buffers()]):
        return "it shares tensors with another layer"
    return f"the network reads tensors of {name} directly" if name in calls.read else ""


def _shared(network: nn.Module, tensors: Iterable[Tensor]) -> bool:
    owned = Counter(id(t) for m in network.modules() for t in (*m._parameters.values(), *m._buffers.values()))
    return any(owned[id(t)] > 1 for t in tensors)


def _outputs(layer: nn.Module) -> int:
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return weight.shape[1] * layer.groups if isinstance(layer, TRANSPOSED) else weight.shape[0]


@torch.no_grad()
def _merge(layer: nn.Module, norm: nn.Module) -> None:
    """Put the norm's affine map into the layer's weights and bias."""
    assert isinstance(layer, LAYERS)
    mean, scale, shift = _map(norm)
    bias = torch.zeros_like(mean) if layer.bias is None else layer.bias.double()
    layer.weight.copy_(_by_output(layer, scale) * layer.weight.double())
    bias = (shift + scale * (bias - mean)).to(layer.weight.dtype)
    if layer.bias is None:
        layer.bias = nn.Parameter(bias, requires_grad=layer.weight.requires_grad)
    else:
        layer.bias.copy_(bias)


def _replace(network: nn.Module, merged: nn.Module) -> None:
    """Put an identity wherever the norm stood, under all its names."""
    for place in [name for name, other in network.named_modules(remove_duplicate=False) if other is merged]:
        parent, _, last = place.rpartition(".")
        setattr(network.get_submodule(parent), last, nn.Identity())


@torch.no_grad()
def _absorb(norm: nn.Module) -> None:
    """Put the norm's statistics into its own gain and shift, and those of a new norm in their place."""
    assert isinstance(norm, _BatchNorm)
    mean, scale, shift = _map(norm)
    assert norm.running_mean is not None
    kind = norm.running_mean.dtype
    own = {"weight": scale * (1 + norm.eps) ** 0.5, "bias": shift - scale * mean}
    for name, value in own.items():
        old = getattr(norm, name)
        if old is None:
            setattr(norm, name, nn.Parameter(value.to(kind)))
        else:
            old.copy_(value)
    norm.affine = True
    norm.reset_running_stats()


def _map(norm: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
    """A norm in eval mode is scale * (x - mean) + shift: (mean, scale, shift) in float64."""
    assert isinstance(norm, _BatchNorm)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    mean = norm.running_mean.double()
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    scale = scale if norm.weight is None else norm.weight.double() * scale
    return mean, scale, torch.zeros_like(mean) if norm.bias is None else norm.bias.double()


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
