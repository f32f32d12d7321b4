"""What the user hands over, loaded and checked: data, a network, unlabeled inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from truerisk.certificates.counts import wrong_answers
from truerisk.certificates.draws import Draws
from truerisk.certificates.request import Request
from truerisk.certificates.workshop.compare import settle_inputs
from truerisk.certificates.workshop.fresh import leave_out
from truerisk.data import Data, Split, load, load_inputs
from truerisk.data.matching import match_classes, match_columns
from truerisk.errors import TrueriskError
from truerisk.nets import (
    BUILTIN,
    FACTORY,
    MODULE,
    Architecture,
    architecture,
    check_network,
    fitted,
    inner,
    load_weights,
    outputs,
)
from truerisk.nets.evaluate import is_lazy
from truerisk.seeds import derive
from truerisk.threads import threads_for

Weights = str | Path | Mapping[str, Tensor]


@dataclass(frozen=True)
class Material:
    """All that is certified from."""

    data: Data
    arch: Architecture
    trained: bool  # ``arch.given`` holds weights that saw all of ``data``
    draws: Draws  # about rows with equal values
    threads: int
    unlabelled: np.ndarray | None = None
    parts: Split | None = None  # the rows that certify a network which came trained; None: the seed decides
    own: tuple[int, int] | None = None  # (wrong answers, examples) of that network on its training set, if given


def gather(request: Request) -> Material:
    """Load everything that a request names; a TrueriskError says what is wrong with it."""
    return _fresh(request) if request.fresh is not None else _labelled(request)


def _fresh(request: Request) -> Material:
    """A trained network, and labelled data that it never saw."""
    data = load(request.fresh, request.data_dir)
    arch = architecture(request.model, data.input_shape, data.classes, trust_factory=True)
    if request.weights is None and arch.kind == FACTORY:
        _refuse_untrained(arch)
    arch, data = fitted(arch, data, request.outputs)
    arch = replace(arch, given=_trained_module(arch, request.weights))
    parts, draws, trained = leave_out(data, request.trained_on, request.data_dir, request.draws)
    if trained is not None:
        trained = match_classes(trained, data, "the training data")
    own = None if trained is None else _own_errors(arch, data, trained)
    return Material(data, arch, False, draws, _threads(request, arch, data), parts=parts, own=own)


def _refuse_untrained(arch: Architecture) -> None:
    """A factory may load weights; one whose parameters follow the seed builds an untrained network."""
    one, two = arch.build(derive(0, "probe")), arch.build(derive(1, "probe"))
    if is_lazy(one):
        raise TrueriskError(f"what {arch.name} builds has lazy layers; run it once on one input in the factory.")
    pairs = zip(one.parameters(), two.parameters(), strict=False)
    if any(a.shape != b.shape or not torch.equal(a, b) for a, b in pairs):
        raise TrueriskError(
            f"--fresh tests an already trained network, but {arch.name} builds an untrained one; give its --weights."
        )


def _own_errors(arch: Architecture, data: Data, trained: Data) -> tuple[int, int]:
    """(wrong answers, examples) on the data that the network was trained on."""
    assert arch.given is not None
    network = check_network(arch.given, data.X, data.classes)
    if trained.integers != data.integers:
        raise TrueriskError("the fresh inputs are integers, but the training inputs are not; give both as integers.")
    answers = outputs(network, trained.X[:1]).shape[1]
    if trained.classes > answers:
        raise TrueriskError(
            f"the training set has {trained.classes} classes, but the network answers {answers}; give the set that "
            "trained it as --trained-on."
        )
    check_network(arch.given, trained.X, data.classes)
    return wrong_answers(network, trained.X, trained.y).value, len(trained)


def _labelled(request: Request) -> Material:
    """Data to train and certify on, and perhaps a network already trained on it."""
    data = load("digits" if request.data is None else request.data, request.data_dir)
    shape, trust = data.input_shape, request.trust_factory
    arch = architecture(request.model, shape, data.classes, trust_factory=trust, few_weights=request.few_weights)
    arch, data = fitted(arch, data, request.outputs)
    silently = request.named is not None and request.named.needs_weights and arch.kind == MODULE
    trained = request.brings_weights or silently
    if trained:
        if request.weights is None and arch.kind != MODULE:
            raise TrueriskError("unlabeled inputs are for an already trained network; give --weights too.")
        arch = replace(arch, given=check_network(_trained_module(arch, request.weights), data.X, data.classes))
    inputs = None if request.unlabelled is None else _inputs(request, data)
    draws = request.draws if inputs is None else settle_inputs(inputs, data, request.draws)
    if inputs is not None and arch.given is not None:
        check_network(arch.given, inputs, data.classes)
    return Material(data, arch, trained, draws, _threads(request, arch, data), inputs)


def _inputs(request: Request, data: Data) -> np.ndarray:
    """The unlabeled inputs; floats where the labeled data are floats, so that equal rows are found."""
    found = load_inputs(request.unlabelled, request.data_dir)
    X = match_columns(found.X, found.feature_names, data.feature_names, "the unlabeled inputs")
    return X if data.integers else X.astype(np.float32, copy=False)


def _threads(request: Request, arch: Architecture, data: Data) -> int:
    return request.threads or threads_for(arch.template(), data.X)


def _trained_module(arch: Architecture, weights: object) -> nn.Module:
    if weights is None and arch.kind == BUILTIN:
        raise TrueriskError("a built-in network has no trained weights of its own; give --weights.")
    module = arch.template()
    if weights is not None:
        load_weights(inner(module), cast("Weights", weights))
    return module
