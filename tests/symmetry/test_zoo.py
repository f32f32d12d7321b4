"""Rescalings of all kinds of networks, against dimensions derived by hand and against numerical ranks."""

import math
from functools import partial

import pytest
import torch
from torch.nn.modules.batchnorm import _BatchNorm

from truerisk.symmetry import find_symmetry

from .zoo import IDLE, SMALL, ZOO, small

# Deep, but not as wide as published; the deepest one, ResNet-50, is both.
NARROW = {name: {"widths": (16, 32, 64, 128)} for name in ("resnet18", "resnet18_cifar")}
POINTS = 40  # weights at which a rank is taken: with fewer, some ReLU of some network is dead at all of them


def fresh(x, batch, seed):
    """Another input like x."""
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, *x.shape[1:])
    if x.is_floating_point():
        return torch.randn(shape, dtype=x.dtype, generator=generator)
    return x.flatten()[torch.randint(x.numel(), shape, generator=generator)]


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.fixture(scope="module", params=ZOO)
def found(request):
    """Built and searched once for all tests: the large networks take seconds."""
    module, x, dim = ZOO[request.param](**NARROW.get(request.param, {}))
    return module, x, dim, find_symmetry(module, x)


def test_dimension(found):
    *_, dim, symmetry = found
    assert symmetry.dim == dim


@torch.no_grad()
def test_the_function_stays(found):
    module, x, dim, symmetry = found
    inputs = [fresh(x, batch, seed) for seed, batch in enumerate((2, 3))]
    outputs = [module(z) for z in inputs]
    for seed in range(3):
        moved = symmetry.rescale(module, symmetry.random(std=1.0, seed=seed))
        assert same(module.state_dict(), moved.state_dict()) == (dim == 0)
        for z, y in zip(inputs, outputs, strict=True):
            assert y.isfinite().all()
            assert (moved(z) - y).abs().max() < 1e-10 * y.abs().max()


def plain_batch_norm(norm, x):
    """PyTorch's own gives no gradient for the running mean."""
    shape = (1, -1, *[1] * (x.ndim - 2))
    x = (x - norm.running_mean.view(shape)) / (norm.running_var + norm.eps).sqrt().view(shape)
    return x * norm.weight.view(shape) + norm.bias.view(shape) if norm.affine else x


def log_jacobian(module, x):
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


def count_directions(build):
    """How many directions t there are such that w * exp(s t) is the same function as w, for all w and all s.

    They are the null space of the Jacobians for log|w| at all w and all inputs together, of which random ones are
    enough. No rule about any layer goes in. Also given: how many of them move a single weight without influence, and
    the two singular values that the null space lies between.
    """
    blocks = []
    for seed in range(POINTS):
        module, x, _ = build(seed=seed)
        with torch.no_grad():
            outputs = module(x[:1]).numel()
            weights = sum(w.numel() for w in module.state_dict().values())
            x = fresh(x, math.ceil(2 * weights / POINTS / outputs), seed)
            if seed % 2:  # far enough out for ReLU6 and the hard sigmoid to show both of their bends
                x = 5 * x if x.is_floating_point() else x
                for w in module.parameters():
                    w *= 2
        blocks.append(log_jacobian(module, x))
    rows = torch.cat(blocks)
    rows = rows[rows.norm(dim=1) > 0]
    rows /= rows.norm(dim=1, keepdim=True)
    assert len(rows) > rows.shape[1]
    values = torch.linalg.svdvals(rows).flip(0) / math.sqrt(len(rows))
    null = int((values < 1e-10).sum())
    idle = int((rows.abs().amax(0) < 1e-12).sum())
    return null, idle, (values[null - 1].item() if null else 0.0, values[null].item())


def directions(module, symmetry):
    """log|moved weight / weight| for each single log-scale, read off the modules."""
    for scales in torch.eye(symmetry.dim, dtype=torch.float64):
        pairs = zip(symmetry.rescale(module, scales).parameters(), module.parameters(), strict=True)
        yield torch.cat([(moved / weight).abs().log().flatten() for moved, weight in pairs])


@pytest.mark.long
@pytest.mark.parametrize("name", ZOO)
def test_the_rank_says_the_same(name):
    """Nothing is missing and nothing counted twice.

    The rules hold what they don't see through, so they could give less than the rank does. For these networks they
    don't; only idle weights, which could be multiplied by anything, are left where they are or move with the rest.
    """
    null, idle, (below, above) = count_directions(partial(ZOO[name], **SMALL[name]))
    assert below < 1e-14
    assert above > 1e-6
    assert idle == IDLE.get(name, 0)
    module, _, dim, symmetry = small(name)
    assert null - idle == dim
    assert symmetry.dim == dim
    if dim:
        assert torch.linalg.matrix_rank(torch.stack(list(directions(module, symmetry)))) == dim
