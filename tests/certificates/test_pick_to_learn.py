"""Pick-to-learn: the scheme is preferent, its bound covers, noise certifies nothing, and edits are caught."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from certificates.own import own

import truerisk
from truerisk import VerificationError
from truerisk.bounds import pick_to_learn
from truerisk.certificates.methods.pick_to_learn import FINAL, PICKS
from truerisk.certificates.workshop.picks import REPLAY, pick, picks_from, replayed
from truerisk.certificates.workshop.trainer import Trainer
from truerisk.data import Split, load, random_labels
from truerisk.nets import architecture, predict_labels

METHOD = "pick-to-learn"


@pytest.fixture(scope="module")
def small():
    """Threes and eights: easy enough that few picks do, and all of delta is there (other data pay for comparisons)."""
    digits = own(load("digits"))
    rows = np.flatnonzero((digits.y == 3) | (digits.y == 8))[:300]
    return load((digits.X[rows], (digits.y[rows] == 8).astype(np.int64)))


@pytest.fixture(scope="module")
def cert(small):
    return truerisk.certify("mlp:8", small, prior="split:0.5", method=METHOD, epochs=3, options={"batch": 4})


@pytest.fixture(scope="module")
def folder(cert, tmp_path_factory):
    path = tmp_path_factory.mktemp("picks")
    cert.save(path)
    return path


# The scheme


def test_the_certificate_is_the_bound_of_its_picks(cert, small):
    parts, rows = cert.evidence.parts, cert.evidence.arrays[PICKS]["rows"].numpy()
    assert 0 < len(set(rows)) == len(rows) < len(parts.certify)
    assert set(rows) <= set(parts.certify)
    rest = np.setdiff1d(parts.certify, rows)
    wrong = int((cert.predictor(small.X[rest]) != small.y[rest]).sum())
    assert cert.record["compression"]["k"] == len(rows) + wrong
    assert cert.risk_bound == pytest.approx(slow_bound(len(rows) + wrong, len(parts.certify), 0.05), abs=1e-9)
    assert sum(part["value"] for part in cert.record["breakdown"]) == pytest.approx(cert.risk_bound, abs=1e-12)
    assert cert.record["ledger"] == [{"event": cert.record["ledger"][0]["event"], "delta": 0.05}]


def slow_bound(k: int, n: int, delta: float) -> float:
    """(delta/n) sum_(m=k)^(n-1) C(m,k)/C(n,k) (1-eps)^(m-n) = 1, term by term."""

    def left(eps: float) -> float:
        logs = [math.log(math.comb(m, k) / math.comb(n, k)) - (n - m) * math.log1p(-eps) for m in range(k, n)]
        top = max(logs)
        return math.log(delta / n) + top + math.log(math.fsum(math.exp(value - top) for value in logs))

    low, high = 0.0, 1.0 - 1e-12
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if left(middle) < 0 else (low, middle)
    return high


def trainer_of(cert, data, **options) -> Trainer:
    settings = cert.record.settings
    quick = {**settings.plans, "picks": replace(settings.plans["picks"], epochs=2, lr=3e-3)}
    settings = replace(settings, method=replace(settings.method, **options), plans=quick)
    return Trainer(settings, data, architecture("mlp:8", data.input_shape, data.classes))


def compress(trainer, first, prior, rows):
    """(picks in their order, the compressed set, the last network): what the scheme does with these rows."""
    method = trainer.settings.method
    last, order, _ = picks_from(trainer, first, Split(prior, rows), method.batch, method.rounds)
    wrong = rows[predict_labels(last, trainer.data.X[rows]) != trainer.data.y[rows]]
    return rows[order].tolist(), set(rows[order]) | set(wrong), last


@pytest.mark.parametrize(("batch", "rounds"), [(3, 100), (1, 2)])
def test_the_scheme_is_preferent(cert, small, batch, rounds):
    """c(U) = T and T <= V <= U give c(V) = T, by the same picks in the same order; also for V = T + one more."""
    trainer, parts = trainer_of(cert, small, batch=batch, rounds=rounds), cert.evidence.parts
    rows, first = parts.certify, cert.evidence.network
    picks, kept, last = compress(trainer, first, parts.prior, rows)
    still_wrong = kept - set(picks)
    assert len(picks) == batch * rounds if still_wrong else len(kept) < len(rows)
    assert bool(still_wrong) == (rounds == 2)
    others = np.array(sorted(set(rows) - kept))
    rng = np.random.default_rng(batch)
    extras = [[], others, *(rng.choice(others, size) for size in (3, 30)), *others[:3, None]]
    for extra in extras:
        some = rows[np.isin(rows, [*kept, *extra])]
        again, kept_again, last_again = compress(trainer, first, parts.prior, some)
        assert (again, kept_again) == (picks, kept)
        for name, value in last.state_dict().items():
            assert torch.equal(value, last_again.state_dict()[name])


def test_the_test_above_would_see_a_scheme_that_looks_at_what_is_left():
    """Half of the wrong examples at a time: leaving one out that was never picked changes the picks."""

    def picked(points: np.ndarray) -> list[float]:
        kept: list[float] = []
        while (wrong := [p for p in points if p > max(kept, default=0) / 2 + 4 and p not in kept]) and len(kept) < 3:
            kept += sorted(wrong, reverse=True)[: (len(wrong) + 1) // 2]
        return kept

    points = np.array([5.0, 6, 7, 8, 9, 10, 11])
    assert picked(points) != picked(np.setdiff1d(points, [5.0]))
    assert 5.0 not in picked(points)


def test_equal_losses_are_picked_in_the_order_of_the_rows():
    loss = np.array([1.0, 3.0, 2.0, 3.0, 3.0, 9.0])
    wrong = np.array([True, True, True, True, True, False])
    _, picks, rounds = pick(0, lambda _: (wrong, loss), lambda m, *_: m, batch=2, rounds=9)
    assert picks.tolist() == [1, 3, 4, 2, 0]
    assert rounds.tolist() == [1, 1, 2, 2, 3]
    _, few, _ = pick(0, lambda _: (wrong, loss), lambda m, *_: m, batch=2, rounds=1)
    assert few.tolist() == [1, 3]


def test_replayed_rows_know_seed_round_and_number_of_picks_only(cert):
    settings, prior = cert.record.settings, np.arange(2 * REPLAY)
    one = replayed(settings, prior, 3, 12)
    assert len(set(one)) == REPLAY
    assert np.array_equal(one, replayed(settings, prior, 3, 12))
    assert not np.array_equal(one, replayed(settings, prior, 4, 12))
    assert np.array_equal(replayed(settings, prior[:50], 1, 1), prior[:50])
    assert len(replayed(replace(settings, own_training=True), prior, 1, 1)) == len(prior)  # it starts anew


# Truth


def box_risk(points: np.ndarray) -> tuple[float, int]:
    """Learn a box around the picks from points of the unit square, all of one class: (true risk, k)."""

    def judge(box):
        low, high = box
        wrong = ((points < low) | (points > high)).any(axis=1)
        return wrong, np.abs(points - 0.5).max(axis=1)

    def learn(_, number, picks):
        return points[picks].min(axis=0), points[picks].max(axis=0)

    (low, high), picks, _ = pick((np.ones(2), np.zeros(2)), judge, learn, batch=1, rounds=len(points))
    return 1 - float(np.prod(high - low)), len(picks)


@pytest.mark.long
def test_coverage_on_a_known_distribution():
    """1000 boxes learnt from 30 points each, at delta 0.2: the true risk is known exactly.

    260 failures or more have probability 3e-6 if each has probability 0.2: the false-alarm rate. With n four times too
    large nearly all fail: the simulation can see an n that is wrong.
    """
    rng = np.random.default_rng(0)
    runs = [box_risk(rng.random((30, 2))) for _ in range(1000)]
    assert {k for _, k in runs} >= {4, 5, 6}
    right, wrong = ([pick_to_learn(k, n, 0.2) for k in range(31)] for n in (30, 120))
    assert sum(risk > right[k] for risk, k in runs) < 260
    assert sum(risk > wrong[k] for risk, k in runs) > 500


@pytest.mark.parametrize("prior", ["init", "split:0.5"])
@pytest.mark.parametrize("options", [{}, {"rounds": 2, "batch": 20}])
def test_random_labels_certify_nothing(prior, options):
    noise = random_labels(load("digits").take(np.arange(160)), seed=1)
    cert = truerisk.certify("mlp:8", noise, prior=prior, method=METHOD, epochs=2, options=options)
    assert cert.risk_bound >= 0.9
    assert cert.record["compression"]["left_wrong"] > 0 or not options


def test_a_users_function_gets_the_priors_rows_and_the_picks_only(small):
    seen = []

    def fit(module, dataset):
        X, y = dataset.tensors
        seen.append(y.tolist())
        optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(X), y).backward()
            optimizer.step()

    cert = truerisk.certify("mlp:8", small, prior="split:0.5", method=METHOD, fit=fit, options={"rounds": 3})
    parts, picks = cert.evidence.parts, cert.evidence.arrays[PICKS]["rows"].numpy()
    rounds = cert.evidence.arrays[PICKS]["rounds"].numpy()
    assert 2 <= len(seen) == 1 + max(rounds) <= 4
    for number, labels in enumerate(seen):
        assert labels == small.y[np.concatenate([parts.prior, picks[rounds <= number]])].tolist()


# Verification


def test_a_run_from_the_initial_network_verifies(small, tmp_path):
    cert = truerisk.certify("mlp:8", small, prior="init", method=METHOD, epochs=3, options={"batch": 20})
    assert cert.record["n_certify"] == len(small)
    assert "four fifths" in cert.record["floor_detail"]["what"]
    cert.save(tmp_path)
    assert truerisk.verify(tmp_path, data=small, retrain=True).claimed == cert.risk_bound


def test_round_trip(cert, folder, small):
    result = truerisk.verify(folder, data=small)
    assert result.claimed == cert.risk_bound
    assert any("the picks are right" in line for line in result.unchecked)
    again = truerisk.verify(folder, data=small, retrain=True)
    assert not any("--retrain" in line for line in again.unchecked)
    assert any("was reproduced exactly" in line for line in again.checked)


def test_n_doubled_is_seen(folder, small, tmp_path, edit):
    def double(record):
        n, k = 2 * record["n_certify"], record["compression"]["k"]
        record.update(n_certify=n, risk_bound=pick_to_learn(k, n, 0.05))

    with pytest.raises(VerificationError, match="does not follow from the files"):
        truerisk.verify(edit(folder, tmp_path, record=double), data=small)


def drop_the_last(tensors):
    tensors.update({name: values[:-1].clone() for name, values in tensors.items()})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop_the_last, "counting again|does not follow"),
        (lambda t: t["rows"].__setitem__(0, t["rows"][1]), "distinct certification rows"),
        (lambda t: t["rows"].__setitem__(0, -1), "distinct certification rows"),
        (lambda t: t["rounds"].__setitem__(0, 2), "round of each"),
        (lambda t: t["rounds"].fill_(1), "round of each"),  # more than a batch at once
        (lambda t: t.update(rows=t["rows"].double()), "distinct certification rows"),
        (lambda t: t.pop("rounds"), "round of each"),
    ],
)
def test_edited_picks_are_caught(folder, small, tmp_path, change, message, edit):
    with pytest.raises(VerificationError, match=message):
        truerisk.verify(edit(folder, tmp_path, tensors=("picks.safetensors", change)), data=small)


def test_a_pick_of_the_priors_rows_is_caught(cert, folder, small, tmp_path, edit):
    row = int(cert.evidence.parts.prior[0])
    forged = edit(folder, tmp_path, tensors=("picks.safetensors", lambda t: t["rows"].__setitem__(0, row)))
    with pytest.raises(VerificationError, match="distinct certification rows"):
        truerisk.verify(forged, data=small)


def test_other_picks_or_another_last_network_do_not_survive_training_again(cert, folder, small, tmp_path, edit):
    parts, picks = cert.evidence.parts, cert.evidence.arrays[PICKS]["rows"]
    spare = next(int(row) for row in parts.certify if row not in picks.tolist())
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    other = edit(folder, tmp_path / "a", tensors=("picks.safetensors", lambda t: t["rows"].__setitem__(-1, spare)))
    with pytest.raises(VerificationError, match=r"picks\.safetensors.* could not be reproduced|counting again"):
        truerisk.verify(other, data=small, retrain=True)

    def nudge(tensors):
        next(iter(tensors.values())).view(-1)[0].add_(1e-6)

    nudged = edit(folder, tmp_path / "b", tensors=(f"{FINAL}.safetensors", nudge))
    truerisk.verify(nudged, data=small)  # a network that was tampered with a little still has these errors,
    # but it is not the one that training gives
    with pytest.raises(VerificationError, match=r"network-final\.safetensors could not be reproduced"):
        truerisk.verify(nudged, data=small, retrain=True)


@pytest.mark.parametrize("options", [{"batch": 0}, {"rounds": 0}, {"batch": 1.0}, {"most": 3}])
def test_options_that_make_no_sense_are_refused(small, options):
    with pytest.raises(truerisk.TrueriskError):
        truerisk.certify("mlp:8", small, method=METHOD, options=options)


def test_it_needs_a_network_to_start_from(small):
    with pytest.raises(truerisk.TrueriskError, match="starts from a network"):
        truerisk.certify("mlp:8", small, method=METHOD, prior="zero")
