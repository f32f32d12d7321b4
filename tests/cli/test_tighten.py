"""``truerisk tighten``: what it prints and writes, and what it says about bad input."""

from __future__ import annotations

import html
import json
import math
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from truerisk import rescaling_report
from truerisk.cli import complete
from truerisk.cli.tighten_options import Options, scale
from truerisk.data import load
from truerisk.errors import TrueriskError
from truerisk.nets import mlp
from truerisk.pacbayes import COLUMNS, FORMS

SIGMAS = ("--sigma-q", "0.05", "--sigma-p", "1")
QUICK = ("--draws", "300", "--lifted", "2", "--quiet")
NET = """
import torch
from torch import nn

def build(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU(), nn.Linear(6, 10))

def loaded():
    module = build()
    module.load_state_dict(torch.load("w.pt"))
    return module

with torch.random.fork_rng():
    torch.manual_seed(3)
    trained = build()
    normed = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 10))
    normed(torch.randn(20, 64))
"""


@pytest.fixture
def files(tmp_path):
    """A few digits, a network, and weights of several networks."""
    digits = load("digits")
    np.savez(tmp_path / "my data.npz", X=digits.X[:300], y=digits.y[:300])
    (tmp_path / "net.py").write_text(NET)
    for number, width in enumerate((6, 6, 20)):
        torch.manual_seed(number)
        layers = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
        torch.save(layers.state_dict(), tmp_path / f"{'w' * (number + 1)}.pt")
    return tmp_path


OWN = ("--model", "net.py:build", "--weights", "w.pt", "--data", "my data.npz", *SIGMAS)


def test_one_network(run, files):
    code, out, err = run("tighten", *OWN, *QUICK, "--form", "mcallester")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith(("Rescaling ", "The bound of w "))
    assert "McAllester bounds" in out
    assert "not a certificate" in out
    assert "move the prior" in out
    assert "Lifted KL: " in out
    assert out.splitlines()[-1] == "Report  truerisk-out/tighten.html"
    assert Path("truerisk-out/tighten.html").is_file()
    assert [each.name for each in Path("truerisk-out").iterdir()] == ["tighten.html"]


def test_json_is_one_object_with_the_numbers_of_the_report(run, files):
    code, out, err = run("tighten", *OWN, *QUICK, "--json", "--seed", 3)
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    told = json.loads(out)
    assert list(told) == ["networks"]
    [network] = told["networks"]
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU(), nn.Linear(6, 10))
    module.load_state_dict(torch.load("w.pt"))
    digits = load("digits")
    same = rescaling_report(
        module, (digits.X[:300], digits.y[:300]), 0.05, 1.0, draws=300, lifted=2, seed=3, name="w"
    ).to_json()
    assert network == {**same, "certify": network["certify"]}
    assert set(network) >= {"name", "n", "delta", "risk", "kl", "bound", "held", "sweeps"}
    assert tuple(network["kl"]) == tuple(network["bound"]) == COLUMNS
    again = json.loads(run("tighten", *OWN, *QUICK, "--json", "--seed", 3)[1])
    assert again == told


def test_several_networks_are_sorted_by_size(run, files):
    several = ("--model", "mlp:20", "--weights", "www.pt", "--model", "mlp:6", "--weights", "w.pt")
    code, out, err = run("tighten", *several, "--data", "digits", *SIGMAS, *QUICK)
    assert (code, err) == (0, "")
    table = out.splitlines()[next(i for i, line in enumerate(out.splitlines()) if line.startswith("network ")) :]
    assert [line.split()[0] for line in table[1:3]] == ["w", "www"]
    told = json.loads(run("tighten", *several, "--data", "digits", *SIGMAS, *QUICK, "--json")[1])["networks"]
    assert [(each["name"], each["weights"]) for each in told] == [("www", 1510), ("w", 460)]  # as given


