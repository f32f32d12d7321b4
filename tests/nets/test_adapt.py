"""Networks whose outputs are not one row of logits, and inputs that are integers."""

import copy
import math

import doors
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import truerisk
from truerisk.data import Data, load
from truerisk.errors import TrueriskError
from truerisk.names import LOGITS, PROBABILITIES
from truerisk.nets import Adapted, adapted, architecture, check_network, fitted, inner, outputs, refitted, tally
from truerisk.nets.adapt import Reading, find_reading

DIGITS = load("digits").take(range(100))
OBJECTS = [doors.HuggingFace, doors.WithHidden, doors.Lone, doors.Pair, doors.DataClass]


def same_weights(kind):
    """A network of this kind and a plain one with the same weights."""
    torch.manual_seed(0)
    plain, other = doors.Plain(), kind()
    other.load_state_dict(plain.state_dict())
    return plain, other


def binary(n=40, integers=False):
    X = np.random.default_rng(1).integers(0, 9, (n, 30))
    return Data("binary", X if integers else X.astype(np.float32), np.arange(n) % 2, 2)


# ---- where the logits are --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_gives_its_logits(kind):
    plain, other = same_weights(kind)
    network, _ = adapted(other, DIGITS)
    assert inner(network) is other
    assert torch.equal(outputs(network.eval(), DIGITS.X), outputs(plain.eval(), DIGITS.X))
    check_network(network, DIGITS.X, 10)


def test_a_network_with_logits_stays_as_it_is():
    plain = doors.Plain()
    network, data = adapted(plain, DIGITS)
    assert network is plain
    assert data is DIGITS
    assert architecture(doors.Plain, (1, 8, 8), 10).column == ""


def test_the_logits_are_used_even_if_they_are_not_first():
    assert find_reading({"hidden_states": torch.zeros(4, 16), "logits": torch.zeros(4, 10)}, 10) == Reading("logits")
    assert find_reading((torch.zeros(4, 10), torch.zeros(4, 16)), 10) == Reading(0)


def test_a_tuple_is_searched_for_logits():
    """By shape, where one fits; of several that fit, the first item, as networks with auxiliary outputs return it."""
    features, logits, loss = torch.zeros(4, 16), torch.zeros(4, 10), torch.zeros(())
    assert find_reading((features, logits), 10) == Reading(1)
    assert find_reading((loss, logits, features), 10) == Reading(1)
    assert find_reading((None, logits), 10) == Reading(1)
    assert find_reading((logits, logits), 10) == Reading(0)
    assert find_reading({"features": features, "scores": logits}, 10) == Reading("scores")
    with pytest.raises(TrueriskError, match="return the logits alone"):
        find_reading((features, logits, logits), 10)
    assert find_reading((features, torch.zeros(4)), 2) == Reading(1, column=LOGITS)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (
            {"a": torch.zeros(4, 10), "b": torch.zeros(4, 10)},
            r"a dict with a \(4, 10\), b \(4, 10\); return the logits",
        ),
        ({"a": torch.zeros(4, 9), "b": torch.zeros(4, 3)}, r"a dict with a \(4, 9\), b \(4, 3\); return the logits"),
        ({"a": 3}, "a dict with no tensor"),
        ("text", "returns a str; return a tensor of logits"),
        ((), "a tuple with no tensor"),
        ((torch.zeros(4, 16), torch.zeros(4, 12)), r"a tuple with 0 \(4, 16\), 1 \(4, 12\)"),
        (None, "returns a NoneType"),
    ],
)
def test_what_cannot_be_known_is_refused_with_the_fix(out, message):
    with pytest.raises(TrueriskError, match=message):
        find_reading(out, 10)


def test_what_was_picked_is_said(capsys, monkeypatch):
    monkeypatch.setattr("truerisk.progress._enabled", True)
    adapted(doors.Pair(), DIGITS)
    assert "note: the network returns a tuple; its first item is used as logits." in capsys.readouterr().err
    adapted(doors.WithHidden(), DIGITS)
    assert "its entry 'logits' is used" in capsys.readouterr().err
    adapted(doors.Plain(), DIGITS)
    assert capsys.readouterr().err == ""


