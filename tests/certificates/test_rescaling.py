"""Rescaling inside certificates: on by default, never worse, held where rule 6 says so, stored and checked."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from certificates.forging import frozen, settings_of
from torch import nn

import truerisk
from truerisk import Gaussian
from truerisk.certificates.frozen import hashes
from truerisk.certificates.workshop.rescaling import BEST, best_log_scales, followed, moved, rescaled_kl
from truerisk.data import load

BLANK = load("digits").blank


@pytest.mark.parametrize("prior", ["zero", "init", "split:0.5"])
def test_the_kl_is_rescaled(prior, tmp_path):
    cert = truerisk.certify("mlp:16", "digits", method="pac-bayes-kl", prior=prior, epochs=3)
    chain = cert.record["rescaling"]
    assert cert.kl == chain["rescaled"] < cert.kl_unrescaled == chain["original"]
    assert chain["both"] <= min(chain["tuned_scale"], chain["rescaled"])
    assert chain["free_log_scales"] == 16
    cert.save(tmp_path)
    assert truerisk.verify(tmp_path).claimed == cert.risk_bound
    again = truerisk.Certificate.load(tmp_path)
    assert torch.equal(again.evidence.log_scales[BEST], cert.evidence.log_scales[BEST])


class Branching(nn.Module):
    """Can't be captured: its path depends on the data."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 8), nn.Linear(8, 10)

    def forward(self, x):
        h = self.a(x.flatten(1)).relu()
        return self.b(h) if float(h.detach().sum()) >= 0 else self.b(-h)


def test_what_cannot_be_followed_is_not_rescaled(tmp_path):
    cert = truerisk.certify(Branching, "digits", method="pac-bayes-kl", prior="init", epochs=2)
    assert cert.kl == cert.kl_unrescaled
    assert cert.record["rescaling"] is None
    assert any("could not be traced" in line for line in cert.record["warnings"])
    cert.save(tmp_path)
    assert not (tmp_path / "log_scales.safetensors").exists()
    truerisk.verify(tmp_path, model=Branching)


def test_nothing_to_rescale():
    cert = truerisk.certify(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), "digits", method="pac-bayes-kl", prior="init", epochs=2
    )
    assert cert.record["rescaling"]["free_log_scales"] == 0
    assert cert.kl == cert.kl_unrescaled


def batch_norm():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 10))


def test_batch_norm_means_are_held():
    """Learnt with a prior of its own: the running mean is a number that nobody draws, so it must not move."""
    cert = truerisk.certify(batch_norm, "digits", method="pac-bayes-kl", prior="split:0.5", epochs=3)
    mean = cert.evidence.prior.fixed["2.running_mean"]
    assert bool(mean.any())
    symmetry = truerisk.find_symmetry(cert.evidence.prior.module, torch.zeros(1, 1, 8, 8))
    factors = symmetry.factors(cert.evidence.log_scales[BEST])
    assert bool((factors["2.running_mean"] == 1).all())
    assert bool((factors["2.weight"] != 1).any())
    assert cert.kl < cert.kl_unrescaled


def test_log_scales_that_move_a_running_mean_are_refused(tmp_path):
    """Whoever stores such log-scales gets no smaller KL: the distributions then fix different numbers."""
    cert = truerisk.certify(batch_norm, "digits", method="pac-bayes-kl", prior="split:0.5", epochs=3)
    prior, posterior = cert.evidence.prior, cert.evidence.posterior
    forged = {name: torch.full_like(t, 0.2) for name, t in cert.evidence.log_scales.items()}
    with pytest.raises(truerisk.TrueriskError, match=r"fix 2\.running_mean at different values"):
        rescaled_kl(posterior, prior, forged, BLANK)
    evidence = replace(cert.evidence, arrays={**cert.evidence.arrays, "log_scales": forged})
    made = frozen(settings_of(cert), load("digits"), evidence)
    truerisk.Certificate(replace(cert.record, files=hashes(made.files)), made).save(tmp_path)
    with pytest.raises(truerisk.VerificationError, match="different values"):
        truerisk.verify(tmp_path, model=batch_norm)


def test_random_labels_stay_uncertified():
    """Rescaling makes a KL smaller, not a memorizer good."""
    digits = load("digits")
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(10, (len(digits),), generator=generator).numpy()
    assert truerisk.certify("mlp:16", (digits.X, y), method="pac-bayes-kl", prior="zero", epochs=5).risk_bound >= 0.9


def test_the_stored_log_scales_are_the_best_ones():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    q, p = Gaussian.around(net, 0.02), Gaussian.zero(net, 0.2)
    symmetry = followed(p, BLANK)
    scales = best_log_scales(q, p, symmetry)
    assert scales is not None
    found = rescaled_kl(moved(q, scales, symmetry)[0], p, scales, BLANK)
    # A moved posterior is rounded to float32.
    assert found.kl == pytest.approx(truerisk.tighten(q, p, symmetry).kl_after, rel=1e-6)
    assert found.original == pytest.approx(q.kl(p), rel=1e-6)


def test_a_posterior_that_float32_cannot_hold_stays_where_it_is():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    q = Gaussian.around(net, 0.02)
    far = {name: torch.full((8,), 200.0).double() for name in ("best", "with a tuned prior")}
    symmetry = followed(q, BLANK)
    assert moved(q, far, symmetry) == (q, None)
    assert moved(q, None, symmetry) == (q, None)
    assert moved(q, far, None) == (q, None)
