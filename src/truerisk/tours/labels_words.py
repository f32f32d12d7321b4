"""Act 1 in words: one text for each outcome of the two trainings."""

from __future__ import annotations

from truerisk import words
from truerisk.tours.act import Act
from truerisk.tours.labels import Labels, Network
from truerisk.tours.numbers import factor, lower, points, seen, short, upper, value_text


def tell_labels(found: Labels, delta: float) -> Act:
    true, random = found.true_labels, found.random_labels
    return Act(
        question="Learned or memorized?",
        answer=_labels_answer(found),
        text=(_fit_sentences(found), _unseen_sentences(found)),
        brief=f"{_fit_sentences(found)} {_short_unseen(found)}",
        code="print(truerisk.certify(build, data, two_sided=True).sentence)",
        yours="The interval for your own network; build is a function that makes it, data the pair (X, y):",
        caption=_labels_caption(found, delta),
        table=_measures_table(true, random),
        notes=_measures_sentences(true, random),
    )


def _labels_answer(found: Labels) -> str:
    true, random = found.true_labels, found.random_labels
    if found.apart:
        least, most = lower(random.risk_lower), upper(true.risk_upper)
        return f"One misclassifies at most {most} of unseen examples, the other at least {least}."
    return "The two certified intervals overlap, so they do not tell the networks apart."


def _fit_sentences(found: Labels) -> str:
    """Training errors: whether both networks interpolate, one of them, or neither."""
    true, random = found.true_labels, found.random_labels
    alike = "Two networks of one shape are trained alike, one on true labels and one on random labels."
    if found.fitted:
        return f"{alike} Both interpolate: they classify all {true.n_train:,} training examples correctly."
    if random.train_error == 0:
        return (
            f"{alike} The second classifies all {random.n_train:,} training examples correctly. After {true.epochs:,} "
            f"epochs the first still errs on {seen(true.train_error)} of its own."
        )
    if true.train_error == 0:
        return (
            f"{alike} The first classifies all {true.n_train:,} training examples correctly. After {random.epochs:,} "
            f"epochs the second still errs on {seen(random.train_error)} of its own: it has not memorized them all."
        )
    return (
        f"{alike} After {random.epochs:,} epochs the first still errs on {seen(true.train_error)} of its "
        f"{true.n_train:,} training examples, the second on {seen(random.train_error)}: neither fits them all."
    )


def _unseen_sentences(found: Labels) -> str:
    true, random = found.true_labels, found.random_labels
    if not found.apart:
        return f"{_short_unseen(found)} These intervals overlap; more test examples than {true.n_test:,} shorten them."
    point = "The training error is the same for both, but unseen examples tell them apart." if found.fitted else ""
    gap = (
        f" The second network does at least {points(random.gap_lower)} worse than on its own examples, and that gap is "
        "certified."
    )
    return f"{point} {_short_unseen(found)}{gap if random.gap_lower > 0 else ''}".strip()


def _short_unseen(found: Labels) -> str:
    true, random = found.true_labels, found.random_labels
    if found.apart:
        doubt = f" Always giving the most common class errs on {seen(found.guess)}: the first may have learned nothing."
        return (
            f"On unseen examples the first network errs on at most {upper(true.risk_upper)}, the second on at least "
            f"{lower(random.risk_lower)}.{'' if found.learned else doubt}"
        )
    return f"On unseen examples the first network errs on {interval(true)}, the second on {interval(random)}."


def _labels_caption(found: Labels, delta: float) -> str:
    sure = words.confidence_percent(delta)
    true = found.true_labels
    return (
        f"Dots: error on {true.n_train:,} training examples. Bars: certified interval for the error on unseen examples,"
        f" from {true.n_test:,} test examples ({sure} confidence for each bar); dashed: guessing. If fitting were "
        "learning, both bars would lie near the dots."
    )


def _measures_table(true: Network, random: Network) -> tuple[tuple[str, str, str], ...]:
    """What people look at, with what is certified as the last row."""
    rows = [("Training error", seen(true.train_error), seen(random.train_error))]
    titles = {
        "parameters": "Number of parameters",
        "vc": "VC bound, from the architecture alone (1 or more says nothing)",
        "l2-norm": "Size of the weights (Euclidean norm)",
        "median-margin": "Median margin (lead of the correct class)",
    }
    for name, title in titles.items():
        if name in true.measures and name in random.measures:
            rows.append((title, value_text(name, true.measures[name]), value_text(name, random.measures[name])))
    return (*rows, ("Certified error on unseen examples", interval(true), interval(random)))


def _measures_sentences(true: Network, random: Network) -> tuple[str, ...]:
    """What the usual measures do: the same for both, a hint, or nothing."""
    hints = []
    for name, title in (
        ("l2-norm", "the norm of the weights"),
        ("median-margin", "the median margin"),
    ):
        if min(true.measures.get(name, 0), random.measures.get(name, 0)) > 0:
            hints.append(f"{title} is {factor(random.measures[name] / true.measures[name])}")
    said = [f"With random labels, {' and '.join(hints)}. Such numbers hint; they certify nothing."] if hints else []
    vc = [short(each.measures["vc"]) for each in (true, random) if "vc" in each.measures]
    if len(vc) == 2:
        value = f"{vc[0]} for both" if vc[0] == vc[1] else f"{vc[0]} and {vc[1]}"
        nothing = " and says nothing" if min(each.measures["vc"] for each in (true, random)) >= 1 else ""
        said.append(
            "The VC bound limits the error by counting the labelings that the architecture could produce: it is "
            f"{value}{nothing}."
        )
    said.append(
        "Rademacher complexity, not computed here, asks how well networks of one shape fit coin flips. It depends on "
        "the inputs, not on the labels, so it is the same for both."
    )
    return tuple(said)


def interval(network: Network) -> str:
    return f"{lower(network.risk_lower)} to {upper(network.risk_upper)}"
