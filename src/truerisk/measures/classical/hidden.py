"""The bound for one hidden layer by what each hidden unit has learned."""

from __future__ import annotations

from truerisk.bounds import neyshabur_2019
from truerisk.measures.classical.products import Found, finished
from truerisk.measures.families.capacity import hidden_layer, units
from truerisk.measures.registry import NotDefined
from truerisk.measures.subject import Subject
from truerisk.measures.theorems import theorem


@theorem(
    "unit-capacity-impact",
    paper="Neyshabur, Li, Bhojanapalli, LeCun and Srebro 2019",
    theorem="Theorems 1 and 2 with our constants, capacity and impact of each unit rounded up and paid for",
    meaning="Unit-wise bound: how far training moved each hidden unit, weighted by its effect on the outputs.",
    cost="forward",
)
def unit_capacity_impact(subject: Subject, delta: float) -> Found:
    """One hidden layer of ReLUs, fully connected, with the initialization."""
    _, second = hidden_layer(subject)
    if subject.init is None:
        raise NotDefined("it needs the network at its initialization (init=, --init).")
    found = units(subject)
    bound = neyshabur_2019(
        subject.margins.numpy(),
        subject.logits.shape[1],
        found.impact.tolist(),
        found.capacity.tolist(),
        found.response.tolist(),
        found.inputs,
        delta,
        constant=None if second.bias is None else found.constant,
    )
    return finished(bound)
