"""Examples counted twice, delta spent twice, a row on the other side, another part in a file: seen method by method.

The forger knows all formulas: each number of a forged record follows from the forged ones, and all hashes fit.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from certificates.forging import Forged, counted, frozen, saved, sealed
from torch import nn

import truerisk
from truerisk import NotRepeatedError, VerificationError, bounds
from truerisk.certificates import Certificate
from truerisk.certificates.counts import Counts
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.frozen import hashes
from truerisk.certificates.ledger import Entry, paid
from truerisk.certificates.methods import METHODS
from truerisk.certificates.origins import DERIVED, FREE, TRAINED, VOUCHED, Origin
from truerisk.certificates.pipeline import seal
from truerisk.certificates.settings import Settings
from truerisk.data import Data, Split, load
from truerisk.nets import mlp
from truerisk.pacbayes import DrawPlan

# How each method makes its certificate. A method that is not here fails every test below.
EXAMPLES: dict[str, dict[str, Any]] = {
    "pac-bayes-kl": {"prior": "split:0.5"},
    "single-draw": {"prior": "init"},
    "progressive": {"prior": "split:0.5", "options": {"blocks": 2}},
    "pick-to-learn": {"prior": "split:0.5"},
    "recursive": {"prior": "init", "options": {"steps": 2}},
    "description-length": {"prior": "init", "epochs": 40},
    "hold-out": {"prior": "split:0.5"},
    "pac-bayes-around": {"prior": "zero"},
    "single-draw-around": {"prior": "zero"},
    "disagreement": {"prior": "split:0.5"},
}
DRAWS = 2_000
FRESH = "fresh"  # a hold-out certificate of a trained network


@dataclass(frozen=True)
class Made:
    """An honest certificate and what a forger needs."""

    cert: Certificate
    data: Data
    model: nn.Module | None  # verify needs a user's module again

    @property
    def settings(self) -> Settings:
        return self.cert.record.settings

    @cached_property
    def honest(self) -> Counts:
        return self.counts(self.cert.evidence)

    def counts(self, evidence: Evidence) -> Counts:
        return counted(self.settings, self.data, frozen(self.settings, self.data, evidence))

    def record(self, evidence: Evidence, counts: Counts, entries: list[Entry] | None = None) -> dict[str, Any]:
        """What follows from these counts, and from another ledger if one is given."""
        made, entries = frozen(self.settings, self.data, evidence), entries or self.settings.ledger
        derivation = self.settings.method.derive(counts, entries)
        return seal(self.settings, self.data, made, counts, derivation).to_json() | {"ledger": entries}

    def verify(self, record: dict[str, Any], evidence: Evidence, folder: Path) -> truerisk.Verification:
        """Of a certificate with these claims and files, with hashes that fit."""
        made = frozen(self.settings, self.data, evidence)
        claims = tuple((name, value) for name, value in record.items() if name != "files")
        honest = replace(self.cert.record, files=hashes(made.files))
        Forged(honest, made, claims=claims).save(folder)
        return truerisk.verify(folder, data=self.data, model=self.model, seed=1)


@pytest.fixture(scope="module", params=[*METHODS, FRESH])
def made(request: pytest.FixtureRequest) -> Made:
    """The certificate of one method on zeros and ones: easy, so that it says something and has something to gain."""
    name, digits = request.param, load("digits")
    rows = np.flatnonzero(digits.y < 2)
    labelled, new = (rows[:260], rows[260:]) if name in ("disagreement", FRESH) else (rows, rows[:0])
    data = Data("zeros and ones", digits.X[labelled], digits.y[labelled], 2)
    if name == FRESH:
        model = trained(Data("others", digits.X[new], digits.y[new], 2))
        return Made(truerisk.certify(model, fresh=data, tried=2), data, model)
    method, more, model = METHODS[name], {"epochs": 15, **EXAMPLES[name]}, None
    if method.needs_weights:
        model = trained(data)
    if method.needs_unlabelled:
        more["unlabelled"] = digits.X[new]
    return Made(truerisk.certify(model or "mlp:8", data, method=name, tried=2, **more), data, model)


def trained(data: Data) -> nn.Module:
    """A network that has seen all of ``data``: full-batch Adam."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = mlp(data.input_shape, data.classes, hidden=(8,))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(torch.from_numpy(data.X)), torch.from_numpy(data.y)).backward()
        optimizer.step()
    return net.eval()


