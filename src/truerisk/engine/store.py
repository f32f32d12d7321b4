"""Results on disk, or wherever fsspec reaches: one file for each task, whole or absent."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fsspec

from truerisk.atomic import write_atomically
from truerisk.engine.key import canonical
from truerisk.errors import TrueriskError

RECORDS = "records"


class Store:
    """A folder of results. ``out`` is a path or any fsspec URL (``s3://bucket/runs``, ``memory://runs``).

    >>> store = Store("memory://doctest")
    >>> store.save("toy", "0a1b", {"n": 1}, {"error": 0.5}, seconds=0.1)
    >>> store.find("toy", {"0a1b": {"n": 1}, "ffff": {"n": 2}})["0a1b"]["record"]
    {'error': 0.5}
    """

    def __init__(self, out: str | os.PathLike[str]) -> None:
        self.out = os.fspath(out)
        try:
            self.files, self.root = fsspec.core.url_to_fs(self.out)
        except (ImportError, ValueError) as error:
            raise TrueriskError(f"nothing can be stored at {self.out}: {error}") from error
        self.local = "file" in self._protocols()

    def find(self, experiment: str, wanted: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """The stored entries of these keys; ``wanted`` maps a key to its setting. Damaged files count as absent."""
        there = self._list(f"{experiment}/{RECORDS}")
        paths = {key: self._path(experiment, key) for key in wanted if f"{key}.json" in there}
        if not paths:
            return {}
        entries = {}
        for key, path in paths.items():
            entry = _entry(self._content(path))
            if entry is not None and entry["setting"] == wanted[key]:
                entries[key] = entry
        return entries

    def save(
        self, experiment: str, key: str, setting: dict[str, Any], record: dict[str, Any], seconds: float, **more: str
    ) -> None:
        """Keep one result, with ``more`` about its run (``version``, ``at``: the UTC time at which it finished).

        Its own hash tells a whole file from a damaged one.
        """
        entry = {"setting": setting, "record": record, "seconds": seconds, **more}
        entry["sha256"] = _digest(entry)
        self.write(f"{experiment}/{RECORDS}/{key}.json", json.dumps(entry, allow_nan=False).encode())

    def write(self, name: str, content: bytes) -> str:
        """Write a file below the root under a temporary name, then rename it; return where it is."""
        path = f"{self.root}/{name}"
        if self.local:
            write_atomically(Path(path), content)
            return path
        folder, _, last = path.rpartition("/")
        temporary = f"{folder}/{self._temporary(last)}"
        try:
            self.files.makedirs(folder, exist_ok=True)
            self.files.pipe_file(temporary, content)
            self.files.cp_file(temporary, path)  # `mv` would take brackets in a path for a pattern
            self.files.rm_file(temporary)
        except Exception as error:  # each file system has errors of its own
            raise TrueriskError(
                f"{self.out}/{name} cannot be written ({_line(error)}); choose another --out."
            ) from error
        return str(self.files.unstrip_protocol(path))

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of those files below the root that exist."""
        contents = {name: self._content(f"{self.root}/{name}") for name in names}
        return {name: content for name, content in contents.items() if content is not None}

    def pages(self, ending: str) -> list[str]:
        """Names of files in the experiments' folders that end so, in order: ``memorizer/quick.json``."""
        found = [f"{folder}/{name}" for folder in self._list("") for name in self._list(folder)]
        return sorted(name for name in found if name.endswith(ending))

    def check(self) -> None:
        """Refuse a place that cannot be written, before hours are spent on computing for it."""
        probe = f"{self.root}/{self._temporary('probe')}"
        try:
            self.files.makedirs(self.root, exist_ok=True)
            self.files.pipe_file(probe, b"")
            self.files.rm_file(probe)
        except Exception as error:  # each file system has errors of its own
            raise TrueriskError(f"{self.out} cannot be written ({_line(error)}); choose another --out.") from error

    def _path(self, experiment: str, key: str) -> str:
        return f"{self.root}/{experiment}/{RECORDS}/{key}.json"

    def _list(self, below: str) -> set[str]:
        """The names in a folder; none if it is not there, or is no folder."""
        folder = f"{self.root}/{below}".rstrip("/")
        try:
            self.files.invalidate_cache(folder)
            names = {str(path).rstrip("/").rpartition("/")[2] for path in self.files.ls(folder, detail=False)}
        except (FileNotFoundError, NotADirectoryError):
            return set()
        except Exception as error:
            raise TrueriskError(f"{self.out} cannot be read ({_line(error)}); choose another --out.") from error
        return names - {folder.rpartition("/")[2]}

    def _content(self, path: str) -> bytes | None:
        try:
            return bytes(self.files.cat_file(path))
        except (FileNotFoundError, IsADirectoryError):
            return None
        except Exception as error:
            raise TrueriskError(f"{path} cannot be read ({_line(error)}); choose another --out.") from error

    @staticmethod
    def _temporary(name: str) -> str:
        return f".{name}.{uuid.uuid4().hex}.tmp"

    def _protocols(self) -> tuple[str, ...]:
        protocol = self.files.protocol
        return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _entry(content: Any) -> dict[str, Any] | None:
    """A stored entry, or None if the file is not whole."""
    try:
        entry = json.loads(content)
        whole = entry["sha256"] == _digest({k: v for k, v in entry.items() if k != "sha256"})
    except (TypeError, ValueError, KeyError, RecursionError, TrueriskError):
        return None
    return entry if whole else None


def _digest(entry: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(entry).encode()).hexdigest()
