"""A first experiment of your own: do random labels among the training examples hurt, for small and for large networks?

Networks of one hidden layer learn two moons, with some labels replaced by random ones. Run it with:

    truerisk lab run examples/own_experiment.py

To make the threshold count, commit it before the first run: truerisk lab commit examples/own_experiment.py
"""

import torch

from truerisk.data import corrupt_labels
from truerisk.lab import OURS, POINTS, Axis, Claim, Experiment, Figure, Rule, at_least, product
from truerisk.lab.figure import averaged
from truerisk.lab.samples import samples
from truerisk.seeds import derive

SEEDS = range(5)


def grid() -> list[dict]:
    """One setting for each run. Plain values only, the seed among them."""
    return product({"n": 100, "n_test": 1000, "steps": 500}, width=(8, 256), replaced=(0.0, 0.3, 0.6), seed=SEEDS)


def task(setting: dict) -> dict:
    """One run: a pure function of its setting. It returns plain values; write float(...) around a tensor."""
    train, test = samples("moons", setting["n"], setting["n_test"], setting["seed"])
    train = corrupt_labels(train, setting["replaced"], derive(setting["seed"], "labels"))
    torch.manual_seed(derive(setting["seed"], "weights"))
    network = torch.nn.Sequential(
        torch.nn.Linear(2, setting["width"]), torch.nn.ReLU(), torch.nn.Linear(setting["width"], 2)
    )
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(setting["steps"]):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(X), y).backward()
        optimizer.step()
    with torch.no_grad():
        wrong = network(torch.from_numpy(test.X)).argmax(1) != torch.from_numpy(test.y)
    return {"test_error": float(wrong.float().mean())}


def harm(runs) -> float:
    """The effect: how much random labels add to the test error. `runs` are those of one seed and one width."""
    return runs.where(replaced=0.6).one("test_error") - runs.where(replaced=0.0).one("test_error")


EXPERIMENT = Experiment(
    name="own-experiment",
    title="Random labels and two moons",
    about="Networks learn two moons from 100 examples, some with random labels. Does the noise show on new examples?",
    papers=(),
    grids={"quick": grid},
    task=task,
    claims=(
        Claim(
            "harm",
            "Replacing 60% of the labels by random ones adds at least 5 points to the test error.",
            harm,
            at_least(5, POINTS),
            OURS,
            every=("width",),  # it must hold for each width
            counted_on="n_test",  # the error moves in steps of one test example
        ),
    ),
    figures=lambda rows: [
        Figure(
            name="error",
            title="Test error against replaced labels",
            caption="Mean over five seeds with its 95% interval. The test labels are true.",
            rows=averaged(rows, "test_error", "replaced", "width"),
            x=Axis("replaced", "labels replaced at random", percent=True),
            y=Axis("test_error", "test error", percent=True, zero=True),
            series="width",
            series_title="hidden units",
            low="low",
            high="high",
            rules=[Rule(0.5, "guessing")],
        )
    ],
)
