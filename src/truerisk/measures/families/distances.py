"""How far training moved the weights from where it began."""

from __future__ import annotations

import math

import torch

from truerisk.measures.layerwise import move_layer, require_biases, squared_moves, trained_layers
from truerisk.measures.operators import operator_norm_upper
from truerisk.measures.registry import NotDefined, Value, measure
from truerisk.measures.subject import Subject

JIANG = "Jiang et al. 2020"


@measure(
    "distance-frobenius",
    family="distances",
    meaning="How far training moved the weights: the sum of the squares of all changes.",
    paper=JIANG,
    equation="eq. 40: sum over layers of ||W - W_0||_F^2",
    invariant=False,
    cost="weights",
    needs=("init",),
)
def distance_frobenius(subject: Subject) -> Value:
    squares = squared_moves(subject)
    return Value(sum(squares.values()), layers=squares)


@measure(
    "distance-spectral",
    family="distances",
    meaning="How far training moved the weights in the direction in which each layer moved most.",
    paper=JIANG,
    equation="eq. 41: sum over layers of ||W - W_0||_2^2 (a kernel reshaped to out x rest)",
    invariant=False,
    cost="weights",
    needs=("init",),
)
def distance_spectral(subject: Subject) -> Value:
    squares = {
        layer.name: float(torch.linalg.matrix_norm(subject.moves[layer.name], ord=2)) ** 2
        for layer in trained_layers(subject)
    }
    return Value(sum(squares.values()), layers=squares)


@measure(
    "distance-operator",
    family="distances",
    meaning="The same, with a convolution's norm as the map that it is in place of its kernel's.",
    paper="Dziugaite et al. 2020 (code), eq. 41 of Jiang et al. 2020 with another norm",
    equation="sum over layers of ||W - W_0||_op^2 (the map from images to images, certified from above)",
    invariant=False,
    cost="weights",
    needs=("init",),
)
def distance_operator(subject: Subject) -> Value:
    layers = trained_layers(subject)
    if all(layer.geometry is None for layer in layers):
        raise NotDefined("no layer is a convolution: it is the same as distance-spectral.")
    squares = {layer.name: operator_norm_upper(move_layer(subject, layer)) ** 2 for layer in layers}
    return Value(sum(squares.values()), layers=squares)


@measure(
    "distance-l2",
    family="distances",
    meaning="The length of the straight line from the first parameters to the last, biases too.",
    paper="Dziugaite et al. 2020 (code), there without biases; Nagarajan and Kolter 2019",
    equation="||w - w_0||_2 over all parameters",
    invariant=False,
    cost="weights",
    needs=("init",),
)
def distance_l2(subject: Subject) -> Value:
    require_biases(subject, "distance-frobenius")
    before = subject.initial_parameters
    squares = {name: float((p - before[name]).square().sum()) for name, p in subject.parameters.items()}
    return Value(math.sqrt(sum(squares.values())), layers={name: math.sqrt(s) for name, s in squares.items()})
