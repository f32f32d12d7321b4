"""Which measures a rescaling moves: the audit itself, and what every measure and bound declares of itself."""

from __future__ import annotations

import math

import pytest
import torch
from measures.cases import CASES, build, mlp
from measures.fitting import RECORD, fitted

from truerisk import TrueriskError
from truerisk.measures import BOUNDS, MEASURES, Measures, Subject, Value
from truerisk.measures import audit as module
from truerisk.measures.audit import SEARCH_TOLERANCE, TOLERANCE, Audit, audit, distance
from truerisk.measures.registry import Measure
from truerisk.measures.theorems import Theorem
from truerisk.measures.words import before_after

EVERY = {entry.name: entry for entry in (*MEASURES.values(), *BOUNDS.values()) if entry.cost != "training"}
MOVABLE = [name for name in CASES if name != "linear"]  # nothing of it can be rescaled


@pytest.fixture(scope="module")
def audits(images) -> dict[str, Audit]:
    """Of each network that can be rescaled, beside another one as its initialization.

    What is defined for none of them (a law of many singular values, say) is tried on a wide network.
    """
    settings = {"times": 1, "record": RECORD, "rows": 30}
    found = {case: audit(fitted(build(case), images), images, build(case, 1), **settings) for case in MOVABLE}
    left = [name for name in EVERY if not any(name in each.moves for each in found.values())]
    wide = [build_wide(seed) for seed in (0, 1)]
    return found | {"wide": audit(fitted(wide[0], images), images, wide[1], only=["parameters", *left], **settings)}


