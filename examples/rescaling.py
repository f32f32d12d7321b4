"""From a network trained in plain PyTorch to "vacuous before, informative after".

This is the worked example of docs/symmetry.rst: KL, best rescaling, twin, chain, bound, and a page with figures, in the
order of Rouchouse, Gonon, Gribonval and Guedj, "Non-vacuous generalization bounds: can rescaling invariances help?"
(arXiv 2509.26149).

Run it with ``python examples/rescaling.py [DATA] [PAGE]``. DATA is ``mnist`` by default (a minute on one core;
``truerisk data get mnist`` says where it is); ``digits`` needs no download. PAGE is ``truerisk-out/orbit.html`` by
default.
"""

import sys

import torch
from torch import nn

from truerisk import Gaussian, find_symmetry, rescaling_report, tighten
from truerisk.data import Data, load
from truerisk.pacbayes import kl_chain, walk
from truerisk.report import write_orbit
from truerisk.words import at_most, nats

SIGMA_Q, SIGMA_P = 1 / 44, 1.0  # standard deviations of the posterior and of the prior
DRAWS = 100  # sampled networks for the lifted KL


def train(data: Data) -> nn.Module:
    """Two hidden layers and a plain training loop: nothing of truerisk in it."""
    torch.manual_seed(0)
    inputs = data.X[0].size
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, data.classes)
    )
    X, y = torch.from_numpy(data.X), torch.from_numpy(data.y)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        for batch in torch.randperm(len(X)).split(128):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(X[batch]), y[batch]).backward()
            optimizer.step()
    return model.eval()


def main(name: str, page: str) -> None:
    torch.set_num_threads(1)  # sums over several threads round differently: the same digits everywhere need one
    data = load(name)
    model = train(data)

    # KL: posterior N(w, sigma_q^2) around the trained weights w, prior N(0, sigma_p^2)
    q, p = Gaussian.around(model, SIGMA_Q), Gaussian.zero(model, SIGMA_P)
    print(f"KL(Q, P) = {nats(q.kl(p))} nats, {q.size:,} weights, {len(data.X):,} examples")

    # A twin: other weights, the same function. Q is carried along; the prior is not.
    sym = find_symmetry(model, torch.from_numpy(data.blank))
    t = sym.random(std=1.0, seed=0)
    twin, moved = sym.rescale(model, t), sym.rescale(q, t)
    X = torch.from_numpy(data.X[:1000])
    change = (twin(X) - model(X)).abs().max() / model(X).abs().max()
    print(f"twin: outputs differ by {at_most(float(change.detach()), 2)} of the largest, KL {nats(moved.kl(p))}")

    # The best rescaling: one KL for all twins
    best, again = tighten(q, p, sym), tighten(moved, p, sym)
    print(f"{best}")
    print(f"tightened KL of the twin: {nats(again.kl_after)}")
    other = tighten(Gaussian.around(twin, SIGMA_Q), p, sym)  # not Q carried along, but another posterior
    print(f"tightened KL of new noise around the twin: {nats(other.kl_after)}")

    # The chain: KL(lift Q, lift P) <= rescaled <= original
    chain = kl_chain(q, p, sym, draws=DRAWS)
    print(f"\n{chain}\n")

    # The bound
    report = rescaling_report(model, data, SIGMA_Q, SIGMA_P, form="mcallester", name="64-32", lifted=0)
    print(f"{report}\n\n{report.moved}\n")

    facts = {
        "Network": f"{q.size:,} weights, {sym.dim} free log-scales",
        "Data": f"{data.name}, {len(data.X):,} examples",
    }
    facts |= {"Posterior": f"around the trained weights, standard deviation {SIGMA_Q:.4g}"}
    facts |= {"Prior": f"around 0, standard deviation {SIGMA_P:g}"}
    steps = walk(q, p, sym, best.log_scales, X)
    print(f"Report: {write_orbit(page, steps, chain, facts, command=f'python examples/rescaling.py {name}')}")


if __name__ == "__main__":
    defaults = ["mnist", "truerisk-out/orbit.html"]
    main(*[*sys.argv[1:3], *defaults[len(sys.argv[1:3]) :]])
