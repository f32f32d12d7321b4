"""Act 3 in words: which methods certify what, which is the default, and why."""

from __future__ import annotations

from truerisk import words
from truerisk.tours.act import Act
from truerisk.tours.costs import CODE, HOLD_OUT, POSTERIOR, PROGRESSIVE, RAW, RESCALED, Cost, Costs
from truerisk.tours.labels import Labels
from truerisk.tours.numbers import upper

NAMES = {
    HOLD_OUT: "hold-out test",
    PROGRESSIVE: "progressive validation",
    POSTERIOR: "trained posterior",
    CODE: "compressed network",
    RAW: "PAC-Bayes around the weights",
    RESCALED: "PAC-Bayes rescaled",
}


def tell_costs(costs: Costs, found: Labels, delta: float) -> Act:
    return Act(
        question="What does a certificate cost?",
        answer=_costs_answer(costs),
        text=(
            _costs_sentences(costs),
            f"{_default_sentence(costs)} The examples that it sets aside train nothing. PAC-Bayes is for when no data "
            "can be set aside, or to learn why a network generalizes."
            if costs.default == HOLD_OUT
            else _default_sentence(costs),
        ),
        brief=f"{_listed(costs)} {_default_sentence(costs)} PAC-Bayes is for when no data can be set aside.".strip(),
        code='truerisk.certify(build, data, method="all").table',
        yours="All methods for your own network, with delta split over them; this takes some minutes:",
        caption="Certified upper bound on the error on unseen examples, smallest first. Each certificate stands alone, "
        f"with failure probability {words.delta(delta)}; the dashed line is the hold-out baseline. A bar that ends to "
        "the left of it beats a plain test.",
        notes=(*_longer(found), *_cost_notes(costs)),
    )


def _listed(costs: Costs) -> str:
    """All bounds in one or two sentences; those that say nothing without their numbers."""
    said, silent = [], [NAMES[each.name] for each in costs.ranked if each.vacuous]
    useful = [f"{NAMES[each.name]} {bound_text(each)}" for each in costs.ranked if not each.vacuous]
    if useful:
        said.append(f"Certified error at most: {', '.join(useful)}.")
    if silent:
        said.append(f"Says nothing: {', '.join(silent)}.")
    if costs.refused:
        said.append(f"Not for this network or data: {', '.join(NAMES[each.name] for each in costs.refused)}.")
    return " ".join(said)


def _costs_answer(costs: Costs) -> str:
    best = costs.ranked[:1]
    if not best or best[0].vacuous:
        return "No method certifies anything here."
    if len(costs.ranked) == 1:
        return f"The {NAMES[best[0].name]} certifies at most {bound_text(best[0])}."
    return f"The smallest bound is {bound_text(best[0])}, by the {NAMES[best[0].name]}."


def _costs_sentences(costs: Costs) -> str:
    ranked = costs.ranked
    if len(ranked) < 2:
        return "Fewer than two methods were run, so there is nothing to compare."
    useful, rest = [each for each in ranked if not each.vacuous], [each for each in ranked if each.vacuous]
    alike = "All methods get the same data and a network of the same shape"
    if not useful:
        return f"{alike}, and no bound says anything."
    said = f"{alike}: {len(useful)} of {len(ranked)} certify something"
    said += f", from {bound_text(useful[0])} to {bound_text(useful[-1])}." if len(useful) > 1 else "."
    if rest:
        said += f" The bound of {' and of '.join(NAMES[each.name] for each in rest[:2])} says nothing."
    return said


def _default_sentence(costs: Costs) -> str:
    """Which method is the default, and why; that its bound is the smallest is said only where it is."""
    name, ranked = costs.default, costs.ranked
    smallest = len(ranked) > 1 and ranked[0].name == name and not ranked[0].vacuous
    why = ["it certifies one fixed network"] if name == HOLD_OUT else []
    why += ["its bound is the smallest here"] if smallest else []
    reasons = f": {', and '.join(why)}" if why else ""
    return f"The default is {name}{reasons}."


def _longer(found: Labels) -> list[str]:
    """Why the hold-out test of this act may differ from act 1."""
    if found.attempts == 1:
        return []
    return [
        f"Here all networks are trained for the usual number of epochs. In act 1 they were trained for "
        f"{found.true_labels.epochs:,} epochs, because random labels take longer to fit."
    ]


def _cost_notes(costs: Costs) -> tuple[str, ...]:
    known = {
        PROGRESSIVE: "Progressive validation: networks trained on growing parts of the data, each tested on the next "
        "part. One of them is sampled for each prediction.",
        POSTERIOR: "Trained posterior: a distribution over weights that training moves away from a prior, which was "
        "trained on the other half of the data. One network is sampled from it.",
        CODE: "Compressed network: all examples train it and enter the bound, which grows with its length in bits.",
        RAW: "PAC-Bayes around the trained weights: Q and P of act 2, in the kl form. Delta covers the sampling error. "
        "These two bounds are not saved as certificates.",
    }
    counts = sorted({each.tried for each in costs.ranked})
    split = [
        "Delta is split over the configurations that were compared before on the examples that enter a bound: "
        f"{' or '.join(f'{count:,}' for count in counts)} of them."
    ]
    refused = [f"{each.title}: not for this network, because {each.reason}" for each in costs.refused]
    return (
        *refused,
        *(split if counts[-1:] > [1] else []),
        *(text for name, text in known.items() if name in {each.name for each in costs.ranked}),
    )


def bound_text(each: Cost) -> str:
    """A bound, or what it comes to where it is 1 as printed."""
    return "says nothing" if each.vacuous else upper(each.bound or 0.0)