def build_wide(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return mlp(64, 80, 70, 3).double().eval()


def test_the_function_stays(audits):
    for case, found in audits.items():
        assert found.change < 1e-9, case
        assert found.channels > 5


@pytest.mark.parametrize("name", EVERY)
def test_declared_invariance(audits, name):
    """An invariant one stays on every network, any other moves on at least one."""
    moves = {case: found.moves[name] for case, found in audits.items() if name in found.moves}
    assert moves, f"{name} is defined for none of the networks"
    entry = EVERY[name]
    if entry.invariant:
        limit = SEARCH_TOLERANCE if entry.cost == "search" else TOLERANCE
        assert {case: moved.orders for case, moved in moves.items() if moved.orders > limit} == {}
    else:
        assert max(moved.orders for moved in moves.values()) > TOLERANCE


def test_the_searches_and_the_exact_ones_have_their_own_tolerance(audits):
    moves = audits["mlp"].moves
    assert {moves[name].tolerance for name in moves if EVERY[name].cost == "search"} <= {SEARCH_TOLERANCE}
    assert {moves[name].tolerance for name in moves if EVERY[name].cost != "search"} == {TOLERANCE}


class Planted:
    """A registry with three entries: norms of weights that are declared rightly and wrongly, and a bound."""

    def __init__(self, monkeypatch):
        def entry(name, invariant, compute):
            return Measure(name, "planted", "", "", "", invariant, "weights", compute)

        squares = lambda s: float(sum(p.square().sum() for p in s.parameters.values()))  # noqa: E731
        own = {
            "honest": entry("honest", False, squares),
            "liar": entry("liar", True, squares),
            "still": entry("still", True, lambda s: 3.0),
            "sign": entry("sign", False, lambda s: squares(s) - self.start),
        }
        bound = Theorem("bound", "", "", "", lambda s, delta: (squares(s), {}))
        self.start = 0.0
        for target in (module, "truerisk.measures.table"):
            where = target if isinstance(target, str) else target.__name__
            monkeypatch.setattr(f"{where}.MEASURES", own)
            monkeypatch.setattr(f"{where}.BOUNDS", {"bound": bound})


@pytest.fixture
def planted(monkeypatch):
    return Planted(monkeypatch)


def test_a_wrong_declaration_is_seen(images, planted):
    found = audit(build("mlp"), images, times=3)
    assert found.wrongly_declared == ["liar"]
    assert found.fooled == ["honest", "liar", "sign", "bound"]
    assert found.moves["liar"].verdict.startswith("DECLARED WRONGLY as invariant: moved ")
    assert found.moves["honest"].verdict.startswith("fooled: moved ")
    assert found.moves["still"].verdict == "not fooled"
    assert (found.moves["bound"].kind, found.moves["bound"].family) == ("bound", "bounds")


def test_the_numbers_are_those_of_the_slow_way(images, planted):
    """Sums of squares before and after each rescaling, and the largest |log10| of their ratios."""
    from truerisk import find_symmetry
    from truerisk.seeds import derive

    net = build("mlp")
    sym = find_symmetry(net, torch.zeros(1, 1, 8, 8, dtype=torch.float64))

    def squares(network):
        return sum(float((p.detach() ** 2).sum()) for p in network.parameters())

    twins = [sym.rescale(net, sym.random(0.7, derive(4, "audit", k))) for k in range(3)]
    expected = max(abs(math.log10(squares(twin) / squares(net))) for twin in twins)
    found = audit(net, images, times=3, std=0.7, seed=4, only=["honest"])
    assert found.moves["honest"].orders == pytest.approx(expected, rel=1e-9)
    assert found.moves["honest"].value == pytest.approx(squares(net))
    assert list(found.moves) == ["honest"]


def test_the_number_after_is_that_of_the_rescaling_that_moved_it_most(images, planted):
    from truerisk import find_symmetry
    from truerisk.seeds import derive

    net = build("mlp")
    sym = find_symmetry(net, torch.zeros(1, 1, 8, 8, dtype=torch.float64))
    twins = [sym.rescale(net, sym.random(0.7, derive(4, "audit", k))) for k in range(3)]
    squares = [sum(float((p.detach() ** 2).sum()) for p in each.parameters()) for each in (net, *twins)]
    most = max(squares[1:], key=lambda after: abs(math.log(after / squares[0])))
    found = audit(net, images, times=3, std=0.7, seed=4, only=["honest", "still"])
    assert found.moves["honest"].after == pytest.approx(most, rel=1e-9)
    assert found.moves["still"].after == 3.0
    row = found.table.set_index("name").loc["honest"]
    assert (row["value"], row["after"]) == (found.moves["honest"].value, found.moves["honest"].after)
    assert row["after_log10"] - row["log10"] == pytest.approx(math.copysign(row["orders"], most - squares[0]))
    assert found.record()["moves"][0]["after"] == row["after"]


def test_numbers_beyond_floats_are_told_after_as_before():
    one, two = (Measures({"parameters": Value.of_log(log)}, {}, {}, 60, 3) for log in (1000.0, 1100.0))
    moved = module._compare(one, [two])["parameters"]
    assert before_after(moved) == ("10^434.3", "10^477.7")
    gone = module._compare(one, [Measures({}, {}, {"parameters": "why"}, 60, 3)])["parameters"]
    assert before_after(gone) == ("10^434.3", "not defined")
    row = module._row(gone)
    assert (row["log10"], row["after_log10"]) == (pytest.approx(1000 / math.log(10)), None)


def test_a_change_of_sign_is_told(images, planted):
    planted.start = sum(float((p.detach() ** 2).sum()) for p in build("mlp").parameters()) * (1 + 1e-3)
    moved = audit(build("mlp"), images, times=1).moves["sign"]
    assert moved.value < 0
    assert (moved.orders, moved.verdict) == (math.inf, "fooled: changed its sign")


def test_only_the_largest_move_counts_and_init_stays(images):
    net, start = build("mlp"), build("mlp", 1)
    found = audit(net, images, start, times=2, only=["distance-l2"])
    flat = torch.cat([(a - b).detach().flatten() for a, b in zip(net.parameters(), start.parameters(), strict=True)])
    assert found.before["distance-l2"] == pytest.approx(float(flat.norm()))
    assert found.moves["distance-l2"].fooled


def test_float32_networks_are_audited_in_float64(images):
    found = audit(build("convnet").float(), images, times=2, only=["path-norm-l2-squared", "cross-entropy"])
    assert found.change < 1e-12
    assert found.fooled == []


def test_distances_of_values():
    assert distance((math.inf, 5000.0), (math.inf, 5000.0 + 2 * math.log(10)))[0] == pytest.approx(2)
    assert distance((math.inf, None), (1.0, None)) == (math.inf, "left the range of floats")
    assert distance((0.0, None), (1.0, None))[0] == math.inf
    assert distance((1e-15, None), (-1e-14, None)) == (0.0, "")
    assert distance(None, None) == (0.0, "")


def test_table_and_record_are_plain(images, planted):
    planted.start = sum(float((p.detach() ** 2).sum()) for p in build("mlp").parameters()) * (1 + 1e-3)
    found = audit(build("mlp"), images, times=1)
    table = found.table.set_index("name")
    assert table.loc["liar", "verdict"].startswith("DECLARED WRONGLY")
    record = found.record()
    assert [row["name"] for row in record["moves"]] == list(found.moves)
    assert next(row for row in record["moves"] if row["name"] == "sign")["orders"] is None
    assert record["largest_change_of_an_output"] < 1e-9


@pytest.mark.parametrize(
    ("network", "settings", "message"),
    [
        ("linear", {}, "nothing in this network can be rescaled"),
        ("mlp", {"times": 0}, "at least 1"),
        ("mlp", {"std": 300.0}, r"--std is 300, but .*; rescale less, such as by --std 1\.$"),
        ("mlp", {"std": 0.0}, r"--std is 0, but must be a positive number; try --std 1\.$"),
        ("mlp", {"std": math.inf}, "--std is inf, but must be a positive number"),
        ("mlp", {"std": math.nan}, "--std is nan, but must be a positive number"),
        ("mlp", {"only": ["nonsense"]}, "no measure nonsense"),
    ],
)
def test_bad_calls(images, network, settings, message):
    with pytest.raises(TrueriskError, match=message):
        audit(build(network), images, **{"only": ["parameters"], "times": 1} | settings)


def test_a_value_that_comes_and_goes(images):
    """Defined before, not after: as bad as any move."""
    one = Measures({"parameters": Value(1.0)}, {}, {}, 60, 3)
    two = Measures({}, {}, {"parameters": "why"}, 60, 3)
    moved = module._compare(one, [two])["parameters"]
    assert moved.verdict == "DECLARED WRONGLY as invariant: is defined for some of the weights only"
    assert Subject(build("mlp"), images).n == one.n
