"""Deliberate changes to a data set: random labels and random inputs (Zhang et al. 2017, section 2), whitening, crops.

A treatment is drawn once, from its seed, and returned as new data: training sees the same examples in every epoch.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from truerisk.data.dataset import Data
from truerisk.data.splits import bit_stream
from truerisk.errors import TrueriskError

# Streams for labels, for which labels are replaced, and for pixels: independent of each other and of the stream that
# shuffles with the same seed.
LABELS, CHOICE, PIXELS, NOISE = 1, 2, 3, 4


def random_labels(data: Data, seed: int) -> Data:
    """Replace every label by an independent, uniformly random class.

    Nothing can be learned from such data: the true risk of every classifier is 1 - 1/classes. A certificate
    below that number is wrong, whatever it says about itself.
    """
    labels = _uniform(data.classes, len(data), seed)
    return _treated(data, "random labels", f"labels drawn uniformly at random with seed {seed}", y=labels)


def corrupt_labels(data: Data, p: float, seed: int) -> Data:
    """Replace each label, independently with probability ``p``, by a uniformly random class.

    The new class may be the old one: the fraction of labels that change is p (1 - 1/classes) on average. With one
    seed the labels replaced at a small p are among those replaced at a larger one, by the same classes; p = 1 gives
    `random_labels`.
    """
    if not 0 <= p <= 1:
        raise TrueriskError(f"labels cannot be corrupted with probability {p}; give a number from 0 to 1.")
    chance = (bit_stream(seed, purpose=CHOICE).random_raw(len(data)) >> np.uint64(11)) * 2.0**-53  # in [0, 1)
    labels = np.where(chance < p, _uniform(data.classes, len(data), seed), data.y)
    note = f"each label replaced with probability {p} by a random class with seed {seed}"
    return _treated(data, f"labels corrupted at {p}", note, y=labels)


def shuffle_pixels(data: Data, seed: int) -> Data:
    """Move the pixels of all images by one and the same permutation.

    The permutation is a function of the seed and the number of pixels alone, so that training and test images get
    the same one. A pixel is a place in the image: its colours move together. Inputs that are no images (channels,
    height, width) have one pixel per feature.
    """
    pixels = _pixels(data)
    order = np.argsort(bit_stream(seed, purpose=PIXELS).random_raw(pixels.shape[2]), kind="stable")
    note = f"pixels of all images moved by one permutation with seed {seed}"
    return _treated(data, "shuffled pixels", note, X=pixels[:, :, order].reshape(data.X.shape))


def random_pixels(data: Data, seed: int) -> Data:
    """Move the pixels of each image by a permutation of its own; colours move together, as in `shuffle_pixels`."""
    pixels = _pixels(data)
    n, _, places = pixels.shape
    keys = bit_stream(seed, purpose=PIXELS).random_raw(n * places).reshape(n, places)
    order = np.argsort(keys, axis=1, kind="stable")
    moved = np.take_along_axis(pixels, order[:, None, :], axis=2)
    note = f"pixels of each image moved by its own permutation with seed {seed}"
    return _treated(data, "random pixels", note, X=moved.reshape(data.X.shape))


def gaussian_pixels(data: Data, seed: int) -> Data:
    """Replace all inputs by independent Gaussian numbers, with the mean and the variance of all values of the data."""
    generator = np.random.Generator(bit_stream(seed, purpose=NOISE))
    noise = generator.standard_normal(data.X.shape, dtype=np.float32)
    noise *= np.float32(data.X.std(dtype=np.float64))
    noise += np.float32(data.X.mean(dtype=np.float64))
    return _treated(data, "Gaussian pixels", f"inputs drawn from a Gaussian with seed {seed}", X=noise)


def whiten_images(data: Data) -> Data:
    """Each image minus its mean, divided by max(its standard deviation, 1/sqrt(N)) for N values per image.

    The lower limit leaves images of one colour at zero. No image is changed by what another one looks like.
    """
    flat = data.X.reshape(len(data), -1).astype(np.float64)
    flat -= flat.mean(axis=1, keepdims=True)
    flat /= np.maximum(flat.std(axis=1, keepdims=True), 1 / math.sqrt(flat.shape[1]))
    return _treated(data, "whitened images", "each image whitened by itself", X=flat.reshape(data.X.shape))


def centre_crop(data: Data, size: int) -> Data:
    """The ``size`` x ``size`` pixels in the middle of each image."""
    if len(data.input_shape) != 3 or not 1 <= size <= min(data.input_shape[1:]):
        raise TrueriskError(
            f"{data.name}: inputs of shape {data.input_shape} have no centre of {size} x {size} pixels; "
            "crop images (channels, height, width) to a size that they have."
        )
    top, left = ((side - size) // 2 for side in data.input_shape[1:])
    middle = data.X[:, :, top : top + size, left : left + size]
    return _treated(data, f"{size}x{size} crops", f"cropped to the middle {size} x {size} pixels", X=middle)


def _treated(data: Data, title: str, note: str, X: np.ndarray | None = None, y: np.ndarray | None = None) -> Data:
    """The data with new inputs or labels, and with what was done to them said in name and note."""
    return replace(
        data,
        name=f"{data.name} with {title}",
        X=data.X if X is None else X,
        y=data.y if y is None else y,
        note=f"{data.note}; {note}" if data.note else note,
        feature_names=data.feature_names if X is None else (),
        source=None,  # loading the original again would not give these examples
    )


def _pixels(data: Data) -> np.ndarray:
    """The inputs as (examples, colours, places)."""
    colours = data.input_shape[0] if len(data.input_shape) == 3 else 1
    return data.X.reshape(len(data), colours, -1)


def _uniform(classes: int, n: int, seed: int) -> np.ndarray:
    """n independent integers from 0 to classes - 1 with exactly equal probabilities.

    >>> bool(np.bincount(_uniform(3, 3000, seed=0)).min() > 800)
    True
    """
    bits = bit_stream(seed, purpose=LABELS)
    # Raw words at or above the last multiple of `classes` are thrown away: they would favour small classes.
    largest = 2**64 - 2**64 % classes - 1
    kept = np.empty(0, dtype=np.uint64)
    while len(kept) < n:
        words = bits.random_raw(n - len(kept))
        kept = np.concatenate([kept, words[words <= np.uint64(largest)]])
    return (kept % np.uint64(classes)).astype(np.int64)
