"""Sensitivity to the inputs: how the loss and the predictions change when an example moves a little.

These measures know the function only, not its weights, so no rescaling changes them.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from truerisk.measures.critical_samples import search
from truerisk.measures.perturbation import CHUNK, part
from truerisk.measures.registry import NotDefined, measure
from truerisk.measures.subject import Subject

HALF = 0.5  # of the sample
RADIUS = 0.1  # half the side of the box that is searched, in standard deviations of the inputs
LASS = 10  # steps of that search
FIFTH = 0.2  # of the sample
SETTINGS = "half of the sample (at least 50 examples)"
ARPIT = "Arpit et al. 2017"


def input_gradients(subject: Subject) -> dict[str, Tensor]:
    """Of each example: the l1 and l2 norm of d loss / d x, and an estimate of ||d probabilities / d x||_F^2."""
    return subject.shared("input gradients", lambda: _input_gradients(subject))


def _input_gradients(subject: Subject) -> dict[str, Tensor]:
    subject.X  # noqa: B018  refuses integers
    generator = subject.generator("directions of the outputs")
    X, y = part(subject, HALF)
    found: dict[str, list[Tensor]] = {"l1": [], "l2": [], "jacobian": []}
    for rows, labels in zip(X.split(CHUNK), y.split(CHUNK), strict=True):
        x = rows.clone().requires_grad_()
        logits = subject.function(x)
        loss = F.cross_entropy(logits, labels, reduction="sum")
        slope = torch.autograd.grad(loss, x, retain_graph=True)[0].flatten(1).double()
        signs = torch.randint(0, 2, logits.shape, generator=generator).to(logits.dtype) * 2 - 1
        row = torch.autograd.grad((logits.softmax(1) * signs).sum(), x)[0].flatten(1).double()
        found["l1"].append(slope.abs().sum(1))
        found["l2"].append(slope.square().sum(1).sqrt())
        found["jacobian"].append(row.square().sum(1))
    return {name: torch.cat(pieces) for name, pieces in found.items()}


@measure(
    "loss-sensitivity",
    family="sensitivity",
    meaning="Loss sensitivity (l1): how much the loss of an example changes if its inputs change a little.",
    paper=ARPIT,
    equation="section 3.2, at the end of training: mean over i of ||d loss_i / d x_i||_1",
    invariant=True,
    cost="gradients",
    settings=SETTINGS,
)
def loss_sensitivity(subject: Subject) -> float:
    return float(input_gradients(subject)["l1"].mean())


@measure(
    "loss-sensitivity-gini",
    family="sensitivity",
    meaning="Gini coefficient of loss sensitivities: 0 if all examples matter alike, near 1 if few do.",
    paper=ARPIT,
    equation="section 3.2: 2 sum_i i s_(i) / (n sum_i s_i) - (n + 1) / n for sorted sensitivities s",
    invariant=True,
    cost="gradients",
    settings=SETTINGS,
)
def loss_sensitivity_gini(subject: Subject) -> float:
    values = input_gradients(subject)["l1"].sort().values
    n, total = len(values), float(values.sum())
    if total == 0:
        raise NotDefined("all its loss sensitivities are zero.")
    return 2 * float(torch.arange(1, n + 1, dtype=torch.float64) @ values) / (n * total) - (n + 1) / n


@measure(
    "input-gradient-norm",
    family="sensitivity",
    meaning="Norm of the input gradient (l2): how fast the loss rises in the worst direction of an input.",
    paper="Wu, Zhu and E 2017 (from memory)",
    equation="mean over i of ||d loss_i / d x_i||_2",
    invariant=True,
    cost="gradients",
    settings=SETTINGS,
)
def input_gradient_norm(subject: Subject) -> float:
    return float(input_gradients(subject)["l2"].mean())


@measure(
    "jacobian-norm",
    family="sensitivity",
    meaning="Input-output Jacobian norm: how much probabilities change along a random direction of an input.",
    paper="Novak et al. 2018",
    equation="root mean square over i of ||d probabilities / d x_i||_F",
    invariant=True,
    cost="gradients",
    settings=f"{SETTINGS}; one random sign vector over the classes for each example (unbiased before the root)",
)
def jacobian_norm(subject: Subject) -> float:
    return math.sqrt(float(input_gradients(subject)["jacobian"].mean()))


@measure(
    "critical-sample-ratio",
    family="sensitivity",
    meaning="Critical sample ratio: share of examples with another predicted class very near.",
    paper=ARPIT,
    equation="section 4: share of x with some x' in its box |x' - x|_max <= r that is classified otherwise",
    invariant=True,
    cost="search",
    settings=(
        "a fifth of the sample (at least 50 examples); r = 0.1 standard deviations of the inputs; 10 steps of the "
        "paper's algorithm 1, with its step and noise in proportion to r: a lower bound"
    ),
)
def critical_sample_ratio(subject: Subject) -> float:
    subject.X  # noqa: B018  refuses integers
    X, _ = part(subject, FIFTH)
    size = RADIUS * float(subject.sample[0].double().std())
    generator = subject.generator("critical samples")
    found = [search(subject.function, x, size, LASS, generator)[1] for x in X.split(CHUNK)]
    return float(torch.cat(found).double().mean())
