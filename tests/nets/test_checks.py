"""What a certificate can't speak about is refused, with all reasons at once (rule 9)."""

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets import check_network

X = np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32)
IMAGES = np.random.default_rng(1).standard_normal((40, 1, 6, 6)).astype(np.float32)


def net(out=3):
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(), nn.Linear(8, out))


class Wrapped(nn.Module):
    def __init__(self, after, inner=None):
        super().__init__()
        self.inner, self.after = inner or nn.Linear(4, 3), after

    def forward(self, x):
        return self.after(self.inner(x))


def test_the_copy_is_in_eval_mode_and_the_original_is_untouched():
    module = net().train()
    before = {k: v.clone() for k, v in module.state_dict().items()}
    generator = torch.random.get_rng_state()
    twin = check_network(module, X, 3)
    assert twin is not module
    assert not any(layer.training for layer in twin.modules())
    assert all(layer.training for layer in module.modules())
    assert all(torch.equal(module.state_dict()[k], before[k]) for k in before)
    assert torch.equal(generator, torch.random.get_rng_state())


def test_more_columns_than_classes_are_fine():
    check_network(net(out=5), X, 3)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["4.weight", "1.running_var"])
def test_weights_that_are_not_finite(value, where):
    module = net()
    with torch.no_grad():
        module.state_dict()[where].view(-1)[0] = value
    with pytest.raises(TrueriskError, match=where):
        check_network(module, X, 3)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (net(out=2), "2 columns"),
        (Wrapped(lambda h: h[:, 0]), "shape"),
        (Wrapped(lambda h: h[None]), "shape"),
        (Wrapped(lambda h: h[:1]), "shape"),
        (Wrapped(lambda h: h.unsqueeze(2)), "shape"),
        (nn.Linear(5, 3), "does not run on inputs of shape"),
        (Wrapped(lambda h: h / 0), "not finite"),
        (Wrapped(lambda h: F.dropout(h, 0.5, training=True)), "random in eval mode"),
        (Wrapped(lambda h: h + torch.rand_like(h)), "random in eval mode"),
        (Wrapped(lambda h: h + np.random.default_rng().random()), "random in eval mode"),
        (Wrapped(lambda h: h - h.mean(0)), "other examples"),
        (Wrapped(lambda h: h.flip(0)), "other examples"),
        (Wrapped(lambda h: h.cumsum(0).flip(0)), "other examples"),
        (Wrapped(lambda h: F.softmax(h, dim=0)), "other examples"),
        (
            Wrapped(lambda h: h, nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, track_running_stats=False))),
            "other ex",
        ),
        (Wrapped(lambda h: h, nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3).requires_grad_(False))), None),
    ],
)
def test_outputs(module, words):
    if words is None:
        check_network(module, X, 3)
        return
    with pytest.raises(TrueriskError, match=words):
        check_network(module, X, 3)


def test_batch_norm_without_statistics_on_images():
    module = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, track_running_stats=False), nn.Flatten(), nn.Linear(32, 3)
    )
    with pytest.raises(TrueriskError, match="other examples"):
        check_network(module, IMAGES, 3)


def test_all_problems_are_listed_at_once():
    module = Wrapped(lambda h: h[:, :2])
    with torch.no_grad():
        module.inner.weight[0, 0] = torch.nan
    with pytest.raises(TrueriskError, match=r"(?s)not finite.*inner\.weight.*2 columns"):
        check_network(module, X, 3)
    module = Wrapped(lambda h: F.dropout(h, 0.5, training=True) / 0)
    with pytest.raises(TrueriskError, match=r"(?s)outputs are not finite.*random in eval mode"):
        check_network(module, X, 3)


# Ways to look at other examples that half a batch does not show.


def swap_pairs(h):
    """Each example gets the logits of its neighbour, if it has one."""
    even = len(h) - len(h) % 2
    return torch.cat([h[:even].view(even // 2, 2, h.shape[1]).flip(1).reshape(even, -1), h[even:]])


def look_back(h):
    return h.cumsum(0)  # an example depends on those before it, and the first half has all of those


@pytest.mark.parametrize("mix", [swap_pairs, look_back, lambda h: h - h[0]])
def test_neighbours_in_the_batch_are_noticed(mix):
    with pytest.raises(TrueriskError, match="other examples"):
        check_network(Wrapped(mix), X, 3)


def test_a_masked_class_does_not_hide_the_batch():
    """-1e9 for a class that is never right is common; differences must not be measured against it."""

    def masked(h):
        return torch.cat([h - h.mean(0), h.new_full((len(h), 1), -1e9)], dim=1)

    with pytest.raises(TrueriskError, match="other examples"):
        check_network(Wrapped(masked), X, 3)


class FirstBatch(nn.Module):
    """Standardizes by the first batch that it ever sees, in eval mode too (ActNorm and friends)."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.register_buffer("seen", torch.tensor(False))
        self.register_buffer("shift", torch.zeros(4))

    def forward(self, x):
        if not self.seen:
            self.shift.copy_(x.mean(0) * 10)
            self.seen.fill_(True)
        return self.fc(x - self.shift)


def test_a_network_that_learns_while_it_is_evaluated_is_refused():
    """Otherwise the network that comes back has seen the examples that it will be tested on."""
    with pytest.raises(TrueriskError):
        check_network(FirstBatch(), X, 3)


def test_lazy_layers_are_one_clear_error():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = nn.Sequential(nn.LazyLinear(5), nn.Linear(5, 3))
    with pytest.raises(TrueriskError):
        check_network(module, X, 3)


def test_a_network_in_double_precision_is_fed_doubles():
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3)).double()
    X = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    assert check_network(net, X, 3)[1].weight.dtype == torch.float64


def test_a_state_that_is_not_made_of_tensors_is_told():
    class Extra(nn.Linear):
        def get_extra_state(self):
            return {"version": 2}

        def set_extra_state(self, state):
            self.version = state["version"]

    with pytest.raises(TrueriskError, match="saves more than tensors"):
        check_network(Extra(4, 2), np.zeros((3, 4), np.float32), 2)
