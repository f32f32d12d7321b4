"""What a user may name or hand over, and what it builds."""

import textwrap

import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets import BUILTIN, FACTORY, MODULE, architecture, builtin

SHAPE, CLASSES = (4,), 3


def same(a, b):
    one, two = a.state_dict(), b.state_dict()
    return one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)


def net():
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


FILE = """
    from torch import nn

    def build():
        return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))

    def shaped(input_shape, classes):
        return nn.Linear(input_shape[0], classes)

    def half(classes):
        return nn.Linear(4, classes)

    def needs_more(width):
        return nn.Linear(4, width)

    ready = nn.Linear(4, 3)
    number = 7
"""


@pytest.mark.parametrize("spec", [None, "mlp", "mlp:6", "mlp:6-7", net, lambda: net()])
def test_a_seed_decides_the_weights_and_nothing_else_is_touched(spec):
    before = torch.random.get_rng_state()
    arch = architecture(spec, SHAPE, CLASSES)
    one, again, other = arch.build(1), arch.build(1), arch.build(2)
    assert torch.equal(before, torch.random.get_rng_state())
    assert same(one, again)
    assert not same(one, other)
    assert one is not again
    torch.randn(3)  # another state of the global generator must not matter either
    assert same(one, arch.build(1))


def test_kinds_and_names():
    assert architecture(None, SHAPE, CLASSES).kind == BUILTIN
    assert architecture("mlp:6", SHAPE, CLASSES).name == "mlp:6"
    assert architecture(net, SHAPE, CLASSES).kind == FACTORY
    assert "net" in architecture(net, SHAPE, CLASSES).name
    module = net()
    arch = architecture(module, SHAPE, CLASSES)
    assert arch.kind == MODULE
    assert arch.given is module
    assert architecture(net, SHAPE, CLASSES).given is None


def test_unknown_builtin_is_refused_when_built():
    with pytest.raises(TrueriskError, match="no built-in"):
        architecture("resnet50", SHAPE, CLASSES).build(0)


def test_a_factory_from_a_file(tmp_path):
    path = write(tmp_path, "mine.py", FILE)
    arch = architecture(f"{path}:build", SHAPE, CLASSES)
    assert arch.kind == FACTORY
    assert arch.build(0)(torch.zeros(2, 4)).shape == (2, 3)
    assert architecture(f"{path}:shaped", (6,), 2).build(0).weight.shape == (2, 6)
    assert architecture(f"{path}:half", SHAPE, 5).build(0).weight.shape == (5, 4)
    assert architecture(f"{path}:ready", SHAPE, CLASSES).kind == MODULE


def test_a_factory_from_a_package(tmp_path, monkeypatch):
    write(tmp_path, "zoo_for_truerisk/__init__.py", "")
    write(tmp_path, "zoo_for_truerisk/nets.py", FILE)
    monkeypatch.syspath_prepend(tmp_path)
    arch = architecture("zoo_for_truerisk.nets:build", SHAPE, CLASSES)
    assert arch.build(0)(torch.zeros(2, 4)).shape == (2, 3)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("{}:missing", "nothing called"),
        ("{}:number", "neither a torch module nor a function"),
        ("{}:needs_more", "could not be called"),
        ("{}x.py:build", "does not exist"),
        ("no_such_package_at_all.nets:build", "could not be imported"),
    ],
)
def test_references_that_lead_nowhere(tmp_path, reference, words):
    path = write(tmp_path, "mine.py", FILE)
    with pytest.raises(TrueriskError, match=words):
        architecture(reference.format(path), SHAPE, CLASSES)


@pytest.mark.parametrize("text", ["raise ValueError('boom')", "def build(:", "import no_such_module_at_all"])
def test_a_file_that_fails_is_one_sentence(tmp_path, text):
    path = write(tmp_path, "broken.py", text)
    with pytest.raises(TrueriskError, match="could not be imported"):
        architecture(f"{path}:build", SHAPE, CLASSES)


def test_a_factory_that_returns_something_else():
    with pytest.raises(TrueriskError, match="not a torch module"):
        architecture(lambda: 7, SHAPE, CLASSES)


def test_something_that_builds_nothing():
    with pytest.raises(TrueriskError, match="neither"):
        architecture(7, SHAPE, CLASSES)


def test_a_class_is_a_factory():
    class Own(nn.Module):
        def __init__(self, classes):
            super().__init__()
            self.fc = nn.Linear(4, classes)

    assert architecture(Own, SHAPE, CLASSES).build(0).fc.weight.shape == (3, 4)


# Rule 5: weights that the user hands over count as having seen all data.


def test_a_factory_that_returns_trained_weights_is_refused():
    trained = net()
    with pytest.raises(TrueriskError, match="trust_factory"):
        architecture(lambda: trained, SHAPE, CLASSES)


