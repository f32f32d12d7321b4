"""The whole table of measures: against each measure alone, and against the published way of computing them.

The opponent of the second row is the protocol of Dziugaite et al. 2020 (robust-generalization-measures), written down
plainly, with the settings of the published code: noise whose size is found by bisection in at most 15 steps, each with
10 networks tried on all examples, once for plain noise and once for noise in proportion to the weights; norms of the
reshaped kernels and, by Fourier transform on the grid of the input (32 x 32), of the convolutions, for the weights and
for their distances from the start. The network is theirs, too (a network in network of two blocks, by default with 200
channels), the images are digits, enlarged. As published, all images are one batch, and batch norms stay as layers that
change nothing after they were folded into the convolutions. The first row uses a network of a third of that width: its
opponent is slow.
"""

from __future__ import annotations

import copy
import math
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from benchmarks.timing import Row, seconds
from truerisk.data import Data, load
from truerisk.measures import MEASURES, Subject
from truerisk.measures.table import measure_subject
from truerisk.seeds import seeded_globals
from truerisk.training import Plan, fit

NARROW, PUBLISHED = 64, 200  # channels
IMAGES = 512
STEPS, DRAWS, DROP, TOLERANCE = 15, 10, 0.1, 0.01  # of the published bisection
GRID = 32, 32  # of the published Fourier transforms


def rows() -> list[Row]:
    return [against_each_alone(), against_the_protocol()]


def against_each_alone() -> Row:
    network, init, data = zoo_network(NARROW)
    found = measure_subject(Subject(network, data, init), only=NAMES)  # the first use of a library is not timed

    def alone() -> None:
        for name in NAMES:
            measure_subject(Subject(network, data, init), only=[name])

    return Row(
        "all measures of a convnet",
        "each measure alone",
        seconds(lambda: measure_subject(Subject(network, data, init), only=NAMES)),
        seconds(alone),
        f"{len(found.values)} measures, {NARROW} channels, {IMAGES} images; passes and decompositions are shared",
    )


def against_the_protocol() -> Row:
    network, init, data = zoo_network(PUBLISHED)
    sizes: dict[str, int] = {}
    ours = seconds(lambda: sizes.update(ours=len(measure_subject(Subject(network, data, init), only=NAMES).values)))
    theirs = seconds(lambda: sizes.update(theirs=len(protocol(network, init, data))))
    return Row(
        "all measures of a convnet",
        "the published protocol, written down plainly",
        ours,
        theirs,
        f"ours {sizes['ours']} measures, theirs {sizes['theirs']}; {PUBLISHED} channels, {IMAGES} images",
    )


NAMES = [name for name, entry in MEASURES.items() if entry.cost != "training" and "record" not in entry.needs]


