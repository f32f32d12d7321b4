"""A kernel of its own for each example: unfold and a batched product, against ``torch.func.vmap``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from benchmarks.timing import Row, in_turns
from truerisk.nets import convnet
from truerisk.pacbayes import Gaussian, StochasticNetwork, fan_in_std

EXAMPLES = 600


def rows() -> list[Row]:
    torch.manual_seed(0)
    module = convnet((1, 28, 28), 10).double().eval()
    posterior = Gaussian.around(module, fan_in_std(module, 0.1))
    mean, std = posterior.mean, posterior.std
    network = StochasticNetwork(module, exact=True)
    x = torch.rand(EXAMPLES, 1, 28, 28, dtype=torch.float64)

    def layered(normal: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
        with torch.no_grad():
            return network(x, mean, std, normal)

    def mapped(normal: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
        with torch.no_grad():
            drawn = {name: m + std[name] * normal((EXAMPLES, *m.shape)) for name, m in mean.items()}
            return vmap(lambda w, one: functional_call(module, w, (one[None],))[0])(drawn, x)

    def without(shape: tuple[int, ...]) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64)

    gap = float((layered(without) - mapped(without)).abs().max())
    label = f"{EXAMPLES} draws of a convnet with {posterior.size:,} weights"
    opponent = "vmap over functional_call, float64"
    whole = in_turns(lambda: layered(_normal()), lambda: mapped(_normal()), repeats=5)
    alone = in_turns(lambda: layered(without), lambda: mapped(without), repeats=5)
    return [
        Row(label, opponent, *whole, note="with the random numbers, the same generator for both"),
        Row(f"{label}, arithmetic alone", opponent, *alone, note=f"largest difference of outputs {gap:.1e}"),
    ]


def _normal() -> Callable[[tuple[int, ...]], Tensor]:
    stream = np.random.Generator(np.random.SFC64(0))
    return lambda shape: torch.from_numpy(stream.standard_normal(shape))
