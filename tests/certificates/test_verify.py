"""Every edit to a certificate is caught: with the hashes left alone, and with all of them recomputed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from certificates.forging import saved, sealed, settings_of
from safetensors.torch import load_file, save_file

import truerisk
from truerisk import NotRepeatedError, VerificationError
from truerisk.certificates.evidence import Evidence
from truerisk.certificates.files import sha256
from truerisk.data import load


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, Path]:
    """One certificate of each kind, on digits."""
    folder = tmp_path_factory.mktemp("certificates")
    digits = load("digits")
    kinds = {
        "split": truerisk.certify("mlp:32", "digits", method="pac-bayes-kl", epochs=10),
        "init": truerisk.certify("mlp:16", "digits", method="pac-bayes-kl", prior="init", epochs=5),
        "zero": truerisk.certify("mlp:16", "digits", method="pac-bayes-kl", prior="zero", epochs=2),
        "hold-out": truerisk.certify("mlp:32", "digits", method="hold-out", epochs=10),
    }
    trained = kinds["hold-out"].evidence.network
    rows = kinds["hold-out"].evidence.parts
    kinds["fresh"] = truerisk.certify(trained, fresh="digits", trained_on=rows.prior)
    for name, cert in kinds.items():
        assert cert.record["data"]["sha256"] == digits.sha256
        cert.save(folder / name)
    return {name: folder / name for name in kinds}


KINDS = ["split", "init", "zero", "hold-out", "fresh"]


def model_of(kind: str):
    """The fresh certificate is about a module of the user's, so that verify needs it again."""
    from truerisk.nets import mlp

    return mlp((1, 8, 8), 10, hidden=(32,)) if kind == "fresh" else None


@pytest.mark.parametrize("kind", KINDS)
def test_untouched_certificate_holds(made, kind):
    record = json.loads((made[kind] / "certificate.json").read_text())
    result = truerisk.verify(made[kind], model=model_of(kind))
    assert result.claimed == record["risk_bound"]
    drawn = "draws" in record["counts"]
    assert result.risk_bound == record["risk_bound"] or (drawn and abs(result.risk_bound - result.claimed) < 0.02)
    assert not result.noticed
    assert result.checked
    assert any("--retrain" in line for line in result.unchecked) == (kind != "fresh")
    assert any("you vouch" in line for line in result.unchecked) == (kind == "fresh")


def lower_bound(folder):
    edit_json(folder, lambda r: r.update(risk_bound=r["risk_bound"] * 0.99))


def change_delta(folder):
    edit_json(folder, lambda r: (r.update(delta=0.01), r["settings"].update(delta=0.01)))


def change_delta_alone(folder):
    edit_json(folder, lambda r: r.update(delta=0.01))


def drop_ledger_entry(folder):
    edit_json(folder, lambda r: r["ledger"].pop())


def raise_n(folder):
    edit_json(folder, lambda r: r.update(n_certify=r["n_certify"] + 1))


def fewer_errors(folder):
    def change(record):
        record["counts"]["floor"] -= 1

    edit_json(folder, change)


def lower_floor(folder):
    edit_json(folder, lambda r: r.update(floor=r["floor"] / 2))


def drop_assumption(folder):
    edit_json(folder, lambda r: r["assumptions"].pop(0))


def claim_one_try(folder):
    def change(record):
        record["settings"]["tried"] += 1

    edit_json(folder, change)


def change_seed(folder):
    edit_json(folder, lambda r: (r.update(seed=5), r["settings"].update(seed=5)))


def change_weight(folder):
    name = "posterior.safetensors" if (folder / "posterior.safetensors").exists() else "network.safetensors"
    edit_tensors(folder, name, lambda t: first_weight(t).view(-1)[3].add_(0.5))


def change_prior_weight(folder):
    name = "prior.safetensors" if (folder / "prior.safetensors").exists() else "network.safetensors"
    edit_tensors(folder, name, lambda t: first_weight(t).view(-1)[-1].add_(0.5))


def change_split_index(folder):
    edit_tensors(folder, "split.safetensors", lambda t: t["certify"].__setitem__(0, (t["certify"][0] + 1) % 1797))


def swap_split_indices(folder):
    """Still a partition, but not the seed's: the sneakier edit."""

    def change(tensors):
        a, b = tensors["prior"], tensors["certify"]
        if not len(a):
            a = b[1:]
        keep = a[0].clone()
        a[0] = b[0]
        b[0] = keep

    edit_tensors(folder, "split.safetensors", change)


def lower_kl(folder):
    edit_json(folder, lambda r: r.update(kl=(r["kl"] or 1.0) / 2))


def raise_unrescaled_kl(folder):
    edit_json(folder, lambda r: r.update(kl_unrescaled=2 * (r["kl_unrescaled"] or 1.0)))