def test_one_trained_layer_is_enough_to_be_refused():
    trunk = nn.Linear(4, 5)
    with pytest.raises(TrueriskError, match=r"0\.weight"):
        architecture(lambda: nn.Sequential(trunk, nn.ReLU(), nn.Linear(5, 3)), SHAPE, CLASSES)


def test_a_factory_with_its_own_fixed_seed_is_refused():
    def fixed():
        torch.manual_seed(0)
        return net()

    before = torch.random.get_rng_state()
    with pytest.raises(TrueriskError, match="whatever the seed"):
        architecture(fixed, SHAPE, CLASSES)
    assert torch.equal(before, torch.random.get_rng_state())


def test_constants_are_not_suspicious():
    def build():
        module = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
        nn.init.zeros_(module[2].weight)
        return module

    assert architecture(build, SHAPE, CLASSES).kind == FACTORY


def test_a_trusted_factory_keeps_its_weights_and_its_module_is_never_modified():
    trained = net()
    copy = {k: v.clone() for k, v in trained.state_dict().items()}
    arch = architecture(lambda: trained, SHAPE, CLASSES, trust_factory=True)
    built = arch.build(0)
    assert same(built, trained)
    with torch.no_grad():
        built[0].weight.fill_(9.0)
    assert all(torch.equal(trained.state_dict()[k], copy[k]) for k in copy)


def test_a_module_never_gives_its_trained_weights_away():
    module = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))
    arch = architecture(module, SHAPE, CLASSES)
    for seed in range(3):
        for key, value in arch.build(seed).named_parameters():
            if key not in ("1.weight", "1.bias"):  # batch norm starts at constants
                assert not torch.isclose(value, module.get_parameter(key)).any(), key


# A factory whose weights can't be repeated from the seed: certificates could not be verified.


def test_a_factory_that_can_not_be_repeated_is_noticed():
    """Weights from an unseeded numpy generator differ from call to call, so `build(seed)` is no function of seed."""
    import numpy as np

    def build():
        module = nn.Linear(4, 3)
        with torch.no_grad():
            module.weight.copy_(torch.from_numpy(np.random.default_rng().standard_normal((3, 4))))
        return module

    try:
        arch = architecture(build, SHAPE, CLASSES)
    except TrueriskError:
        return
    assert same(arch.build(0), arch.build(0))


# Buffers too: statistics of the data may lie there.


class WithBuffer(nn.Module):
    def __init__(self, value, persistent=True):
        super().__init__()
        self.register_buffer("table", value, persistent=persistent)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x)


TRAINING_INPUTS = torch.randn(20, 4, generator=torch.Generator().manual_seed(3))
POSITIONS = torch.sin(torch.arange(12.0)[:, None] / 10 ** torch.arange(4.0))


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize(
    "value",
    [
        TRAINING_INPUTS,
        TRAINING_INPUTS.mean(0),
        (TRAINING_INPUTS > 0)[0],  # which features were selected
        torch.tensor([301, 299, 120]),  # counts of classes
        POSITIONS,  # a formula, but nobody can tell by its values
    ],
)
def test_buffers_that_ignore_the_seed_need_a_word(value, persistent):
    with pytest.raises(TrueriskError, match=r"same buffers whatever the seed \(table\).*--trust-factory"):
        architecture(lambda: WithBuffer(value, persistent), SHAPE, CLASSES)
    arch = architecture(lambda: WithBuffer(value, persistent), SHAPE, CLASSES, trust_factory=True)
    assert torch.equal(arch.build(0).table, value)


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(5),
        torch.tensor(7),
        torch.full((2, 3), 255.0),
        torch.empty(0),
        torch.arange(6),
        torch.arange(6.0)[None],
        torch.arange(1, 9),
        torch.ones(5, 5).tril()[None, None],
        torch.full((4, 4), float("-inf")).triu(1),
        torch.ones(4, 4, dtype=torch.bool).triu(0),
        torch.eye(3, 4),
    ],
)
def test_buffers_that_hold_nothing_are_fine(value):
    assert architecture(lambda: WithBuffer(value), SHAPE, CLASSES).kind == FACTORY


def test_random_buffers_are_fine():
    assert architecture(lambda: WithBuffer(torch.randn(4, 4)), SHAPE, CLASSES).kind == FACTORY


@pytest.mark.parametrize("name", ["cosnet:4-4", "mirrored-cosnet:4-4", "resnet:9-12", "mirrored-resnet:9-12"])
def test_a_factory_may_return_a_built_in_network_with_its_fixed_cosines(name):
    def build():
        return builtin(name, (1, 8, 8), CLASSES)

    def bent():
        net = build()
        next(net.buffers()).flatten()[0] += 0.5
        return net

    assert architecture(build, (1, 8, 8), CLASSES).kind == FACTORY
    with pytest.raises(TrueriskError, match="weight"):
        architecture(bent, (1, 8, 8), CLASSES)


def test_a_factory_with_lazy_layers_is_told():
    with pytest.raises(TrueriskError, match="lazy layers; run it once"):
        architecture(lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(10)), (1, 8, 8), 10)
