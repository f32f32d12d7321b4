"""Lipschitz constants: local <= ECLipsE-Fast <= product, for every network."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from measures import plain
from measures.cases import build, mlp
from measures.subjects import X, labelled, subject
from torch import nn

from truerisk.measures import MEASURES, NotDefined, Subject
from truerisk.measures.anatomy import anatomy
from truerisk.measures.families import lipschitz
from truerisk.measures.families.lipschitz import log_eclipse_fast


def measured(module: nn.Module) -> tuple[float, float, float]:
    found = Subject(module, labelled(module))
    return tuple(MEASURES[f"lipschitz-{name}"](found).value for name in ("local", "eclipse-fast", "product"))


def plain_eclipse(ws: list[np.ndarray], forget: int = 0) -> float:
    """ECLipsE-Fast from its formula. ``forget=1`` is the public port that drops the first matrix X."""
    x = np.eye(ws[0].shape[1])
    for i, w in enumerate(ws[:-1]):
        if i <= forget:
            x = np.eye(w.shape[1])
        g = w @ np.linalg.inv(x) @ w.T
        scale = 2 / max(np.linalg.eigvalsh(g))
        x = scale * np.eye(len(w)) - scale**2 / 4 * g
    return math.sqrt(max(np.linalg.eigvalsh(ws[-1] @ np.linalg.inv(x) @ ws[-1].T)))


def matrices(seed: int, widths: list[int], heavy: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    draw = rng.standard_t(2, size=10_000) if heavy else rng.normal(size=10_000)
    return [rng.choice(draw, size=(b, a)) for a, b in itertools.pairwise(widths)]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 999), st.lists(st.integers(1, 12), min_size=2, max_size=6), st.booleans())
def test_bounds_are_in_order(seed, widths, heavy):
    ws = matrices(seed, widths, heavy)
    found = math.exp(log_eclipse_fast([torch.from_numpy(w) for w in ws]))
    assert found == pytest.approx(plain_eclipse(ws), rel=1e-6)
    assert found <= math.prod(plain.spectral(w) for w in ws) * (1 + 1e-8)
    slopes = []
    for x in np.random.default_rng(seed).normal(size=(100, widths[0])):
        jacobian = np.eye(widths[0])
        for w in ws[:-1]:
            x = w @ x
            jacobian = (x > 0)[:, None] * (w @ jacobian)
            x = np.maximum(x, 0)
        slopes.append(np.linalg.svd(ws[-1] @ jacobian, compute_uv=False)[0])
    assert max(slopes) <= found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("widths", [(64, 3), (64, 20, 3), (64, 20, 30, 3), (64, 10, 10, 10, 3)])
def test_measures_are_in_order(seed, widths):
    torch.manual_seed(seed)
    local, eclipse, product = measured(mlp(*widths).double())
    assert local <= eclipse <= product
    assert len(widths) == 2 or eclipse < product


def test_the_first_layer_counts():
    """A public port drops X_1 and so the first layer: its number is below slopes that the network really has."""
    torch.manual_seed(0)
    module = mlp(64, 20, 20, 3).double()
    module[1].weight.data *= 100
    ws = [part.weight.detach().numpy() for part in module if isinstance(part, nn.Linear)]
    local, eclipse, _ = measured(module)
    assert plain_eclipse(ws, forget=1) < local <= eclipse
    assert eclipse == pytest.approx(plain_eclipse(ws), rel=1e-7)


def test_linear_networks_are_exact():
    """With no ReLU at all, layers are multiplied: the norm of the product, not the product of norms."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Linear(5, 3)).double()
    whole = plain.spectral((module[2].weight @ module[1].weight).detach().numpy())
    local, eclipse, product = measured(module)
    assert local == pytest.approx(whole, rel=1e-7)
    assert local <= whole <= eclipse == pytest.approx(whole, rel=1e-7)
    assert product > 1.01 * whole


def test_diagonal_layers_by_hand():
    """diag(3, 1), ReLU, diag(1, 2): the constant is 3 * 1 at most in the first direction, 1 * 2 in the second."""
    ws = [torch.diag(torch.tensor([3.0, 1.0])).double(), torch.diag(torch.tensor([1.0, 2.0])).double()]
    # X_1 = t I - t^2/4 diag(9, 1), t = 2/9: diag(1/9, 17/81); lmax(diag(9, 4 * 81/17)) = 324/17
    assert math.exp(log_eclipse_fast(ws)) == pytest.approx(math.sqrt(324 / 17), rel=1e-8)


def test_scale_goes_into_the_logarithm():
    ws = [torch.from_numpy(w) for w in matrices(0, [6] * 9, heavy=False)]
    huge = log_eclipse_fast([1e100 * w for w in ws])
    assert huge == pytest.approx(log_eclipse_fast(ws) + 8 * 100 * math.log(10), rel=1e-12)


def test_convolutions_are_written_out():
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.Conv2d(3, 4, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(36, 3),
    ).double()
    maps = plain.operators(module, torch.from_numpy(X[:1]).double())
    local, eclipse, product = measured(module)
    assert local <= eclipse <= product
    assert eclipse == pytest.approx(plain_eclipse(maps), rel=1e-6)
    assert product == pytest.approx(math.prod(plain.spectral(a) for a in maps), rel=1e-7)


