"""The six treatments of Zhang et al. 2017, Section 2, by name: for a training set and a test set together."""

from __future__ import annotations

from truerisk.data.dataset import Data
from truerisk.data.treatments import corrupt_labels, gaussian_pixels, random_pixels, shuffle_pixels
from truerisk.errors import TrueriskError
from truerisk.seeds import derive

LABELS = ("true labels", "corrupted labels", "random labels")
PIXELS = ("shuffled pixels", "random pixels", "Gaussian pixels")


def label_treatment(p: float) -> str:
    """The name for labels that are replaced with probability ``p``.

    >>> [label_treatment(p) for p in (0, 0.5, 1)]
    ['true labels', 'corrupted labels', 'random labels']
    """
    return LABELS[0] if p == 0 else LABELS[2] if p == 1 else LABELS[1]


def randomize(train: Data, test: Data, treatment: str, p: float, seed: int) -> tuple[Data, Data]:
    """Training and test examples after a treatment; ``p`` is the probability of corruption, 0 for treated pixels.

    Labels are changed in the training set only. Pixels are changed in both sets: by one permutation where all images
    share one, by new draws where each image has its own.
    """
    if treatment in LABELS and treatment == label_treatment(p):
        return corrupt_labels(train, p, derive(seed, "labels")), test
    if treatment not in PIXELS or p != 0:
        names = ", ".join((*LABELS, *PIXELS))
        raise TrueriskError(f"the treatment is {treatment!r} with p = {p:g}; use one of {names}, with its p.")
    if treatment == PIXELS[0]:
        place = derive(seed, "pixels")
        return shuffle_pixels(train, place), shuffle_pixels(test, place)
    change = random_pixels if treatment == PIXELS[1] else gaussian_pixels
    return change(train, derive(seed, "pixels", "train")), change(test, derive(seed, "pixels", "test"))
