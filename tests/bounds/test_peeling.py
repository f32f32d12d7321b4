"""Complexities of networks: closed forms, and exact or searched complexities of small classes, which stay below."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerisk.bounds import golowich_frobenius, golowich_rows, gonon_paths, neyshabur_2015
from truerisk.bounds.peeling import contraction
from truerisk.errors import TrueriskError

calm = settings(deadline=None, derandomize=True, max_examples=50)


def all_signs(n):
    return np.array(list(itertools.product([-1.0, 1.0], repeat=n)))


def relu(z):
    return np.maximum(z, 0.0)


def circle(power, count=720):
    """Vectors of l1 or l2 norm 1 in the plane."""
    angles = np.linspace(0, 2 * np.pi, count, endpoint=False)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return points / np.linalg.norm(points, ord=power, axis=1, keepdims=True)


def column_norm(X):
    return float(np.sqrt((X**2).sum(axis=0).max()))


INPUTS = {
    "random": np.random.default_rng(0).normal(size=(8, 2)),
    "uneven": np.random.default_rng(1).normal(size=(8, 2)) * [3.0, 0.2],
    "positive": np.random.default_rng(2).uniform(size=(8, 2)),
    "equal": np.ones((8, 2)),
}


def test_one_linear_layer_is_exact_for_orthogonal_inputs():
    """||sum of signs times x_i|| is ||X||_F for every choice of signs: nothing is lost."""
    X = np.diag([1.0, 2.0, 3.0, 4.0])
    truth = np.linalg.norm(all_signs(4) @ X, axis=1).mean() / 4
    for bound in (neyshabur_2015, golowich_frobenius):
        assert math.exp(bound(1, 1, np.linalg.norm(X), 4)) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("X", INPUTS.values(), ids=INPUTS)
def test_one_linear_layer(X):
    n = len(X)
    sums = all_signs(n) @ X
    l2, largest = np.linalg.norm(sums, axis=1).mean() / n, np.abs(sums).max(axis=1).mean() / n
    for bound in (neyshabur_2015, golowich_frobenius):
        assert l2 <= math.exp(bound(1, 1, np.linalg.norm(X), n)) <= 1.5 * l2  # Khintchine: at most sqrt(2)
    for bound in (golowich_rows, gonon_paths):
        assert largest <= math.exp(bound(1, 1, 2, column_norm(X), n)) <= 3 * largest


@pytest.mark.parametrize("K", [2, 3, 5])
def test_one_linear_layer_with_several_outputs(K):
    """sup of sum_ik s_ik w_k.x_i over sum_k ||w_k|| <= 1 is the largest ||sum_i s_ik x_i||; all signs of n K = 15."""
    n = 15 // K
    X = np.random.default_rng(K).normal(size=(n, 3))
    sums = np.einsum("sik,ij->skj", all_signs(n * K).reshape(-1, n, K), X)
    l2 = np.linalg.norm(sums, axis=2).max(axis=1).mean() / n
    largest = np.abs(sums).max(axis=(1, 2)).mean() / n
    for bound in (neyshabur_2015, golowich_frobenius):
        assert 2 * l2 <= math.exp(bound(1, K, np.linalg.norm(X), n))
    for bound in (golowich_rows, gonon_paths):
        assert 2 * largest <= math.exp(bound(1, K, 3, column_norm(X), n))


@pytest.mark.parametrize("X", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("power", [1, 2])
def test_one_hidden_layer(X, power):
    """sup over ||w|| <= 1 of |sum_i s_i relu(w.x_i)|, over all signs and a fine circle of w."""
    n = len(X)
    hidden = relu(circle(power) @ X.T)
    truth = np.abs(hidden @ all_signs(n).T).max(axis=0).mean() / n
    if power == 2:
        bounds = [b(2, 1, np.linalg.norm(X), n) for b in (neyshabur_2015, golowich_frobenius)]
    else:
        bounds = [b(2, 1, 2, column_norm(X), n) for b in (golowich_rows, gonon_paths)]
    assert truth <= math.exp(min(bounds))
    assert math.exp(max(bounds)) <= 6 * truth


@pytest.mark.parametrize("X", INPUTS.values(), ids=INPUTS)
def test_two_hidden_layers(X):
    """relu(a relu(u.x) + b relu(v.x)), l1 and Frobenius norms 1: searched, so the truth is at least this."""
    n = len(X)
    rng = np.random.default_rng(0)
    u, v, top = rng.normal(size=(3, 20_000, 2))
    for power, bounds in [
        (2, [b(3, 1, np.linalg.norm(X), n) for b in (neyshabur_2015, golowich_frobenius)]),
        (1, [b(3, 1, 2, column_norm(X), n) for b in (golowich_rows, gonon_paths)]),
    ]:
        size = np.sqrt((u**2 + v**2).sum(1)) if power == 2 else np.maximum(np.abs(u).sum(1), np.abs(v).sum(1))
        a, b = (top / np.linalg.norm(top, ord=power, axis=1, keepdims=True)).T[:, :, None]
        f = relu(a * relu(u / size[:, None] @ X.T) + b * relu(v / size[:, None] @ X.T))
        truth = np.abs(f @ all_signs(n).T).max(axis=0).mean() / n
        assert truth <= math.exp(min(bounds))


@pytest.mark.parametrize("X", INPUTS.values(), ids=INPUTS)
def test_maxima_and_skips_in_path_norms(X):
    """max(p z, q z') and p relu(z) + q z' with z, z' inputs up to sign, p + q = 1: path norm 1, depth 2."""
    n = len(X)
    z = np.concatenate([X.T, -X.T])
    shares = np.linspace(0, 1, 41)[:, None, None, None]
    maxima = np.maximum(shares * z[:, None], (1 - shares) * z).reshape(-1, n)
    skips = (shares * relu(z)[:, None] + (1 - shares) * z).reshape(-1, n)
    truth = np.abs(np.concatenate([maxima, skips]) @ all_signs(n).T).max(axis=0).mean() / n
    assert truth <= math.exp(gonon_paths(2, 1, 2, column_norm(X), n))


def ramp(outputs, y, gamma):
    own = np.take_along_axis(outputs, y[None, :, None], axis=2)[..., 0]
    others = np.where(np.arange(outputs.shape[2]) == y[:, None], -np.inf, outputs).max(axis=2)
    return np.clip(1 - (own - others) / gamma, 0, 1)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_the_loss_of_linear_classifiers(K):
    """The complexity of the ramp loss itself, over all signs and 20,000 sets of weights: the contraction holds."""
    rng = np.random.default_rng(K)
    n, gamma, norm = 8, 0.7, 1.3
    X, y = rng.normal(size=(n, 2)), rng.integers(0, K, size=n)
    W = rng.normal(size=(20_000, K, 2)) * rng.uniform(size=(20_000, K, 1)) ** 4
    for power in (1, 2):
        V = norm * W / np.linalg.norm(W, ord=power, axis=2).sum(axis=1)[:, None, None]
        losses = ramp(np.einsum("wkj,ij->wik", V, X), y, gamma)
        truth = (losses @ all_signs(n).T).max(axis=0).mean() / n
        outputs = 1 if K == 2 else K
        if power == 2:
            units = [b(1, outputs, np.linalg.norm(X), n) for b in (neyshabur_2015, golowich_frobenius)]
        else:
            units = [b(1, outputs, 2, column_norm(X), n) for b in (golowich_rows, gonon_paths)]
        assert truth <= math.exp(min(units)) * norm / gamma


@calm
@given(st.integers(1, 200), st.integers(1, 1000), st.integers(1, 10**5), st.floats(1e-3, 1e5), st.integers(1, 10**6))
def test_against_their_twins(d, K, features, size, n):
    with mpmath.workdps(30):
        c = 1 if K == 1 else 2
        ln = mpmath.log
        front = mpmath.mpf(c) * size / n
        twins = {
            neyshabur_2015(d, K, size, n): front
            * mpmath.mpf(2) ** (d - 1)
            * min(mpmath.sqrt(K), 1 + mpmath.sqrt(2 * ln(K))),
            golowich_frobenius(d, K, size, n): front * (1 + mpmath.sqrt(2 * ((d - 1) * ln(2) + ln(K)))),
            golowich_rows(d, K, features, size, n): front * mpmath.sqrt(2 * (d * ln(2) + ln(features) + ln(K))),
            gonon_paths(d, K, features, size, n): front
            * mpmath.sqrt(2 * ln((mpmath.mpf(2) ** d - 1) * 2 * features * K)),
        }
        for found, twin in twins.items():
            assert found == pytest.approx(float(ln(twin)), rel=1e-12, abs=1e-12)


@calm
@given(st.integers(1, 50), st.integers(1, 100), st.integers(1, 1000), st.floats(1e-3, 1e3), st.integers(1, 1000))
def test_moves_the_right_way(d, K, features, size, n):
    for call in (
        lambda d, K, f, size, n: neyshabur_2015(d, K, size, n),
        lambda d, K, f, size, n: golowich_frobenius(d, K, size, n),
        golowich_rows,
        gonon_paths,
    ):
        base = call(d, K, features, size, n)
        assert base < call(d + 1, K, features, size, n)
        assert base < call(d, K + 1, features, size, n)
        assert base <= call(d, K, features + 1, size, n)
        assert base < call(d, K, features, 2 * size, n)
        assert base > call(d, K, features, size, 2 * n)
    assert golowich_rows(d, K, features, size, n) <= gonon_paths(d, K, features, size, n)


def test_two_classes_are_one_output():
    assert (contraction(1), contraction(2), contraction(10)) == (1.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: neyshabur_2015(0, 1, 1.0, 5), "depth must be at least 1"),
        (lambda: golowich_frobenius(1, 0, 1.0, 5), "outputs must be at least 1"),
        (lambda: golowich_rows(1, 1, 0, 1.0, 5), "features must be at least 1"),
        (lambda: gonon_paths(1, 1, 3, 0.0, 5), "column_norm must be positive"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(TrueriskError, match=message):
        call()