def test_one_model_for_several_weights_and_names(run, files):
    several = ("--model", "net.py:build", "--weights", "w.pt", "--weights", "ww.pt", "--data", "my data.npz")
    names = ("--name", "A", "--name", "A")
    told = json.loads(run("tighten", *several, *names, *SIGMAS, *QUICK, "--json")[1])["networks"]
    assert [each["name"] for each in told] == ["A", "A 2"]
    assert told[0]["kl"] != told[1]["kl"]


def test_models_that_come_with_weights(run, files):
    alone = ("--model", "net.py:trained", "--model", "net.py:loaded", "--data", "my data.npz")
    code, out, err = run("tighten", *alone, *SIGMAS, *QUICK, "--json")
    assert (code, err) == (0, "")
    first, second = json.loads(out)["networks"]
    assert [first["name"], second["name"]] == ["net.py:trained", "net.py:loaded"]
    assert "--weights" not in first["certify"]
    assert second["certify"] is None  # a factory that loads its weights is nothing for certify
    code, out, _ = run("tighten", "--model", "net.py:loaded", "--data", "my data.npz", *SIGMAS, *QUICK)
    assert "save the state dict" in " ".join(out.split())


def test_batch_norm_statistics(run, files):
    """They are told, and no command is printed that certify would refuse."""
    asked = ("tighten", "--model", "net.py:normed", "--data", "my data.npz", *SIGMAS, *QUICK)
    code, out, err = run(*asked)
    assert (code, err) == (0, "")
    told = " ".join(out.split())
    assert "Pinned: 1 (linear): 6 channels" in told
    assert "The bounds hold only if 2.running_mean, 2.running_var do not depend on the examples." in told
    assert "No command: certify refuses batch-norm statistics" in told
    assert "truerisk.fold_batch_norm" in told
    assert "save the state dict" not in told
    assert "Certify" not in told
    page = Path("truerisk-out/tighten.html").read_text()
    assert "2.running_mean, 2.running_var were computed from data" in page
    assert "truerisk certify --model" not in page


def test_sigmas_by_layer(run, files):
    by_layer = ("--sigma-q", "1.weight=0.1,1.bias=0.1,3.weight=0.02,3.bias=0.02", "--sigma-p", "1")
    code, out, err = run("tighten", *OWN[:6], *by_layer, *QUICK, "--json")
    assert (code, err) == (0, "")
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU(), nn.Linear(6, 10))
    module.load_state_dict(torch.load("w.pt"))
    slow = 0.0
    for name, tensor in module.named_parameters():
        for w in tensor.detach().flatten().tolist():
            q = 0.1 if name.startswith("1") else 0.02
            slow += (w * w + q * q - 1 - math.log(q * q)) / 2
    assert json.loads(out)["networks"][0]["kl"]["original"] == pytest.approx(slow, rel=1e-9)
    rest = run("tighten", *OWN[:6], "--sigma-q", "1=0.1,=0.02", "--sigma-p", "=1", *QUICK, "--json")[1]
    assert json.loads(rest) == json.loads(out)


