"""Which experiments there are, and how a name or a file becomes one."""

from __future__ import annotations

import difflib
import hashlib
import sys
import types
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from truerisk.engine import hash_code
from truerisk.errors import TrueriskError
from truerisk.lab.experiment import Experiment


class Entry(NamedTuple):
    """An experiment as ``truerisk lab list`` shows it: its module loads torch, this does not. A test compares them."""

    module: str
    title: str
    runs: int  # at the scale "quick"
    claims: int


ENTRIES = {
    "random-labels": Entry("random_labels", "Networks fit random labels", 68, 9),
    "regularizers": Entry("regularizers", "Do explicit regularizers explain generalization?", 63, 9),
    "rademacher": Entry(
        "rademacher", "Rademacher complexity and VC dimension: how many labels can be fitted?", 116, 10
    ),
    "memorizer": Entry("memorizer", "A network that memorizes by construction", 312, 7),
    "kernel-interpolation": Entry("kernel_interpolation", "Kernel interpolation", 155, 17),
    "closer-look": Entry("closer_look", "A closer look at memorization", 211, 15),
    "rescaling-bounds": Entry("rescaling_bounds", "What rescaling gives to PAC-Bayes bounds", 70, 12),
    "predictiveness": Entry("predictiveness", "Which measures predict generalization?", 32, 6),
}
VARIABLE = "EXPERIMENT"


def names() -> list[str]:
    """The names of the experiments that come with truerisk, in the order in which they are best read."""
    return list(ENTRIES)


def load(name: str) -> Experiment:
    """The experiment of this name, or the one in a Python file of your own (``my_experiment.py``)."""
    refuse_unknown(name)
    if name in ENTRIES:
        found = getattr(import_module(f"truerisk.lab.{ENTRIES[name].module}"), VARIABLE)
    else:
        found = _from_file(Path(name))
    if not isinstance(found, Experiment):
        raise TrueriskError(f"{name}: {VARIABLE} is a {type(found).__name__}; make it a truerisk.lab.Experiment.")
    return found


def refuse_unknown(name: str) -> None:
    """Refuse what is neither an experiment nor a Python file, without loading any."""
    if name in ENTRIES or name.endswith(".py"):
        return
    close = difflib.get_close_matches(name, ENTRIES, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(ENTRIES)}."
    raise TrueriskError(f"there is no experiment {name!r}; {hint}")


@dataclass(frozen=True)
class FileTask:
    """The task of an experiment in a user's file, sent to workers as text: they need not have the file."""

    name: str
    source: str
    fingerprint: str

    def __call__(self, setting: dict[str, Any]) -> dict[str, Any]:
        record: dict[str, Any] = _executed(self.name, self.source).task(setting)
        return record

    def prepare(self) -> None:
        """Execute the file, so that its task finds everything in place."""
        _executed(self.name, self.source)


def _from_file(path: Path) -> Experiment:
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TrueriskError(f"{path} cannot be read ({error}); give the path of a Python file.") from error
    experiment = _executed(path.stem, source)
    name = getattr(experiment.task, "__qualname__", "")
    if not name.isidentifier():
        raise TrueriskError(f"{path}: the task must be a function at the top of the file; define it there with def.")
    return replace(experiment, task=FileTask(path.stem, source, hash_code(source, name)))


@cache
def _executed(name: str, source: str) -> Experiment:
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    module = types.ModuleType(f"truerisk_lab_file_{name}_{digest}")
    sys.modules[module.__name__] = module  # classes look up the module they were defined in
    try:
        exec(compile(source, f"{name}.py", "exec", dont_inherit=True), module.__dict__)
    except Exception as error:
        raise TrueriskError(f"{name}.py does not run: {type(error).__name__}: {error}") from error
    found = getattr(module, VARIABLE, None)
    if not isinstance(found, Experiment):
        raise TrueriskError(f"{name}.py defines no {VARIABLE} = truerisk.lab.Experiment(...); add one.")
    return found
