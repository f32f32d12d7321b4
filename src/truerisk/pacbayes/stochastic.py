"""Run a network whose weights are drawn from a Gaussian, a draw for each example where possible.

For a linear layer with independent Gaussian weights the output for one example is Gaussian with
independent coordinates, so drawing the *output* is the same as drawing the weights anew for each
example (local reparameterization: Kingma, Salimans and Welling 2015). That is exact where each weight
enters each example once. Elsewhere (convolutions, token-wise layers, norm layers) each example gets
its own drawn weights. What is neither raises ``NotPerExample``, and whole networks are drawn instead.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from truerisk.nets.evaluate import quiet_vmap

Normal = Callable[[tuple[int, ...]], Tensor]  # standard normal draws of a given shape
SAME = 1e-4  # relative difference of outputs that rounding explains, in float32 too
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
EPS, TINY = 2.0**-53, 2.0**-1074  # of float64: half the gap at 1, the smallest number
MUCH_MORE = 1e5  # noise in units of what rounding may change: then it shifts no error rate by more than 1e-5 or so


class NotPerExample(Exception):
    """The network uses its weights in a way that layer-by-layer draws can't follow; says where and why."""


class StochasticNetwork:
    """``net(x, mean, std, normal)``: one pass with weights drawn layer by layer.

    ``exact=True``: every example gets its own independent draw of all weights, or NotPerExample.
    ``exact=False``: for training. Convolutions use local reparameterization too (then outputs at
    different places get independent noise, which is not a draw of weights but trains well).

    The copy inside holds NaN in place of each random weight. A layer that reads its weights in a way
    that this class did not see gives NaN outputs instead of quietly using a weight that was not drawn.
    """

    def __init__(self, module: nn.Module, *, exact: bool) -> None:
        _refuse_ties(module)
        self.exact = exact
        self._original = copy.deepcopy(module).eval()
        self._module = copy.deepcopy(module).eval()
        self._names = {n for n, p in self._module.named_parameters() if p.requires_grad}
        self._calls: dict[str, int] = {}
        for prefix, layer in list(self._module.named_modules()):
            if any(_join(prefix, n) in self._names for n, _ in layer.named_parameters(recurse=False)):
                pristine = copy.deepcopy(layer)
                layer.forward = functools.partial(self._forward, prefix, pristine)
                self._calls[prefix] = 0
        with torch.no_grad():
            for name, parameter in self._module.named_parameters():
                if name in self._names:
                    parameter.fill_(float("nan"))

    def __call__(self, x: Tensor, mean: Mapping[str, Tensor], std: Mapping[str, Tensor], normal: Normal) -> Tensor:
        self._mean, self._std, self._normal, self._batch = mean, std, normal, len(x)
        self._calls = dict.fromkeys(self._calls, 0)
        out = self._module(x)
        silent = [name or "the module itself" for name, count in self._calls.items() if count == 0]
        if silent:
            raise NotPerExample(f"the weights of {', '.join(silent)} are read without a call of the layer")
        return out

    def probe(self, x: Tensor, mean: Mapping[str, Tensor], std: Mapping[str, Tensor]) -> None:
        """Raise NotPerExample unless the structure was understood.

        Two batch sizes reveal a layer whose first axis only happens to be as long as the batch.
        """
        for size in (2, 3):
            with torch.no_grad():
                try:
                    out = self(x[:size], mean, std, lambda shape: torch.zeros(shape, dtype=x.dtype))
                except NotPerExample:
                    raise
                except Exception as error:
                    raise NotPerExample(f"a layer refused to run alone ({type(error).__name__}: {error})") from error
            if not bool(out.isfinite().all()):
                raise NotPerExample("some weights are read without a call of their layer")
        generator = torch.Generator().manual_seed(0)
        self._compare(x[:3], mean)
        for _ in range(2):
            elsewhere = {n: m + torch.randn(m.shape, generator=generator, dtype=m.dtype) for n, m in mean.items()}
            self._compare(x[:3], elsewhere)

    def _compare(self, x: Tensor, weights: Mapping[str, Tensor]) -> None:
        """Without noise the pass must be the module itself, whatever its weights.

        That finds overridden forwards, hooks that run twice, outputs that are tuples, and weights that
        are read where a NaN does not show.
        """
        nothing = {name: torch.zeros_like(w) for name, w in weights.items()}
        with torch.no_grad():
            try:
                mine = self(x, weights, nothing, lambda shape: torch.zeros(shape, dtype=x.dtype))
                for name, parameter in self._original.named_parameters():
                    if name in weights:
                        parameter.copy_(weights[name])
                right = self._original(x)
            except NotPerExample:
                raise
            except Exception as error:
                raise NotPerExample(f"the network refused drawn weights ({type(error).__name__}: {error})") from error
        same = mine.shape == right.shape and bool(right.isfinite().all())
        if not (same and bool(((mine - right).abs() <= SAME * right.abs().max()).all())):
            raise NotPerExample("a layer does more than its class says (a forward of its own, a hook?)")

    def _forward(self, prefix: str, layer: nn.Module, *args: Any, **kwargs: Any) -> Any:
        self._calls[prefix] += 1
        if self.exact and self._calls[prefix] > 1:
            raise NotPerExample(f"{prefix} is used twice in one pass")
        if len(args) != 1 or kwargs or not isinstance(args[0], Tensor) or len(list(layer.children())):
            raise NotPerExample(f"{prefix or 'the module itself'} is not a plain layer with one input")
        x = args[0]
        if len(x) != self._batch:
            raise NotPerExample(f"the first axis of the input of {prefix} is not the batch")
        if isinstance(layer, nn.Linear) and (x.ndim == 2 or not self.exact):
            return self._local(prefix, layer, x, F.linear)
        if isinstance(layer, CONVOLUTIONS) and not self.exact:
            return self._local(prefix, layer, x, layer._conv_forward)
        return self._drawn(prefix, layer, x)

    def _local(self, prefix: str, layer: nn.Module, x: Tensor, linear: Callable[..., Tensor]) -> Tensor:
        weight, weight_std = self._moments(prefix, layer, "weight")
        bias, bias_std = self._moments(prefix, layer, "bias") if layer.bias is not None else (None, None)
        if self.exact:
            return _noisy(x, weight, weight_std, bias, bias_std, self._normal).to(x.dtype)
        mean = linear(x, weight, bias)
        variance = linear(x.square(), weight_std.square(), None if bias_std is None else bias_std.square())
        # The least variance keeps the gradient of the square root finite.
        return mean + variance.clamp_min(1e-16).sqrt() * self._normal(tuple(mean.shape))

    def _drawn(self, prefix: str, layer: nn.Module, x: Tensor) -> Tensor:
        each = (len(x),) if self.exact else ()
        weights = {}
        for name, _ in layer.named_parameters(recurse=False):
            mean, std = self._moments(prefix, layer, name)
            weights[name] = mean + std * self._normal((*each, *mean.shape))
        if not self.exact:
            return functional_call(layer, weights, (x,))
        if isinstance(layer, nn.Conv2d) and layer.groups == 1 and layer.padding_mode == "zeros":
            return _convolve_each(layer, weights, x)
        return _call_each(layer, weights, x)

    def _moments(self, prefix: str, layer: nn.Module, name: str) -> tuple[Tensor, Tensor]:
        full = _join(prefix, name)
        if full in self._names:
            return self._mean[full], self._std[full]
        frozen = getattr(layer, name).detach()
        return frozen, torch.zeros_like(frozen)


