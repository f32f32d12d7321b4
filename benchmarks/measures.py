"""The whole table of measures: against each measure alone, and against the published way of computing them.

The opponent of the second row is the protocol of Dziugaite et al. 2020 (robust-generalization-measures), written down
plainly: noise whose size is found by bisection in 15 steps, each with 10 networks tried on all examples, once for plain
noise and once for noise in proportion to the weights; margins, norms and path norms by one pass or decomposition each.
The network is theirs with fewer channels (a network in network of two blocks), the images are digits, enlarged.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.timing import Row, seconds
from truerisk.data import Data, load
from truerisk.measures import MEASURES, Measures, Subject
from truerisk.measures.table import measure_subject
from truerisk.seeds import seeded_globals
from truerisk.training import Plan, fit

CHANNELS, IMAGES = 64, 512
STEPS, DRAWS, DROP = 15, 10, 0.1  # of the published bisection


def rows() -> list[Row]:
    network, init, data = zoo_network()

    def together() -> Measures:
        return measure_subject(Subject(network, data, init), only=NAMES)

    def alone() -> None:
        for name in NAMES:
            measure_subject(Subject(network, data, init), only=[name])

    sizes: dict[str, int] = {}
    ours = seconds(lambda: sizes.update(ours=len(together().values)))
    theirs = seconds(lambda: sizes.update(theirs=len(protocol(network, init, data))))
    each = seconds(alone)
    count, published = sizes["ours"], sizes["theirs"]
    return [
        Row(
            "all measures of a convnet",
            "each measure alone",
            ours,
            each,
            f"{count} measures, {IMAGES} images; passes, gradients and decompositions are shared",
        ),
        Row(
            "all measures of a convnet",
            "the published protocol, written down plainly",
            ours,
            theirs,
            f"ours {count} measures, theirs {published}; theirs tries {2 * STEPS * DRAWS} networks on all images",
        ),
    ]


NAMES = [name for name, entry in MEASURES.items() if entry.cost != "training" and "record" not in entry.needs]


def network_in_network(channels: int) -> nn.Sequential:
    def block(fan_in: int) -> list[nn.Module]:
        layers: list[nn.Module] = []
        for entering, kernel, stride in ((fan_in, 3, 2), (channels, 1, 1), (channels, 1, 1)):
            convolution = nn.Conv2d(entering, channels, kernel, stride, kernel // 2)
            layers += [convolution, nn.BatchNorm2d(channels), nn.ReLU()]
        return layers

    return nn.Sequential(*block(3), *block(channels), nn.Conv2d(channels, 10, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def zoo_network() -> tuple[nn.Module, nn.Module, Data]:
    """A trained network, the same at its start, and its images."""
    digits = load("digits")
    images = np.repeat(np.kron(digits.X[:IMAGES], np.ones((1, 1, 4, 4))), 3, axis=1)
    data = Data("enlarged digits", images, digits.y[:IMAGES], 10)
    with seeded_globals(0):
        init = network_in_network(CHANNELS)
    with seeded_globals(0):
        network = network_in_network(CHANNELS)
    fit(network, data, Plan(epochs=20, batch_size=32, lr=1e-2))
    return network, init, data


# ---- the opponent --------------------------------------------------------------------------------------------------


def protocol(network: nn.Module, init: nn.Module, data: Data) -> dict[str, float]:
    """The published measures, one after the other, with the published numbers of steps and draws.

    Known mistakes of the published code are not repeated (a variance taken for a standard deviation, margins without
    their sign), nor are its constants: what is timed is the work.
    """
    X, y = torch.from_numpy(data.X), torch.from_numpy(data.y)
    weights = [p.detach() for p in network.parameters() if p.ndim > 1]
    before = [p.detach() for p in init.parameters() if p.ndim > 1]
    found = {"parameters": float(sum(p.numel() for p in network.parameters()))}
    with torch.no_grad():
        logits = torch.cat([network(X[i : i + 64]) for i in range(0, len(X), 64)])
        own = logits.gather(1, y[:, None])[:, 0]
        margin = float((own - logits.scatter(1, y[:, None], -math.inf).amax(1)).kthvalue(len(y) // 10).values)
        found["inverse margin"] = 1 / margin**2
        found |= _norms(weights, before, margin)
        squared = [p.clone() for p in network.parameters()]
        for p in network.parameters():
            p.square_()
        found["path norm"] = float(network(torch.ones_like(X[:1])).sum().abs())
        for p, old in zip(network.parameters(), squared, strict=True):
            p.copy_(old)
        found["path norm over margin"] = found["path norm"] / margin**2
    for proportional in (False, True):
        sigma = _sigma(network, X, y, proportional)
        kind = " in proportion" if proportional else ""
        distance = float(sum((w - b).square().sum() for w, b in zip(weights, before, strict=True)))
        norm = float(sum(w.square().sum() for w in weights))
        found[f"flatness{kind}"] = 1 / sigma**2
        found[f"PAC-Bayes, start{kind}"] = distance / (4 * sigma**2) + math.log(len(y) / sigma)
        found[f"PAC-Bayes, origin{kind}"] = norm / (4 * sigma**2) + math.log(len(y) / sigma)
    return found


def _norms(weights: list[Tensor], before: list[Tensor], margin: float) -> dict[str, float]:
    """Spectral and Frobenius families, with the norm of the reshaped kernel and by Fourier transform."""
    found: dict[str, float] = {}
    flat = [w.flatten(1) for w in weights]
    moved = [w.flatten(1) - b.flatten(1) for w, b in zip(weights, before, strict=True)]
    frobenius = [float(w.square().sum()) for w in flat]
    distances = [float(w.square().sum()) for w in moved]
    fourier = [float(torch.linalg.svdvals(torch.fft.fft2(w, s=(16, 16)).permute(2, 3, 0, 1)).max()) for w in weights]
    spectral = [float(torch.linalg.svdvals(w).max()) for w in flat]
    found["distance, spectral"] = sum(float(torch.linalg.svdvals(w).max()) ** 2 for w in moved)
    found["distance"] = sum(distances)
    found["Frobenius sum"] = sum(frobenius)
    for name, norms in (("spectral", spectral), ("Fourier", fourier), ("Frobenius", [math.sqrt(f) for f in frobenius])):
        product = sum(2 * math.log(norm) for norm in norms)
        found[f"{name} product"] = product
        found[f"{name} product over margin"] = product - 2 * math.log(margin)
        found[f"{name} mean"] = len(norms) * math.exp(product / len(norms))
        found[f"{name} mean over margin"] = len(norms) * math.exp((product - 2 * math.log(margin)) / len(norms))
        found[f"{name} ratio"] = sum(f / norm**2 for f, norm in zip(frobenius, norms, strict=True))
        found[f"{name} start"] = product + math.log(sum(d / norm**2 for d, norm in zip(distances, norms, strict=True)))
        found[f"{name} origin"] = product + math.log(found[f"{name} ratio"])
    return found


def _sigma(network: nn.Module, X: Tensor, y: Tensor, proportional: bool) -> float:
    """The largest noise at which the mean accuracy of 10 networks falls by no more than 0.1, by bisection."""
    generator = torch.Generator().manual_seed(0)
    kept = [p.detach().clone() for p in network.parameters()]
    whole = _accuracy(network, X, y)
    low, high = 0.0, 2.0
    for _ in range(STEPS):
        sigma = (low + high) / 2
        total = 0.0
        for _ in range(DRAWS):
            with torch.no_grad():
                for p, old in zip(network.parameters(), kept, strict=True):
                    noise = sigma * torch.randn(p.shape, generator=generator)
                    p.copy_(old + noise * (old.abs() if proportional else 1))
            total += _accuracy(network, X, y)
        low, high = (sigma, high) if total / DRAWS >= whole - DROP else (low, sigma)
    with torch.no_grad():
        for p, old in zip(network.parameters(), kept, strict=True):
            p.copy_(old)
    return max(low, 1e-6)


def _accuracy(network: nn.Module, X: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        right = sum(int((network(X[i : i + 64]).argmax(1) == y[i : i + 64]).sum()) for i in range(0, len(X), 64))
    return right / len(X)
