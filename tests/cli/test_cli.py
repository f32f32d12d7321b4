"""The command line as a person or a script uses it: exit codes, what is printed where, what is left behind."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from truerisk.certificates import request as requests
from truerisk.certificates.methods import METHODS
from truerisk.cli import commands
from truerisk.data import load
from truerisk.nets import mlp
from truerisk.pacbayes import monte_carlo
from truerisk.training import checkpoint, loop

QUICK = ["--model", "mlp:16", "--epochs", "2", "--quiet"]


@pytest.fixture
def trained(tmp_path) -> Path:
    """Weights of a 64-16-10 network in a file."""
    torch.manual_seed(0)
    save_file(mlp((1, 8, 8), 10, (16,)).state_dict(), tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


def test_help_does_not_wait_for_torch():
    code = "import sys, truerisk.cli.app; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "command", [[], ["certify"], ["verify"], ["predict"], ["symmetry"], ["rescale"], ["data"], ["data", "list"]]
)
def test_every_command_has_help(run, command):
    code, out, _ = run(*command, "--help")
    assert code == 0
    assert "Usage" in out


def test_certify_verify_predict(run):
    code, out, err = run("certify", *QUICK, "--method", "pac-bayes-kl")
    assert (code, err) == (0, "")
    assert "confidence" in out
    assert "hold-out baseline" in out
    assert "Weights are resampled for each prediction." in out
    assert "report.html" in out
    names = {path.name for path in Path("truerisk-out").iterdir()}
    weights = {"network", "posterior", "prior", "split", "log_scales"}
    assert names == {"certificate.json", "report.html"} | {f"{w}.safetensors" for w in weights}

    code, out, _ = run("verify", "truerisk-out")
    assert code == 0
    assert "Confirmed: with 95% confidence, the true risk is at most" in out
    assert "--retrain" in out
    code, out, _ = run("verify", "truerisk-out", "--retrain", "--json")
    result = json.loads(out)
    assert (code, result["holds"]) == (0, True)
    assert not any("--retrain" in line for line in result["unchecked"])
    assert result["claimed"] == json.loads(Path("truerisk-out/certificate.json").read_text())["risk_bound"]
    assert result["verdict"] == "confirmed"
    assert json.loads(run("verify", "truerisk-out", "--seed", 4, "--json")[1]) == json.loads(
        run("verify", "truerisk-out", "--seed", 4, "--json", "--quiet")[1]
    ), "a seed makes its draws repeatable"

    code, out, err = run("predict", "truerisk-out", "--data", "digits")
    labels = [int(line) for line in out.split()]
    assert (code, len(labels)) == (0, 1797)
    assert "observed error" in err
    assert run("predict", "truerisk-out", "--data", "digits")[1] == out, "the same seed, the same draws"
    assert run("predict", "truerisk-out", "--data", "digits", "--seed", 1)[1] != out
    np.save("new.npy", np.zeros((3, 1, 8, 8), dtype=np.float32))
    code, out, _ = run("predict", "truerisk-out", "--data", "new.npy", "--json")
    assert (code, len(json.loads(out)["predictions"])) == (0, 3)
    code, out, err = run("predict", "truerisk-out", "--data", "new.npy", "--out", "labels.txt")
    assert (code, out) == (0, "")
    assert len(Path("labels.txt").read_text().split()) == 3


def test_json_is_one_object_with_the_promised_fields(run):
    code, out, _ = run("certify", *QUICK, "--json", "--prior", "init")
    record = json.loads(out)
    assert code == 0
    assert record == json.loads(Path("truerisk-out/certificate.json").read_text())
    promised = """risk_bound delta predictor method n_certify empirical_risk empirical_risk_upper kl kl_unrescaled
        floor ledger assumptions files data seed version"""
    assert set(promised.split()) <= record.keys()
    assert record["predictor"] == "stochastic"
    assert {"name", "sha256", "counts"} <= record["data"].keys()
    assert record["n_certify"] == 1797
    text = Path("truerisk-out/certificate.json").read_text()
    decimals = json.loads(text, parse_float=__import__("decimal").Decimal)
    assert sum(entry["delta"] for entry in decimals["ledger"]) <= decimals["delta"]


@pytest.mark.parametrize("prior", ["init", "split:0.3"])
def test_same_seed_same_certificate_to_the_last_byte(run, prior):
    asked = ("certify", *QUICK, "--method", "pac-bayes-kl", "--prior", prior, "--out")
    for out in ("a", "b"):
        assert run(*asked, out)[0] == 0
    assert run(*asked, "c", "--seed", 1)[0] == 0
    for out in ("a", "b"):  # the page names its folder
        page = Path(out, "report.html")
        page.write_text(page.read_text().replace(f"truerisk verify {out}", "").replace(f"truerisk predict {out}", ""))
    for name in ("certificate.json", "posterior.safetensors", "report.html"):
        assert Path("a", name).read_bytes() == Path("b", name).read_bytes()
        assert Path("a", name).read_bytes() != Path("c", name).read_bytes()


def test_edit_ends_in_exit_code_1(run):
    run("certify", *QUICK)
    path = Path("truerisk-out/certificate.json")
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "risk_bound": 0.001}))
    code, out, err = run("verify", "truerisk-out")
    assert (code, out) == (1, "")
    assert "risk_bound" in err
    code, out, _ = run("verify", "truerisk-out", "--json")
    assert (code, json.loads(out)["holds"]) == (1, False)


def test_a_killed_run_goes_on_and_ends_the_same(run, monkeypatch):
    """Stop in the posterior's second epoch; the second call must not train the prior again."""
    monkeypatch.setattr(checkpoint, "SAVE_EVERY", 0.0)
    quick = ["certify", "--method", "pac-bayes-kl", "--model", "mlp:16", "--epochs", "3", "--quiet", "--out"]
    assert run(*quick, "whole")[0] == 0
    shuffles, randperm = [], torch.randperm

    def counting(n, stop_at=None):
        shuffles.append(n)
        if stop_at and len(shuffles) == stop_at:
            raise KeyboardInterrupt
        return randperm(n)

    monkeypatch.setattr(loop.torch, "randperm", lambda n: counting(n, stop_at=5))
    code, _, err = run(*quick, "killed")
    assert code == 130
    assert "run the same command again to resume" in err
    assert not Path("killed/certificate.json").exists()
    shuffles.clear()
    monkeypatch.setattr(loop.torch, "randperm", counting)
    assert run(*quick, "killed")[0] == 0
    assert len(shuffles) == 2, "one epoch of the posterior was done, two were left"
    assert Path("whole/certificate.json").read_bytes() == Path("killed/certificate.json").read_bytes()
    assert not Path("killed/.work").exists()


