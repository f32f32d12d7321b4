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
    meaning="Squared Frobenius distance from initialization: how far training moved the weight matrices.",
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
    meaning="Squared spectral distance from initialization: how far layers moved in their main direction.",
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
    meaning="Squared operator distance from initialization: layer moves, with convolutions as maps of images.",
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
    meaning="Euclidean distance from initialization: how far training moved all parameters, biases included.",
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
