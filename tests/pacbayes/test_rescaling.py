"""rescaling_report: every number re-derived by plain loops, closed forms, and scipy; odd networks and data."""

import json
import math
import os
import re
from itertools import pairwise

import numpy as np
import pytest
import torch
from doors import OneLogit, Tokens, WithHidden, sentences, tumors
from scipy.optimize import minimize
from torch import nn

from truerisk import Gaussian, rescaling_report
from truerisk.data import load
from truerisk.errors import TrueriskError
from truerisk.pacbayes import COLUMNS, RescalingReport, walk
from truerisk.pacbayes.rescaling_words import assumptions, headline, lifted, moving, number, pinned, setting

SCALES = [2.0 ** (step / 2) for step in range(-20, 21)]  # of the prior, fixed beforehand
BETAS = [0.01 * 1.5**i for i in range(20)]  # of Catoni's form
SIZES = (3, 4, 2)  # inputs, hidden units, classes
Q, P = 0.05, 0.7


def net(sizes=SIZES, seed=0, factor=1.5):
    torch.manual_seed(seed)
    layers = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    made = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for p in made.parameters():
            p.mul_(factor)
    return made


def blobs(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return (rng.normal(size=(n, 3)) + 2 * y[:, None]).astype(np.float32), y


@pytest.fixture(scope="module")
def report():
    return rescaling_report(net(), blobs(), Q, P, draws=60, lifted=50)


# ---- the reference: plain loops, nothing of the package --------------------------------------------------------------


def slow_kl(module, log_factors, scale=1.0, q=Q, p=P):
    """KL of N(w, q^2) and the rescaled N(0, p^2): unit by unit, weight by weight."""
    (rows, biases), (outer, ends) = ((m.weight.tolist(), m.bias.tolist()) for m in (module[0], module[2]))
    total = 0.0

    def one(mean, sigma):
        ratio = q * q / (sigma * sigma)
        return (mean * mean / (sigma * sigma) + ratio - 1 - math.log(ratio)) / 2

    for unit in range(SIZES[1]):
        up = p * scale * math.exp(log_factors[unit])
        total += sum(one(w, up) for w in rows[unit]) + one(biases[unit], up)
        down = p * scale * math.exp(-log_factors[unit])
        total += sum(one(row[unit], down) for row in outer)
    return total + sum(one(b, p * scale) for b in ends)


def slow_columns(module):
    start = np.zeros(SIZES[1])
    best = {s: minimize(lambda t, s=s: slow_kl(module, t, s), start, tol=1e-12).fun for s in SCALES}
    return {
        "original": slow_kl(module, start),
        "tuned": min(slow_kl(module, start, s) for s in SCALES),
        "rescaled": best[1.0],
        "both": min(best.values()),
    }


def binary_kl(q, p):
    first = q * math.log(q / p) if q else 0.0
    return first + ((1 - q) * math.log((1 - q) / (1 - p)) if q < 1 else 0.0)


def inverse(q, limit):
    """The largest p with kl(q, p) <= limit."""
    low, high = q, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if middle < 1 and binary_kl(q, middle) <= limit else (low, middle)
    return high


def slow_bound(form, risk, kl, n, delta):
    price = kl + math.log(2 * math.sqrt(n) / delta)
    if form == "kl":
        return inverse(risk, price / n)
    if form == "mcallester":
        return risk + math.sqrt(price / (2 * n))
    prices = (kl + math.log(len(BETAS) / delta)) / n
    return min((1 - math.exp(-b * risk - prices)) / (1 - math.exp(-b)) for b in BETAS)


# ---- every number ---------------------------------------------------------------------------------------------------


def test_kls_of_all_columns(report):
    slow = slow_columns(net())
    for column in COLUMNS:
        assert report.kl[column] == pytest.approx(slow[column], rel=1e-6), column
    assert report.kl["both"] < report.kl["rescaled"] < report.kl["original"]
    assert report.kl["both"] < report.kl["tuned"] < report.kl["original"]


def test_the_factors_have_the_sign_that_the_sentence_says(report):
    """They move the prior; the opposite sign is another KL."""
    factors = report.best.log_scales.tolist()
    assert slow_kl(net(), factors) == pytest.approx(report.kl["rescaled"], rel=1e-9)
    assert slow_kl(net(), [-t for t in factors]) > report.kl["original"]
    told = report.to_json()["log_scales"]
    assert (told["low"], told["high"]) == (min(factors), max(factors))
    assert f"between {min(factors):.2f} and {max(factors):.2f}" in report.moved
    assert f"between {math.exp(min(factors)):.3g} and {math.exp(max(factors)):.3g}" in report.moved
    assert "move the prior" in report.moved


def test_the_moved_network_is_as_near_to_the_old_prior(report):
    moved = report.symmetry.rescale(report.posterior, -report.best.log_scales)
    assert moved.kl(report.prior) == pytest.approx(report.kl["rescaled"], rel=1e-9)


def test_the_gibbs_risk_of_one_draw_per_example():
    """Draws and their upper end: against sampled networks in a loop, and against the closed form."""
    module, (X, y) = net(), blobs()
    found = rescaling_report(module, (X, y), 1.0, P, draws=60 * 400, lifted=0)
    plan = found.estimate.plan
    assert (plan.n, plan.size, plan.passes, plan.layered) == (60, 1, 400, True)
    assert found.risk == found.estimate.errors / (60 * 400)
    noise = torch.Generator().manual_seed(1)
    wrong, rounds = 0, 1000
    with torch.no_grad():
        for _ in range(rounds):
            other = net()
            for p in other.parameters():
                p.add_(torch.randn(p.shape, generator=noise))
            wrong += int((other(torch.from_numpy(X)).argmax(1).numpy() != y).sum())
    # Each of 1,000 networks is one trial with a standard deviation of at most 1/2: 5 of 1/2/sqrt(1000), so a false
    # alarm in less than one of a million seeds.
    assert abs(found.risk - wrong / (60 * rounds)) < 5 * 0.5 / math.sqrt(rounds)
    trials = 60 * 400
    assert found.risk_upper == pytest.approx(inverse(found.risk, math.log(1 / 0.005) / trials), rel=1e-9)


def test_the_monte_carlo_end_lies_above_that_of_the_binomial(report):
    """Clopper-Pearson is the exact end for equal trials; Chernoff's must not be below it."""
    from scipy.stats import beta

    k, trials = report.estimate.errors, report.estimate.plan.n * report.estimate.plan.passes
    exact = beta.ppf(1 - 0.1 * report.delta, k + 1, trials - k)
    assert report.risk < exact <= report.risk_upper < exact + 0.05


@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_bounds_of_all_forms_and_columns(delta):
    found = rescaling_report(net(), blobs(), Q, P, draws=60, lifted=0, delta=delta)
    for form in ("kl", "mcallester", "catoni"):
        for column in COLUMNS:
            share = 0.9 * delta / (41 if column in ("tuned", "both") else 1)
            slow = slow_bound(form, found.risk_upper, found.kl[column], 60, share)
            assert found.bounds[form][column] == pytest.approx(slow, rel=1e-9), (form, column)
            assert found.bounds[form][column] >= slow * (1 - 1e-12)
    assert found.bound == found.bounds["kl"]
    assert found.bounds["kl"]["original"] <= 1


def test_sweeps(report):
    kls = report.best.kls
    assert kls[0] == report.kl["original"]
    assert kls[-1] == report.kl["rescaled"]
    assert len(kls) == report.best.sweeps + 1
    assert list(kls) == sorted(kls, reverse=True)
    assert report.to_json()["kl_per_sweep"] == list(kls)


def test_lifted_kl_is_below_the_rescaled_one(report):
    assert report.lifted.value < report.kl["rescaled"] + 5 * report.lifted.standard_error
    assert "50 sampled networks" in lifted(report)


# ---- the walk --------------------------------------------------------------------------------------------------------


def test_the_walk(report):
    walked = report.walk()
    assert len(walked.steps) == len(walked.bounds) == 122
    for step, bound in zip(walked.steps, walked.bounds, strict=True):
        assert bound == pytest.approx(slow_bound("kl", report.risk_upper, step.kl, 60, 0.9 * 0.05), rel=1e-9)
        assert step.kl >= report.kl["rescaled"] * (1 - 1e-12)
        assert step.change < 1e-13
    by_place = {step.at: step.kl for step in walked.steps[:61]}
    assert by_place[-1.0] == report.kl["original"]
    assert by_place[0.0] == report.kl["rescaled"]
    t = [0.5 * each for each in report.best.log_scales.tolist()]
    assert by_place[-0.5] == pytest.approx(slow_kl(net(), t), rel=1e-9)


def test_the_walk_does_not_move_what_is_not_drawn():
    module = batch_norm()
    found = rescaling_report(module, digits(), Q, P, draws=200, lifted=0)
    walked = found.walk()
    assert 0 < found.best.free < len(found.best.log_scales)
    assert len(walked.steps) == 122
    assert max(step.change for step in walked.steps) < 1e-12
    everything = found.symmetry.random(seed=0)
    with pytest.raises(TrueriskError, match="fix"):  # a direction that moves statistics has no KL
        found.posterior.kl(found.prior, found.symmetry.factors(everything))


def test_a_walk_where_nothing_moves_is_empty():
    found = rescaling_report(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), digits(), Q, P, draws=200, lifted=5)
    assert found.walk().steps == ()
    assert found.kl["original"] == found.kl["rescaled"]
    assert found.kl["tuned"] == found.kl["both"]
    assert moving(found) == found.moved == "Nothing in this network can be rescaled."
    assert headline([found]).startswith(("Rescaling leaves", "The bound of"))


