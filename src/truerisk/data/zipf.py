"""Documents of words with Zipf frequencies: a few words are in almost every document, most words in hardly any.

Word k of ``words`` is drawn with probability proportional to 1 / k. Each word has a true weight of -1 or 1, and the
label of a document is drawn from the logistic model of its words' sum, so that a rare word says as much as a frequent
one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerisk.errors import TrueriskError


@dataclass(frozen=True)
class Documents:
    """How often each word is in each document, labels 0 and 1, and the weights that made them."""

    counts: np.ndarray  # (documents, words)
    labels: np.ndarray
    weights: np.ndarray  # true ones, -1 or 1

    @property
    def occurrences(self) -> np.ndarray:
        """In how many documents each word is."""
        return np.asarray((self.counts > 0).sum(axis=0))


def zipf_documents(n: int, words: int, length: int, seed: int) -> Documents:
    """``n`` documents of ``length`` words each.

    >>> found = zipf_documents(100, 50, 10, seed=0)
    >>> found.counts.shape, float(found.counts.sum(axis=1).max()), bool(found.occurrences[0] > found.occurrences[-1])
    ((100, 50), 10.0, True)
    """
    if min(n, length) < 1 or words < 2:
        raise TrueriskError(
            f"{n} documents of {length} out of {words} words cannot be drawn; give at least 1, 1, and 2."
        )
    rng = np.random.default_rng(seed)
    odds = 1 / np.arange(1, words + 1)
    drawn = rng.choice(words, size=(n, length), p=odds / odds.sum())
    counts = np.zeros((n, words))
    np.add.at(counts, (np.arange(n)[:, None], drawn), 1.0)
    weights = rng.choice([-1.0, 1.0], size=words)
    labels = (rng.random(n) < 1 / (1 + np.exp(-(counts @ weights)))).astype(np.int64)
    return Documents(counts, labels, weights)
