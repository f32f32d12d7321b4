"""Original, tuned width, rescaled, both, lifted: in the order that theory says, and each the best of its kind."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import nn

from truerisk import Gaussian, find_symmetry
from truerisk.pacbayes import kl_chain, tuned_scale

NET = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
SYMMETRY = find_symmetry(NET, torch.zeros(1, 5))


def pair(seed, centred=True):
    generator = torch.Generator().manual_seed(seed)

    def normal(scale):
        return {
            n: scale * torch.randn(p.shape, generator=generator, dtype=torch.float64) for n, p in NET.named_parameters()
        }

    q = Gaussian(NET, normal(1.0), {n: 0.2 * z.exp() for n, z in normal(0.5).items()})
    return q, Gaussian(NET, normal(0.0 if centred else 0.5), {n: z.exp() for n, z in normal(0.5).items()})


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_the_chain(seed, centred):
    """The lifted KL is below the rescaled one up to 4 standard errors (false alarms: 16 times 3e-5)."""
    chain = kl_chain(*pair(seed, centred), SYMMETRY, draws=400, seed=seed)
    assert chain.rescaled <= chain.original
    assert chain.tuned_scale <= chain.original
    assert chain.both <= min(chain.rescaled, chain.tuned_scale)
    assert chain.lifted.value <= chain.rescaled + 4 * chain.lifted.standard_error


def test_both_is_the_joint_optimum():
    """Slow twin: Nelder-Mead polished by BFGS over log-scales and width together, through Gaussian.kl."""
    q, p = pair(1)

    def value(z):
        moved = SYMMETRY.rescale(p, torch.from_numpy(z[1:]))
        return q.kl(Gaussian(NET, moved.mean, {n: np.exp(z[0]) * s for n, s in moved.std.items()}))

    found = minimize(value, np.zeros(SYMMETRY.dim + 1), method="BFGS", options={"gtol": 1e-5, "maxiter": 500})
    assert kl_chain(q, p, SYMMETRY).both == pytest.approx(found.fun, rel=1e-6)


def test_nothing_lifted_unless_asked():
    chain = kl_chain(*pair(0), SYMMETRY)
    assert chain.lifted is None
    assert "exact KL" not in str(chain)
    assert "tuned (to be paid for)" in str(chain)
    assert "exact KL of the lifts" in str(kl_chain(*pair(0), SYMMETRY, draws=10))


def test_a_width_that_fits_gains_nothing():
    q = Gaussian.zero(NET, 0.5)
    assert tuned_scale(q, q) == (1.0, q.kl(q))
