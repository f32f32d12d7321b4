"""Built-in networks are recognized by their structure."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from truerisk.nets import builtin, builtin_name

SHAPE = (1, 16, 16)


@pytest.mark.parametrize("kind", ["mlp", "convnet", "cosnet", "mirrored-cosnet", "resnet", "mirrored-resnet"])
@pytest.mark.parametrize("widths", ["", ":9-12"])
def test_every_built_in_network_is_recognized(kind, widths):
    before = torch.random.get_rng_state()
    net = builtin(kind + widths, SHAPE, 5)
    after = torch.random.get_rng_state()
    name = builtin_name(net, SHAPE, 5)
    assert torch.equal(after, torch.random.get_rng_state()), "the user's random numbers stay as they are"
    assert not torch.equal(before, after)
    assert name.split(":")[0] == kind.removeprefix("mirrored-")
    assert not widths or name.endswith(widths)


class Own(nn.Module):
    """A perceptron as people write it."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = nn.Linear(256, 20), nn.Linear(20, 30), nn.Linear(30, 5)

    def forward(self, x):
        return self.three(F.relu(self.two(F.relu(self.one(x.flatten(1))))))


class MyLinear(nn.Linear):
    pass


def test_other_names_and_wrappers_do_not_matter():
    assert builtin_name(Own(), SHAPE, 5) == "mlp:20-30"
    wrapped = nn.Sequential(nn.Identity(), nn.Sequential(builtin("convnet:4-6", SHAPE, 5)), nn.LogSoftmax(1))
    assert builtin_name(wrapped, SHAPE, 5) == "convnet:4-6"
    subclass = nn.Sequential(nn.Flatten(), MyLinear(256, 7), nn.ReLU(), nn.Dropout(0.5), MyLinear(7, 5))
    assert builtin_name(subclass, SHAPE, 5) == "mlp:7"


@pytest.mark.parametrize(
    "net",
    [
        nn.Sequential(nn.Flatten(), nn.Linear(256, 5)),
        nn.Sequential(nn.Flatten(), nn.Linear(256, 7), nn.Tanh(), nn.Linear(7, 5)),
        nn.Sequential(nn.Flatten(), nn.Linear(256, 7, bias=False), nn.ReLU(), nn.Linear(7, 5)),
        nn.Sequential(nn.Flatten(), nn.Linear(256, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 5)),
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(784, 5)),
        nn.Sequential(nn.Conv2d(1, 4, 5, stride=2), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 5)),
        nn.Flatten(),
    ],
)
def test_other_networks_are_not_recognized(net):
    assert builtin_name(net, SHAPE, 5) is None
    assert builtin_name(net, (256,), 5) is None