def test_no_method_is_left_out():
    assert EXAMPLES.keys() == METHODS.keys() == RECOUNTED.keys()


def test_what_is_not_forged_holds(made, tmp_path):
    evidence = made.cert.evidence
    result = made.verify(made.record(evidence, made.honest), evidence, tmp_path)
    assert result.claimed == made.cert.risk_bound < 1
    drawn = any(count.drawn for count in made.honest.items.values())
    assert result.risk_bound == made.cert.risk_bound or (drawn and abs(result.risk_bound - result.claimed) < 0.03)
    assert result.risk_bound < result.after_tries
    assert any("counted again" in line for line in result.checked)


# ---- n from the indices: a doubled n in the program itself, where verify would repeat it ---------------------------


def gibbs_upper(record: dict[str, Any], n: int) -> float:
    passes, delta = record["draws"]["passes"], share(record, "Monte Carlo")
    return bounds.grouped_upper(record["counts"]["draws"], n, 1, n, passes, delta)


def pac_bayes(record: dict[str, Any], n: int, evidence: Evidence) -> float:
    return bounds.pac_bayes_kl(gibbs_upper(record, n), record["kl"], n, record["ledger"][0]["delta"])


def single_draw(record: dict[str, Any], n: int, evidence: Evidence) -> float:
    errors, delta = record["counts"]["drawn network"], record["ledger"][0]["delta"]
    return bounds.single_draw(errors / n, record["log_ratio"], n, delta)


def progressive(record: dict[str, Any], n: int, evidence: Evidence) -> float:
    errors = record["counts"]["block 1"] + record["counts"]["block 2"]
    return bounds.progressive(errors, n, record["ledger"][0]["delta"], record["progressive"]["t"])


def pick_to_learn(record: dict[str, Any], n: int, evidence: Evidence) -> float:
    picks = len(set(evidence.arrays["picks"]["rows"].tolist()))
    return bounds.pick_to_learn(picks + record["counts"]["left wrong"], n, record["ledger"][0]["delta"])


def recursive(record: dict[str, Any], n: int, evidence: Evidence) -> float:
    """Step 1 on all rows, step 2 on the second half."""
    counts, (one, two) = record["counts"], record["steps"]
    upper = bounds.grouped_upper(
        counts["step 1: a drawn network wrong"], n, 1, n, one["draws"]["passes"], share(record, "step 1, Monte")
    )
    first = bounds.pac_bayes_kl(upper, one["kl"], n, share(record, "step 1, PAC"))
    half = n - n // 2
    worse, better, both = (counts[f"step 2: {k} wrong"] for k in ("only the new one", "only the old one", "both"))
    trials = half * two["draws"]["passes"]
    sums, delta = (trials - better, worse + both, worse), share(record, "step 2, Monte")
    uppers = [bounds.grouped_upper(s, half, 1, half, two["draws"]["passes"], delta) for s in sums]
    excess = bounds.split_kl(uppers, (-0.5, 0.0, 0.5, 1.0), two["kl"], half, share(record, "step 2, PAC"))
    return bounds.recursive_step(excess, 0.5, first)


def description_length(record: dict[str, Any], n: int, evidence: Evidence) -> float:
    bits = 8 * len(evidence.arrays["code"]["bytes"])
    return bounds.description_length(record["counts"]["decoded network"], n, bits, record["ledger"][0]["delta"])


def hold_out(record: dict[str, Any], n: int, evidence: Evidence) -> float:
    return bounds.clopper_pearson(record["counts"]["floor"], n, record["ledger"][0]["delta"])


def disagreement(record: dict[str, Any], n: int, evidence: Evidence) -> float:
    inputs, delta = len(evidence.arrays["unlabelled"]["X"]), share(record, "Clopper-Pearson bound: the unlabeled")
    differ = bounds.clopper_pearson(record["counts"]["disagreements"], inputs, delta)
    return hold_out(record, n, evidence) + differ


