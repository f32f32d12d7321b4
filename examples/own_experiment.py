"""A first experiment of your own: do random labels hurt on new examples?

Networks of one hidden layer learn two moons, some labels replaced by random ones.
Write down what you expect, then run it:

    truerisk lab commit examples/own_experiment.py
    truerisk lab run examples/own_experiment.py
"""

import torch

from truerisk.data import corrupt_labels
from truerisk.lab import OURS, POINTS, Axis, Claim, Experiment, Figure, at_least
from truerisk.lab.experiment import product
from truerisk.lab.figure import averaged
from truerisk.lab.samples import samples
from truerisk.seeds import derive


def quick() -> list[dict]:
    """One setting for each run. Plain values only, the seed among them."""
    how = {"n": 100, "n_test": 1000, "steps": 500}
    return product(how, width=(8, 256), replaced=(0.0, 0.3, 0.6), seed=range(5))


def smoke() -> list[dict]:
    """A few tiny runs that only show whether the program works."""
    how = {"n": 20, "n_test": 50, "steps": 5}
    return product(how, width=(8,), replaced=(0.0, 0.6), seed=(9,))


def task(setting: dict) -> dict:
    """One run, from its setting alone. Write float(...) around a tensor."""
    seed, width = setting["seed"], setting["width"]
    train, test = samples("moons", setting["n"], setting["n_test"], seed)
    train = corrupt_labels(train, setting["replaced"], derive(seed, "labels"))
    torch.manual_seed(derive(seed, "weights"))
    first, last = torch.nn.Linear(2, width), torch.nn.Linear(width, 2)
    network = torch.nn.Sequential(first, torch.nn.ReLU(), last)
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.y)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(setting["steps"]):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(X), y).backward()
        optimizer.step()
    with torch.no_grad():
        guesses = network(torch.from_numpy(test.X)).argmax(1)
    return {"test_error": float((guesses.numpy() != test.y).mean())}


def harm(runs) -> float:
    """The effect, for the runs of one seed and one width: what noise adds."""
    noisy, clean = runs.where(replaced=0.6), runs.where(replaced=0.0)
    return noisy.one("test_error") - clean.one("test_error")


EXPERIMENT = Experiment(
    name="own-experiment",
    title="Random labels and two moons",
    about="Networks learn two moons, some labels being random. Does it show?",
    papers=(),
    grids={"smoke": smoke, "quick": quick},
    task=task,
    claims=(
        Claim(
            name="harm",
            says="With 60% random labels, the test error is at least 5 points higher.",
            effect=harm,
            wants=at_least(5, POINTS),
            whose=OURS,
            every=("width",),  # it must hold for each width
            counted_on="n_test",  # errors move in steps of one test example
        ),
    ),
    figures=lambda rows: [
        Figure(
            name="error",
            title="Test error against replaced labels",
            caption="Mean and 95% interval over five seeds. Test labels are true.",
            rows=averaged(rows, "test_error", "replaced", "width"),
            x=Axis("replaced", "labels replaced", percent=True),
            y=Axis("test_error", "test error", percent=True, zero=True),
            series="width",
            series_title="hidden units",
            low="low",
            high="high",
        )
    ],
)
