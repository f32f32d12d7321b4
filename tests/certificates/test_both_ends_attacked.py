"""Attempts to break both ends, the gap and what is said about them; some did, and none may again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from certificates.forging import saved, sealed, settings_of
from torch import nn

import truerisk
from truerisk import TrueriskError, VerificationError
from truerisk.certificates.counts import SURE
from truerisk.certificates.story import tell
from truerisk.data import Data, load, random_labels
from truerisk.nets.evaluate import _logits

DRAWS = 2_000


@pytest.fixture(scope="module")
def shades() -> Data:
    """200 digits in other shades: rows of no known set."""
    digits = load("digits")
    return Data("shades", np.sqrt(digits.X[:200]), digits.y[:200], digits.classes)


class Scores(nn.Module):
    """The first pixels of the middle rows as scores, changed by a function."""

    def __init__(self, change) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.change = change

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.change(self.scale * x.flatten(1)[:, 20:30])


# ---- what is said --------------------------------------------------------------------------------------------------


def test_one_end_does_not_blame_too_few_examples(shades):
    """A memorized network with a gap of 90 points: no number of examples bounds that by 5 points."""
    cert = truerisk.certify("mlp:200", random_labels(shades, seed=1), epochs=150, lr=0.01)
    assert cert.fit.training_error == 0
    assert cert.fit.diagnosis == "cannot tell"
    told = tell(cert.record).fit
    assert "too few" not in told
    assert "--two-sided" in told


def test_both_ends_are_not_called_several_methods(shades):
    cert = truerisk.certify("mlp:4", shades, two_sided=True, epochs=1)
    story = tell(cert.record)
    assert "methods" not in story.verdict
    assert "both ends" in story.verdict
    assert "method" not in story.floor.meaning
    assert "not split over both ends" in story.floor.meaning


def test_one_hold_out_is_its_own_baseline(shades):
    story = tell(truerisk.certify("mlp:4", shades, epochs=1).record)
    assert story.verdict == "The certificate is itself a hold-out bound."
    assert "the same number" in story.floor.meaning


# ---- what a user hands over ----------------------------------------------------------------------------------------


def test_a_pair_in_a_list_is_a_dataset(shades):
    first, rest = shades.take(np.arange(100)), shades.take(np.arange(100, 200))
    net = Scores(lambda scores: scores)
    pair = truerisk.certify(net, fresh=rest, trained_on=(first.X, first.y), two_sided=True)
    for same in ([first.X, first.y], [first.X.tolist(), first.y.tolist()]):
        assert truerisk.certify(net, fresh=rest, trained_on=same, two_sided=True).fit == pair.fit


def test_an_empty_list_leaves_nothing_out(shades):
    cert = truerisk.certify(Scores(lambda scores: scores), fresh=shades, trained_on=[], two_sided=True)
    assert cert.record.n_certify == 200
    assert cert.fit is None


@pytest.mark.parametrize("change", [torch.Tensor.long, torch.Tensor.bool, lambda s: s.to(torch.complex64)])
def test_outputs_that_are_no_floats_are_refused(shades, change):
    with pytest.raises(TrueriskError, match="must be real numbers"):
        truerisk.certify(Scores(change), fresh=shades, two_sided=True)


@pytest.mark.parametrize("two_sided", ["yes", 1, None])
def test_two_sided_is_true_or_false(shades, two_sided):
    with pytest.raises(TrueriskError, match="two_sided"):
        truerisk.certify("mlp:4", shades, two_sided=two_sided)
    assert truerisk.certify("mlp:4", shades, two_sided=np.bool_(True), epochs=1).risk_lower is not None


@pytest.mark.parametrize("option", [{"steps": 2}, {"batch": 5}])
def test_options_of_methods_without_a_lower_end_have_no_effect(shades, option):
    with pytest.raises(TrueriskError, match=f"none of these methods has the option {next(iter(option))}"):
        truerisk.certify("mlp:4", shades, method="all", two_sided=True, options=option)


def test_a_count_that_stops_midway_leaves_gradients_on(shades):
    """In a notebook the traceback of an interrupt keeps generators alive; training must still work after it."""
    pieces = _logits(Scores(lambda scores: scores), shades.X)
    next(pieces)
    assert torch.is_grad_enabled()


# ---- ends that are too good ----------------------------------------------------------------------------------------

ODD = {
    "float16": lambda s: s.half(),
    "bfloat16": lambda s: s.bfloat16(),
    "float64": lambda s: s.double(),
    "subnormal": lambda s: s * 1e-44,
    "huge": lambda s: s * 3e38,
    "an offset": lambda s: s + 1e6,
    "more columns": lambda s: torch.cat([s, s], dim=1),
    "dead": lambda s: (s - 9).relu(),
    "ties on some": lambda s: torch.where(s[:, :1] > 0.5, 0.0, s),
}


@pytest.mark.parametrize("what", ODD)
def test_the_answers_lie_between_the_counts_of_both_ends(shades, what):
    cert = truerisk.certify(Scores(ODD[what]), fresh=shades, trained_on=np.arange(50), two_sided=True)
    wrong = cert.predictor(shades.X) != shades.y
    counts = cert.record.counts
    assert counts[f"floor{SURE}"] <= wrong[50:].sum() <= counts["floor"]
    assert cert.risk_lower <= wrong[50:].mean() <= cert.risk_bound
    assert cert.fit.training_error == wrong[:50].mean()


# ---- a forger ------------------------------------------------------------------------------------------------------


def claimed(cert: truerisk.Certificate, data: Data, folder: Path, values: dict[str, int]) -> Path:
    """The same evidence with other counts, and everything that follows from them."""
    settings, made = settings_of(cert), cert.frozen
    counts = settings.method.count(settings, data, made, made.seed)
    return saved(sealed(settings, data, cert.evidence, counts.claiming(cert.record.counts | values)), folder)


def test_no_error_is_without_ties_that_is_none_with_them(shades, tmp_path):
    """Near ties explain a few errors more or less, but never more of the sure ones than of all."""
    right = torch.from_numpy(shades.y[:100])

    class Hint(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            label = (x.flatten(1)[:, 0] * 100).round().long()
            leads = torch.where(x.flatten(1)[:, 1] > 0.5, 1.0, 1e-6)
            return 1 + self.scale * nn.functional.one_hot(label, 10) * leads[:, None]

    X = np.zeros((100, 64), np.float32)
    X[:, 0], X[:, 1], X[:, 2] = right / 100, np.arange(100) % 2, np.arange(100)
    X[1::2, 0] = ((right[1::2] + 1) % 10) / 100
    data, net = Data("hints", X, right.numpy(), 10), Hint()
    cert = truerisk.certify(net, fresh=data, two_sided=True)
    assert cert.record.counts == {"floor": 50, f"floor{SURE}": 50}
    forged = claimed(cert, data, tmp_path, {f"floor{SURE}": 53})
    assert json.loads((forged / "certificate.json").read_text())["risk_lower"] > cert.risk_lower
    with pytest.raises(VerificationError, match="more than with ties"):
        truerisk.verify(forged, data=data, model=net)


def test_sampled_errors_too(shades, tmp_path):
    cert = truerisk.certify("mlp:4", shades, method="pac-bayes-kl", two_sided=True, epochs=1)
    forged = claimed(cert, shades, tmp_path, {f"draws{SURE}": cert.record.counts["draws"] + 10})
    with pytest.raises(VerificationError, match="more than with ties"):
        truerisk.verify(forged, data=shades)


def test_a_folder_of_the_format_before_is_refused(shades, tmp_path):
    folder = saved(truerisk.certify("mlp:4", shades, two_sided=True, epochs=1), tmp_path)
    claims = json.loads((folder / "certificate.json").read_text())
    (folder / "certificate.json").write_text(json.dumps(claims | {"format": 4}))
    with pytest.raises(VerificationError, match="has format 4, but this version of truerisk reads format 5"):
        truerisk.verify(folder, data=shades)


# ---- the charge ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", [lambda X: 1 - X, lambda X: 255 - 255 * X.reshape(-1, 64), lambda X: -3 * X])
def test_inverted_images_are_the_same_rows(changed):
    """Black on white in place of white on black: a linear scaling that hid the authors' looks."""
    digits = load("digits")
    assert Data("inverted", changed(digits.X), digits.y, 10).known == "digits"