def claim_more_from_rescaling(folder):
    def change(record):
        record["rescaling"] = {**(record["rescaling"] or {}), "both": 0.0}

    edit_json(folder, change)


def change_log_scales(folder):
    """Where there are none, add some: a hold-out has nothing to rescale."""
    if not (folder / "log_scales.safetensors").exists():
        save_file({"best": torch.zeros(1)}, folder / "log_scales.safetensors")
        return edit_json(folder, lambda r: r["files"].update({"log_scales.safetensors": "0" * 64}))
    return edit_tensors(folder, "log_scales.safetensors", lambda tensors: tensors["best"].add_(0.1))


def shorten_log_scales(folder):
    if not (folder / "log_scales.safetensors").exists():
        return change_log_scales(folder)
    return edit_tensors(folder, "log_scales.safetensors", lambda tensors: tensors.update(best=tensors["best"][1:]))


def drop_log_scales(folder):
    """Without them the KL is the original one, so the claimed one does not follow."""

    def change(record):
        record["files"].pop("log_scales.safetensors", None)
        record["kl"] = (record["kl"] or 1.0) / 2

    edit_json(folder, change)


EDITS = [
    lower_bound,
    lower_kl,
    raise_unrescaled_kl,
    claim_more_from_rescaling,
    change_log_scales,
    shorten_log_scales,
    drop_log_scales,
    change_delta,
    change_delta_alone,
    drop_ledger_entry,
    raise_n,
    fewer_errors,
    lower_floor,
    drop_assumption,
    claim_one_try,
    change_weight,
    change_prior_weight,
    change_split_index,
    swap_split_indices,
    change_seed,
]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("kind", KINDS)
def test_edit_is_caught(made, tmp_path, kind, edit):
    """With all hashes recomputed; the next test leaves them alone."""
    if kind == "fresh" and edit is change_seed:
        pytest.skip("nothing of a fresh certificate depends on the seed but the field itself")
    if kind == "fresh" and edit is swap_split_indices:
        pytest.skip("which rows a network was trained on is the user's word, and verify says that it is")
    folder = tmp_path / "copy"
    shutil.copytree(made[kind], folder)
    edit(folder)
    recompute_hashes(folder)
    with pytest.raises(VerificationError):
        truerisk.verify(folder, model=model_of(kind))


