"""What to do with batch norm before a PAC-Bayes bound: ``python -m benchmarks.batch_norm`` prints a table.

Small convolutional networks with batch norm are trained on MNIST-1D, generated anew for each seed. Then the same
function is written in four ways, and each becomes the mean of a Gaussian posterior:

* held: as it is. Posterior and prior share the running statistics, which were computed from the rows that certify, so
  this number is no bound. It is shown for comparison.
* folded: ``fold_batch_norm(net)``, each norm merged into the layer before it.
* affine: ``fold_batch_norm(net, affine=True)``, the statistics merged into the norm's own gain and shift.
* balanced: the last two after ``canonical(net, sym, "balanced")``: the same function where the sum of squares is least.

One standard deviation for all weights of the posterior, from a grid (a posterior may depend on the data); the prior is
around 0, its standard deviation 2^(j/2) from 25 values fixed beforehand (delta is split over them), and ``tighten``
finds the best rescaling. Printed are the best PAC-Bayes-kl bound over the grid, with its KL, error rate, and standard
deviation, and the bound at one standard deviation that is common to all.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from truerisk import Gaussian, find_symmetry, fold_batch_norm, tighten
from truerisk.bounds import pac_bayes_kl
from truerisk.data.mnist1d import generate_mnist1d
from truerisk.pacbayes import gibbs_risk, plan_draws, rescale_and_tune, tuned_scale
from truerisk.progress import silent
from truerisk.symmetry import Symmetry, canonical
from truerisk.training import Plan, fit

EXAMPLES, EPOCHS, DELTA = 10_000, 15, 0.05
SEEDS = (100, 101, 102)  # far from those of the data set that certificates use
STDS = tuple(2.0 ** (j / 2) for j in range(-14, -1))
COMMON = 2.0**-5
REACH = 12  # the prior's standard deviations are 2^(j/2), j = -12, ..., 12
WAYS = ("held", "folded", "affine", "folded, balanced", "affine, balanced")


def _conv(inner: int, out: int, stride: int) -> list[nn.Module]:
    return [nn.Conv1d(inner, out, 3, stride, 1, bias=False), nn.BatchNorm1d(out), nn.ReLU()]


def chain(norms: int) -> nn.Module:
    """Convolutions of 12 channels, the first ``norms`` of three with batch norm."""
    layers = [nn.Unflatten(1, (1, 40))]
    for number, inner in enumerate((1, 12, 12)):
        block = _conv(inner, 12, 2)
        layers += block if number < norms else [nn.Conv1d(inner, 12, 3, 2, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(60, 10))


class Residual(nn.Module):
    """A stem and two residual blocks of 12 channels, batch norm behind each convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Unflatten(1, (1, 40)), *_conv(1, 12, 2))
        self.blocks = nn.ModuleList(nn.Sequential(*_conv(12, 12, 1), *_conv(12, 12, 1)[:2]) for _ in range(2))
        self.head = nn.Sequential(nn.MaxPool1d(4), nn.Flatten(), nn.Linear(60, 10))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = torch.relu(x + block(x))
        return self.head(x)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "1 norm": lambda: chain(1), "2 norms": lambda: chain(2), "3 norms": lambda: chain(3), "residual, 5 norms": Residual,
}  # fmt: skip


def written(net: nn.Module, way: str) -> tuple[nn.Module, Symmetry]:
    """The same function, written in one of the ways."""
    x = torch.zeros(1, 40)
    net = net if way == "held" else fold_batch_norm(net, x, affine=way.startswith("affine"))
    symmetry = find_symmetry(net, x, check=False)
    if "balanced" in way:
        net = symmetry.rescale(net, canonical(net, symmetry, "balanced"))
    return net, symmetry


def bound(net: nn.Module, symmetry: Symmetry, std: float, X: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """(PAC-Bayes-kl bound, KL, error rate) of the posterior around ``net``, with the best prior of the grid."""
    q, p = Gaussian.around(net, std), Gaussian.zero(net, 1.0)
    together = rescale_and_tune(q, p, symmetry, tighten(q, p, symmetry).log_scales)
    exact = 2 * math.log2(tuned_scale(q, symmetry.rescale(p, together))[0])
    nearest = {min(REACH, max(-REACH, round_(exact))) for round_ in (math.floor, math.ceil)}
    kl = min(tighten(q, Gaussian.zero(net, 2.0 ** (j / 2)), symmetry).kl_after for j in nearest)
    risk = gibbs_risk(q, X, y, 0, plan_draws(q, X, draws=len(X)))
    share = 0.8 * DELTA / (2 * REACH + 1)
    return pac_bayes_kl(risk.upper(0.2 * DELTA), kl, len(X), share), kl, risk.risk


def compare(build: Callable[[], nn.Module], seed: int) -> Iterator[tuple[str, dict[float, tuple[float, float, float]]]]:
    """Train one network, then for each way its bounds by standard deviation."""
    data = generate_mnist1d(EXAMPLES, seed)
    torch.manual_seed(seed)
    net = build()
    fit(net, data, Plan(epochs=EPOCHS, batch_size=100, lr=0.005, seed=seed))
    for way in WAYS:
        network, symmetry = written(net, way)
        yield way, {std: bound(network, symmetry, std, data.X, data.y) for std in STDS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), help="some of the networks")
    print(f"| network | written | bound, seeds {SEEDS} | KL | error rate | std | bound at std {COMMON} |")
    print("|---|---|---|---|---|---|---|")
    for name in parser.parse_args().networks:
        found: dict[str, list[tuple[float, tuple[float, float, float], float]]] = {way: [] for way in WAYS}
        for seed in SEEDS:
            with silent():
                for way, by_std in compare(NETWORKS[name], seed):
                    best = min(by_std, key=lambda std: by_std[std][0])
                    found[way].append((best, by_std[best], by_std[COMMON][0]))
        for way, rows in found.items():
            bounds = ", ".join(f"{row[1][0]:.4f}" for row in rows)
            kl, error, std, common = np.mean([(r[1][1], r[1][2], r[0], r[2]) for r in rows], axis=0)
            print(f"| {name} | {way} | {bounds} | {kl:,.0f} | {error:.4f} | {std:.3f} | {common:.4f} |", flush=True)


if __name__ == "__main__":
    main()
