"""What classical bounds read off the weights, against plain matrices."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from measures.cases import build, mlp
from torch import nn

from truerisk.bounds import (
    ProjectedLayer,
    SpectralLayer,
    arora_2018,
    bartlett_2017,
    homogeneous_bound,
    neyshabur_2018,
    neyshabur_2019,
)
from truerisk.data import Data
from truerisk.measures import BOUNDS, Subject, measure
from truerisk.measures.classical.chains import initial_moves, input_sizes, links, row_sums

DELTA = 0.05


def bounds(module, data, init=None):
    return measure(module, data, init, only=list(BOUNDS))


def dense(layer, module_layer, shape):
    """The matrix of a layer by giving it unit vectors, one after the other."""
    size = math.prod(shape)
    columns = []
    with torch.no_grad():
        zero = module_layer(torch.zeros(1, *shape, dtype=torch.float64)).flatten()
        for j in range(size):
            unit = torch.zeros(size, dtype=torch.float64)
            unit[j] = 1.0
            columns.append(module_layer(unit.reshape(1, *shape)).flatten() - zero)
    return torch.stack(columns, dim=1).numpy(), zero.numpy()


def augmented(weight, bias, last):
    matrix = np.concatenate([weight, bias[:, None]], axis=1)
    if last:
        return matrix
    return np.concatenate([matrix, np.eye(matrix.shape[1])[-1:]], axis=0)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(5, 4), (5,)),
        (nn.Conv2d(2, 3, 3, padding=1), (2, 5, 4)),
        (nn.Conv2d(2, 4, 3, stride=2, groups=2), (2, 6, 6)),
        (nn.Conv1d(1, 2, 3, dilation=2), (1, 9)),
    ],
)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_norms_of_a_layer_against_its_matrix(layer, shape, last, scale):
    """With small weights the row that passes the constant 1 on is the largest."""
    torch.manual_seed(0)
    layer = copy.deepcopy(layer).double()
    nn.init.normal_(layer.weight, std=scale)
    nn.init.normal_(layer.bias, std=scale)
    after = [nn.Flatten()] if last else [nn.ReLU(), nn.Flatten(), nn.LazyLinear(2).double()]
    module = nn.Sequential(layer, *after).double()
    data = Data("d", np.random.default_rng(0).normal(size=(20, *shape)), np.arange(20) % 2, 2)
    module(torch.zeros(1, *shape, dtype=torch.float64))
    link = links(Subject(module, data))[0]
    matrix = augmented(*dense(layer, layer, shape), last)
    assert link.last is last
    assert link.shape == matrix.shape
    assert link.log_frobenius == pytest.approx(math.log(np.linalg.norm(matrix)), rel=1e-12)
    assert link.largest_row == pytest.approx(np.abs(matrix).sum(axis=1).max(), rel=1e-12)
    rows = matrix if last else matrix[:-1]
    assert link.squares.numpy() == pytest.approx((rows**2).sum(axis=1), rel=1e-12)
    assert link.log_row_norms == pytest.approx(math.log(np.linalg.norm(rows, axis=1).sum()), rel=1e-12)
    assert link.entries == pytest.approx(np.abs(rows).sum(), rel=1e-12)
    truth = np.linalg.norm(matrix, 2)
    assert truth <= link.spectral <= 2 * truth


def test_tokens_count_at_every_place():
    module = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)).double()
    data = Data("d", np.random.default_rng(0).normal(size=(20, 4, 3)), np.arange(20) % 2, 2)
    link = links(Subject(module, data))[0]
    matrix = augmented(*dense(module[0], module[0], (4, 3)), last=False)
    assert link.shape == matrix.shape
    assert link.log_frobenius == pytest.approx(math.log(np.linalg.norm(matrix)), rel=1e-12)
    assert np.linalg.norm(matrix, 2) <= link.spectral


def network_matrices(module):
    """Augmented matrices of a fully connected network with biases."""
    layers = [m for m in module if isinstance(m, nn.Linear)]
    return [augmented(m.weight.detach().numpy(), m.bias.detach().numpy(), m is layers[-1]) for m in layers]


def slow_margins(module, data):
    with torch.no_grad():
        logits = module(torch.from_numpy(data.X).double()).numpy()
    rows = range(len(data))
    return np.array([logits[i, data.y[i]] - max(np.delete(logits[i], data.y[i])) for i in rows])


def test_bounds_of_an_mlp_by_hand(images):
    """Every norm from the augmented matrices, every formula written out again."""
    module = build("mlp")
    found = bounds(module, images, build("mlp", 1))
    A = network_matrices(module)
    X = np.concatenate([images.X.reshape(60, -1).astype(float), np.ones((60, 1))], axis=1)
    margins = slow_margins(module, images)
    n, K = 60, 3
    frobenius = np.linalg.norm(A[0]) * np.linalg.norm(A[1]) * np.linalg.norm(A[2], axis=1).sum()
    rows = np.abs(A[0]).sum(1).max() * np.abs(A[1]).sum(1).max() * np.abs(A[2]).sum()
    paths = (np.abs(A[2]) @ np.abs(A[1]) @ np.abs(A[0])).sum()
    size, column = np.linalg.norm(X), np.linalg.norm(X, axis=0).max()
    several = min(math.sqrt(K), 1 + math.sqrt(2 * math.log(K)))
    by_hand = {
        "frobenius-doubling": (frobenius, 2 * 4 * size * several / n),
        "frobenius-root": (frobenius, 2 * size * (1 + math.sqrt(2 * math.log(4 * K))) / n),
        "row-sums-root": (rows, 2 * column * math.sqrt(2 * math.log(8 * 65 * K)) / n),
        "path-norm-root": (paths, 2 * column * math.sqrt(2 * math.log(7 * 2 * 65 * K)) / n),
    }
    for name, (norm, unit) in by_hand.items():
        twin = homogeneous_bound(margins, math.log(norm), math.log(unit), DELTA)
        assert found[name] == pytest.approx(twin.value, rel=1e-7), name
    assert paths <= rows  # so the path norm is the better of the two, up to depth


def test_spectral_bounds_by_hand(images):
    module, init = build("mlp"), build("mlp", 1)
    found = bounds(module, images, init)
    A, M = network_matrices(module), network_matrices(init)
    margins = slow_margins(module, images)
    X = np.concatenate([images.X.reshape(60, -1).astype(float), np.ones((60, 1))], axis=1)
    layers = [m for m in module if isinstance(m, nn.Linear)]

    def spectral(layer, last):  # of the small matrix of norms, which is above that of the large one
        w, b = np.linalg.norm(layer.weight.detach().numpy(), 2), np.linalg.norm(layer.bias.detach().numpy())
        return np.linalg.norm([[w, b], [0, 0 if last else 1]], 2)

    s = [spectral(layer, layer is layers[-1]) for layer in layers]
    assert all(np.linalg.norm(a, 2) <= top * (1 + 1e-9) for a, top in zip(A, s, strict=True))
    zero = [np.zeros_like(a) for a in A]
    zero[0][-1, -1] = zero[1][-1, -1] = 1.0
    for name, reference in [("spectral-covering", zero), ("spectral-covering-init", M)]:
        b = [np.linalg.norm(a - m, axis=1).sum() for a, m in zip(A, reference, strict=True)]
        twin = bartlett_2017(
            margins, np.linalg.norm(X), [SpectralLayer(*pair) for pair in zip(s, b, strict=True)], 65, DELTA
        )
        assert found[name] == pytest.approx(twin.value, rel=1e-6), name
    ranks = [np.linalg.norm(a) ** 2 / top**2 for a, top in zip(A, s, strict=True)]
    product = math.log(math.prod(s))
    shaken = neyshabur_2018(margins, np.linalg.norm(X, axis=1), product, ranks, [a.shape for a in A], DELTA)
    assert found["spectral-pac-bayes"] == pytest.approx(shaken.value, rel=1e-6)


def test_biases_are_weights_on_a_constant(images):
    """A network with biases and the same network without, on inputs (x, 1): one function, one bound."""
    module = build("mlp")
    A = network_matrices(module)
    twin = mlp(65, 13, 10, 3, bias=False).double()
    with torch.no_grad():
        for layer, a in zip([m for m in twin if isinstance(m, nn.Linear)], A, strict=True):
            layer.weight.copy_(torch.from_numpy(a))
    X = np.concatenate([images.X.reshape(60, -1), np.ones((60, 1), dtype=np.float32)], axis=1)
    widened = Data("widened", X, images.y, 3)
    one, two = bounds(module, images), bounds(twin.eval(), widened)
    for name in ("frobenius-doubling", "frobenius-root", "row-sums-root", "path-norm-root"):
        assert one[name] == pytest.approx(two[name], rel=1e-7), name


@pytest.mark.parametrize("bias", [False, True])
def test_pools_before_and_after_layers_enter_by_their_lipschitz_constants(bias, images):
    """A maximum over overlapping windows may lengthen its input twofold, a mean over four shortens it by half."""
    module = nn.Sequential(
        nn.MaxPool2d(2, 1), nn.Conv2d(1, 2, 3, bias=bias), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8, 3, bias=bias)
    ).double()
    found = measure(module, images, only=["spectral-covering"])["spectral-covering"]
    first, last = links(Subject(module, images))
    size = math.sqrt(float((images.X.astype(float) ** 2).sum()) + 60 * bias)
    layers = [
        SpectralLayer(link.spectral, math.exp(link.log_row_norms), rho)
        for link, rho in [(first, 1.0 if bias else 0.5), (last, 1.0)]
    ]
    twin = bartlett_2017(slow_margins(module, images), 2 * size, layers, 50 + bias, DELTA)
    assert found == pytest.approx(twin.value, rel=1e-7)


def test_two_classes_use_one_output():
    module = nn.Linear(3, 2, bias=False).double()
    rng = np.random.default_rng(0)
    data = Data("two", rng.normal(size=(50, 3)), rng.integers(0, 2, size=50), 2)
    W, X = module.weight.detach().numpy(), data.X.astype(float)
    twin = homogeneous_bound(
        slow_margins(module, data), math.log(np.linalg.norm(W, axis=1).sum()), math.log(np.linalg.norm(X) / 50), DELTA
    )
    assert bounds(module, data)["frobenius-root"] == pytest.approx(twin.value, rel=1e-7)


def test_sizes_of_the_inputs(images):
    sizes = input_sizes(Subject(build("mlp"), images))
    X = images.X.reshape(60, -1).astype(float)
    assert sizes.norm(False) == pytest.approx(np.linalg.norm(X))
    assert sizes.norm(True) == pytest.approx(math.sqrt(np.linalg.norm(X) ** 2 + 60))
    assert sizes.column_norm(False) == pytest.approx(np.linalg.norm(X, axis=0).max())
    assert sizes.column_norm(True) == pytest.approx(math.sqrt(60))  # the constant is the largest feature here
    assert sizes.norms(True) == pytest.approx(np.sqrt((X**2).sum(1) + 1))


def test_moves_include_biases(images):
    now, then = build("mlp"), build("mlp", 1)
    moved = initial_moves(Subject(now, images, then))["1"]
    twin = np.abs((now[1].weight - then[1].weight).detach().numpy()).sum(1)
    twin = twin + np.abs((now[1].bias - then[1].bias).detach().numpy())
    assert row_sums(moved, 1).numpy() == pytest.approx(twin)


@pytest.mark.parametrize("bias", [False, True])
def test_unit_capacity_by_hand(bias, images):
    """A bias is a weight on a constant input; the output's bias is a unit of its own that never moves."""
    torch.manual_seed(0)
    now, then = (mlp(64, 12, 3, bias=bias).double().eval() for _ in range(2))
    found = bounds(now, images, then)["unit-capacity-impact"]
    X = images.X.reshape(60, -1).astype(float)
    U, U0, V = (m.weight.detach().numpy() for m in (now[1], then[1], now[3]))
    if bias:
        U, U0 = (np.concatenate([u, m[1].bias.detach().numpy()[:, None]], axis=1) for u, m in ((U, now), (U0, then)))
        X = np.concatenate([X, np.ones((60, 1))], axis=1)
    twin = neyshabur_2019(
        slow_margins(now, images),
        3,
        np.linalg.norm(V, axis=0).tolist(),
        np.linalg.norm(U - U0, axis=1).tolist(),
        np.linalg.norm(X @ U0.T, axis=0).tolist(),
        np.linalg.norm(X),
        DELTA,
        constant=np.linalg.norm(now[3].bias.detach().numpy()) if bias else None,
    )
    assert found == pytest.approx(twin.value, rel=1e-7)


