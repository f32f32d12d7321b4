"""A network to measure: a module as it is, or a name or factory whose network is trained first.

Training follows the usual plan for the network and the data, and stops when the training loss is 0.01. The initial
weights and the record that the optimization measures read are kept. ``truerisk measure`` and ``truerisk.measure`` both
come here, so they give the same numbers for the same seed.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from truerisk.data import Data
from truerisk.errors import TrueriskError
from truerisk.measures.families.optimization import STEPS_BETWEEN, STEPS_TO, VARIANCE
from truerisk.measures.observed import held_out
from truerisk.measures.subject import ROWS, NotDefined, Subject
from truerisk.nets import MODULE, Adapted, Architecture, adapted, architecture, check_network, fitted, precision
from truerisk.nets.adapt import adapt
from truerisk.threads import limited, threads_for
from truerisk.training import History, Plan, fit
from truerisk.training.plans import default_plans, has_recipe
from truerisk.words import several

TARGET_LOSS = 0.01  # a network that is trained here stops at this training loss, if it gets there
AS_IT_CAME = "Its weights are those that the module came with."


@dataclass(frozen=True)
class Network:
    """A network to measure, and what is known of how it came to its weights.

    ``data``: as the network takes them. ``init``: the network before its training. ``record``: as for ``measure``.
    ``how``: one sentence about the weights. ``plan``: how the library trained it for this measurement; None where it
    did not. ``test``: held-out examples, as the network takes them. ``fitted``: whether training reached its loss.
    """

    name: str
    module: nn.Module
    data: Data
    init: nn.Module | None
    record: dict[str, Any]
    how: str
    plan: Plan | None = None
    test: Data | None = None
    fitted: bool = True

    @property
    def trained_here(self) -> bool:
        return self.plan is not None


def given_or_trained(
    model: object,
    data: Data,
    init: nn.Module | None = None,
    *,
    record: Mapping[str, Any] | None = None,
    rows: int = ROWS,
    seed: int = 0,
    outputs: str | None = None,
    test: object = None,
    data_dir: str | Path | None = None,
) -> Network:
    """A module as it is; the network of a name or a factory after training on ``data``, from the weights of ``seed``.

    ``test``: held-out examples, as ``measures.observed.held_out`` reads them.

    >>> from truerisk.data import load
    >>> given_or_trained(nn.Linear(64, 10), load("digits")).trained_here
    False
    """
    known = dict(record or {})
    if isinstance(model, nn.Module):
        data, out = held_out(data, test, False, seed, data_dir)
        return as_it_came(type(model).__name__, model, data, init, known, outputs, test=out)
    if not isinstance(model, str) and not callable(model):
        raise TrueriskError(
            f"the model is a {type(model).__name__}, but must be a torch module, the name of a built-in network, or a "
            'function that builds one; try "mlp:64".'
        )
    arch = architecture(model, data.input_shape, data.classes, trust_factory=True)
    if arch.kind == MODULE:
        data, out = held_out(data, test, False, seed, data_dir)
        return as_it_came(arch.name, arch.template(), data, init, known, outputs, test=out)
    if init is not None:
        raise TrueriskError(
            f"init says where the training of a module began, but {arch.name} is trained here; give the trained module."
        )
    data, out = held_out(data, test, True, seed, data_dir)
    arch, data = fitted(arch, data, outputs)
    return train(arch, data, training_plan(arch.name, data, seed), record=known, rows=rows, test=out)


def as_it_came(
    name: str,
    module: nn.Module,
    data: Data,
    init: nn.Module | None,
    record: dict[str, Any],
    outputs: str | None,
    how: str = AS_IT_CAME,
    test: Data | None = None,
) -> Network:
    """A network with its weights, to measure on data as it takes them."""
    own, taken = adapted(module, data, outputs)
    first = None if init is None else adapt(init, own.reading) if isinstance(own, Adapted) else init
    return Network(name, own, taken, first, record, how, test=_like(test, taken))


def training_plan(name: str, data: Data, seed: int) -> Plan:
    """The usual one, until the training loss is 0.01; at a constant rate, where that does not get slower on the way."""
    plan = replace(default_plans(name, data, len(data), seed, None)["prior"], target_loss=TARGET_LOSS)
    return plan if has_recipe(name) else replace(plan, schedule="constant")


def train(
    arch: Architecture,
    data: Data,
    plan: Plan,
    *,
    record: Mapping[str, Any] | None = None,
    rows: int = ROWS,
    test: Data | None = None,
) -> Network:
    """Build the network from the seed of ``plan``, train it on all of ``data``, keep its initial weights and a record.

    Entries of ``record`` replace those of the training. ``rows``: examples for the gradients after the first epoch.
    """
    module = arch.build(plan.seed)
    check_network(module, data.X, data.classes)
    network = train_module(arch.name, module, data, plan, rows=rows, test=test)
    return replace(network, record=network.record | dict(record or {}))


def train_module(
    name: str,
    module: nn.Module,
    data: Data,
    plan: Plan,
    *,
    rows: int = ROWS,
    test: Data | None = None,
    label: str = "training",
) -> Network:
    """Train ``module`` in place, from the weights that it has, on all of ``data``."""
    if precision(module) != torch.float32:
        raise TrueriskError(
            f"the network is in {precision(module)}, but training is in float32; build it in float32, or train it "
            "yourself and give the trained module (--weights FILE)."
        )
    if not any(p.requires_grad for p in module.parameters()):
        raise TrueriskError(
            "the network has 0 trainable parameters, but training needs at least 1; set requires_grad, or give its "
            "trained weights (--weights FILE)."
        )
    init = copy.deepcopy(module)
    noise: dict[str, float] = {}

    def after(epochs: int) -> bool:
        if epochs == 1:
            first = Subject(copy.deepcopy(module).cpu(), data, rows=rows, seed=plan.seed)
            with contextlib.suppress(NotDefined):  # batch norms that cannot be folded: the table says so
                noise[VARIANCE] = sum(first.gradients.variances.values())
        return False

    with limited(threads_for(module, data.X)):
        history = fit(module, data, plan, label=label, after_epoch=after)
    aside = "" if test is None else f" ({len(test):,} were held out)"
    how = (
        f"It was trained here first, on {len(data):,} examples{aside}, for {several(history.epochs, 'epoch')}, from "
        f"the initial weights of seed {plan.seed}; its training loss was {history.losses[-1]:.2g} at the end."
    )
    known = _steps(history, data, plan) | noise
    return Network(name, module, data, init, known, how, plan, _like(test, data), history.reached_target)


def _like(test: Data | None, data: Data) -> Data | None:
    """Held-out examples with integers only where the network takes them."""
    return test if test is None or data.integers else test.floats()


def _steps(history: History, data: Data, plan: Plan) -> dict[str, Any]:
    """When training reached which loss, to the epoch: what the optimization measures ask for."""
    steps = -(-len(data) // plan.batch_size)
    first, second = (
        next((steps * (epoch + 1) for epoch, loss in enumerate(history.losses) if loss <= target), None)
        for target in (0.1, 0.01)
    )
    return {STEPS_TO: first, STEPS_BETWEEN: None if first is None or second is None else second - first}