# ---- one logit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flat", [False, True])
def test_one_logit_answers_class_1_above_0(flat):
    torch.manual_seed(0)
    own, data = doors.OneLogit(flat), binary()
    network, _ = adapted(own, data)
    z = own(torch.from_numpy(data.X)).reshape(-1)
    found = outputs(network.eval(), data.X)
    assert torch.equal(found, torch.stack([torch.zeros_like(z), z], dim=1))
    assert (found.argmax(1) == (z > 0)).all()


def test_the_cross_entropy_of_one_logit_is_the_binary_one():
    z, y = torch.randn(50, 1), torch.arange(50) % 2
    two = Adapted(nn.Identity(), Reading(column=LOGITS))(z)
    torch.testing.assert_close(F.cross_entropy(two, y), F.binary_cross_entropy_with_logits(z[:, 0], y.float()))


def test_probabilities_have_their_threshold_at_exactly_one_half():
    """Every float32 number around one half, and the edges; a tie at one half, which is an error above only."""
    half = np.float32(0.5)
    near = [half]
    for _ in range(200):
        near = [np.nextafter(near[0], np.float32(0)), *near, np.nextafter(near[-1], np.float32(1))]
    p = torch.from_numpy(np.array([0.0, 1e-30, *near, 1.0], dtype=np.float32))[:, None]
    z = Adapted(nn.Identity(), Reading(column=PROBABILITIES))(p)
    assert z.isfinite().all()
    assert ((z[:, 1] > 0) == (p[:, 0] > 0.5)).all()
    assert ((z[:, 1] < 0) == (p[:, 0] < 0.5)).all()
    tie = z[(p[:, 0] == 0.5)]
    assert tally(tie, torch.tensor([1])).errors == tally(tie, torch.tensor([0])).errors == 1
    assert tally(tie, torch.tensor([1])).sure == 0


def test_probabilities_train_at_the_edges():
    p = torch.tensor([[0.0], [1.0], [0.3]], dtype=torch.float64, requires_grad=True)
    z = Adapted(nn.Identity(), Reading(column=PROBABILITIES))(p)
    (slope,) = torch.autograd.grad(F.cross_entropy(z, torch.tensor([0, 1, 1])), p, create_graph=True)
    (curve,) = torch.autograd.grad(slope.sum(), p)
    assert slope.isfinite().all()
    assert curve.isfinite().all()
    assert slope[2] < 0


def test_outputs_between_0_and_1_are_a_question():
    data = binary()
    arch = architecture(lambda: doors.OneLogit(sigmoid=True), (30,), 2)
    with pytest.raises(TrueriskError, match="all outputs lie between 0 and 1; say --outputs probabilities"):
        fitted(arch, data)
    assert fitted(arch, data, PROBABILITIES)[0].column == PROBABILITIES
    assert fitted(arch, data, LOGITS)[0].column == LOGITS
    assert fitted(architecture(doors.OneLogit, (30,), 2), data)[0].column == LOGITS


def test_one_initialization_between_0_and_1_is_no_question():
    """Other seeds show that it is no sigmoid."""

    def build():
        net = nn.Sequential(nn.Linear(30, 1))
        with torch.no_grad():
            net[0].weight.zero_()
            net[0].bias.copy_(2 * torch.rand(1) - 1)
        return net

    arch = architecture(build, (30,), 2)
    lows = [arch.build(seed)[0].bias.item() > 0 for seed in range(20)]
    assert any(lows)
    assert not all(lows)
    assert fitted(arch, binary())[0].column == LOGITS


def test_what_outputs_says_must_be_possible():
    data = binary()
    with pytest.raises(TrueriskError, match="numbers outside of 0 to 1; leave out --outputs"):
        fitted(architecture(doors.OneLogit, (30,), 2), data, PROBABILITIES)
    with pytest.raises(TrueriskError, match="several outputs per example; leave out --outputs"):
        fitted(architecture(doors.Plain, (1, 8, 8), 10), DIGITS, LOGITS)
    with pytest.raises(TrueriskError, match="outputs is 'odds'"):
        truerisk.certify(doors.OneLogit, doors.tumors(), outputs="odds")


