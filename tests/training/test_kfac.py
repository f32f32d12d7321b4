"""K-FAC against the dense matrix that it factors: explicit Kronecker products, and moments example by example."""

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.training.kfac import KFAC
from truerisk.training.loop import DivergedError


def network(*sizes, bias=True, seed=0):
    torch.manual_seed(seed)
    layers = []
    for wide, narrow in itertools.pairwise(sizes):
        layers += [nn.Linear(wide, narrow, bias=bias), nn.Tanh()]
    return nn.Sequential(*layers[:-1]).double()


def batch(n=7, d=3, classes=4, seed=1):
    rng = np.random.default_rng(seed)
    return torch.tensor(rng.normal(size=(n, d))), torch.tensor(rng.integers(classes, size=n))


def factors_one_by_one(net, X, y):
    """A and G of each linear layer, example by example, with the given labels."""
    layers = [m for m in net if isinstance(m, nn.Linear)]
    sums = [[0.0, 0.0] for _ in layers]
    for x, label in zip(X, y, strict=True):
        hidden, inputs, outs = x, [], []
        for m in net:
            if isinstance(m, nn.Linear):
                inputs.append(hidden.detach())
            hidden = m(hidden)
            if isinstance(m, nn.Linear):
                hidden.retain_grad()
                outs.append(hidden)
        F.cross_entropy(hidden[None], label[None]).backward()
        for k, (a, out) in enumerate(zip(inputs, outs, strict=True)):
            a = np.append(a.numpy(), 1.0) if layers[k].bias is not None else a.numpy()
            sums[k][0] = sums[k][0] + np.outer(a, a) / len(X)
            sums[k][1] = sums[k][1] + np.outer(out.grad, out.grad) / len(X)
    net.zero_grad()
    return sums


def dense_step(net, X, y, lr, damping, pi, A, G):
    """(A damped (x) G damped)^-1 times the gradient of a layer, as one dense system."""
    if pi:
        ratio = np.sqrt((np.trace(A) / len(A)) / (np.trace(G) / len(G)))
        on_a, on_g = np.sqrt(damping) * ratio, np.sqrt(damping) / ratio
    else:
        on_a = on_g = damping
    dense = np.kron(A + on_a * np.eye(len(A)), G + on_g * np.eye(len(G)))
    return lambda joint: -lr * np.linalg.solve(dense, joint.flatten("F")).reshape(joint.shape, order="F")


