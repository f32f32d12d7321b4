"""Training for certificates. Who may see what (rules 2, 3 and 5 of docs/design.rst) is decided by who calls this.

The prior starts from a seeded initialization and sees the prior's examples only; the posterior may see
everything; a network that is tested on examples never sees them before.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save as save_tensors
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from truerisk.certificates.evidence import floor_split
from truerisk.certificates.request import Fit
from truerisk.certificates.settings import DATA_FREE_START, Settings
from truerisk.data import Data, Split
from truerisk.errors import TrueriskError
from truerisk.nets import Adapted, Architecture, check_network, inner, precision
from truerisk.pacbayes import Gaussian, train_posterior
from truerisk.seeds import derive, seeded_globals
from truerisk.training import Checkpoint, fit


@dataclass(frozen=True)
class Trainer:
    """Trains the networks of one certificate, with the user's own function or ours.

    With ``work``, a killed run goes on where it was when the same things are trained again.
    """

    settings: Settings
    data: Data
    arch: Architecture
    own_fit: Fit | None = None
    work: Path | None = None
    unlabelled: np.ndarray | None = None  # inputs that nothing was trained on

    def fresh(self) -> nn.Module:
        """A network with seeded initial weights; never the weights of a module the user handed over."""
        module = self.arch.build(derive(self.settings.seed, "init"))
        if precision(module) != torch.float32:
            raise TrueriskError(
                f"the network is in {precision(module)}, but training is in float32; build the network in float32."
            )
        check_network(module, self.data.X, self.data.classes)
        return module

    def network(self, role: str, rows: np.ndarray) -> nn.Module:
        """A network trained from its seeded start on ``rows`` alone, in eval mode; ``role`` names its plan."""
        return self._fitted(self.fresh(), role, role, rows)

    def tested(self, parts: Split) -> nn.Module:
        """The network of the hold-out baseline: trained on the prior's examples, or on four fifths of all."""
        if len(parts.prior):
            return self.network("prior", parts.prior)
        return self.network("floor", floor_split(self.settings, len(self.data))[0])

    def given(self, parts: Split) -> nn.Module:
        """The already trained network, as it is; it must run on the rows that certify it."""
        if self.arch.given is None:
            raise TrueriskError("a built-in network has no trained weights of its own; give --weights.")
        return check_network(self.arch.given, self.data.X[parts.certify], self.data.classes)

    def continued(self, module: nn.Module, name: str, rows: np.ndarray, role: str = "update") -> nn.Module:
        """A copy of ``module`` trained on, by the plan of ``role``, on ``rows``; a user's function starts anew."""
        start = copy.deepcopy(module) if self.own_fit is None else self.fresh()
        return self._fitted(start, role, name, rows)

    def _fitted(self, module: nn.Module, role: str, name: str, rows: np.ndarray) -> nn.Module:
        examples = self.data.take(rows)
        if self.own_fit is None:
            plan = self.settings.plans[role]
            checkpoint = self._checkpoint(role, name, module.state_dict(), rows)
            fit(
                module,
                examples,
                plan,
                label=f"training the {self._called(name)}network",
                checkpoint=checkpoint,
            )
        else:
            module = self._fit_by_user(module, examples)
        return check_network(module, self.data.X, self.data.classes)

    def _called(self, name: str) -> str:
        """What people call a network: where there is no prior over weights, it is the network itself."""
        if name == "prior" and not self.settings.method.gaussian:
            return ""
        return "baseline " if name == "floor" else f"{name} "

    def _fit_by_user(self, module: nn.Module, examples: Data) -> nn.Module:
        assert self.own_fit is not None
        dataset = TensorDataset(torch.tensor(examples.X), torch.tensor(examples.y))
        with seeded_globals(derive(self.settings.seed, "fit")):
            result = self.own_fit(inner(module), dataset)
        trained = inner(module) if result is None else result
        if not isinstance(trained, nn.Module):
            raise TrueriskError(
                f"fit returned a {type(trained).__name__}, but must return a module; return the trained one, or None "
                "if fit trained it in place."
            )
        trained = Adapted(trained, module.reading) if isinstance(module, Adapted) else trained
        fresh = self.fresh()
        shapes = [{k: v.shape for k, v in m.state_dict().items()} for m in (trained, fresh)]
        if shapes[0] != shapes[1]:
            raise TrueriskError(
                "fit returned a network with another architecture; return the module that fit was given."
            )
        for name, parameter in trained.named_parameters():  # what fit froze on its way is not fixed for that
            parameter.requires_grad_(fresh.get_parameter(name).requires_grad)
        return trained

    def posterior(self, prior: Gaussian, parts: Split, warmup: float = 0.0) -> Gaussian:
        """The posterior trained on the certifying examples, starting at the prior (narrower if data-free)."""
        ratio = 1.0 if len(parts.prior) else DATA_FREE_START
        start = Gaussian(prior.module, prior.mean, {name: ratio * std for name, std in prior.std.items()})
        return self.trained_from(start, prior, parts.certify, "posterior", prior.mean | prior.fixed, warmup)

    def trained_from(
        self,
        start: Gaussian,
        prior: Gaussian,
        rows: np.ndarray,
        name: str,
        centre: Mapping[str, Tensor],
        warmup: float,
        means: bool = True,
    ) -> Gaussian:
        """The posterior that training on ``rows`` makes of ``start``; without ``means``, of its widths alone.

        ``centre`` is what tells this training from others, beside the widths of the prior.
        """
        objective: dict[str, Any] = {"objective_name": self.settings.objective, "warmup": warmup}
        widths = {f"std {key}": std for key, std in prior.std.items()}
        posterior, _ = train_posterior(
            prior,
            self.data.X[rows],
            self.data.y[rows],
            self.settings.plans["posterior"],
            start=start,
            means=means,
            checkpoint=self._checkpoint("posterior", name, {**centre, **widths}, rows, objective),
            **objective,
        )
        return posterior

    def _checkpoint(
        self,
        role: str,
        name: str,
        start: Mapping[str, Tensor],
        rows: np.ndarray,
        objective: Mapping[str, Any] | None = None,
    ) -> Checkpoint | None:
        """Where this training is kept. All that decides its outcome must agree, the rest (method, delta) need not.

        So another method that needs the same network finds it there.
        """
        if self.work is None:
            return None
        first = save_tensors({key: value.contiguous().clone() for key, value in start.items()})
        key = {
            "plan": self.settings.plans[role].record(),
            "objective": objective,
            "data": self.data.sha256,
            "rows": hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest(),
            "start": hashlib.sha256(first).hexdigest(),
        }
        return Checkpoint(self.work / f"{name}-{hashlib.sha256(str(key).encode()).hexdigest()[:12]}.pt", key)
