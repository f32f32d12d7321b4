"""Norms of layers as maps: below <= exact <= above, with the exact one from a matrix built column by column."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from truerisk.measures import operators
from truerisk.measures.anatomy import Geometry, Layer, anatomy
from truerisk.measures.operators import apply, dense, operator_norm_lower, operator_norm_upper, operator_shape

CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def convolution(weight, size, stride=1, padding=0, dilation=1, groups=1) -> Layer:
    axes = len(size)
    each = [tuple([x] * axes if isinstance(x, int) else x) for x in (stride, padding, dilation)]
    image = torch.zeros(1, weight.shape[1] * groups, *size, dtype=torch.float64)
    leaving = CONVOLVE[axes](image, weight, None, each[0], each[1], each[2], groups).shape[2:]
    geometry = Geometry(*each, groups, tuple(size), tuple(leaving))
    return Layer("layer", weight, None, geometry, repeats=geometry.places)


def exact(layer: Layer) -> float:
    """The largest singular value of the whole matrix, one column after the other."""
    g = layer.geometry
    shape = (layer.weight.shape[1] * g.groups, *g.entering)
    columns = []
    for place in range(math.prod(shape)):
        x = torch.zeros(math.prod(shape), dtype=torch.float64)
        x[place] = 1.0
        y = CONVOLVE[len(g.entering)](
            x.reshape(1, *shape), layer.weight, None, g.stride, g.padding, g.dilation, g.groups
        )
        columns.append(y.flatten().numpy())
    return float(np.linalg.svd(np.stack(columns, axis=1), compute_uv=False)[0])


def random_weight(seed, *shape, positive=False):
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return weight.abs() if positive else weight


@st.composite
def layers(draw):
    axes = draw(st.integers(1, 2))
    pick = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(axes))  # noqa: E731
    kernel, stride, padding, dilation, size = pick(1, 4), pick(1, 3), pick(0, 4), pick(1, 3), pick(1, 7)
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    assume(all(n + 2 * p >= s for n, p, s in zip(size, padding, spans, strict=True)))
    groups = draw(st.sampled_from([1, 2]))
    shape = (groups * draw(st.integers(1, 2)), draw(st.integers(1, 2)), *kernel)
    weight = random_weight(draw(st.integers(0, 999)), *shape, positive=draw(st.booleans()))
    return convolution(weight, size, stride, padding, dilation, groups)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(layers())
def test_every_geometry(layer):
    """Small operators are exact; the two ways for large ones are bounds, and the better one is taken there."""
    top = exact(layer)
    below = operator_norm_lower(layer, torch.Generator().manual_seed(0))
    assert below <= top
    assert below == pytest.approx(top, rel=0.2)
    assert operator_norm_upper(layer) == pytest.approx(top, rel=1e-8)
    assert operator_norm_upper(layer) >= top
    kernel, grid = operators._unstrided(layer.weight, layer.geometry)
    assert operators._by_frequency(kernel, grid) * (1 + operators.SLACK) >= top
    assert operators._by_patches(kernel) * (1 + operators.SLACK) >= top


@pytest.mark.parametrize(
    ("weight", "size", "options"),
    [
        ((4, 3, 3, 3), (16, 16), {"padding": 1}),
        ((4, 3, 5, 5), (20, 20), {"padding": 2}),
        ((4, 3, 3, 3), (16, 16), {"padding": 1, "stride": 2}),
        ((4, 3, 4, 4), (16, 16), {"padding": 0, "stride": 4}),
        ((4, 2, 3, 3), (16, 16), {"padding": 2, "dilation": 2, "groups": 2}),
        ((6, 5, 3), (100,), {"padding": 1}),
        ((1, 1, 6), (200,), {"padding": 3}),
        ((2, 1, 3, 3, 3), (7, 7, 7), {"padding": 1}),
    ],
)
@pytest.mark.parametrize("coarse", [False, True])
def test_large_operators_are_a_few_per_cent_off(monkeypatch, weight, size, options, coarse):
    monkeypatch.setattr(operators, "ENTRIES", 10_000)  # nothing is written out; several batches of frequencies
    if coarse:
        monkeypatch.setattr(operators, "EVERY_WORK", 0)
    layer = convolution(random_weight(1, *weight), size, **options)
    top, above = exact(layer), operator_norm_upper(layer)
    assert top <= above <= 1.1 * top


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 9_999), st.integers(2, 7), st.booleans())
def test_between_the_frequencies_of_a_coarse_grid(seed, taps, mean):
    """A signal of a thousand entries has a frequency wherever the kernel's transform is largest."""
    kernel = random_weight(seed, 1, 2, 2, taps) + (1.0 if mean else 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators, "EVERY_WORK", 0)
        found = operators._by_frequency(kernel, [1_000])
    fine = torch.fft.fft(kernel[0], n=20_000).permute(2, 0, 1)
    top = float(torch.linalg.matrix_norm(fine, ord=2).max())
    assert top <= found * (1 + operators.SLACK) <= 1.03 * top


