"""Two classes in the plane: moons, circles, and spirals, drawn as theory wants them, as independent examples.

The shapes of moons and circles are those of scikit-learn's ``make_moons`` and ``make_circles``. Those functions place
their points at equal distances along the curves and make both classes equally large, so their examples depend on each
other and no certificate about them would hold. Here each example draws its own class, its own place on the curve, and
its own noise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from truerisk.data.dataset import Data, from_arrays
from truerisk.data.places import spell
from truerisk.errors import TrueriskError

EXAMPLES = 2000
SEEDS = {"train": 0, "test": 1}  # by part
CLASSES = 2

FACTOR = 0.5  # radius of the inner circle; that of the outer one is 1
TURNS, RADIUS = 1.25, 3.0  # of a spiral arm, and its distance from the center at its outer end

# Inputs are rounded to multiples of 2^-12, far below the noise: see ``mnist1d``.
GRID = 2.0**12


def _moons(t: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Two half circles that reach into each other."""
    angle = np.pi * t
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.where(y[:, None] == 0, upper, np.array([1.0, 0.5]) - upper)


def _circles(t: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A circle around another one."""
    radius, angle = np.where(y == 0, 1.0, FACTOR), 2 * np.pi * t
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _spirals(t: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Two interleaved arms, one of them turned by half a turn."""
    along = np.sqrt(t)  # outer turns are longer: the square root spreads the examples about evenly over the arm
    radius, angle = RADIUS * along, 2 * np.pi * TURNS * along + np.pi * y
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


# Each curve, and the standard deviation of the noise on both coordinates. With this noise, the best possible classifier
# errs on about 3% of the examples of each set: computed from the densities on 20,000 examples with seed 777.
SHAPES: dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], float]] = {
    "moons": (_moons, 0.2),
    "circles": (_circles, 0.135),
    "spirals": (_spirals, 0.28),
}


def generate_toy(name: str, n: int = EXAMPLES, seed: int = 0, noise: float | None = None) -> Data:
    """`n` independent examples of `moons`, `circles`, or `spirals` with inputs of shape (2,), determined by `seed`.

    `noise` is the standard deviation of the noise on both coordinates; None takes that of the named dataset. With the
    same seed, a smaller `n` gives the first examples of a larger one.

    >>> data = generate_toy("moons", 100, seed=3)
    >>> data.X.shape, data.classes
    ((100, 2), 2)
    >>> generate_toy("moons", 50, seed=3).y.tolist() == data.y[:50].tolist()
    True
    """
    if name not in SHAPES:
        raise TrueriskError(f"the toy dataset is {name!r}, but must be {', '.join(SHAPES)}; choose one of these.")
    curve, usual = SHAPES[name]
    noise = usual if noise is None else noise
    if n < 1:
        raise TrueriskError(f"{name}: n is {n}, but must be at least 1; give a larger n.")
    if not 0 <= seed < 2**32:
        raise TrueriskError(f"{name}: the seed is {seed}, but must be from 0 to 2^32 - 1; choose one inside.")
    if not 0 <= noise < np.inf:
        raise TrueriskError(f"{name}: the noise is {noise}, but must be at least 0 and finite; try {usual}.")
    # One row of uniform numbers for each example. This old generator has a virtue: its streams are frozen, so they are
    # the same in all numpy versions. The name enters the seed: the three sets of one seed share no random number.
    u = np.random.RandomState([seed, *name.encode()]).random_sample((n, 4))
    y = (u[:, 0] < 0.5).astype(np.int64)
    # Box and Muller: two uniform numbers make two Gaussian ones, whatever the other rows are.
    radius, angle = np.sqrt(-2 * np.log1p(-u[:, 2])), 2 * np.pi * u[:, 3]
    X = curve(u[:, 1], y) + noise * np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    X = np.round(X * GRID) / GRID
    part = next((part for part, value in SEEDS.items() if (n, seed, noise) == (EXAMPLES, value, usual)), None)
    source = None if part is None else spell(name, part)
    return from_arrays(
        X.astype(np.float32),
        y,
        name=source or name,
        classes=CLASSES,
        note=f"{n} independent draws with seed {seed} and noise {noise:g}",
        source=source,
    )
