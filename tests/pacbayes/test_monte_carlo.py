"""The Gibbs risk by draws: against whole networks that are drawn one by one, and against arithmetic."""

import copy
import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

from truerisk.errors import TrueriskError
from truerisk.nets import cost
from truerisk.pacbayes import DrawPlan, Gaussian, draw_predictions, gibbs_risk, plan_draws
from truerisk.pacbayes import monte_carlo as mc


def mlp(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 3))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.out = nn.LSTM(1, 3, batch_first=True), nn.Linear(3, 3)

    def forward(self, x):
        return self.out(self.a(x[:, :, None])[0][:, -1])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.out = nn.MultiheadAttention(2, 1, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        x = torch.stack([x, x.flip(1)], dim=2)
        return self.out(self.a(x, x, x, need_weights=False)[0].flatten(1))


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return nn.functional.linear(x, self.fc.weight, self.fc.bias)


def tied():
    module = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    module[2].weight = module[0].weight
    return module


def twice():
    layer = nn.Linear(3, 3)
    return nn.Sequential(layer, nn.ReLU(), layer)


def problem(n=30, build=mlp, std=0.4):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3)).astype(np.float32)
    q = Gaussian.around(build(), std)
    with torch.no_grad():
        y = q.module(torch.from_numpy(X)).argmax(1).numpy()  # the mean is right, so the risk measures the widths
    y[::5] = (y[::5] + 1) % 3
    return q, X, y


def slow_risks(q, X, y, draws, seed=1):
    """Error rate of each drawn network, counted with plain comparisons: nothing from the package."""
    module = copy.deepcopy(q.module).double()
    parameters = {k: p for k, p in module.named_parameters() if p.requires_grad}
    generator = torch.Generator().manual_seed(seed)
    x, risks = torch.tensor(X, dtype=torch.float64), []
    with torch.no_grad():
        for _ in range(draws):
            for name, p in parameters.items():
                noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
                p.copy_(q.mean[name] + q.std[name] * noise)
            errors = 0
            for row, label in zip(module(x).tolist(), y.tolist(), strict=True):
                errors += any(value >= row[label] for k, value in enumerate(row) if k != label)
            risks.append(errors / len(y))
    return np.array(risks)


# Two estimates of one number; a right program differs by 5 standard errors with probability 6e-7. Ten such tests.
def agree(estimate, trials, risks):
    error = math.sqrt(0.25 / trials + risks.var() / len(risks))
    return abs(estimate - risks.mean()) < 5 * error


@pytest.mark.parametrize("build", [mlp, Recurrent, Attention, Functional, tied, twice])
def test_risk_is_that_of_drawn_networks(build):
    q, X, y = problem(build=build)
    plan = plan_draws(q, X)
    assert plan.layered == (build is mlp)
    plan = mc.replace(plan, passes=100)
    estimate = gibbs_risk(q, X, y, 5, plan)
    # Draws of one network for one example each: 3000 independent trials, whichever way they were made.
    assert plan.size == 1
    assert agree(estimate.risk, 3000, slow_risks(q, X, y, 1500))


def test_the_comparison_sees_a_wrong_risk():
    q, X, y = problem()
    narrow = Gaussian.around(q.module, 0.2)  # instead of 0.4
    estimate = gibbs_risk(narrow, X, y, 5, DrawPlan(30, 30, 1, 100, 8000, "float64", True))
    assert not agree(estimate.risk, 3000, slow_risks(q, X, y, 1500))


