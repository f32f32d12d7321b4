"""Capacity and impact of single hidden units: why wider networks may generalize better (Neyshabur et al. 2019).

For f(x) = V relu(U x), with rows u_j of U (u_j^0 before training) and columns v_j of V:

    capacity of unit j    beta_j = ||u_j - u_j^0||
    impact of unit j      alpha_j = ||v_j||

A bias is a weight on a constant input 1. The bias of the output is the column v of one more unit that is always 1 and
that training can't move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from truerisk.measures.anatomy import Layer, anatomy
from truerisk.measures.passes import inputs, network
from truerisk.measures.registry import NotDefined, Value, measure
from truerisk.measures.subject import Subject
from truerisk.measures.two_layer import margin_level, unit_wise

NEYSHABUR = "Neyshabur et al. 2019"
BIASES = "a bias counts as a weight on a constant input 1"


def hidden_layer(subject: Subject) -> tuple[Layer, Layer]:
    """(U, V) of a network with one hidden layer of ReLUs; NotDefined for all others."""
    parts = subject.anatomy
    if not parts.relu_only:
        raise NotDefined(f"it is defined for chains of linear layers and ReLUs ({parts.why or 'not one'}).")
    operations = [step.operation for step in parts.chain if not isinstance(step, Layer)]
    if len(parts.layers) != 2 or operations.count("relu") != 1 or not isinstance(parts.chain[-1], Layer):
        raise NotDefined("it is defined for networks with exactly one hidden layer.")
    first, second = parts.layers
    if any(layer.geometry is not None or layer.repeats > 1 or layer.weight.ndim != 2 for layer in parts.layers):
        raise NotDefined("it is defined for fully connected layers.")
    return first, second


@dataclass(frozen=True)
class Units:
    """Everything the bound speaks of; one entry for each hidden unit, the constant one not among them."""

    capacity: Tensor  # beta
    impact: Tensor  # alpha
    response: Tensor  # ||u_j^0 X|| over all examples
    inputs: float  # ||X||_F
    constant: float  # alpha of the unit that is always 1


def units(subject: Subject) -> Units:
    """Capacity, impact and what the initial weights answer to the data; computed once."""
    return subject.shared("hidden units", lambda: _units(subject))


def _units(subject: Subject) -> Units:
    assert subject.init is not None
    first, second = hidden_layer(subject)
    before = anatomy(subject.init, subject.example).layers[0]
    biased = first.bias is not None or second.bias is not None
    now, then = (_with_bias(layer) if biased else layer.matrix for layer in (first, before))
    graph = network(subject)
    node = next(node for node, step in zip(graph.graph.nodes, subject.anatomy.chain, strict=True) if step is first)
    entering = node.all_input_nodes[0]
    squares, total = torch.zeros(len(then), dtype=torch.float64), 0.0
    for (x,) in graph.many(inputs(subject), [entering], subject.budget):
        x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1) if biased else x
        squares += (x @ then.T).square().sum(0)
        total += float(x.square().sum())
    constant = 0.0 if second.bias is None else float(second.bias.norm())
    return Units((now - then).norm(dim=1), second.matrix.norm(dim=0), squares.sqrt(), math.sqrt(total), constant)


def _with_bias(layer: Layer) -> Tensor:
    """[U b], where a bias that is not there is 0."""
    bias = layer.matrix.new_zeros(len(layer.matrix)) if layer.bias is None else layer.bias
    return torch.cat([layer.matrix, bias[:, None]], dim=1)


@measure(
    "unit-capacity-mean",
    family="capacity",
    meaning="Mean unit capacity: how far training moved the incoming weights of a hidden unit, on average.",
    paper=NEYSHABUR,
    equation="section 2: mean over j of beta_j = ||u_j - u_j^0||",
    invariant=False,
    cost="forward",
    needs=("init",),
    settings=BIASES,
)
def unit_capacity_mean(subject: Subject) -> float:
    return float(units(subject).capacity.mean())


@measure(
    "unit-capacity-max",
    family="capacity",
    meaning="Largest unit capacity: how far training moved the hidden unit that moved most.",
    paper=NEYSHABUR,
    equation="section 2: largest beta_j = ||u_j - u_j^0||",
    invariant=False,
    cost="forward",
    needs=("init",),
    settings=BIASES,
)
def unit_capacity_max(subject: Subject) -> float:
    return float(units(subject).capacity.max())


@measure(
    "unit-impact-mean",
    family="capacity",
    meaning="Mean unit impact: how strongly a hidden unit acts on the outputs, on average.",
    paper=NEYSHABUR,
    equation="section 2: mean over j of alpha_j = ||v_j||",
    invariant=False,
    cost="weights",
)
def unit_impact_mean(subject: Subject) -> float:
    return float(hidden_layer(subject)[1].matrix.norm(dim=0).mean())


@measure(
    "unit-capacity-over-margin",
    family="capacity",
    meaning="Unit capacity over the margin: moves of hidden units, weighted by their impact on the outputs.",
    paper=NEYSHABUR,
    equation="Theorem 1: (2 sqrt(2c) + 2) / (gamma m) * sum_j alpha_j (beta_j ||X||_F + ||u_j^0 X||), c outputs",
    invariant=False,
    cost="forward",
    needs=("init",),
    settings=f"gamma: 5th percentile of the margins; {BIASES}",
)
def unit_capacity_over_margin(subject: Subject) -> Value:
    found = units(subject)
    gamma = margin_level(subject.margins)
    if not gamma > 0:
        raise NotDefined("at least one example in twenty is wrong, so that there is no margin to speak of.")
    outputs = len(hidden_layer(subject)[1].matrix)
    parts = (found.impact, found.capacity, found.response, found.inputs)
    return Value(unit_wise(*parts, gamma, subject.n, outputs, found.constant))
