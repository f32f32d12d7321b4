"""Gaussians over weights. The KL is checked against 50 digits: never smaller, hardly larger."""

import math

import mpmath
import numpy as np
import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.pacbayes import Gaussian, fan_in_std


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def exact_kl(q, p):
    """The slow twin: one weight at a time, with 50 digits."""
    with mpmath.workdps(50):
        total = mpmath.mpf(0)
        for name in q.mean:
            columns = [t[name].flatten().tolist() for t in (q.mean, q.std, p.mean, p.std)]
            for m, s, mu, sigma in zip(*columns, strict=True):
                m, s, mu, sigma = map(mpmath.mpf, (m, s, mu, sigma))
                total += ((m - mu) / sigma) ** 2 / 2 + (s / sigma) ** 2 / 2 - mpmath.mpf(1) / 2 - mpmath.log(s / sigma)
        return total


def random_pair(seed, mean_scale, log_std_scale, gap):
    rng = np.random.default_rng(seed)
    module = net()

    def tensors(draw):
        return {k: torch.from_numpy(np.asarray(draw(tuple(p.shape)))) for k, p in module.named_parameters()}

    p_mean = tensors(lambda shape: mean_scale * rng.standard_normal(shape))
    p_std = tensors(lambda shape: np.exp(log_std_scale * rng.standard_normal(shape)))
    q_mean = {k: v + gap * p_std[k] * torch.from_numpy(rng.standard_normal(tuple(v.shape))) for k, v in p_mean.items()}
    q_std = {k: v * torch.from_numpy(np.exp(gap * rng.standard_normal(tuple(v.shape)))) for k, v in p_std.items()}
    return Gaussian(module, q_mean, q_std), Gaussian(module, p_mean, p_std)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("mean_scale", "log_std_scale", "gap"),
    [(1, 1, 1), (1, 1, 1e-3), (1, 1, 1e-7), (1e3, 3, 1e-9), (1e6, 5, 1), (1, 10, 3), (0, 0, 1e-12), (1e-8, 1, 0.1)],
)
def test_kl_is_never_below_the_exact_one_and_hardly_above(seed, mean_scale, log_std_scale, gap):
    q, p = random_pair(seed, mean_scale, log_std_scale, gap)
    fast, exact = q.kl(p), exact_kl(q, p)
    assert fast >= exact
    # Tiny KL are differences of numbers near 1, so an absolute part for each weight is unavoidable.
    assert fast <= exact * (1 + mpmath.mpf("1e-12")) + mpmath.mpf("1e-11") * q.size


def test_closed_forms():
    module = nn.Linear(1, 1, bias=False)
    q, p = Gaussian.zero(module, 2.0), Gaussian.zero(module, 1.0)
    assert q.kl(p) == pytest.approx(2 - 0.5 - math.log(2), rel=1e-12)
    assert p.kl(q) == pytest.approx(1 / 8 - 0.5 + math.log(2), rel=1e-12)
    q.mean["weight"][:] = 3.0
    assert q.kl(p) == pytest.approx(4.5 + 2 - 0.5 - math.log(2), rel=1e-12)
    assert p.kl(q) == pytest.approx(9 / 8 + 1 / 8 - 0.5 + math.log(2), rel=1e-12)


def test_kl_to_itself_is_nearly_nothing():
    q = Gaussian.around(net(), 0.3)
    assert 0 <= q.kl(q) < 1e-10


def test_many_small_tensors_lose_nothing():
    """A sum that is kept in one float drops what is below half its last digit, tensor after tensor.

    2^20 nats in one tensor and almost half a unit in the last place of that in each of 999 others.
    """
    module = nn.ParameterList([nn.Parameter(torch.zeros(1)) for _ in range(1000)])
    q, p = Gaussian.zero(module, 1.0), Gaussian.zero(module, 1.0)
    for k, name in enumerate(q.mean):
        q.mean[name][:] = math.sqrt(2 * 2.0**20) if k == 0 else math.sqrt(2 * 0.99 * 2.0**-33)
    assert q.kl(p) >= exact_kl(q, p)


def test_one_large_tensor_loses_nothing():
    module = nn.Linear(200_000, 1, bias=False)
    q, p = Gaussian.zero(module, 1.0), Gaussian.zero(module, 1.0)
    q.mean["weight"][:] = math.sqrt(2 * 0.99 * 2.0**-33)
    q.mean["weight"][0, 0] = math.sqrt(2 * 2.0**20)
    with mpmath.workdps(50):
        small, large = (mpmath.mpf(float(v)) for v in (q.mean["weight"][0, 1], q.mean["weight"][0, 0]))
        exact = (199_999 * small**2 + large**2) / 2
    assert q.kl(p) >= exact


