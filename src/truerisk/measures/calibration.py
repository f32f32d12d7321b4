"""The same network trained on random labels: a reference for every measure (after Zhang et al. 2017).

Random labels can only be memorized: on new examples every such network errs as often as guessing. A measure that
explains generalization must therefore differ between the two networks. The reference starts from the same initial
weights, sees the same inputs in the same batches, and stops at the same training loss. Memorizing takes longer, so it
gets up to five times the epochs.
"""

from __future__ import annotations

import copy
from dataclasses import replace

from torch import nn

from truerisk.data import random_labels
from truerisk.measures.subject import ROWS
from truerisk.measures.trained import TARGET_LOSS, Network, train_module, training_plan
from truerisk.nets import count_errors, precision, reinitialized
from truerisk.seeds import derive
from truerisk.training.loop import DivergedError
from truerisk.words import seen_percent, several

LONGER = 5  # times the epochs of the recipe that memorizing may take


def random_label_network(network: Network, *, rows: int = ROWS, seed: int = 0) -> tuple[Network, str]:
    """(the network trained on random labels, one sentence about its training).

    An already trained module has no recipe: then a copy with its initial weights or, without ``init``, a
    re-initialized copy is trained by truerisk's own. ``TrueriskError`` where neither is possible.
    """
    start = _start(network, seed)
    data = random_labels(network.data, derive(seed, "measures", "random labels"))
    plan = network.plan or training_plan(network.name, data, seed)
    longer = replace(plan, epochs=LONGER * plan.epochs)
    kind = precision(start)
    try:
        trained = train_module(
            network.name, start.float(), data, longer, rows=rows, test=network.test, label="training on random labels"
        )
    except DivergedError as error:
        raise DivergedError(f"{error} Give a network that trains at truerisk's own rate.") from error
    first = None if network.init is None else trained.init
    trained = replace(trained, module=trained.module.to(kind), init=None if first is None else first.to(kind))
    return trained, _note(trained, network)


def _start(network: Network, seed: int) -> nn.Module:
    """The initial weights of the network, or new ones."""
    if network.init is not None:
        module = copy.deepcopy(network.init)
    else:
        module = reinitialized(network.module, derive(seed, "measures", "initial weights"))
    if not any(p.requires_grad for p in module.parameters()):  # frozen for use; the reference has to be trained
        module.requires_grad_(True)
    return module


def _note(trained: Network, network: Network) -> str:
    recipe = "by the same recipe" if network.trained_here else "by truerisk's recipe, which may not be that of yours"
    start = "from the same initial weights" if network.init is not None else "from new initial weights"
    wrong = count_errors(trained.module.eval(), trained.data.X, trained.data.y)[0] / len(trained.data)
    trained_how = f"The reference was trained on the same inputs with random labels, {start}, {recipe}"
    if trained.fitted:
        return f"{trained_how}; it misclassifies {seen_percent(wrong)} of these examples."
    assert trained.plan is not None
    after = f"after {several(trained.plan.epochs, 'epoch')}"
    if not wrong:
        return f"{trained_how}; {after} it misclassifies none of these examples, but its loss is above {TARGET_LOSS:g}."
    return (
        f"{trained_how}. It does not fit its random labels: {after} it misclassifies {seen_percent(wrong)} of these "
        "examples, so its numbers understate memorization."
    )
