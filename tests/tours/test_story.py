"""One text for each outcome: short sentences, few lines, and no claim that the numbers do not make."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tours.outcomes import OUTCOMES

from truerisk.cli.tour import LINES, WIDTH, lines


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
    assert [name for name, text in said.items() if "Both interpolate" not in text] == ["not memorized", "nothing fits"]
    assert "still errs on 41.0% of its own: it has not memorized them all" in said["not memorized"]
    assert "neither fits them all" in said["nothing fits"]
    assert "Only one of them has learned" not in said["not memorized"]


def test_intervals_that_overlap_say_nothing():
    story = OUTCOMES["overlap"].story
    assert "overlap" in story.acts[0].answer
    assert "at most 95" not in " ".join(everything(story))
    assert "too few" in story.headline


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
        "The default is hold-out: it certifies a plain network and it has the smallest bound here."
        in usual.story.acts[2].text[1]
    )
    other = replace(usual, costs=replace(usual.costs, default="pac-bayes-kl"))
    assert "The default is pac-bayes-kl. " in other.story.acts[2].text[1]


def test_commands_name_data_and_model():
    verify = OUTCOMES["own"].story.verify
    assert verify[0] == "truerisk verify OUT/tour/true-labels --data mine.npz --model net.py:build"
    assert verify[1].endswith("random-labels --data OUT/tour/random-labels.npz --model net.py:build")
    assert not [line for line in verify if "pac-bayes" in line]


def test_control_characters_do_not_reach_the_terminal(usual):
    hostile = replace(usual, subject=replace(usual.subject, model="\x1b[2J", data_option="--data \x1b[2J"))
    assert not [line for line in lines(hostile, Path("out")) if "\x1b" in line]
