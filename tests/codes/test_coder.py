"""The arithmetic coder and the model of whole numbers. The twins work with unlimited whole numbers and plain loops."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from truerisk.codes.coder import Fair, Odds, Reader, Writer
from truerisk.codes.integers import code_integers, contexts, input_major
from truerisk.errors import TrueriskError


class PlainReader:
    """The interval as two whole numbers of any size, in units of 2^-point; the code as one number."""

    def __init__(self, code):
        self.code, self.low, self.width, self.point = code, 0, 1 << 56, 56

    def decide(self, no, yes):
        middle = self.low + self.width * no // (no + yes)
        value = (int.from_bytes(self.code) << max(0, self.point - 8 * len(self.code))) >> max(
            0, 8 * len(self.code) - self.point
        )
        answer = value >= middle
        self.low, self.width = (middle, self.low + self.width - middle) if answer else (self.low, middle - self.low)
        while self.width <= 1 << 48:
            self.low, self.width, self.point = self.low << 8, self.width << 8, self.point + 8
        return answer


def plain_integers(reader, shape):
    """The model, written out: counts of answers by kind of question, numbers by their coordinates."""
    counts, numbers, order = Counter(), {}, []

    def ask(*question):
        answer = reader.decide(2 * counts[question, False] + 1, 2 * counts[question, True] + 1)
        counts[question, answer] += 1
        return answer

    def signs_around(place):
        axes = [a for a in range(2, len(shape)) if shape[a] > 1] or ([1] if len(shape) > 1 else [])
        around = [tuple(p - (a == axis) for a, p in enumerate(place)) for axis in axes if place[axis] > 0]
        return [1 if numbers[other] > 0 else -1 for other in around if numbers[other]]

    def number(place):
        around, far = signs_around(place), sum(value != 0 for value in order[-50:])
        if not ask("nonzero", min(len(around), 2), (far > 1) + (far > 5)):
            return 0
        lean = sum(around)
        same = ask("same", abs(lean)) if lean else reader.decide(1, 1)
        positive = same if lean >= 0 else not same
        digits = 1
        while digits < 15 and ask("longer", digits):
            digits += 1
        text = "1"
        while len(text) < digits:
            text += str(int(ask("second", digits) if len(text) == 1 else reader.decide(1, 1)))
        return int(text, 2) if positive else -int(text, 2)

    places = itertools.product(*map(range, shape))
    # All weights that read one input come together: the second axis leads.
    for place in sorted(places, key=lambda p: (p[1], p[0], *p[2:]) if len(p) > 1 else p):
        numbers[place] = number(place)
        order.append(numbers[place])
    return numbers


def written(values):
    writer = Writer()
    code_integers(writer, values.shape, values)
    return writer.finish()


sparse = arrays.arrays(
    np.int64,
    arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6),
    elements=st.one_of(st.just(0), st.integers(-3, 3), st.integers(-(2**15) + 1, 2**15 - 1)),
)


@given(sparse)
@settings(deadline=None)
def test_round_trip(values):
    code = written(values)
    again = code_integers(Reader(code), values.shape)
    assert again.shape == values.shape
    np.testing.assert_array_equal(again, values)


@given(sparse)
@settings(deadline=None)
def test_a_plain_decoder_reads_the_same(values):
    numbers = plain_integers(PlainReader(written(values)), values.shape)
    assert all(values[place] == number for place, number in numbers.items())
    assert len(numbers) == values.size


def test_a_long_sparse_array_and_its_plain_decoder():
    rng = np.random.default_rng(0)
    values = (rng.random((12, 9, 3, 3)) < 0.1) * rng.integers(-40, 41, (12, 9, 3, 3))
    numbers = plain_integers(PlainReader(written(values)), values.shape)
    assert all(values[place] == number for place, number in numbers.items())


def probability(values):
    """The model's probability of an array, exactly: the product of the odds of its decisions."""

    class Product:
        total = Fraction(1)

        def decide(self, odds, answer=False):
            self.total *= Fraction(odds.yes if answer else odds.no, odds.yes + odds.no)
            odds.learn(answer)
            return answer

    product = Product()
    code_integers(product, values.shape, values)
    return product.total


@pytest.mark.parametrize("density", [0.0, 0.02, 0.3, 1.0])
def test_the_length_is_that_of_the_probability_rounded_up_to_bytes(density):
    rng = np.random.default_rng(1)
    values = (rng.random(2_000) < density) * rng.integers(-5, 6, 2_000)
    p = probability(values)
    ideal = math.log2(p.denominator) - math.log2(p.numerator)
    # 8 bits for whole bytes, 1 for an interval that lies across, and what the truncated cuts lose: next to nothing
    assert ideal - 1e-3 <= 8 * len(written(values)) <= ideal + 9.1


def test_probabilities_of_one_number():
    """0 has 1/2; of the rest, half has more than one digit, half of that more than two. So -3 to 3 have 7/8."""
    assert probability(np.array([0])) == Fraction(1, 2)
    assert sum(probability(np.array([value])) for value in range(-3, 4)) == Fraction(7, 8)


def kraft(codes):
    assert len(set(codes)) == len(codes)
    for one, other in itertools.pairwise(sorted(codes)):
        assert not other.startswith(one)  # among sorted strings a prefix stands right before an extension
    return sum(Fraction(1, 256 ** len(code)) for code in codes)


