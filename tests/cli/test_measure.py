"""``truerisk measure`` as a person or a script uses it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from truerisk.data import load
from truerisk.measures import BOUNDS, MEASURES, Subject, measure, trained
from truerisk.measures import estimate as estimates
from truerisk.measures.observed import held_out
from truerisk.measures.registry import name_of
from truerisk.measures.words import quantity
from truerisk.measures.zoo import zoo
from truerisk.nets import architecture
from truerisk.training import fit

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU())
        self.block = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4))
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = self.stem(x)
        return self.head(torch.relu(x + self.block(x)).mean((2, 3)))

def build():
    return Net()

def chain():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU(), nn.Linear(6, 3))

def double():
    return chain().double()

module = chain()
"""
FEW = ["--only", "parameters,l2-norm,path-norm-l2-squared,cross-entropy", "--quiet"]


@pytest.fixture
def mine(tmp_path) -> list[str]:
    """A user's factory and data."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    np.savez(tmp_path / "train.npz", X=rng.normal(size=(60, 1, 8, 8)) + rng.normal(size=(3, 1, 8, 8))[y], y=y)
    (tmp_path / "net.py").write_text(NET)
    return ["--model", "net.py:build", "--data", "train.npz"]


@pytest.fixture
def chain(tmp_path, mine) -> list[str]:
    """The same with a small chain, and its weights and initial weights in files; the start has seed 5."""
    namespace: dict = {}
    exec(NET, namespace)
    torch.manual_seed(5)
    net = namespace["chain"]()
    torch.save(net.state_dict(), tmp_path / "init.pt")
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.5)
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    return ["--model", "net.py:chain", "--data", "train.npz", "--weights", "w.safetensors"]


@pytest.fixture
def undrawn(monkeypatch) -> None:
    """An empty page: drawing it takes most of the time of a small measurement, and other tests look at it."""

    def write(path: Path, *_: object, **__: object) -> Path:
        path.touch()
        return path

    monkeypatch.setattr("truerisk.report.write_measures", write)


def values(out: str) -> dict[str, float]:
    return {row["name"]: row["value"] for row in json.loads(out)["measures"]}


def test_help_names_every_option(run):
    code, out, _ = run("measure", "--help")
    assert code == 0
    options = (
        "data model weights init record only calibrate test train delta rows seed all family layers list audit times "
        "std out data-dir json quiet"
    )
    for option in options.split():
        assert f"--{option}" in out
    assert "truerisk measure --audit" in " ".join(out.split())


def test_list_needs_no_data_and_names_everything(run):
    code, out, err = run("measure", "--list")
    assert (code, err) == (0, "")
    words = set(out.split())
    names = [entry.name for entry in MEASURES.values()]
    assert set(names) | set(BOUNDS) <= words
    assert f"{len(MEASURES)} measures, {len(BOUNDS)} bounds" in out
    code, out, _ = run("measure", "--list", "--json")
    listed = json.loads(out)
    assert [entry["name"] for entry in listed["measures"]] == names
    assert [entry["name"] for entry in listed["bounds"]] == list(BOUNDS)
    assert {"meaning", "needs", "cost", "invariant", "paper"} <= listed["measures"][0].keys()


def test_a_network_of_ones_own_with_batch_norm_and_a_residual_block(run, mine):
    """At least 50 measures; every bound that is not there is skipped with its reason; nothing is lost."""
    code, out, err = run("measure", *mine, "--rows", 30, "--json", "--quiet")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert len(record["measures"]) >= 50
    names = [entry["name"] for part in ("measures", "bounds", "skipped") for entry in record[part]]
    everything = [entry.name for entry in (*MEASURES.values(), *BOUNDS.values()) if entry.cost != "training"]
    assert sorted(names) == sorted(everything)
    assert all(entry["reason"].endswith(".") for entry in record["skipped"])
    assert json.loads(Path("truerisk-measures/measures.json").read_text()) == record
    with open("truerisk-measures/measures.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [entry["name"] for part in ("measures", "bounds") for entry in record[part]]
    page = Path("truerisk-measures/report.html").read_text()
    assert all(row["name"] in page for row in rows)
    assert sorted(path.name for path in Path("truerisk-measures").iterdir()) == [
        "init.safetensors", "measures.csv", "measures.json", "network.safetensors", "report.html",
    ]  # fmt: skip


def test_a_chain_has_bounds(run, chain):
    code, out, _ = run("measure", *chain, "--init", "seed:5", "--rows", 30, "--quiet", "--all")
    assert code == 0
    record = json.loads(Path("truerisk-measures/measures.json").read_text())
    assert len(record["bounds"]) >= 8
    text = " ".join(out.split())
    assert "Bounds on the true risk" in text
    assert "vacuous:" in text
    assert "Skipped:" in text
    assert "Each bound alone is right with probability 0.95" in text
    for entry in (*record["measures"], *record["bounds"]):
        assert entry["name"] in text


@pytest.mark.usefixtures("undrawn")
def test_init_from_a_file_and_from_a_seed_are_the_same(run, chain):
    only = ["--only", "distance-l2", "--json", "--quiet"]
    from_file = run("measure", *chain, "--init", "init.pt", *only)[1]
    from_seed = run("measure", *chain, "--init", "seed:5", *only)[1]
    count = sum(p.numel() for p in load_file("w.safetensors").values())
    assert values(from_file)["distance-l2"] == pytest.approx(0.5 * count**0.5, rel=1e-5)
    assert values(from_seed) == values(from_file)
    other = run("measure", *chain, "--init", "seed:6", *only)[1]
    assert values(other) != values(from_file)
    none = json.loads(run("measure", *chain, *only)[1])
    assert none["skipped"][0]["name"] == "distance-l2"
    assert "--init" in none["skipped"][0]["reason"]


@pytest.mark.usefixtures("undrawn")
def test_training_is_told_and_can_be_repeated_from_its_files(run, mine, monkeypatch):
    monkeypatch.setattr(trained, "TARGET_LOSS", 2.0)  # an epoch is enough
    only = ["--only", "l2-norm,distance-l2,steps-to-loss-0.1", "--json"]
    code, out, err = run("measure", "--model", "net.py:chain", *mine[2:], *only)
    assert code == 0
    assert "is trained first" in err
    assert "trained here first" in json.loads(out)["about"]["Weights"]
    files = ["--weights", "truerisk-measures/network.safetensors", "--init", "truerisk-measures/init.safetensors"]
    again = run("measure", "--model", "net.py:chain", *mine[2:], *files, *only, "--out", "again", "--quiet")
    assert values(again[1]) == values(out)
    assert sorted(path.name for path in Path("again").iterdir()) == ["measures.csv", "measures.json", "report.html"]
    same = run("measure", "--model", "net.py:chain", *mine[2:], *files[:2], "--init", "seed:0", *only, "--quiet")
    assert values(same[1]) == values(out)


def test_python_trains_as_the_command_line_does(run, mine, monkeypatch):
    """A built-in name and a factory: every number of the table, to the last bit."""
    monkeypatch.setattr(trained, "TARGET_LOSS", 1.0)
    for model, data in (("mlp:5", "digits"), ("net.py:build", "train.npz")):
        out = run("measure", "--model", model, "--data", data, "--rows", 20, "--seed", 3, "--json", "--quiet")[1]
        found = measure(model, data, rows=20, seed=3)
        assert values(out) == {row["name"]: row["value"] for row in found.record()["measures"]}
        assert json.loads(out)["bounds"] == found.record()["bounds"]
        assert json.loads(out)["about"]["Weights"] == found.record()["weights"]


@pytest.mark.usefixtures("undrawn")
def test_a_module_is_measured_as_it_came(run, mine):
    code, out, err = run("measure", "--model", "net.py:module", *mine[2:], *FEW[:2])
    assert code == 0
    assert "trained" not in err
    assert "that the module came with" in out


@pytest.mark.usefixtures("undrawn")
def test_a_record_of_the_training(run, chain):
    Path("record.json").write_text(json.dumps({"steps_to_0.1": 77}))
    only = ["--only", "steps-to-loss-0.1", "--json", "--quiet"]
    assert values(run("measure", *chain, "--record", "record.json", *only)[1]) == {"steps-to-loss-0.1": 77}


@pytest.mark.usefixtures("undrawn")
def test_layers_are_shown_on_request(run, chain):
    assert "Layer by layer" not in run("measure", *chain, *FEW)[1]
    out = run("measure", *chain, *FEW, "--layers")[1]
    assert "Layer by layer" in out
    assert "1.weight" in out


@pytest.mark.usefixtures("undrawn")
def test_only_and_delta_and_seed(run, chain):
    code, out, _ = run("measure", *chain, "--only", "vc, parameters", "--delta", 0.01, "--json", "--quiet")
    record = json.loads(out)
    assert code == 0
    assert [entry["name"] for entry in record["measures"]] == ["parameters"]
    wider = json.loads(run("measure", *chain, "--only", "vc", "--json", "--quiet")[1])
    assert record["bounds"][0]["value"] > wider["bounds"][0]["value"]


def test_audit_for_people_and_for_programs(run, chain):
    code, out, err = run("measure", *chain, "--audit", "--times", 2, *FEW)
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "Rescaled 2 times: 6 channels" in text
    assert "one and the same function" in text
    assert "1 of 4 are fooled by a rescaling; 3 are not." in text
    assert "fooled: moved" in text
    assert "DECLARED WRONGLY" not in text
    record = json.loads(run("measure", *chain, "--audit", "--times", 1, "--std", 2, *FEW, "--json")[1])
    assert record["audit"]["std"] == 2
    numbers = {row["name"]: (row["value"], row["after"]) for row in record["audit"]["moves"]}
    assert numbers["path-norm-l2-squared"][1] == pytest.approx(numbers["path-norm-l2-squared"][0])
    assert numbers["l2-norm"][1] > 1.5 * numbers["l2-norm"][0]
    page = " ".join(Path("truerisk-measures/report.html").read_text().split())
    after = quantity(numbers["l2-norm"][1])
    assert f'<td class="number" data-label="Rescaled">{after}</td>' in page
    assert record["audit"]["largest_change_of_an_output"] < 1e-9
    verdicts = {row["name"]: row["verdict"] for row in record["audit"]["moves"]}
    assert verdicts["path-norm-l2-squared"] == "not fooled"
    assert verdicts["l2-norm"].startswith("fooled: moved")
    assert "stays" in Path("truerisk-measures/report.html").read_text()


@pytest.mark.usefixtures("undrawn")
def test_what_is_costly_is_told_before(run, chain, monkeypatch):
    """One line with the memory, if it will take more than two seconds; none if it is quick, or with --quiet."""
    assert run("measure", *chain, *FEW[:2])[2] == ""
    monkeypatch.setattr(estimates, "PASSES", 10**9)
    assert run("measure", *chain, *FEW[:2])[2] == ""  # these few read the weights, or pass over the examples once
    code, _, err = run("measure", *chain, "--only", "gradient-norm")
    assert code == 0
    assert "of memory (gradients of 60 of 60 examples at a time)" in err
    assert len(err.strip().splitlines()) == 1
    assert run("measure", *chain, "--only", "gradient-norm", "--quiet")[2] == ""


def test_the_page_is_left_out_where_its_extra_is_missing(run, chain, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "jinja2", None)
    code, _, err = run("measure", *chain, *FEW)
    assert code == 0
    assert "truerisk[report]" in err
    assert not Path("truerisk-measures/report.html").exists()
    assert Path("truerisk-measures/measures.csv").exists()


def test_ctrl_c_leaves_nothing(run, chain, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("truerisk.measures.table.measure_subject", stop)
    code, out, err = run("measure", *chain, *FEW)
    assert (code, out) == (130, "")
    assert "nothing was written" in err
    assert not Path("truerisk-measures").exists()


@pytest.mark.parametrize(
    ("told", "arguments"),
    [
        ("no measure nonsense", ["--only", "nonsense"]),
        ("--only is empty", ["--only", ","]),
        ("delta is 0", ["--delta", "0"]),
        ("--rows is 0", ["--rows", "0"]),
        ("--times is 0", ["--audit", "--times", "0"]),
        ("--std is -1, but must be a positive number; try --std 1.", ["--audit", "--std", "-1"]),
        ("--std is nan, but must be", ["--audit", "--std", "nan"]),
        ("--std is 2, but nothing is rescaled; add --audit.", ["--std", "2"]),
        ("no measure hesian-trace; close are hessian-trace", ["--only", "hesian-trace"]),
        ("the seed is -1", ["--seed", "-1"]),
        ("is a file", ["--out", "net.py"]),
        ("is not a seed", ["--init", "seed:x"]),
        ("does not exist", ["--init", "none.pt"]),
        ("do not fit", ["--init", "other.safetensors"]),
        ("not a JSON file", ["--record", "net.py"]),
        ("no JSON object", ["--record", "list.json"]),
        ("cannot be read", ["--record", "none.json"]),
        ("does not exist", ["--weights", "none.pt"]),
        ("not a plain state dict", ["--weights", "net.py"]),
        ("no built-in", ["--model", "transformer"]),
    ],
)
def test_bad_input_is_one_sentence(run, chain, told, arguments):
    Path("list.json").write_text("[1]")
    save_file({"a": torch.zeros(2)}, "other.safetensors")
    code, out, err = run("measure", *chain, *FEW, *arguments)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.strip().splitlines()) == 1
    assert not Path("truerisk-measures").exists()


@pytest.mark.parametrize(
    ("told", "arguments"),
    [("give --weights", ["--init", "seed:0"]), ("float32", ["--model", "net.py:double"])],
)
def test_what_can_not_be_trained_here(run, mine, told, arguments):
    code, out, err = run("measure", *mine, "--quiet", *arguments)
    assert (code, out) == (2, "")
    assert told in err


@pytest.mark.usefixtures("undrawn")
def test_a_training_here_records_all_that_measures_ask_for(run):
    """The gradients after one epoch by hand: the same network, trained for one epoch of the same plan."""
    only = ["--only", "gradient-noise-first-epoch", "--model", "mlp:5", "--rows", 20, "--json", "--quiet"]
    found = values(run("measure", *only)[1])["gradient-noise-first-epoch"]
    data, _ = held_out(load("digits"), None, True, 0)
    arch = architecture("mlp:5", data.input_shape, data.classes)
    plan = trained.training_plan(arch.name, data, 0)
    module = arch.build(plan.seed)
    fit(module, data, plan, after_epoch=lambda epochs: True)
    subject = Subject(module, data, rows=20, seed=plan.seed)
    rows = []
    for x, y in zip(*subject.sample, strict=True):
        slopes = torch.autograd.grad(F.cross_entropy(module(x[None]), y[None]), list(module.parameters()))
        rows.append(torch.cat([g.flatten() for g in slopes]).double())
    gradients = torch.stack(rows)
    expected = float((gradients - gradients.mean(0)).square().sum(1).mean())
    assert found == pytest.approx(expected, rel=1e-4)


MOST_LINES = 40


@pytest.mark.usefixtures("undrawn")
def test_the_terminal_shows_the_finding_on_one_screen(run, chain):
    """The headline, the leading measures, bounds in a line each, and where the rest is."""
    code, out, err = run("measure", *chain, "--init", "seed:5", "--rows", 30, "--quiet")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) <= MOST_LINES
    record = json.loads(Path("truerisk-measures/measures.json").read_text())
    text = " ".join(out.split())
    shown = [
        name for name in map(name_of, zoo().leading(MEASURES)) if name in {row["name"] for row in record["measures"]}
    ]
    assert len(shown) >= 3
    assert all(name in text for name in shown)
    assert "Training error is" in text
    assert "no held-out examples were given (--test)" in text
    assert "bounds are 1 or more and say nothing" in text
    assert "add --all, or --family NAME" in text
    everything = run("measure", *chain, "--init", "seed:5", "--rows", 30, "--quiet", "--all")[1]
    assert all(row["name"] in everything for part in ("measures", "bounds") for row in record[part])
    norms = run("measure", *chain, "--rows", 30, "--quiet", "--family", "norms")[1]
    assert all(row["name"] in norms for row in record["measures"] if row["family"] == "norms")
    assert "hessian-trace" not in norms


@pytest.mark.usefixtures("undrawn")
def test_the_audit_is_one_screen_too(run, chain):
    code, out, _ = run("measure", *chain, "--init", "seed:5", "--rows", 30, "--audit", "--times", 1, "--quiet")
    assert code == 0
    assert len(out.splitlines()) <= MOST_LINES
    moves = json.loads(Path("truerisk-measures/measures.json").read_text())["audit"]["moves"]
    for family in {row["family"] for row in moves}:
        verdicts = [row["verdict"] for row in moves if row["family"] == family]
        kept = verdicts.count("not fooled")
        assert re.search(rf"\n{family} +{kept} +{len(verdicts) - kept} ", out), family
    everything = run("measure", *chain, "--rows", 30, "--audit", "--times", 1, "--quiet", "--all")[1]
    assert all(row["name"] in everything for row in moves if not row["name"].startswith("distance"))


@pytest.mark.usefixtures("undrawn")
def test_held_out_examples_from_a_file(run, chain, tmp_path):
    def observed(*more: object) -> dict:
        out = run("measure", *chain, "--only", "parameters", "--json", "--quiet", *more)[1]
        return json.loads(out)["observed"]

    assert "held_out" not in observed()
    code, _, err = run("measure", *chain, "--only", "parameters", "--test", 0.25)
    assert code == 2
    assert "may have seen any share of its data" in err  # the network is already trained
    data = np.load("train.npz")
    np.savez("test.npz", X=data["X"][:30], y=data["y"][:30])
    other = observed("--test", "test.npz")
    assert (other["training"]["n"], other["held_out"]["n"]) == (60, 30)


@pytest.mark.usefixtures("undrawn")
def test_calibrate_adds_the_reference_to_every_number(run, mine):
    only = ["--only", "parameters,l2-norm,path-norm-l2-squared", "--quiet"]
    arguments = ["measure", "--model", "net.py:chain", *mine[2:], "--calibrate", *only]
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert record["random_labels"]["fitted"] in (True, False)
    assert record["about"]["Reference"] == record["random_labels"]["note"]
    for row in record["measures"]:
        assert row["ratio"] == pytest.approx(row["random_labels"] / row["value"])
    assert record["measures"][0]["ratio"] == 1
    with open("truerisk-measures/measures.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["ratio"]) for row in rows] == [row["ratio"] for row in record["measures"]]
    weights = load_file("truerisk-measures/random-labels.safetensors")
    squares = sum(float(value.double().square().sum()) for value in weights.values())
    assert record["measures"][1]["random_labels"] == pytest.approx(squares**0.5)
    assert run(*arguments, "--json")[1] == out, "the same seed gives the same answer"
    text = " ".join(run(*arguments)[1].split())
    assert record["random_labels"]["note"] in text
    assert "random labels" in text


@pytest.mark.usefixtures("undrawn")
def test_no_reference_is_a_sentence_and_no_error(run, mine):
    Path("bare.py").write_text(
        "import torch\nfrom torch import nn\nclass Bare(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.weight = nn.Parameter(torch.ones(64, 3))\n    def forward(self, x):\n"
        "        return x.flatten(1) @ self.weight\nmodule = Bare()\n"
    )
    code, out, _ = run("measure", "bare.py:module", *mine[2:], "--calibrate", "--only", "parameters", "--quiet")
    assert code == 0
    assert "There is no reference on random labels" in " ".join(out.split())


def test_two_models_are_compared(run, mine):
    code, out, err = run("measure", "net.py:chain", "net.py:build", *mine[2:], "--rows", 30, "--quiet")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) <= MOST_LINES
    folder = Path("truerisk-measures")
    assert sorted(path.name for path in folder.iterdir()) == [
        "a.safetensors", "b.safetensors", "comparison.csv", "comparison.json", "report.html",
    ]  # fmt: skip
    record = json.loads((folder / "comparison.json").read_text())
    assert (record["a"]["name"], record["b"]["name"]) == ("net.py:chain", "net.py:build")
    rows = {row["name"]: row for row in record["measures"]}
    assert rows["parameters"]["a"] == 64 * 6 + 6 + 6 * 3 + 3
    for row in rows.values():
        if row["a"] and row["b"] and row["a"] * row["b"] > 0:
            assert row["ratio"] == pytest.approx(row["b"] / row["a"])
    text = " ".join(out.split())
    assert "A is net.py:chain: It misclassifies" in text
    assert all(row["name"] in text for row in record["leading"])
    page = (folder / "report.html").read_text()
    assert "net.py:chain" in page
    assert all(f">{name}<" in page for name in rows)


@pytest.mark.usefixtures("undrawn_comparison")
def test_two_weight_files_of_one_model(run, chain):
    files = load_file("w.safetensors")
    save_file({name: 2 * value for name, value in files.items()}, "twice.safetensors")
    given = ["--model", "net.py:chain", "--data", "train.npz", "--only", "l2-norm", "--json", "--quiet"]
    code, out, _ = run("measure", "w.safetensors", "twice.safetensors", *given)
    [row] = json.loads(out)["measures"]
    assert code == 0
    assert row["ratio"] == pytest.approx(2)
    alone = run("measure", "twice.safetensors", *given, "--out", "alone")[1]
    assert values(alone)["l2-norm"] == row["b"]


@pytest.fixture
def undrawn_comparison(monkeypatch) -> None:
    monkeypatch.setattr("truerisk.report.write_comparison", lambda path, *_: path)


@pytest.mark.parametrize(
    ("told", "arguments"),
    [
        ("3 networks are given", ["mlp:1", "mlp:2", "mlp:3"]),
        ("leave out --model", ["mlp:1", "mlp:2", "--model", "mlp:3"]),
        ("two models or two weight files", ["mlp:1", "w.safetensors"]),
        ("use one of these ways", ["mlp:1", "mlp:2", "--weights", "w.safetensors"]),
        ("measure each of them alone", ["mlp:1", "mlp:2", "--calibrate"]),
        ("measure each of them alone", ["mlp:1", "mlp:2", "--audit"]),
        ("one after the other", ["mlp:1", "--calibrate", "--audit"]),
        ("no built-in", ["mlp:1", "transformer"]),
        ("does not exist", ["a.pt", "b.pt", "--model", "mlp:1"]),
        ("no family nonsense", ["--family", "nonsense"]),
        ("share from 0 up to below 1", ["--test", "1.5"]),
        ("give --weights", ["mlp:1", "mlp:2", "--init", "seed:0"]),
    ],
)
def test_bad_networks_are_one_sentence(run, told, arguments):
    code, out, err = run("measure", *arguments, "--quiet", "--only", "parameters")
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.strip().splitlines()) == 1
    assert len(err.split()) <= 26
    assert not Path("truerisk-measures").exists()


@pytest.mark.usefixtures("undrawn")
def test_without_options_a_network_that_can_memorize(run):
    out = run("measure", "--only", "parameters", "--quiet", "--json")[1]
    assert json.loads(out)["about"]["Network"] == "mlp:512"
    again = run("measure", "truerisk-measures/network.safetensors", "--only", "parameters", "--quiet", "--json")[1]
    assert values(again) == values(out)


def test_a_folder_holds_the_files_of_one_run(run, mine, chain):
    """Old tables go, and the old random-label network; weights that may be the user's own stay."""
    out = Path("truerisk-measures")
    out.mkdir()
    (out / "measures.json").write_text(json.dumps({"random_labels": {"note": "."}}))
    for name in ("measures.csv", "random-labels.safetensors", "network.safetensors", "own.txt"):
        (out / name).write_text("old")
    save_file(load_file(chain[chain.index("--weights") + 1]), "b.safetensors")
    names = [chain[chain.index("--weights") + 1], "b.safetensors"]
    rest = [each for k, each in enumerate(chain) if "--weights" not in (each, chain[k - 1])]
    code, _, err = run("measure", *names, *rest, *FEW)
    assert code == 0, err
    left = {path.name for path in out.iterdir()}
    assert left == {"comparison.csv", "comparison.json", "report.html", "network.safetensors", "own.txt"}


