"""How much memory and time measuring will take, told before it starts."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from truerisk.measures.subject import Subject
from truerisk.threads import limited, threads_for

PROBE = 32  # examples of the pass that is timed
TRIES = 4  # the first pass is slower, and others may be disturbed
PASSES = 300  # over the sample, in all searches together: a rough number, for "seconds or minutes?"


@dataclass(frozen=True)
class Estimate:
    """``kept``: bytes that stay for long. ``chunk``: bytes of the largest pass at a time, within the budget."""

    kept: int
    chunk: int
    rows: int  # examples whose gradients are held at a time
    sample: int  # examples that have gradients taken
    seconds: float

    @property
    def sentence(self) -> str:
        return (
            f"measuring takes up to {_size(self.kept + self.chunk)} of memory (gradients of {self.rows:,} of "
            f"{self.sample:,} examples at a time) and about {_span(self.seconds)}"
        )


def estimate(subject: Subject) -> Estimate:
    """From the sizes of the weights and outputs, the budget, and the time that one pass over a few examples takes.

    Kept are the weights in float64 (once as parameters, once as matrices, the same of the initial network), the
    largest layer's singular vectors, and all outputs. A pass over gradients holds them twice, and as many examples at
    a time as the budget allows, but at least one.
    """
    weights = [p for p in subject.function.parameters() if p.requires_grad]
    numbers = sum(p.numel() for p in weights)
    one = 2 * sum(p.numel() * p.element_size() for p in weights)
    rows = max(1, min(len(subject.rows), subject.budget // max(1, one)))
    largest = max((p.numel() for p in weights), default=0)
    kept = 8 * (numbers * (2 if subject.init is None else 4) + 2 * largest + subject.n * subject.data.classes)
    return Estimate(kept, one * rows, rows, len(subject.rows), _seconds(subject))


def _seconds(subject: Subject) -> float:
    x = subject.sample[0][:PROBE]
    spans = []
    with torch.no_grad(), limited(threads_for(subject.function, subject.data.X)):  # as measuring does
        for _ in range(TRIES):
            start = time.perf_counter()
            subject.function(x)
            spans.append(time.perf_counter() - start)
    each = min(spans) / len(x)
    return each * (subject.n + PASSES * len(subject.rows))


def _size(count: int) -> str:
    """
    >>> _size(2_000_000), _size(3 * 2**30)
    ('2 MiB', '3.0 GiB')
    """
    return f"{count / 2**20:,.0f} MiB" if count < 2**30 else f"{count / 2**30:,.1f} GiB"


def _span(seconds: float) -> str:
    """
    >>> _span(3.2), _span(200)
    ('3 seconds', '3 minutes')
    """
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
