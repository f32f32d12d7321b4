"""The KL of PAC-Bayes bounds, made independent of how the weights are written down.

A PAC-Bayes bound grows with KL(Q, P), where Q is around the weights and P was fixed beforehand. Rescaling P uses no
delta, so the bound may have the smallest KL over rescalings (``truerisk.tighten``). That alone is not invariant: noise
of one size around a network and the same noise around its rescaled twin are two posteriors, not one carried along.
"""

from __future__ import annotations

import copy

from torch import Tensor, nn

from truerisk.errors import TrueriskError
from truerisk.measures.registry import NotDefined, measure
from truerisk.measures.subject import Subject
from truerisk.pacbayes import Gaussian, tighten
from truerisk.symmetry import Symmetry, balanced, find_symmetry
from truerisk.symmetry.canonical import one_sided
from truerisk.symmetry.statistics import assemble
from truerisk.words import several

SIGMA_Q, SIGMA_P = 0.01, 0.1  # noise of the posterior and of the prior: fixed, whatever the network


@measure(
    "tightened-kl",
    family="pacbayes",
    meaning="Tightened KL: smallest KL from noise on the balanced weights to a centered prior, over rescalings.",
    paper="Rouchouse, Gonon, Gribonval and Guedj 2025, arXiv 2509.26149; Stock et al. 2019 (balanced weights)",
    equation=(
        "min over rescalings of KL(N(w, sigma_q^2), rescaled N(0, sigma_p^2)), where w are the equivalent weights with "
        "the smallest sum of squares"
    ),
    invariant=True,
    cost="weights",
    settings=f"in nats; sigma_q = {SIGMA_Q:g}, sigma_p = {SIGMA_P:g}; all trainable weights, biases included",
)
def tightened_kl(subject: Subject) -> float:
    """Smallest KL over rescalings of the prior, from a Gaussian around the balanced weights.

    First the network is rescaled to its equivalent weights with the smallest sum of squares, which are the same for all
    of its rescaled twins. Then Q = N(w, sigma_q^2) is put around these weights w, and the prior N(0, sigma_p^2) is
    rescaled to the smallest KL from Q. Both steps depend on nothing but the set of equivalent weights, so no rescaling
    changes the number.
    """
    module = copy.deepcopy(subject.module).double()
    try:
        symmetry = find_symmetry(subject.module, subject.example)
        stuck = _without_balance(module, symmetry)
        twin = symmetry.rescale(module, balanced(module, symmetry))
        found = tighten(Gaussian.around(twin, SIGMA_Q), Gaussian.zero(twin, SIGMA_P), symmetry)
    except TrueriskError as reason:
        raise NotDefined(f"it is a smallest KL over rescalings: {reason}") from reason
    if stuck:
        raise NotDefined(
            f"the network has {several(stuck, 'hidden channel')} with nothing but zeros on one side, so no equivalent "
            "weights are the smallest; remove such channels."
        )
    return found.kl_after


def _without_balance(module: nn.Module, symmetry: Symmetry) -> int:
    """Channels with nothing but zeros on one side: their equivalent weights shrink on and on, and none are smallest."""
    weights = dict(module.named_parameters())

    def squares(name: str) -> tuple[Tensor, None] | None:
        return (weights[name].detach().square(), None) if name in weights else None

    return len(one_sided(assemble(symmetry, squares, counted=False)))
