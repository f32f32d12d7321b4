"""Winsorized SGD and medians of means against loops over examples and weights; memory; refusals."""

from __future__ import annotations

import copy
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from truerisk.errors import TrueriskError
from truerisk.training import MedianOfMeansSGD, WinsorizedSGD
from truerisk.training.loop import DivergedError
from truerisk.training.winsorized import winsorized_mean


class Twice(nn.Module):
    """One linear layer in use twice: its gradient is a sum of two products."""

    def __init__(self):
        super().__init__()
        self.same, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(torch.relu(self.same(torch.relu(self.same(x)))))


class Aside(nn.Module):
    """Uses the weight of a linear layer without calling the layer, too."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(torch.relu(F.linear(self.first(x), self.first.weight)))


def tied():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    net[2].weight = net[0].weight
    return net


NETS = {
    "mlp": lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)),
    "in place": lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(inplace=True), nn.Linear(5, 3, bias=False)),
    "convolutions": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)),
        nn.Conv2d(1, 3, 2, padding=1),
        nn.GroupNorm(1, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(27, 3),
    ),
    "norm in eval mode": lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5).eval(), nn.ReLU(), nn.Linear(5, 3)),
    "linear on tokens": lambda: nn.Sequential(nn.Unflatten(1, (2, 2)), nn.Linear(2, 3), nn.Flatten(), nn.Linear(6, 3)),
    "twice": Twice,
    "aside": Aside,
    "tied": tied,
}


@pytest.fixture(params=NETS)
def net(request):
    torch.manual_seed(1)
    return NETS[request.param]().double()


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(2)
    return torch.randn(11, 4, dtype=torch.float64, generator=generator), torch.randint(3, (11,), generator=generator)


def gradients_of(net, x, y, loss):
    """Reference: one backward pass for each example."""
    found = []
    for one, target in zip(x, y, strict=True):
        net.zero_grad()
        loss(net(one[None]), target[None]).sum().backward()
        found.append({name: p.grad.clone() for name, p in net.named_parameters()})
    net.zero_grad(set_to_none=True)
    return found


def winsorized_by_loop(values, c):
    """Reference: sorted, clipped, and averaged in plain Python."""
    low, high = sorted(values)[c], sorted(values)[len(values) - c - 1]
    return sum(min(max(value, low), high) for value in values) / len(values)


def stepped_by_loop(net, x, y, lr, mean, loss=F.cross_entropy):
    each = gradients_of(net, x, y, loss)
    after = {}
    for name, p in net.named_parameters():
        columns = torch.stack([one[name].flatten() for one in each]).T.tolist()
        step = torch.tensor([mean(column) for column in columns], dtype=p.dtype).view_as(p)
        after[name] = p.detach() - lr * step
    return after


def apart(net, wanted):
    return max(float((p.detach() - wanted[name].detach()).abs().max()) for name, p in net.named_parameters())


@pytest.mark.parametrize("c", [1, 3, 5])
@pytest.mark.parametrize("memory", [2**26, 2000])  # all at once, and in slices
def test_a_step_is_that_of_the_loop(net, batch, c, memory):
    wanted = stepped_by_loop(net, *batch, 0.3, lambda column: winsorized_by_loop(column, c))
    loss = WinsorizedSGD(net, lr=0.3, c=c, memory=memory).step(*batch)
    assert apart(net, wanted) < 1e-14
    assert loss > 0


def test_integers_are_exact():
    """Per-example gradients are integers and batches a power of two, so no rounding hides a wrong order statistic."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-9, 10, (16, 6), generator=generator).float()
    y = torch.randint(-9, 10, (16, 2), generator=generator).float()

    def loss(outputs, targets):
        return (outputs * targets).sum(1)

    for c in (0, 1, 2, 7):
        net = nn.Linear(6, 2)
        nn.init.zeros_(net.weight), nn.init.zeros_(net.bias)
        wanted = stepped_by_loop(net, x, y, 1.0, lambda column, c=c: winsorized_by_loop(column, c), loss)
        WinsorizedSGD(net, lr=1.0, c=c, loss=loss).step(x, y)
        assert torch.equal(net.weight, wanted["weight"])
        assert torch.equal(net.bias, wanted["bias"])


