"""The lesson of `vanishing-gradients`: factors that multiply, through layers and through time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from truerisk.lab.depth_effects import LONG
from truerisk.lab.depth_runs import ARMS, keep
from truerisk.lab.experiment import Setting
from truerisk.lab.figure import Axis, Exhibit, Figure, Rule
from truerisk.lab.lesson import Finding, Formula, Lesson, Question
from truerisk.lab.marks import Bars, Line, Slope
from truerisk.lab.rows import Row, Rows
from truerisk.lab.units import PERCENT
from truerisk.nets.deep import deep_mlp
from truerisk.seeds import derive, seeded_globals

HERO = {  # arm -> name in the hero
    "sigmoid, Xavier": "sigmoid",
    "ReLU, small start": "ReLU, small start",
    "tanh, small start": "tanh, small start",
    "ReLU, Xavier": "ReLU, Xavier's start",
    "ReLU, He": "ReLU, He's start",
    "ReLU, He, batch norm": "ReLU, batch norm",
}
NETS = {False: "plain", True: "with shortcuts"}
DEPTH = Axis("depth", "hidden layers")


def figures(rows: Rows) -> Sequence[Exhibit]:
    done = rows.converged()
    kinds: dict[str, list[Row]] = {kind: [] for kind in ("gradients", "deep", "plain", "state", "memory")}
    for row in done:
        kinds[row["kind"]].append(row)
    found: list[Exhibit] = [_signals(kinds["gradients"]), _weights(kinds["gradients"]), _deep(kinds["deep"])]
    if kinds["plain"] or not len(rows):
        found += [_plain(kinds["plain"]), _reach(kinds["plain"])]
    if kinds["state"] or not len(rows):
        found += [_state(kinds["state"]), _memory(kinds["memory"])]
    return found


def _unrolled(runs: Sequence[Row], field: str, arms: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"depth": depth, "ratio": max(ratio, 1e-30), "arm": arms[run["arm"]], "seed": run["seed"]}
        for arm in arms
        for run in runs
        if run["arm"] == arm
        for depth, ratio in zip(run["depths"], run[field], strict=True)
    ]


def _signals(runs: Sequence[Row]) -> Figure:
    return Figure(
        "signals",
        "How much of the gradient arrives at the first hidden layer?",
        "Norm of the gradient at the first hidden layer over that at the last, at the start, against the number of "
        "hidden layers. At 1 all of it arrives. A straight line means one factor per layer: gradients vanish or "
        "explode exponentially.",
        _unrolled(runs, "signals", HERO),
        DEPTH,
        Axis("ratio", "first gradient over the last", log=True),
        mark=Line(),
        series="arm",
        series_title="network",
        rules=[Rule(1.0, "all arrives")],
        claims=("scaled-starts-keep", "xavier-halves", "batch-norm-explodes"),
    )


def _weights(runs: Sequence[Row]) -> Figure:
    arms = {arm: arm for arm in ("ReLU, small start", "ReLU, Xavier", "ReLU, He", "ReLU, small start, skips",
                                 "ReLU, He, layer norm", "ReLU, He, batch norm, skips")}  # fmt: skip
    return Figure(
        "weights",
        "Do skips and norms restore the gradient of the first layer?",
        "Norm of the gradient of the first matrix between hidden layers over that of the last, against depth, for ReLU "
        "networks. With Xavier's start it stays near 1, because small signals and small inputs cancel in the "
        "ratio; small biases break that.",
        _unrolled(runs, "weights", arms),
        DEPTH,
        Axis("ratio", "gradient of the first matrix over the last", log=True),
        mark=Line(),
        series="arm",
        series_title="network",
        rules=[Rule(1.0, "equal")],
        claims=("small-starts-vanish", "skips-restore"),
    )


def _deep(runs: Sequence[Row]) -> Figure:
    depth = runs[0]["depth"] if runs else 30
    return Figure(
        "deep",
        f"Which networks with {depth} layers learn?",
        "Training loss after a fixed number of steps of the same SGD, for three starts of the same ReLU network. "
        "Guessing one of ten classes has a loss of 2.3. A start that loses the signal leaves the network there.",
        [{**run, "name": run["arm"].removeprefix("ReLU, ")} for run in runs],
        Axis("name", "network", ordinal=True),
        Axis("loss", "training loss", zero=True),
        mark=Bars(),
        claims=("he-start-learns", "norm-and-skips-learn"),
    )


def _plain(runs: Sequence[Row]) -> Figure:
    made = sorted(runs, key=lambda run: (run["depth"], run["residual"]))
    return Figure(
        "plain",
        "Do more layers lower the training error?",
        "Training error of convolutional networks of 18 and 34 layers with batch norm, after as many steps, with "
        "shortcuts and without. A deeper network could copy the shallower one, so a line that rises is a failure of "
        "optimization, not of capacity.",
        [{**run, "layers": f"{run['depth']} layers", "net": NETS[run["residual"]]} for run in made],
        Axis("layers", "network", ordinal=True),
        Axis("train_error", "training error", PERCENT, zero=True, counted_on="n"),
        mark=Slope(),
        series="net",
        series_title="network",
        claims=("plain-degrades", "residual-gains", "shortcuts-close-gap"),
    )


def _reach(runs: Sequence[Row]) -> Figure:
    made = sorted(runs, key=lambda run: (run["depth"], run["residual"]))
    return Figure(
        "reach",
        "Do gradients vanish in the plain network?",
        "Norm of the gradient of the first block's first layer over that of the last layer, at the start. "
        "Above 1 the first layers get the larger gradients. If vanishing gradients caused the rise above, "
        "the plain network with 34 layers would lie far below 1.",
        [{**run, "layers": f"{run['depth']} layers", "net": NETS[run["residual"]]} for run in made],
        Axis("layers", "network", ordinal=True),
        Axis("reach", "first gradient over the last", log=True),
        mark=Slope(),
        series="net",
        series_title="network",
        rules=[Rule(1.0, "equal")],
        claims=("not-vanishing",),
    )


def _state(runs: Sequence[Row]) -> Figure:
    made = [
        {"time": time, "size": 10.0**log, "cell": run["cell"], "seed": run["seed"]}
        for run in runs
        for time, log in zip(run["times"], run["logs"], strict=True)
    ]
    return Figure(
        "state",
        "How long does a recurrent network remember?",
        "Norm of the derivative of the state after T steps by the first state, against T, at the start, for random "
        "inputs. At 1 a change of the first state is still there in full. A straight line loses the same share "
        "in each step.",
        made,
        Axis("time", "steps T"),
        Axis("size", "norm of the derivative", log=True),
        mark=Line(),
        series="cell",
        series_title="cell",
        rules=[Rule(1.0, "nothing lost")],
        claims=("state-vanishes", "longer-memory"),
    )


def _memory(runs: Sequence[Row]) -> Figure:
    made = [{**run, "steps_name": f"{run['length']} steps"} for run in sorted(runs, key=lambda run: run["length"])]
    return Figure(
        "memory",
        "Which cells learn to remember the first input?",
        "Error of recurrent networks that must name the first input of a sequence, after as many steps of Adam; all "
        f"later inputs are noise. Guessing errs on half. Compare {LONG} steps with the derivatives above.",
        made,
        Axis("cell", "cell", ordinal=True),
        Axis("test_error", "error on new sequences", PERCENT, zero=True, counted_on=1000),
        mark=Bars(),
        series="steps_name",
        series_title="length",
        claims=("gates-remember",),
    )


# ---- pictures ------------------------------------------------------------------------------------------------------

LAYERS, WIDTH, CLASSES = 20, 32, 10


def demo(setting: Setting) -> dict[str, Any]:
    """Norms of the gradient at every hidden layer of one network of each kind, for random inputs and labels."""
    found = {}
    for arm in HERO:
        with seeded_globals(derive(setting["seed"], "demo", arm)):
            net = deep_mlp((16,), CLASSES, LAYERS, WIDTH, **ARMS[arm]).double().train()
            X, y = torch.randn(64, 16, dtype=torch.float64), torch.randint(0, CLASSES, (64,))
        hidden: list[torch.Tensor] = []
        for layer in list(net.children())[1:-1]:
            layer.register_forward_hook(keep(hidden))
        torch.nn.functional.cross_entropy(net(X), y).backward()
        last = hidden[-1].grad
        assert last is not None
        found[arm] = [float(f"{float(h.grad.norm() / last.norm()):.4g}") for h in hidden if h.grad is not None]
    return {"layers": found}


def pictures(record: dict[str, Any]) -> Sequence[Exhibit]:
    rows = [
        {"layer": k, "size": size, "arm": HERO[arm]}
        for arm, sizes in record.get("layers", {}).items()
        for k, size in enumerate(sizes, 1)
    ]
    if not rows:
        return []
    return [
        Figure(
            "walk",
            f"What happens on the way back through {LAYERS} layers?",
            "Norm of the gradient at each hidden layer of one network, relative to the last layer, for random inputs. "
            "Backpropagation walks from right to left; each step multiplies by about the same factor.",
            rows,
            Axis("layer", "hidden layer"),
            Axis("size", "gradient over that of the last layer", log=True),
            Line(),
            series="arm",
            series_title="network",
            group=None,
            claims=("small-starts-vanish",),
        )
    ]


LESSON = Lesson(
    figures=figures,
    hero="signals",
    findings=(
        Finding(
            ("xavier-halves", "scaled-starts-keep"),
            "Xavier's start shrinks gradients to {0.mean} their size per ReLU layer; He's does not.",
            "Gradients do not change from layer to layer as published; see the table.",
            "How much gradient each layer loses is not settled at this scale.",
        ),
    ),
    demo=demo,
    pictures=pictures,
    questions=(
        Question(
            "Does the plain network with 34 layers still fail on color images with more steps?",
            "truerisk lab run vanishing-gradients --scale medium",
        ),
        Question(
            "Does the loss of gradients depend on the data, or on the network alone?",
            "truerisk lab run vanishing-gradients --data mnist1d",
        ),
        Question(
            "Which of these remedies improves the conditioning of the loss most?",
            "truerisk lab run conditioning",
        ),
    ),
    formulas=(
        Formula(
            r"\delta_l = D_l W_{l+1}^\top \delta_{l+1}, \quad \delta_1 = D_1 W_2^\top \cdots W_L^\top \delta_L",
            "Backpropagation multiplies by one matrix and the slopes D of the activation function in each layer.",
        ),
        Formula(
            r"\mathrm{E} \| \delta_l \|^2 = \tfrac{1}{2} \, n \, \mathrm{var}(W) \; \mathrm{E} \| \delta_{l+1} \|^2",
            "With ReLU half of the slopes are 0, so weights of variance 2/n keep the signal, and 1/n halve its square.",
        ),
        Formula(
            r"\frac{\partial h_T}{\partial h_0} = \prod_{t=1}^{T} D_t W",
            "In a recurrent network the same matrix appears in every step.",
        ),
    ),
)