@pytest.mark.parametrize("columns", [80, 120])
def test_it_fits_the_terminal(run, files, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    long = ("--name", "a network with a very long name indeed, " * 3, "--name", "b", "--name", "c")
    models = ("--model", "mlp:6", "--weights", "w.pt", "--model", "mlp:6", "--weights", "ww.pt")
    models += ("--model", "mlp:20", "--weights", "www.pt")
    extreme = ("--sigma-q", "0.05", "--sigma-p", "0.00001")  # KLs far above a million
    for sigmas in (SIGMAS, extreme):
        code, out, _ = run("tighten", *models, *long, "--data", "digits", *sigmas, *QUICK, "--form", "mcallester")
        assert code == 0
        assert max(map(len, out.splitlines())) <= columns, out
        head = next(line for line in out.splitlines() if line.startswith("network "))
        assert head.split()[-4:] == list(COLUMNS)
    assert "* vacuous" in out


def test_upper_ends_are_rounded_up(run, files):
    [told] = json.loads(run("tighten", *OWN, *QUICK, "--json", "--form", "catoni")[1])["networks"]
    out = run("tighten", *OWN, *QUICK, "--form", "catoni")[1]
    row = next(line for line in out.splitlines() if line.startswith("w ")).split()
    for shown, column in zip(row[-4:], COLUMNS, strict=True):
        value = float(shown.rstrip("*"))
        assert told["bound"][column] <= value < told["bound"][column] + 0.001
        assert shown.endswith("*") == (told["bound"][column] > 0.999) == told["vacuous"][column]
    for shown, column in ((row[3], "original"), (row[5], "rescaled")):
        assert told["kl"][column] <= float(shown.replace(",", "")) < told["kl"][column] + 1


# ---- printed commands ------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_printed_certify_command_certifies(run, shell, tmp_path):
    """Pasted into a shell as it stands: a trained network on digits."""
    digits = load("digits")
    torch.manual_seed(0)
    network = mlp((1, 8, 8), 10, (8,))
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(30):
        loss = nn.functional.cross_entropy(network(torch.from_numpy(digits.X)), torch.from_numpy(digits.y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(network.state_dict(), tmp_path / "it's mine.pt")
    asked = ("--model", "mlp:8", "--weights", "it's mine.pt", "--data", "digits", "--delta", "0.1", *SIGMAS, *QUICK)
    code, out, err = run("tighten", *asked, "--out", "my page")
    assert (code, err) == (0, "")
    printed = re.search(r"^Certify  (truerisk certify (?:.*\\\n)*.*)$", out, re.MULTILINE)[1]
    [shown] = re.findall(r"<code>(truerisk certify .*?)</code>", Path("my page/tighten.html").read_text())
    assert shlex.split(html.unescape(shown)) == shlex.split(printed.replace("\\\n", ""))
    assert "--method pac-bayes-around" in shown
    done = shell(f"{printed} --epochs 1 --draws 2000 --quiet")  # sooner; the options of the command stay
    assert done.returncode == 0, done.stderr
    [record] = tmp_path.glob("my page/certificate-*/certificate.json")
    told = json.loads(record.read_text())
    assert (told["method"], told["delta"]) == ("pac-bayes-around", 0.1)


def test_the_command_of_the_page_makes_it_again(run, files):
    asked = (*OWN, *QUICK, "--form", "catoni", "--delta", "0.1", "--seed", "2", "--name", "a 'b'", "--out", "o p")
    assert run("tighten", *asked)[0] == 0
    page = Path("o p/tighten.html")
    before = page.read_text()
    command = html.unescape(re.findall(r"<code>(truerisk tighten .*?)</code>", before)[0])
    page.unlink()
    assert run(*shlex.split(command)[1:])[0] == 0
    assert page.read_text() == before


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (("--sigma-q", "0"), "--sigma-q is '0', but must be a positive number"),
        (("--sigma-p", "wide"), "--sigma-p is 'wide', but must be a positive number"),
        (("--sigma-q", "0=0.1,0=0.2"), "must name each layer once"),
        (("--sigma-q", "1=0.1,"), "every entry needs a layer"),
        (
            ("--sigma-q", "1=0.1"),
            "--sigma-q has no entry for 3.weight, 3.bias; add one for each, or =S for all the rest.",
        ),
        (("--sigma-p", "9=0.1"), "--sigma-p has an entry for '9'"),
        (("--out", "net.py/folder"), "--out net.py/folder cannot be made"),
        (("--sigma-q", "0=-1"), "--sigma-q is '-1'"),
        (("--form", "hoeffding"), "--form is 'hoeffding', but must be one of kl, mcallester, catoni"),
        (("--delta", "1"), "delta is 1.0"),
        (("--draws", "0"), "--draws is 0"),
        (("--lifted", "1"), "--lifted is 1"),
        (("--seed", "-1"), "the seed is -1"),
        (("--outputs", "guesses"), "--outputs is guesses"),
        (("--out", "net.py"), "--out net.py is a file"),
        (("--name", "a", "--name", "b"), "--name is given 2 times for 1 networks"),
        (("--weights", "nowhere.pt"), "nowhere.pt does not exist"),
        (("--model", "net.py:build", "--model", "net.py:build"), "there are 3 models and 1 weight files"),
        (("--data", "nowhere.npz"), "nowhere.npz"),
        (("--sigma-q", "1e-90"), "--sigma-q is 1e-90, but must lie between"),
    ],
)
def test_bad_input_is_one_sentence(run, files, changed, told):
    code, out, err = run("tighten", *OWN, *QUICK, *changed)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    assert not Path("truerisk-out").exists()


def test_untrained_models_are_refused(run, files):
    code, _, err = run("tighten", "--model", "net.py:build", "--data", "my data.npz", *SIGMAS)
    assert code == 2
    assert "the model net.py:build comes with random weights, not trained ones; give --weights FILE." in err


def test_built_in_networks_are_trained_first(run, files):
    """Their weights are written: another call with these has the same numbers, and certify can take them."""
    model = ("--model", "mlp:6", "--data", "my data.npz", *SIGMAS)
    code, out, err = run("tighten", *model, "--draws", "300", "--lifted", "2", "--json")
    assert code == 0
    assert "no --weights: mlp:6 is trained first; its weights go to truerisk-out/weights-mlp-6.safetensors." in err
    [first] = json.loads(out)["networks"]
    weights = ("--weights", "truerisk-out/weights-mlp-6.safetensors")
    [again] = json.loads(run("tighten", *model, *weights, "--name", "mlp:6", *QUICK, "--json")[1])["networks"]
    assert first == again
    assert "--weights truerisk-out/weights-mlp-6.safetensors" in first["certify"]
    network = mlp((64,), 10, [6])
    from safetensors.torch import load_file

    network.load_state_dict(load_file(weights[1]))
    digits = load("digits")
    wrong = network(torch.from_numpy(digits.X[:300])).argmax(1) != torch.from_numpy(digits.y[:300])
    assert float(wrong.float().mean()) < 0.1


def test_missing_options(run):
    code, out, err = run("tighten", "--model", "mlp:6")
    assert (code, out) == (2, "")
    assert "--data" in err


def test_weights_that_do_not_fit(run, files):
    code, _, err = run("tighten", "--model", "mlp:9", "--weights", "w.pt", "--data", "digits", *SIGMAS)
    assert code == 2
    assert "do not fit the model" in err
    assert err.endswith("; give the weights of this model.\n")


def test_without_the_extra_the_numbers_are_printed(run, files, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    code, out, err = run("tighten", *OWN, *QUICK)
    assert code == 0
    assert "note: the HTML report needs jinja2" in err
    assert "Report" not in out
    assert "Certify" in out


def test_ctrl_c_leaves_no_page(run, files, monkeypatch):
    """Weights of a network that was trained first stay, so the message must not say that nothing was written."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("truerisk.pacbayes.rescaling_report", stop)
    code, out, err = run("tighten", "--model", "mlp:6", "--data", "my data.npz", *SIGMAS, *QUICK)
    assert (code, out) == (130, "")
    assert err == "stopped; no page was written.\n"
    assert [each.name for each in Path("truerisk-out").iterdir()] == ["weights-mlp-6.safetensors"]


def test_names_are_those_of_the_packages():
    assert tuple(FORMS) == complete.FORMS


def test_options_in_python():
    assert scale(" 3e-2 ", "--sigma-q") == 0.03
    with pytest.raises(TrueriskError, match="inf"):
        scale("inf", "--sigma-q")
    options = Options(["a:b"], [Path("x/w.pt"), Path("y/w.pt")], [], "d", "1", "1", out=Path("o"))
    assert [each.name for each in options.choices] == ["w", "w 2"]
    assert [options.certify(each, each.weights)[-1] for each in options.choices] == [
        "o/certificate-w",
        "o/certificate-w-2",
    ]