@pytest.mark.parametrize(("n", "size", "passes"), [(30, 7, 60), (30, 30, 200), (29, 10, 60)])
def test_groups_agree_with_drawn_networks(n, size, passes):
    """A group is one trial with values in [0, 1], so its variance is at most 1/4."""
    q, X, y = problem(n)
    groups = -(-n // size)
    estimate = gibbs_risk(q, X, y, 5, DrawPlan(n, groups, size, passes, size, "float64", False))
    assert agree(estimate.risk, groups * passes, slow_risks(q, X, y, 1500))


def test_layered_and_whole_draws_agree():
    q, X, y = problem()
    layered = gibbs_risk(q, X, y, 1, DrawPlan(30, 30, 1, 400, 1000, "float64", True))
    whole = gibbs_risk(q, X, y, 2, DrawPlan(30, 30, 1, 200, 1, "float64", False))
    # 12,000 and 6,000 independent trials: 5 standard errors
    assert abs(layered.risk - whole.risk) < 5 * math.sqrt(0.25 / 12_000 + 0.25 / 6_000)


def test_a_group_shares_one_network_and_groups_do_not():
    """The same example everywhere: inside a group all answers are equal, between groups they differ."""
    q, X, _ = problem(n=21)
    X[:] = X[0]
    plan = DrawPlan(21, 3, 7, 4, 7, "float64", False)
    outs = [logits for _, logits in mc.drawn_logits(q, X, 3, plan)]
    assert len(outs) == 12
    assert all((o - o[:1]).abs().max() < 1e-12 for o in outs)
    firsts = torch.stack([o[0] for o in outs])
    assert len({tuple(row.tolist()) for row in firsts}) == 12


def test_layered_draws_are_all_different():
    q, X, _ = problem(n=21)
    X[:] = X[0]
    outs = torch.cat([logits for _, logits in mc.drawn_logits(q, X, 3, DrawPlan(21, 21, 1, 4, 10, "float64", True))])
    assert len({tuple(row.tolist()) for row in outs}) == 84


@pytest.mark.parametrize(
    "plan",
    [
        DrawPlan(30, 30, 1, 3, 7, "float64", True),
        DrawPlan(30, 30, 1, 4, 8000, "float64", True),
        DrawPlan(30, 30, 1, 1, 1, "float64", True),
        DrawPlan(30, 5, 7, 3, 7, "float64", False),
        DrawPlan(30, 30, 1, 2, 1, "float64", False),
        DrawPlan(30, 1, 30, 3, 30, "float64", False),
    ],
)
def test_every_row_is_visited_once_a_pass(plan):
    q, X, _ = problem()
    visited, sizes = [], []
    for rows, logits in mc.drawn_logits(q, X, 0, plan):
        assert len(rows) == len(logits)
        visited += rows.tolist()
        sizes.append(len(rows))
    assert Counter(visited) == dict.fromkeys(range(30), plan.passes)
    if not plan.layered:
        assert len(sizes) == plan.groups * plan.passes
        assert max(sizes) <= plan.size


def test_same_seed_same_count():
    q, X, y = problem()
    plan = DrawPlan(30, 30, 1, 20, 7, "float64", True)
    counts = [gibbs_risk(q, X, y, seed, plan) for seed in (1, 1, 2, 3)]
    assert counts[0] == counts[1]
    assert len({c.errors for c in counts}) > 1
    before = torch.random.get_rng_state()
    gibbs_risk(q, X, y, 1, plan)
    assert torch.equal(before, torch.random.get_rng_state())


def test_upper_is_above_the_risk_and_shrinks_with_delta():
    q, X, y = problem()
    for plan in (DrawPlan(30, 30, 1, 10, 7, "float64", True), DrawPlan(30, 5, 7, 10, 7, "float64", False)):
        estimate = gibbs_risk(q, X, y, 1, plan)
        assert estimate.risk == estimate.errors / 300
        assert estimate.risk < estimate.upper(0.5) < estimate.upper(0.01) <= 1.0


@pytest.mark.long
def test_upper_covers_the_true_risk():
    """200 repetitions at delta = 0.2: at most 40 misses are expected, 71 or more have probability 2e-07 at worst."""
    q, X, y = problem(n=12)
    truth = slow_risks(q, X, y, 6000).mean()
    plan = DrawPlan(12, 12, 1, 1, 12, "float64", True)
    misses = sum(gibbs_risk(q, X, y, seed, plan).upper(0.2) < truth for seed in range(200))
    assert misses < 71
    grouped = DrawPlan(12, 2, 7, 1, 7, "float64", False)
    misses = sum(gibbs_risk(q, X, y, seed, grouped).upper(0.2) < truth for seed in range(200))
    assert misses < 71


def test_ties_count_as_errors():
    """Widths so small that float64 sums drop them: all logits are exactly 1. Layer by layer, they are refused."""
    module = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 3))
    with torch.no_grad():
        module[2].weight.zero_()
        module[2].bias.fill_(1.0)
    q = Gaussian.around(module, 1e-30)
    X = np.ones((10, 3), dtype=np.float32)
    assert not plan_draws(q, X).layered
    estimate = gibbs_risk(q, X, np.zeros(10, dtype=np.int64), 0, DrawPlan(10, 10, 1, 2, 1, "float64", False))
    assert (estimate.errors, estimate.near_ties) == (20, 20)
    assert estimate.upper(0.05) == 1.0
    with pytest.raises(TrueriskError, match="rounding would decide"):
        gibbs_risk(q, X, np.zeros(10, dtype=np.int64), 0, DrawPlan(10, 10, 1, 2, 10, "float64", True))


