"""The solver for log-scales against slow twins that write every edge down, one by one."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.optimize import minimize as scipy_minimize

from truerisk.errors import TrueriskError
from truerisk.symmetry.colours import colour_groups
from truerisk.symmetry.edges import Block, Problem
from truerisk.symmetry.gap import _newton_gap
from truerisk.symmetry.solver import minimize
from truerisk.symmetry.steps import best_steps

calm = settings(deadline=None, derandomize=True, max_examples=60)


# ---------------------------------------------------------------------------------------------------- slow twins


class Edges:
    """F written down edge by edge: a dense matrix [edges, variables] of coefficients."""

    def __init__(self, problem):
        rows, a, c, n = [], [], [], []
        for block in problem.blocks:
            for b, i, j in np.ndindex(block.a.shape):
                row = np.zeros(problem.dim)
                for coef, index in block.rows:
                    row[index[b, i]] += coef
                for coef, index in block.cols:
                    row[index[b, j]] += coef
                rows.append(row)
                a.append(block.a[b, i, j])
                c.append(0.0 if block.c is None else block.c[b, i, j])
                n.append(block.count)
        self.x, self.a, self.c, self.n = np.array(rows), np.array(a), np.array(c), np.array(n)

    def value(self, t):
        tau = self.x @ t
        return float((self.n * tau + self.a / 2 * np.exp(-2 * tau) - self.c * np.exp(-tau)).sum())

    def gradient(self, t):
        tau = self.x @ t
        return self.x.T @ (self.n - self.a * np.exp(-2 * tau) + self.c * np.exp(-tau))

    def hessian(self, t):
        tau = self.x @ t
        return (self.x.T * (2 * self.a * np.exp(-2 * tau) - self.c * np.exp(-tau))) @ self.x


def by_newton(problem, t=None, steps=500):
    """Damped Newton on the dense Hessian, for c = 0; pseudo-inverse, as F may be constant along lines."""
    edges = Edges(problem)
    t = np.zeros(problem.dim) if t is None else t.copy()
    for _ in range(steps):
        g, h = edges.gradient(t), edges.hessian(t)
        d = -np.linalg.lstsq(h, g, rcond=1e-13)[0]
        size = min(1.0, 3.0 / max(np.abs(edges.x @ d).max(), 1e-300))
        while size > 1e-9 and edges.value(t + size * d) > edges.value(t) + 1e-4 * size * (g @ d):
            size /= 2
        t = t + size * d
        if -g @ d < 1e-17 * max(1.0, abs(edges.value(t))):
            break
    return edges.value(t), t


def by_lbfgs(problem):
    edges = Edges(problem)
    options = {"maxiter": 10**5, "maxfun": 10**6, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 50}
    start = np.zeros(problem.dim)
    return float(scipy_minimize(edges.value, start, jac=edges.gradient, method="L-BFGS-B", options=options).fun)


def by_coordinates(problem, sweeps):
    """Plain coordinate descent, one variable at a time, each by a root finder."""
    edges = Edges(problem)
    t = np.zeros(problem.dim)
    for _ in range(sweeps):
        for v in range(problem.dim):
            used = edges.x[:, v] != 0
            x, a, n, tau = edges.x[used, v], edges.a[used], edges.n[used], edges.x[used] @ t

            def slope(d, x=x, a=a, n=n, tau=tau):
                return float((x * (n - a * np.exp(-2 * (tau + x * d)))).sum())

            if used.any():
                t[v] += brentq(slope, -30.0, 30.0, xtol=1e-14)
    return edges.value(t)


# ------------------------------------------------------------------------------------------------ random problems


def random_problem(seed, crossed=False, count=None, grounded=True, spread=1.0):
    """A few groups, and blocks of all kinds between them."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, size=rng.integers(1, 5))
    groups = np.repeat(np.arange(len(sizes)), sizes)
    members = [np.flatnonzero(groups == g) for g in range(len(sizes))]

    def term(coefs, shape):
        return float(rng.choice(coefs)), rng.choice(members[rng.integers(len(sizes))], size=shape)

    def block(rows, cols, batch, height, width):
        a = np.exp(spread * rng.normal(size=(batch, height, width)))
        c = rng.normal(size=a.shape) * np.sqrt(a) if crossed and rng.random() < 0.7 else None
        return Block(a, rows, cols, float(rng.integers(1, 10)) if count is None else count, c)

    blocks = []
    for _ in range(rng.integers(2, 7)):
        batch, height, width = (int(k) for k in rng.integers(1, 5, size=3))
        rows = tuple(term([1, 1, 1, 2, -1, -0.5], (batch, height)) for _ in range(rng.choice([0, 1, 1, 1, 2])))
        cols = tuple(term([-1, -1, -1, -2, 1, 0.5], (batch, width)) for _ in range(rng.choice([0, 1, 1, 1, 2])))
        blocks.append(block(rows, cols, batch, height, width))
    stream = members[0]  # a layer from a residual stream to itself: every variable on both sides
    blocks.append(block(((1.0, stream[None]),), ((-1.0, stream[None]),), 1, len(stream), len(stream)))
    if grounded:
        for sign in (1.0, -1.0):
            everyone = np.arange(len(groups))
            for group in members:
                blocks.append(block(((sign, everyone[group][:, None]),), (), len(group), 1, 1))
    return Problem(tuple(blocks), groups)


