"""Products with the Hessian, its largest eigenvalue and its trace against curvlinops and PyHessian."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from peers.installed import peer
from scipy.sparse.linalg import eigsh
from torch import Tensor, nn

from truerisk.data import Data
from truerisk.measures import MEASURES, Subject
from truerisk.measures.families.hessian import Curvature
from truerisk.measures.perturbation import Movable

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def case() -> tuple[nn.Module, Tensor, Tensor, Subject]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    data = Data("cloud", X, np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5]), 3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    return net, torch.from_numpy(X), torch.from_numpy(data.y), Subject(net, data)


@pytest.fixture(scope="module")
def linear_operator(case):
    """The Hessian of the mean cross-entropy, in curvlinops."""
    module, X, y, _ = case
    tool = peer("curvlinops")
    parameters = list(module.parameters())
    return tool.HessianLinearOperator(module, nn.CrossEntropyLoss(), parameters, [(X, y)]).to_scipy()


def test_products_against_curvlinops(case, linear_operator):
    """Both in float64: relative tolerance 1e-10."""
    _, X, y, subject = case
    curvature = Curvature(Movable(subject), X, y)
    vector = np.random.default_rng(1).normal(size=curvature.size)
    assert np.allclose(curvature.apply(vector), linear_operator @ vector, rtol=1e-10, atol=1e-12)


def test_the_largest_eigenvalue_against_curvlinops(case, linear_operator):
    """To the 2% that the measure states."""
    exact = eigsh(linear_operator, 1, which="LA", return_eigenvectors=False)[0]
    assert MEASURES["hessian-top"](case[3]).value == pytest.approx(float(exact), rel=0.02)


def test_the_trace_against_curvlinops(case, linear_operator):
    """The mean over 100 seeds is within 4 standard errors of the trace; false alarms: 1 in 15,000 if not seeded.

    One estimate alone would test little: its standard error is two thirds of this trace. That of the mean, made of the
    errors that the measure states, is below 10%.
    """
    module, _, _, subject = case
    exact = float(np.trace(linear_operator @ np.eye(linear_operator.shape[0])))
    found = [MEASURES["hessian-trace"](Subject(module, subject.data, seed=seed)) for seed in range(100)]
    error = np.sqrt(sum(one.error**2 for one in found)) / len(found)
    assert error < 0.1 * exact
    assert abs(np.mean([one.value for one in found]) - exact) < 4 * error


def test_the_largest_eigenvalue_against_pyhessian(case):
    """2% of truerisk and the 0.1% at which PyHessian's power iteration stops."""
    module, X, y, subject = case
    tool = peer("pyhessian")
    torch.manual_seed(0)
    other = tool.hessian(module, nn.CrossEntropyLoss(), data=(X, y), cuda=False)
    (value,), _ = other.eigenvalues(maxIter=1000, tol=1e-6, top_n=1)
    assert MEASURES["hessian-top"](subject).value == pytest.approx(value, rel=0.021)
