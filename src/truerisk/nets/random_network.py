"""Random features as a torch module: a frozen random hidden layer and a linear readout of least norm.

    f(x) = W phi(x),    phi_j(x) = sqrt(2) max(<v_j, x>, 0),    v_j ~ N(0, I/d) for j = 1, ..., N

The directions v_j come from a seed and are never trained, so they have seen no data: a prior and a decoder may know
them. ``fit_least_norm`` sets W to the solution of least squares on one-hot labels, of least norm where there are
several (Belkin et al. 2019, random features). With N features of n examples in general position it fits every label
from N = n on; just there its norm, and with it the test error, has a peak.

Up to the factor sqrt(N), which leaves the least-norm function as it is, the features are those of
`truerisk.nets.random_features`: each has a size that does not depend on N, as units of a trained network have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from truerisk.errors import TrueriskError
from truerisk.nets.random_features import LeastSquares, random_features

AT_ONCE = 4096  # examples whose features are computed at a time
CUTOFF = 1e-6  # singular values below this share of the largest are rounding of float32 features, and count as 0


class RandomNetwork(nn.Module):
    """``width`` frozen random ReLU features of a flattened input, and a trainable readout without intercept.

    With one ``seed``, fewer features are the first of more.
    """

    def __init__(self, inputs: int, width: int, classes: int, seed: int) -> None:
        super().__init__()
        directions = random_features(inputs, width, seed).directions
        self.hidden = nn.Linear(inputs, width, bias=False)
        self.hidden.weight.data.copy_(torch.from_numpy(math.sqrt(2) * directions))
        self.hidden.requires_grad_(False)
        self.readout = nn.Linear(width, classes, bias=False)

    def features(self, x: Tensor) -> Tensor:
        """phi(x), one row for each example."""
        return F.relu(self.hidden(x.flatten(1)))

    def forward(self, x: Tensor) -> Tensor:
        return self.readout(self.features(x))


def random_network(width: int, seed: int = 0) -> Callable[..., RandomNetwork]:
    """A factory for ``truerisk.certify``, which gives it the input shape and the classes.

    The features are always those of ``seed``, so certify asks for ``trust_factory=True``: your word that they never saw
    the data. That word is true of random directions.

    >>> model = random_network(500)(input_shape=(1, 8, 8), classes=10)
    >>> model(torch.zeros(3, 1, 8, 8)).shape
    torch.Size([3, 10])
    """

    def build(input_shape: Sequence[int], classes: int) -> RandomNetwork:
        return RandomNetwork(math.prod(input_shape), width, classes, seed)

    return build


def fit_least_norm(module: RandomNetwork, dataset: Dataset[Any]) -> RandomNetwork:
    """Set the readout to the least-squares solution of least norm for one-hot labels, computed in float64.

    The features are those that the module itself computes, in float32. Targets are one-hot labels minus 1/classes, so
    that no output is 0 but for rounding. Give the function to certify as ``fit=fit_least_norm``.

    >>> X, y = torch.eye(2), torch.tensor([0, 1])
    >>> model = fit_least_norm(RandomNetwork(2, 50, 2, seed=0), torch.utils.data.TensorDataset(X, y))
    >>> torch.allclose(model(X), torch.eye(2) - 1 / 2, atol=1e-5)
    True
    """
    if not isinstance(module, RandomNetwork):
        raise TrueriskError(
            f"fit_least_norm solves for the readout of a RandomNetwork, not of a {type(module).__name__}; build the "
            "network with random_network."
        )
    features, labels = [], []
    with torch.no_grad():
        for x, y in DataLoader(dataset, batch_size=AT_ONCE):
            features.append(module.features(x).double().numpy())
            labels.append(y.numpy())
        classes = module.readout.out_features
        targets = np.eye(classes)[np.concatenate(labels)] - 1 / classes
        solution = LeastSquares(np.concatenate(features), targets).least_norm(CUTOFF)
        module.readout.weight.copy_(torch.from_numpy(solution.T))
    return module