@pytest.mark.parametrize("edit", [change_weight, change_prior_weight, change_split_index])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_with_another_hash_is_caught(made, tmp_path, kind, edit):
    folder = tmp_path / "copy"
    shutil.copytree(made[kind], folder)
    edit(folder)
    with pytest.raises(VerificationError, match="sha256 differs"):
        truerisk.verify(folder, model=model_of(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_another_data_set_is_caught(made, tmp_path, kind):
    digits = load("digits")
    flipped = digits.y.copy()
    flipped[0] = (flipped[0] + 1) % 10
    with pytest.raises(VerificationError, match="sha256"):
        truerisk.verify(made[kind], data=(digits.X, flipped), model=model_of(kind))
    # The attacker also writes the other data's hash into the certificate.
    shuffled = (digits.X, np.roll(digits.y, 1))
    folder = tmp_path / "copy"
    shutil.copytree(made[kind], folder)
    edit_json(folder, lambda r: r["data"].update(sha256=load(shuffled).sha256))
    with pytest.raises(VerificationError):
        truerisk.verify(folder, data=shuffled, model=model_of(kind))
    edit_json(folder, lambda r: r["data"].update(name="mnist1d", source="mnist1d", sha256=load("mnist1d").sha256))
    with pytest.raises(VerificationError):
        truerisk.verify(folder, model=model_of(kind))


@pytest.mark.parametrize("kind", ["split", "hold-out"])
def test_retraining_confirms_the_prior_and_finds_a_forged_one(made, tmp_path, kind):
    result = truerisk.verify(made[kind], retrain=True)
    assert not any("--retrain" in line for line in result.unchecked)
    assert any("trained before certification" in line for line in result.checked)
    # A prior moved onto the posterior, all arithmetic done again: only training again can tell.
    cert = truerisk.Certificate.load(made[kind])
    evidence = cert.evidence
    if kind == "split":
        posterior = evidence.posterior
        evidence = Evidence(
            evidence.parts, {"network": posterior.network()}, {"prior": posterior, "posterior": posterior}
        )
    else:
        with torch.no_grad():
            first_weight(dict(evidence.network.named_parameters())).add_(0.01)
    forged = saved(sealed(settings_of(cert), load("digits"), evidence), tmp_path / "forged")
    told = truerisk.verify(forged).unchecked
    assert any("--retrain" in line for line in told), "without training it can't be seen, and it says so"
    with pytest.raises(NotRepeatedError, match="could not be reproduced") as caught:
        truerisk.verify(forged, retrain=True)
    assert 0 < caught.value.risk_bound <= 1


def test_retraining_confirms_a_data_free_certificate_and_its_floor(made, tmp_path):
    result = truerisk.verify(made["init"], retrain=True)
    assert not any("--retrain" in line for line in result.unchecked)
    assert not result.noticed


def test_fresh_certificate_of_a_module_that_cannot_be_reset(tmp_path):
    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(64, 10))

        def forward(self, x):
            return x.flatten(1) @ self.w

    net = Own()
    cert = truerisk.certify(net, fresh="digits")
    cert.save(tmp_path)
    assert truerisk.verify(tmp_path, model=net).risk_bound == cert.risk_bound
    with pytest.raises(truerisk.TrueriskError, match="factory"):
        truerisk.certify(net, "digits", prior="init")


def test_the_same_data_under_another_name_pays_the_same(made):
    digits = load("digits")
    cert = truerisk.certify("mlp:16", (digits.X, digits.y), epochs=1)
    assert cert.record["settings"]["tried"] == 66
    assert truerisk.certify("mlp:16", "mnist1d", epochs=1).record["settings"]["tried"] == 1


# What enters no bound, so that nothing contradicts an edit: versions, how long the posterior was trained, and for
# hold-out certificates the settings of PAC-Bayes.
FREE = (
    "version",
    "software",
    "settings/plans",
    "settings/objective",
    "settings/prior_std",
    "settings/threads",
    "settings/trust_factory",
)


def leaves(value, path=()):
    """The path of every value inside nested JSON, containers included."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from leaves(inner, (*path, key))


@pytest.mark.parametrize("kind", ["hold-out", "fresh"])
@pytest.mark.parametrize("junk", [None, "x", -1, [], {}, 1e300, True])
def test_no_field_can_be_replaced(made, tmp_path, kind, junk):
    """Every single value of certificate.json, replaced by something else: one clear error, never a crash."""
    folder = tmp_path / "copy"
    shutil.copytree(made[kind], folder)
    original = (folder / "certificate.json").read_text()
    survivors = []
    for path in leaves(json.loads(original)):
        record = json.loads(original)
        place = record
        for key in path[:-1]:
            place = place[key]
        if place[path[-1]] == junk and type(place[path[-1]]) is type(junk):
            continue
        place[path[-1]] = junk
        (folder / "certificate.json").write_text(json.dumps(record))
        try:
            truerisk.verify(folder, model=model_of(kind))
            survivors.append("/".join(map(str, path)))
        except truerisk.TrueriskError:
            pass
    assert [path for path in survivors if not path.startswith(FREE)] == []


def test_code_that_only_the_certificate_names_is_never_run(made, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(made["split"], folder)
    trap = tmp_path / "trap.py"
    trap.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\ndef build(): return None\n")
    for kind in ("built-in", "factory"):
        name = f"{trap}:build"
        edit_json(
            folder,
            lambda r, k=kind, n=name: (
                r["model"].update(name=n, kind=k),
                r["settings"].update(model=n, model_kind=k),
            ),
        )
        with pytest.raises(truerisk.TrueriskError):
            truerisk.verify(folder)
    assert not (tmp_path / "ran").exists()


def test_file_names_cannot_leave_the_folder(made, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(made["split"], folder)
    edit_json(folder, lambda r: r["files"].update({"../outside.safetensors": "0" * 64}))
    with pytest.raises(VerificationError):
        truerisk.verify(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 3}', '{"format": 2}', "\xff"])
def test_broken_json_is_told(tmp_path, text):
    (tmp_path / "certificate.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(VerificationError):
        truerisk.verify(tmp_path)


@pytest.mark.parametrize("field", ["draws", "floor_detail", "ledger", "settings", "assumptions", "kl"])
def test_missing_field_is_told(made, tmp_path, field):
    folder = tmp_path / "copy"
    shutil.copytree(made["split"], folder)
    edit_json(folder, lambda r: r.pop(field))
    with pytest.raises(VerificationError):
        truerisk.verify(folder)


def first_weight(tensors):
    """The first matrix of a file: means come before standard deviations."""
    names = sorted(tensors, key=lambda n: (n.startswith("std."), n))
    return next(tensors[n] for n in names if tensors[n].ndim >= 2)


def edit_json(folder, change):
    path = folder / "certificate.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def edit_tensors(folder, name, change):
    tensors = load_file(folder / name)
    change(tensors)
    save_file(tensors, folder / name)


def recompute_hashes(folder):
    def change(record):
        for name in record["files"]:
            record["files"][name] = sha256((folder / name).read_bytes())

    edit_json(folder, change)