def _noisy(
    x: Tensor, weight: Tensor, weight_std: Tensor, bias: Tensor | None, bias_std: Tensor | None, normal: Normal
) -> Tensor:
    """Outputs of a linear layer with weights drawn for each row, in float64: mean + spread * normal numbers.

    Rounding *after* the noise is a function of the drawn weights, and the KL covers it. Rounding of the mean *before*
    is not: where the noise is smaller, a change of the mean that costs no KL could decide the output. So an output must
    have far more noise than the mean can lose in float64 (gamma_n sum |x_j m_j|, Higham 2002, section 3.1).
    """
    x, weight, weight_std = x.double(), weight.double(), weight_std.double()
    bias, bias_std = (None if t is None else t.double() for t in (bias, bias_std))
    mean, spread = F.linear(x, weight, bias), _spread(x, weight_std, bias_std)
    noise = normal(tuple(mean.shape)).double()
    random_bias = bias_std is not None and bool(bias_std.any())
    if not random_bias and not bool(weight_std.any()):
        return mean  # without noise it is compared with the network itself
    size = F.linear(x.abs(), weight.abs(), None if bias is None else bias.abs())
    sure = spread >= MUCH_MORE * (weight.shape[1] + 2) * (EPS * size + TINY)
    if not random_bias:
        sure = sure | (x == 0).all(dim=1, keepdim=True)  # then nothing is drawn, and the bias is exact
    if not bool(sure.all()):
        raise NotPerExample("some outputs have so little noise that rounding would decide them")
    return mean + spread * noise


def _spread(x: Tensor, weight_std: Tensor, bias_std: Tensor | None) -> Tensor:
    """Standard deviations of a linear layer's outputs, in float64: sqrt(sum_j x_j^2 s_j^2 + s_bias^2).

    Were a square to underflow, a network would be drawn without noise and certified as if with it. So each row is
    divided by its largest entry (at least 1 beside a bias) before it is squared. Standard deviations are float32
    numbers, with squares above 1e-90. What underflows even so is an input of less than 1e-100 of the row's largest: its
    share of the output is far below the noise of that one.
    """
    largest = x.abs().amax(dim=1, keepdim=True).clamp_min(0.0 if bias_std is None else 1.0)
    scale = torch.where(largest > 0, largest, 1.0)
    variance = F.linear((x / scale).square(), weight_std.square())
    if bias_std is not None:
        variance = variance + (bias_std / scale).square()
    return variance.sqrt() * scale


def _call_each(layer: nn.Module, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Any layer with weights of its own for each example."""
    with quiet_vmap():
        return vmap(lambda w, one: functional_call(layer, w, (one[None],))[0])(weights, x)


def _convolve_each(layer: nn.Conv2d, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """A 2-d convolution with a kernel for each example, as one batched matrix product.

    (vmap would turn it into a grouped convolution: the same numbers, but slower in float64 on a CPU.)
    """
    if isinstance(layer.padding, str):
        return _call_each(layer, weights, x)
    columns = F.unfold(x, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
    out = weights["weight"].flatten(2) @ columns
    if "bias" in weights:
        out = out + weights["bias"][:, :, None]
    height = _out_size(layer, x.shape[2], 0)
    return out.unflatten(2, (height, out.shape[2] // height))


def _out_size(layer: nn.Conv2d, size: int, axis: int) -> int:
    padding, dilation = layer.padding[axis], layer.dilation[axis]
    assert isinstance(padding, int)
    return (size + 2 * padding - dilation * (layer.kernel_size[axis] - 1) - 1) // layer.stride[axis] + 1


def _refuse_ties(module: nn.Module) -> None:
    every = len(list(module.named_parameters(remove_duplicate=False)))
    if every != len(list(module.named_parameters())):
        raise NotPerExample("two layers share a parameter")


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