RECOUNTED = {
    "pac-bayes-kl": pac_bayes,
    "single-draw": single_draw,
    "progressive": progressive,
    "pick-to-learn": pick_to_learn,
    "recursive": recursive,
    "description-length": description_length,
    "hold-out": hold_out,
    "pac-bayes-around": pac_bayes,
    "single-draw-around": single_draw,
    "disagreement": disagreement,
}


def share(record: dict[str, Any], event: str) -> float:
    return next(entry["delta"] for entry in record["ledger"] if entry["event"].startswith(event))


def test_every_bound_uses_the_number_of_its_rows(made):
    """n is the number of different rows of the split, and the bound is what that n gives."""
    record, evidence = made.cert.record, made.cert.evidence
    prior, certify = (set(rows.tolist()) for rows in (evidence.parts.prior, evidence.parts.certify))
    n, all_rows = len(certify), set(range(len(made.data)))
    assert prior | certify == all_rows
    assert not prior & certify
    assert record["n_certify"] == n
    tested = n if prior or made.settings.prior.trained else len(all_rows) - round(0.8 * len(all_rows))
    tried = made.settings.tried
    assert tried == (2 if made.settings.prior.trained else 2 * 79)  # looks.toml, for a part of digits
    assert record["floor"] == bounds.clopper_pearson(record["counts"]["floor"], tested, paid(0.05, tried))
    assert record["risk_bound"] == pytest.approx(RECOUNTED[record["method"]](record, n, evidence), rel=1e-9)


# ---- n doubled -----------------------------------------------------------------------------------------------------


def doubled(counts: Counts, errors: int) -> Counts:
    """Twice as many trials of everything, with ``errors`` times as many errors."""
    items = {n: replace(c, value=errors * c.value, trials=2 * c.trials) for n, c in counts.items.items()}
    plans = tuple(map(twice_as_many, counts.plans))
    return replace(counts, items=items, plans=plans, n_certify=2 * counts.n_certify)


def twice_as_many(plan: DrawPlan) -> DrawPlan:
    return replace(plan, n=2 * plan.n, groups=2 * plan.groups)


def twice(evidence: Evidence) -> Evidence:
    """Each certifying row twice."""
    parts = evidence.parts
    return replace(evidence, parts=Split(parts.prior, np.repeat(parts.certify, 2)))


def with_plans_of(record: dict[str, Any], honest: dict[str, Any]) -> dict[str, Any]:
    """The plans of the draws as they were."""
    if "steps" not in record:
        return {**record, "draws": honest["draws"]}
    pairs = zip(record["steps"], honest["steps"], strict=True)
    return {**record, "steps": [{**mine, "draws": theirs["draws"]} for mine, theirs in pairs]}


@pytest.mark.parametrize("errors", [2, 1], ids=["errors doubled", "errors as they are"])
@pytest.mark.parametrize("plans", ["doubled", "kept"])
def test_n_doubled(made, tmp_path, errors, plans):
    """All numbers follow from a doubled n; the split that is saved is the true one."""
    evidence, honest = made.cert.evidence, made.cert.record
    record = made.record(twice(evidence), doubled(made.honest, errors))
    assert record["n_certify"] == 2 * honest["n_certify"]
    assert record["risk_bound"] < honest["risk_bound"]
    if plans == "kept":
        record = with_plans_of(record, honest)
    named = r"counting again gives \d+ |new draws give [\d,]+ |n_certify does not follow|which must be an integer"
    with pytest.raises(VerificationError, match=named):
        made.verify(record, evidence, tmp_path)


def test_n_doubled_in_the_bound_alone(made, tmp_path):
    """Counts, n and plans are true, only what is computed from them is not."""
    evidence, honest = made.cert.evidence, made.cert.record
    forged = made.record(twice(evidence), doubled(made.honest, 2))
    record = {
        **honest.to_json(),
        **{name: forged[name] for name in ("risk_bound", "breakdown", "sentence", "warnings")},
    }
    with pytest.raises(VerificationError, match="risk_bound does not follow"):
        made.verify(record, evidence, tmp_path)


