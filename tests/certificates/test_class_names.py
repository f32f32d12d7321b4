"""Names of classes: in the record, on the page, and in predictions."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import truerisk
from truerisk import cli
from truerisk.data import Data, Inputs, load
from truerisk.errors import TrueriskError, VerificationError
from truerisk.report.certificate import render

NAMES = ("zero", "one", "two")


def three(class_names=NAMES) -> Data:
    digits = load("digits")
    rows = np.flatnonzero(digits.y < 3)
    return Data("three", digits.X[rows], digits.y[rows], 3, class_names=class_names)


@pytest.fixture(scope="module")
def cert():
    return truerisk.certify("mlp:8", three(), epochs=20)


@pytest.fixture
def saved(cert, tmp_path):
    cert.save(tmp_path / "out")
    return tmp_path / "out"


def test_they_are_in_the_record_and_on_the_page(cert, saved):
    assert json.loads((saved / "certificate.json").read_text())["data"]["class_names"] == list(NAMES)
    assert truerisk.Certificate.load(saved).record.data.class_names == NAMES
    assert "zero: 178, one: 182, two: 177" in render(cert.record)


def test_no_names_is_an_empty_list():
    made = truerisk.certify("mlp:4", three(()), epochs=1)
    assert made.to_json()["data"]["class_names"] == []
    assert "178, 182, 177" in render(made.record)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("zero", "one"), "2 class names for 3 classes; give one name for each class"),
        (("zero", "one", "one"), "two classes of the data have the same name"),
        (("zero", "one", "tw\no"), "characters that cannot be shown"),
    ],
)
def test_names_that_do_not_fit_are_refused_before_training_and_when_read(names, told, saved, monkeypatch):
    monkeypatch.setattr("truerisk.certificates.pipeline.make", None)
    with pytest.raises(TrueriskError, match=told):
        truerisk.certify("mlp:4", three(names))
    claims = json.loads((saved / "certificate.json").read_text())
    claims["data"]["class_names"] = list(names)
    (saved / "certificate.json").write_text(json.dumps(claims))
    with pytest.raises(VerificationError):
        truerisk.verify(saved, data=three())


def test_verify_takes_the_names_of_the_certificate(cert, saved):
    assert truerisk.verify(saved, data=three(())).noticed == []
    assert truerisk.verify(saved, data=three()).noticed == []
    other = truerisk.verify(saved, data=replace(three(), class_names=("a", "b", "c")))
    assert other.claimed == cert.risk_bound
    assert other.noticed == ["the certificate and the data give the classes other names; the numbers agree"]


@pytest.fixture
def predict(saved, monkeypatch, capsys):
    """predict(inputs, *options) -> (exit code, standard output, standard error)"""

    def call(inputs, *options):
        monkeypatch.setattr("truerisk.data.load_inputs", lambda *_: inputs)
        monkeypatch.setattr("sys.argv", ["truerisk", "predict", str(saved), "--data", "any", *options])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def test_predictions_are_names(cert, predict):
    data = three()
    labels = cert.predictor(data.X)
    code, out, err = predict(Inputs(data.X, None))
    assert (code, err) == (0, "")
    assert out.split() == [NAMES[label] for label in labels]
    found = json.loads(predict(Inputs(data.X, data.y), "--json")[1])
    assert found["predictions"] == labels.tolist()
    assert found["class_names"] == list(NAMES)
    assert found["error_rate"] == float((labels != data.y).mean())


def test_labels_are_matched_by_name(cert, predict):
    """The file numbers its classes in another order."""
    data, order = three(), ("two", "zero", "one")
    y = np.asarray([order.index(NAMES[label]) for label in data.y])
    rate = float((cert.predictor(data.X) != data.y).mean())
    assert rate < 0.2
    assert json.loads(predict(Inputs(data.X, y, order), "--json")[1])["error_rate"] == rate
    some = Inputs(data.X[:5], np.zeros(5, dtype=np.int64), ("two", "unused"))
    assert predict(some, "--json")[0] == 0, "a name that no row has does not matter"
    code, out, err = predict(Inputs(data.X, y, ("two", "zero", "seven")), "--json")
    assert (code, out) == (2, "")
    assert err == (
        "error: the inputs have a class 'seven', which the certificate does not know; rename or remove it.\n"
    )


def test_a_certificate_without_names_knows_numbers(tmp_path, monkeypatch, capsys):
    data = three(())
    made = truerisk.certify("mlp:8", data, epochs=20)
    made.save(tmp_path)
    inputs = Inputs(data.X, 2 - data.y, ("2", "1", "0"))
    monkeypatch.setattr("truerisk.data.load_inputs", lambda *_: inputs)
    monkeypatch.setattr("sys.argv", ["truerisk", "predict", str(tmp_path), "--data", "any", "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    found = json.loads(capsys.readouterr().out)
    assert found["class_names"] == []
    assert found["error_rate"] == float((made.predictor(data.X) != data.y).mean())


def test_columns_and_labels_of_the_inputs_are_matched_by_name(tmp_path, monkeypatch, capsys):
    """Classes that are called by integers are not class numbers."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 2)), np.arange(600) % 3
    X[:, 0] += 4 * y
    data = Data("table", X, y, 3, class_names=("1", "2", "2b"), feature_names=("u", "v"))
    made = truerisk.certify("mlp:8", data, epochs=50)
    made.save(tmp_path / "out")
    rows = y < 2
    rate = float((made.predictor(data.X[rows]) != y[rows]).mean())
    assert rate < 0.3

    def predict(header, labels):
        rows = [f"{b!r},{a!r},{label}" for (a, b), label in zip(X.tolist(), labels, strict=True) if label != "-"]
        (tmp_path / "new.csv").write_text("\n".join([header, *rows]))
        command = ["truerisk", "predict", str(tmp_path / "out"), "--data", str(tmp_path / "new.csv"), "--json"]
        monkeypatch.setattr("sys.argv", command)
        with pytest.raises(SystemExit) as stop:
            cli.main()
        shown = capsys.readouterr()
        return stop.value.code or 0, shown.out, shown.err

    code, out, _ = predict("v,u,label", [("1", "2", "-")[label] for label in y])
    assert (code, json.loads(out)["error_rate"]) == (0, rate)
    code, out, err = predict("v,u,label", [("0", "1", "-")[label] for label in y])
    assert code == 2
    assert "the inputs have a class '0', which the certificate does not know" in err
    code, out, err = predict("v,w,label", [("1", "2", "-")[label] for label in y])
    assert (code, out) == (2, "")
    assert "the column 'u' is in one of the inputs and the certified data only" in err


def test_column_names_that_do_not_fit_are_refused():
    with pytest.raises(TrueriskError, match="1 different column names"):
        truerisk.certify("mlp:4", replace(three(), X=three().X.reshape(-1, 64), feature_names=("a",)))
