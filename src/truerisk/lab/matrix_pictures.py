"""Pictures of matrices with missing entries: complete, observed, and filled in; the demo of `matrix-factorization`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from truerisk.data.scaling import is_images
from truerisk.lab.experiment import Record, Setting
from truerisk.lab.figure import Exhibit, Images
from truerisk.lab.images import pixels
from truerisk.lab.matrix_biases import Split, fills, split, with_spectrum
from truerisk.lab.matrix_runs import centered
from truerisk.lab.samples import samples
from truerisk.lab.strips import strips
from truerisk.seeds import derive

NAMES = {
    "rank": "limited rank",
    "trace": "limited trace norm",
    "descent": "stopped descent",
    "end": "descent to the end",
}
TRUTH, OBSERVED = "truth", "observed"
# Images at most, tiles of a strip, steps of descent, side of a matrix whose entries can be seen, color of missing ones.
ROWS, TILES, STEPS, SIDE, MISSING = 100, 8, 150, 24, (70, 110, 170)


def demo(setting: Setting) -> Record:
    """A small matrix and, where the setting has gray images, a few of them: complete, observed, and filled in."""
    seed = setting["seed"]
    truth = _sorted(with_spectrum(SIDE, "2 equal", derive(seed, "demo matrix")))
    parts = split(truth, 0.5, 0.3, derive(seed, "demo entries"))
    limits = float(truth.min()), float(truth.max())
    tiles = []
    for name, matrix in _stages(parts, seed).items():
        error = f": error {100 * parts.errors(matrix)[1]:.0f}%" if name in NAMES.values() else ""
        tiles.append([_shown(matrix, parts.train, limits, name == OBSERVED), f"{name}{error}", False])
    record: Record = {"matrix": [{"name": "2 equal factors", "tiles": tiles}]}
    if "data" in setting:
        record |= {"strips": _image_strips({**setting, "share": 0.5, "n": min(setting["n"], ROWS)})}
    return record


def _sorted(matrix: np.ndarray) -> np.ndarray:
    """Rows and columns in the order of the first singular vectors, so that the eye finds the factors."""
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(matrix[np.argsort(left[:, 0])][:, np.argsort(right[0])])


def _image_strips(s: Setting) -> list[dict[str, Any]]:
    data, _ = samples(s["data"], s["n"], 10, derive(s["seed"], "examples"), s.get("data_sha256"))
    if not is_images(data) or data.input_shape[0] != 1:
        return []
    rows = data.X.reshape(len(data), -1).astype(np.float64)
    parts = split(centered(data, s), s["share"], 0.0, derive(s["seed"], "entries"))
    scale = (rows - rows.mean(axis=0)).std() / ((parts.truth - parts.truth.mean(axis=0)).std() or 1.0)
    mean, limits = (rows - scale * parts.truth).mean(axis=0), (float(rows.min()), float(rows.max()))
    found = []
    for name, matrix in _stages(parts, s["seed"]).items():
        images = (scale * matrix + mean)[:TILES].reshape(-1, *data.input_shape[1:])
        masks = parts.train[:TILES].reshape(images.shape)
        drawn = [_shown(*pair, limits, name == OBSERVED) for pair in zip(images, masks, strict=True)]
        found.append({"name": name, "tiles": [[image, "", False] for image in drawn]})
    return found


def _stages(parts: Split, seed: int) -> dict[str, np.ndarray]:
    filled = fills(parts, seed, STEPS)
    return {TRUTH: parts.truth, OBSERVED: parts.observed} | {NAMES[name]: matrix for name, matrix in filled.items()}


def _shown(image: np.ndarray, mask: np.ndarray, limits: tuple[float, float], partly: bool) -> list[Any]:
    """Gray values; in a picture of observations, missing entries are blue."""
    gray = np.asarray(pixels(image, *limits))
    return np.where(mask[..., None], gray[..., None], MISSING).tolist() if partly else gray.tolist()


def pictures(record: Record) -> Sequence[Exhibit]:
    found: list[Exhibit] = []
    if record.get("matrix"):
        found.append(
            Images(
                "matrix",
                "A matrix with half of its entries missing, and three ways to fill it in",
                "A 24 x 24 matrix, its training entries (missing and held-out ones are blue), and the fills with the "
                "rank, the trace norm, or the number of steps that held-out entries chose. Errors are those on "
                "unobserved entries.",
                strips({"strips": record["matrix"]}),
            )
        )
    if record.get("strips"):
        found.append(
            Images(
                "filled",
                "Images with half of their pixels missing",
                "Rows of a matrix, drawn as images: complete, with training pixels only (missing and held-out ones are "
                "blue), and filled in. Each method sees all images at once, and knows nothing of neighboring pixels.",
                strips(record),
                claims=("trace-for-images",),
            )
        )
    return found
