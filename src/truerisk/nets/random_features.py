"""Random features with a trained linear readout: the convex relative of a network, minimized exactly in float64.

A hidden layer is drawn once and never trained; N features phi(x) of an input x in R^d feed a linear readout:

    relu      phi_j(x) = sqrt(2/N) max(<v_j, x>, 0),     v_j ~ N(0, I/d)
    fourier   phi_j(x) = sqrt(2/N) cos(<v_j, x> + b_j),  v_j ~ p(s v), b_j uniform on [0, 2 pi], bandwidth s

The spectrum p is the density of frequencies; its coordinates are independent. As N grows, <phi(x), phi(z)> approaches
a kernel (`nets.feature_kernels` computes it): |x||z| (sin a + (pi - a) cos a) / (pi d) for ReLU, where a is the angle
between x and z (Cho and Saul 2009), and for Fourier the transform of p (Rahimi and Recht 2007), with D = (x - z) / s:

    gaussian    p(w) = prod exp(-w_i^2 / 2) / sqrt(2 pi)   exp(-|D|_2^2 / 2)
    laplacian   p(w) = prod 1 / (pi (1 + w_i^2))           exp(-|D|_1)
    cauchy      p(w) = prod exp(-|w_i|) / 2                prod 1 / (1 + D_i^2)

Readouts W (one column for each output) minimize, with features Phi (a row for each of n examples) and a ridge r >= 0:

    least squares   |Phi W - Y|^2 / (2n)                + r |W|^2 / 2      `LeastSquares`
    softmax         mean cross-entropy of softmax(Phi W) + r |W|^2 / 2      `softmax_readout`

The factors 1/2 make a ridge the same number as the ``weight_decay`` of torch's SGD. There is no intercept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from truerisk.errors import TrueriskError

KINDS = ("relu", "fourier")
SPECTRA = ("gaussian", "laplacian", "cauchy")  # named after the kernel; the frequencies are normal, Cauchy, and Laplace
CUTOFF = 1e-12  # singular values below this share of the largest count as 0; a larger cutoff is a hidden regularizer


@dataclass(frozen=True)
class RandomFeatures:
    """A hidden layer that is never trained; call it on inputs (examples, d) for features (examples, width)."""

    kind: str
    directions: np.ndarray  # (width, d)
    offsets: np.ndarray  # (width,), 0 for ReLU

    @property
    def width(self) -> int:
        return len(self.directions)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Features in float64; inputs of more than one axis are flattened."""
        return feature_scale(self.width) * self.block(X, 0, self.width)

    def block(self, X: np.ndarray, start: int, stop: int) -> np.ndarray:
        """The features from ``start`` up to ``stop``, without the factor sqrt(2/N): they are the same for every N."""
        flat = np.asarray(X, dtype=np.float64).reshape(len(X), -1)
        if flat.shape[1] != self.directions.shape[1]:
            raise TrueriskError(
                f"the inputs have {flat.shape[1]} coordinates, but the features take {self.directions.shape[1]}; "
                "draw features for these inputs."
            )
        angles = flat @ self.directions[start:stop].T + self.offsets[start:stop]
        return np.cos(angles) if self.kind == "fourier" else np.maximum(angles, 0)


def feature_scale(width: int) -> float:
    """The factor sqrt(2/N) of N features, with which norms of readouts are comparable between widths."""
    return math.sqrt(2 / width)


def random_features(
    inputs: int, width: int, seed: int, kind: str = "relu", bandwidth: float = 1.0, spectrum: str = "gaussian"
) -> RandomFeatures:
    """Draw ``width`` features of ``inputs`` coordinates. With one seed, fewer features are the first of more.

    ``bandwidth`` and ``spectrum`` are those of Fourier features.

    >>> random_features(64, 500, seed=0)(np.zeros((3, 8, 8))).shape
    (3, 500)
    """
    if kind not in KINDS:
        raise TrueriskError(f"the kind of features is {kind!r}, but must be one of {', '.join(KINDS)}; choose one.")
    if inputs < 1 or width < 1 or not bandwidth > 0:
        raise TrueriskError(
            f"inputs, width, and bandwidth are {inputs}, {width}, and {bandwidth:g}, but must be positive; raise them."
        )
    if spectrum not in SPECTRA:
        raise TrueriskError(f"the spectrum is {spectrum!r}, but must be one of {', '.join(SPECTRA)}; choose one.")
    for_directions, for_offsets = (np.random.default_rng([seed, part]) for part in (0, 1))
    if kind == "relu":
        directions = for_directions.standard_normal((width, inputs))
        return RandomFeatures(kind, directions / math.sqrt(inputs), np.zeros(width))
    draw = {"gaussian": for_directions.standard_normal, "laplacian": for_directions.standard_cauchy}
    frequencies = draw[spectrum]((width, inputs)) if spectrum in draw else for_directions.laplace(size=(width, inputs))
    return RandomFeatures(kind, frequencies / bandwidth, for_offsets.uniform(0, 2 * np.pi, width))


