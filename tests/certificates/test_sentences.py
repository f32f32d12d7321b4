"""What a certificate says of the error rate that was observed: whose, and on how many examples."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from certificates import golden

import truerisk
from truerisk.certificates.checking.reading import record_of
from truerisk.certificates.counts import RescaledKL
from truerisk.certificates.methods import METHODS
from truerisk.certificates.methods.base import DETERMINISTIC
from truerisk.certificates.story import tell
from truerisk.data import Data, load
from truerisk.nets import mlp
from truerisk.pacbayes import monte_carlo
from truerisk.report.certificate import render

N, CERTIFY = 240, 120  # examples, and those that certify next to a split prior
ON_ALL = f"on the {N} certification examples"
SEEN = {
    "hold-out": f"error rate of the network on the {CERTIFY} certification examples",
    "pac-bayes-kl": f"error rate of the sampled networks on the {CERTIFY} certification examples",
    "single-draw": f"error rate of the sampled network on the {CERTIFY} certification examples",
    "progressive": f"error rate of the networks on their test blocks, {CERTIFY} examples",
    "pick-to-learn": "error rate of the network on the certification examples that were not picked",
    "recursive": f"error rate of networks sampled from the last posterior on the {N // 2} examples of its step",
    "description-length": f"error rate of the compressed network {ON_ALL}",
    "pac-bayes-around": f"error rate of the sampled networks {ON_ALL}",
    "single-draw-around": f"error rate of the sampled network {ON_ALL}",
    "disagreement": "error rate of the surrogate on certification examples, plus disagreement rate on unlabeled inputs",
}
DATA_FREE = ("recursive", "description-length")


@pytest.fixture(scope="module", params=list(METHODS))
def record(request):
    """A small certificate by each method."""
    digits = load("digits")
    some, others = (digits.take(range(*ends)) for ends in ((0, N), (N, 2 * N)))
    data = Data("some digits", some.X, some.y, some.classes)
    arguments = {"method": request.param, "epochs": 1, "tried": 1}
    if METHODS[request.param].name in ("pac-bayes-around", "single-draw-around", "disagreement"):
        arguments["weights"] = mlp(data.input_shape, data.classes, (4,)).state_dict()
    elif request.param not in DATA_FREE:
        arguments["prior"] = "split:0.5"
    if request.param == "disagreement":
        arguments["unlabelled"] = others
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(monte_carlo, "TRIALS", 2000)
        return truerisk.certify("mlp:4", data, **arguments).record


def test_whose_error_rate_and_on_how_many_examples(record):
    text = tell(record).seen.brief
    assert text == SEEN[record["method"]]
    page = " ".join(re.sub("<[^>]*>", " ", render(record)).split())
    shown = re.search(
        r"Observed error [\d.]+% (.*?)(?:, [\d,]+ errors(?: (?:in|on) [\d,]+ \w+)?)?\. This is an observation", page
    )
    assert shown
    assert shown[1].lower() == text.lower()


def test_a_short_headline_and_a_sentence_that_is_complete_alone(record):
    """How the predictor samples follows in a second sentence, which terminal and page show as a subtitle."""
    story = tell(record)
    assert f"{story.headline} {story.subtitle}".rstrip() == record.sentence
    assert len(story.headline.split()) <= 14
    assert bool(story.subtitle) == (record.settings.method.predictor != DETERMINISTIC)
    older = replace(record, sentence="With 95 % confidence, as it was once said.")
    assert (tell(older).headline, tell(older).subtitle) == (older.sentence, "")


def test_the_count_behind_it(record):
    """The rate is a count over as many trials as the text says."""
    found = re.findall(r"([\d,]+) (?:certification )?examples", tell(record).seen.brief)
    if not found:
        pytest.skip("the text names no number")
    n = int(found[0].replace(",", ""))
    draws = record["steps"][-1]["draws"] if record["method"] == "recursive" else record["draws"]
    trials = n * (draws["passes"] if draws else 1)
    errors = record["empirical_risk"] * trials
    assert errors == pytest.approx(round(errors), abs=1e-6)
    if draws:
        assert draws["n"] == n
    if record["method"] == "recursive":
        last = f"step {len(record['steps'])}: "
        assert round(errors) == sum(record["counts"][last + kind] for kind in ("only the new one wrong", "both wrong"))


@pytest.mark.parametrize(
    ("kls", "told"), [((465.0, 0.4, 0.3), False), ((0.4, 0.3, 0.2), True), ((0.4, 0.4, 0.4), False)]
)
def test_a_chain_is_a_hold_out_bound_in_disguise_only_if_no_step_learnt_anything(kls, told):
    """The KL of the last step alone says nothing: the steps before it may have learned everything."""
    kept = json.loads((golden.GOLDENS / "recursive.json").read_text())["record"]
    for step, kl in zip(kept["steps"], kls, strict=True):
        step["kl"] = kl
    kept["kl"] = kept["rescaling"]["rescaled"] = kls[-1]
    found = record_of(kept | {"software": {}, "version": "0", "made": "2026-11-17T21:14:12Z"})
    assert bool(found.settings.method.disguise(found.derivation)) == told


def test_a_surrogate_in_disguise_is_told_as_the_surrogates(record):
    """The network that is certified has no KL of its own."""
    if record["method"] == "disagreement":
        found = record.settings.method
        assert "surrogate's posterior moved" in replace(found, surrogate=METHODS["pac-bayes-kl"]()).disguise(
            replace(record.derivation, kl=RescaledKL(0.5, 0.5))
        )
