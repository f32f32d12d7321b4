"""The solver for log-scales against slow twins that write every edge down, one by one."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.optimize import minimize as scipy_minimize

from truerisk.errors import TrueriskError
from truerisk.symmetry.solver import minimize
from truerisk.symmetry.solver.colours import colour_groups
from truerisk.symmetry.solver.edges import Block, Problem
from truerisk.symmetry.solver.gap import _newton_gap
from truerisk.symmetry.solver.steps import best_steps

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


def by_coordinates(problem):
    """Plain coordinate descent, one variable at a time, each by a root finder, until nothing moves."""
    edges = Edges(problem)
    t = np.zeros(problem.dim)
    for _ in range(3000):
        before = t.copy()
        for v in range(problem.dim):
            used = edges.x[:, v] != 0
            x, a, n, tau = edges.x[used, v], edges.a[used], edges.n[used], edges.x[used] @ t

            def slope(d, x=x, a=a, n=n, tau=tau):
                return float((x * (n - a * np.exp(-2 * (tau + x * d)))).sum())

            if used.any():
                t[v] += brentq(slope, -30.0, 30.0, xtol=1e-14)
        if np.abs(t - before).max() < 1e-9:
            break
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
        signs = [(sign, group) for sign in (1.0, -1.0) for group in members]
        blocks += [block(((sign, group[:, None]),), (), len(group), 1, 1) for sign, group in signs]
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


def moved(problem, t):
    """The same network after a move along its orbit: F of the new problem at t + s is F of the old one at s."""
    blocks = []
    for block in problem.blocks:
        tau = sum(coef * t[index] for coef, index in block.rows)
        tau = np.zeros(block.a.shape) + (tau[:, :, None] if block.rows else 0.0)
        for coef, index in block.cols:
            tau = tau + coef * t[index][:, None, :]
        c = None if block.c is None else block.c * np.exp(tau)
        blocks.append(Block(block.a * np.exp(2 * tau), block.rows, block.cols, block.count, c))
    return Problem(tuple(blocks), problem.groups)


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
    assert minimize(problem).value == pytest.approx(by_coordinates(problem), rel=1e-8, abs=1e-8)


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


@pytest.mark.parametrize("seed", range(400, 410))
@pytest.mark.parametrize("length", [1.0, 10.0])
def test_a_move_along_the_orbit_changes_only_the_constant(seed, length):
    problem = random_problem(seed)
    shift = length * np.random.default_rng(seed).normal(size=problem.dim)
    here, there = minimize(problem, tolerance=1e-12), minimize(moved(problem, shift), tolerance=1e-12)
    size = max(1.0, abs(here.value), abs(there.value))
    assert there.value - problem.slope @ shift == pytest.approx(here.value, abs=1e-9 * size)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_scales_of_a_hundred_survive(sign):
    problem = chain(6, 4, disorder=0.0)
    shift = sign * np.repeat(np.array([100.0, -80.0, 100.0, 60.0, -100.0]), 4)
    here, there = minimize(problem), minimize(moved(problem, shift), tolerance=1e-7)
    assert there.gap <= 1e-7 * max(1.0, abs(there.value))
    assert there.value - problem.slope @ shift == pytest.approx(here.value, rel=1e-9)
    np.testing.assert_allclose(there.t, here.t + shift, atol=1e-4)


# ---------------------------------------------------------------------------------------------------- the certificate


@pytest.mark.parametrize("seed", range(40))
def test_gap_is_an_upper_bound_at_every_stage(seed):
    problem = random_problem(seed)
    exact, _ = by_newton(problem)
    runs = [minimize(problem, tolerance=0.0, max_sweeps=k) for k in (0, 1, 2, 3, 5, 8, 14)]
    rounding = 1e-13 * (abs(runs[-1].value) + abs(problem.slope @ runs[-1].t))
    for run in runs:
        assert run.value - exact <= run.gap + rounding
    # Here all scales have edges of their own, so a certificate comes in the end.
    assert minimize(problem).gap <= 1e-10 * max(1.0, abs(exact))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("depth", "factor"), [(3, 5), (6, 20), (12, 60)])
def test_gap_of_chains_is_an_upper_bound_and_not_absurd(depth, bias, factor):
    """It loses the square of the depth: its diagonal cannot know that what is left is not a change of whole layers."""
    problem = chain(depth, 12, seed=depth, bias=bias)
    exact, _ = by_newton(problem)
    seen = 0
    for sweeps in range(1, 12):
        run = minimize(problem, tolerance=0.0, max_sweeps=sweeps)
        true = run.value - exact
        assert true <= run.gap + 1e-13 * abs(exact)
        if true > 1e-11 * abs(exact) and math.isfinite(run.gap):
            seen += 1
            assert run.gap <= factor * true
    assert seen >= 1


@calm
@given(st.floats(-12, -0.01), st.floats(-6, 6))
def test_gap_formula_has_no_cancellation(exponent, size):
    q, k = 10.0**exponent, 10.0**size
    with mpmath.workdps(60):
        q_exact = mpmath.mpf(k) * mpmath.mpf(q / k)
        exact = (q_exact + (1 - q_exact) * mpmath.log(1 - q_exact)) / mpmath.mpf(k) ** 2
        assert exact * (1 - 1e-9) <= _newton_gap(q / k, k) <= exact * (1 + 1e-3)


def test_gap_formula_gives_up_beyond_its_radius():
    assert _newton_gap(1.0, 1.0) == math.inf
    assert _newton_gap(0.0, 3.0) == 0.0


def test_without_a_ground_there_is_no_certificate_but_a_minimum():
    index = np.arange(3)[None]
    a = np.exp(np.random.default_rng(0).normal(size=(1, 3, 3)))
    problem = Problem((Block(a, ((1.0, index),), ((-1.0, index + 3),), 1.0),), np.repeat([0, 1], 3))
    best = minimize(problem)  # adding one number to all six scales leaves F as it is
    assert best.gap == math.inf
    assert best.value == pytest.approx(by_newton(problem)[0], rel=1e-9)


# ------------------------------------------------------------------------------------------------------ descent


@settings(calm, max_examples=30)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_value_never_rises(seed, crossed, grounded):
    problem = random_problem(seed, crossed=crossed, grounded=grounded)
    edges = Edges(problem)
    runs = [minimize(problem, tolerance=0.0, max_sweeps=k) for k in (0, 1, 2, 4, 8)]
    values = [runs[0].start] + [run.value for run in runs]
    assert all(later <= earlier for earlier, later in pairwise(values))
    for run in runs:
        assert np.isfinite(run.t).all()
        assert edges.value(run.t) == pytest.approx(run.value, rel=1e-9, abs=1e-9 * abs(run.start))
        assert (run.gap is None) == bool(edges.c.any())


@pytest.mark.parametrize("seed", range(500, 512))
def test_cross_terms_lead_to_a_stationary_point(seed):
    problem = random_problem(seed, crossed=True)
    edges = Edges(problem)
    best = minimize(problem, tolerance=1e-14)
    assert np.abs(edges.gradient(best.t)).max() <= 1e-5 * np.abs(edges.hessian(best.t)).max()
    descent = scipy_minimize(edges.value, np.zeros(problem.dim), jac=edges.gradient, method="L-BFGS-B")
    assert best.value <= descent.fun + 1e-6 * max(1.0, abs(descent.fun))


def test_cross_terms_of_zero_do_not_count():
    plain = random_problem(3)
    zeros = Problem(tuple(Block(b.a, b.rows, b.cols, b.count, 0.0 * b.a) for b in plain.blocks), plain.groups)
    assert minimize(zeros).gap is not None
    assert minimize(zeros).value == minimize(plain).value


def test_the_best_point_is_returned_when_nothing_can_be_gained():
    index = np.zeros((1, 1), np.int64)
    block = Block(np.full((1, 1, 1), 3.0), ((1.0, index),), (), 3.0)
    best = minimize(Problem((block,), np.zeros(1, np.int64)))
    assert best.t[0] == 0.0
    assert best.value == best.start == 1.5
    assert best.gap <= 1e-20


@pytest.mark.parametrize("count", [0.0, 1.0])
def test_dead_units_do_no_harm(count):
    problem = chain(4, 6, count=count, bias=count > 0)
    numbers = problem.blocks[0].rows[0][1][0]
    blocks = list(problem.blocks)
    for k, block in enumerate(blocks):  # nothing enters unit 1, nothing leaves unit 2, unit 3 is cut off
        a = block.a.copy()
        for _, index in block.rows:
            a[np.isin(index, numbers[[1, 3]])] = 0.0
        for _, index in block.cols:
            a.transpose(0, 2, 1)[np.isin(index, numbers[[2, 3]])] = 0.0
        blocks[k] = Block(a, block.rows, block.cols, block.count)
    run = minimize(Problem(tuple(blocks), problem.groups), max_sweeps=50)
    assert np.isfinite(run.t).all()
    assert math.isfinite(run.value)
    assert run.value < run.start


def test_empty_problems():
    assert minimize(Problem((), np.zeros(0, np.int64))).value == 0.0
    assert minimize(Problem((), np.zeros(3, np.int64))).t.tolist() == [0.0, 0.0, 0.0]
    fixed = Block(np.ones((1, 2, 3)), (), (), 1.0)
    assert minimize(Problem((fixed,), np.zeros(1, np.int64))).value == 3.0


def test_bad_blocks_are_refused():
    index = np.zeros((1, 2), np.int64)
    with pytest.raises(TrueriskError, match="shape"):
        Block(np.ones((2, 2)), (), (), 1.0)
    with pytest.raises(TrueriskError, match="row term"):
        Block(np.ones((1, 3, 2)), ((1.0, index),), (), 1.0)
    with pytest.raises(TrueriskError, match="two groups"):
        Problem((Block(np.ones((1, 2, 2)), ((1.0, np.arange(2)[None]),), (), 1.0),), np.arange(2))
    with pytest.raises(TrueriskError, match="no group"):
        Problem((Block(np.ones((1, 2, 2)), ((1.0, index + 1),), (), 1.0),), np.zeros(1, np.int64))
    with pytest.raises(TrueriskError, match="finite"):
        minimize(Problem((Block(np.full((1, 2, 2), np.nan), ((1.0, index),), (), 1.0),), np.zeros(1, np.int64)))


@pytest.mark.parametrize("seed", range(600, 608))
def test_groups_of_one_variable_need_no_sweep(seed):
    """Moving whole groups is then the entire problem, and needs the totals alone: one pass, and one for the gap."""
    old = random_problem(seed)
    blocks = []
    for b in old.blocks:
        rows, cols = (tuple((coef, np.full_like(index, old.group(index))) for coef, index in side) for side in b.sides)
        blocks.append(Block(b.a, rows, cols, b.count))
    problem = Problem(tuple(blocks), np.arange(old.group_count))
    run = minimize(moved(problem, 10 * np.random.default_rng(seed).normal(size=problem.dim)), max_sweeps=0)
    assert run.gap <= 1e-10 * max(1.0, abs(run.value))
    assert run.passes <= 2


# ------------------------------------------------------------------------------------------------ steps of one variable


@calm
@given(st.integers(0, 10**6), st.sampled_from([(1, -1, 2, -2), (2, -2, 4, -4), (1, -1, 0.5, -4), (2, -2), (3,)]))
def test_steps_are_the_best_on_a_grid(seed, exponents):
    """Signs are free where the exponents are +-1 of +-1 and +-2, else nonnegative."""
    rng = np.random.default_rng(seed)
    size = 20
    slope = 3 * rng.normal(size=size)
    weights = {float(q): np.exp(2 * rng.normal(size=size)) for q in exponents}
    if set(exponents) == {1, -1, 2, -2}:
        for q in (1.0, -1.0):
            weights[q] *= 3 * rng.normal(size=size)
    d = best_steps(slope, weights)
    grid = np.linspace(-6, 6, 2001)[:, None]

    def f(x):
        return slope * x + sum(w * np.expm1(-q * x) for q, w in weights.items())

    bounded = slope > 0 if exponents == (3,) else np.ones(size, bool)
    assert (f(d)[bounded] <= f(grid).min(0)[bounded] + 1e-9).all()
    assert (d[~bounded] == 0.0).all()


def test_steps_where_the_grid_ends():
    """Weights of any size, down to nothing on one side."""
    slope = np.array([1e-8, -1e-8, 1.0, 0.0, 0.0, 0.0, -1.0])
    falling = np.array([1e200, 1e-200, 1e-300, 1.0, 0.0, 0.0, 0.0])
    rising = np.array([1e-200, 1e200, 0.0, 0.0, 1.0, 0.0, 1e-100])
    for exponents in ((2.0, -2.0), (2.0, -2.0, 4.0)):
        weights = {2.0: falling, -2.0: rising, 4.0: falling}
        d = best_steps(slope, {q: weights[q] for q in exponents})
        assert np.isfinite(d).all()
        assert d[3] == d[4] == d[5] == 0.0  # nothing pushes back
        for k in (0, 1, 2, 6):
            terms = [(q, np.log(abs(q)) + np.log(weights[q][k]) - q * d[k]) for q in exponents if weights[q][k] > 0]
            terms.append((-slope[k], np.log(abs(slope[k]))))
            down = np.logaddexp.reduce([value for sign, value in terms if sign > 0])
            up = np.logaddexp.reduce([value for sign, value in terms if sign < 0])
            assert down == pytest.approx(up, abs=1e-9)


# ------------------------------------------------------------------------------------------------ colours and passes


@pytest.mark.parametrize("seed", range(10))
def test_neighbours_have_different_colours(seed):
    problem = random_problem(seed)
    colour = colour_groups(problem)
    for block in problem.blocks:
        groups = {problem.group(index) for _, index in block.rows + block.cols}
        assert len({int(colour[g]) for g in groups}) == len(groups)


def test_chains_take_two_colours():
    assert colour_groups(chain(8, 2)).tolist() == [0, 1, 0, 1, 0, 1, 0]


class Watched(np.ndarray):
    """An array that notes how many of its entries every operation reads."""

    read = 0.0

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        Watched.read += sum(x.size for x in inputs if isinstance(x, Watched))
        return getattr(ufunc, method)(*(np.asarray(x) for x in inputs), **kwargs)

    def __array_function__(self, *args):
        raise AssertionError("a way of reading that nobody counts")


def watched(problem):
    blocks = []
    for b in problem.blocks:
        c = None if b.c is None else b.c.view(Watched)
        blocks.append(Block(b.a.view(Watched), b.rows, b.cols, b.count, c))
    Watched.read = 0.0
    return Problem(tuple(blocks), problem.groups)


@pytest.mark.parametrize("sweeps", [0, 1, 2, 7])
@pytest.mark.parametrize("seed", range(8))
def test_passes_are_counted_right(seed, sweeps):
    problem = chain(5, 7, bias=seed > 0) if seed < 2 else random_problem(seed)
    run = minimize(watched(problem), tolerance=0.0, max_sweeps=sweeps)
    assert run.passes == pytest.approx(Watched.read / sum(b.a.size for b in problem.blocks))


@pytest.mark.parametrize("bias", [True, False])
def test_passes_count_cross_terms_too(bias):
    rng, plain = np.random.default_rng(0), chain(5, 7, bias=bias)
    blocks = tuple(Block(b.a, b.rows, b.cols, b.count, 0.1 * rng.normal(size=b.a.shape)) for b in plain.blocks)
    run = minimize(watched(Problem(blocks, plain.groups)), max_sweeps=7)
    assert run.passes == pytest.approx(Watched.read / sum(2 * b.a.size for b in blocks))


def test_a_sweep_over_a_chain_takes_two_passes():
    """Of a chain of three layers only the middle one has scales on both sides; others are read once and for all."""
    problem = chain(3, 10, bias=False)
    sizes = [block.a.size for block in problem.blocks]
    for sweeps in range(4):
        # The start reads each layer once, and each sweep reads the middle one for its columns and its rows. The
        # certificate at the end needs both sides: after sweeps one of them is known, at the start only one. Far from
        # the minimum, it looks for the lightest edges too.
        run = minimize(problem, tolerance=0.0, max_sweeps=sweeps)
        read = sum(sizes) + sizes[1] * (2 * sweeps + (sweeps == 0)) + sum(sizes) * (sweeps < 2)
        assert run.passes == pytest.approx(read / sum(sizes))


@pytest.mark.parametrize("depth", [3, 9, 33, 101])
@pytest.mark.parametrize("bias", [True, False])
def test_deep_chains_take_at_most_twenty_passes(depth, bias):
    problem = chain(depth, 24, bias=bias)
    run = minimize(problem)
    assert run.gap <= 1e-10 * max(1.0, abs(run.value))
    assert run.passes <= 20


def test_more_groups_than_a_dense_solve_takes():
    problem = chain(520, 2, disorder=0.3)
    run = minimize(problem)
    assert run.gap <= 1e-10 * max(1.0, abs(run.value))