def network_in_network(channels: int) -> nn.Sequential:
    def block(fan_in: int) -> list[nn.Module]:
        layers: list[nn.Module] = []
        for entering, kernel, stride in ((fan_in, 3, 2), (channels, 1, 1), (channels, 1, 1)):
            convolution = nn.Conv2d(entering, channels, kernel, stride, kernel // 2)
            layers += [convolution, nn.BatchNorm2d(channels), nn.ReLU()]
        return layers

    return nn.Sequential(*block(3), *block(channels), nn.Conv2d(channels, 10, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def zoo_network(channels: int) -> tuple[nn.Module, nn.Module, Data]:
    """A trained network, the same at its start, and its images."""
    digits = load("digits")
    images = np.repeat(np.kron(digits.X[:IMAGES], np.ones((1, 1, 4, 4))), 3, axis=1)
    data = Data("enlarged digits", images, digits.y[:IMAGES], 10)
    with seeded_globals(0):
        init = network_in_network(channels)
    with seeded_globals(0):
        network = network_in_network(channels)
    fit(network, data, Plan(epochs=20, batch_size=32, lr=1e-2))
    return network, init, data


# ---- the opponent --------------------------------------------------------------------------------------------------


def protocol(network: nn.Module, init: nn.Module, data: Data) -> dict[str, float]:
    """The published measures, one after the other, with the published numbers of steps and draws.

    A known mistake of the published code (a variance taken for a standard deviation) is not repeated, nor are its
    constants: what is timed is the work.
    """
    network, init = _folded(network), _folded(init)
    X, y = torch.from_numpy(data.X), torch.from_numpy(data.y)
    weights = [p.detach() for p in network.parameters() if p.ndim > 1]
    moved = [w - p.detach() for w, p in zip(weights, (p for p in init.parameters() if p.ndim > 1), strict=True)]
    norm, distance = (float(sum(w.square().sum() for w in each)) for each in (weights, moved))
    found = {"parameters": float(sum(w.numel() for w in weights)), "norm": norm, "distance": distance}
    with torch.no_grad():
        margin = abs(_margin(network, X, y))
        found["inverse margin"] = 1 / margin**2
        found |= _norms(weights, moved, margin)
        squared = copy.deepcopy(network)
        for p in squared.parameters():
            p.square_()
        found["path norm"] = float(squared(torch.ones_like(X[:1])).sum())
        found["path norm over margin"] = found["path norm"] / margin**2
    for proportional in (False, True):
        sigma = _sigma(network, X, y, proportional)
        kind = " in proportion" if proportional else ""
        found[f"flatness{kind}"] = 1 / sigma**2
        found[f"PAC-Bayes, start{kind}"] = distance / (4 * sigma**2) + math.log(len(y) / sigma)
        found[f"PAC-Bayes, origin{kind}"] = norm / (4 * sigma**2) + math.log(len(y) / sigma)
    return found


def _folded(network: nn.Module) -> nn.Module:
    """Each batch norm's scale and shift moved into the convolution before it."""
    network = copy.deepcopy(network).eval()
    layers = list(network.children())
    for place, (before, norm) in enumerate(pairwise(layers)):
        if isinstance(norm, nn.BatchNorm2d) and isinstance(before, nn.Conv2d):
            layers[place] = fuse_conv_bn_eval(before, norm)
            norm.reset_parameters()
    return nn.Sequential(*layers)


def _margin(network: nn.Module, X: Tensor, y: Tensor) -> float:
    """The tenth percentile."""
    logits = network(X)
    own = logits.gather(1, y[:, None])[:, 0]
    return float((own - logits.scatter(1, y[:, None], -math.inf).amax(1)).kthvalue(len(y) // 10).values)


def _norms(weights: list[Tensor], moved: list[Tensor], margin: float) -> dict[str, float]:
    """Spectral and Frobenius families, with the norm of the reshaped kernel and by Fourier transform."""
    found: dict[str, float] = {}
    frobenius, distances = ([float(w.square().sum()) for w in each] for each in (weights, moved))
    found["Frobenius sum"], found["Frobenius distance"] = sum(frobenius), sum(distances)
    norms = {"Frobenius": [math.sqrt(f) for f in frobenius]}
    for name, top in (("spectral", _by_kernel), ("Fourier", _by_frequencies)):
        norms[name] = [top(w) for w in weights]
        found[f"{name} distance"] = sum(top(w) ** 2 for w in moved)
    for name, each in norms.items():
        product = sum(2 * math.log(norm) for norm in each)
        over = product - 2 * math.log(margin)
        found[f"{name} product"], found[f"{name} product over margin"] = product, over
        found[f"{name} mean"] = math.log(len(each)) + product / len(each)
        found[f"{name} mean over margin"] = math.log(len(each)) + over / len(each)
        if name != "Frobenius":
            found[f"{name} ratio"] = sum(f / norm**2 for f, norm in zip(frobenius, each, strict=True))
            found[f"{name} start"] = over + math.log(sum(d / n**2 for d, n in zip(distances, each, strict=True)))
            found[f"{name} origin"] = over + math.log(found[f"{name} ratio"])
    return found


def _by_kernel(kernel: Tensor) -> float:
    return float(torch.linalg.svd(kernel.flatten(1)).S.max())


def _by_frequencies(kernel: Tensor) -> float:
    transform = np.fft.fft2(kernel.numpy().transpose(2, 3, 1, 0), GRID, axes=(0, 1))
    return float(np.linalg.svd(transform, compute_uv=False).max())


def _sigma(network: nn.Module, X: Tensor, y: Tensor, proportional: bool) -> float:
    """Noise at which the mean accuracy of 10 networks falls by 0.1, give or take 0.01, by bisection."""
    generator = torch.Generator().manual_seed(0)
    moved, whole = copy.deepcopy(network), _accuracy(network, X, y)
    low, high, sigma = 0.0, 2.0, 1.0
    for _ in range(STEPS):
        sigma, total = (low + high) / 2, 0.0
        for _ in range(DRAWS):
            with torch.no_grad():
                for p, w in zip(moved.parameters(), network.parameters(), strict=True):
                    noise = sigma * torch.randn(w.shape, generator=generator)
                    p.copy_(w + noise * (w.abs() if proportional else 1))
            total += _accuracy(moved, X, y)
        fall = abs(total / DRAWS - whole)
        if abs(fall - DROP) < TOLERANCE:
            break
        low, high = (low, sigma) if fall > DROP else (sigma, high)
    return sigma


def _accuracy(network: nn.Module, X: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float((network(X).argmax(1) == y).float().mean())