@pytest.mark.parametrize("other_names", [False, True], ids=["the same indices", "counted from the end"])
def test_rows_listed_twice(made, tmp_path, other_names):
    """Everything is counted on the doubled rows; as a second name of row i, i - n reads the same row."""
    evidence, parts = twice(made.cert.evidence), made.cert.evidence.parts
    if other_names:
        rows = np.stack([parts.certify, parts.certify - len(made.data)], axis=1).ravel()
        evidence = replace(evidence, parts=Split(parts.prior, rows))
    if made.cert.record["method"] == "pick-to-learn":  # what is picked has one name only
        record = made.record(evidence, doubled(made.honest, 2))
    else:
        record = made.record(evidence, made.counts(evidence))
    assert record["risk_bound"] < made.cert.risk_bound
    with pytest.raises(VerificationError, match="index outside" if other_names else "holds an index twice"):
        made.verify(record, evidence, tmp_path)


# ---- rows and delta ------------------------------------------------------------------------------------------------


def test_a_row_moved_to_the_prior(made, tmp_path):
    """A row that certifies no longer, with everything counted on the others."""
    parts = made.cert.evidence.parts
    moved = Split(np.append(parts.prior, parts.certify[:1]), parts.certify[1:])
    evidence = replace(made.cert.evidence, parts=moved)
    picked = "picks" in evidence.arrays and parts.certify[0] in evidence.arrays["picks"]["rows"].numpy()
    assert not picked, "a pick must certify: move another row"
    record = made.record(evidence, made.counts(evidence))
    if made.settings.prior.trained:  # which rows a network was trained on is the user's word, and it says so
        assert any("the 1 rows left out" in line for line in made.verify(record, evidence, tmp_path).unchecked)
        return
    with pytest.raises(VerificationError, match="the set 'prior' of the split is not that of seed 0"):
        made.verify(record, evidence, tmp_path)


def test_a_row_on_both_sides(made, tmp_path):
    parts = made.cert.evidence.parts
    evidence = replace(made.cert.evidence, parts=Split(np.append(parts.prior, parts.certify[:1]), parts.certify))
    record = made.record(evidence, made.counts(evidence))
    with pytest.raises(VerificationError, match="in the prior set and in the certify set"):
        made.verify(record, evidence, tmp_path)


def test_delta_of_others_spent_here(made, tmp_path):
    """The last entry, which pays for another configuration, is halved; the first gets the rest. The total stays."""
    entries = [dict(entry) for entry in made.cert.ledger]
    assert len(entries) > 1
    taken = entries[-1]["delta"] / 2
    entries[0]["delta"] += taken
    entries[-1]["delta"] -= taken
    exact = [sum(Decimal(repr(e["delta"])) for e in ledger) for ledger in (entries, made.cert.ledger)]
    assert float(exact[0]) == pytest.approx(float(exact[1]), rel=1e-12)
    record = made.record(made.cert.evidence, made.honest, entries)
    assert record["risk_bound"] < made.cert.risk_bound
    with pytest.raises(VerificationError, match="ledger does not follow"):
        made.verify(record, made.cert.evidence, tmp_path)


def test_delta_spent_twice(made, tmp_path):
    """The bound is computed with twice the delta of its events; the ledger that is shown is the right one."""
    entries = [{**entry, "delta": 2 * entry["delta"]} for entry in made.cert.ledger]
    record = made.record(made.cert.evidence, made.honest, entries)
    assert record["risk_bound"] < made.cert.risk_bound
    record["ledger"] = made.cert.ledger
    with pytest.raises(VerificationError, match="risk_bound does not follow"):
        made.verify(record, made.cert.evidence, tmp_path)


@pytest.mark.parametrize("made", ["disagreement"], indirect=True)
def test_unlabelled_inputs_listed_twice(made, tmp_path):
    """They have no indices to recount: equal rows are refused where nothing says that they are separate draws."""
    X = np.repeat(made.cert.evidence.arrays["unlabelled"]["X"].numpy(), 2, axis=0)
    evidence = made.cert.evidence.having(arrays={"unlabelled": {"X": torch.from_numpy(X)}})
    more = {"disagreements": doubled(made.honest, 2)["disagreements"]}
    record = made.record(evidence, made.honest.adding(more))
    assert record["risk_bound"] < made.cert.risk_bound
    with pytest.raises(VerificationError, match="unlabeled inputs equal another one"):
        made.verify(record, evidence, tmp_path)
    with pytest.raises(truerisk.TrueriskError, match="unlabeled inputs equal another one"):
        truerisk.certify(made.model, made.data, method="disagreement", unlabelled=X)