def test_one_logit_for_ten_classes_is_refused():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 1))
    with pytest.raises(TrueriskError, match="1 columns, but the largest label is 9"):
        check_network(adapted(net, DIGITS)[0], DIGITS.X, 10)


def test_labels_from_1_are_named_as_the_reason():
    data = Data("from one", DIGITS.X, DIGITS.y + 1, 11)
    with pytest.raises(TrueriskError, match=r"10 columns, .* if your labels start at 1, give y - 1"):
        check_network(doors.Plain(), data.X, data.classes)


def test_near_ties_of_one_logit_are_measured_by_the_other_outputs():
    """Next to logits of size 1000, 1e-3 is what float32 may have lost; alone, its own size says nothing."""
    z = torch.tensor([[0.0, 1000.0], [0.0, -1e-3], [0.0, -1.0]])
    found = tally(z, torch.tensor([1, 1, 1]))
    assert (found.errors, found.near_ties, found.sure) == (2, 1, 1)
    two = torch.tensor([[1.0, 1000.0], [5.0, 5.0 - 1e-3], [0.0, -1.0]])
    assert tally(two, torch.tensor([1, 1, 1])).near_ties == 0


def test_where_near_ties_are_does_not_depend_on_chunks(monkeypatch):
    """Images of 3 x 224 x 224 come one by one: their logits are measured by those of all others as well."""
    from truerisk.nets import count_wrong, evaluate

    X = np.array([[1e-6], [-20.0], [30.0], [np.nan]], np.float32)
    network, y = Adapted(nn.Identity(), Reading(column=LOGITS)), np.array([0, 0, 1, 1])
    found = []
    for rows in (1, 2, 1000):
        monkeypatch.setattr(evaluate, "ROWS", rows)
        found.append(count_wrong(network, X, y))
    assert found[0] == found[1] == found[2]
    assert (found[0].errors, found[0].sure, found[0].near_ties) == (2, 0, 1)


def test_half_precision_probabilities_are_finite():
    for dtype in (torch.float16, torch.bfloat16):
        z = Adapted(nn.Identity(), Reading(column=PROBABILITIES))(torch.tensor([[0.0], [1.0], [0.7]], dtype=dtype))
        assert z.isfinite().all()
        assert z[:, 1].sign().tolist() == [-1, 1, 1]


class Squeezed(nn.Module):
    def __init__(self, classes=1):
        super().__init__()
        self.fc = nn.Linear(30, classes)

    def forward(self, x):
        return self.fc(x).squeeze()


def test_squeeze_of_one_example_is_understood_or_named():
    network, _ = adapted(Squeezed(), binary())
    check_network(network, binary().X, 2)

    class Alone(Squeezed):
        def forward(self, x):
            return self.fc(x) if len(x) > 1 else 1 / 0

    with pytest.raises(TrueriskError, match="does not run on one example alone"):
        check_network(Alone(3), binary().X, 2)


def test_the_own_network_is_left_alone():
    """Neither its mode nor its numbers change; lazy layers stay lazy, and are refused."""
    own = doors.OneLogit().train()
    adapted(own, binary())
    assert own.training
    lazy = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(1))
    with pytest.raises(TrueriskError, match="lazy layers"):
        truerisk.certify(lazy, fresh=doors.tumors())
    with pytest.raises(TrueriskError, match="lazy layers"):
        truerisk.certify(lambda: nn.Sequential(nn.LazyLinear(1)), fresh=doors.tumors())


class Auxiliary(doors.Base):
    """As GoogLeNet and Inception: more than logits, in one of the modes only."""

    def __init__(self, mode=True):
        super().__init__()
        self.mode = mode

    def forward(self, x):
        return self.both(x) if self.training == self.mode else self.both(x)[0]


