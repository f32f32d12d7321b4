"""Bounds by spectral norms: of networks close to a reference, and of networks that stand being shaken."""

from __future__ import annotations

import math

from truerisk.bounds import SpectralLayer, bartlett_2017, neyshabur_2018
from truerisk.measures.classical.chains import (
    entering_lipschitz,
    initial_moves,
    input_sizes,
    links,
    log,
    relu_links,
    row_sums,
)
from truerisk.measures.classical.products import Found, finished
from truerisk.measures.subject import Subject
from truerisk.measures.theorems import theorem

BARTLETT = "Bartlett, Foster and Telgarsky 2017"


def _covering(subject: Subject, delta: float, distances: list[float]) -> Found:
    chain = links(subject)
    constant = chain[0].constant
    # Beside the constant 1, which they leave alone, activations with a smaller Lipschitz constant have 1.
    layers = [
        SpectralLayer(link.spectral, distance, max(link.lipschitz, 1.0) if constant else link.lipschitz)
        for link, distance in zip(chain, distances, strict=True)
    ]
    width = max(size for link in chain for size in link.shape)
    size = entering_lipschitz(subject) * input_sizes(subject).norm(constant)
    found = bartlett_2017(subject.margins.numpy(), size, layers, width, delta)
    return finished(found, log_product=sum(log(layer.spectral) for layer in layers))


@theorem(
    "spectral-covering",
    paper=BARTLETT,
    theorem="Theorem 1.1 / Lemma A.9 with our constants, reference matrices zero",
    meaning="Covering bound: counts clearly different networks with these spectral norms and unit norms.",
    cost="forward",
)
def spectral_covering(subject: Subject, delta: float) -> Found:
    """The reference of a layer with bias is [[0, 0], [0, 1]], so that passing the constant on is no distance."""
    return _covering(subject, delta, [float(link.squares.sqrt().sum()) for link in links(subject)])


@theorem(
    "spectral-covering-init",
    paper=BARTLETT,
    theorem="Theorem 1.1 / Lemma A.9 with our constants, reference matrices: the initialization",
    meaning="Covering bound around the initialization, which must not depend on the data: unit norms of moves.",
    cost="forward",
)
def spectral_covering_init(subject: Subject, delta: float) -> Found:
    chain, moves = links(subject), initial_moves(subject)
    return _covering(subject, delta, [float(row_sums(moves[link.layer.name], 2).sqrt().sum()) for link in chain])


@theorem(
    "spectral-pac-bayes",
    paper="Neyshabur, Bhojanapalli and Srebro 2018",
    theorem="Theorem 1 with our constants: PAC-Bayes for weights shaken as much as the margin allows",
    meaning="Spectral PAC-Bayes bound: how precise weights must be for the margins to survive.",
    cost="forward",
)
def spectral_pac_bayes(subject: Subject, delta: float) -> Found:
    chain = relu_links(subject)
    norms = [log(link.spectral) for link in chain]
    found = neyshabur_2018(
        subject.margins.numpy(),
        input_sizes(subject).norms(chain[0].constant),
        sum(norms),
        [math.exp(2 * (link.log_frobenius - norm)) for link, norm in zip(chain, norms, strict=True)],
        [link.shape for link in chain],
        delta,
    )
    return finished(found, log_product=sum(norms))
