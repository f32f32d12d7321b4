"""Sizes: how many numbers a network has, and how many dimensions they span.

Classical theory bounds the gap between training and test error by the size of the class of functions. These measures
know neither the weights nor the data.
"""

from __future__ import annotations

from itertools import accumulate

from truerisk.bounds.vc import vc_dimension
from truerisk.measures.anatomy import Layer
from truerisk.measures.layerwise import chain
from truerisk.measures.registry import NotDefined, Value, measure
from truerisk.measures.subject import Subject

JIANG = "Jiang et al. 2020"


@measure(
    "parameters",
    family="counts",
    meaning="Number of trainable parameters: the numbers that training could choose.",
    paper=JIANG,
    equation="eq. 20: number of weights and biases",
    invariant=True,
    cost="weights",
)
def parameters(subject: Subject) -> Value:
    counts = {name: float(p.numel()) for name, p in subject.parameters.items()}
    return Value(sum(counts.values()), layers=counts)


@measure(
    "vc-dimension",
    family="counts",
    meaning="Upper bound on the VC dimension: no larger set of points can get every labeling by two classes.",
    paper="Bartlett, Harvey, Liaw and Mehrabian 2019",
    equation="Theorem 6: L + S log2(4 e p R log2(2 e p R)), S = sum_i W_i, R = sum_i i k_i, p = 1 for ReLU",
    invariant=True,
    cost="weights",
    settings="W_i: weights in layers 1 to i; k_i: units of layer i, a channel at each of its places; all outputs count",
)
def vc(subject: Subject) -> Value:
    steps = chain(subject)
    if not subject.anatomy.relu_only:
        raise NotDefined("the theorem is about chains of layers with nothing but ReLUs between them.")
    layers = [step for step in steps if isinstance(step, Layer)]
    own = [
        0 if layer.fixed else layer.weight.numel() + (layer.bias is not None) * len(layer.weight) for layer in layers
    ]
    if not any(own):
        raise NotDefined("none of its layers has weights that can be trained.")
    first = next(i for i, count in enumerate(own) if count)  # fixed layers before it are part of the input
    units = [len(layer.weight) * layer.repeats for layer in layers]
    return Value(vc_dimension(list(accumulate(own[first:])), units[first:]))
