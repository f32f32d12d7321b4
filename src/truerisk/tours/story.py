"""The tour in sentences. Every number comes from the run, and every claim has a text for each outcome."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from truerisk import words
from truerisk.tours.costs import CODE, HOLD_OUT, POSTERIOR, PROGRESSIVE, RAW, RESCALED, Cost, Costs
from truerisk.tours.estimate import TWIN
from truerisk.tours.labels import DATA_FILE, RANDOM, TRUE, Labels, Network
from truerisk.tours.twin import PRIOR_STD, STD, Move, Twin

if TYPE_CHECKING:
    from truerisk.tours.result import Tour

PARTS = {
    TWIN: "act 2 with its two PAC-Bayes bounds",
    PROGRESSIVE: "progressive validation",
    POSTERIOR: "the trained posterior",
    CODE: "the compressed network",
    HOLD_OUT: "the hold-out test",
}
NAMES = {
    HOLD_OUT: "hold-out test",
    PROGRESSIVE: "progressive validation",
    POSTERIOR: "trained posterior",
    CODE: "compressed network",
    RAW: "PAC-Bayes around the weights",
    RESCALED: "PAC-Bayes rescaled",
}
TIMES = "\N{MULTIPLICATION SIGN}"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Act:
    """One act: a question, the answer with its numbers, two or three sentences, and a line of code for one's own."""

    question: str
    answer: str
    text: tuple[str, ...]
    brief: str  # for the terminal
    code: str
    caption: str
    notes: tuple[str, ...] = ()
    table: tuple[tuple[str, str, str], ...] = ()  # of act 1: a quantity, with true labels, with random labels


@dataclass(frozen=True)
class Story:
    """The whole tour."""

    title: str
    headline: str
    lead: str
    acts: tuple[Act, ...]
    left_out: str
    verify: tuple[str, ...]


def tell(tour: Tour) -> Story:
    """The story of a tour."""
    subject, found = tour.subject, tour.labels
    acts = (_labels(found, subject.delta), _twin(tour.twin, tour.refusal), _costs(tour.costs, found, subject.delta))
    return Story(
        title=f"{subject.model} on {subject.data}",
        headline=_headline(found),
        lead=f"Three questions about one network ({subject.model}) and {subject.n:,} examples ({subject.data}). Each "
        f"certificate on this page fails with probability at most {words.delta(subject.delta)}.",
        acts=acts,
        left_out=_left_out(tour.left_out),
        verify=_verify(tour),
    )


def _headline(found: Labels) -> str:
    if found.apart and found.fitted and found.true_labels.risk_upper < found.chance:
        return "Two networks make no training error. Only one of them has learned."
    if found.apart:
        return "Training error does not tell what a network has learned. A certificate does."
    return "These examples are too few to certify what the network has learned."


# ---- act 1 -------------------------------------------------------------------------------------------------------


def _labels(found: Labels, delta: float) -> Act:
    true, random = found.true_labels, found.random_labels
    return Act(
        question="Learned or memorized?",
        answer=_labels_answer(found),
        text=(_fit_sentences(found), _unseen_sentences(found)),
        brief=f"{_fit_sentences(found)} {_short_unseen(found)}",
        code='truerisk.certify(build, data, method="hold-out", two_sided=True).fit',
        caption=_labels_caption(found, delta),
        table=_measures_table(true, random),
        notes=(_measures_sentences(true, random),),
    )


def _labels_answer(found: Labels) -> str:
    true, random = found.true_labels, found.random_labels
    if found.apart:
        least, most = lower(random.risk_lower), upper(true.risk_upper)
        return f"One misclassifies at most {most} of unseen examples, the other at least {least}."
    return "The two certified intervals overlap, so nothing is certain yet."


def _fit_sentences(found: Labels) -> str:
    """Training errors: whether both networks interpolate, one of them, or neither."""
    true, random = found.true_labels, found.random_labels
    alike = "Two networks of one shape are trained alike, one on true labels and one on random labels."
    if found.fitted:
        return f"{alike} Both interpolate: they classify all {true.n_train:,} training examples correctly."
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
    point = "Only unseen examples tell learning from memorizing."
    if not found.apart:
        return (
            f"{point} The {true.n_test:,} test examples are too few here: the first network errs on {interval(true)} "
            f"of unseen examples, the second on {interval(random)}."
        )
    gap = (
        f" The second network does at least {points(random.gap_lower)} worse than on its own examples, and that gap is "
        "certified."
    )
    return f"{point} {_short_unseen(found)}{gap if random.gap_lower > 0 else ''}"


