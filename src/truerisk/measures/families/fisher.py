"""Gradients of single examples: how large they are, how much they agree.

    g_i = gradient of the cross-entropy of example i, of m, with respect to all trainable parameters

All measures here come from one pass over the sample (``truerisk.measures.gradients``).
"""

from __future__ import annotations

import math

from truerisk.measures.registry import NotDefined, Value, measure
from truerisk.measures.subject import Subject

SAMPLE = "on the sample"


@measure(
    "fisher-rao",
    family="fisher",
    meaning="Fisher-Rao norm: how strongly the losses react if all weights grow in proportion.",
    paper="Liang et al. 2019; Jiang et al. 2020",
    equation="eq. 45 of Jiang et al. (number from memory): (d + 1)^2 (1/m) sum_i <w, g_i>^2, d: number of layers",
    invariant=True,
    cost="gradients",
    settings=SAMPLE,
)
def fisher_rao(subject: Subject) -> float:
    depth = sum(not layer.fixed for layer in subject.layers)
    return (depth + 1) ** 2 * float(subject.gradients.along.square().mean())


@measure(
    "m-coherence",
    family="fisher",
    meaning="Coherence of gradients: how many examples one step helps, on average; larger means simpler.",
    paper="Chatterjee and Zielinski 2020 (arXiv 2008.01217)",
    equation="||sum_i g_i||^2 / sum_i ||g_i||^2, between 0 and m",
    invariant=False,
    cost="gradients",
    settings=SAMPLE,
)
def m_coherence(subject: Subject) -> float:
    total = float(subject.gradients.squared_norms.sum())
    if total == 0:
        raise NotDefined("all its gradients are zero.")
    return subject.gradients.squared_total / total


@measure(
    "gradient-norm",
    family="fisher",
    meaning="Norm of the mean gradient: how far the network is from a stationary point of the loss.",
    paper="textbook",
    equation="||(1/m) sum_i g_i||_2",
    invariant=False,
    cost="gradients",
    settings=SAMPLE,
)
def gradient_norm(subject: Subject) -> Value:
    found = subject.gradients
    layers = {name: float(t.square().sum().sqrt()) / found.count for name, t in found.total.items()}
    return Value(math.sqrt(found.squared_total) / found.count, layers=layers)


@measure(
    "gradient-noise",
    family="fisher",
    meaning="Variance of per-example gradients: how much they differ from their mean after training.",
    paper="Jiang et al. 2020",
    equation="eq. 65 (number from memory): (1/m) sum_i ||g_i - g||^2, g: mean of the g_i",
    invariant=False,
    cost="gradients",
    settings=SAMPLE,
)
def gradient_noise(subject: Subject) -> Value:
    parts = subject.gradients.variances
    return Value(sum(parts.values()), layers=parts)


@measure(
    "empirical-fisher-trace",
    family="fisher",
    meaning="Trace of the empirical Fisher matrix: mean squared norm of the per-example gradients.",
    paper="Thomas et al. 2020 (trace of the second moment of the gradients; from memory)",
    equation="(1/m) sum_i ||g_i||^2",
    invariant=False,
    cost="gradients",
    settings=SAMPLE,
)
def empirical_fisher_trace(subject: Subject) -> Value:
    parts = {name: float(s.mean()) for name, s in subject.gradients.squares.items()}
    return Value(sum(parts.values()), layers=parts)
