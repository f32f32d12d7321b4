"""A user's file of Python, with the modules that lie beside it: ``net.py`` may import ``layers.py`` of its own folder.

Python finds neighbors of a script because the script's folder is on ``sys.path``. Here the folder is on it only while
code of the file runs: when it is loaded, and when a function of it is called. Afterwards its neighbors are taken out of
``sys.modules``, so that another folder's ``layers`` is another module, and a user's own one stays as it was.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

NEVER = sys.stdlib_module_names | {"truerisk", "torch", "numpy"}  # loaded once, whatever lies beside a file


class OwnFile:
    """A file of a user's, loaded with its neighbors in sight."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.folder = self.path.parent
        self._kept: dict[str, ModuleType] = {}  # neighbors that were loaded, by name
        self.module = self._load()

    def _load(self) -> ModuleType:
        digest = hashlib.sha256(str(self.path).encode()).hexdigest()[:8]  # two files of one name are two modules
        spec = importlib.util.spec_from_file_location(f"truerisk_user_{self.path.stem}_{digest}", self.path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses and torch.export look classes up by module name
        with self.neighbors():
            spec.loader.exec_module(module)
        return module

    def calling(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which may import neighbors whenever it is called."""

        @functools.wraps(function, updated=())
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.neighbors():
                return function(*args, **kwargs)

        return call

    @contextmanager
    def neighbors(self) -> Iterator[None]:
        """Imports inside the block find modules of the folder first; nothing of that is left outside."""
        folder, hidden = str(self.folder), self._hidden()
        put_aside = [name for name in sys.modules if name in self._kept or _top(name) in hidden]
        others = {name: sys.modules.pop(name) for name in put_aside}
        before = set(sys.modules)
        sys.modules.update(self._kept)
        sys.path.insert(0, folder)
        importlib.invalidate_caches()  # files may be younger than what Python remembers of the folder
        try:
            yield
        finally:
            if folder in sys.path:  # the first one is ours, unless the user's code took it out
                sys.path.remove(folder)
            mine = [name for name in sys.modules if _top(name) not in before and self._is_neighbor(_top(name))]
            self._kept = {name: sys.modules.pop(name) for name in mine}
            sys.modules.update(others)

    def _hidden(self) -> set[str]:
        """Names of neighbors under which a module from elsewhere is loaded."""
        found = set()
        for place in self.folder.iterdir():
            name, loaded = place.stem, sys.modules.get(place.stem)
            if loaded is None or name in NEVER or self._is_neighbor(name):
                continue
            package = place.is_dir() and (place / "__init__.py").is_file()
            in_parts = place.is_dir() and getattr(loaded, "__file__", None) is None  # packages without __init__.py
            if place.suffix == ".py" or package or in_parts:
                found.add(name)
        return found

    def _is_neighbor(self, name: str) -> bool:
        """Whether the module that is loaded under this name is a file or a package of the folder."""
        module, package = sys.modules.get(name), self.folder / name
        file = getattr(module, "__file__", None)
        if file:
            return Path(file).resolve().parent in (self.folder, package)
        return module is not None and any(Path(place).resolve() == package for place in _places(module))


def _top(name: str) -> str:
    return name.partition(".")[0]


def _places(package: ModuleType) -> list[str]:
    """Folders of a package without ``__init__.py``."""
    try:
        return [str(place) for place in package.__path__]
    except Exception:  # no package, or an object in ``sys.modules`` that only looks like one
        return []