def test_without_clipping_it_is_plain_sgd(net, batch):
    plain, own = copy.deepcopy(net), WinsorizedSGD(net, lr=0.2, c=0, momentum=0.9, weight_decay=0.01)
    sgd = torch.optim.SGD(plain.parameters(), lr=0.2, momentum=0.9, weight_decay=0.01)
    for _ in range(5):
        sgd.zero_grad()
        loss = F.cross_entropy(plain(batch[0]), batch[1])
        loss.backward()
        sgd.step()
        assert own.step(*batch) == pytest.approx(float(loss.detach()), abs=1e-12)
    assert apart(net, dict(plain.named_parameters())) < 1e-6


def test_one_wild_example_moves_no_weight_far():
    net = nn.Linear(3, 2, bias=False)
    x, y = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), torch.arange(50) % 2
    wild = x.clone()
    wild[0] *= 1e4
    y[0] = 1 - net(wild[:1]).argmax()  # a large loss
    moved = []
    for c in (0, 1):
        for inputs in (x, wild):
            own = copy.deepcopy(net)
            WinsorizedSGD(own, lr=1.0, c=c).step(inputs, y)
            moved.append((own.weight - net.weight).detach())
    assert (moved[1] - moved[0]).abs().max() > 10
    assert (moved[3] - moved[2]).abs().max() < 0.1


def test_the_median_is_the_largest_c():
    values = torch.tensor([[5.0, -100.0, 2.0, 1.0, 900.0]])
    assert float(winsorized_mean(values.clone(), 2)) == 2.0
    torch.manual_seed(0)
    many = torch.randn(7, 9, dtype=torch.float64)
    wanted = [winsorized_by_loop(row, 3) for row in many.tolist()]
    assert winsorized_mean(many.clone(), 3).tolist() == pytest.approx(wanted, abs=1e-15)
    assert winsorized_mean(many.T.clone().T, 3).tolist() == pytest.approx(wanted, abs=1e-15)  # not contiguous
    assert winsorized_mean(many.bfloat16(), 3).dtype == torch.bfloat16  # numpy has no such numbers


# ---- memory --------------------------------------------------------------------------------------------------------


class Spy(TorchDispatchMode):
    """The most bytes of tensors that were alive at once, of those made inside the block."""

    def __init__(self):
        super().__init__()
        self.now = self.most = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for made in tree_leaves(out):
            if isinstance(made, torch.Tensor):
                self._watch(made.untyped_storage())
        return out

    def _watch(self, storage):
        key, size = storage._cdata, storage.nbytes()
        if key not in self.known:
            self.known.add(key)
            self.now += size
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._gone, key, size)

    def _gone(self, key, size):
        self.known.discard(key)
        self.now -= size


def most_bytes(net, x, y, **how):
    optimizer = WinsorizedSGD(net, lr=0.1, **how)
    with Spy() as spy:
        optimizer.step(x, y)
    return spy.most


def test_a_million_weights_and_100_examples_stay_within_the_budget():
    """All per-example gradients would take 400 MB. Beyond a plain step, 64 MiB are allowed."""
    net = nn.Sequential(nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 220), nn.ReLU(), nn.Linear(220, 10))
    count = sum(p.numel() for p in net.parameters())
    assert count > 1_000_000
    x, y = torch.randn(100, 784), torch.arange(100) % 10
    plain = most_bytes(net, x, y, c=0)
    assert most_bytes(net, x, y, c=2) - plain < 2**26 < 4 * 100 * count
    assert plain > 4 * count  # the spy sees at least the gradient


