"""Any data set of openml.org with numeric features: `openml:NAME` or `openml:ID`."""

from __future__ import annotations

import http.client
import math
import warnings
from typing import Any

import numpy as np

from truerisk.data.dataset import Data, from_arrays
from truerisk.data.formats.reading import MAX_BYTES, reason
from truerisk.data.places import cache
from truerisk.errors import TrueriskError

SHOWN = 20  # class names kept in the note


def load_openml(name: str) -> Data:
    """Fetch by name or number; text labels become class numbers in sorted order."""
    place = f"openml:{name}"
    if not name:
        raise TrueriskError("openml: needs a name or a number, for instance openml:iris or openml:61.")
    wanted = {"data_id": int(name)} if name.isdecimal() else {"name": name}
    # Always the same parser: the two that scikit-learn has may differ in the last bit of a number, and a data
    # set must not depend on whether pandas happens to be installed.
    bunch = fetch_bunch(place, parser="liac-arff", **wanted)
    X = _features(bunch, place)
    labels, names = _labels(bunch.target, len(X), place)
    details = getattr(bunch, "details", None) or {}
    notes = [f"version {details['version']}"] if "version" in details else []
    notes.append("classes: " + ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else ""))
    return from_arrays(
        X,
        labels,
        name=place,
        classes=len(names),
        note="; ".join(notes),
        # A name may point to a newer version tomorrow; the number always means these data.
        source=f"openml:{details['id']}" if "id" in details else place,
        where=place,
    )


def fetch_bunch(place: str, **wanted: Any) -> Any:
    """Call scikit-learn's fetch_openml with the cache of this package; every failure becomes one sentence."""
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            # On retries and on several versions of one name; the version is in the note.
            warnings.simplefilter("ignore")
            return fetch_openml(as_frame=False, data_home=str(cache()), **wanted)
    except (OSError, http.client.HTTPException) as error:
        status = getattr(error, "code", None)
        if status in (404, 412):
            raise TrueriskError(
                f"{place} is not known to openml.org; look its name or number up at https://www.openml.org."
            ) from error
        raise TrueriskError(
            f"{place} could not be fetched from openml.org ({reason(getattr(error, 'reason', error))}); "
            "check the network and try again."
        ) from error
    except (ValueError, KeyError, MemoryError) as error:
        raise TrueriskError(
            f"{place} could not be loaded ({reason(error)}); "
            "check its name, and choose a data set with numeric features."
        ) from error


def _features(bunch: Any, place: str) -> np.ndarray:
    X = bunch.data
    categories = set(getattr(bunch, "categories", None) or ()) & set(getattr(bunch, "feature_names", ()))
    if categories:
        # Numbering categories would invent an order among them; whether that is right only the user knows.
        raise TrueriskError(
            f"{place}: the features {', '.join(sorted(categories)[:3])} are not numeric; "
            "encode them yourself and save X and y as an npz file."
        )
    if hasattr(X, "toarray"):  # a sparse matrix
        if math.prod(X.shape) * 8 > MAX_BYTES:
            raise TrueriskError(f"{place} is too large to hold in memory as {X.shape} numbers; choose a smaller one.")
        X = X.toarray()
    X = np.asarray(X)
    if X.dtype.kind not in "buif":
        raise TrueriskError(f"{place}: some features are not numeric; encode them and save X and y as an npz file.")
    if X.dtype.kind == "f" and np.isnan(X).any():
        raise TrueriskError(
            f"{place}: {int(np.isnan(X).any(axis=1).sum())} of {len(X)} examples have missing features; "
            "fill or drop them yourself and save X and y as an npz file."
        )
    return X


def _labels(target: Any, n: int, place: str) -> tuple[np.ndarray, list[str]]:
    """Class numbers in the sorted order of the class names, and these names."""
    if target is None or np.ndim(target) != 1 or len(target) != n:
        raise TrueriskError(f"{place} has no single target column; choose a data set for classification.")
    values = np.asarray(target)
    if values.dtype.kind == "f":
        if not (np.isfinite(values).all() and (values == np.round(values)).all()):
            raise TrueriskError(f"{place} has a target that is no class; choose a data set for classification.")
        values = values.astype(np.int64)
    elif values.dtype.kind not in "buiUST":
        if any(value is None or value != value for value in values):
            raise TrueriskError(f"{place}: some labels are missing; drop these examples and save an npz file.")
        values = np.array([str(value) for value in values])
    names, labels = np.unique(values, return_inverse=True)
    return labels.reshape(-1).astype(np.int64), [str(name) for name in names]