@pytest.mark.parametrize(("size", "largest"), [(1, 127), (2, 15), (4, 2)])
def test_no_code_is_the_beginning_of_another(size, largest):
    messages = itertools.product(range(-largest, largest + 1), repeat=size)
    assert kraft([written(np.array(message)) for message in messages]) <= 1


def decisions(answers, odds):
    writer = Writer()
    for answer in answers:
        writer.decide(odds, answer)
    return writer.finish()


def test_kraft_is_tight_for_fair_coins():
    assert kraft([decisions(answers, Fair()) for answers in itertools.product((False, True), repeat=8)]) == 1


def test_bytes_that_only_begin_inside_the_interval_would_break_kraft():
    """What would be wrong: the shortest bytes inside the interval, whose extensions may leave it."""

    def sloppy(self):
        low = (int.from_bytes(self._out) << 56) + self._low
        places = 8 * len(self._out) + 56
        lengths = (n for n in range(places // 8 + 1) if -(-low >> 8 * n) << 8 * n < low + self._width)
        return places // 8 - max(lengths)

    total = Fraction(0)
    for answers in itertools.product((False, True), repeat=6):
        writer, odds = Writer(), Odds()
        for answer in answers:
            writer.decide(odds, answer)
        total += Fraction(1, 256 ** sloppy(writer))
        assert len(writer.finish()) >= sloppy(writer)
    assert total > 1


def test_a_carry_runs_through_many_bytes():
    """Yes after yes at extreme odds keeps the interval at the top; its bytes are 255 until a carry or the end."""
    for length in range(1, 60):
        answers = [True] * length + [False] * (length % 7) + [True] * 3
        odds = Odds()
        odds.no = 1 << 30
        code = decisions(answers, odds)
        again = Odds()
        again.no = 1 << 30
        reader = Reader(code)
        assert [reader.decide(again) for _ in answers] == answers


@given(st.lists(st.tuples(st.integers(1, 2**39 - 1), st.integers(1, 2**39), st.booleans()), max_size=200))
@settings(deadline=None)
def test_any_odds_come_back(questions):
    def fixed(no, yes):
        odds = Fair()
        odds.no, odds.yes = no, yes
        return odds

    writer = Writer()
    for no, yes, answer in questions:
        writer.decide(fixed(no, yes), answer)
    code = writer.finish()
    reader, plain = Reader(code), PlainReader(code)
    for no, yes, answer in questions:
        assert reader.decide(fixed(no, yes)) == plain.decide(no, yes) == answer


@pytest.mark.parametrize("shape", [(7,), (6, 9), (4, 3, 5), (3, 2, 4, 4), (2, 3, 1, 1), (3, 0, 2), ()])
@pytest.mark.parametrize("density", [0.1, 0.6])
def test_contexts_all_at_once_are_those_that_the_coder_asks_for(shape, density):
    rng = np.random.default_rng(2)
    values = np.asarray((rng.random(shape) < density) * rng.choice([-1, 1], shape), np.int64)
    asked = []

    class Listener:
        """Every number asks "is it 0?" first; a number that is not 0 then asks for its sign and its digits."""

        def decide(self, odds, answer=False):
            asked.append((odds, answer))
            return answer

    code_integers(Listener(), values.shape, values)
    context, lean = contexts(values)
    first_odds, at = {}, 0
    for value, number, sign in zip(input_major(values), context.tolist(), lean.tolist(), strict=True):
        odds, answer = asked[at]
        assert first_odds.setdefault(number, odds) is odds  # one context, one kind of odds
        assert answer == (value != 0)
        if value:
            assert isinstance(asked[at + 1][0], Fair) == (sign == 0)
            assert asked[at + 1][1] == ((value > 0) == (sign >= 0))
        at += 3 if value else 1
    assert at == len(asked)
    assert len({id(odds) for odds in first_odds.values()}) == len(first_odds)


def test_odds_beyond_the_precision_of_the_coder_are_refused():
    odds = Fair()
    odds.no = odds.yes = 2**39
    with pytest.raises(TrueriskError, match="too many weights"):
        decisions([True], odds)


def test_smooth_kernels_cost_less():
    """The same magnitudes at the same places; signs that agree with the neighbours' are cheaper than random ones."""
    rng = np.random.default_rng(5)
    smooth = np.broadcast_to(rng.choice([-1, 1], (8, 8, 1, 1)), (8, 8, 4, 4))
    rough = rng.choice([-1, 1], smooth.shape)
    assert len(written(smooth)) < 0.4 * len(written(rough))


def test_clustered_numbers_cost_less():
    """The same numbers, once together and once scattered: the contexts must tell the difference."""
    rng = np.random.default_rng(3)
    together = np.zeros((40, 50), np.int64)
    together[:, 7] = together[:, 31] = rng.choice([-1, 1], 40)
    scattered = rng.permutation(together.reshape(-1)).reshape(together.shape)
    assert len(written(together)) < 0.7 * len(written(scattered))


def test_the_order_is_input_major():
    assert input_major(np.array([[1, 2, 3], [4, 5, 6]])).tolist() == [1, 4, 2, 5, 3, 6]


def test_numbers_that_are_too_large_are_refused():
    for value in (2**15, -(2**15)):
        with pytest.raises(TrueriskError, match="coarser step"):
            written(np.array([0, value]))


def test_a_cut_code_is_not_read_on_and_on():
    rng = np.random.default_rng(4)
    values = rng.integers(-9, 10, 500)
    code = written(values)
    with pytest.raises(TrueriskError, match="ends before"):
        code_integers(Reader(code[: len(code) // 2]), values.shape)