# ---- where files come from -----------------------------------------------------------------------------------------


def nudged(evidence: Evidence, name: str) -> Evidence:
    """Another network or distribution under this name: its first weights are moved."""
    if name in evidence.networks:
        twin = copy.deepcopy(evidence.networks[name])
        with torch.no_grad():
            next(p for p in twin.parameters() if p.ndim > 1).add_(0.3)
        return evidence.having({name: twin})
    old = evidence.gaussians[name]
    moved = truerisk.Gaussian(old.module, {key: value + 0.3 for key, value in old.mean.items()}, old.std)
    floor = {"network": moved.network()} if name == "prior" and len(evidence.parts.prior) else {}
    return evidence.having(floor, {name: moved})


def parts_of(made: Made, origin: Origin) -> list[str]:
    evidence = made.cert.evidence
    files = made.settings.method.files(made.settings)
    return [n for n, f in files.items() if f.origin == origin and (n in evidence.networks or n in evidence.gaussians)]


def sealed_again(made: Made, evidence: Evidence, folder: Path) -> Path:
    """The forger's program: all of ``certify`` but the training."""
    return saved(sealed(made.settings, made.data, evidence), folder)


def test_derived_parts_are_never_read(made, tmp_path):
    """A split aside, these are a data-free prior, a decoder's initial network, the network at a prior's mean."""
    for name in parts_of(made, DERIVED):
        folder = sealed_again(made, nudged(made.cert.evidence, name), tmp_path / name)
        with pytest.raises(NotRepeatedError, match=rf"{name}\.safetensors could not be reproduced") as caught:
            truerisk.verify(folder, data=made.data, model=made.model, seed=1)
        if not made.settings.method.files(made.settings)[name].predicts:
            assert caught.value.risk_bound == pytest.approx(made.cert.risk_bound, abs=0.05), "with the right part"


def test_trained_parts_are_trusted_and_said_to_be_or_trained_again(made, tmp_path):
    for name in parts_of(made, TRAINED):
        folder = sealed_again(made, nudged(made.cert.evidence, name), tmp_path / name)
        told = truerisk.verify(folder, data=made.data, model=made.model).unchecked
        assert any("--retrain" in line for line in told)
        with pytest.raises(NotRepeatedError, match=rf"{name}\.safetensors"):
            truerisk.verify(folder, data=made.data, model=made.model, retrain=True)


def test_free_parts_get_the_bound_that_they_deserve(made, tmp_path):
    """A posterior that was moved is another posterior: verify confirms its own, larger bound."""
    for name in parts_of(made, FREE):
        folder = sealed_again(made, nudged(made.cert.evidence, name), tmp_path / name)
        result = truerisk.verify(folder, data=made.data, model=made.model)
        assert result.risk_bound > made.cert.risk_bound


def test_what_is_vouched_for_is_said(made, tmp_path):
    files = made.settings.method.origins(made.settings).values()
    told = truerisk.verify(saved(made.cert, tmp_path), data=made.data, model=made.model).unchecked
    assert any("you vouch" in line for line in told) == any(file.origin == VOUCHED for file in files)
    assert any("--retrain" in line for line in told) == any(file.origin == TRAINED for file in files)


def test_training_again_confirms_every_method(made, tmp_path):
    result = truerisk.verify(saved(made.cert, tmp_path), data=made.data, model=made.model, retrain=True)
    assert result.claimed == made.cert.risk_bound
    assert not result.noticed


def test_a_loaded_predictor_is_the_verified_one(made, tmp_path):
    """Whatever the method: the same answers before and after the files."""
    loaded = Certificate.load(saved(made.cert, tmp_path), made.model)
    assert (loaded.predictor(made.data.X, seed=3) == made.cert.predictor(made.data.X, seed=3)).all()
