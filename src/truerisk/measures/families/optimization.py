"""Speed of training, from a record of it: easy data are fitted fast.

``record`` (``measure(..., record=...)``, ``--record``) is a dictionary with any of these keys:

    steps_to_0.1                    optimizer steps until the mean training cross-entropy was 0.1
    steps_0.1_to_0.01               steps from there until it was 0.01
    gradient_variance_first_epoch   (1/m) sum_i ||g_i - g||^2 after the first epoch (see the measure gradient-noise)

A key that is missing, or None because training never got there, leaves its measure out. Equation numbers (Jiang et al.
2020) are from memory.
"""

from __future__ import annotations

import math

from truerisk.errors import TrueriskError
from truerisk.measures.registry import NotDefined, measure
from truerisk.measures.subject import Subject

JIANG = "Jiang et al. 2020"
STEPS_TO, STEPS_BETWEEN, VARIANCE = "steps_to_0.1", "steps_0.1_to_0.01", "gradient_variance_first_epoch"


def _recorded(subject: Subject, key: str) -> float:
    value = subject.record.get(key)
    if value is None:
        raise NotDefined(f"the record of its training has no {key}.")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise TrueriskError(f"{key} in the training record is {value!r}: give a finite number of at least 0.")
    return float(value)


@measure(
    "steps-to-loss-0.1",
    family="optimization",
    meaning="Training speed: number of steps until the cross-entropy was 0.1.",
    paper=JIANG,
    equation="eq. 62 (number from memory)",
    invariant=True,
    cost="weights",
    needs=("record",),
)
def steps_to_loss(subject: Subject) -> float:
    return _recorded(subject, STEPS_TO)


@measure(
    "steps-loss-0.1-to-0.01",
    family="optimization",
    meaning="Late training speed: number of steps from a cross-entropy of 0.1 to one of 0.01.",
    paper=JIANG,
    equation="eq. 63 (number from memory)",
    invariant=True,
    cost="weights",
    needs=("record",),
)
def steps_between_losses(subject: Subject) -> float:
    return _recorded(subject, STEPS_BETWEEN)


@measure(
    "gradient-noise-first-epoch",
    family="optimization",
    meaning="Early gradient variance: how much per-example gradients differed after the first epoch.",
    paper=JIANG,
    equation="eq. 64 (number from memory): (1/m) sum_i ||g_i - g||^2 at the weights after one epoch",
    invariant=True,
    cost="weights",
    needs=("record",),
)
def gradient_noise_first_epoch(subject: Subject) -> float:
    return _recorded(subject, VARIANCE)
