"""A module with its learnt weights taken out (rule 5). What can't be taken out must be refused."""

import copy
import functools
import warnings

import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets import reinitialized


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def all_tensors(module):
    return {k: v.clone() for k, v in module.state_dict().items()}


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize(
    "build",
    [
        net,
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(18, 3)),
        lambda: nn.Sequential(nn.Embedding(5, 4), nn.LayerNorm(4), nn.PReLU(), nn.Flatten(), nn.Linear(8, 3)),
        lambda: nn.Sequential(nn.Linear(4, 3), nn.GroupNorm(1, 3), nn.Dropout()),
        lambda: nn.Bilinear(3, 4, 2),
    ],
)
def test_everything_is_drawn_anew_and_the_module_stays(build):
    module = build()
    with torch.no_grad():
        for tensor in module.state_dict().values():
            tensor.fill_(7)
    before, generator = all_tensors(module), torch.random.get_rng_state()
    one, again, other = (all_tensors(reinitialized(module, seed)) for seed in (1, 1, 2))
    assert torch.equal(generator, torch.random.get_rng_state())
    assert equal(before, all_tensors(module))
    assert equal(one, again)
    assert not equal(one, other)
    for key, value in one.items():
        assert not (value == 7).any(), key
        assert value.isfinite().all(), key


def test_batch_norm_starts_from_its_constants():
    module = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5))
    module.train()
    module(torch.randn(30, 4) * 3 + 2)
    fresh = reinitialized(module, 0)
    assert torch.equal(fresh[1].running_mean, torch.zeros(5))
    assert torch.equal(fresh[1].running_var, torch.ones(5))
    assert int(fresh[1].num_batches_tracked) == 0
    assert int(module[1].num_batches_tracked) == 1


def test_frozen_weights_are_drawn_anew_too():
    module = net()
    module[0].weight.requires_grad_(False)
    fresh = reinitialized(module, 0)
    assert not torch.isclose(fresh[0].weight, module[0].weight).any()
    assert not fresh[0].weight.requires_grad


class OwnParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.gain = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.fc(x) * self.gain


class HalfReset(OwnParameter):
    """Resets one entry of two: the other one keeps what was learnt."""

    def reset_parameters(self):
        with torch.no_grad():
            self.gain[0] = 1.0


class Buffer(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.register_buffer("kept", value)

    def forward(self, x):
        return self.fc(x)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (OwnParameter, "gain"),
        (HalfReset, "gain"),
        (lambda: Buffer(torch.tensor([3, 1])), "kept"),
        (lambda: Buffer(torch.tensor([1.5])), "kept"),
        (lambda: Buffer(torch.tensor([True, False])), "kept"),
        (lambda: Buffer(torch.tensor([1], dtype=torch.uint8)), "kept"),
        (lambda: nn.Sequential(net(), OwnParameter()), "1.gain"),
    ],
)
def test_what_no_reset_reaches_is_refused_by_name(build, name):
    module = build()
    before = all_tensors(module)
    with pytest.raises(TrueriskError, match=name):
        reinitialized(module, 0)
    assert equal(before, all_tensors(module))


def test_a_complete_own_reset_is_accepted():
    class Complete(OwnParameter):
        def reset_parameters(self):
            nn.init.uniform_(self.gain)

    assert not torch.equal(reinitialized(Complete(), 0).gain, torch.ones(3))


# Learnt numbers can hide where neither parameters() nor buffers() looks. Each of these modules computes with
# them, so each must be refused. On random labels a certificate of 0.6 % came out of the first and the last.


class Thing:
    """Any object of the user's."""

    def __init__(self, **values):
        self.__dict__.update(values)


class Hiding(nn.Module):
    """``fc`` is registered, ``hidden`` is not."""

    def __init__(self, hidden, use):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        object.__setattr__(self, "hidden", hidden)
        self.__dict__["use"] = use

    def forward(self, x):
        return self.use(self.hidden, self.fc(x))


def call(hidden, x):
    return hidden(x)


def instance_forward():
    module = net()
    old = module.forward
    module.forward = lambda x: old(x)  # what accelerate's hooks do; deepcopy keeps the lambda, and old with it
    return module


def hook_closure():
    module, shift = net(), torch.randn(3)
    module.register_forward_hook(lambda layer, inputs, out: out + shift)
    return module


def closure_attribute():
    shift = torch.randn(4)
    return Hiding(None, lambda hidden, x: x + shift)


def frozen_script():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated in new versions
        script = torch.jit.freeze(torch.jit.script(net().eval()))
    module = nn.Sequential(nn.Linear(4, 4))
    module.add_module("script", script)
    return module


HIDING = {
    "tensor": lambda: Hiding(torch.randn(4), torch.add),
    "array": lambda: Hiding(torch.randn(4).numpy(), lambda h, x: x + torch.from_numpy(h)),
    "list of tensors": lambda: Hiding([torch.randn(4)], lambda h, x: x + h[0]),
    "dict of tensors": lambda: Hiding({"a": torch.randn(4)}, lambda h, x: x + h["a"]),
    "list of modules": lambda: Hiding([net()], lambda h, x: h[0](x)),
    "dict of lists": lambda: Hiding({"a": [torch.randn(4)]}, lambda h, x: x + h["a"][0]),
    "module set behind torch's back": lambda: Hiding(net(), call),
    "object with a tensor": lambda: Hiding(Thing(w=torch.randn(4)), lambda h, x: x + h.w),
    "object with a module": lambda: Hiding(Thing(m=net()), lambda h, x: h.m(x)),
    "partial": lambda: Hiding(functools.partial(torch.add, torch.randn(4)), call),
    "bound method": lambda: Hiding(net().forward, call),
    "closure": closure_attribute,
    "hook": hook_closure,
    "instance forward": instance_forward,
    "frozen script": frozen_script,
}


@pytest.mark.parametrize("where", HIDING)
def test_hidden_learnt_numbers_never_reach_a_prior(where):
    """Two modules with other learnt numbers must not give different networks from the same seed."""
    torch.manual_seed(0)
    x, outputs = torch.randn(6, 4), []
    for _ in range(2):
        try:
            fresh = reinitialized(HIDING[where](), 0).eval()
        except TrueriskError:
            return
        with torch.no_grad():
            for parameter in fresh.parameters():
                parameter.fill_(0.5)
            outputs.append(fresh(x))
    assert torch.equal(*outputs), f"learnt numbers in a {where} survived the re-initialization"


def test_hidden_numbers_that_are_registered_too_are_fine():
    """nn.LSTM keeps a plain list of its own parameters; it can be re-initialized."""

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(4, 3, batch_first=True)
            self.fc = nn.Linear(3, 2)

        def forward(self, x):
            return self.fc(self.rnn(x)[0][:, -1])

    module = Recurrent()
    before = all_tensors(module)
    fresh = reinitialized(module, 0)
    for key, value in fresh.named_parameters():
        assert not torch.isclose(value, before[key]).any(), key
    x = torch.randn(2, 5, 4)
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.fill_(0.0)
        assert torch.equal(fresh(x), torch.zeros(2, 2))  # the output comes from the new weights


def test_plain_settings_are_fine():
    module = net()
    module.width, module.names, module.kind = 3, ["a"], "small"
    module.options = {"depth": 2, "activation": nn.functional.relu}
    fresh = reinitialized(module, 0)
    assert fresh.width == 3
    assert equal(all_tensors(reinitialized(copy.deepcopy(module), 0)), all_tensors(fresh))