def chain(depth, width, seed=0, bias=True, count=1.0, disorder=1.0):
    """A multilayer perceptron."""
    rng = np.random.default_rng(seed)
    sizes = [2 * width] + [width] * (depth - 1) + [5]
    numbers = [None, *np.arange((depth - 1) * width).reshape(depth - 1, width), None]
    blocks = []
    for k in range(depth):
        scale = np.exp(disorder * rng.normal()) * 10
        weights = rng.normal(size=(1, sizes[k + 1], sizes[k])) * scale
        rows = () if numbers[k + 1] is None else ((1.0, numbers[k + 1]),)
        cols = () if numbers[k] is None else ((-1.0, numbers[k][None]),)
        blocks.append(Block(weights**2 + 0.1, tuple((s, v[None]) for s, v in rows), cols, count))
        if bias:
            shift = rng.normal(size=(sizes[k + 1], 1, 1)) * scale
            blocks.append(Block(shift**2 + 0.1, tuple((s, v[:, None]) for s, v in rows), (), count))
    return Problem(tuple(blocks), np.repeat(np.arange(depth - 1), width))


# ----------------------------------------------------------------------------------------------------- the optimum


@pytest.mark.parametrize("seed", range(40))
def test_optimum_matches_newton_and_lbfgs(seed):
    problem = random_problem(seed)
    best = minimize(problem)
    exact, _ = by_newton(problem)
    size = max(1.0, abs(exact))
    assert abs(best.value - exact) <= 1e-9 * size
    assert abs(by_lbfgs(problem) - exact) <= 1e-8 * size
    assert best.value == pytest.approx(Edges(problem).value(best.t), rel=1e-12, abs=1e-12 * best.start)
    assert best.start == pytest.approx(Edges(problem).value(np.zeros(problem.dim)), rel=1e-13)


@pytest.mark.parametrize("seed", range(100, 108))
def test_optimum_matches_coordinate_descent(seed):
    problem = random_problem(seed)
    assert minimize(problem).value == pytest.approx(by_coordinates(problem, sweeps=60), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("seed", range(200, 210))
def test_optimum_without_counts_is_the_least_norm(seed):
    problem = random_problem(seed, count=0.0)
    exact, _ = by_newton(problem)
    assert minimize(problem).value == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("seed", range(300, 310))
def test_gradient_vanishes_by_finite_differences(seed):
    problem = random_problem(seed)
    t, edges, h = minimize(problem, tolerance=1e-14).t, Edges(problem), 1e-4
    slopes = np.array([edges.value(t + h * e) - edges.value(t - h * e) for e in np.eye(problem.dim)]) / (2 * h)
    assert np.abs(slopes).max() <= 1e-4 * np.abs(edges.hessian(t)).max()
