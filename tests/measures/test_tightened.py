"""The tightened KL: against a plain search over all rescalings, and along orbits."""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from measures.cases import CASES, build, mlp
from measures.subjects import labelled, subject
from scipy.optimize import minimize
from torch import nn

from truerisk import Gaussian, audit, find_symmetry, measure, tighten
from truerisk.measures import MEASURES, NotDefined, Subject
from truerisk.measures.families.tightened import SIGMA_P, SIGMA_Q

ENTRY = MEASURES["tightened-kl"]


def small(seed: int) -> nn.Sequential:
    """Two hidden layers, with biases, and weights of quite different sizes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = mlp(64, 3, 2, 3).double().eval()
    for k, p in enumerate(module.parameters()):
        p.data *= 3.0 ** (k - 2)
    return module


def slow(module: nn.Module) -> float:
    """Two searches by scipy, over the logarithms of the factors of all hidden units, weight by weight.

    For weights w[i, j] from unit j to unit i and biases b[i] the factors are exp(u_i - u_j) and exp(u_i), where u is 0
    for inputs and outputs. First the sum of squares is made small, then the KL of two Gaussians for each weight.
    """
    layers = [(p.weight.detach().numpy(), p.bias.detach().numpy()) for p in module if isinstance(p, nn.Linear)]
    sizes = [len(b) for _, b in layers[:-1]]

    def moved(u: np.ndarray) -> list[np.ndarray]:
        """The logarithm of the factor of each weight and bias."""
        units = [np.zeros(layers[0][0].shape[1]), *np.split(u, np.cumsum(sizes)[:-1]), np.zeros(len(layers[-1][1]))]
        return [part for before, here in itertools.pairwise(units) for part in (here[:, None] - before[None, :], here)]

    def least(cost) -> np.ndarray:
        found = minimize(cost, np.zeros(sum(sizes)), method="BFGS", options={"gtol": 1e-9})
        return minimize(
            cost, found.x, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 9999}
        ).x

    flat = [part for layer in layers for part in layer]
    balance = least(lambda u: sum(float(((w * np.exp(t)) ** 2).sum()) for w, t in zip(flat, moved(u), strict=True)))
    weights = [w * np.exp(t) for w, t in zip(flat, moved(balance), strict=True)]

    def kl(u: np.ndarray) -> float:
        total = 0.0
        for w, t in zip(weights, moved(u), strict=True):
            sigma = SIGMA_P * np.exp(t)
            total += float((np.log(sigma / SIGMA_Q) + (SIGMA_Q**2 + w**2) / (2 * sigma**2) - 0.5).sum())
        return total

    return kl(least(kl))


@pytest.mark.parametrize("seed", [0, 1])
def test_it_is_what_a_plain_search_finds(seed):
    module = small(seed)
    assert ENTRY(Subject(module, labelled(module))).value == pytest.approx(slow(module), rel=1e-7)


def test_a_linear_network_has_one_form():
    """Nothing can be rescaled: the KL of two Gaussians, weight by weight."""
    module = mlp(64, 3).double()
    flat = torch.cat([p.detach().flatten() for p in module.parameters()]).tolist()
    plain = [math.log(SIGMA_P / SIGMA_Q) + (SIGMA_Q**2 + w**2) / (2 * SIGMA_P**2) - 0.5 for w in flat]
    assert ENTRY(Subject(module, labelled(module))).value == pytest.approx(sum(plain), rel=1e-12)


@pytest.mark.parametrize("case", [case for case in CASES if case != "linear"])
def test_no_rescaling_changes_it(case):
    """Far ones, with factors of up to 10,000; a posterior of the same noise around each twin would change."""
    found = subject(case)
    symmetry = find_symmetry(found.module, found.example)
    twins = [symmetry.rescale(found.module, symmetry.random(3.0, seed)) for seed in (0, 1)]
    value = ENTRY(found).value
    for twin in twins:
        assert ENTRY(Subject(twin, found.data)).value == pytest.approx(value, rel=1e-8)
    tempting = [
        tighten(Gaussian.around(each, SIGMA_Q), Gaussian.zero(each, SIGMA_P), symmetry).kl_after
        for each in (found.module, *twins)
    ]
    assert max(tempting) > 1.01 * min(tempting), "the prior alone was rescaled"


def test_the_audit_confirms_it(images):
    found = audit(build("residual"), images, only=["tightened-kl", "l2-norm"], times=3, std=2.0)
    assert found.moves["tightened-kl"].orders < math.log10(1 + 1e-6)
    assert found.moves["l2-norm"].fooled


def test_the_functions_of_truerisk_give_the_same_number(images):
    """What a reader would do by hand: balance, then tighten."""
    net = build("mlp")
    x = torch.zeros(1, 1, 8, 8, dtype=torch.float64)
    symmetry = find_symmetry(net, x)
    from truerisk.symmetry import canonical

    twin = symmetry.rescale(net, canonical(net, symmetry, "balanced"))
    by_hand = tighten(Gaussian.around(twin, SIGMA_Q), Gaussian.zero(twin, SIGMA_P), symmetry)
    assert measure(net, images, only=["tightened-kl"])["tightened-kl"] == pytest.approx(by_hand.kl_after, rel=1e-12)
    plain = Gaussian.around(net, SIGMA_Q).kl(Gaussian.zero(net, SIGMA_P))
    assert by_hand.kl_after < plain


def test_batch_norm_is_folded_first():
    """The same number as of the folded network; a norm that follows no layer holds what moves its statistics."""
    folded = subject("convnet")
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in folded.module.modules())
    assert ENTRY(Subject(folded.module, folded.data)).value == pytest.approx(ENTRY(folded).value, rel=1e-12)
    behind = (
        nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.BatchNorm1d(5), nn.Linear(5, 3)).double().eval()
    )
    behind[3].running_mean.fill_(0.3)
    one = Subject(behind, folded.data)
    symmetry = find_symmetry(one.module, one.example)
    twin = Subject(symmetry.rescale(one.module, symmetry.random(1.0, 0)), folded.data)
    assert symmetry.dim >= 5
    assert ENTRY(twin).value == pytest.approx(ENTRY(one).value, rel=1e-8)


def test_a_dead_channel_has_no_smallest_weights():
    module = copy.deepcopy(build("mlp"))
    module[3].weight.data[:, 4] = 0.0  # nothing leaves the fifth unit of the first hidden layer
    with pytest.raises(NotDefined, match=r"1 hidden channel with nothing but zeros on one side.*remove"):
        ENTRY(Subject(module, labelled(module)))


def test_networks_that_cannot_be_followed_are_skipped(images):
    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 3)

        def forward(self, x):
            return self.layer(x.flatten(1)) * (2.0 if x.sum().item() > 0 else 1.0)

    found = measure(Branch(), images, only=["tightened-kl", "parameters"])
    assert "tightened-kl" in found.skipped
    frozen = build("mlp").requires_grad_(False)
    assert "no trainable parameters" in measure(frozen, images, only=["tightened-kl"]).skipped["tightened-kl"]