class LeastSquares:
    """All solutions of one least-squares problem, from one singular value decomposition in float64.

    With Phi = U diag(s) V': the least-norm solution is V diag(1/s) U'Y over the s that are not 0, the ridge solution is
    V diag(s / (s^2 + n r)) U'Y.

    >>> problem = LeastSquares(np.array([[1.0, 1.0]]), np.array([2.0]))
    >>> problem.least_norm(), problem.ridge(2.0)
    (array([1., 1.]), array([0.5, 0.5]))
    """

    def __init__(self, features: np.ndarray, targets: np.ndarray) -> None:
        self._n = len(_checked(features, targets))
        left, self._values, self._right = np.linalg.svd(np.asarray(features, np.float64), full_matrices=False)
        self._rotated = left.T @ np.asarray(targets, np.float64)

    def least_norm(self, cutoff: float = CUTOFF) -> np.ndarray:
        """Of all minimizers without a ridge, the one of least norm. A ``cutoff`` far above 1e-12 acts as a ridge."""
        kept = self._values > cutoff * self._values[0]
        return self._solution(np.where(kept, 1 / np.where(kept, self._values, 1), 0))

    def ridge(self, strength: float) -> np.ndarray:
        """The only minimizer with a ridge; it approaches the least-norm solution as the ridge goes to 0."""
        if not strength > 0:
            raise TrueriskError(f"the ridge is {strength:g}, but must be positive; call least_norm() for no ridge.")
        return self._solution(self._values / (self._values**2 + self._n * strength))

    def _solution(self, inverted: np.ndarray) -> np.ndarray:
        scaled = inverted[:, None] * self._rotated if self._rotated.ndim > 1 else inverted * self._rotated
        return np.asarray(self._right.T @ scaled)


def softmax_readout(
    features: np.ndarray,
    labels: np.ndarray,
    classes: int,
    ridge: float = 0.0,
    tolerance: float = 1e-6,
    steps: int = 10_000,
) -> np.ndarray:
    """The readout (width, classes) that minimizes the mean cross-entropy plus the ridge, by L-BFGS from zero.

    It ends where no derivative exceeds ``tolerance``, or after so many ``steps``. With a ridge the minimizer is unique.
    Without one there is none if the features separate the classes: any tolerance is reached at some finite readout.
    """
    features = np.asarray(_checked(features, labels), np.float64)
    if ridge < 0:
        raise TrueriskError(f"the ridge is {ridge:g}, but must be at least 0; raise it.")
    # Gradients, and with them all steps from zero, lie in the span of the examples: n coordinates are enough.
    basis, rows = np.eye(features.shape[1]), features
    if features.shape[1] > len(features):
        basis, upper = np.linalg.qr(features.T)
        rows = upper.T
    n, r = rows.shape
    truth = np.eye(classes)[labels]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        readout = flat.reshape(r, classes)
        logs = log_softmax(rows @ readout, axis=1)
        gradient = rows.T @ (np.exp(logs) - truth) / n + ridge * readout
        return -float(np.sum(truth * logs)) / n + ridge * float(flat @ flat) / 2, gradient.ravel()

    options = {"gtol": tolerance, "ftol": 0.0, "maxiter": steps, "maxfun": 2 * steps, "maxcor": 20}
    found = minimize(objective, np.zeros(r * classes), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(basis @ found.x.reshape(r, classes))


def _checked(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    if np.ndim(features) != 2 or len(features) != len(targets) or not len(features):
        raise TrueriskError(
            f"features of shape {np.shape(features)} and targets of shape {np.shape(targets)} do not match; "
            "give a row of features and a target for each example."
        )
    return features
