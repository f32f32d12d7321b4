"""Recursive PAC-Bayes: arithmetic against a plain twin, who sees what, noise certifies nothing, edits are caught."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
import torch
from certificates.forging import sealed, settings_of
from certificates.own import own
from torch import nn

import truerisk
from truerisk import Gaussian, NotRepeatedError, VerificationError
from truerisk.certificates.methods.recursive import BETTER, BOTH, WORSE, WRONG, Recursive
from truerisk.certificates.workshop.chain import cut
from truerisk.certificates.workshop.trainer import Trainer
from truerisk.data import load, random_labels
from truerisk.pacbayes import DrawPlan
from truerisk.pacbayes.pairs import gibbs_pairs

METHOD = "recursive"


@pytest.fixture(scope="module")
def small():
    """Threes and eights, so that a small network has something to certify."""
    digits = own(load("digits"))
    rows = np.flatnonzero((digits.y == 3) | (digits.y == 8))
    return load((digits.X[rows], (digits.y[rows] == 8).astype(np.int64)))


@pytest.fixture(scope="module")
def cert(small):
    return truerisk.certify("mlp:4", small, prior="init", method=METHOD, epochs=20)


@pytest.fixture(scope="module")
def folder(cert, tmp_path_factory):
    path = tmp_path_factory.mktemp("recursive")
    cert.save(path)
    return path


# Arithmetic


def kl_upper(q: float, c: float) -> float:
    """The largest p with kl(q, p) <= c, by bisection."""

    def kl(p: float) -> float:
        return sum(a * math.log(a / b) if a else 0.0 for a, b in ((q, p), (1 - q, 1 - p)))

    low, high = q, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if middle < 1 and kl(middle) <= c else (low, middle)
    return high


def plain_bound(record: dict, gamma: float) -> float:
    """From counts, KLs and delta alone: shares 0.9 / T for each step, 0.1 / (3 T - 2) for each mean of draws."""
    steps, delta = record["steps"], record["delta"]
    total = len(steps)
    draws = delta * 0.1 / (3 * total - 2)
    bound = 1.0
    for t, step in enumerate(steps, start=1):
        trials = step["draws"]["n"] * step["draws"]["passes"]
        count = {k.partition(": ")[2]: v for k, v in record["counts"].items() if k.startswith(f"step {t}: ")}

        def upper(errors, trials=trials):
            return kl_upper(errors / trials, math.log(1 / draws) / trials)

        def certified(mean, events, kl=step["kl"], n=step["n"]):
            return kl_upper(mean, (kl + math.log(2 * math.sqrt(n) * events / (delta * 0.9 / total))) / n)

        if t == 1:
            bound = certified(upper(count[WRONG]), 1)
        else:
            means = trials - count[BETTER], count[WORSE] + count[BOTH], count[WORSE]
            one, two, three = (certified(upper(mean), 3) for mean in means)
            bound = -gamma + gamma * one + (1 - gamma) * two + gamma * three + gamma * bound
    return bound


@pytest.mark.parametrize(("steps", "gamma"), [(3, 0.5), (2, 0.05), (4, 0.95)])
def test_the_bound_follows_from_the_counts(cert, small, steps, gamma):
    if steps != 3:
        options = {"steps": steps, "gamma": gamma}
        cert = truerisk.certify("mlp:4", small, prior="init", method=METHOD, epochs=8, options=options)
    assert cert.risk_bound < 1
    assert cert.risk_bound == pytest.approx(plain_bound(cert.record, gamma), rel=1e-7)
    assert cert.risk_bound == cert.record["steps"][-1]["risk_bound"]
    parts = [part["value"] for part in cert.record["breakdown"]]
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(cert.risk_bound, abs=1e-12)


def test_the_ledger_pays_for_every_event_once(cert):
    ledger = cert.ledger
    assert len({entry["event"] for entry in ledger}) == len(ledger) == 3 + 1 + 2 * 3
    assert sum(Decimal(repr(entry["delta"])) for entry in ledger) <= Decimal("0.05")
    assert sum(entry["delta"] for entry in ledger) == pytest.approx(0.05, rel=1e-9)


@pytest.mark.parametrize("steps", range(2, 11))
def test_shares_never_add_up_to_more_than_one(steps):
    shares = Recursive(steps=steps).events()
    assert sum(part for _, part in shares) <= 1
    assert len(shares) == steps + 1 + 3 * (steps - 1)


# Who sees what


def test_parts_double_in_size_and_keep_the_order():
    rows = np.random.default_rng(0).permutation(1003)
    parts = cut(rows, 4)
    assert np.array_equal(np.concatenate(parts), rows)
    assert [len(part) for part in parts] == [125, 125, 251, 502]
    with pytest.raises(truerisk.TrueriskError, match="fewer --steps"):
        cut(np.arange(79), 4)
    assert len(cut(np.arange(80), 4)[0]) == 10


def test_a_posterior_sees_its_own_part_and_earlier_ones(small, monkeypatch):
    calls = []
    train = Trainer.posterior

    def watched(self, prior, parts):
        calls.append((prior, set(parts.certify.tolist()), train(self, prior, parts)))
        return calls[-1][2]

    monkeypatch.setattr(Trainer, "posterior", watched)
    cert = truerisk.certify("mlp:4", small, prior="init", method=METHOD, epochs=2)
    pieces = cut(cert.evidence.parts.certify, 3)
    assert [seen for _, seen, _ in calls] == [set(np.concatenate(pieces[:t]).tolist()) for t in (1, 2, 3)]
    chain = [cert.evidence.gaussians[name] for name in ("prior", "posterior-1", "posterior-2", "posterior")]
    symmetry = truerisk.find_symmetry(chain[0].module, torch.zeros(1, *small.input_shape))
    for t, ((prior, _, posterior), old, new) in enumerate(zip(calls, chain[:-1], chain[1:], strict=True), start=1):
        assert prior.kl(old) < 1e-6
        assert posterior.kl(symmetry.rescale(new, cert.evidence.arrays[f"log_scales-{t}"]["best"])) < 1e-6
    assert [step["n"] for step in cert.record["steps"]] == [sum(map(len, pieces[t:])) for t in range(3)]


# Pairs of networks


def coin(mean: float) -> Gaussian:
    """On x = 1 with label 1 the network is wrong with probability P(N(mean, 1) <= 0)."""
    net = nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0], [mean]]))
    return Gaussian.around(net, math.sqrt(0.5))


@pytest.mark.parametrize(("layered", "passes"), [(True, 2000), (False, 50)])
@pytest.mark.parametrize(("a", "b"), [(1.0, 0.3), (0.5, 0.5)])
def test_pairs_are_independent(a, b, layered, passes):
    """Within five standard deviations (false alarms: below 1e-6 each). Equal distributions are drawn twice, too."""
    p, q = (0.5 * math.erfc(mean / math.sqrt(2)) for mean in (a, b))
    X, y = np.ones((20, 1), np.float32), np.ones(20, np.int64)
    plan = DrawPlan(20, 20, 1, passes, 700 if layered else 1, "float64", layered)
    found = gibbs_pairs(coin(a), coin(b), X, y, 3, plan)
    expected = {"first_only": p * (1 - q), "second_only": q * (1 - p), "both": p * q}
    for name, mean in expected.items():
        assert abs(getattr(found, name) / (20 * passes) - mean) < 5 * math.sqrt(mean * (1 - mean) / (20 * passes))
    assert gibbs_pairs(coin(a), coin(b), X, y, 3, plan) == found


def test_gradients_are_on_after_drawing_pairs():
    X, y = np.ones((20, 1), np.float32), np.ones(20, np.int64)
    gibbs_pairs(coin(1.0), coin(0.3), X, y, 3, DrawPlan(20, 20, 1, 1, 5, "float64", True))
    assert torch.is_grad_enabled()


# Truth


@pytest.mark.parametrize("prior", ["init", "zero", "split:0.5"])
def test_random_labels_certify_nothing(prior):
    noise = random_labels(load("digits").take(np.arange(200)), seed=1)
    cert = truerisk.certify("mlp:8", noise, prior=prior, method=METHOD, epochs=10)
    assert cert.risk_bound >= 0.9


def test_the_certificate_says_something_where_there_is_something_to_learn(cert, small):
    """And it is that of the last posterior: its draws on the last part err as often as the record says."""
    assert cert.risk_bound < 0.5
    rows = cut(cert.evidence.parts.certify, 3)[-1]
    wrong = [(cert.predictor(small.X[rows], seed=s) != small.y[rows]).mean() for s in range(20)]
    assert abs(np.mean(wrong) - cert.empirical_risk) < 5 * math.sqrt(0.25 / (20 * len(rows)))


# Verification


def test_round_trip(cert, folder, small):
    result = truerisk.verify(folder, data=small)
    assert result.claimed == cert.risk_bound
    assert any("for which it is the prior later" in line for line in result.unchecked)
    again = truerisk.verify(folder, data=small, retrain=True)
    assert not any("--retrain" in line for line in again.unchecked)
    assert any("was reproduced exactly" in line for line in again.checked)


def nudge(amount):
    return lambda tensors: next(t for n, t in tensors.items() if n.startswith("mean")).view(-1)[0].add_(amount)


@pytest.mark.parametrize("name", ["prior", "posterior-1", "posterior-2", "posterior"])
def test_other_weights_are_caught(folder, small, tmp_path, name, edit):
    forged = edit(folder, tmp_path, tensors=(f"{name}.safetensors", nudge(0.5)))
    with pytest.raises(VerificationError):
        truerisk.verify(forged, data=small)


def double_n(record):
    record["n_certify"] *= 2
    for step in record["steps"]:
        step["n"] *= 2
        step["draws"].update(n=2 * step["draws"]["n"], groups=2 * step["draws"]["groups"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (double_n, "n_certify does not follow"),
        (lambda r: r["steps"].pop(), "steps does not follow"),
        (lambda r: r.update(steps="x"), "steps is not readable"),
        (lambda r: r["steps"].__setitem__(0, None), "steps is not readable"),
        (lambda r: r["steps"][1].update(kl=1.0), "steps does not follow"),
        (lambda r: r["settings"]["options"].update(gamma=0.4), "does not follow"),
        (lambda r: r["settings"]["options"].update(gamma=1.5), "gamma"),
        (lambda r: r["settings"]["options"].update(steps=2), "files that the certificate lists"),
        (lambda r: r["ledger"].pop(), "ledger does not follow"),
        (lambda r: r["counts"].update({f"step 2: {WORSE}": 0}), "new draws give"),
        (
            lambda r: r["counts"].update({f"step 3: {BETTER}": r["counts"][f"step 3: {BETTER}"] + 1000}),
            "new draws give",
        ),
    ],
)
def test_edited_records_are_caught(folder, small, tmp_path, change, message, edit):
    with pytest.raises(VerificationError, match=message):
        truerisk.verify(edit(folder, tmp_path, record=change), data=small)


def test_a_link_that_saw_too_much_is_found_by_training_again(cert, folder, small, tmp_path):
    """Step 3 with its own posterior as prior: KL 0, every number follows, only training again sees it."""
    evidence = cert.evidence
    forged = {**evidence.gaussians, "posterior-2": evidence.gaussians["posterior"]}
    arrays = {name: value for name, value in evidence.arrays.items() if not name.startswith("log_scales")}
    false = replace(evidence, gaussians=forged, arrays=arrays)
    made = sealed(settings_of(cert), small, false)
    made.save(tmp_path)
    assert truerisk.verify(tmp_path, data=small).claimed == made.risk_bound
    with pytest.raises(NotRepeatedError, match=r"posterior-2\.safetensors could not be reproduced"):
        truerisk.verify(tmp_path, data=small, retrain=True)


@pytest.mark.parametrize("gamma", [0.0, 1.0, -0.1, 1.1, float("nan"), 1e-20, 1])
def test_gamma_must_lie_between_zero_and_one(small, gamma):
    with pytest.raises(truerisk.TrueriskError, match="gamma"):
        truerisk.certify("mlp:4", small, method=METHOD, options={"gamma": gamma})


@pytest.mark.parametrize("steps", [0, 1, 11, 2.0])
def test_steps_must_be_a_few(small, steps):
    with pytest.raises(truerisk.TrueriskError, match="steps"):
        truerisk.certify("mlp:4", small, method=METHOD, options={"steps": steps})


def test_too_little_data_for_so_many_steps_is_told(small):
    with pytest.raises(truerisk.TrueriskError, match="fewer --steps"):
        truerisk.certify("mlp:4", small, prior="init", method=METHOD, options={"steps": 8}, epochs=1)
