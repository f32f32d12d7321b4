"""A first experiment of your own: do random labels hurt on new examples?

Networks of one hidden layer learn two moons, some labels replaced by random ones.
Write down what you expect, then run it:

    truerisk lab commit examples/own_experiment.py
    truerisk lab run examples/own_experiment.py
"""

import torch

from truerisk.data import corrupt_labels
from truerisk.lab import (
    OURS,
    PERCENT,
    POINTS,
    Axis,
    Claim,
    Experiment,
    Figure,
    Finding,
    Lesson,
    Regions,
    at_least,
    product,
)
from truerisk.lab.samples import samples
from truerisk.seeds import derive

# ---- runs: a grid of settings, and a task for each of them


def quick() -> list[dict]:
    """One setting for each run. Plain values only, the seed among them."""
    how = {"n": 100, "n_test": 1000, "steps": 500}
    return product(how, width=(8, 256), replaced=(0.0, 0.3, 0.6), seed=range(5))


def smoke() -> list[dict]:
    """A few tiny runs that only show whether the program works."""
    how = {"n": 20, "n_test": 50, "steps": 5}
    return product(how, width=(8,), replaced=(0.0, 0.6), seed=(9,))


def trained(setting: dict):
    """The network of a setting, and its examples for training and testing."""
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
    return network, train, test


def task(setting: dict) -> dict:
    """One run, from its setting alone. Write float(...) around a tensor."""
    network, _, test = trained(setting)
    guesses = network(torch.from_numpy(test.X)).argmax(1).numpy()
    return {"test_error": float((guesses != test.y).mean())}


# ---- the claim: a number for each seed, and where it must lie


def harm(runs) -> float:
    """The effect, for the runs of one seed and one width: what noise adds."""
    noisy, clean = runs.where(replaced=0.6), runs.where(replaced=0.0)
    return noisy.one("test_error") - clean.one("test_error")


HARM = Claim(
    name="harm",
    says="With 60% random labels, the test error is at least 5 points higher.",
    effect=harm,
    wants=at_least(5, POINTS),
    whose=OURS,
    every=("width",),  # it must hold for each width
    counted_on="n_test",  # errors move in steps of one test example
)

# ---- the page: a headline for each verdict, figures, and a picture of the data

FINDING = Finding(
    ("harm",),
    reproduced="60% random labels raise the test error by at least {0.low}.",
    not_reproduced="60% random labels raise the error by only {0.mean} ({0.cell}).",
    no_verdict="60% random labels may raise the error by {0.mean} ({0.cell}).",
)


def figures(rows) -> list:
    """Raw rows, one per run: means and intervals over seeds are drawn for you."""
    error = Figure(
        name="error",
        title="Test error against replaced labels",
        caption="Share of new examples that are misclassified; their labels are true.",
        rows=rows,
        x=Axis("replaced", "training labels replaced", PERCENT),
        y=Axis("test_error", "test error", PERCENT, zero=True, counted_on="n_test"),
        series="width",
        series_title="hidden units",
        claims=("harm",),
    )
    return [error]


def demo(setting: dict) -> dict:
    """One more task, for the picture: which moon a network sees at each place."""
    places = [[-1.6 + i / 9, -1.3 + j / 9] for i in range(41) for j in range(28)]
    seen, examples = [], []
    for replaced in (0.0, 0.3, 0.6):
        network, train, _ = trained({**setting, "width": 256, "replaced": replaced})
        moons = network(torch.tensor(places)).argmax(1).tolist()
        seen += listed(places, moons, replaced)
        examples += listed(train.X.tolist(), train.y.tolist(), replaced)
    return {"seen": seen, "examples": examples}


def listed(points: list, moons: list, replaced: float) -> list[dict]:
    """Points of the plane as rows of a figure."""
    pairs = zip(points, moons, strict=True)
    common = {"replaced": replaced}
    return [{"x": x, "y": y, "moon": moon, **common} for (x, y), moon in pairs]


def pictures(record: dict) -> list:
    """From the record of the demo to exhibits."""
    moons = Figure(
        name="moons",
        title="Two moons as a network of 256 units sees them",
        caption="Points are training examples with the labels that the network gets; "
        "areas show its answer at each place. Islands are memorized labels.",
        rows=record["seen"],
        x=Axis("x", "first coordinate"),
        y=Axis("y", "second coordinate"),
        mark=Regions("moon", "moon"),
        slider=Axis("replaced", "training labels replaced", PERCENT),
        dots=record["examples"],
    )
    return [moons]


EXPERIMENT = Experiment(
    name="own-experiment",
    title="Random labels and two moons",
    about="Networks learn two moons with some random labels. Do new examples suffer?",
    papers=(),
    grids={"smoke": smoke, "quick": quick},
    task=task,
    claims=(HARM,),
    lesson=Lesson(figures, findings=(FINDING,), demo=demo, pictures=pictures),
)
