"""Sizes: how many numbers a network has, and how many dimensions they span.

Classical theory bounds the gap between training and test error by the size of the class of functions. These measures
know neither the weights nor the data.
"""

from __future__ import annotations

from truerisk.measures.registry import Value, measure
from truerisk.measures.subject import Subject

JIANG = "Jiang et al. 2020"


@measure(
    "parameters",
    family="counts",
    meaning="How many numbers training could choose.",
    paper=JIANG,
    equation="eq. 20: number of weights and biases",
    invariant=True,
    cost="weights",
)
def parameters(subject: Subject) -> Value:
    counts = {name: float(p.numel()) for name, p in subject.parameters.items()}
    return Value(sum(counts.values()), layers=counts)
