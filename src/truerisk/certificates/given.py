"""What a certificate was made from, as its maker typed it: commands that check it work as they stand.

Nothing of this is in ``certificate.json``; who has only the files gets the same commands with names in capitals.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from json import dumps
from types import EllipsisType
from typing import TYPE_CHECKING

from truerisk.names import BUILTIN, MADE_HERE, SAFE_SOURCES

if TYPE_CHECKING:
    from truerisk.certificates.record import Record
    from truerisk.certificates.request import Request

Piece = str | EllipsisType | None  # as it was typed; an object that has no text; or verify does not need it


def is_known(source: object) -> bool:
    """Whether ``verify`` finds this data by its name."""
    return str(source).removesuffix(":test") in SAFE_SOURCES


@dataclass(frozen=True)
class Commands:
    """How anyone checks a certificate; ``retrain`` is empty where nothing can be trained again from here."""

    verify: str
    retrain: str
    predict: str
    general: bool = True  # names in capitals stand for what only the reader knows


@dataclass(frozen=True)
class Given:
    """The data and the model that ``verify`` must be given again, and the folder that was searched for files."""

    data: Piece = None
    model: Piece = None
    data_dir: str | None = None

    @classmethod
    def of(cls, data: object, model: object, data_dir: object, source: str | None, kind: str) -> Given:
        """``source`` of the loaded data and ``kind`` of network decide what is needed."""
        searched = data_dir is not None and str(source).removesuffix(":test") not in MADE_HERE
        return cls(
            None if is_known(source) else _piece(data),
            None if kind == BUILTIN else _piece(model),
            os.fspath(data_dir) if searched and isinstance(data_dir, str | os.PathLike) else None,
        )

    @classmethod
    def asked(cls, request: Request, source: str | None, kind: str) -> Given:
        data = request.data if request.fresh is None else request.fresh
        return cls.of(data, request.model, request.data_dir, source, kind)

    @classmethod
    def unknown(cls, source: str | None, kind: str) -> Given:
        """Names in capitals, for who has only the files."""
        return cls(None if is_known(source) else "FILE", None if kind == BUILTIN else "FILE.py:FACTORY")

    @property
    def in_python(self) -> bool:
        """Whether only Python has what is needed."""
        return ... in (self.data, self.model)

    def verify(self, folder: str, *, retrain: bool = False) -> str:
        """The command, or the call in Python, that checks the certificate in ``folder``.

        >>> Given("my data.npz", "net.py:build").verify("out")
        "truerisk verify out --data 'my data.npz' --model net.py:build"
        >>> Given(..., "net.py:build").verify("out")
        'truerisk.verify("out", data=..., model="net.py:build")'
        """
        return " ".join(self.verify_words(folder, retrain=retrain))

    def verify_words(self, folder: str, *, retrain: bool = False) -> list[str]:
        """The words of the command, quoted; a call in Python is one."""
        if self.in_python:
            more = ", retrain=True" if retrain else ""
            return [f"truerisk.verify({_text(folder)}{self._arguments('data', 'model', 'data_dir')}{more})"]
        words = ["truerisk", "verify", _place(folder), *self._options("data", "model", "data_dir")]
        return [quoted(word) for word in (*words, *(["--retrain"] if retrain else []))]

    def predict(self, folder: str) -> str:
        """The same for predictions; FILE has the inputs."""
        if isinstance(self.model, EllipsisType):
            return f"truerisk.Certificate.load({_text(folder)}{self._arguments('model')}).predictor(x)"
        words = ("truerisk", "predict", _place(folder), "--data", "FILE", *self._options("model"))
        return " ".join(map(quoted, words))

    def _options(self, *names: str) -> list[str]:
        given = [(name, getattr(self, name)) for name in names if getattr(self, name) is not None]
        return [word for name, value in given for word in (f"--{name.replace('_', '-')}", str(value))]

    def _arguments(self, *names: str) -> str:
        given = [(name, getattr(self, name)) for name in names if getattr(self, name) is not None]
        return "".join(f", {name}={'...' if value is ... else _text(value)}" for name, value in given)


def commands(record: Record, folder: str | None = None, given: Given | None = None) -> Commands:
    """The commands that check this certificate in ``folder``, made from what is ``given``."""
    settings = record.settings
    known = given or Given.unknown(record.data.source, settings.model_kind)
    again = not settings.own_training and bool(settings.method.trusted(settings))
    place = "DIR" if folder is None else folder
    return Commands(
        known.verify(place),
        known.verify(place, retrain=True) if again else "",
        known.predict(place),
        general=folder is None or given is None,
    )


def quoted(word: str) -> str:
    """One word for a shell; what a terminal cannot show is written with escapes.

    >>> print(quoted("a b"), quoted("it's"), quoted("net.py:build"), quoted("tab\\tand 'more'"))
    'a b' 'it'"'"'s' net.py:build $'tab\\x09and \\'more\\''
    """
    if word.isprintable():
        return shlex.quote(word)
    shown = (_escaped(each) for each in word)
    return f"$'{''.join(shown)}'"


def _escaped(letter: str) -> str:
    if letter in "'\\":
        return f"\\{letter}"
    return letter if letter.isprintable() else "".join(f"\\x{byte:02x}" for byte in os.fsencode(letter))


def _piece(value: object) -> Piece:
    """What was typed. A path that could be read as the name of a dataset is told from it by ``./``."""
    if isinstance(value, str):
        return value
    if not isinstance(value, os.PathLike):
        return ...
    text = os.fsdecode(value)
    return os.path.join(os.curdir, text) if is_known(text) or text.startswith("openml:") else text


def _place(folder: str) -> str:
    """A folder that is no option."""
    return os.path.join(os.curdir, folder) if folder.startswith("-") else folder


def _text(value: str) -> str:
    """A text in Python, as people write it."""
    return dumps(value, ensure_ascii=not value.isprintable())