def test_the_same_seed_walks_in_the_same_direction(report):
    given = (report.posterior, report.prior, report.symmetry, report.best.log_scales, report.inputs)
    one, two, other = (walk(*given, places=[-1.0, 0.5], seed=seed) for seed in (0, 0, 1))
    assert one == two
    assert [a.kl == b.kl for a, b in zip(one, other, strict=True)] == [True, True, False, False]


# ---- odd networks and data -------------------------------------------------------------------------------------------


def digits(n=200):
    data = load("digits")
    return data.X[:n], data.y[:n]


def batch_norm():
    torch.manual_seed(0)
    made = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 10)
    )
    made.train()
    made(torch.from_numpy(digits()[0]))
    return made.eval()


@pytest.mark.parametrize(
    ("module", "data"),
    [(WithHidden, digits), (OneLogit, tumors), (Tokens, sentences)],
    ids=["dict", "one logit", "integers"],
)
def test_networks_as_users_have_them(module, data):
    torch.manual_seed(0)
    found = rescaling_report(module(), data(), Q, 1.0, draws=1, lifted=0)
    assert found.kl["rescaled"] < found.kl["original"]
    assert 0 < found.risk <= found.risk_upper <= 1
    assert max(step.change for step in found.walk().steps) < 1e-12


def test_repeated_rows_count_each(report):
    X, y = blobs()
    twice = rescaling_report(net(), (np.tile(X, (2, 1)), np.tile(y, 2)), Q, P, draws=60, lifted=0)
    assert twice.n == 120
    assert twice.kl == report.kl
    assert twice.estimate.plan.n == 120


