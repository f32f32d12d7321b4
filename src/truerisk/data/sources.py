"""`load`: one door for everything that can be data, and the catalogue of what has a name."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

from truerisk.data.collect import collect, is_map_style
from truerisk.data.dataset import Data, from_arrays, validate
from truerisk.data.files import read_files, read_path
from truerisk.data.formats.reading import in_memory, tell_bytes
from truerisk.data.loader import bases, dataset_of, is_loader
from truerisk.data.places import KNOWN, VARIABLE, cache, file_names, find, folders, spell
from truerisk.errors import TrueriskError
from truerisk.names import TOYS
from truerisk.progress import note

Folder = str | os.PathLike[str] | None


def load(spec: Any, data_dir: Folder = None) -> Data:
    """Checked data from whatever `spec` is.

    `spec` is a `Data`; a pair (X, y) of arrays or torch tensors; a map-style torch Dataset, or a DataLoader that
    visits each of its examples once; a path; or a name: digits, mnist1d, moons, circles, spirals, mnist,
    fashion-mnist, cifar-10, openml:NAME. A name wins over a file of the same name in the current folder; write
    `./name`, or give a `Path`, for the file.

    Files with one row for each example: `.csv` and `.tsv` with column names, `.parquet` (needs pyarrow), `.npz`, and
    `.pt` (tensors of torch.save). Folders: images as `FOLDER/CLASS/*.png` (needs Pillow), MNIST-style IDX files,
    CIFAR-10 binary batches. After a colon, `file.csv:COLUMN` names the label, `file.npz:INPUTS,LABELS` names two
    arrays, and `:test` means the test part of a name, a folder, or an npz file. Without a colon, well-known names
    decide (label, target, class, y; X and y, data and labels, x_train and y_train). Labels that are text are numbered
    in sorted order; `class_names` has their names.

    >>> data = load("digits")
    >>> len(data), data.input_shape, data.classes
    (1797, (1, 8, 8), 10)
    """
    with in_memory("the dataset"):
        return _load(spec, data_dir)


def _load(spec: Any, data_dir: Folder) -> Data:
    if isinstance(spec, Data):
        validate(spec)
        return spec
    if isinstance(spec, str):
        return _load_text(spec, data_dir)
    if isinstance(spec, os.PathLike):
        return _load_path(os.fspath(spec))
    if isinstance(spec, tuple | list):
        if len(spec) != 2:
            raise TrueriskError(f"the data are {len(spec)} arrays, but must be two; give a pair (X, y).")
        tell_bytes(spec[0], "arrays")
        return from_arrays(*spec, name="arrays")
    if is_loader(spec):
        return collect(dataset_of(spec))
    if "IterableDataset" in bases(spec):
        raise TrueriskError(
            f"{type(spec).__name__} can only be read from beginning to end; give a map-style dataset, "
            "because certified examples are chosen by index."
        )
    # A lone array or table also has a length and an index, but its labels are nowhere.
    if is_map_style(spec) and not hasattr(spec, "shape") and not isinstance(spec, dict | set | bytes):
        return collect(spec)
    raise TrueriskError(
        f"an object of type {type(spec).__name__} is not a dataset; "
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


def is_name(spec: Any) -> bool:
    """Whether this is a text that does not look like a path: a name that is known, or a misspelled one."""
    if not isinstance(spec, str):
        return False
    plain, _ = _parts(spec)
    if spec.startswith("openml:") or plain in KNOWN or not plain:  # an empty text would be the current folder
        return True
    return len(Path(plain).parts) == 1 and not Path(plain).suffix and not os.path.exists(plain)


def _load_text(text: str, data_dir: Folder) -> Data:
    """A name or a path."""
    if not is_name(text):
        return _load_path(text)
    if text.startswith("openml:"):
        from truerisk.data.openml import load_openml

        return load_openml(text.removeprefix("openml:"))
    plain, part = _parts(text)
    if plain in KNOWN:
        return _load_named(plain, part, data_dir)
    raise _unknown(text)


def _load_path(text: str) -> Data:
    """A file or a folder, perhaps with a choice after a colon."""
    found = read_path(text)
    return from_arrays(
        found.content.X,
        found.content.y,
        name=found.name,
        classes=found.content.classes,
        source=found.source,
        where=found.where,
        class_names=found.content.class_names,
        feature_names=found.content.feature_names,
    )


def _parts(text: str) -> tuple[str, str]:
    """A name or folder, and which part of it is meant."""
    return (text.removesuffix(":test"), "test") if text.endswith(":test") else (text, "train")


def _load_named(name: str, part: str, data_dir: Folder) -> Data:
    known = KNOWN[name]
    if part not in known.examples:
        raise TrueriskError(f"{name} has no test part; use {name} itself, which is split by the program.")
    if known.format == "built in" and os.path.exists(name):
        note(f"{name} is the built-in dataset; type ./{name} for the file or folder of this name.")
    if name == "digits":
        return _load_digits()
    if name == "mnist1d":
        from truerisk.data.mnist1d import EXAMPLES, SEEDS, generate_mnist1d

        return generate_mnist1d(EXAMPLES, SEEDS[spell(name, part)])
    if name in TOYS:
        from truerisk.data import toy

        return toy.generate_toy(name, toy.EXAMPLES, toy.SEEDS[part])
    files = find(name, part, data_dir)
    if files is None:
        looked = ", ".join(str(folder / name) for folder in folders(data_dir))
        raise TrueriskError(
            f"{spell(name, part)} was not found (looked in {looked}); {_how_to_get(name, part)}, "
            f"or set {VARIABLE} to the folder that holds {name}."
        )
    X, y, *_ = read_files(files)
    title = spell(name, part)
    return from_arrays(X, y, name=title, classes=10, source=title, where=str(files.paths[0].parent))


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
    return TrueriskError(f"there is neither a dataset nor a file {text!r}; {hint}")
