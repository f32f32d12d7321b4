"""Seminorms on a grid against loops and integrals known in closed form; boundaries and changes of class by hand."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from truerisk.errors import TrueriskError
from truerisk.measures.smoothness import (
    bending_energy,
    boundary_length,
    class_changes,
    dirichlet_energy,
    total_variation,
)

T = np.linspace(0, 1, 2001)
H = T[1]


def slow_variation(values):
    return sum(abs(values[i + 1] - values[i]) for i in range(len(values) - 1))


def slow_dirichlet(values, h):
    """Slopes of all edges; in the plane an edge on the rim belongs to half a cell."""
    if values.ndim == 1:
        return sum(((values[i + 1] - values[i]) / h) ** 2 * h for i in range(len(values) - 1))
    rows, columns, total = *values.shape, 0.0
    for i in range(rows):
        for j in range(columns - 1):
            total += ((values[i, j + 1] - values[i, j]) / h) ** 2 * h * h * (0.5 if i in (0, rows - 1) else 1)
    for i in range(rows - 1):
        for j in range(columns):
            total += ((values[i + 1, j] - values[i, j]) / h) ** 2 * h * h * (0.5 if j in (0, columns - 1) else 1)
    return total


@pytest.mark.parametrize("shape", [(2,), (30,), (2, 2), (9, 14)])
def test_energies_against_loops(shape):
    values = np.random.default_rng(0).standard_normal(shape)
    assert dirichlet_energy(values, 0.3) == pytest.approx(slow_dirichlet(values, 0.3), rel=1e-12)
    if len(shape) == 1:
        assert total_variation(values) == pytest.approx(slow_variation(values), rel=1e-12)


@pytest.mark.parametrize("k", [1, 3])
def test_a_wave_in_closed_form(k):
    wave, w = np.sin(2 * np.pi * k * T), 2 * np.pi * k
    assert total_variation(wave) == pytest.approx(4 * k, rel=1e-4)
    assert dirichlet_energy(wave, H) == pytest.approx(w**2 / 2, rel=1e-4)
    assert bending_energy(wave, H) == pytest.approx(w**4 / 2, rel=1e-4)


def test_a_product_of_waves_in_the_plane():
    x = np.linspace(0, 1, 401)
    f = np.sin(np.pi * x)[:, None] * np.sin(np.pi * x)
    assert dirichlet_energy(f, x[1]) == pytest.approx(np.pi**2 / 2, rel=1e-3)
    assert bending_energy(f, x[1]) == pytest.approx(np.pi**4, rel=2e-2)  # 1/4 + 2/4 + 1/4, times pi^4


def test_units_and_symmetries():
    f = np.random.default_rng(1).standard_normal((8, 8))
    for energy, power in ((dirichlet_energy, 0), (bending_energy, -2)):
        assert energy(f.T, 0.1) == pytest.approx(energy(f, 0.1))
        assert energy(f + 7, 0.1) == pytest.approx(energy(f, 0.1))
        assert energy(3 * f, 0.1) == pytest.approx(9 * energy(f, 0.1))
        assert energy(f, 0.2) == pytest.approx(2**power * energy(f, 0.1))
    assert bending_energy(2 * T + 1, H) == pytest.approx(0, abs=1e-9)


def test_the_natural_spline_bends_least_and_the_broken_line_has_least_slope():
    x, y = np.linspace(0, 1, 6), np.array([0.0, 1.0, -1.0, 2.0, 0.5, 1.0])
    spline, line = CubicSpline(x, y, bc_type="natural")(T), np.interp(T, x, y)
    clamped = CubicSpline(x, y, bc_type="clamped")(T)
    assert bending_energy(spline, H) < bending_energy(clamped, H) < bending_energy(line, H)
    assert dirichlet_energy(line, H) < dirichlet_energy(spline, H)
    assert total_variation(line) == pytest.approx(np.abs(np.diff(y)).sum(), rel=1e-3)
    assert total_variation(line) < total_variation(spline)


def test_steps_and_kinks_have_energies_without_limit():
    def energies(places):
        t = np.linspace(0, 1, places)
        return dirichlet_energy(t > 0.5, t[1]), bending_energy(np.abs(t - 0.5), t[1])

    coarse, fine = energies(101), energies(1001)
    assert fine == pytest.approx([10 * value for value in coarse], rel=1e-6)


@pytest.mark.parametrize("radius", [0.3, 0.7])
def test_the_length_of_a_circle(radius):
    x = np.linspace(-1, 1, 1001)
    found = boundary_length(np.hypot(x[:, None], x) < radius, x[1] - x[0])
    assert found == pytest.approx(2 * np.pi * radius, rel=5e-3)


@pytest.mark.parametrize("angle", np.linspace(0, np.pi, 13))
def test_the_length_of_a_straight_boundary(angle):
    """Inside the unit disk, a line through the center has length 2; the disk's rim is not a boundary here."""
    x = np.linspace(-1, 1, 801)
    side = (np.cos(angle) * x[:, None] + np.sin(angle) * x + 1e-9 > 0).astype(int)
    length = 2 / max(abs(np.cos(angle)), abs(np.sin(angle)))  # of its part in the square
    assert boundary_length(side, x[1] - x[0]) == pytest.approx(length, rel=0.06)


def test_classes_may_have_names():
    assert boundary_length(np.array([["a", "a"], ["b", "b"]]), 1.0) == pytest.approx(np.pi / 8 * (2 + 2 / np.sqrt(2)))


def test_changes_of_class_on_the_way():
    def stripes(X):
        return np.floor(X[:, 0]).astype(int) % 3

    starts, ends = np.array([[0.5, 0.0], [0.5, 0.0]]), np.array([[4.5, 1.0], [0.6, 9.0]])
    assert class_changes(stripes, starts, ends, points=200) == 2  # four changes on the first way, none on the second
    assert class_changes(stripes, starts, ends, points=2) == 0.5  # 0 and 1: only the ends are seen


def test_ways_are_given_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    starts, ends = rng.standard_normal((2, 9, 2, 3))

    def predict(X):
        assert X.shape[1:] == (2, 3)
        return (X.sum(axis=(1, 2)) > 0).astype(int)

    whole = class_changes(predict, starts, ends, 30)
    monkeypatch.setattr("truerisk.measures.smoothness.ROWS", 31)
    assert class_changes(predict, starts, ends, 30) == whole


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: total_variation(np.zeros((3, 3))), "no grid"),
        (lambda: total_variation(np.array([1.0])), "at least 2"),
        (lambda: bending_energy(np.zeros(2), 1.0), "at least 3"),
        (lambda: dirichlet_energy(np.zeros((2, 2, 2)), 1.0), "no grid"),
        (lambda: dirichlet_energy(np.array([0.0, np.nan]), 1.0), "not finite"),
        (lambda: dirichlet_energy(np.zeros(3), 0.0), "must be positive"),
        (lambda: boundary_length(np.zeros(3), 1.0), "no grid"),
        (lambda: class_changes(len, np.zeros((2, 1)), np.zeros((3, 1))), "as many starts as ends"),
        (lambda: class_changes(len, np.zeros((0, 1)), np.zeros((0, 1))), "as many starts as ends"),
    ],
)
def test_what_is_no_grid_is_refused(call, says):
    with pytest.raises(TrueriskError, match=says):
        call()