@pytest.mark.parametrize("pi", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_step_against_the_dense_inverse(pi, bias):
    net, (X, y) = network(3, 5, 4, bias=bias), batch()
    expected = factors_one_by_one(net, X, y)
    optimizer = KFAC(net, lr=0.3, damping=0.02, pi=pi)
    optimizer.observe(X, y)
    F.cross_entropy(net(X), y).backward()
    layers = [m for m in net if isinstance(m, nn.Linear)]
    wanted = []
    for layer, (A, G), (found_a, found_g) in zip(layers, expected, optimizer.factors, strict=True):
        assert found_a.numpy() == pytest.approx(A, abs=1e-12)
        assert found_g.numpy() == pytest.approx(G, abs=1e-12)
        parts = [p.grad.reshape(len(p), -1).numpy() for p in layer.parameters()]
        before = np.hstack([p.detach().reshape(len(p), -1).numpy() for p in layer.parameters()])
        wanted.append(before + dense_step(net, X, y, 0.3, 0.02, pi, A, G)(np.hstack(parts)))
    optimizer.step()
    for layer, after in zip(layers, wanted, strict=True):
        found = np.hstack([p.detach().reshape(len(p), -1).numpy() for p in layer.parameters()])
        assert found == pytest.approx(after, abs=1e-10)


def test_the_factorization_is_exact_for_one_example():
    """With one example, E[a a^T (x) g g^T] is the product of the factors; with two it is not."""
    net = network(3, 4)
    for n, exact in ((1, True), (2, False)):
        X, y = batch(n)
        optimizer = KFAC(net, lr=0.1)
        optimizer.observe(X, y)
        A, G = (M.numpy() for M in optimizer.factors[0])
        fisher = 0.0
        for x, label in zip(X, y, strict=True):
            net.zero_grad()
            F.cross_entropy(net(x)[None], label[None]).backward()
            slope = np.hstack([net[0].weight.grad.numpy(), net[0].bias.grad.numpy()[:, None]]).flatten("F")
            fisher = fisher + np.outer(slope, slope) / n
        assert (np.abs(np.kron(A, G) - fisher).max() < 1e-14) == exact


def test_the_factorization_is_exact_where_inputs_and_slopes_are_independent():
    """A softmax layer with weights 0 predicts all classes equally often, whatever the input is, so g ignores a.

    With labels drawn from the model, E[a a^T (x) g g^T] = A (x) G. Tolerance: six standard errors of 40,000 draws.
    """
    net = nn.Sequential(nn.Linear(2, 3)).double()
    nn.init.zeros_(net[0].weight)
    nn.init.zeros_(net[0].bias)
    torch.manual_seed(5)
    X = torch.randn(40_000, 2).double() @ torch.tensor([[1.0, 0.0], [0.8, 0.3]]).double()
    optimizer = KFAC(net, lr=0.1, seed=3)
    optimizer.observe(X)
    A, G = (M.numpy() for M in optimizer.factors[0])
    a = np.hstack([X.numpy(), np.ones((len(X), 1))])
    slopes = np.eye(3) / 3 - np.ones((3, 3)) / 9  # E[g g^T] = diag(p) - p p^T
    assert pytest.approx(slopes, abs=6 * 0.5 / 200) == G
    assert a.T @ a / len(a) == pytest.approx(A, abs=1e-10)


def test_labels_come_from_the_model():
    """Confident predictions have small slopes under their own labels, large ones under wrong labels."""
    net, (X, _) = network(3, 4), batch(50)
    with torch.no_grad():
        net[0].weight.mul_(30)
    wrong = net(X).argmin(1)
    own, empirical = KFAC(net, lr=0.1), KFAC(net, lr=0.1)
    own.observe(X)
    empirical.observe(X, wrong)
    assert float(own.factors[0][1].trace()) < 0.2 * float(empirical.factors[0][1].trace())
    again = KFAC(net, lr=0.1)
    again.observe(X)
    assert torch.equal(own.factors[0][1], again.factors[0][1])


def test_averages_over_batches():
    """The first batches are averaged evenly, later ones with the decay."""
    net, optimizer = network(3, 4), None
    optimizer = KFAC(net, lr=0.1, decay=0.6)
    wanted = 0.0
    for k in range(1, 6):
        X, y = batch(seed=k)
        A = factors_one_by_one(net, X, y)[0][0]
        kept = min(1 - 1 / k, 0.6)
        wanted = kept * wanted + (1 - kept) * A
        optimizer.observe(X, y)
        assert optimizer.factors[0][0].numpy() == pytest.approx(wanted)


def test_inverses_are_kept_between_updates_and_momentum_adds_up():
    net, (X, y) = network(3, 4), batch()
    optimizer = KFAC(net, lr=0.1, every=3, momentum=0.5)
    kept, moves = [], []
    for _ in range(4):
        optimizer.observe(X, y)
        optimizer.zero_grad()
        F.cross_entropy(net(X), y).backward()
        before = net[0].weight.detach().clone()
        optimizer.step()
        left, right = optimizer.inverses[0]
        joint = torch.cat([net[0].weight.grad, net[0].bias.grad[:, None]], dim=1)
        moves.append((left @ joint @ right)[:, :3])
        kept.append(optimizer.inverses[0][0])
        expected = sum(0.5 ** (len(moves) - 1 - k) * move for k, move in enumerate(moves))
        assert torch.allclose(before - net[0].weight, 0.1 * expected)
    assert kept[0] is kept[1] is kept[2] is not kept[3]


def test_clipping_bounds_the_change_of_predictions():
    net, (X, y) = network(3, 4), batch()
    free, short = KFAC(net, lr=0.5), KFAC(net, lr=0.5, clip=1e-4)
    before = [p.detach().clone() for p in net.parameters()]
    moves = []
    for optimizer in (free, short):
        with torch.no_grad():
            for p, old in zip(net.parameters(), before, strict=True):
                p.copy_(old)
        optimizer.observe(X, y)
        optimizer.zero_grad()
        F.cross_entropy(net(X), y).backward()
        optimizer.step()
        moves.append([p.detach() - old for p, old in zip(net.parameters(), before, strict=True)])
    slopes = [p.grad for p in net.parameters()]
    size = [-0.5 * sum(float((g * m).sum()) for g, m in zip(slopes, move, strict=True)) for move in moves]
    assert size[0] > 1e-4
    ratio = (1e-4 / size[0]) ** 0.5
    assert all(torch.allclose(b, a * ratio) for a, b in zip(*moves, strict=True))


def test_other_layers_get_plain_sgd_with_a_note(capsys, monkeypatch):
    monkeypatch.setattr("truerisk.progress._enabled", True)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(1, 2, 3), nn.Flatten(), nn.Linear(4, 2))
    optimizer = KFAC(net, lr=0.5)
    assert "2 other tensors get plain SGD" in capsys.readouterr().err
    X, y = torch.randn(5, 1, 4), torch.tensor([0, 1, 0, 1, 1])
    optimizer.observe(X)
    F.cross_entropy(net(X), y).backward()
    before, slope = net[0].weight.detach().clone(), net[0].weight.grad.clone()
    optimizer.step()
    assert torch.allclose(net[0].weight, before - 0.5 * slope)


def test_layers_that_work_in_place():
    X, y = torch.randn(30, 6), torch.arange(30) % 3
    found = []
    for inplace in (False, True):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace), nn.Linear(5, 4), nn.ReLU(inplace), nn.Linear(4, 3))
        optimizer = KFAC(net, lr=0.1)
        optimizer.observe(X, y)
        found.append([M for pair in optimizer.factors for M in pair])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_shared_parameters_and_outputs_that_are_not_finite_are_refused():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    net[2].weight = net[0].weight
    with pytest.raises(TrueriskError, match="share no parameter"):
        KFAC(net, lr=0.1)
    net = nn.Linear(2, 2)
    with pytest.raises(DivergedError, match="outputs that are not finite"):
        KFAC(net, lr=0.1).observe(torch.full((3, 2), torch.inf))


def test_what_is_refused():
    with pytest.raises(TrueriskError, match="linear layer"):
        KFAC(nn.Sequential(nn.Conv1d(1, 2, 3)), lr=0.1)
    net = network(3, 4)
    with pytest.raises(TrueriskError, match="call observe"):
        KFAC(net, lr=0.1).step()
    for wrong in ({"lr": 0.0}, {"damping": -1.0}, {"decay": 1.0}, {"momentum": 1.0}, {"every": 0}, {"clip": 0.0}):
        with pytest.raises(TrueriskError, match="must be"):
            KFAC(net, **{"lr": 0.1, **wrong})

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(self.layer(x))

    with pytest.raises(TrueriskError, match="run once"):
        KFAC(Twice(), lr=0.1).observe(torch.zeros(2, 3))