def test_pools_count_in_the_product():
    module, maps = build("convnet"), plain.operators(build("convnet"), torch.from_numpy(X[:1]).double())
    expected = math.prod(plain.spectral(a) for a in maps)  # max-pool with windows that do not overlap: 1
    assert MEASURES["lipschitz-product"](subject("convnet")).value == pytest.approx(expected, rel=1e-7)
    module[2] = nn.MaxPool2d(3, 1)  # each entry is in 9 windows
    module[7] = nn.Linear(80, 3).double()
    maps = plain.operators(module, torch.from_numpy(X[:1]).double())
    local = MEASURES["lipschitz-local"](Subject(module, labelled(module))).value
    product = MEASURES["lipschitz-product"](Subject(module, labelled(module))).value
    assert product == pytest.approx(3 * math.prod(plain.spectral(a) for a in maps), rel=1e-7)
    assert local <= product


@pytest.mark.parametrize("case", ["mlp", "convnet", "residual"])
def test_local_slopes_against_single_jacobians(case):
    module, slopes = build(case), []
    for x in torch.from_numpy(X).double():
        jacobian = torch.autograd.functional.jacobian(lambda x, f=module: f(x[None])[0], x).flatten(1)
        slopes.append(float(torch.linalg.svdvals(jacobian)[0]))
    found = MEASURES["lipschitz-local"](subject(case)).value
    assert found <= max(slopes)
    assert found == pytest.approx(max(slopes), rel=1e-8)


def test_many_outputs_are_searched_from_below(monkeypatch):
    cases = ("convnet", "mlp")
    numbers = {case: MEASURES["lipschitz-local"](subject(case)).value for case in cases}
    monkeypatch.setattr(lipschitz, "OUTPUTS", 2)
    for case, exact in numbers.items():
        found = MEASURES["lipschitz-local"](Subject(build(case), subject(case).data, budget=2**20)).value
        assert found <= exact * (1 + 1e-9)
        assert found == pytest.approx(exact, rel=0.01)


def test_single_precision_stays_below_too():
    """A linear network, where the slope is the norm: rounding in float32 must not lift it above."""
    torch.manual_seed(0)
    for _ in range(5):
        local, eclipse, product = measured(mlp(64, 3))
        assert local <= eclipse <= product
        assert local == pytest.approx(product, rel=1e-3)


def test_slopes_are_taken_all_over_the_sample(monkeypatch):
    """The steepest of three examples out of sixty: the first, the one after a third, the one after two thirds."""
    monkeypatch.setattr(lipschitz, "EXAMPLES", 3)
    module = build("mlp")
    rows = [torch.from_numpy(X[i]).double() for i in (0, 20, 40)]
    slopes = [torch.autograd.functional.jacobian(lambda x: module(x[None])[0], x).flatten(1) for x in rows]
    expected = max(float(torch.linalg.svdvals(j)[0]) for j in slopes)
    found = MEASURES["lipschitz-local"](Subject(module, labelled(module))).value
    assert found == pytest.approx(expected, rel=1e-8)


def test_reasons():
    with pytest.raises(NotDefined, match="max_pool2d"):
        MEASURES["lipschitz-eclipse-fast"](subject("convnet"))
    for name in ("product", "eclipse-fast"):
        with pytest.raises(NotDefined, match="add"):
            MEASURES[f"lipschitz-{name}"](subject("residual"))


def test_large_convolutions_are_a_reason(monkeypatch):
    monkeypatch.setattr(lipschitz, "WIDEST", 100)
    module = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Flatten(), nn.Linear(128, 3)).double()
    with pytest.raises(NotDefined, match="too large"):
        MEASURES["lipschitz-eclipse-fast"](Subject(module, labelled(module)))


def test_a_reordering_between_layers_is_a_reason():
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(1, 2, 3), nn.Linear(72, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.first(x).relu().permute(0, 2, 3, 1).flatten(1))

    module = Turned().double()
    with pytest.raises(NotDefined, match="permute"):
        MEASURES["lipschitz-eclipse-fast"](Subject(module, labelled(module)))


@pytest.mark.parametrize(
    "step",
    [
        nn.MaxPool2d(3, 2, dilation=2),
        nn.AvgPool2d(3, 2, padding=1, count_include_pad=False),
        nn.AvgPool2d(2, 2, ceil_mode=True),
        nn.ELU(3.0),
        nn.LeakyReLU(2.0),
        nn.GELU(),
        nn.SiLU(),
    ],
    ids=str,
)
def test_what_is_between_layers_stretches_no_more_than_said(step):
    """Slopes at random places, and around zero with one bright pixel in each place in turn."""
    (between,) = anatomy(step, torch.zeros(1, 1, 9, 9)).chain
    generator = torch.Generator().manual_seed(0)
    base = torch.cat([torch.randn(200, 1, 9, 9, generator=generator), torch.zeros(81, 1, 9, 9)]).double()
    move = torch.cat(
        [0.1 * torch.randn(200, 81, generator=generator), 2.0 * torch.eye(81), -2.0 * torch.eye(81)]
    ).double()
    base = torch.cat([base, torch.zeros(81, 1, 9, 9).double()])
    move = move.reshape(-1, 1, 9, 9)
    ratio = (step(base + move) - step(base)).flatten(1).norm(dim=1) / move.flatten(1).norm(dim=1)
    assert ratio.max() <= between.lipschitz + 1e-12


def test_a_pool_with_a_divisor_of_its_own_is_not_understood():
    assert "avg_pool2d" in anatomy(nn.AvgPool2d(2, divisor_override=1), torch.zeros(1, 1, 4, 4)).why
