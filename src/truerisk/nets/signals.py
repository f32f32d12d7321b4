"""Per-example gradients of linear layers, in factors: inputs and backpropagated signals.

A layer a = W h + b that is used once has, for example i,

    dL_i/dW = d_i h_i^T     dL_i/db = d_i     with d_i = dL_i/da_i

so B gradients of in x out numbers follow from B (in + out) numbers, and

    ||dL_i/dW||^2 = ||d_i||^2 ||h_i||^2     <dL_i/dW, V> = d_i^T V h_i.

One forward and one backward pass gives all factors, if no layer lets an example change the loss of another one. Two
checks: products must add up to the gradient of the whole batch, and the signals of all other examples must be 0 in a
second pass back from the first loss alone. Mixing before the first layer changes no product, and is not noticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from truerisk.errors import TrueriskError
from truerisk.nets.evaluate import quiet_vmap

Loss = Callable[[Tensor, Tensor], Tensor]  # outputs and targets of B examples -> B losses
CLOSE = 1e-3  # distance of two sums of the same gradients in float32, over the sum of their norms


@dataclass(frozen=True)
class Signal:
    """One linear layer: what enters it, and the gradient of each example's loss at what leaves it."""

    weight: str  # names of its parameters; bias is "" where the layer has none
    bias: str
    inputs: Tensor  # (B, in)
    deltas: Tensor  # (B, out)


@dataclass(frozen=True)
class Batch:
    """The loss of each example, the gradient of their sum, and the factors of all layers that have them."""

    losses: Tensor
    total: dict[str, Tensor]  # sum over i of the gradient of L_i, by parameter
    signals: list[Signal]
    rest: list[str]  # trainable parameters that no signal covers


def cross_entropies(outputs: Tensor, targets: Tensor) -> Tensor:
    """The cross-entropy of each example."""
    return F.cross_entropy(outputs, targets, reduction="none")


