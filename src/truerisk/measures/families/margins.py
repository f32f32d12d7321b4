"""What the outputs on the examples say: margins, loss, entropy.

The margin of an example is the logit of its label minus the largest other logit: negative where the network is wrong.
Only the function enters, so no rescaling of weights changes any of these.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from truerisk.measures.registry import NotDefined, measure
from truerisk.measures.subject import Subject

JIANG = "Jiang et al. 2020"
SHARE = 10  # gamma is the margin that one example in ten stays below


def low_margin(subject: Subject) -> float:
    """The 10th percentile of the margins: the (m // 10)-th smallest of m, the smallest if there are fewer than ten."""
    return float(subject.margins.kthvalue(max(1, subject.n // SHARE)).values)


def gamma(subject: Subject) -> float:
    """The same where one may divide by it."""
    found = low_margin(subject)
    if not found > 0:
        raise NotDefined(
            f"it divides by the 10th percentile of the margins, which is {found:.3g}: at least one example in ten is "
            "wrong, so there is no margin to speak of."
        )
    return found


@measure(
    "inverse-margin",
    family="margins",
    meaning="Inverse squared margin: large if many examples lie near the boundary between classes.",
    paper=JIANG,
    equation="eq. 22: 1 / gamma^2, gamma the 10th percentile of the margins",
    invariant=True,
    cost="forward",
)
def inverse_margin(subject: Subject) -> float:
    return gamma(subject) ** -2


@measure(
    "low-margin",
    family="margins",
    meaning="Margin at the 10th percentile: nine examples in ten reach it; larger means simpler.",
    paper=JIANG,
    equation="gamma in eq. 22: 10th percentile of the margins, negative ones kept",
    invariant=True,
    cost="forward",
    same_order_as="inverse-margin",
)
def low_margin_measure(subject: Subject) -> float:
    return low_margin(subject)


@measure(
    "median-margin",
    family="margins",
    meaning="Median margin over the examples: half of them reach it; larger means simpler.",
    paper="Bartlett, Foster and Telgarsky 2017",
    equation="median over examples of (logit of the label - largest other logit)",
    invariant=True,
    cost="forward",
)
def median_margin(subject: Subject) -> float:
    return float(subject.margins.median())


@measure(
    "cross-entropy",
    family="margins",
    meaning="Mean cross-entropy on the examples: how surprised the network is by their labels.",
    paper=JIANG,
    equation="eq. 21 (number from memory): mean of -log softmax(logits)[label]",
    invariant=True,
    cost="forward",
)
def cross_entropy(subject: Subject) -> float:
    return float(F.cross_entropy(subject.logits, subject.labels))


@measure(
    "negative-output-entropy",
    family="margins",
    meaning="Negative output entropy: confidence of the predictions; 0 is certain, -log(classes) is a guess.",
    paper=JIANG,
    equation="eq. 23 (number from memory): mean of sum over classes of p log p, p = softmax(logits)",
    invariant=True,
    cost="forward",
)
def negative_output_entropy(subject: Subject) -> float:
    log_p: Tensor = F.log_softmax(subject.logits, dim=1)
    return float((log_p.exp() * log_p).sum(dim=1).mean())
