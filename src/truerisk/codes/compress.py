"""Train a network to have a short code and few errors at once.

The bound holds for every network of the language at the same time, so the search may look at all the data, as often as
it likes. It descends on  cross-entropy + price * bits / n  over latent weights u, in units of the step: the network
uses round(u), gradients go straight through the rounding (Bengio, Leonard and Courville 2013), and the steps are
learnt the same way (as in LSQ: Esser et al. 2020). The bits of a weight are what the model of `integers` would charge
for it at the odds of the current network, drawn out linearly between whole numbers: that pulls every weight towards
0 by what it costs, so a weight stays only where the cross-entropy pulls more. Weights near others of their sign cost
less: the code's contexts make filters smooth, and channels die out.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from truerisk.codes.integers import CONTEXTS, contexts, from_input_major, input_major
from truerisk.codes.network import encode_numbers, refuse_other
from truerisk.codes.quantize import STEPS, Rounded, coded, nearest_step
from truerisk.training import Plan, run

PRICE = 6.0  # nats of cross-entropy, summed over the examples, that one bit is worth
FIRST_STEP = 3.0  # in units of 1/sqrt(fan in)
SPREAD = 4.0  # latent weights start at this multiple of the start network's
GIVEN_STEP = 1.0  # for given weights: in units of their root mean square, tensor by tensor
STEP_RATE = 0.04  # learning rate of log steps, relative to that of the weights
REFRESH = 60  # batches between two looks at the odds
RAMP = 0.5  # the price grows from a fifth to its full size over this share of the training
LARGEST = 64  # magnitudes whose prices are told apart


class Latent(nn.Module):
    """The trainable numbers: latent weights and log steps of every tensor that has a code."""

    def __init__(self, start: nn.Module, given: nn.Module | None = None) -> None:
        super().__init__()
        self.start = coded(start)
        self.names = list(self.start)
        self.on_start = {name: _constant(t) for name, t in self.start.items()}
        steps = {name: FIRST_STEP * size for name, size in _sizes(self.start).items()}
        if given is None:
            first = {name: SPREAD * t * (not self.on_start[name]) for name, t in self.start.items()}
        else:
            refuse_other(given, start)
            first = {name: t - self.start[name] * self.on_start[name] for name, t in coded(given).items()}
            steps |= {name: float(STEPS[nearest_step(GIVEN_STEP * _size(t))]) for name, t in first.items() if t.any()}
        self.units = nn.ParameterList(first[name] / steps[name] for name in self.names)
        self.log_steps = nn.ParameterList(torch.tensor(math.log(steps[name])) for name in self.names)

    def weights(self) -> dict[str, Tensor]:
        """The weights of the rounded network, with gradients that go through the rounding."""
        result = {}
        for name, u, log_step in zip(self.names, self.units, self.log_steps, strict=True):
            whole = u + (u.round() - u).detach()
            size = log_step.exp()
            step = size + (STEPS[nearest_step(float(size.detach()))] - size).detach()
            result[name] = self.on_start[name] * self.start[name] + whole * step
        return result

    def numbers(self) -> dict[str, Rounded]:
        """What the rounded network is in the language of the code."""
        result = {}
        for name, u, log_step in zip(self.names, self.units, self.log_steps, strict=True):
            step = nearest_step(math.exp(float(log_step.detach())))
            result[name] = Rounded(step, self.on_start[name], u.detach().round().numpy().astype(np.int64))
        return result


class Prices:
    """What the next unit of each weight costs, in bits, at the odds of the network as it was at the last look."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[Tensor, Tensor]] = {}  # from 0 to 1 and from 0 to -1, for each weight
        self._next: dict[str, Tensor] = {}  # from k to k + 1

    def look(self, numbers: Mapping[str, Rounded]) -> None:
        for name, tensor in numbers.items():
            after = _magnitude_bits(np.abs(tensor.numbers))
            up, down = (np.maximum(first + after[0], 0.0) for first in _first_bits(tensor.numbers))
            self._first[name] = _float32(up), _float32(down)
            slopes = np.diff(np.maximum.accumulate(after))
            self._next[name] = _float32(np.concatenate([[0.0], slopes, [0.0]]))

    def bits(self, name: str, units: Tensor) -> Tensor:
        """A number whose gradient is the price of each weight, pointing away from 0."""
        fixed = units.detach()
        up, down = self._first[name]
        later = self._next[name][fixed.abs().long().clamp_max(LARGEST)]
        price = torch.where(fixed.abs() < 1, torch.where(fixed > 0, up, down), later)
        return (price * units.abs()).sum()


