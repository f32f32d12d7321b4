"""Rescalings of all kinds of networks, against dimensions derived by hand and against numerical ranks."""

import copy
import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from truerisk.symmetry import find_symmetry

from .zoo import IDLE, SMALL, ZOO


def fresh(x, batch, seed):
    """Another input like x."""
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, *x.shape[1:])
    if x.is_floating_point():
        return torch.randn(shape, dtype=x.dtype, generator=generator)
    return x.flatten()[torch.randint(x.numel(), shape, generator=generator)]


def all_tensors(module):
    return {k: v.clone() for k, v in module.state_dict().items()}


@pytest.fixture(scope="module", params=ZOO)
def found(request):
    """Built and searched once for all tests: the large networks are slow."""
    module, x, dim = ZOO[request.param]()
    before = all_tensors(module)
    symmetry = find_symmetry(module, x)
    assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())
    return module, x, dim, symmetry


def test_dimension(found):
    *_, dim, symmetry = found
    assert symmetry.dim == dim


@torch.no_grad()
def test_the_function_stays(found):
    module, x, dim, symmetry = found
    inputs = [fresh(x, batch, seed) for seed, batch in enumerate((2, 3))]
    outputs = [module(z) for z in inputs]
    for seed in range(3):
        moved = copy.deepcopy(module)
        moved = symmetry.rescale(moved, symmetry.random(std=1.0, seed=seed))
        changed = sum(not torch.equal(a, b) for a, b in zip(module.state_dict().values(), moved.state_dict().values()))
        assert (changed > 0) == (dim > 0)
        for z, y in zip(inputs, outputs, strict=True):
            assert y.isfinite().all()
            assert (moved(z) - y).abs().max() < 1e-10 * y.abs().max()


def plain_batch_norm(norm, x):
    """PyTorch's own gives no gradient for the running mean."""
    shape = (1, -1, *[1] * (x.ndim - 2))
    x = (x - norm.running_mean.view(shape)) / (norm.running_var + norm.eps).sqrt().view(shape)
    return x * norm.weight.view(shape) + norm.bias.view(shape) if norm.affine else x


def logarithmic_jacobian(module, x):
    """d outputs / d log|w|, for all parameters and running means w."""
    weights = list(module.parameters())
    for part in module.modules():
        if isinstance(part, _BatchNorm):
            part.forward = partial(plain_batch_norm, part)
            weights.append(part.running_mean.requires_grad_())
        elif isinstance(getattr(part, "eps", None), float):
            part.eps = 0.1  # what only eps pins must not look free
    y = module(x).flatten()
    rows = torch.autograd.grad(y, weights, torch.eye(len(y), dtype=y.dtype), is_grads_batched=True)
    return torch.cat([(g * w).flatten(1) for g, w in zip(rows, weights, strict=True)], 1).detach()


def count_directions(build, points=10, factor=2):
    """The dimension of {t: w -> w * exp(s t) leaves the function as it is, for all w and s}, and of its trivial part.

    That is the null space of the Jacobians for log|w| at all w and all inputs together; random ones are enough. No rule
    about any layer goes in. The trivial part: weights that have no influence.
    """
    rows = []
    for seed in range(points):
        module, x, _ = build(seed=seed)
        with torch.no_grad():
            outputs = module(x[:1]).numel()
        size = sum(w.numel() for w in module.state_dict().values())
        z = fresh(x, math.ceil(factor * size / points / outputs), seed)
        if seed % 2:  # far enough out for ReLU6 and hard sigmoids to show both their bends
            z = 5 * z if z.is_floating_point() else z
            with torch.no_grad():
                for w in module.parameters():
                    w *= 2
        rows.append(logarithmic_jacobian(module, z))
    matrix = torch.cat(rows)
    matrix = matrix[matrix.norm(dim=1) > 0]
    matrix /= matrix.norm(dim=1, keepdim=True)
    values = torch.linalg.svdvals(matrix) / len(matrix) ** 0.5
    assert len(values) == matrix.shape[1]
    null = int((values < 1e-9).sum())
    gap = values[-null - 1].item(), (values[-null].item() if null else 0.0)
    idle = int((matrix.abs().amax(0) < 1e-12).sum())
    return null, idle, gap


@pytest.mark.parametrize("name", ZOO)
def test_small_versions_have_nothing_else(name):
    build = partial(ZOO[name], **SMALL[name])
    null, idle, (above, below) = count_directions(build)
    assert above > 1e-6
    assert below < 1e-13
    assert idle == IDLE.get(name, 0)
    module, x, dim = build()
    assert null - idle == dim
    assert find_symmetry(module, x).dim == dim
