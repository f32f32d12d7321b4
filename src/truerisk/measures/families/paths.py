"""Path norms: sums over all paths from an input (or a bias) to an output of the product of the weights on the path.

Their names say p: ``path-norm-l1`` is ``truerisk.path_norm(model, x)``, whose p is 1 unless another is given, and
``path-norm-l2-squared`` is ``truerisk.path_norm(model, x, p=2) ** 2``.

No rescaling of hidden units changes a path's product, so none changes these. Biases are weights of an extra input that
is 1. A maximum over a window counts as a sum, and the 1/k of a mean over k entries as a weight. Without pooling, the
squared l2 norm is also the sum of the outputs of the network with squared weights on an input of ones (Jiang et al.
2020, eq. 44). With pooling that recipe gives another number: it keeps only the largest path sum of a max-pool's window,
and takes the 1/k of a mean as it is, not squared. Computed as logarithms, since they leave the range of floats early.
"""

from __future__ import annotations

import math

from truerisk.errors import TrueriskError
from truerisk.measures.families.margins import gamma
from truerisk.measures.registry import NotDefined, Value, measure
from truerisk.measures.subject import Subject
from truerisk.symmetry import path_norm

JIANG = "Jiang et al. 2020"
NEYSHABUR = "Neyshabur, Tomioka and Srebro 2015"


def log_path_norm(subject: Subject, p: float) -> float:
    """log of (sum over paths of |product of weights|^p)^(1/p)."""

    def compute() -> float:
        module = subject.module
        try:
            return path_norm(module, subject.example, p=p, log=True)
        except TrueriskError as reason:
            raise NotDefined(f"it is a sum over paths: {reason}") from reason

    return subject.shared(f"path norm {p}", compute)


@measure(
    "path-norm-l2-squared",
    key="path-norm",
    family="paths",
    meaning="Squared l2 path norm: the product of weights on a path, to the power p = 2, summed over all paths.",
    paper=f"{JIANG}; {NEYSHABUR}",
    equation=(
        "sum over paths of (product of weights)^2; without pooling this is eq. 44: outputs, added up, of the network "
        "with squared weights on an input of ones; truerisk.path_norm(..., p=2) ** 2"
    ),
    invariant=True,
    cost="weights",
)
def squared_path_norm(subject: Subject) -> Value:
    return Value.of_log(2 * log_path_norm(subject, 2.0))


@measure(
    "path-norm-l2-squared-over-margin",
    key="path-norm-over-margin",
    family="paths",
    meaning="Squared l2 path norm over the squared margin: the sum over paths (p = 2) relative to the margin.",
    paper=f"{JIANG}; {NEYSHABUR}",
    equation="eq. 43: path-norm-l2-squared / gamma^2, gamma the 10th percentile of the margins",
    invariant=True,
    cost="forward",
)
def squared_path_norm_over_margin(subject: Subject) -> Value:
    return Value.of_log(2 * log_path_norm(subject, 2.0) - 2 * math.log(gamma(subject)))


@measure(
    "path-norm-l1",
    family="paths",
    meaning="Path norm (l1): the absolute product of weights on a path, to the power p = 1, summed over paths.",
    paper=f"{NEYSHABUR}; Gonon et al. 2024, A path-norm toolkit",
    equation="sum over paths of |product of weights|; truerisk.path_norm with its default p = 1",
    invariant=True,
    cost="weights",
)
def absolute_path_norm(subject: Subject) -> Value:
    return Value.of_log(log_path_norm(subject, 1.0))


@measure(
    "path-norm-l1-over-margin",
    family="paths",
    meaning="Path norm (l1) over the margin: the sum over paths (p = 1) relative to the margin.",
    paper="Neyshabur et al. 2017, Exploring generalization (code)",
    equation="path-norm-l1 / gamma, gamma the 10th percentile of the margins",
    invariant=True,
    cost="forward",
)
def absolute_path_norm_over_margin(subject: Subject) -> Value:
    return Value.of_log(log_path_norm(subject, 1.0) - math.log(gamma(subject)))