class TestFresh:
    """A trained network and labelled data it never saw."""

    def test_exact_bound(self, run, trained):
        code, out, _ = run("certify", "--model", "mlp:16", "--weights", trained, "--fresh", "digits", "--json")
        record = json.loads(out)
        errors, n = record["floor_detail"]["errors"], record["n_certify"]
        assert (code, n, record["predictor"], record["method"]) == (0, 1797, "deterministic", "hold-out")
        from scipy.stats import beta

        assert record["risk_bound"] == pytest.approx(beta.ppf(0.95, errors + 1, n - errors), rel=1e-7)
        assert run("verify", "truerisk-out")[0] == 0
        assert any("vouch" in line for line in record["assumptions"])

    @pytest.mark.parametrize("suffix", [".npy", ".txt", ".json"])
    def test_rows_it_was_trained_on_are_left_out(self, run, trained, suffix):
        rows = [3, 1, 1700]
        path = Path("rows" + suffix)
        if suffix == ".npy":
            np.save(path, np.asarray(rows))
        else:
            path.write_text(json.dumps(rows) if suffix == ".json" else "3\n1\n1700\n")
        arguments = ["--model", "mlp:16", "--weights", trained, "--fresh", "digits", "--trained-on", path, "--json"]
        record = json.loads(run("certify", *arguments)[1])
        assert (record["n_certify"], record["n_prior"]) == (1794, 3)
        assert run("verify", "truerisk-out")[0] == 0

    def test_overlap_with_training_data_is_refused(self, run, trained):
        from truerisk.data import load

        digits = load("digits")
        np.savez("train.npz", X=digits.X[:900], y=digits.y[:900])
        np.savez("test.npz", X=digits.X[899:], y=digits.y[899:])
        arguments = ["--model", "mlp:16", "--weights", trained, "--fresh", "test.npz", "--trained-on", "train.npz"]
        code, _, err = run("certify", *arguments)
        assert code == 2
        assert "1 of 898 fresh examples" in err
        assert "--repeats-are-draws" in err
        assert "remove" not in err
        code, out, _ = run("certify", *arguments, "--repeats-are-draws", "--json")
        arguments += ["--force"]
        assert code == 0
        assert any("You vouch that rows equal to another one (1)" in line for line in json.loads(out)["assumptions"])
        Path("test.txt").write_text("\n".join(f"image {row}" for row in range(899, 1797)))
        Path("train.json").write_text(json.dumps([f"image {row}" for row in range(900)]))
        code, _, err = run("certify", *arguments, "--ids", "test.txt", "--trained-on-ids", "train.json")
        assert code == 2
        assert "row 0 of the fresh examples and row 899 of the data" in err
        Path("train.json").write_text(json.dumps([f"other {row}" for row in range(900)]))
        assert run("certify", *arguments, "--ids", "test.txt", "--trained-on-ids", "train.json")[0] == 0
        np.savez("test.npz", X=digits.X[900:], y=digits.y[900:])
        assert run("certify", *arguments)[0] == 0

    @pytest.mark.parametrize(
        ("rows", "told"), [("[1, 5000]", "not between 0 and 1796"), ("[0.5]", "integers"), ("{", "integers")]
    )
    def test_bad_rows_are_told(self, run, trained, rows, told):
        Path("rows.json").write_text(rows)
        arguments = ["--model", "mlp:16", "--weights", trained, "--fresh", "digits", "--trained-on", "rows.json"]
        code, _, err = run("certify", *arguments)
        assert code == 2
        assert told in err


