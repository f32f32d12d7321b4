"""Networks to bytes and back. The twin decoder is written out here, on the plain reader of the coder's tests."""

import copy
import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from truerisk.codes import bits, decode, encode, quantize
from truerisk.codes.quantize import STEPS
from truerisk.errors import TrueriskError


def build(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2)).eval()


def weights(module):
    return {name: p.detach().clone() for name, p in module.named_parameters()}


def same(one, other):
    mine, theirs = weights(one), weights(other)
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def on_grid(start, seed, density, step, on_start):
    """A network with random whole numbers, by the definition: background + step * number."""
    rng = np.random.default_rng(seed)
    twin = copy.deepcopy(start)
    with torch.no_grad():
        for p in twin.parameters():
            numbers = (rng.random(p.shape) < density) * rng.integers(-20, 21, p.shape)
            p.copy_(torch.from_numpy(p.numpy().astype(np.float64) * on_start + step * numbers).float())
    return twin


@given(st.integers(0, 2**31), st.sampled_from([0.0, 0.1, 1.0]), st.sampled_from(STEPS.tolist()), st.booleans())
@settings(deadline=None, max_examples=60)
def test_round_trip(seed, density, step, on_start):
    start = build()
    network = on_grid(start, seed, density, step, on_start)
    code = encode(network, start)
    again = decode(code, start)
    assert same(again, network)
    assert not again.training
    assert encode(again, start) == code


def plain_decode(code, shapes):
    """Weights on the background 0, from the description in words; no package code.

    Numbers of any size, one interval; `ask` keeps counts of the answers to each kind of question.
    """
    value, low, width, point, counts = int.from_bytes(code), 0, 1 << 56, 56, Counter()

    def coin(no=1, yes=1):
        nonlocal low, width, point
        shift = point - 8 * len(code)
        here = value << shift if shift >= 0 else value >> -shift
        middle = low + width * no // (no + yes)
        answer = here >= middle
        low, width = (middle, low + width - middle) if answer else (low, middle - low)
        while width <= 1 << 48:
            low, width, point = low << 8, width << 8, point + 8
        return answer

    def ask(*question):
        answer = coin(2 * counts[question, False] + 1, 2 * counts[question, True] + 1)
        counts[question, answer] += 1
        return answer

    def number(name, shape, place, known, order):
        axes = [a for a in range(2, len(shape)) if shape[a] > 1] or ([1] if len(shape) > 1 else [])
        around = [known[tuple(p - (a == axis) for a, p in enumerate(place))] for axis in axes if place[axis]]
        signs = [1 if other > 0 else -1 for other in around if other]
        far = sum(other != 0 for other in order[-50:])
        if not ask(name, "nonzero", min(len(signs), 2), (far > 1) + (far > 5)):
            return 0
        lean, text, digits = sum(signs), "1", 1
        same = ask(name, "same", abs(lean)) if lean else coin()
        while digits < 15 and ask(name, "longer", digits):
            digits += 1
        while len(text) < digits:
            text += str(int(ask(name, "second", digits) if len(text) == 1 else coin()))
        return int(text, 2) if same == (lean >= 0) else -int(text, 2)

    result = {}
    for name, shape in shapes.items():
        assert not ask("on start")
        numbers, order, step = np.zeros(shape), [], 0.0
        if ask("used"):
            exponent = int("".join(str(int(coin())) for _ in range(4)), 2) - 10
            step = (1.5 if coin() else 1.0) * 2.0**exponent
            places = itertools.product(*map(range, shape))
            for place in sorted(places, key=lambda p: (p[1], p[0], *p[2:]) if len(p) > 1 else p):
                numbers[place] = number(name, shape, place, numbers, order)
                order.append(int(numbers[place]))
        result[name] = (step * numbers).astype(np.float32)
    return result


@pytest.mark.parametrize("density", [0.0, 0.1, 0.7])
def test_a_decoder_written_out_plainly_rebuilds_the_network(density):
    start = build()
    network = on_grid(start, 5, density, 0.1875, on_start=False)
    if density:
        network[3].bias.data.zero_()  # a tensor that is not used
    mine = plain_decode(encode(network, start), {name: tuple(w.shape) for name, w in weights(start).items()})
    for name, w in weights(network).items():
        np.testing.assert_array_equal(mine[name], w.numpy())


def test_bits_is_the_size_of_the_file(tmp_path):
    start = build()
    code = encode(on_grid(start, 1, 0.3, 0.5, on_start=False), start)
    path = tmp_path / "network.code"
    path.write_bytes(code)
    assert bits(code) == 8 * path.stat().st_size
    assert same(decode(path.read_bytes(), start), decode(code, start))