def test_batch_norm_statistics_are_told():
    found = rescaling_report(batch_norm(), digits(), Q, P, draws=200, lifted=2)
    assert found.best.statistics == ("2.running_mean", "2.running_var")
    assert found.to_json()["statistics"] == ["2.running_mean", "2.running_var"]
    assert any("not among the examples" in each and "2.running_mean" in each for each in assumptions([found]))
    assert any("6 channels" in place and "2.running_mean" in place for place in pinned(found))
    assert found.lifted is None
    assert "one hidden layer" in found.lifted_note or "lifted" in found.lifted_note
    assert not any("among the examples" in each for each in assumptions([plain()]))


def test_frozen_parameters_are_told():
    module = net((3, 4, 4, 2))
    module[0].weight.requires_grad_(False)
    found = rescaling_report(module, blobs(), Q, P, draws=60, lifted=0)
    assert any(each.startswith("0.weight is frozen") for each in assumptions([found]))


class OwnNorm(nn.Module):
    """Statistics under the names of torch, and a mask of integers, but not a norm of torch."""

    def __init__(self):
        super().__init__()
        self.register_buffer("running_mean", torch.tensor([0.3, 0.0, 1.0, 2.0]))
        self.register_buffer("running_var", torch.ones(4))
        self.register_buffer("mask", torch.tensor([1, 0, 1, 1]))
        self.register_buffer("nothing", torch.zeros(4))

    def forward(self, x):
        return (x - self.running_mean) / self.running_var.sqrt() * self.mask


