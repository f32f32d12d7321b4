"""The search for short codes: what it finds is a valid code, and it finds nothing where there is nothing."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.bounds import kl_inverse
from truerisk.codes import bits, compress, decode, encode
from truerisk.codes.compress import Latent, Prices
from truerisk.codes.integers import code_integers
from truerisk.codes.network import encode_numbers
from truerisk.codes.quantize import Rounded
from truerisk.data import load
from truerisk.nets import count_errors, mlp
from truerisk.training import Plan

DELTA = 0.05
PLAN = Plan(epochs=8, batch_size=32, lr=0.05)


def build(seed=0):
    torch.manual_seed(seed)
    return mlp((1, 8, 8), 10, hidden=(20,)).eval()


def bound(code, start, X, y):
    """The Chernoff form of the description length bound: kl(errors/n, risk) <= (bits ln 2 + ln(1/delta)) / n."""
    errors, _ = count_errors(decode(code, start), X, y)
    return kl_inverse(errors / len(y), (bits(code) * math.log(2) + math.log(1 / DELTA)) / len(y))


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(scope="module")
def short(digits):
    return compress(build(), digits.X, digits.y, PLAN)


def test_digits_get_a_short_code_that_says_something(digits, short):
    start = build()
    assert encode(decode(short, start), start)  # the weights are on the grid
    assert bound(short, start, digits.X, digits.y) < 0.6
    assert bits(short) < 2_000


def test_the_same_seed_gives_the_same_bytes(digits):
    X, y = digits.X[:300], digits.y[:300]
    codes = [compress(build(), X, y, Plan(epochs=2, batch_size=50, lr=0.05, seed=s)) for s in (0, 0, 1)]
    assert codes[0] == codes[1] != codes[2]


def test_random_labels_certify_nothing(digits):
    rng = np.random.default_rng(0)
    y = rng.permutation(digits.y)
    for price in (0.5, 6.0):
        code = compress(build(), digits.X, y, Plan(epochs=4, batch_size=32, lr=0.05), price=price)
        assert bound(code, build(), digits.X, y) > 0.88  # the most frequent digit is 10.2 % of them


def test_a_higher_price_gives_a_shorter_code_with_more_errors(digits, short):
    start = build()
    dear = compress(start, digits.X, digits.y, PLAN, price=20.0)
    assert bits(dear) < 0.8 * bits(short)
    errors = [count_errors(decode(code, start), digits.X, digits.y)[0] for code in (short, dear)]
    assert errors[0] < errors[1]


def test_the_start_network_is_left_as_it_was(digits):
    start = build().train()
    compress(start, digits.X[:50], digits.y[:50], Plan(epochs=1, batch_size=50, lr=0.05))
    for mine, fresh in zip(start.parameters(), build().parameters(), strict=True):
        assert torch.equal(mine, fresh)
    assert start.training


def test_norm_layers_keep_their_gains():
    """A gain that is not told stays 1, not 0: its background is the start network."""
    torch.manual_seed(0)
    start = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2)).eval()
    X = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    y = (X[:, 0] > 0).astype(np.int64)
    network = decode(compress(start, X, y, Plan(epochs=20, batch_size=20, lr=0.05)), start)
    assert bool((network[1].weight == 1).any())
    assert count_errors(network, X, y)[0] < 40


def test_latent_weights_are_those_of_the_code():
    """What is trained, what is encoded and what is decoded are one network, to the last bit."""
    start = build()
    latent = Latent(start)
    with torch.no_grad():
        for u, log_step in zip(latent.units, latent.log_steps, strict=True):
            u.mul_(7.3)
            log_step.add_(0.3)
    decoded = dict(decode(encode_numbers(latent.numbers()), start).named_parameters())
    for name, weights in latent.weights().items():
        assert torch.equal(weights, decoded[name])


def test_gradients_go_straight_through_the_rounding():
    latent = Latent(build())
    weights = latent.weights()
    sum(w.sum() for w in weights.values()).backward()
    numbers = latent.numbers()
    for name, u, log_step in zip(latent.names, latent.units, latent.log_steps, strict=True):
        step = math.exp(float(log_step.detach()))
        grid = float(weights[name].detach().abs().max()) / max(1, np.abs(numbers[name].numbers).max())
        np.testing.assert_allclose(u.grad.numpy(), grid, rtol=1e-5) if grid else None
        np.testing.assert_allclose(float(log_step.grad), step * numbers[name].numbers.sum(), rtol=1e-4, atol=1e-4)


def test_the_price_of_a_weight_is_about_what_it_adds_to_the_code():
    """One more unit somewhere: the mean change of the code's length over many places, against the mean price.

    Both are means over the same 150 places. The price leaves out that a new number changes the contexts of those
    after it (in a sparse array that is a few bits), hence the wide tolerance.
    """
    rng = np.random.default_rng(1)
    values = (rng.random((40, 50)) < 0.1) * rng.choice([-2, -1, 1, 2], (40, 50))
    tensor = Rounded(10, False, values)
    prices = Prices()
    prices.look({"w": tensor})
    units = torch.zeros(values.shape, requires_grad=True)
    prices.bits("w", units + 0.5).backward()
    places = np.argwhere(values == 0)[::12]
    before = exact_bits(values)
    added, priced = [], []
    for place in map(tuple, places):
        more = values.copy()
        more[place] = 1
        added.append(exact_bits(more) - before)
        priced.append(float(units.grad[place]))
    assert np.mean(priced) == pytest.approx(np.mean(added), rel=0.15)


def exact_bits(values):
    """The length before it is rounded up to bytes: minus log2 of the probability of all answers."""

    class Adder:
        total = 0.0

        def decide(self, odds, answer=False):
            self.total -= math.log2((odds.yes if answer else odds.no) / (odds.yes + odds.no))
            odds.learn(answer)
            return answer

    adder = Adder()
    code_integers(adder, values.shape, values)
    return adder.total