def test_a_certain_network_makes_the_errors_of_its_mean():
    q, X, _ = problem()
    sharp = Gaussian.around(q.module, 1e-7)
    with torch.no_grad():
        y = q.module(torch.from_numpy(X)).argmax(1).numpy()
    y[:4] = (y[:4] + 1) % 3
    plan = DrawPlan(30, 30, 1, 2, 7, "float64", True)
    assert gibbs_risk(sharp, X, y, 0, plan).errors == 8


@pytest.mark.parametrize("n", [29, 31])
def test_a_plan_for_other_data_is_refused(n):
    """A plan for fewer examples would silently leave the last ones out of the risk."""
    q, X, y = problem()
    with pytest.raises(TrueriskError):
        gibbs_risk(q, X, y, 0, DrawPlan(n, n, 1, 1, 7, "float64", True))


def test_a_layered_plan_for_a_network_that_can_t_be_layered_is_no_small_risk():
    """Such a plan can only come from a forged certificate."""
    q, X, y = problem(build=Functional)
    try:
        estimate = gibbs_risk(q, X, y, 0, DrawPlan(30, 30, 1, 1, 7, "float64", True))
    except Exception:
        return
    assert estimate.errors == 30


# Inputs and labels of any kind


@pytest.mark.parametrize(
    "inputs", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int16]
)
@pytest.mark.parametrize("labels", [torch.int64, torch.int32, torch.uint8, torch.float32])
def test_tensors_and_arrays_give_the_same_count(inputs, labels):
    """Whole numbers that all of these types can hold."""
    q, X, y = problem()
    X = np.round(4 * X)
    plain = gibbs_risk(q, X, y, 3, draws=300)
    assert gibbs_risk(q, torch.from_numpy(X).to(inputs), torch.from_numpy(y).to(labels), 3, draws=300) == plain
    as_arrays = torch.from_numpy(X).to(inputs), torch.from_numpy(y).to(labels).numpy()
    assert gibbs_risk(q, as_arrays[0].float().numpy(), as_arrays[1], seed=3, draws=300) == plain
    assert 0 < plain.errors < 300


def test_bytes_are_divided_by_255_as_in_all_data():
    q, X, y = problem()
    pixels = np.abs(100 * X).clip(0, 255).astype(np.uint8)
    expected = gibbs_risk(q, pixels.astype(np.float32) / np.float32(255), y, draws=300)
    assert gibbs_risk(q, torch.from_numpy(pixels), y, draws=300) == expected
    assert gibbs_risk(q, pixels.astype(np.float32), y, draws=300) != expected


def test_token_ids_stay_integers():
    torch.manual_seed(0)
    q = Gaussian.around(nn.Sequential(nn.EmbeddingBag(5, 3), nn.Linear(3, 2)), 0.5)
    tokens = torch.randint(5, (40, 4))
    assert gibbs_risk(q, tokens, torch.zeros(40), draws=400).predictions == 400
    assert (
        gibbs_risk(q, tokens.int().numpy(), np.zeros(40), draws=400).risk
        == gibbs_risk(q, tokens, np.zeros(40), draws=400).risk
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros((30, 1))}, r"labels of shape \(30, 1\)"),
        ({"y": torch.full((30,), 0.5)}, "label"),
        ({"y": torch.full((30,), 3)}, "label 3 is beyond the 3 outputs"),
        ({"y": torch.full((30,), -2)}, "label -2 is negative"),
        ({"y": np.zeros(29)}, "30 inputs but 29 labels"),
        ({"y": np.array(["a"] * 30)}, "not integers"),
        ({"X": np.zeros((0, 3)), "y": np.zeros(0)}, "X holds no examples"),
        ({"X": np.array([["a"] * 3] * 30)}, "turn them into real numbers"),
        ({"draws": 10, "plan": DrawPlan(30, 30, 1, 1, 7, "float64", True)}, "give one of them"),
    ],
)
def test_bad_input_is_told(change, message):
    q, X, y = problem()
    with pytest.raises(TrueriskError, match=message):
        gibbs_risk(q, **({"X": X, "y": y} | change))


