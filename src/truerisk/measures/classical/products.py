"""Bounds by products of norms of the layers, and by the path norm.

Norm and margin are known after training only, and paid for (see ``truerisk.bounds.margin``).
"""

from __future__ import annotations

from truerisk.bounds import (
    MarginBound,
    golowich_frobenius,
    golowich_rows,
    gonon_paths,
    homogeneous_bound,
    neyshabur_2015,
)
from truerisk.errors import TrueriskError
from truerisk.measures.classical.chains import Link, input_sizes, log, outputs, relu_links
from truerisk.measures.classical.pieces import pieces
from truerisk.measures.registry import NotDefined
from truerisk.measures.subject import Subject
from truerisk.measures.theorems import theorem
from truerisk.symmetry import path_norm

GOLOWICH = "Golowich, Rakhlin and Shamir 2018"
Found = tuple[float, dict[str, float], float]


def finished(found: MarginBound, **more: float) -> Found:
    """What the registry expects: value, parts, logarithm."""
    return found.value, found.parts | more, found.log


def _bound(subject: Subject, delta: float, log_norm: float, log_unit: float) -> Found:
    found = homogeneous_bound(subject.margins.numpy(), log_norm, log_unit, delta)
    return finished(found, log_norm=log_norm)


def _frobenius(chain: tuple[Link, ...]) -> float:
    """ln of sum_k ||w_k||_2 of the last layer times the Frobenius norms of the others."""
    return chain[-1].log_row_norms + sum(link.log_frobenius for link in chain[:-1])


@theorem(
    "frobenius-doubling",
    paper="Neyshabur, Tomioka and Srebro 2015",
    theorem="Corollary 2 with our constants: 2^(layers - 1) times the product of Frobenius norms over the margin",
    meaning="Rademacher bound by Frobenius norms: their product over the margin, doubled by every layer.",
    cost="forward",
)
def frobenius_doubling(subject: Subject, delta: float) -> Found:
    chain = relu_links(subject)
    size = input_sizes(subject).norm(chain[0].constant)
    unit = neyshabur_2015(len(chain), outputs(subject), size, subject.n)
    return _bound(subject, delta, _frobenius(chain), unit)


@theorem(
    "frobenius-root",
    paper=GOLOWICH,
    theorem="Theorem 1 with our constants: sqrt(layers) times the product of Frobenius norms over the margin",
    meaning="Rademacher bound by Frobenius norms: their product over the margin, times the root of depth.",
    cost="forward",
)
def frobenius_root(subject: Subject, delta: float) -> Found:
    chain = relu_links(subject)
    size = input_sizes(subject).norm(chain[0].constant)
    unit = golowich_frobenius(len(chain), outputs(subject), size, subject.n)
    return _bound(subject, delta, _frobenius(chain), unit)


@theorem(
    "row-sums-root",
    paper=GOLOWICH,
    theorem="Theorem 2 with our constants: sqrt(layers) times the product of largest row sums of |W| over the margin",
    meaning="Rademacher bound by largest row sums: their product over the margin, times the root of depth.",
    cost="forward",
)
def row_sums_root(subject: Subject, delta: float) -> Found:
    chain = relu_links(subject)
    sizes, constant = input_sizes(subject), chain[0].constant
    features = len(sizes.features) + constant
    unit = golowich_rows(len(chain), outputs(subject), features, sizes.column_norm(constant), subject.n)
    norm = log(chain[-1].entries) + sum(log(link.largest_row) for link in chain[:-1])
    return _bound(subject, delta, norm, unit)


@theorem(
    "path-norm-root",
    paper="Gonon, Brisebarre, Riccietti and Gribonval 2024",
    theorem="Theorem 3.1 (number from memory), our constants: sqrt(depth) times the sum over paths of |products| over "
    "the margin",
    meaning="Rademacher bound by the l1 path norm: its ratio to the margin, times the root of depth.",
    invariant=True,
    cost="forward",
)
def path_norm_root(subject: Subject, delta: float) -> Found:
    """ReLU networks with branches and max-pools."""
    found = pieces(subject)
    sizes = input_sizes(subject)
    features = len(sizes.features) + found.constant
    try:
        norm = path_norm(subject.module, subject.example, p=1, log=True)
    except TrueriskError as reason:
        raise NotDefined(str(reason)) from reason
    if norm == float("-inf"):
        raise NotDefined("every path is zero, so the network is constant.")
    depth = found.output.levels + 1
    unit = gonon_paths(depth, outputs(subject), features, sizes.column_norm(found.constant), subject.n)
    return _bound(subject, delta, norm, unit)
