"""Names of networks, data sets, and fields as people read them."""

from __future__ import annotations

from typing import Any

NAMES = {
    "mlp-1x512": "MLP 1x512",
    "mlp-3x512": "MLP 3x512",
    "alexnet": "AlexNet",
    "alexnet-small": "AlexNet (small)",
    "inception": "Inception",
    "inception-small": "Inception (small)",
    "inception-no-bn": "Inception without batch norm",
    "inception-small-no-bn": "Inception (small) without batch norm",
    "least-squares-sgd": "least squares by SGD",
    "least-squares": "least squares",
    "softmax-sgd": "softmax regression by SGD",
    "mnist": "MNIST",
    "mnist1d": "MNIST-1D",
    "fashion-mnist": "Fashion-MNIST",
    "cifar-10": "CIFAR-10",
    "gaussian": "Gaussian points",
    "fourier": "Fourier features",
    "relu": "ReLU features",
}
KERNELS = {
    "gaussian": "Gaussian kernel",
    "laplacian": "Laplacian kernel",
    "cauchy": "Cauchy kernel",
    "arc-cosine": "arc-cosine kernel",
}
MEASURED = {
    "gaussian": "Gaussian measurements",
    "few gaussian": "few Gaussian measurements",
    "commuting": "commuting measurements",
}
OWN_WORDS = {"kernel": KERNELS, "measured": MEASURED}  # fields whose values have names of their own
# Fields whose values are numbers: the words before the number, and after it.
FIELDS = {
    "n": ("", " examples"),
    "p": ("corruption ", ""),
    "width": ("width ", ""),
    "noise": ("noise ", ""),
    "level": ("noise level ", ""),
}
SHARES = ("p", "noise", "level")  # fractions that people read as percentages


def spell(value: Any) -> str:
    """A value as people read it.

    >>> spell("mlp-1x512"), spell("digits"), spell(1312)
    ('MLP 1x512', 'digits', '1,312')
    """
    if isinstance(value, str):
        return NAMES.get(value, value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def spell_field(name: str, value: Any) -> str:
    """A value with the field that it belongs to, where a number alone would say nothing.

    >>> spell_field("n", 1312), spell_field("p", 0.25), spell_field("model", "alexnet"), spell_field("lr", 0.1)
    ('1,312 examples', 'corruption 25%', 'AlexNet', 'lr 0.1')
    >>> spell_field("kernel", "gaussian"), spell_field("data", "gaussian")
    ('Gaussian kernel', 'Gaussian points')
    >>> spell_field("measured", "gaussian"), spell_field("measured", "few entries")
    ('Gaussian measurements', 'few entries')
    """
    if isinstance(value, str):
        return OWN_WORDS[name].get(value, value) if name in OWN_WORDS else spell(value)
    before, after = FIELDS.get(name, (f"{name} ", ""))
    shown = f"{100 * value:g}%" if name in SHARES and isinstance(value, float | int) else spell(value)
    return f"{before}{shown}{after}"
