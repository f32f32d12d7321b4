"""The kernels that random features approach, and how fast: exact values, the variance of an entry, and a bound.

`nets.random_features` draws N features phi; <phi(x), phi(z)> is a mean of N independent terms with expectation k(x, z).
With D = (x - z) / s for a bandwidth s, Fourier features have one of three spectra (Rahimi and Recht 2007):

    gaussian    k = exp(-|D|_2^2 / 2)        normal frequencies
    laplacian   k = exp(-|D|_1)              Cauchy frequencies
    cauchy      k = prod 1 / (1 + D_i^2)     Laplace frequencies, density prod exp(-|w_i|) / 2

Some tables have prod 2 / (1 + D_i^2) and exp(-|w|_1) in the last row. Both are 2^d times too large: such a density
integrates to 2^d, and features drawn from it after normalization approach the kernel above. The Laplacian here
has the distance |.|_1; that of `nets.kernels.DistanceKernel` has the Euclidean distance and is another kernel.
ReLU features approach the arc-cosine kernel of degree 1 (Cho and Saul 2009, with 1/d because of v ~ N(0, I/d)).

cos(a + b) cos(c + b) with b uniform on the circle has the mean cos(a - c) / 2. So an entry of Fourier features has

    Var <phi(x), phi(z)> = (1 + k(2(x - z)) / 2 - k(x - z)^2) / N

(Sutherland and Schneider 2015). Terms lie in [-2, 2], so Hoeffding's inequality and a union bound over P pairs give,
with probability at least 1 - delta, errors of at most sqrt(8 ln(2P / delta) / N) for all of them (`largest_error`).
This needs no moments of the frequencies; those of the Laplacian kernel have none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from truerisk.errors import TrueriskError
from truerisk.nets.random_features import SPECTRA, RandomFeatures, random_features
from truerisk.nets.triangle import Triangle

ROWS = 128  # rows of a block: with some thousand columns it stays in the processor's cache
FACTORS = 8  # coordinates multiplied before a logarithm is taken
SAMPLE = 1000  # examples whose distances set a bandwidth


class FeatureKernel:
    """A kernel with the features that approach it; a `nets.kernels.Kernel`, and a function of two sets of rows."""

    def __call__(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """k(a, b) for each row a of A and b of B; inputs of more than one axis are flattened."""
        left, right = _flat(A), _flat(B)
        if left.shape[1] != right.shape[1]:
            raise TrueriskError(
                f"the inputs have {left.shape[1]} and {right.shape[1]} coordinates; give inputs of one kind."
            )
        blocks = [self._block(left[start : start + ROWS], right) for start in range(0, len(left), ROWS)]
        return np.concatenate(blocks) if blocks else np.empty((0, len(right)))

    def features(self, inputs: int, width: int, seed: int) -> RandomFeatures:
        """Draw features whose inner products have this kernel as their mean."""
        raise NotImplementedError

    def triangle(self, X: np.ndarray) -> Triangle:
        flat = _flat(X)
        return Triangle.of(len(flat), lambda rows, columns: self(flat[rows], flat[columns]))

    def apply(self, A: np.ndarray, B: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        return np.asarray(self(A, B) @ coefficients)

    def _block(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        raise NotImplementedError


@dataclass(frozen=True)
class FourierKernel(FeatureKernel):
    """The kernel of a spectrum: gaussian, laplacian (with the distance |.|_1), or cauchy.

    >>> origin, point = np.zeros((1, 3)), np.array([[0.5, -0.3, 0.8]])
    >>> [round(FourierKernel(name)(origin, point).item(), 4) for name in SPECTRA]
    [0.6126, 0.2019, 0.4475]
    """

    spectrum: str
    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        if self.spectrum not in SPECTRA or not 0 < self.bandwidth < math.inf:
            raise TrueriskError(
                f"spectrum and bandwidth are {self.spectrum!r} and {self.bandwidth:g}, but must be one of "
                f"{', '.join(SPECTRA)} and a positive number; change them."
            )

    def features(self, inputs: int, width: int, seed: int) -> RandomFeatures:
        return random_features(inputs, width, seed, "fourier", self.bandwidth, self.spectrum)

    def variance(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """N times the variance of an entry: 1 + k(2(x - z)) / 2 - k(x - z)^2.

        >>> FourierKernel("cauchy").variance(np.zeros((1, 1)), np.array([[0.0], [1.0]])).round(4).tolist()
        [[0.5, 0.85]]
        """
        twice = FourierKernel(self.spectrum, self.bandwidth / 2)(A, B)
        return np.asarray(1 + twice / 2 - self(A, B) ** 2)

    def density(self, frequencies: np.ndarray) -> np.ndarray:
        """The density of the spectrum at rows of frequencies.

        >>> [FourierKernel(name).density(np.zeros((1, 2))).round(4).item() for name in SPECTRA]
        [0.1592, 0.1013, 0.25]
        """
        scaled = _flat(frequencies) * self.bandwidth
        if self.spectrum == "gaussian":
            each = np.exp(-(scaled**2) / 2) / math.sqrt(2 * math.pi)
        elif self.spectrum == "laplacian":
            each = 1 / (math.pi * (1 + scaled**2))
        else:
            each = np.exp(-np.abs(scaled)) / 2
        return np.asarray(np.prod(each * self.bandwidth, axis=1))

    def _block(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        if self.spectrum == "gaussian":
            return np.exp(-cdist(A / self.bandwidth, B / self.bandwidth, "sqeuclidean") / 2)
        if self.spectrum == "laplacian":
            return np.exp(-cdist(A / self.bandwidth, B / self.bandwidth, "cityblock"))
        logs, product = np.zeros((2, len(A), len(B)))
        product += 1
        for i, (a, b) in enumerate(zip(A.T / self.bandwidth, B.T / self.bandwidth, strict=True)):
            square = np.subtract.outer(a, b)
            square *= square
            square += 1
            product *= square
            if i % FACTORS == FACTORS - 1:
                logs += np.log(product)
                product.fill(1)
        return np.exp(-logs) / product


@dataclass(frozen=True)
class ArcCosineKernel(FeatureKernel):
    """The kernel of ReLU features: |x||z| (sin a + (pi - a) cos a) / (pi d), a the angle between x and z.

    >>> rows = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> ArcCosineKernel()(rows[:1], rows).round(4).tolist()
    [[0.5, 0.1592, 0.0]]
    """

    def features(self, inputs: int, width: int, seed: int) -> RandomFeatures:
        return random_features(inputs, width, seed, "relu")

    def _block(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        sizes = np.outer(np.linalg.norm(A, axis=1), np.linalg.norm(B, axis=1))
        cosines = np.clip(np.divide(A @ B.T, sizes, out=np.zeros_like(sizes), where=sizes > 0), -1, 1)
        angles = np.arccos(cosines)
        return np.asarray(sizes * (np.sin(angles) + (np.pi - angles) * cosines) / (np.pi * A.shape[1]))


def median_bandwidth(spectrum: str, X: np.ndarray) -> float:
    """The median distance above 0 between two of the first 1,000 examples: |.|_1 for the Laplacian, else Euclidean.

    >>> median_bandwidth("laplacian", np.array([[0.0, 0.0], [1.0, 2.0]]))
    3.0
    """
    flat = _flat(X[:SAMPLE])
    distances = cdist(flat, flat, "cityblock" if spectrum == "laplacian" else "euclidean")
    apart = distances[np.triu_indices(len(flat), 1)]
    apart = apart[apart > 0]
    if not len(apart) or not np.isfinite(apart).all():
        raise TrueriskError("the examples have no finite distance above 0; give examples that differ.")
    return float(np.median(apart))


def largest_error(width: int, pairs: int, delta: float) -> float:
    """With probability at least 1 - delta, no entry of ``pairs`` pairs is further than this from its kernel.

    >>> round(largest_error(width=10_000, pairs=1, delta=2 / math.e**2), 4)
    0.04
    """
    if width < 1 or pairs < 1 or not 0 < delta < 1:
        raise TrueriskError(
            f"width, pairs, and delta are {width}, {pairs}, and {delta:g}, but must be at least 1, at least 1, and "
            "between 0 and 1; change them."
        )
    return math.sqrt(8 * math.log(2 * pairs / delta) / width)


def _flat(X: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.reshape(X, (len(X), -1)), dtype=np.float64)