def test_extreme_widths_give_infinity_not_zero():
    module = nn.Linear(1, 1, bias=False)
    for s, sigma in ((1e-200, 1.0), (1e200, 1.0), (1.0, 1e-300), (1e-300, 1e300)):
        value = Gaussian.zero(module, s).kl(Gaussian.zero(module, sigma))
        assert value >= exact_kl(Gaussian.zero(module, s), Gaussian.zero(module, sigma))


@pytest.mark.parametrize(
    ("mean", "std"),
    [(math.nan, 1.0), (math.inf, 1.0), (0.0, math.nan), (0.0, math.inf), (0.0, 0.0), (0.0, -1.0)],
)
def test_broken_moments_are_refused(mean, std):
    module = net()
    means = {k: torch.zeros_like(p) for k, p in module.named_parameters()}
    stds = {k: torch.ones_like(p) for k, p in module.named_parameters()}
    means["0.bias"][1], stds["0.bias"][1] = mean, std
    with pytest.raises(TrueriskError, match=r"0\.bias"):
        Gaussian(module, means, stds)


@pytest.mark.parametrize("change", ["shape", "missing", "extra"])
@pytest.mark.parametrize("what", ["mean", "std"])
def test_moments_of_another_network_are_refused(change, what):
    module = net()
    moments = {w: {k: torch.ones_like(p) for k, p in module.named_parameters()} for w in ("mean", "std")}
    if change == "shape":
        moments[what]["0.bias"] = torch.ones(1)
    elif change == "missing":
        del moments[what]["0.bias"]
    else:
        moments[what]["more"] = torch.ones(1)
    with pytest.raises(TrueriskError, match=what):
        Gaussian(module, **moments)


def test_std_by_name_must_be_complete():
    with pytest.raises(TrueriskError, match=r"2\.bias"):
        Gaussian.around(net(), {"0.weight": 1.0, "0.bias": 1.0, "2.weight": 1.0})
    q = Gaussian.around(net(), fan_in_std(net(), 2.0))
    assert torch.equal(q.std["0.weight"], torch.full((4, 3), 2 * 3**-0.5, dtype=torch.float64))
    assert torch.equal(q.std["2.bias"], torch.full((2,), 1.0, dtype=torch.float64))


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)))
        self.head = nn.Linear(4, 2)
        self.free = nn.Parameter(torch.zeros(2))


@pytest.mark.parametrize(
    ("std", "expected"),
    [
        ({"": 2.0}, {}),
        ({"features": 0.1, "": 2.0}, {"features.": 0.1}),
        ({"": 2.0, "features.1": 0.3, "features": 0.1, "features.1.0.bias": 0.4, "free": 0.5},
         {"features.": 0.1, "features.1.": 0.3, "features.1.0.bias": 0.4, "free": 0.5}),
        ({"features": 0.1, "head": 0.2, "free": 0.3}, {"features.": 0.1, "head.": 0.2, "free": 0.3}),
    ],
)  # fmt: skip
def test_std_by_module(std, expected):
    """The longest prefix wins, in whatever order entries come. ``features.1`` is no prefix of ``features.10``."""
    for build in (Gaussian.around, Gaussian.zero):
        gaussian = build(Deep(), std)
        for name, value in gaussian.std.items():
            fits = [prefix for prefix in expected if name.startswith(prefix)]
            assert (value == (expected[max(fits, key=len)] if fits else 2.0)).all()


def test_a_prefix_ends_at_a_dot():
    module = nn.Sequential(*(nn.Linear(1, 1) for _ in range(11)))
    std = Gaussian.zero(module, {"1": 0.1, "": 1.0}).std
    assert [name for name, value in std.items() if value.max() < 1] == ["1.weight", "1.bias"]


@pytest.mark.parametrize(
    "key", ["feature", "features.2", "features.0.weights", "head.", ".", "features.1.1.running_mean"]
)
def test_a_name_that_fits_nothing_is_refused(key):
    with pytest.raises(TrueriskError, match=r"std has an entry for .*names of this network are features, features.0"):
        Gaussian.around(Deep(), {key: 0.1, "": 1.0})


def test_a_std_of_another_shape_is_refused():
    """One for each output fits a bias, and broadcasts to the columns of a weight only if there are as many."""
    module = nn.Sequential(nn.Linear(3, 4))
    with pytest.raises(TrueriskError, match=r"std of 0.weight is of shape \(4,\), but must be a number or .*\(4, 3\)"):
        Gaussian.around(module, {"0": torch.ones(4)})
    assert Gaussian.around(module, {"0": torch.ones(4), "0.weight": torch.ones(4, 1)}).std["0.weight"].shape == (4, 3)


