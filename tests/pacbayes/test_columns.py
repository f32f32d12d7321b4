"""Four KLs that belong together, and their bounds: against a reference implementation, in order, delta split."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from truerisk import Gaussian, TrueriskError, find_symmetry
from truerisk.nets import builtin
from truerisk.pacbayes import COLUMNS, FORMS, bound_columns, kl_columns
from truerisk.pacbayes.columns import STEPS, lowest


def reference_kl(layers, sigma_q, sigma_p, log_scales):
    """KL of a network with one hidden layer, weight by weight; the prior of unit i is rescaled by exp(u_i)."""
    total = 0.0
    into, bias, out, last = layers
    for i, u in enumerate(log_scales):
        entries = [(m, u) for m in [*into[i], bias[i]]] + [(m, -u) for m in out[:, i]]
        for m, shift in entries:
            sigma = sigma_p * math.exp(shift)
            total += math.log(sigma / sigma_q) - 0.5 + (m * m + sigma_q * sigma_q) / (2 * sigma * sigma)
    for m in last:
        total += math.log(sigma_p / sigma_q) - 0.5 + (m * m + sigma_q * sigma_q) / (2 * sigma_p * sigma_p)
    return total


def test_columns_agree_with_a_reference_implementation():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)).double()
    layers = [p.detach().numpy() for p in net.parameters()]
    sigma_q, sigma_p = 0.02, 2.0
    found = kl_columns(
        Gaussian.around(net, sigma_q), Gaussian.zero(net, sigma_p), find_symmetry(net, torch.zeros(1, 5).double())
    )

    def best(step):
        def f(u):
            return reference_kl(layers, sigma_q, sigma_p * 2 ** (step / 2), u)

        return minimize(f, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).fun

    nothing = np.zeros(3)
    tuned = {step: reference_kl(layers, sigma_q, sigma_p * 2 ** (step / 2), nothing) for step in range(-20, 21)}
    both = {step: best(step) for step in range(-14, 3)}  # the grid's far ends are far from any minimum here
    assert found.kl["original"] == pytest.approx(tuned[0])
    assert found.kl["tuned"] == pytest.approx(min(tuned.values()))
    assert found.steps["tuned"] == min(tuned, key=tuned.get) != 0
    assert found.kl["rescaled"] == pytest.approx(both[0], rel=1e-8)
    assert found.kl["both"] == pytest.approx(min(both.values()), rel=1e-8)
    assert found.steps["both"] == min(both, key=both.get)


def test_the_columns_are_in_order():
    """Each freedom only helps, including in a deep network where tuning and rescaling pull at each other."""
    torch.manual_seed(1)
    net = builtin("mlp:12-4-9-5", (1, 8, 8), 10)
    q, p = Gaussian.around(net, 1 / 44), Gaussian.zero(net, 1.0)
    found = kl_columns(q, p, find_symmetry(net, torch.zeros(1, 1, 8, 8)))
    assert found.kl["both"] < found.kl["tuned"] < found.kl["original"]
    assert found.kl["both"] < found.kl["rescaled"] < found.kl["original"]


def test_a_walk_ends_at_the_lowest_step():
    for place in np.linspace(-22, 22, 45):
        for start in (-30, -20, 0, 20):
            assert lowest(lambda step, at=place: (step - at) ** 2, start) == min(
                STEPS, key=lambda step: (step - place) ** 2
            )


def test_delta_is_split_over_scales_priors_and_the_parameter_of_catoni():
    """All three forms written out by hand."""
    kls = {"original": 900.0, "tuned": 400.0, "rescaled": 300.0, "both": 100.0}
    n, delta, tried, risk = 1000, 0.045, 12, 0.1
    found = {form: bound_columns(kls, risk, n, delta, form, tried) for form in FORMS}
    for column in COLUMNS:
        share = delta / tried / (41 if column in ("tuned", "both") else 1)
        nats = kls[column] + math.log(2 * math.sqrt(n) / share)
        assert found["mcallester"][column] == pytest.approx(risk + math.sqrt(nats / (2 * n)), rel=1e-12)
        p = found["kl"][column]  # kl(risk, p) = nats / n
        kl = risk * math.log(risk / p) + (1 - risk) * math.log((1 - risk) / (1 - p))
        assert kl == pytest.approx(nats / n, rel=1e-6)
        assert p < found["mcallester"][column]
        betas = [0.01 * 1.5**i for i in range(20)]
        price = (kls[column] + math.log(20 / share)) / n
        catoni = min((1 - math.exp(-beta * risk - price)) / (1 - math.exp(-beta)) for beta in betas)
        assert found["catoni"][column] == pytest.approx(catoni, rel=1e-12)
    assert bound_columns(dict.fromkeys(kls, 5000.0), risk, n, delta, "mcallester")["original"] > 1
    with pytest.raises(TrueriskError, match="form is 'seeger', but must be one of kl, mcallester, catoni"):
        bound_columns(kls, risk, n, delta, "seeger")