def _short_unseen(found: Labels) -> str:
    true, random = found.true_labels, found.random_labels
    if found.apart:
        return (
            f"On unseen examples the first network errs on at most {upper(true.risk_upper)}, the second on at least "
            f"{lower(random.risk_lower)}."
        )
    return f"On unseen examples the first network errs on {interval(true)}, the second on {interval(random)}."


def _labels_caption(found: Labels, delta: float) -> str:
    sure = words.confidence_percent(delta).replace(" %", "%")
    true = found.true_labels
    return (
        f"Dots: error on {true.n_train:,} training examples. Bars: certified interval for the error on unseen examples "
        f"({sure} confidence, {true.n_test:,} test examples); dashed: guessing. If fitting were learning, both bars "
        "would lie near the dots."
    )


def _measures_table(true: Network, random: Network) -> tuple[tuple[str, str, str], ...]:
    """What people look at, with what is certified as the last row."""
    rows = [("Training error", seen(true.train_error), seen(random.train_error))]
    titles = {
        "parameters": "Number of parameters",
        "vc": "VC bound (1 or more says nothing)",
        "l2-norm": "Norm of all weights",
        "median-margin": "Median margin",
    }
    for name, title in titles.items():
        if name in true.measures and name in random.measures:
            rows.append((title, _value(name, true.measures[name]), _value(name, random.measures[name])))
    return (*rows, ("Certified error on unseen examples", interval(true), interval(random)))


def _measures_sentences(true: Network, random: Network) -> str:
    """What the usual measures do: the same for both, a hint, or nothing."""
    hints = []
    for name, title in (
        ("l2-norm", "the norm of the weights"),
        ("median-margin", "the median margin (lead of the correct class)"),
    ):
        if min(true.measures.get(name, 0), random.measures.get(name, 0)) > 0:
            hints.append(f"{title} is {factor(random.measures[name] / true.measures[name])}")
    said = [f"With random labels, {' and '.join(hints)}. Such numbers hint; they certify nothing."] if hints else []
    vc = [short(each.measures["vc"]) for each in (true, random) if "vc" in each.measures]
    if len(vc) == 2:
        value = f"{vc[0]} for both" if vc[0] == vc[1] else f"{vc[0]} and {vc[1]}"
        nothing = " and says nothing" if min(each.measures["vc"] for each in (true, random)) >= 1 else ""
        said.append(f"The VC bound counts the labelings that the architecture can fit: it is {value}{nothing}.")
    said.append(
        "Rademacher complexity asks how well such networks fit random signs: it does not depend on the labels at all."
    )
    return " ".join(said)


# ---- act 2 -------------------------------------------------------------------------------------------------------


def _twin(twin: Twin | None, refusal: str) -> Act:
    question = "Why should a bound change when the function does not?"
    code = "truerisk.tighten(q, p, truerisk.find_symmetry(model, x))"
    if twin is None:
        why = "This act was left out to stay within the time limit."
        if refusal:
            why = f"No twin was made: {textwrap.shorten(refusal, 200, placeholder=' ...')}"
        return Act(question, "Nothing was rescaled here.", (why,), why, code, "")
    return Act(
        question=question,
        answer=_twin_answer(twin),
        text=(
            "Multiply the weights that enter a hidden unit by a positive number, and divide those that leave it by the "
            f"same number: no output changes. Here {twin.channels:,} units were rescaled at random, and the largest "
            f"relative change is {tiny(twin.output_change)}.",
            "A PAC-Bayes bound grows with the KL divergence (in nats). This says how far a distribution Q around the "
            f"weights is from a prior P, which was fixed before the data. {_kl_words(twin)}",
            f"{_still(twin)} PAC-Bayes certificates use this smallest KL; finding it uses no delta.",
        ),
        brief=f"A rescaled twin computes the same outputs (relative change {words.at_most(twin.output_change)}). "
        f"{_kl_words(twin)} {_still(twin)}",
        code=code,
        caption="Numbers of the rescaled twin divided by those of the network as trained; the axis is logarithmic. A "
        "level line is about the function. A line that leaves the level is about how the weights are written.",
        notes=(
            "The weight norm is Euclidean, and sharpness is the trace of the Hessian of the training loss. The path "
            "norm adds up the absolute products of the weights along all paths.",
            f"Q is a Gaussian around the weights with standard deviation {twin.noise:g}. Its networks err on "
            f"{seen(twin.error)} of the {twin.n:,} examples.",
            "The rescaling carries Q along: its standard deviations are multiplied by the same factors. So Q and its "
            "twin are one distribution over functions, with one error rate.",
            f"P is a Gaussian around 0 with standard deviation {PRIOR_STD:g}/√(fan-in). The random factors are "
            f"exponentials of Gaussian numbers with standard deviation {STD:g}.",
            "The bounds of this act have McAllester's form and are not cut at 1, to show how far they move. They are "
            "for comparison; act 3 shows the kl form, which is tighter.",
        ),
    )