def compress(
    start: nn.Module,
    X: np.ndarray,
    y: np.ndarray,
    plan: Plan,
    *,
    given: nn.Module | None = None,
    price: float = PRICE,
    label: str = "training a short code",
) -> bytes:
    """The code of a network with few errors on (X, y), found from ``plan.seed`` alone.

    ``start`` is what the decoder has too. The search starts at the weights of ``given``, which the decoder never sees,
    or at those of ``start``. A higher ``price`` gives shorter
    codes with more errors; the bound is free to choose among several.
    """
    start = copy.deepcopy(start).eval()
    latent, prices = Latent(start, given), Prices()
    inputs, labels, n = torch.from_numpy(X), torch.from_numpy(y), len(X)
    total = plan.epochs * math.ceil(n / plan.batch_size)
    done = 0

    def loss(batch: Tensor) -> Tensor:
        nonlocal done
        if done % REFRESH == 0:
            prices.look(latent.numbers())
        ramp = min(1.0, 0.2 + 0.8 * done / (RAMP * total))
        done += 1
        risk = F.cross_entropy(functional_call(start, latent.weights(), (inputs[batch],)), labels[batch])
        cost = sum(prices.bits(name, u) for name, u in zip(latent.names, latent.units, strict=True))
        return risk + ramp * price / n * cost

    groups: list[dict[str, Any]] = [
        {"params": list(latent.units)},
        {"params": list(latent.log_steps), "lr": STEP_RATE * plan.lr},
    ]
    run(latent, groups, loss, n, plan, label=label)
    return encode_numbers(latent.numbers())


def _first_bits(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log2 of the odds against being non-zero, plus the bits of the sign: for a positive and for a negative one."""
    context, lean = contexts(numbers)
    signs = np.sign(input_major(numbers))
    yes = np.bincount(context, weights=signs != 0, minlength=CONTEXTS)
    every = np.bincount(context, minlength=CONTEXTS)
    cost = np.log2((every - yes + 0.5) / (yes + 0.5))[context]
    kind = np.abs(lean)
    agreed = np.bincount(kind, weights=signs * lean > 0) + 0.5
    both = np.bincount(kind, weights=signs != 0) + 1.0
    agree, differ = (np.where(kind, -np.log2(part / both)[kind], 1.0) for part in (agreed, both - agreed))
    up = cost + np.where(lean >= 0, agree, differ)
    down = cost + np.where(lean <= 0, agree, differ)
    return from_input_major(up, numbers.shape), from_input_major(down, numbers.shape)


def _float32(values: np.ndarray) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))


def _magnitude_bits(absolute: np.ndarray) -> np.ndarray:
    """Bits for the magnitudes 1 to LARGEST, by counting how many go on from each to the next."""
    sizes = np.minimum(absolute[absolute > 0], LARGEST)
    at_least = np.bincount(sizes, minlength=LARGEST + 1)[::-1].cumsum()[::-1]
    onward = np.clip((at_least[2:] + 0.3) / (at_least[1:-1] + 1.0), 0.02, 0.9)
    stop, go = -np.log2(1 - onward), -np.log2(onward)
    return np.append(0.0, go.cumsum()) + np.append(stop, 0.0)


def _constant(start: Tensor) -> bool:
    """Gains and shifts of norm layers start at one value, which is where they should stay if they are not told."""
    return start.ndim < 2 and start.numel() > 0 and bool((start == start.reshape(-1)[0]).all())


def _size(tensor: Tensor) -> float:
    """The root mean square."""
    return float(tensor.double().square().mean().sqrt())


def _sizes(tensors: Mapping[str, Tensor]) -> dict[str, float]:
    """1/sqrt(fan in) of each tensor's layer, in the order of the module; 0.1 where there is no fan in."""
    sizes: dict[str, float] = {}
    for name, tensor in tensors.items():
        weight = tensors.get(name.rpartition(".")[0] + ".weight", tensor)
        sizes[name] = weight[0].numel() ** -0.5 if weight.ndim >= 2 else 0.1
    return sizes
