"""The exact binomial bound against scipy and statsmodels, the kl inverse against 50 digits of mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from peers.installed import peer
from scipy.stats import binomtest

from truerisk.bounds import clopper_pearson, kl_inverse

COUNTS = [(0, 1), (0, 100), (1, 10), (7, 30), (40, 400), (333, 1000), (59_000, 60_000), (9, 10)]
DELTAS = [0.2, 0.05, 1e-3, 1e-9]


@pytest.mark.parametrize(("errors", "n"), COUNTS)
@pytest.mark.parametrize("delta", DELTAS)
def test_clopper_pearson_against_scipy(errors, n, delta):
    """One-sided at delta is two-sided at 2 delta. Relative tolerance 1e-8; truerisk rounds up by 1e-9 of delta."""
    level = 1 - 2 * delta
    expected = binomtest(errors, n).proportion_ci(confidence_level=level, method="exact").high
    assert clopper_pearson(errors, n, (1 - level) / 2) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("errors", "n"), COUNTS)
@pytest.mark.parametrize("delta", DELTAS)
def test_clopper_pearson_against_statsmodels(errors, n, delta):
    """Its interval "beta" at 2 delta; relative tolerance 1e-8."""
    tool = peer("statsmodels.stats.proportion")
    expected = tool.proportion_confint(errors, n, alpha=2 * delta, method="beta")[1]
    assert clopper_pearson(errors, n, delta) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("q", [0.0, 1e-9, 1e-3, 0.02, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("c", [1e-12, 1e-5, 0.01, 0.3, 2.0])
def test_kl_inverse_against_mpmath(q, c):
    """Bisection with 50 digits: never below it, and above by at most 1e-13 of the distance plus four floats."""
    with mpmath.workdps(50):
        low, high = mpmath.mpf(q), mpmath.mpf(1)
        for _ in range(180):
            p = (low + high) / 2
            kl = (q * mpmath.log(q / p) if q else 0) + (1 - q) * mpmath.log((1 - mpmath.mpf(q)) / (1 - p))
            low, high = (low, p) if kl > c else (p, high)
        found = mpmath.mpf(kl_inverse(q, c))
        assert found >= low
        assert found - low <= 1e-13 * (low - q) + 8 * float(np.spacing(float(low)))