def _twin_answer(twin: Twin) -> str:
    ratio = twin.kl_raw_twin / twin.kl_raw
    if abs(ratio - 1) <= 0.01:
        return "The same function, with almost the same KL: this rescaling happened to do little."
    return f"The same function, yet its KL is {factor(ratio)}."


def _kl_words(twin: Twin) -> str:
    """The KL and the bound before and after."""
    nothing = " (1 or more says nothing)" if max(twin.bound_raw, twin.bound_raw_twin) >= 1 else ""
    return (
        f"The KL goes from {big(twin.kl_raw)} to {big(twin.kl_raw_twin)} nats, and the bound from "
        f"{short(twin.bound_raw)} to {short(twin.bound_raw_twin)}{nothing}."
    )


def _still(twin: Twin) -> str:
    """What is left of the difference after the optimal rescaling."""
    if Move("", twin.kl_tightened, twin.kl_tightened_twin).moved:
        return (
            f"Rescaled optimally, the two have {big(twin.kl_tightened)} and {big(twin.kl_tightened_twin)} nats: the "
            "search did not end at the same place twice."
        )
    return (
        f"Rescaled optimally, both have {big(twin.kl_tightened)} nats and a bound of {short(twin.bound_tightened)}, "
        "and so has every other twin."
    )


# ---- act 3 -------------------------------------------------------------------------------------------------------


def _costs(costs: Costs, found: Labels, delta: float) -> Act:
    listed = "; ".join(f"{NAMES[each.name]} {bound_text(each)}" for each in costs.ranked)
    return Act(
        question="What does a certificate cost?",
        answer=_costs_answer(costs),
        text=(_costs_sentences(costs), _default_sentences(costs)),
        brief=f"{listed[:1].upper()}{listed[1:]}. {_default_sentences(costs)}",
        code='truerisk.certify(build, data, method="all").table',
        caption="Certified upper bound on the error on unseen examples, smallest first. Each certificate stands alone, "
        f"with failure probability {words.delta(delta)}; the dashed line is the hold-out baseline. A bar that ends to "
        "the left of it would beat a plain test.",
        notes=(*_longer(found), *_cost_notes(costs)),
    )


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
    said = f"All methods get the same data and a network of the same shape: {len(useful)} of {len(ranked)} certify "
    said += f"something, from {bound_text(useful[0])} to {bound_text(useful[-1])}." if useful else "something."
    if rest:
        said += f" The bound of {' and of '.join(NAMES[each.name] for each in rest[:2])} says nothing."
    return said


def _default_sentences(costs: Costs) -> str:
    """Which method is the default, and why; that its bound is the smallest is said only where it is."""
    name, ranked = costs.default, costs.ranked
    smallest = bool(ranked) and ranked[0].name == name
    why = "it certifies a plain network" if name == HOLD_OUT else ""
    why += (" and " if why else "") + "it has the smallest bound here" if smallest else ""
    return (
        f"The default is {name}{f': {why}' if why else ''}. PAC-Bayes is for when no data can be set aside, or when "
        "you want to know why."
    )


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
        "part. One of them is drawn for each prediction.",
        POSTERIOR: "Trained posterior: a distribution over weights that training moves away from a prior, which was "
        "trained on the other half of the data. One network is sampled from it.",
        CODE: "Compressed network: all examples train it and enter the bound, which grows with its length in bits.",
        RAW: "PAC-Bayes around the trained weights: Q and P of act 2, in the kl form. Delta covers the sampling error. "
        "These two bounds are not saved as certificates.",
    }
    refused = [f"{each.title}: not for this network, because {each.reason}" for each in costs.refused]
    return (*refused, *(text for name, text in known.items() if name in {each.name for each in costs.ranked}))