def test_convolutions_stay_within_the_budget():
    """Per-example gradients of the second layer alone take 6 MB, and ``vmap`` holds them more than once."""
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 128, 3, stride=3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)
    )
    x, y, memory = torch.randn(40, 3, 8, 8), torch.arange(40) % 10, 2**22
    plain = most_bytes(net, x, y, c=0)
    assert most_bytes(net, x, y, c=2, memory=memory) < memory + 2 * plain < most_bytes(net, x, y, c=2, memory=2**40)


# ---- refusals ------------------------------------------------------------------------------------------------------


def test_batch_norm_in_training_mode_is_refused():
    net = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 2))
    with pytest.raises(TrueriskError, match=r"layer '1' is batch norm in training mode.*call eval\(\)"):
        WinsorizedSGD(net, lr=0.1)
    own = WinsorizedSGD(net.eval(), lr=0.1)
    net.train()
    with pytest.raises(TrueriskError, match="batch norm"):
        own.step(torch.randn(9, 4), torch.arange(9) % 2)


class Mixing(nn.Linear):
    def forward(self, x):
        return super().forward(x - x.mean(0))


def test_examples_that_change_each_other_are_refused(batch):
    for net in (
        nn.Sequential(Mixing(4, 3)),
        nn.Sequential(nn.Conv1d(1, 2, 2), nn.Dropout(0.5), nn.Flatten(), nn.Linear(6, 3)),
    ):
        inputs = batch[0].float() if isinstance(net[0], Mixing) else batch[0].float()[:, None]
        with pytest.raises(TrueriskError, match="do not add up"):
            WinsorizedSGD(net, lr=0.1, c=1).step(inputs, batch[1])


class Centered(nn.Module):
    def forward(self, h):
        return h - h.mean(0)


def test_mixing_between_linear_layers_and_in_the_loss_is_refused(batch):
    """The sum over examples of products is right here: only the parts of single examples are wrong."""
    net = nn.Sequential(nn.Linear(4, 5), Centered(), nn.Tanh(), nn.Linear(5, 3)).double()
    with pytest.raises(TrueriskError, match=r"depends on other examples through '0\.weight'"):
        WinsorizedSGD(net, lr=0.1, c=1).step(*batch)
    mean = WinsorizedSGD(nn.Linear(4, 3).double(), lr=0.1, c=1, loss=lambda o, t: F.cross_entropy(o, t).expand(len(o)))
    with pytest.raises(TrueriskError, match="depends on other examples"):
        mean.step(*batch)


def test_gradients_that_cancel_are_not_taken_for_mixing():
    """At the optimum of a batch its gradient is rounding, which differs between ways to add up."""
    torch.manual_seed(1)
    x, y = torch.randn(50, 4), torch.randn(50)
    w = torch.linalg.lstsq(F.pad(x, (0, 1), value=1.0).double(), y.double()[:, None]).solution[:, 0]
    net = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 1, 4), nn.Flatten(0))
    with torch.no_grad():
        net[1].weight.copy_(w[None, None, :4])
        net[1].bias.copy_(w[4:])
    assert WinsorizedSGD(net, lr=0.1, loss=lambda out, t: (out - t).square()).step(x, y) > 0


class BiasTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x) + self.first.bias))


class Fixed(BiasTwice):
    def forward(self, x):
        with torch.no_grad():
            x = self.first(x)
        return self.last(x)


@pytest.mark.parametrize("make", [BiasTwice, Fixed])
def test_a_bias_in_use_twice_and_a_layer_without_gradients(make, batch):
    torch.manual_seed(2)
    net = make().double()
    _, found = WinsorizedSGD(net, lr=0.1, c=1).gradient(*batch)
    each = []
    for x, y in zip(*batch, strict=True):
        loss = F.cross_entropy(net(x[None]), y[None])
        own = torch.autograd.grad(loss, list(net.parameters()), allow_unused=True, materialize_grads=True)
        each.append(own)
    for k, name in enumerate(dict(net.named_parameters())):
        expected = winsorized_mean(torch.stack([own[k] for own in each], dim=-1), 1)
        torch.testing.assert_close(found[name], expected)