def test_compression_by_hand(images):
    """Lengths of what enters each layer and norms, from plain matrices; float64 takes a billionth off the margins."""
    torch.manual_seed(0)
    module = mlp(64, 12, 3).double().eval()
    found = bounds(module, images)["compression"]
    X = images.X.reshape(60, -1).astype(float)
    (U, a), (V, b) = ((m.weight.detach().numpy(), m.bias.detach().numpy()) for m in (module[1], module[3]))
    hidden = np.maximum(X @ U.T + a, 0)
    largest = np.sort(np.abs(hidden @ V.T + b), axis=1)[:, -1]
    layers = [ProjectedLayer(len(w), w.size, np.linalg.norm(w), np.linalg.norm(w, 2), 1.0, len(w)) for w in (U, V)]
    lengths = np.stack([np.linalg.norm(X, axis=1), np.linalg.norm(hidden, axis=1)], axis=1)
    margins = slow_margins(module, images) - 1e-9 * largest
    twin, numbers = arora_2018(margins, lengths, layers, DELTA)
    assert found == pytest.approx(twin.value, rel=1e-6)
    parts = measure(module, images, only=["compression"]).bounds["compression"].parts
    assert parts["numbers"] == pytest.approx(sum(numbers), rel=1e-6)
    assert parts["weights"] == 64 * 12 + 12 * 3