@pytest.mark.parametrize("mode", [True, False])
def test_more_outputs_in_one_mode(mode, tmp_path):
    def build():
        return Auxiliary(mode)

    cert = truerisk.certify(build, DIGITS, epochs=2)
    assert cert.risk_bound == truerisk.certify(doors.Plain, DIGITS, epochs=2).risk_bound
    cert.save(tmp_path)
    truerisk.verify(tmp_path, data=DIGITS, model=build)


# ---- integers --------------------------------------------------------------------------------------------------


def test_integers_stay_integers_where_a_table_looks_them_up():
    ids, y = doors.sentences(40)
    data = load((ids, y))
    assert data.integers
    for kind in (doors.Bag, doors.Tokens):
        _, taken = fitted(architecture(kind, (doors.LENGTH,), 2), data)
        assert taken is data
        check_network(kind(), taken.X, 2)


def test_integers_become_floats_where_the_network_takes_these():
    data = binary(integers=True)
    _, taken = fitted(architecture(doors.OneLogit, (30,), 2), data)
    assert taken.X.dtype == np.float32
    assert taken.sha256 == binary().sha256 != data.sha256


def test_a_token_that_the_table_does_not_hold_is_found_wherever_it_is():
    ids, _ = doors.sentences(200)
    for row, token in ((150, doors.VOCABULARY), (190, -1)):
        wrong = ids.copy()
        wrong[row, 3] = token
        with pytest.raises(TrueriskError, match="does not run on inputs of shape"):
            check_network(doors.Tokens(), wrong, 2)
    check_network(doors.Tokens(), ids, 2)


def test_integers_become_floats_where_only_these_run():
    """A table of positions does not look the inputs up."""

    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.positions, self.fc = nn.Embedding(30, 4), nn.Linear(30, 2)

        def forward(self, x):
            return self.fc(x) + self.positions(torch.arange(30)).sum()

    _, taken = fitted(architecture(Positions, (30,), 2), binary(integers=True))
    assert not taken.integers


def test_real_numbers_for_a_table_are_named_as_the_reason():
    ids, _ = doors.sentences(40)
    for wrong in (ids.astype(np.float32), ids.astype(np.uint8) / np.float32(255)):
        with pytest.raises(TrueriskError, match=r"it looks integers up in a table, .* so give int64"):
            check_network(doors.Tokens(), wrong.astype(np.float32), 2)


def test_large_integers_are_told_apart():
    """As float32 numbers 2^24 and 2^24 + 1 are equal."""
    from truerisk.data import row_hashes

    X = np.array([[2**24], [2**24 + 1], [2**24]])
    a, b, c = row_hashes(X)
    assert a == c != b
    assert len(set(row_hashes(X.astype(np.float32)).tolist())) == 1


# ---- a certificate's network again -----------------------------------------------------------------------------


def test_the_reading_of_a_certificate_is_found_again_without_data():
    blank = np.zeros((1, 30), np.float32)
    arch = architecture(lambda: doors.OneLogit(sigmoid=True), (30,), 2)
    assert refitted(arch, [blank], 2, PROBABILITIES).column == PROBABILITIES
    with pytest.raises(TrueriskError, match="give the certified model"):
        refitted(arch, [blank], 2, "")
    with pytest.raises(TrueriskError, match="give the certified model"):
        refitted(architecture("mlp:4", (30,), 2), [blank], 2, LOGITS)
    assert refitted(architecture("mlp:4", (30,), 2), [blank], 2, "").column == ""
    # A network that runs on no example is taken for what its certificate says.
    assert refitted(arch, [blank[:, :3]], 2, PROBABILITIES).column == PROBABILITIES
    assert refitted(arch, [blank[:, :3], blank], 2, PROBABILITIES).column == PROBABILITIES


def test_copies_are_adapted_too():
    network, _ = adapted(doors.Pair(), DIGITS)
    twin = copy.deepcopy(network)
    assert isinstance(twin, Adapted)
    assert twin.reading == network.reading
    assert math.isfinite(float(outputs(twin.eval(), DIGITS.X).sum()))
