"""The two figures of Rouchouse et al. 2025 in numbers, read off the plots (within 0.02).

McAllester's form, not cut at 1. MNIST with n = 60,000: bounds by the widths of hidden layers. CIFAR-10 with n = 50,000:
bounds of a convolutional network, by the standard deviations of prior and posterior.
"""

from __future__ import annotations

from collections.abc import Sequence

# widths of hidden layers: (bound before, bound after rescaling, ratio of the two KLs)
ARCHITECTURES: dict[str, tuple[float, float, float]] = {
    "256-256-256-256": (3.41, 2.29, 2.3),
    "512-64-512": (3.68, 1.89, 4.0),
    "1024-512-256": (6.46, 3.15, 4.4),
    "512": (3.37, 1.44, 5.6),
    "64-32-16-8-4": (1.26, 0.66, 4.0),
    "32-64-128": (1.05, 0.69, 2.5),
    "256-128-64": (2.64, 1.27, 4.6),
    "128-128-128": (1.98, 1.11, 3.3),
    "64-32": (1.24, 0.60, 4.5),
    "32": (0.87, 0.46, 3.9),
}
ACCURACIES = (0.9581, 0.9749, 0.9813)  # of the networks on MNIST: lowest, mean, highest
ACCURACY = 0.86  # of the convolutional network
# Its weights and their sum of squares, fitted to the twelve bounds below: estimates that nobody has published.
WEIGHTS, SQUARES = 2.61e6, 2020.0

# (sigma of the prior, sigma of the posterior): (bound before, bound after rescaling)
NOISE: dict[tuple[float, float], tuple[float, float]] = {
    (0.0623, 0.0469): (2.95, 2.76),
    (0.107, 0.0357): (4.93, 3.11),
    (0.145, 0.0474): (5.10, 2.78),
    (0.0843, 0.0459): (3.69, 2.79),
    (0.0725, 0.0262): (4.53, 3.38),
    (0.0497, 0.0481): (2.90, 2.87),
}


def noise_name(pair: Sequence[float]) -> str:
    """A pair of standard deviations as a label.

    >>> noise_name((0.107, 0.0357))
    '0.107 / 0.0357'
    """
    return f"{pair[0]:g} / {pair[1]:g}"


# What was published for each row, by its label: before and after.
BEFORE_AFTER: dict[str, tuple[float, float]] = {
    **{name: numbers[:2] for name, numbers in ARCHITECTURES.items()},
    **{noise_name(pair): numbers for pair, numbers in NOISE.items()},
}