def test_tied_weights_listen_to_all_their_names():
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    module[1].weight = module[0].weight
    assert (Gaussian.zero(module, {"1.weight": 0.1, "": 1.0}).std["0.weight"] == 0.1).all()
    assert (Gaussian.zero(module, {"1.weight": 0.1, "0.weight": 0.2, "": 1.0}).std["0.weight"] == 0.2).all()


def test_entries_for_frozen_parameters_do_no_harm():
    module = net()
    module[0].requires_grad_(False)
    assert list(Gaussian.zero(module, fan_in_std(module)).std) == ["2.weight", "2.bias"]


def test_nothing_to_draw_is_refused():
    with pytest.raises(TrueriskError, match="no trainable"):
        Gaussian.zero(nn.ReLU(), 1.0)
    with pytest.raises(TrueriskError, match="no trainable"):
        Gaussian.zero(net().requires_grad_(False), 1.0)


def test_kl_between_different_networks_is_refused():
    small, large = nn.Linear(3, 2), nn.Linear(4, 2)
    with pytest.raises(TrueriskError, match="different networks"):
        Gaussian.zero(small, 1.0).kl(Gaussian.zero(large, 1.0))
    with pytest.raises(TrueriskError, match="different networks"):
        Gaussian.zero(small, 1.0).kl(Gaussian.zero(nn.Linear(3, 2, bias=False), 1.0))


def with_norm():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


@pytest.mark.parametrize("name", ["1.running_mean", "1.running_var", "1.num_batches_tracked"])
def test_other_buffers_have_no_kl(name):
    one, two = with_norm(), with_norm()
    two.state_dict()[name].add_(1)
    p, q = Gaussian.around(one, 1.0), Gaussian.around(two, 1.0)
    with pytest.raises(TrueriskError, match=name):
        q.kl(p)
    assert q.kl(q) < 1e-9


def test_other_frozen_weights_have_no_kl():
    one, two = net(), net()
    for module in (one, two):
        module[0].weight.requires_grad_(False)
    with torch.no_grad():
        two[0].weight[0, 0] += 1e-3
    assert Gaussian.around(one, 1.0).size == sum(p.numel() for p in one.parameters()) - 12
    assert set(Gaussian.around(one, 1.0).fixed) == {"0.weight"}
    with pytest.raises(TrueriskError, match=r"0\.weight"):
        Gaussian.around(one, 1.0).kl(Gaussian.around(two, 1.0))


def test_frozen_here_and_random_there_has_no_kl():
    one, two = net(), net()
    two[0].weight.requires_grad_(False)
    for a, b in ((one, two), (two, one)):
        with pytest.raises(TrueriskError):
            Gaussian.around(a, 1.0).kl(Gaussian.around(b, 1.0))


def test_tied_weights_count_once():
    module = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    module[2].weight = module[0].weight
    q, p = Gaussian.zero(module, 1.0), Gaussian.zero(module, 1.0)
    assert q.size == 9 + 3 + 3
    q.mean["0.weight"][:] = 1.0
    assert q.kl(p) == pytest.approx(4.5, rel=1e-12)


def test_a_gaussian_keeps_its_own_copies():
    module = net().train()
    mean = {k: p.detach().clone() for k, p in module.named_parameters()}
    q = Gaussian(module, mean, {k: torch.ones_like(p) for k, p in module.named_parameters()})
    mean["0.bias"].fill_(5)
    with torch.no_grad():
        module[0].bias.fill_(6)
    assert not (q.mean["0.bias"] >= 5).any()
    assert not (q.module[0].bias >= 5).any()
    assert module.training
    assert not q.module.training
    q.mean["2.bias"][:] = 9.0
    assert torch.equal(q.network()[2].bias, torch.full((2,), 9.0))
    assert not (q.module[2].bias == 9).any()


def test_float64_everywhere():
    q = Gaussian.around(net(), 0.1)
    assert {t.dtype for t in (*q.mean.values(), *q.std.values())} == {torch.float64}
    assert float(q.std["0.bias"][0]) == 0.1  # not the float32 neighbour


@pytest.mark.parametrize("std", ["0.1", None, {"": "wide"}])
def test_a_std_that_is_no_number_is_refused(std):
    with pytest.raises(TrueriskError, match="must be a positive number"):
        Gaussian.around(nn.Linear(2, 2), std)