def signals(module: nn.Module, x: Tensor, y: Tensor, loss: Loss = cross_entropies) -> Batch:
    """One pass forward and back. Layers in use more than once, or on more than a vector per example, are in ``rest``.

    >>> net = nn.Linear(2, 2, bias=False)
    >>> found = signals(net, torch.eye(2), torch.tensor([0, 1]))
    >>> [(one.weight, tuple(one.inputs.shape), tuple(one.deltas.shape)) for one in found.signals], found.rest
    ([('weight', (2, 2), (2, 2))], [])
    """
    refuse_batch_norm(module)
    names: dict[Tensor, str] = {p: name for name, p in module.named_parameters() if p.requires_grad}
    if not names:
        raise TrueriskError("the network has no trainable parameter; call requires_grad_(True) on those to train.")
    owners: Counter[Tensor] = Counter(p for _, p in module.named_parameters(remove_duplicate=False))
    layers = [m for m in module.modules() if type(m) is nn.Linear and m.weight in names and owners[m.weight] == 1]
    calls: dict[nn.Module, list[Tensor]] = {layer: [] for layer in layers}
    deltas: dict[nn.Module, Tensor] = {}

    def watch(layer: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        calls[layer].append(given[0].detach())
        if out.requires_grad:  # not so inside torch.no_grad()
            out.register_hook(lambda gradient: deltas.__setitem__(layer, gradient))

    hooks = [layer.register_forward_hook(watch) for layer in layers]
    try:
        with torch.enable_grad():
            losses = each_loss(loss, module(x), y, len(x))
            found = torch.autograd.grad(losses.sum(), list(names), allow_unused=True, retain_graph=True)
            whole = dict(deltas)
            deltas.clear()
            torch.autograd.grad(losses[0], list(names), allow_unused=True)
    finally:
        for hook in hooks:
            hook.remove()
    total = {name: torch.zeros_like(p) if g is None else g for (p, name), g in zip(names.items(), found, strict=True)}
    covered = []
    for layer in layers:
        if layer not in whole or len(calls[layer]) != 1 or calls[layer][0].shape[:-1] != x.shape[:1]:
            continue
        inputs, slopes = calls[layer][0], whole[layer].detach()
        if layer in deltas and bool((deltas[layer][1:].abs() > 0).any()):
            raise TrueriskError(
                f"the loss of an example depends on other examples through {names[layer.weight]!r}; use a network and "
                "a loss in which examples do not change each other."
            )
        bias = names.get(layer.bias, "") if layer.bias is not None and owners[layer.bias] == 1 else ""
        sizes = slopes.norm(dim=1)
        if bias and not close(slopes.sum(0), total[bias], sizes):  # in use elsewhere, too
            bias = ""
        if close(slopes.T @ inputs, total[names[layer.weight]], sizes * inputs.norm(dim=1)):
            covered.append(Signal(names[layer.weight], bias, inputs, slopes))
    done = {name for one in covered for name in (one.weight, one.bias)}
    return Batch(losses.detach(), total, covered, [name for name in total if name not in done])


def per_example(
    module: nn.Module, names: Sequence[str], x: Tensor, y: Tensor, loss: Loss = cross_entropies, rows: int = 64
) -> Iterator[dict[str, Tensor]]:
    """The gradients of single examples at some parameters of any module, ``rows`` examples at a time.

    >>> found = list(per_example(nn.Linear(3, 2), ["bias"], torch.ones(5, 3), torch.zeros(5, dtype=torch.long), rows=4))
    >>> [tuple(one["bias"].shape) for one in found]
    [(4, 2), (1, 2)]
    """
    own = {name: p.detach() for name, p in module.named_parameters() if name in names}
    rest = {name: p.detach() for name, p in module.named_parameters() if name not in own} | dict(module.named_buffers())

    def one_loss(weights: dict[str, Tensor], one: Tensor, target: Tensor) -> Tensor:
        return each_loss(loss, functional_call(module, weights | rest, (one[None],)), target[None], 1)[0]

    each = vmap(grad(one_loss), in_dims=(None, 0, 0), randomness="different")
    with quiet_vmap():
        for first in range(0, len(x), rows):
            try:
                found = each(own, x[first : first + rows], y[first : first + rows])
            except RuntimeError as error:
                raise TrueriskError(
                    f"torch cannot compute the gradients of single examples at {', '.join(own)} "
                    f"({str(error).splitlines()[0]}); use layers that torch.func.vmap supports."
                ) from error
            yield found


def each_loss(loss: Loss, outputs: Tensor, targets: Tensor, count: int) -> Tensor:
    """One loss for each example; a loss that is already a mean is refused."""
    found = loss(outputs, targets)
    if found.shape != (count,):
        raise TrueriskError(
            f"the loss of {count} examples has shape {tuple(found.shape)}, but must be one number for each; use "
            'reduction="none".'
        )
    return found


def refuse_batch_norm(module: nn.Module) -> None:
    """Batch norm in training mode makes the output of an example depend on the others."""
    for name, part in module.named_modules():
        if isinstance(part, _BatchNorm) and (part.training or not part.track_running_stats):
            raise TrueriskError(
                f"layer {name!r} is batch norm in training mode, which mixes examples; call eval() on it, or use "
                "GroupNorm."
            )


def close(one: Tensor, other: Tensor, norms: Tensor) -> bool:
    """Whether two sums of gradients with these norms are equal up to rounding; where they cancel, rounding is all."""
    return bool((one - other).norm() <= CLOSE * norms.sum())


def refuse_mixing(name: str, one: Tensor, other: Tensor, norms: Tensor) -> None:
    """Two sums of the gradients of a batch must agree: of single examples with these norms, and of all at once."""
    if not close(one, other, norms):
        raise TrueriskError(
            f"the gradients of single examples at {name!r} do not add up to that of their batch; use a network without "
            "dropout in which examples do not change each other."
        )
