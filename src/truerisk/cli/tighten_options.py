"""What ``truerisk tighten`` was asked, checked before torch is loaded, and the commands that follow from it."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from truerisk.certificates.given import quoted
from truerisk.certificates.methods.around import Around
from truerisk.cli.complete import FORMS
from truerisk.errors import TrueriskError
from truerisk.names import OUTPUTS
from truerisk.progress import printable

DELTA, LIFTED, OUT = 0.05, 100, "truerisk-out"  # as declared; commands leave defaults out
PAGE = "tighten.html"


@dataclass(frozen=True)
class Choice:
    """A model and, maybe, a file with its weights; ``name``: how tables call it."""

    model: str
    weights: Path | None
    name: str


@dataclass(frozen=True)
class Options:
    """The options as given; `check` refuses bad ones."""

    models: Sequence[str]
    weights: Sequence[Path]
    names: Sequence[str]
    data: str
    sigma_q: str
    sigma_p: str
    form: str = "kl"
    delta: float = DELTA
    draws: int | None = None
    lifted: int = LIFTED
    seed: int = 0
    outputs: str | None = None
    data_dir: Path | None = None
    out: Path = Path(OUT)

    def check(self) -> None:
        """Refuse what can be refused without a network and data."""
        if not 0 < self.delta < 1:
            raise TrueriskError(f"delta is {self.delta}, but must lie between 0 and 1; try --delta 0.05.")
        if self.form not in FORMS:
            raise TrueriskError(f"--form is {self.form!r}, but must be one of {', '.join(FORMS)}; choose one.")
        if self.draws is not None and self.draws < 1:
            raise TrueriskError(f"--draws is {self.draws}, but must be at least 1; leave it out for the default.")
        if self.lifted < 0 or self.lifted == 1:
            raise TrueriskError(f"--lifted is {self.lifted}, but must be 0 or at least 2; 0 leaves the lifted KL out.")
        if self.seed < 0:
            raise TrueriskError(f"the seed is {self.seed}, but must be an integer of at least 0; try --seed 0.")
        if self.outputs not in (None, *OUTPUTS):
            raise TrueriskError(f"--outputs is {self.outputs}, but must be {' or '.join(OUTPUTS)}; choose one.")
        if self.out.exists() and not self.out.is_dir():
            raise TrueriskError(f"--out {self.out} is a file, but must be a folder; give another path.")
        above = next((each for each in (self.out, *self.out.parents) if each.exists()), Path())
        if not (above.is_dir() and os.access(above, os.W_OK)):  # before the work, which can take minutes
            raise TrueriskError(
                f"--out {self.out} cannot be made, because {above} cannot be written; give another path."
            )
        scale(self.sigma_q, "--sigma-q")
        scale(self.sigma_p, "--sigma-p")
        missing = next((each for each in self.weights if not each.is_file()), None)
        if missing is not None:
            raise TrueriskError(f"the weights file {missing} does not exist; check the path.")

    @property
    def choices(self) -> list[Choice]:
        """The networks: pairs of a model and its weights, one model for all weights, or models alone."""
        models, weights = list(self.models), list(self.weights)
        if weights and len(models) == 1:
            models *= len(weights)
        if weights and len(weights) != len(models):
            raise TrueriskError(
                f"there are {len(models)} models and {len(weights)} weight files; give as many --weights as --model, "
                "or one --model."
            )
        if self.names and len(self.names) != len(models):
            raise TrueriskError(
                f"--name is given {len(self.names)} times for {len(models)} networks; give one for each, or none."
            )
        files: list[Path | None] = [*weights] or [None] * len(models)
        labels = list(self.names) or [m if w is None else w.stem for m, w in zip(models, files, strict=True)]
        named = zip(models, files, distinct([printable(label) for label in labels]), strict=True)
        return [Choice(*each) for each in named]

    @property
    def command(self) -> str:
        """The command that makes the page again."""
        words = ["truerisk", "tighten"]
        words += [word for model in self.models for word in ("--model", model)]
        words += [word for file in self.weights for word in ("--weights", str(file))]
        words += [word for name in self.names for word in ("--name", name)]
        words += ["--data", self.data, "--sigma-q", self.sigma_q, "--sigma-p", self.sigma_p, "--form", self.form]
        words += self._others
        words += ["--draws", str(self.draws)] if self.draws is not None else []
        words += ["--lifted", str(self.lifted)] if self.lifted != LIFTED else []
        words += ["--seed", str(self.seed)] if self.seed else []
        words += ["--out", str(self.out)] if str(self.out) != OUT else []
        return " ".join(map(quoted, words))

    def certify(self, choice: Choice, weights: Path | None) -> list[str]:
        """The quoted words of the command that certifies a network around its weights, in a folder next to the page."""
        words = ["truerisk", "certify", "--model", choice.model]
        words += [] if weights is None else ["--weights", str(weights)]
        words += ["--data", self.data, "--method", Around.name, *self._others]
        words += ["--out", str(self.out / f"certificate-{self.slug(choice)}")]
        return [quoted(word) for word in words]

    def slug(self, choice: Choice) -> str:
        """A name for files of this network, unlike those of the others."""
        slugs = distinct([slug(each.name) for each in self.choices], "-")
        return slugs[next(i for i, each in enumerate(self.choices) if each == choice)]

    @property
    def _others(self) -> list[str]:
        """Options that both commands share, where they are not the default."""
        words = ["--delta", repr(self.delta)] if self.delta != DELTA else []
        words += ["--outputs", self.outputs] if self.outputs is not None else []
        return words + (["--data-dir", str(self.data_dir)] if self.data_dir is not None else [])


def scale(text: str, option: str) -> float | dict[str, float]:
    """A standard deviation, or several by layer; an entry without a name is for all the rest.

    >>> scale("0.02", "--sigma-q"), scale("0=0.1, 2.weight=.02", "--sigma-q"), scale("0=0.1,=0.02", "--sigma-q")
    (0.02, {'0': 0.1, '2.weight': 0.02}, {'0': 0.1, '': 0.02})
    """
    if "=" not in text:
        return _positive(text, option)
    entries = [entry.rpartition("=") for entry in text.split(",")]
    names = [name.strip() for name, _, _ in entries]
    if not all(equals for _, equals, _ in entries):
        raise TrueriskError(f"{option} is {text!r}, but every entry needs a layer; write 0=0.1,2=0.02 or 0=0.1,=0.02.")
    if len(set(names)) < len(names):
        raise TrueriskError(f"{option} is {text!r}, but must name each layer once; remove the repeated one.")
    return {name: _positive(value, option) for name, (_, _, value) in zip(names, entries, strict=True)}


def _positive(text: str, option: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise TrueriskError(
            f"{option} is {text.strip()!r}, but must be a positive number, or numbers by layer; try {option} 0.1."
        )
    return value


def distinct(names: Sequence[str], joint: str = " ") -> list[str]:
    """Names with a number after those that were there before.

    >>> distinct(["w", "w", "v", "w 2", "w"])
    ['w', 'w 3', 'v', 'w 2', 'w 4']
    """
    taken, found = set(names), []
    for place, name in enumerate(names):
        if name in names[:place]:
            name = next(each for k in range(2, len(names) + 3) if (each := f"{name}{joint}{k}") not in taken)
            taken.add(name)
        found.append(name)
    return found


def slug(name: str) -> str:
    """A name that a folder can have.

    >>> slug("net.py:build"), slug("a b/c"), slug("?")
    ('net.py-build', 'a-b-c', 'network')
    """
    return re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.")[:30] or "network"
