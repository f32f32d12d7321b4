"""One text for each outcome: short sentences, few lines, and no claim that the numbers do not make."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tours.outcomes import OUTCOMES

import truerisk
from truerisk.certificates.given import Given
from truerisk.cli.tour import LINES, WIDTH, lines
from truerisk.data import load


@pytest.fixture(params=list(OUTCOMES))
def outcome(request):
    return OUTCOMES[request.param]


@pytest.fixture
def usual():
    return OUTCOMES["usual"]


def sentences(text):
    return re.split(r"(?<=[.!?]) (?=[A-Z])", text)


def everything(story):
    for act in story.acts:
        yield from (act.question, act.answer, *act.text, act.brief, act.caption, *act.notes)
    yield from (story.headline, story.lead, story.left_out)


def test_the_terminal_gets_25_lines_of_80_columns(outcome):
    told = lines(outcome, Path("truerisk-out"))
    assert len(told) <= LINES
    assert max(map(len, told)) <= WIDTH


def test_sentences_are_short(outcome):
    for text in everything(outcome.story):
        for sentence in sentences(text):
            assert len(sentence.split()) <= 30, sentence


def test_captions_are_short(outcome):
    for act in outcome.story.acts:
        assert len(sentences(act.caption)) <= 3
        assert len(act.caption.split()) <= 60


def test_headlines_have_at_most_14_words(outcome):
    for text in (outcome.story.headline, *(act.answer for act in outcome.story.acts)):
        assert len(text.split()) <= 14, text


def test_percent_is_written_without_a_space(outcome):
    assert not [text for text in everything(outcome.story) if " %" in text]


def test_interpolation_is_claimed_only_where_it_happened():
    said = {name: " ".join(everything(tour.story)) for name, tour in OUTCOMES.items()}
    assert "Both interpolate" in said["usual"]
    assert [name for name, text in said.items() if "Both interpolate" not in text] == [
        "not memorized",
        "nothing fits",
        "only random fits",
    ]
    assert "neither" not in said["only random fits"]
    assert "the first still errs on 2.0% of its own" in said["only random fits"]
    assert "The training error is the same" not in said["nothing fits"]
    assert "still errs on 41.0% of its own: it has not memorized them all" in said["not memorized"]
    assert "neither fits them all" in said["nothing fits"]
    assert "Only one of them has learned" not in said["not memorized"]


def test_intervals_that_overlap_say_nothing():
    story = OUTCOMES["overlap"].story
    assert "overlap" in story.acts[0].answer
    assert "at most 95" not in " ".join(everything(story))
    assert "do not tell learning from memorizing" in story.headline
    assert "at least" not in story.acts[0].text[1]


def test_rare_classes_are_not_learned_by_being_rare(usual):
    """With 5.6% positives, an error of 9.3% is no sign of learning, however far from 50% it is."""
    story = OUTCOMES["imbalanced"].story
    assert "has learned" not in story.headline
    assert "most common class errs on 5.6%" in story.acts[0].brief
    assert "most common class" not in " ".join(everything(usual.story))


def test_training_error_is_not_blamed_where_it_tells():
    """A network that fits true labels better than random ones has a training error that says something."""
    for name in ("not memorized", "nothing fits"):
        assert OUTCOMES[name].story.headline.startswith("This network learned the true labels")
    assert OUTCOMES["only random fits"].story.headline.startswith("One network memorized random labels")


def test_the_direction_of_the_kl_is_that_of_the_numbers():
    assert "206 times as large" in OUTCOMES["usual"].story.acts[1].answer
    assert "smaller by a factor of 1.9" in OUTCOMES["falls"].story.acts[1].answer
    hardly = OUTCOMES["hardly moves"].story.acts[1]
    assert "almost the same KL" in hardly.answer
    assert "did not end at the same place twice" in " ".join(hardly.text)


def test_parts_that_were_left_out_are_named():
    story = OUTCOMES["left out"].story
    assert "progressive validation" in story.left_out
    assert "compressed network" in story.left_out
    assert "left out" in story.acts[1].text[0]
    assert "nothing to compare" in story.acts[2].text[0]


def test_a_refusal_is_told():
    assert "No twin was made: the network cannot be followed" in OUTCOMES["no twin"].story.acts[1].text[0]
    assert any("too few examples" in note for note in OUTCOMES["refused"].story.acts[2].notes)
    assert OUTCOMES["refused"].story.acts[2].answer == "No method certifies anything here."


def test_the_default_is_called_smallest_only_where_it_is(usual):
    assert (
        "The default is hold-out: it certifies one fixed network, and its bound is the smallest here."
        in usual.story.acts[2].text[1]
    )
    other = replace(usual, costs=replace(usual.costs, default="pac-bayes-kl"))
    assert other.story.acts[2].text[1] == "The default is pac-bayes-kl."
    assert "smallest here" not in OUTCOMES["left out"].story.acts[2].brief  # of one
    assert "smallest here" not in OUTCOMES["refused"].story.acts[2].brief  # it says nothing


def test_words_are_explained_where_they_are_used(usual):
    first, second, third = usual.story.acts
    assert "Both interpolate: they classify all" in first.brief
    assert "KL: how far random weights around the trained ones are from a prior, fixed before any data" in second.brief
    assert "The rescaling carries Q along" in second.text[1]
    assert "Certified error at most: hold-out test 3.5%" in third.brief
    assert "Says nothing: PAC-Bayes rescaled" in third.brief
    assert "Not for this network or data: progressive validation" in OUTCOMES["refused"].story.acts[2].brief
    assert not [text for text in everything(usual.story) if " nats" in text]


def test_the_lines_of_code_can_be_pasted():
    """Each needs no more than build and data."""
    data = load("digits").take(range(200))
    known = {"truerisk": truerisk, "build": "mlp:8", "data": (data.X, data.y)}
    first, second, _ = (act.code for act in OUTCOMES["usual"].story.acts)
    said = []
    eval(first, known | {"print": said.append})
    assert "of unseen examples" in said[0]
    shorter = second.replace("data)", "data, only=['l2-norm', 'path-norm-l1'], times=1)")
    assert eval(shorter, known) == ["l2-norm"]


def test_commands_name_data_and_model():
    verify = OUTCOMES["own"].story.verify
    assert verify[0] == "truerisk verify OUT/tour/true-labels --data mine.npz --model net.py:build"
    assert verify[1].endswith("random-labels --data OUT/tour/random-labels.npz --model net.py:build")
    assert not [line for line in verify if "pac-bayes" in line]


def test_control_characters_do_not_reach_the_terminal(usual):
    hostile = replace(usual, subject=replace(usual.subject, model="\x1b[2J", given=Given("\x1b[2J")))
    assert not [line for line in lines(hostile, Path("out")) if "\x1b" in line]
