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
        there = self._names(experiment)
        paths = {key: self._path(experiment, key) for key in wanted if f"{key}.json" in there}
        if not paths:
            return {}
        contents = self.files.cat(list(paths.values()), on_error="return")
        entries = {}
        for key, path in paths.items():
            entry = _entry(contents.get(path))
            if entry is not None and entry["setting"] == wanted[key]:
                entries[key] = entry
        return entries

    def save(
        self, experiment: str, key: str, setting: dict[str, Any], record: dict[str, Any], seconds: float, **more: str
    ) -> None:
        """Keep one result. Its own hash tells a whole file from a damaged one."""
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
        temporary = f"{folder}/.{last}.{uuid.uuid4().hex}.tmp"
        try:
            self.files.makedirs(folder, exist_ok=True)
            self.files.pipe_file(temporary, content)
            self.files.mv(temporary, path)
        except OSError as error:
            raise TrueriskError(f"{self.out}/{name} cannot be written ({error}); choose another place.") from error
        return str(self.files.unstrip_protocol(path))

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """The contents of those files below the root that exist."""
        paths = {f"{self.root}/{name}": name for name in names}
        contents = self.files.cat(list(paths), on_error="omit") if paths else {}
        return {paths[path]: content for path, content in contents.items() if path in paths}

    def glob(self, pattern: str) -> list[str]:
        """Names below the root that match, in order."""
        found = self.files.glob(f"{self.root}/{pattern}")
        return sorted(str(path)[len(self.root) + 1 :] for path in found)

    def _path(self, experiment: str, key: str) -> str:
        return f"{self.root}/{experiment}/{RECORDS}/{key}.json"

    def _names(self, experiment: str) -> set[str]:
        folder = f"{self.root}/{experiment}/{RECORDS}"
        try:
            self.files.invalidate_cache(folder)
            return {str(path).rpartition("/")[2] for path in self.files.ls(folder, detail=False)}
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise TrueriskError(f"{self.out} cannot be read ({error}); choose another place with --out.") from error

    def _protocols(self) -> tuple[str, ...]:
        protocol = self.files.protocol
        return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _entry(content: Any) -> dict[str, Any] | None:
    """A stored entry, or None if the file is not whole."""
    try:
        entry = json.loads(content)
        whole = entry["sha256"] == _digest({k: v for k, v in entry.items() if k != "sha256"})
    except (TypeError, ValueError, KeyError, TrueriskError):
        return None
    return entry if whole else None


def _digest(entry: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(entry).encode()).hexdigest()
