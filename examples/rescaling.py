"""Walk along the orbit of a network: the function stays, the KL does not.

What one learns:

* ``find_symmetry`` finds what can be rescaled: multiply the weights that enter a hidden unit by a positive number,
  divide those that leave it by the same, and the outputs stay what they were.
* The KL divergence between posterior and prior does change on the way. ``tighten`` finds where it is smallest.
* ``kl_chain`` prints that number between its neighbors: the original KL above, and below the KL that no rescaling can
  beat, KL(lift Q, lift P). This is the chain of Rouchouse, Gonon, Gribonval and Guedj, "Non-vacuous generalization
  bounds: can rescaling invariances help?" (arXiv 2509.26149). Next to it are the KLs with the prior scale tuned.

Nothing is certified here. The posterior is a trained network with the same small noise on all weights, and the
prior is a standard normal; a certificate trains its posterior to stay close to its prior.

Run it with ``python examples/rescaling.py [PAGE]`` (default: ``truerisk-out/orbit.html``); it takes about fifteen
seconds on one core, most of them for draws.
"""

import math
import sys
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from truerisk import Gaussian, find_symmetry, tighten
from truerisk.data import Data, load
from truerisk.pacbayes import gibbs_risk, kl_chain
from truerisk.report import Step, write_orbit
from truerisk.symmetry import Symmetry
from truerisk.words import at_most, nats

POSTERIOR, PRIOR = 0.05, 1.0  # standard deviations
DRAWS = 1000
PLACES = torch.linspace(-1.5, 1.5, 61, dtype=torch.float64)  # in steps from the optimum; -1 is where the walk starts


def train(data: Data) -> nn.Module:
    """One hidden layer and a plain training loop: nothing of truerisk in it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    X, y = torch.from_numpy(data.X), torch.from_numpy(data.y)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(40):
        for batch in torch.randperm(len(X)).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(X[batch]), y[batch]).backward()
            optimizer.step()
    return model.double().eval()


@torch.no_grad()
def walk(q: Gaussian, p: Gaussian, symmetry: Symmetry, X: Tensor, optimum: Tensor, step: Tensor) -> Iterator[Step]:
    """KL and outputs along a line through the optimum. To move the prior by t is to move the network by -t."""
    name = "from the trained weights through the optimum" if step is optimum else "through the optimum at random"
    model = q.network()
    before = model(X)
    for place in PLACES.tolist():
        t = optimum + place * step
        kl = q.kl(symmetry.rescale(p, t))
        assert math.isclose(kl, symmetry.rescale(q, -t).kl(p), rel_tol=1e-9)
        after = symmetry.rescale(model, -t)(X)
        yield Step(name, place, kl, float((after - before).abs().max() / before.abs().max()))


def main(page: str) -> None:
    digits = load("digits")
    model, X = train(digits), torch.from_numpy(digits.X).double()
    q, p = Gaussian.around(model, POSTERIOR), Gaussian.zero(model, PRIOR)
    symmetry = find_symmetry(model, X[:1])
    print(symmetry)
    risk = gibbs_risk(q, digits.X, digits.y, seed=0).risk
    print(f"\nThe posterior's networks are wrong on {100 * risk:.1f} % of the {len(X):,} training examples.\n")

    best = tighten(q, p, symmetry)
    chain = kl_chain(q, p, symmetry, draws=DRAWS)
    print(f"{best}\n\n{chain}")

    there, aside = best.log_scales, symmetry.random(seed=0)
    aside *= there.norm() / aside.norm()
    steps = [step for line in (there, aside) for step in walk(q, p, symmetry, X, there, line)]
    kls, changes = [step.kl for step in steps], [step.change for step in steps]
    print(f"\nOn the way the KL was between {nats(min(kls), down=True)} and {nats(max(kls))} nats, and no output")
    print(f"changed by more than {at_most(max(changes), 2)} times the largest one.")

    facts = {
        "Network": f"64-32-10, one hidden layer with ReLU: {q.size:,} weights, {symmetry.dim} free log-scales",
        "Data": f"{digits.name}, all {len(X):,} examples",
        "Posterior": f"around the trained network, standard deviation {POSTERIOR:g}; its networks are wrong on "
        f"{100 * risk:.1f} % of the examples",
        "Prior": f"around 0, standard deviation {PRIOR:g}",
        "Best log-scales": f"from {there.min():.2f} to {there.max():.2f}: the prior of what enters a unit is "
        f"multiplied by {there.min().exp():.2f} to {there.max().exp():.2f}, the prior of what leaves it divided by it",
    }
    print(f"\nLook at {write_orbit(page, steps, chain, facts, command='python examples/rescaling.py')}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "truerisk-out/orbit.html")