# ---- the rest ----------------------------------------------------------------------------------------------------


def _left_out(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    listed = ", ".join(PARTS[name] for name in names)
    return f"Left out, by the estimate before the start, to stay within the time limit: {listed}."


def _verify(tour: Tour) -> tuple[str, ...]:
    """The commands that check the certificates; OUT is where they were saved."""
    subject = tour.subject
    model = f" {subject.model_option}" if subject.model_option else ""
    data = f" {subject.data_option}" if subject.data_option else ""
    lines = [f"truerisk verify OUT/tour/{TRUE}{data}{model}"]
    if DATA_FILE in tour.files:
        lines.append(f"truerisk verify OUT/tour/{RANDOM} --data OUT/tour/{DATA_FILE}{model}")
    saved = [each.name for each in tour.costs.ranked if each.saved]
    return (*lines, *(f"truerisk verify OUT/tour/{name}{data}{model}" for name in saved))


def bound_text(each: Cost) -> str:
    """A bound, or what it comes to where it is 1 as printed."""
    return "says nothing" if each.vacuous else upper(each.bound or 0.0)


def upper(value: float) -> str:
    return words.bound_percent(value).replace(" %", "%")


def lower(value: float) -> str:
    return words.lower_percent(value).replace(" %", "%")


def seen(value: float) -> str:
    return words.seen_percent(value).replace(" %", "%")


def points(value: float) -> str:
    return f"{words.lower_points(value).removesuffix(' points')} percentage points"


def interval(network: Network) -> str:
    return f"{lower(network.risk_lower)} to {upper(network.risk_upper)}"


def big(value: float) -> str:
    """A KL without decimals that nobody needs, rounded up.

    >>> big(38269.2), big(12.3456)
    ('38,270', '12.35')
    """
    return f"{math.ceil(value):,}" if 1000 <= value < 1e9 else words.nats(value)


def short(value: float) -> str:
    """A bound of any size with few digits, rounded up."""
    return words.bound(value, 2 if value < 10 else 1)


def _value(name: str, value: float) -> str:
    return f"{value:,.0f}" if name == "parameters" else short(value)


def factor(ratio: float) -> str:
    """A factor in words: 2.6 times as large, or 4.1 times smaller."""
    if abs(ratio - 1) < 0.005:
        return "the same"
    number = ratio if ratio > 1 else 1 / ratio
    shown = f"{number:,.0f}" if number >= 20 else f"{number:.2g}"
    return f"{shown} times as large" if ratio > 1 else f"smaller by a factor of {shown}"


def times_text(ratio: float) -> str:
    """A factor as a label.

    >>> times_text(206.4), times_text(2.14), times_text(0.125)
    ('× 206', '× 2.1', '÷ 8')
    """
    number = ratio if ratio > 1 else 1 / ratio
    shown = f"{number:.2g}" if number < 20 else f"{number:,.0f}" if number < 1e6 else f"{number:.0e}"
    return f"{TIMES if ratio > 1 else '÷'} {shown}"


def power_text(power: int) -> str:
    """A power of ten as a label of an axis.

    >>> power_text(3), power_text(-2), power_text(9)
    ('×1,000', '×0.01', '×10⁹')
    """
    if abs(power) < 5:
        return f"{TIMES}{10**power:,}" if power >= 0 else f"{TIMES}{10.0**power:g}"
    return f"{TIMES}10{str(power).translate(SUPERSCRIPTS)}"


def tiny(value: float) -> str:
    """A tiny upper end as pages show it.

    >>> tiny(5.2e-16)
    '6 × 10⁻¹⁶'
    """
    digits, _, power = words.at_most(value).partition("e")
    return f"{digits} {TIMES} 10{power.translate(SUPERSCRIPTS)}" if power else digits
