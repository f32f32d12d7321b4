"""How a name or a file becomes an experiment."""

from __future__ import annotations

import difflib
import hashlib
import sys
import traceback
import types
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from truerisk.engine import hash_code
from truerisk.errors import TrueriskError
from truerisk.lab.entries import ENTRIES
from truerisk.lab.experiment import Experiment
from truerisk.lab.hashes import SOURCE

VARIABLE = "EXPERIMENT"


def names() -> list[str]:
    """The names of the experiments that come with truerisk, in the order in which they are best read."""
    return list(ENTRIES)


def load(name: str) -> Experiment:
    """The experiment of this name, or the one in a Python file of your own (``my_experiment.py``)."""
    refuse_unknown(name)
    if name in ENTRIES:
        module = name.replace("-", "_")
        found = getattr(import_module(f"truerisk.lab.experiments.{module}"), VARIABLE)
        found = replace(found, lesson=import_module(f"truerisk.lab.lessons.{module}").LESSON)
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
    """The task or the demo of an experiment in a user's file, sent to workers as text: they need not have the file."""

    name: str
    source: str
    function: str
    fingerprint: str

    def __call__(self, setting: dict[str, Any]) -> dict[str, Any]:
        experiment = _executed(self.name, self.source)
        function = getattr(sys.modules[experiment.task.__module__], self.function)
        record: dict[str, Any] = function(setting)
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
    if experiment.name in ENTRIES:
        raise TrueriskError(f"{path} is named {experiment.name}, like an experiment of truerisk; choose another name.")
    task, lesson = _sent(path, source, experiment.task, "task"), experiment.lesson
    if lesson is not None and lesson.demo is not None:
        lesson = replace(lesson, demo=_sent(path, source, lesson.demo, "demo"))
    return replace(experiment, task=task, lesson=lesson, committed=path.with_suffix(".committed.json"))


def _sent(path: Path, source: str, function: Any, what: str) -> FileTask:
    """A function of a user's file as workers get it."""
    name = getattr(function, "__qualname__", "")
    if not name.isidentifier():
        raise TrueriskError(f"{path}: the {what} must be a function at the top of the file; define it there with def.")
    return FileTask(path.stem, source, name, hash_code(source, name))


@cache
def _executed(name: str, source: str) -> Experiment:
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    module = types.ModuleType(f"truerisk_lab_file_{name}_{digest}")
    sys.modules[module.__name__] = module  # classes look up the module they were defined in
    setattr(module, SOURCE, source)
    try:
        exec(compile(source, f"{name}.py", "exec", dont_inherit=True), module.__dict__)
    except TrueriskError as error:
        raise TrueriskError(f"{name}.py does not run: {error}") from error
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == f"{name}.py"]
        where = f" (line {lines[-1]})" if lines else ""
        raise TrueriskError(f"{name}.py does not run: {type(error).__name__}: {error}{where}") from error
    found = getattr(module, VARIABLE, None)
    if not isinstance(found, Experiment):
        raise TrueriskError(f"{name}.py defines no {VARIABLE} = truerisk.lab.Experiment(...); add one.")
    return found
