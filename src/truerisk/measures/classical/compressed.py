"""The bound by compression: how many numbers are left of a network if its answers are to stay."""

from __future__ import annotations

import torch

from truerisk.bounds import ProjectedLayer, arora_2018
from truerisk.measures.classical.chains import Link, links, log
from truerisk.measures.classical.products import Found, finished
from truerisk.measures.registry import NotDefined
from truerisk.measures.stability import lengths
from truerisk.measures.subject import Subject
from truerisk.measures.theorems import theorem
from truerisk.nets.evaluate import TIE, margins, precision


@theorem(
    "compression",
    paper="Arora, Ge, Neyshabur and Zhang 2018",
    theorem="Theorem 2.1 with projections as in Algorithm 1 (numbers from memory), proof and constants ours: about the "
    "compressed network",
    meaning="Compression bound: the true risk of a compressed copy of the network that keeps most answers.",
    cost="forward",
)
def compression(subject: Subject, delta: float) -> Found:
    """Chains of fully connected layers. What float arithmetic could change of a margin is taken off it."""
    chain = links(subject)
    layers = [_projected(link) for link in chain]
    margin, scale = margins(subject.logits, subject.labels)
    sure = margin - TIE.get(precision(subject.module), 1e-2) * scale
    if not bool((sure > 0).any()):
        raise NotDefined("no example is right beyond doubt, so there is no answer that compression could keep.")
    found, numbers = arora_2018(sure.numpy(), lengths(subject).entering.numpy(), layers, delta)
    return finished(found, numbers=sum(numbers), weights=float(sum(layer.entries for layer in layers)))


def _projected(link: Link) -> ProjectedLayer:
    layer = link.layer
    if layer.geometry is not None or layer.weight.ndim != 2 or layer.repeats != 1 or layer.fixed:
        raise NotDefined(f"the theorem is about fully connected layers, and {layer.name} is none.")
    frobenius = float(torch.linalg.norm(layer.weight))
    log(frobenius)  # a layer of zeros is refused
    biases = 0 if layer.bias is None else layer.bias.numel()
    rows, entries = layer.weight.shape[0], layer.weight.numel()
    return ProjectedLayer(rows, entries, frobenius, link.operator_norm, link.lipschitz, biases)