def test_draws_of_a_risk_are_those_of_a_plan():
    q, X, y = problem()
    assert gibbs_risk(q, X, y, draws=100) == gibbs_risk(q, X, y, 0, plan_draws(q, X, 100))
    assert gibbs_risk(q, X, y, draws=100).draws == 120  # four passes over 30 examples


def test_an_estimate_reads_as_a_sentence():
    """Observed rates are rounded to the nearest, upper ends up."""
    estimate = mc.GibbsEstimate(73, 0, 73, DrawPlan(898, 449, 2, 3, 7, "float64", False))
    assert str(estimate).startswith(
        "observed Gibbs risk 0.0271: 73 errors in 2,694 predictions by 1,347 sampled networks; at most 0."
    )
    told = float(str(estimate).split("at most ")[1].split()[0])
    assert estimate.upper(0.05) <= told < estimate.upper(0.05) + 1e-4


# Predictions


def test_predictions_repeat_and_are_those_of_the_network():
    q, X, _ = problem()
    first, again, other = (draw_predictions(q, X, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    with torch.no_grad():
        mean = q.module(torch.from_numpy(X)).argmax(1).numpy()
    assert np.array_equal(draw_predictions(Gaussian.around(q.module, 1e-12), X, 0), mean)


def test_predictions_are_right_as_often_as_the_gibbs_risk_says():
    q, X, y = problem(n=3000)
    risk = gibbs_risk(q, X, y, 0, mc.replace(plan_draws(q, X), passes=10)).risk
    wrong = (draw_predictions(q, X, 9) != y).mean()
    assert abs(wrong - risk) < 5 * math.sqrt(0.25 / 3000 + 0.25 / 30_000)  # 5 standard errors: 6e-7


# Plans


@pytest.mark.parametrize("build", [mlp, Functional, tied])
@pytest.mark.parametrize(
    ("normals", "products"),
    [(10, 10**11), (100, 10**3), (1000, 10**5), (3000, 10**11), (10**6, 10**5), (10**9, 10**3), (10**9, 10**11)],
)
def test_plans_keep_their_budget_and_cover_everything(monkeypatch, build, normals, products):
    monkeypatch.setattr(mc, "NORMALS", normals)
    monkeypatch.setattr(mc, "PRODUCTS", products)
    monkeypatch.setattr(mc, "TRIALS", 600)
    q, X, y = problem(build=build)
    plan = plan_draws(q, X)
    assert plan.n == 30
    assert plan.groups * plan.size >= 30
    assert (plan.groups - 1) * plan.size < 30  # no empty group
    assert plan.passes >= 1
    assert plan.passes == 1 or plan.passes * 30 <= 600
    assert plan.passes == 1 or plan.passes * 30 * q.size <= products
    if not plan.layered:
        assert plan.size == 1 or (plan.groups - 1) * q.size <= normals
        assert plan.passes == 1 or plan.passes * plan.groups * q.size <= normals
    else:
        assert (plan.size, plan.groups) == (1, 30)
    visited = Counter(int(r) for rows, _ in mc.drawn_logits(q, X, 0, plan) for r in rows)
    assert visited == dict.fromkeys(range(30), plan.passes)
    assert 0 < gibbs_risk(q, X, y, 0, plan).upper(0.05) <= 1.0


def test_small_budgets_move_to_groups(monkeypatch):
    q, X, _ = problem()
    assert plan_draws(q, X).layered
    monkeypatch.setattr(mc, "NORMALS", 100)
    plan = plan_draws(q, X)
    assert not plan.layered
    assert plan.size == math.ceil(30 / max(1, 100 // q.size))
    tied_q, tied_X, _ = problem(build=tied)
    monkeypatch.setattr(mc, "NORMALS", 10**9)
    monkeypatch.setattr(mc, "NETWORKS", 15)
    plan = plan_draws(tied_q, tied_X)
    assert (plan.layered, plan.groups, plan.size, plan.passes) == (False, 15, 2, 1)


def test_precision_follows_the_network():
    class Single(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(x.float())

    q, X, y = problem()
    assert plan_draws(q, X).precision == "float64"
    single = Gaussian.around(Single(), 0.1)
    plan = mc.replace(plan_draws(single, X), passes=1)
    assert plan.precision == "float32"
    gibbs_risk(single, X, y, 0, plan)


# ---- what draws cost -------------------------------------------------------------------------------------------


def convolutions():
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 64, 3))


def test_a_kernel_counts_at_each_of_its_positions():
    X = np.zeros((5, 1, 8, 8), np.float32)
    assert cost.products(convolutions(), X) == 64 * 4 * 9 + 3 * 4 * 64
    assert cost.products(nn.Linear(7, 3), np.zeros((5, 7), np.float32)) == 21
    assert cost.products(nn.Linear(7, 3), np.zeros((5, 8), np.float32)) == 0  # it does not run
    assert cost.steps(convolutions()) == 4


def test_passes_follow_from_multiplications_not_from_weights(monkeypatch):
    """A convolution of few weights is not a cheap one."""
    q = Gaussian.around(convolutions(), 0.1)
    X = np.random.default_rng(0).standard_normal((30, 1, 8, 8)).astype(np.float32)
    each = cost.products(q.module, X)
    assert each > 3 * q.size
    monkeypatch.setattr(mc, "PRODUCTS", 7 * 30 * each)
    assert plan_draws(q, X).passes == 7
    monkeypatch.setattr(mc, "PRODUCTS", 1)
    assert plan_draws(q, X).passes == 1  # never less: each example needs an answer


def test_deep_networks_get_fewer_whole_draws(monkeypatch):
    q, X, _ = problem(build=tied)
    assert not plan_draws(q, X).layered
    monkeypatch.setattr(mc, "STEPS", 5 * cost.steps(q.module))
    assert plan_draws(q, X).groups == 5


@pytest.mark.parametrize(("draws", "passes"), [(1, 1), (30, 1), (31, 2), (3000, 100)])
@pytest.mark.parametrize("build", [mlp, tied])
def test_a_number_of_draws_is_a_number_of_passes(build, draws, passes):
    q, X, _ = problem(build=build)
    plan = plan_draws(q, X, draws)
    assert plan.passes == passes
    assert mc.replace(plan, passes=1) == mc.replace(plan_draws(q, X), passes=1)  # nothing else changes


def test_more_draws_than_anyone_waits_for_are_refused(monkeypatch):
    monkeypatch.setattr(mc, "TRIALS", 60)
    q, X, _ = problem(build=tied)
    assert plan_draws(q, X, 30 * 2 * mc.MORE).passes == 2 * mc.MORE
    with pytest.raises(TrueriskError, match=r"but at most 6,000 for this network and data; give fewer"):
        plan_draws(q, X, 30 * 2 * mc.MORE + 1)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_fused_kernels_are_counted_as_what_they_do():
    class Attention(nn.Module):
        def __init__(self, mkldnn=True):
            super().__init__()
            self.layer, self.lstm = (
                nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
                nn.LSTM(8, 5, batch_first=True),
            )

        def forward(self, x):
            return self.lstm(self.layer(x))[0][:, -1]

    X = np.zeros((2, 6, 8), np.float32)
    found = cost.products(Attention().eval(), X)
    assert found > 6 * (4 * 8 * 8 + 2 * 8 * 16) + 6 * 4 * 5 * (8 + 5) - 1
    with torch.backends.mkldnn.flags(enabled=False):
        assert cost.products(Attention().eval(), X) == found


def test_a_plan_does_not_depend_on_labels_values_or_time(monkeypatch):
    q, X, _ = problem()
    monkeypatch.setattr(mc.time, "monotonic", lambda: 1 / 0)
    assert plan_draws(q, X) == plan_draws(q, -3 * X[::-1].copy())


def test_long_sampling_is_announced(monkeypatch, capsys):
    monkeypatch.setattr("truerisk.progress._enabled", True)
    monkeypatch.setattr(mc, "LONG", 0.0)
    monkeypatch.setattr(mc, "CHUNK_ROWS", 10)
    q, X, y = problem()
    gibbs_risk(q, X, y, 0, plan_draws(q, X, 300))
    assert "note: sampling 300 predictions takes about 0 s; --draws sets the number." in capsys.readouterr().err


@pytest.mark.parametrize("draws", [0, -5])
def test_no_draws_are_refused(draws):
    q = Gaussian.zero(nn.Linear(2, 2), 1.0)
    with pytest.raises(TrueriskError, match=f"draws is {draws}, but must be at least 1"):
        gibbs_risk(q, torch.ones(5, 2), torch.zeros(5), draws=draws)


def test_one_output_is_refused():
    """The largest of one output is always class 0: labels that are all 0 would have a risk of 0."""
    q = Gaussian.zero(nn.Linear(2, 1), 1.0)
    with pytest.raises(TrueriskError, match="make it two logits"):
        gibbs_risk(q, torch.ones(5, 2), torch.zeros(5), draws=50)