def test_too_many_frequencies(monkeypatch):
    monkeypatch.setattr(operators, "ENTRIES", 0)
    monkeypatch.setattr(operators, "WORK", -1)
    layer = convolution(random_weight(1, 4, 3, 3, 3), (12, 12), padding=1)
    top = exact(layer)
    assert top <= operator_norm_upper(layer) <= 3 * top


def test_patches_that_do_not_overlap_are_exact(monkeypatch):
    """Stride = kernel: the map is the reshaped kernel on each patch."""
    monkeypatch.setattr(operators, "ENTRIES", 0)
    weight = random_weight(2, 5, 3, 4, 4)
    layer = convolution(weight, (16, 16), stride=4)
    reshaped = float(np.linalg.svd(weight.reshape(5, -1).numpy(), compute_uv=False)[0])
    assert operator_norm_upper(layer) == pytest.approx(reshaped, rel=1e-8)


def test_ones():
    """A 3 x 3 kernel of ones: on a torus 9; on n x n pixels (1 + 2 cos(pi / (n + 1)))^2."""
    for n in (2, 3, 8):
        layer = convolution(torch.ones(1, 1, 3, 3, dtype=torch.float64), (n, n), padding=1)
        assert operator_norm_upper(layer) == pytest.approx((1 + 2 * math.cos(math.pi / (n + 1))) ** 2, rel=1e-8)


@pytest.mark.parametrize("kernel", [2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_same_padding(kernel, dilation):
    """An even kernel is padded on one side more: the matrix is that of torch's own layer."""
    module = torch.nn.Conv2d(1, 2, kernel, padding="same", dilation=dilation, bias=False).double()
    (layer,) = anatomy(module, torch.zeros(1, 1, 7, 6)).layers
    x = torch.randn(3, 1, 7, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(module(x), apply(layer, x), rtol=1e-12)
        assert torch.allclose(module(x).flatten(1), x.flatten(1) @ dense(layer).T, rtol=1e-12)
    kernel, grid = operators._unstrided(layer.weight, layer.geometry)
    top = float(torch.linalg.matrix_norm(dense(layer), ord=2))
    assert top <= operators._by_frequency(kernel, grid) * (1 + operators.SLACK)


def test_linear_layers_tokens_and_factors():
    weight = random_weight(3, 4, 6)
    for layer in (Layer("", weight, None), Layer("", weight, None, repeats=3)):
        assert dense(layer).shape == operator_shape(layer)
        top = float(np.linalg.svd(dense(layer).numpy(), compute_uv=False)[0])
        assert top <= operator_norm_upper(layer) <= top * (1 + 1e-8)
        assert operator_norm_lower(layer, torch.Generator().manual_seed(0), steps=200) == pytest.approx(top, rel=1e-6)
    factors = Layer("", torch.tensor([2.0, -3.0, 1.0], dtype=torch.float64), None, repeats=4)
    assert operator_norm_upper(factors) == pytest.approx(3, rel=1e-8)
    assert dense(factors).diagonal().tolist() == [2.0] * 4 + [-3.0] * 4 + [1.0] * 4


def test_a_layer_of_zeros():
    layer = convolution(torch.zeros(1, 1, 3, 3, dtype=torch.float64), (5, 5))
    assert operator_norm_upper(layer) == 0
    assert operator_norm_lower(layer, torch.Generator().manual_seed(0)) == 0
