"""What a user asks for, read once. All that options alone decide is refused here, without torch and before any work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from truerisk.certificates.draws import Draws
from truerisk.certificates.made import now
from truerisk.certificates.methods import BASELINE, METHODS, PREDICTORS, USUAL, Method, find_method
from truerisk.certificates.methods.base import DETERMINISTIC, SINGLE_DRAW, STOCHASTIC
from truerisk.certificates.prior import Prior
from truerisk.certificates.schema import option, settle
from truerisk.certificates.settings import LARGEST_SEED, PRIOR_STDS
from truerisk.errors import TrueriskError
from truerisk.names import CPU, DEVICES, OBJECTIVES, OUTPUTS

Fit = Callable[..., Any]  # (fresh module, torch Dataset) -> the trained module, or None if trained in place
OF_TRAINING = ("prior", "epochs", "lr", "prior_std", "fit")  # of no use where nothing is trained
OF_POSTERIORS = ("prior_std", "objective")  # of no use where no posterior is trained
ALL = "all"  # in place of a method's name: every one that applies


@dataclass(frozen=True)
class Request:
    """A network, data, and all choices. Fields with a help text are options of the command line as well."""

    data: object = option(None, "Dataset name (digits, openml:iris) or path (.csv, .npz, folder).", shown="digits")
    model: object = option(None, "Network: mlp, mlp:600-600, convnet, FILE.py:NAME, or MODULE:NAME.", shown="by input")
    weights: object = option(
        None,
        "Trained weights (safetensors or .pt); also give --fresh or --data.",
        shown="",
    )
    fresh: object = option(None, "Labeled data that the trained network never saw.", shown="")
    trained_on: object = option(None, "Training data of the network: a dataset, or a file of row numbers.", shown="")
    unlabelled: object = option(None, "Inputs that the trained network never saw; labels are ignored.", shown="")
    repeats_are_draws: bool = option(False, "Vouch that rows with equal values are separate draws.")
    ids: object = option(None, "Identities of the fresh or unlabeled rows (.npy, .txt, or .json).", shown="")
    trained_on_ids: object = option(None, "Identities of the rows that the network was trained on.", shown="")
    prior: str | None = option(None, "Prior: zero, init, or split:FRACTION.", shown="split:0.5; zero with --weights")
    method: str | Method | None = option(
        None, "Method from the list below, or all.", shown=f"{USUAL[DETERMINISTIC][0].name}; all with --weights"
    )
    predictor: str | None = option(
        None, f"Kind of predictor: {', '.join(PREDICTORS[:-1])}, or {PREDICTORS[-1]}.", shown="", among=PREDICTORS
    )
    two_sided: bool = option(False, "Bound the risk from below as well.")
    delta: float = option(
        0.05, "Failure probability of the certificate (delta).", above=0, below=1, hint="try --delta 0.05"
    )
    seed: int = option(0, "Random seed; same seed, threads, and software: same certificate.", low=0, high=LARGEST_SEED)
    tried: int | None = option(
        None, "Number of configurations that you compared on this data.", shown="1", low=1, hint="count this one too"
    )
    epochs: int | None = option(None, "Number of passes over the data.", shown="by data size")
    lr: float | None = option(None, "Peak learning rate for training the network.", shown="by network")
    prior_std: float | None = option(
        None,
        "Prior scale (standard deviation) in units of 1/sqrt(fan_in).",
        shown="by prior",
        low=PRIOR_STDS[0],
        high=PRIOR_STDS[1],
        hint="try --prior-std 1",
    )
    objective: str = option("tempered", "Training objective: tempered, quadratic, lambda, or kl.", among=OBJECTIVES)
    outputs: str | None = option(
        None, "Meaning of a single output: logits or probabilities.", shown="logits", among=OUTPUTS
    )
    device: str = option(CPU, "Device for training: cpu, cuda, or auto.", among=DEVICES)
    threads: int | None = option(
        None, "Number of CPU threads.", shown="1, or 2 for a large network", low=1, hint="leave it out for the default"
    )
    trust_factory: bool = option(False, "Vouch that the factory's weights and buffers never saw this data.")
    data_dir: Path | str | None = option(None, "Folder to search first for data files.", shown="")
    options: Mapping[str, Any] = field(default_factory=dict)  # of the method
    fit: Fit | None = None
    work: Path | None = None

    def __post_init__(self) -> None:
        settle(self)
        if not isinstance(self.options, Mapping) or not all(isinstance(name, str) for name in self.options):
            raise TrueriskError("options is not a dictionary of names and values; give one such as {'blocks': 8}.")
        if self.fit is not None and not callable(self.fit):
            raise TrueriskError("fit is not a function; give one that trains the module that it gets.")
        if not (self.weights is None or isinstance(self.weights, str | Path | Mapping)):
            raise TrueriskError("weights is neither a file nor a state dict; give one of the two.")
        if self.lr is not None and self.fit is not None:
            raise TrueriskError("lr is for truerisk's own training, but fit is yours; set the learning rate in fit.")
        self._refuse_together()
        self._refuse_methods()
        now()  # a date that cannot be written is told before the work

    def _refuse_together(self) -> None:
        """Options that contradict one another."""
        if self.fresh is None:
            if self.trained_on is not None:
                raise TrueriskError(
                    "trained_on lists examples that fresh data must not contain; give fresh data too (--fresh)."
                )
            if self.unlabelled is None and self.draws.recorded()["row_ids"]:
                raise TrueriskError(
                    "ids are for rows that the network never saw; give --fresh or --unlabeled with --ids."
                )
            return
        if self.data is not None:
            raise TrueriskError(
                "data (to train and certify) and fresh (to certify a trained network) exclude each other; give one."
            )
        if self.unlabelled is not None:
            raise TrueriskError("fresh examples already have labels; leave out either --fresh or --unlabeled.")
        if self.method not in (None, BASELINE.name, BASELINE()) or self.predictor not in (None, DETERMINISTIC):
            raise TrueriskError(
                f"fresh examples certify the unchanged network by {BASELINE.name}; leave out --method and --for."
            )
        unused = [name for name in OF_TRAINING if getattr(self, name) is not None] + sorted(self.options)
        unused += ["objective"] if self.objective != Request.objective else []
        if unused:
            raise TrueriskError(
                f"fresh examples only test the network, without training; leave out {', '.join(unused)}."
            )

    def _refuse_methods(self) -> None:
        """Methods that do not exist, their options, and a prior that the one method does not go with."""
        asked, found = self.asked_prior, self.candidates(self.brings_weights)
        if len(found) == 1 and self.fresh is None:
            found[0].refuse(asked or found[0].usual_prior, given=found[0].needs_weights)
        unused = [name for name in OF_POSTERIORS if getattr(self, name) != getattr(Request, name)]
        if unused and not any(method.gaussian or method.needs_weights for method in found):
            raise TrueriskError(
                f"{unused[0]} is for methods with a prior and a posterior over weights; name one, as in --method "
                f"{USUAL[STOCHASTIC][0].name}."
            )
        if len(found) == 1 and self.two_sided:
            found[0].refuse_lower_end()

    @property
    def configurations(self) -> int:
        """How many the user compared."""
        return 1 if self.tried is None else self.tried

    @property
    def brings_weights(self) -> bool:
        """Whether a network is already trained on the data, by what was said; a module may hold weights silently."""
        return self.weights is not None or self.unlabelled is not None

    @property
    def few_weights(self) -> bool:
        """Whether the network that is meant by saying nothing should be small: some method's bound grows with it."""
        return any(method.counts_weights for method in self.candidates(self.brings_weights))

    @cached_property
    def draws(self) -> Draws:
        """What is said about rows with equal values."""
        return Draws.of(self.repeats_are_draws, self.ids, self.trained_on_ids)

    @cached_property
    def named(self) -> Method | None:
        """The method that was asked for by name or as an object."""
        if isinstance(self.method, Method):
            if self.options:
                raise TrueriskError(
                    "the method is an object, so it has its options already; leave out options, or give its name."
                )
            return self.method
        return None if self.method in (None, ALL) else find_method(str(self.method)).of(self.options)

    @cached_property
    def asked_prior(self) -> Prior | None:
        """The prior that was asked for; None: as the method likes it."""
        return None if self.prior is None else Prior.parse(self.prior)

    def candidates(self, trained: bool) -> list[Method]:
        """The methods that this may mean for an already ``trained`` network or for none, with their options."""
        if self.fresh is not None:
            return [BASELINE()]
        if self.named is not None:
            if self.predictor not in (None, self.named.predictor):
                raise TrueriskError(
                    f"the method {self.named.name} certifies a {self.named.predictor} predictor, not a "
                    f"{self.predictor} one; leave out --method or --for."
                )
            return [self.named]
        if self.method is None and not trained:
            aside = self.asked_prior is None or self.asked_prior.fraction > 0
            # A data-free prior is what a posterior is compared with; whoever names one asks for that.
            usual = USUAL[self.predictor or (DETERMINISTIC if aside else STOCHASTIC)]
            return [usual[0 if aside else 1].of(self.options)]
        kinds = [kind for kind in METHODS.values() if self.suits(kind, trained)]
        if self.method is None and self.predictor is None:
            # A single draw is no better than the posterior it is drawn from.
            kinds = [kind for kind in kinds if kind.predictor != SINGLE_DRAW]
        made = [kind.of(kind.takes(self.options)) for kind in kinds]
        if self.two_sided:  # the others would be left out later, and their options would have no effect
            made = [method for method in made if _has_lower_end(method)]
        unknown = set(self.options).difference(*(method.takes(self.options) for method in made))
        if unknown:
            raise TrueriskError(f"none of these methods has the option {', '.join(sorted(unknown))}; leave it out.")
        return made

    def suits(self, kind: type[Method] | Method, trained: bool) -> bool:
        """Whether a method is for such a network and predictor."""
        if self.predictor not in (None, kind.predictor):
            return False
        if not trained:
            return not kind.needs_weights
        return kind.takes_weights and (self.unlabelled is not None or not kind.needs_unlabelled)


def _has_lower_end(method: Method) -> bool:
    try:
        method.refuse_lower_end()
    except TrueriskError:
        return False
    return True