def test_the_start_network_itself_and_the_network_of_zeros_cost_a_few_flags():
    start = build()
    zeros = copy.deepcopy(start)
    for p in zeros.parameters():
        p.data.zero_()
    for network in (start, zeros):
        code = encode(network, start)
        assert bits(code) <= 16
        assert same(decode(code, start), network)


def test_a_cut_or_extended_code_is_refused():
    start = build()
    code = encode(on_grid(start, 2, 0.4, 0.5, on_start=False), start)
    for length in range(len(code)):
        with pytest.raises(TrueriskError):
            decode(code[:length], start)
    for more in (b"\0", b"\xff", b"\0" * 40):
        with pytest.raises(TrueriskError, match="not the code"):
            decode(code + more, start)


def test_a_changed_code_is_refused_or_is_the_code_of_another_network():
    """There is no redundancy to find every change by; but no bytes decode that `encode` would not have written."""
    start = build()
    code = encode(on_grid(start, 3, 0.4, 0.5, on_start=False), start)
    outcomes = Counter()
    for place in range(bits(code)):
        changed = bytearray(code)
        changed[place // 8] ^= 1 << place % 8
        try:
            other = decode(bytes(changed), start)
        except TrueriskError:
            outcomes["refused"] += 1
        else:
            outcomes["decoded"] += 1
            assert not same(other, decode(code, start))
    assert outcomes["refused"] > 0.5 * bits(code)


def test_random_bytes_are_refused():
    rng = np.random.default_rng(0)
    start = build()
    for length in (0, 1, 3, 30, 300):
        with pytest.raises(TrueriskError):
            decode(rng.bytes(length), start)


def test_quantize_rounds_to_the_nearest_step_and_prunes_the_dead_zone():
    start = build()
    network = quantize(start, start, 0.13, dead_zone=1.0)  # the nearest step is 1/8
    for before, after in zip(weights(start).values(), weights(network).values(), strict=True):
        units = before.double() / 0.125
        expected = torch.where(units.abs() < 1, 0.0, units.round()) * 0.125
        assert torch.equal(after.double(), expected)
    assert any(bool((w == 0).any()) for w in weights(network).values())
    assert same(decode(encode(network, start), start), network)


def test_quantize_takes_a_step_for_each_tensor():
    start = build()
    steps = {name: 2.0**-k for k, name in enumerate(weights(start))}
    for (name, w), before in zip(weights(quantize(start, start, steps)).items(), weights(start).values(), strict=True):
        assert torch.equal(w, (before / steps[name]).round() * steps[name])


def test_finer_steps_cost_more_bits_and_change_less():
    start = build()
    trials = [quantize(start, start, step) for step in (0.25, 1 / 16, 1 / 64)]
    lengths = [bits(encode(network, start)) for network in trials]
    before = weights(start)
    changes = [max(float((w - before[name]).abs().max()) for name, w in weights(n).items()) for n in trials]
    assert lengths == sorted(lengths)
    assert changes == sorted(changes, reverse=True)


def test_what_is_not_on_the_grid_is_refused():
    start = build()
    network = build(seed=1)
    with pytest.raises(TrueriskError, match="quantize them first"):
        encode(network, start)


def test_other_architectures_are_refused():
    start = build()
    with pytest.raises(TrueriskError, match="architecture"):
        encode(nn.Linear(3, 2), start)


def test_buffers_and_frozen_weights_must_be_those_of_the_start():
    start = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    network = copy.deepcopy(start)
    network[1].running_mean += 1
    with pytest.raises(TrueriskError, match="running_mean"):
        encode(network, start)
    frozen = copy.deepcopy(start)
    frozen[0].bias.requires_grad_(False)
    moved = copy.deepcopy(frozen)
    moved[0].bias.data += 1
    with pytest.raises(TrueriskError, match=r"0\.bias"):
        encode(moved, frozen)
    assert same(decode(encode(frozen, frozen), frozen), frozen)


def test_other_precisions_are_refused():
    with pytest.raises(TrueriskError, match="float32"):
        encode(nn.Linear(2, 2).double(), nn.Linear(2, 2).double())


def test_nothing_trainable():
    with pytest.raises(TrueriskError, match="nothing to encode"):
        encode(nn.ReLU(), nn.ReLU())


def test_decoding_leaves_the_start_network_alone():
    start = build()
    before = copy.deepcopy(start)
    decode(encode(on_grid(start, 4, 0.5, 1.0, on_start=False), start), start)
    assert same(start, before)