NET = """
import torch
from torch import nn

class Random(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        return nn.functional.dropout(self.fc(x.flatten(1)), 0.5, training=True)

def random(): return Random()
def narrow(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 7))
def wide_input(): return nn.Sequential(nn.Flatten(), nn.Linear(65, 10))
trained = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
def good(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
def needs(argument): return good()
def number(): return 3
"""


class Payload:
    """Creates a folder if it is ever unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return (os.mkdir, (str(self.mark),))


class TestBadInput:
    """One sentence on standard error, exit code 2, nothing left behind, nothing executed."""

    def expect(self, run, told: str, *arguments: object) -> None:
        code, out, err = run("certify", *arguments, "--quiet")
        assert code == 2, err
        assert out == ""
        assert told.lower() in err.lower()
        assert len(err.strip().splitlines()) == 1, err
        assert "Traceback" not in err
        assert not Path("truerisk-out/certificate.json").exists()
        assert not list(Path().glob("truerisk-out/*.safetensors"))

    def test_pickles_run_nothing(self, run, tmp_path):
        mark = tmp_path / "ran"
        Path("w.pt").write_bytes(pickle.dumps(Payload(mark)))
        torch.save({"a": Payload(mark)}, "zip.pt")
        np.savez("x.npz", X=np.array([Payload(mark)] * 20, dtype=object), y=np.arange(20) % 2)
        Path("raw.npz").write_bytes(pickle.dumps(Payload(mark)))
        np.save("rows.npy", np.array([Payload(mark)], dtype=object))
        for weights in ("w.pt", "zip.pt"):
            self.expect(run, "runs code", "--model", "mlp:16", "--weights", weights, "--fresh", "digits")
        self.expect(run, "x.npz", "--data", "x.npz")
        self.expect(run, "raw.npz", "--data", "raw.npz")
        Path("ok.py").write_text(NET)
        self.expect(run, "rows.npy", "--model", "ok.py:trained", "--fresh", "digits", "--trained-on", "rows.npy")
        assert not mark.exists()
        pickle.loads(Path("w.pt").read_bytes())
        assert mark.exists(), "the payload is real: unpickled on purpose, it does run"

    def test_missing_files(self, run):
        self.expect(run, "no.npz", "--data", "no.npz")
        self.expect(run, "no.safetensors", "--weights", "no.safetensors", "--fresh", "digits", "--model", "mlp")
        self.expect(run, "no.py", "--model", "no.py:build")
        self.expect(run, "no_such_module", "--model", "no_such_module:build")
        self.expect(run, "digits", "--data", "digitz")

    def test_bad_data(self, run):
        X, y = np.zeros((40, 3), dtype=np.float32), np.arange(40) % 2
        X[:, 0] = np.arange(40)
        cases = {
            "NaN": (np.where(X == 7, np.nan, X), y),
            "negative": (X, y - 1),
            "all 40 labels": (X, 0 * y),
            "too few": (X[:9], y[:9]),
            "labels": (X, y[:-1]),
        }
        for told, (inputs, labels) in cases.items():
            np.savez("d.npz", X=inputs, y=labels)
            self.expect(run, told, "--data", "d.npz")
        np.savez("d.npz", X=X, y=y, classes=np.int64(2))
        np.savez("out.npz", X=X, y=y * 5, classes=np.int64(3))
        self.expect(run, "does not fit", "--data", "out.npz")

    def test_bad_models(self, run, tmp_path):
        Path("net.py").write_text(NET)
        self.expect(run, "random in eval mode", "--model", "net.py:random")
        self.expect(run, "7 columns", "--model", "net.py:narrow")
        self.expect(run, "does not run on inputs", "--model", "net.py:wide_input")
        self.expect(run, "could not be called", "--model", "net.py:needs")
        self.expect(run, "not a torch module", "--model", "net.py:number")
        self.expect(run, "nothing called", "--model", "net.py:absent")
        self.expect(run, "no built-in", "--model", "transformer")
        self.expect(run, "widths", "--model", "mlp:a-b")
        Path("broken.py").write_text("import nothing_of_this_name")
        self.expect(run, "could not be imported", "--model", "broken.py:build")

    def test_bad_weights(self, run, trained):
        from safetensors.torch import load_file

        tensors = load_file(trained)
        tensors["1.weight"][0, 0] = float("nan")
        save_file(tensors, "nan.safetensors")
        self.expect(run, "not finite", "--model", "mlp:16", "--weights", "nan.safetensors", "--fresh", "digits")
        self.expect(run, "do not fit", "--model", "mlp:17", "--weights", trained, "--fresh", "digits")
        Path("junk.safetensors").write_bytes(b"junk")
        self.expect(run, "junk", "--model", "mlp:16", "--weights", "junk.safetensors", "--fresh", "digits")
        self.expect(run, "--fresh", "--model", "mlp:16", "--weights", trained, "--trained-on", "digits")
        self.expect(run, "--weights", "--model", "mlp:16", "--unlabelled", "digits")
        self.expect(run, "--weights", "--model", "mlp:16", "--fresh", "digits")

    @pytest.mark.parametrize(
        ("told", "arguments"),
        [
            ("delta", ["--delta", "0"]),
            ("delta", ["--delta", "1.5"]),
            ("prior", ["--prior", "half"]),
            ("prior", ["--prior", "split:2"]),
            ("tried", ["--tried", "0"]),
            ("epochs", ["--epochs", "-1"]),
            ("epochs", ["--epochs", "0"]),
            ("seed", ["--seed", "-1"]),
            ("method", ["--method", "magic"]),
            ("hold-out", ["--method", "hold-out", "--prior", "init"]),
            ("objective", ["--objective", "magic"]),
            ("prior_std", ["--prior-std", "-1"]),
            ("single-draw", ["--for", "oracle"]),
            ("--for", ["--method", "hold-out", "--for", "stochastic"]),
            ("--weights", ["--method", "disagreement"]),
            ("option blocks", ["--blocks", "3"]),
            ("option batch", ["--batch", "3"]),
            ("expect", ["--method", "progressive", "--expect", "1"]),
            ("batch", ["--method", "pick-to-learn", "--batch", "0"]),
            ("rounds", ["--method", "pick-to-learn", "--rounds", "0"]),
            ("steps", ["--method", "recursive", "--steps", "1"]),
            ("gamma", ["--method", "recursive", "--gamma", "1"]),
            ("price", ["--method", "description-length", "--price", "-1"]),
            ("option price", ["--price", "3"]),
            ("random", ["--random", "first"]),
            ("scales", ["--scales", "log", "--prior", "init"]),
            ("--method pac-bayes-kl or", ["--scales", "grid"]),
            ("data-free", ["--scales", "grid", "--method", "pac-bayes-kl"]),
            ("grid:2", ["--scales", "grid:3", "--prior", "init"]),
            ("device", ["--device", "toaster"]),
        ],
    )
    def test_bad_options(self, run, told, arguments):
        self.expect(run, told, "--model", "mlp:16", *arguments)

    def test_verify_and_predict(self, run):
        assert run("verify", "nowhere")[0] == 2
        assert run("predict", "nowhere", "--data", "digits")[0] == 2
        run("certify", *QUICK)
        np.save("bad.npy", np.zeros((3, 5), dtype=np.float32))
        code, out, err = run("predict", "truerisk-out", "--data", "bad.npy")
        assert (code, out) == (2, "")
        assert "shape" in err


@pytest.fixture
def few(monkeypatch):
    """Three quick methods in place of all, and few draws."""
    chosen = ("pac-bayes-kl", "progressive", "hold-out")
    monkeypatch.setattr(requests, "METHODS", {name: METHODS[name] for name in chosen})
    monkeypatch.setattr(monte_carlo, "TRIALS", 10_000)


def test_all_methods_in_one_table(run, few):
    code, out, _ = run("certify", *QUICK, "--method", "all", "--blocks", 2)
    assert code == 0
    assert "All methods" in out
    table = out[out.index("All methods") : out.index("how the union bound splits delta")]
    assert all(name in table for name in ("pac-bayes-kl", "progressive", "hold-out"))
    others = sorted(Path("truerisk-out/others").iterdir())
    assert len(others) == 2
    for folder in (Path("truerisk-out"), *others):
        assert run("verify", folder)[0] == 0
    page = Path("truerisk-out/report.html").read_text()
    assert "All methods" in page
    assert all(folder.name in page for folder in others)

    code, out, _ = run("certify", *QUICK, "--method", "all", "--blocks", 2, "--json", "--force")
    assert [row["method"] for row in json.loads(out)["methods"]][1:] == sorted(
        (folder.name for folder in others), key=lambda name: bound_in(Path("truerisk-out/others") / name)
    )
    assert None in [row["kl"] for row in json.loads(out)["methods"]], "null, not NaN"
    assert run("certify", *QUICK, "--for", "deterministic", "--json", "--force")[0] == 0
    assert not Path("truerisk-out/others").exists(), "those of the last call are gone"


def bound_in(folder: Path) -> float:
    return json.loads((folder / "certificate.json").read_text())["risk_bound"]


def test_blocks_of_progressive_are_shown(run):
    code, out, _ = run("certify", *QUICK, "--method", "progressive", "--blocks", 3)
    assert code == 0
    assert " ".join(out.split()).count("next block") >= 3
    assert "Test blocks" in Path("truerisk-out/report.html").read_text()


def test_every_option_of_every_method_is_on_the_command_line(run, monkeypatch):
    """By its own name, and with a value of its own type."""
    given = []
    monkeypatch.setattr(commands, "certify", lambda asked, *_: given.append(asked["options"]))
    every = {name: value for method in METHODS.values() for name, value in method().options().items()}
    for name, value in every.items():
        code, _, err = run("certify", "--" + name.replace("_", "-"), value)
        assert code == 0, err
        assert given.pop() == {name: value}
        code, _, err = run("certify", "--" + name.replace("_", "-"), "word")
        if code == 0:
            assert given.pop() == {name: "word"}
        assert (code == 0) == isinstance(value, str), name
    assert {"blocks", "expect", "batch", "rounds", "steps", "gamma", "surrogate", "scales", "random"} <= set(every)


def test_options_reach_their_method(run):
    code, out, _ = run("certify", *QUICK, "--method", "pick-to-learn", "--batch", 3, "--rounds", 2, "--json")
    record = json.loads(out)
    assert (code, record["compression"]["picked"], record["compression"]["rounds"]) == (0, 6, 2)
    code, out, _ = run(
        "certify", *QUICK, "--method", "progressive", "--expect", 0.125, "--blocks", 2, "--json", "--force"
    )
    record = json.loads(out)
    assert (code, record["progressive"]["expected_risk"], "probe" in record["counts"]) == (0, 0.125, False)
    assert run("verify", "truerisk-out")[0] == 0


def test_trained_weights_and_unlabelled_inputs(run, trained, few):
    digits = load("digits")
    np.savez("train.npz", X=digits.X[:400], y=digits.y[:400])
    np.save("new.npy", digits.X[400:700])
    own = ["--weights", trained, "--data", "train.npz", *QUICK, "--method", "disagreement"]
    code, out, _ = run("certify", *own, "--unlabeled", "new.npy")
    assert code == 0
    assert "surrogate" in out
    assert "unlabeled inputs" in out
    assert run("verify", "truerisk-out", "--data", "train.npz")[0] == 0
    assert run("verify", "truerisk-out", "--data", "new.npy")[0] == 2
    np.save("seen.npy", digits.X[399:700])
    own.append("--force")
    code, out, err = run("certify", *own, "--unlabelled", "seen.npy")  # the former spelling
    assert (code, out) == (2, "")
    assert "1 of 301 unlabeled inputs (the first: row 0)" in err
    code, _, err = run("certify", *own)
    assert code == 2
    assert "--unlabeled" in err


def test_help_lists_every_method(run):
    out = " ".join(run("certify", "--help")[1].split())
    for name, method in METHODS.items():
        assert f" {name} {method.summary.split()[0]}" in out


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_told(run):
    code, out, err = run("certify", *QUICK, "--device", "cuda")
    assert (code, out) == (2, "")
    assert "no GPU" in err
    assert run("certify", *QUICK, "--method", "hold-out", "--device", "auto")[0] == 0


def test_own_network_from_a_file(run):
    Path("net.py").write_text(NET)
    assert run("certify", "--model", "net.py:good", "--epochs", 2, "--quiet")[0] == 0
    code, _, err = run("verify", "truerisk-out")
    assert code == 2
    assert "--model" in err
    assert run("verify", "truerisk-out", "--model", "net.py:good")[0] == 0
    assert run("verify", "truerisk-out", "--model", "net.py:narrow")[0] == 1


def test_data_list_and_get(run, monkeypatch, tmp_path):
    monkeypatch.setenv("TRUERISK_DATA", str(tmp_path / "here"))
    code, out, _ = run("data", "list", "--json")
    listing = json.loads(out)
    assert code == 0
    assert str(tmp_path / "here") in listing["folders"]
    assert {"digits", "mnist", "cifar-10"} <= {row["name"] for row in listing["data"]}
    assert run("data", "list")[0] == 0
    code, out, _ = run("data", "get", "digits")
    assert (code, bool(out)) == (0, True)
    assert run("data", "get", "nothing-like-it")[0] == 2


class TestOneCertificatePerFolder:
    """A second one is refused at once, or replaces the first."""

    def test_it_is_refused_before_any_work(self, run, monkeypatch):
        assert run("certify", *QUICK)[0] == 0
        before = {path: path.read_bytes() for path in Path("truerisk-out").iterdir()}
        monkeypatch.setattr("truerisk.certificates.pipeline.run", None)
        code, out, err = run("certify", *QUICK, "--seed", 1)
        assert (code, out) == (2, "")
        assert err == (
            "error: truerisk-out already holds a certificate; give another --out, or replace it with --force.\n"
        )
        assert {path: path.read_bytes() for path in Path("truerisk-out").iterdir()} == before

    def test_force_replaces_all_of_it(self, run):
        assert run("certify", *QUICK, "--method", "pac-bayes-kl")[0] == 0
        Path("truerisk-out/mine.txt").write_text("mine")
        assert run("certify", *QUICK, "--force")[0] == 0
        files = {"network.safetensors", "split.safetensors"}
        assert {path.name for path in Path("truerisk-out").iterdir()} == {
            *("certificate.json", "report.html", "mine.txt"),
            *files,
        }
        assert run("verify", "truerisk-out")[0] == 0
        assert run("certify", *QUICK, "--out", "new", "--force")[0] == 0, "there need not be one"

    def test_force_keeps_the_old_one_until_the_new_one_is_there(self, run, monkeypatch):
        assert run("certify", *QUICK)[0] == 0
        assert run("certify", *QUICK, "--force", "--data", "no.npz")[0] == 2

        def stop(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("truerisk.certificates.pipeline.make", stop)
        assert run("certify", *QUICK, "--force")[0] == 130
        assert run("verify", "truerisk-out")[0] == 0

    def test_measure_and_certify_keep_out_of_each_others_way(self, run):
        """Both write a page and a network under one name."""
        assert run("certify", *QUICK)[0] == 0
        code, out, err = run("measure", "--out", "truerisk-out", "--only", "parameters", "--quiet")
        assert (code, out) == (2, "")
        assert err == "error: truerisk-out already holds a certificate; give another --out.\n"
        assert run("verify", "truerisk-out")[0] == 0
        Path("measured").mkdir()
        Path("measured/measures.json").write_text("{}")
        code, _, err = run("certify", *QUICK, "--out", "measured", "--force")
        assert code == 2
        assert "measured holds the files of truerisk measure; give another folder." in err


def test_more_errors_than_were_certified_get_a_word(run, tmp_path):
    """Pixels from 0 to 16 where the certified ones lay between 0 and 1 are mostly misclassified."""
    digits = load("digits")
    small = digits.take(range(300))
    run("certify", "--epochs", "5", "--model", "mlp:32", "--out", "o", "--quiet")
    np.savez("same.npz", X=small.X, y=small.y)
    np.savez("other.npz", X=1 - small.X, y=small.y)
    _, _, err = run("predict", "o", "--data", "same.npz")
    assert "chance does not explain" not in err
    _, _, err = run("predict", "o", "--data", "other.npz")
    assert "chance does not explain the difference; check the order of the columns" in err


def test_ctrl_c_before_any_work_is_one_word(monkeypatch, capsys):
    from truerisk import cli

    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert (stop.value.code, capsys.readouterr().err) == (130, "stopped.\n")


def test_the_time_of_measures_is_told_where_they_take_time(run):
    _, _, err = run("measure", "--model", "mlp:8", "--only", "parameters,l2-norm", "--out", "m")
    assert "measuring takes" not in err