def test_all_that_is_not_drawn_is_told_and_printed():
    module = net()
    module.insert(1, OwnNorm())
    found = rescaling_report(module, blobs(), Q, P, draws=60, lifted=0)
    assert found.frozen == ("1.running_mean", "1.running_var", "1.mask")
    assert found.to_json()["frozen"] == list(found.frozen)
    assert any(each.startswith("1.running_mean, 1.running_var, 1.mask are frozen") for each in assumptions([found]))
    assert str(found).endswith("hold only if 1.running_mean, 1.running_var, 1.mask do not depend on the examples.")


def test_statistics_of_torch_are_printed_unless_they_are_new():
    used = rescaling_report(batch_norm(), digits(), Q, P, draws=200, lifted=0)
    assert used.frozen == ()
    assert str(used).endswith("hold only if 2.running_mean, 2.running_var do not depend on the examples.")
    new = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    assert "hold only if" not in str(rescaling_report(new, blobs(), Q, P, draws=60, lifted=0))


def plain(**options) -> RescalingReport:
    return rescaling_report(net(), blobs(), Q, P, **{"draws": 60, "lifted": 0, **options})


def test_the_same_seed_gives_the_same_numbers():
    one, two, other = plain(lifted=3), plain(lifted=3), plain(lifted=3, seed=1)
    assert one.to_json() == two.to_json()
    assert one.lifted != other.lifted


def test_a_huge_posterior_has_a_risk_near_guessing_and_a_vacuous_bound():
    found = rescaling_report(net(), blobs(), 1e3, P, draws=600, lifted=3)
    assert abs(found.risk - 0.5) < 0.1  # 600 trials: 4.9 standard deviations, a false alarm in a million seeds
    assert found.vacuous("original")
    assert found.vacuous("rescaled")
    assert number(found.bound["original"]) == "1.000"
    assert "vacuous before and after" in headline([found])


def test_a_tiny_posterior_has_the_errors_of_the_network():
    X, y = blobs()
    found = rescaling_report(net(), (X, y), 1e-12, P, draws=60, lifted=3)
    with torch.no_grad():
        assert found.estimate.errors == int((net()(torch.from_numpy(X)).argmax(1).numpy() != y).sum())
    assert found.kl["original"] == pytest.approx(slow_kl(net(), [0.0] * 4, q=1e-12), rel=1e-9)


def test_printed_as_one_is_vacuous():
    """The form kl never exceeds 1: what is printed as 1.000 must not be called informative."""
    found = plain()
    assert not found.vacuous("rescaled")
    close = RescalingReport(**{**vars(found), "bounds": {**found.bounds, "kl": dict.fromkeys(COLUMNS, 0.9995)}})
    assert number(0.9995) == "1.000"
    assert close.vacuous("rescaled")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sigma_q": 1e-60}, "sigma_q is 1e-60, but must lie between"),
        ({"sigma_p": 1e60}, "sigma_p is 1e+60, but must lie between"),
        ({"sigma_q": float("nan")}, "sigma_q is nan, but must be a positive number; try 0.1."),
        ({"sigma_p": -1}, "sigma_p is -1, but must be a positive number; try 0.1."),
        ({"sigma_q": "x"}, "sigma_q of 0.weight is 'x', but must be a positive number; try 0.1."),
        ({"sigma_q": {"0": 0.1}}, "sigma_q has no entry for 2.weight"),
        ({"sigma_p": {"9": 0.1}}, "sigma_p has an entry for '9'"),
        ({"delta": 0}, "delta is 0"),
        ({"form": "hoeffding"}, "form is 'hoeffding', but must be one of kl, mcallester, catoni"),
        ({"lifted": 1}, "lifted is 1"),
        ({"draws": 10**12}, "draws is 1,000,000,000,000"),
        ({"data": (blobs()[0][:7], blobs()[1][:7])}, "7 examples are too few"),
    ],
)
def test_bad_input_is_one_sentence(options, told):
    asked = {"model": net(), "data": blobs(), "sigma_q": Q, "sigma_p": P, "draws": 60, "lifted": 0} | options
    with pytest.raises(TrueriskError, match=re.escape(told)):
        rescaling_report(**asked)


def test_gaussians_can_be_given(report):
    q, p = Gaussian.around(net(), Q), Gaussian.zero(net(), P)
    found = rescaling_report(net(), blobs(), q, p, draws=60, lifted=0)
    assert found.kl == report.kl


