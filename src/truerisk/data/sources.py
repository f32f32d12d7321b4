"""`load`: one door for everything that can be data, and the catalogue of what has a name."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

from truerisk.data.collect import collect, is_map_style
from truerisk.data.dataset import Data, from_arrays, validate
from truerisk.data.places import KNOWN, VARIABLE, Files, cache, file_names, find, folders, look_in, spell
from truerisk.errors import TrueriskError

Folder = str | os.PathLike[str] | None


def load(spec: Any, data_dir: Folder = None) -> Data:
    """Checked data from whatever `spec` is.

    `spec` is a `Data`; a pair (X, y) of arrays or torch tensors; a map-style torch Dataset; the path of an
    npz file with arrays X and y, or of a folder with MNIST-style IDX files or CIFAR-10 binary batches; or a
    name: digits, mnist1d, mnist, fashion-mnist, cifar-10, openml:NAME. A name or folder with `:test` at its
    end means the test part. A name wins over a file of the same name in the current folder; write `./name`,
    or give a `Path`, for the file.

    >>> data = load("digits")
    >>> len(data), data.input_shape, data.classes
    (1797, (1, 8, 8), 10)
    """
    if isinstance(spec, Data):
        validate(spec)
        return spec
    if isinstance(spec, str):
        return _load_text(spec, data_dir)
    if isinstance(spec, os.PathLike):
        return _load_path(os.fspath(spec))
    if isinstance(spec, tuple | list):
        if len(spec) != 2:
            raise TrueriskError(f"Data were given as {len(spec)} arrays; give a pair (X, y).")
        return from_arrays(*spec, name="arrays")
    if _is_iterable_dataset(spec):
        raise TrueriskError(
            f"{type(spec).__name__} can only be read from beginning to end; give a map-style dataset, "
            "because certified examples are chosen by index."
        )
    # A lone array or table also has a length and an index, but its labels are nowhere.
    if is_map_style(spec) and not hasattr(spec, "shape") and not isinstance(spec, dict | set | bytes):
        return collect(spec)
    raise TrueriskError(
        f"A {type(spec).__name__} is no data set; "
        "give a pair (X, y), a torch Dataset, a name such as digits, or a path."
    )


def catalogue(data_dir: Folder = None) -> list[dict[str, Any]]:
    """Every name `load` knows, whether it is here, and how to get it otherwise."""
    rows = []
    for known in KNOWN.values():
        for part, examples in known.examples.items():
            files = None if known.format == "built in" else find(known.name, part, data_dir)
            where = "not found" if files is None else str(files.paths[0].parent)
            rows.append(
                {
                    "name": spell(known.name, part),
                    "examples": examples,
                    "shape": known.shape,
                    "where": "built in" if known.format == "built in" else where,
                    "how_to_get": _how_to_get(known.name, part),
                }
            )
    return rows


def fetch(name: str, data_dir: Folder = None) -> Path | str:
    """Make a named data set available: the folder it lies in, or a sentence where no folder is needed."""
    if name.startswith("openml:"):
        data = load(name)
        return f"{name} is in the cache {cache()}: {len(data)} examples with inputs of shape {data.input_shape}."
    plain = name.removesuffix(":test")
    if plain not in KNOWN:
        raise _unknown(name)
    known = KNOWN[plain]
    if known.format == "built in":
        return f"{plain} is built in, nothing has to be fetched."
    found = [find(plain, part, data_dir) for part in known.examples]
    if found[0] is not None and None not in found:
        return found[0].paths[0].parent
    from truerisk.data.download import download

    return download(plain, data_dir)


def _load_text(text: str, data_dir: Folder) -> Data:
    """A name or a path."""
    if text.startswith("openml:"):
        from truerisk.data.openml import load_openml

        return load_openml(text.removeprefix("openml:"))
    plain, part = _parts(text)
    if plain in KNOWN:
        return _load_named(plain, part, data_dir)
    # An empty text would be the current folder.
    if plain and (len(Path(plain).parts) > 1 or Path(plain).suffix or Path(plain).exists()):
        return _load_path(text)
    raise _unknown(text)


def _load_path(text: str) -> Data:
    """A file, or a folder; `:test` at the end of a folder means its test part."""
    for candidate, part in ((text, "train"), _parts(text)):
        path = Path(os.path.expanduser(candidate))
        if path.is_dir():
            return _load_folder(path, part)
        if path.is_file():
            return _load_file(path)
    raise TrueriskError(f"{text} does not exist; check the path, or give a name such as digits.")


def _parts(text: str) -> tuple[str, str]:
    """A name or folder, and which part of it is meant."""
    return (text.removesuffix(":test"), "test") if text.endswith(":test") else (text, "train")


def _load_named(name: str, part: str, data_dir: Folder) -> Data:
    known = KNOWN[name]
    if part not in known.examples:
        raise TrueriskError(f"{name} has no test part; use {name} itself, which is split by the program.")
    if name == "digits":
        return _load_digits()
    if name == "mnist1d":
        from truerisk.data.mnist1d import EXAMPLES, SEEDS, generate_mnist1d

        return generate_mnist1d(EXAMPLES, SEEDS[spell(name, part)])
    files = find(name, part, data_dir)
    if files is None:
        looked = ", ".join(str(folder / name) for folder in folders(data_dir))
        raise TrueriskError(
            f"{spell(name, part)} was not found (looked in {looked}); {_how_to_get(name, part)}, "
            f"or set {VARIABLE} to the folder that holds {name}."
        )
    return _read(files, name=spell(name, part), classes=10, source=spell(name, part))


def _load_digits() -> Data:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return from_arrays(
        # 16 is the largest value the 4 x 4 pixel counts can take, so no statistic of these examples.
        digits.images[:, None] / 16.0,
        digits.target,
        name="digits",
        classes=10,
        note="8 x 8 handwritten digits",
        source="digits",
    )


def _load_folder(folder: Path, part: str) -> Data:
    files = look_in(folder, part)
    if files is not None:
        name = spell(folder.resolve().name, part)
        return _read(files, name=name, classes=None, source=spell(str(folder.absolute()), part))
    idx, cifar = file_names("idx", part), file_names("cifar", part)
    if part == "train" and look_in(folder, "test") is not None:
        raise TrueriskError(f"{folder} holds only a test part; load it as {folder}:test.")
    raise TrueriskError(
        f"{folder} holds neither {' and '.join(idx)} (plain, .gz or .xz) nor "
        f"{' to '.join(dict.fromkeys((cifar[0], cifar[-1])))}; put one of these sets of files there, "
        "or give an npz file."
    )


def _load_file(path: Path) -> Data:
    from truerisk.data.readers import read_npz

    if path.suffix != ".npz":
        raise TrueriskError(
            f"{path} is no npz file; give an npz file with arrays X and y, or the folder that holds IDX or CIFAR files."
        )
    X, y, classes = read_npz(path)
    return from_arrays(X, y, name=path.stem, classes=classes, source=str(path.absolute()), where=str(path))


def _read(files: Files, name: str, classes: int | None, source: str) -> Data:
    from truerisk.data.readers import read_cifar10_binary, read_idx_pair

    if files.format == "cifar":
        X, y = read_cifar10_binary(files.paths)
        return from_arrays(X, y, name=name, classes=10, source=source, where=str(files.paths[0].parent))
    images, labels = files.paths
    X, y = read_idx_pair(images, labels)
    return from_arrays(X, y, name=name, classes=classes, source=source, where=str(labels))


def _how_to_get(name: str, part: str) -> str:
    """What to do where a data set is missing, as part of a sentence."""
    fmt = KNOWN[name].format
    if fmt == "built in":
        return "nothing has to be fetched"
    wanted = file_names(fmt, part)
    listed = f"{wanted[0]} to {wanted[-1]}" if len(wanted) > 2 else " and ".join(wanted)
    return f"run `truerisk data get {name}`, or put {listed} into one of the folders"


def _unknown(text: str) -> TrueriskError:
    names = [spell(known.name, part) for known in KNOWN.values() for part in known.examples]
    close = difflib.get_close_matches(text.lower(), names, n=2)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(names)} and openml:NAME."
    return TrueriskError(f"There is no data set and no file {text!r}; {hint}")


def _is_iterable_dataset(spec: Any) -> bool:
    """Whether this is a torch IterableDataset; torch is not imported for that, the user's object did it."""
    return any(base.__name__ == "IterableDataset" for base in type(spec).__mro__)
