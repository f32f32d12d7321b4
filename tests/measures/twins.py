"""Slow twins of what the layers of a chain do: dense matrices, full Jacobians, loops over examples.

Nothing here comes from the package.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from measures.cases import CASES, build
from torch import nn

CHAINS = [name for name in CASES if name not in ("residual", "linear")]


def folded(name: str) -> tuple[nn.Sequential, list[nn.Module]]:
    """(network, its parts) of a case without batch norm, which is merged into the convolution before it."""
    parts: list[nn.Module] = []
    for m in build(name):
        if isinstance(m, nn.BatchNorm2d):
            scale = m.weight.data / (m.running_var + m.eps).sqrt()
            parts[-1].weight.data *= scale[:, None, None, None]
            parts[-1].bias.data = m.bias.data + scale * (parts[-1].bias.data - m.running_mean)
        else:
            parts.append(m)
    return nn.Sequential(*parts), parts


def stages(parts):
    """Functions from what leaves one layer to what leaves the next, the first one from the input; and the layers."""
    functions, current, layers, before = [], [], [], []
    for m in parts:
        current.append(m)
        if isinstance(m, nn.Linear | nn.Conv2d):
            functions.append(nn.Sequential(*current))
            before.append(nn.Sequential(*current[:-1]))
            layers.append(m)
            current = []
    return functions, before, layers


def dense(layer, x):
    """The matrix of a layer for inputs like x, its bias in the last column."""
    flat = torch.eye(x.numel(), dtype=torch.float64).reshape(-1, *x.shape[1:])
    zero = layer(torch.zeros_like(x)).flatten()
    columns = torch.stack([layer(e[None]).flatten() - zero for e in flat], dim=1)
    return columns if layer.bias is None else torch.cat([columns, zero[:, None]], dim=1)


@torch.no_grad()
def slow_cushions(parts, X):
    """(mu of each layer, c of each hidden layer)."""
    functions, before, layers = stages(parts)
    mu, c = [math.inf] * len(layers), [0.0] * (len(layers) - 1)
    norms = None
    for x in X:
        value, norms_now = x[None], []
        for i, (step, enter, layer) in enumerate(zip(functions, before, layers, strict=True)):
            entering = enter(value)
            if i:
                c[i - 1] = max(c[i - 1], float(value.norm() / entering.norm()))
            if norms is None:
                norms_now.append(float(dense(layer, entering).norm()))
            value = step(value)
            size = math.sqrt(float(entering.square().sum()) + (layer.bias is not None))
            mu[i] = min(mu[i], float(value.norm()) / ((norms or norms_now)[i] * size))
        norms = norms or norms_now
    return mu, c


def slow_interlayer(parts, X):
    functions, _, layers = stages(parts)
    found = np.full((len(layers), len(layers)), math.inf)
    for x in X:
        values = list(itertools.accumulate(functions, lambda v, f: f(v), initial=x[None]))[1:]
        for i, j in itertools.combinations(range(len(layers)), 2):
            onward = nn.Sequential(*functions[i + 1 : j + 1])
            J = torch.autograd.functional.jacobian(onward, values[i].detach())
            ratio = values[j].norm() / (J.norm() * values[i].norm())
            found[i, j] = min(found[i, j], ratio.item())
    return found