def test_a_gaussian_over_another_network_is_refused():
    q, p = Gaussian.around(net(), Q), Gaussian.zero(net(), P)
    with pytest.raises(TrueriskError, match="a Gaussian over another network"):
        rescaling_report(net((3, 5, 2)), blobs(), q, p, draws=60, lifted=0)
    norm, other = (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)) for _ in range(2))
    norm[1].running_mean.fill_(0.5)
    with pytest.raises(TrueriskError, match="a Gaussian over another network"):
        rescaling_report(norm, blobs(), Gaussian.around(other, Q), P, draws=60, lifted=0)
    moved = rescaling_report(net(seed=1), blobs(), q, p, draws=60, lifted=0)  # other means are no other network
    assert moved.kl == rescaling_report(net(), blobs(), q, p, draws=60, lifted=0).kl


def test_a_prior_over_one_logit_is_refused_in_a_sentence_that_helps():
    torch.manual_seed(0)
    one = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    nn.init.constant_(one[2].bias, -1.0)  # some outputs are negative: not probabilities
    with pytest.raises(TrueriskError, match="wrap it so that it does"):
        rescaling_report(one, blobs(), Q, Gaussian.zero(one, P), draws=60, lifted=0)


def test_json_is_plain(report):
    told = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert told["kl"] == dict(report.kl)
    assert told["bound"] == dict(report.bound)
    assert set(told) >= {"name", "n", "delta", "risk", "kl", "bound", "held", "pinned", "sweeps", "lifted", "weights"}
    assert (told["n"], told["weights"], told["free"]) == (60, 26, 4)
    assert told["vacuous"] == {column: report.vacuous(column) for column in COLUMNS}


# ---- words -----------------------------------------------------------------------------------------------------------


def bounds_of(before, after, both=None):
    found = plain()
    numbers = {"original": before, "tuned": before, "rescaled": after, "both": after if both is None else both}
    return RescalingReport(**{**vars(found), "name": "w", "bounds": {**found.bounds, "kl": numbers}})


@pytest.mark.parametrize(
    ("pairs", "told"),
    [
        ([(1.2, 0.6)], "Rescaling lowers the bound of w from 1.200, which is vacuous, to 0.600."),
        ([(0.9, 0.6)], "Rescaling lowers the bound of w from 0.900 to 0.600."),
        ([(0.9, 0.9)], "Rescaling leaves the bound of w at 0.900."),
        ([(1.2, 1.1)], "The bound of w is vacuous before and after rescaling: 1.200 and 1.100."),
        ([(1.2, 0.6), (1.2, 1.1)], "Rescaling turns 1 of 2 vacuous bounds into an informative one."),
        ([(1.2, 0.6), (0.9, 0.8)], "Rescaling turns the only vacuous bound into an informative one."),
        ([(1.2, 0.6), (1.2, 0.8), (3, 2)], "Rescaling turns 2 of 3 vacuous bounds into informative ones."),
        ([(1.2, 1.1), (3, 2)], "All 2 bounds are vacuous, before and after rescaling."),
        ([(1.2, 1.1), (0.9, 0.8)], "1 of 2 bounds is vacuous, before and after rescaling."),
        ([(0.9, 0.9), (0.9, 0.8)], "Rescaling lowers 1 of 2 bounds, all of which were informative."),
    ],
)
def test_headlines(pairs, told):
    assert headline([bounds_of(*pair) for pair in pairs]) == told
    assert len(told.split()) <= 16


def test_what_tuning_adds_is_told_where_it_changes_a_verdict():
    assert "With a tuned prior scale as well, 1 of 2 are informative." in setting(
        [bounds_of(2, 2), bounds_of(2, 2, 0.9)]
    )
    assert "With a tuned prior scale as well, it is informative." in setting([bounds_of(2, 2, 0.9)])
    assert "tuned" not in setting([bounds_of(2, 0.9, 0.8)])


@pytest.mark.skipif(not os.environ.get("TRUERISK_DATA"), reason="$TRUERISK_DATA is not set: no MNIST files")
def test_mnist_by_name():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(784, 4), nn.ReLU(), nn.Linear(4, 10))
    assert rescaling_report(module, "mnist", Q, 1.0, draws=1, lifted=0).n == 60_000
