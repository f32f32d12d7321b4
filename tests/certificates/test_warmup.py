"""The weight of the KL rises over a share of the posterior's training: an option that is recorded and checked."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import truerisk
from truerisk.data import Data, load
from truerisk.nets import mlp

QUICK = {"epochs": 2, "tried": 1}


DRAWS = 2_000


@pytest.fixture(scope="module")
def digits() -> Data:
    return load("digits").take(np.arange(300))


def warm(share: float) -> dict[str, float]:
    return {"warmup": share}


def same(a: truerisk.Certificate, b: truerisk.Certificate) -> bool:
    one, other = a.evidence.posterior, b.evidence.posterior
    return all(torch.equal(one.mean[k], other.mean[k]) and torch.equal(one.std[k], other.std[k]) for k in one.mean)


@pytest.mark.parametrize("method", ["pac-bayes-kl", "single-draw", "pac-bayes-around", "single-draw-around"])
def test_it_is_recorded_and_verified(digits, tmp_path, method):
    build = mlp(digits.input_shape, digits.classes, hidden=(4,)) if method.endswith("around") else "mlp:4"
    plain = truerisk.certify(build, digits, "zero", method=method, **QUICK)
    cert = truerisk.certify(build, digits, "zero", method=method, options=warm(0.5), **QUICK)
    assert plain.record["settings"]["options"]["warmup"] == 0.0
    assert cert.record["settings"]["options"]["warmup"] == 0.5
    assert not same(plain, cert)
    assert same(plain, truerisk.certify(build, digits, "zero", method=method, options=warm(0.0), **QUICK))
    cert.save(tmp_path)
    model = build if method.endswith("around") else None
    assert truerisk.verify(tmp_path, data=digits, model=model).claimed == cert.risk_bound


def test_a_learnt_prior_is_the_same_with_it_and_is_trained_again(digits, tmp_path):
    plain = truerisk.certify("mlp:4", digits, method="pac-bayes-kl", **QUICK)
    cert = truerisk.certify("mlp:4", digits, method="pac-bayes-kl", options=warm(0.9), **QUICK)
    assert not same(plain, cert)
    one, other = plain.evidence.prior, cert.evidence.prior
    assert all(torch.equal(one.mean[k], other.mean[k]) and torch.equal(one.std[k], other.std[k]) for k in one.mean)
    cert.save(tmp_path)
    assert not truerisk.verify(tmp_path, data=digits, retrain=True).noticed


def test_checkpoints_are_not_mixed_up(digits, tmp_path):
    """Two calls with one folder: each finds its own posterior there, or none."""
    shares = (0.0, 0.5, 0.9)
    alone = [truerisk.certify("mlp:4", digits, "init", method="pac-bayes-kl", options=warm(s), **QUICK) for s in shares]
    together = [
        truerisk.certify("mlp:4", digits, "init", method="pac-bayes-kl", options=warm(s), work=tmp_path, **QUICK)
        for s in shares
    ]
    assert all(map(same, alone, together))
    assert len(list(tmp_path.glob("posterior-*.pt"))) == 3


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan"), float("inf"), 1, "0.5", True])
def test_what_is_no_share_is_refused(digits, share):
    with pytest.raises(truerisk.TrueriskError, match="warmup"):
        truerisk.certify("mlp:4", digits, "init", method="pac-bayes-kl", options=warm(share), **QUICK)


def test_methods_without_a_posterior_do_not_take_it(digits):
    with pytest.raises(truerisk.TrueriskError, match="has no option warmup"):
        truerisk.certify("mlp:4", digits, method="hold-out", options=warm(0.5), **QUICK)