def test_layers_without_per_example_gradients_are_refused(batch):
    net = nn.Sequential(
        nn.Conv1d(1, 2, 2), nn.InstanceNorm1d(2, track_running_stats=True), nn.Flatten(), nn.Linear(6, 3)
    )
    with pytest.raises(TrueriskError, match="torch cannot compute the gradients of single examples"):
        WinsorizedSGD(net, lr=0.1, c=1).step(batch[0].float()[:, None], batch[1])


def test_small_batches_and_bad_arguments_are_refused(batch):
    net = nn.Linear(4, 3).double()
    before = net.weight.clone()
    with pytest.raises(TrueriskError, match="11 examples, but c = 6 needs at least 13"):
        WinsorizedSGD(net, lr=0.1, c=6).step(*batch)
    for c in (-1, 1.5, True):
        with pytest.raises(TrueriskError, match="c is"):
            WinsorizedSGD(net, lr=0.1, c=c)
    with pytest.raises(TrueriskError, match="memory is 0 bytes"):
        WinsorizedSGD(net, lr=0.1, memory=0)
    with pytest.raises(TrueriskError, match="one number for each"):
        WinsorizedSGD(net, lr=0.1, loss=F.cross_entropy).step(*batch)
    with pytest.raises(TrueriskError, match="11 inputs and 10 targets"):
        WinsorizedSGD(net, lr=0.1).step(batch[0], batch[1][:10])
    with pytest.raises(TrueriskError, match="2 examples, but must have at least 3"):
        MedianOfMeansSGD(net, lr=0.1).step(batch[0][:2], batch[1][:2])
    with pytest.raises(DivergedError):
        WinsorizedSGD(net, lr=0.1, c=1).step(batch[0] * torch.inf, batch[1])
    assert torch.equal(net.weight, before)


def test_frozen_parameters_stay(batch):
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    net[0].requires_grad_(False)
    before = copy.deepcopy(net.state_dict())
    WinsorizedSGD(net, lr=0.1, c=1).step(*batch)
    assert torch.equal(net[0].weight, before["0.weight"])
    assert not torch.equal(net[2].weight, before["2.weight"])
    with pytest.raises(TrueriskError, match="no trainable parameter"):
        WinsorizedSGD(nn.Linear(4, 3).requires_grad_(False), lr=0.1).step(*batch)


# ---- medians of means ----------------------------------------------------------------------------------------------


def mean_gradient(net, x, y):
    found = torch.autograd.grad(F.cross_entropy(net(x), y), list(net.parameters()))
    return {name: g for (name, _), g in zip(net.named_parameters(), found, strict=True)}


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_the_median_of_means_of_parts(net, batch, groups):
    parts = [mean_gradient(net, *part) for part in zip(*(t.tensor_split(groups) for t in batch), strict=True)]
    wanted = {
        name: p.detach() - 0.3 * torch.stack([part[name] for part in parts]).quantile(0.5, dim=0)
        for name, p in net.named_parameters()
    }
    loss = float(F.cross_entropy(net(batch[0]), batch[1]).detach())
    assert MedianOfMeansSGD(net, lr=0.3, groups=groups).step(*batch) == pytest.approx(loss, abs=1e-12)
    assert apart(net, wanted) < 1e-14


def test_the_running_median_keeps_old_gradients(batch):
    torch.manual_seed(0)
    net = nn.Linear(4, 3).double()
    own, past = MedianOfMeansSGD(net, lr=0.5, running=True), []
    for start in range(5):
        x, y = batch[0][start : start + 4], batch[1][start : start + 4]
        past = [*past, mean_gradient(net, x, y)][-3:]
        wanted = {
            name: p.detach() - 0.5 * torch.stack([one[name] for one in past]).quantile(0.5, dim=0)
            for name, p in net.named_parameters()
        }
        own.step(x, y)
        assert apart(net, wanted) < 1e-14