def test_names_do_not_steer_the_terminal():
    from truerisk.cli.measured_network import chosen

    assert [choice.name for choice in chosen(["a\x1b[31m.pt", "b.pt"], None, None)] == ["a?[31m.pt", "b.pt"]


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.usefixtures("undrawn")
def test_nothing_is_cut_in_the_terminal(run, chain, monkeypatch, columns):
    """Every name, number, and word of a meaning is whole; no line is longer than the terminal."""
    monkeypatch.setenv("COLUMNS", str(columns))
    options = [*chain, "--init", "seed:5", "--rows", 30, "--quiet"]
    printed = {
        "list": run("measure", "--list")[1],
        "all": run("measure", *options, "--all")[1],
        "audit": run("measure", *options, "--audit", "--times", 1, "--all")[1],
    }
    for text in printed.values():
        assert "\N{HORIZONTAL ELLIPSIS}" not in text
        assert max(map(len, text.splitlines())) <= columns
    words = set(printed["list"].split())
    for entry in (*MEASURES.values(), *BOUNDS.values()):
        assert entry.name in words
        assert set(entry.meaning.split()) <= words
    record = json.loads(Path("truerisk-measures/measures.json").read_text())
    for row in record["measures"]:
        line = next(line for line in printed["all"].splitlines() if line.split()[:1] == [row["name"]])
        assert len(line.split()) >= 3, "a name, a number, and what a rescaling does"
        assert any(line.split()[:1] == [row["name"]] for line in printed["audit"].splitlines())
