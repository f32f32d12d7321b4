"""The tour in sentences. Every number comes from the run, and every claim has a text for each outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from truerisk import words
from truerisk.tours.costs import CODE, HOLD_OUT, POSTERIOR, PROGRESSIVE, RAW, RESCALED, Cost, Costs
from truerisk.tours.estimate import TWIN
from truerisk.tours.labels import DATA_FILE, RANDOM, TRUE, Labels, Network
from truerisk.tours.twin import BOUND, KL, PRIOR_STD, STD, Twin

if TYPE_CHECKING:
    from truerisk.tours.tour import Subject, Tour

PARTS = {
    TWIN: "act 2 with its two PAC-Bayes bounds",
    PROGRESSIVE: "progressive validation",
    POSTERIOR: "the trained posterior",
    CODE: "the compressed network",
    HOLD_OUT: "the hold-out test",
}
WHY_DEFAULT = {
    HOLD_OUT: "it certifies a plain network and needs nothing but examples that training did not see",
    "pac-bayes-kl": "all examples teach the predictor, and half of them also certify it",
}


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
    acts = (_labels(subject, found), _twin(subject, tour.twin, tour.refusal), _costs(subject, tour.costs))
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
    if found.apart and found.fitted:
        return "Two networks make no training error. Only one of them has learned."
    if found.apart:
        return "Training error does not tell what a network has learned. A certificate does."
    return "These examples are too few to certify what the network has learned."


# ---- act 1 -------------------------------------------------------------------------------------------------------


def _labels(subject: Subject, found: Labels) -> Act:
    true, random = found.true_labels, found.random_labels
    least, most = lower(random.risk_lower), upper(true.risk_upper)
    return Act(
        question="Learned or memorized?",
        answer=_labels_answer(found),
        text=(_fit_sentence(found), _unseen_sentence(found)),
        brief=f"{_fit_sentence(found)} On unseen examples the first errs on at most {most}, the second on at least "
        f"{least} (certified).",
        code=f'truerisk.certify({_code(subject)}, method="hold-out", two_sided=True).fit',
        caption=_labels_caption(subject, found),
        notes=(_measures_sentence(true, random),),
        table=_measures_table(true, random),
    )


def _labels_answer(found: Labels) -> str:
    true, random = found.true_labels, found.random_labels
    if found.apart:
        return (
            f"At most {upper(true.risk_upper)} errors on unseen examples, against at least {lower(random.risk_lower)}."
        )
    return "The two certified intervals overlap: nothing can be said yet."


def _fit_sentence(found: Labels) -> str:
    true, random = found.true_labels, found.random_labels
    alike = f"Two networks of one shape are trained alike for {random.epochs:,} epochs"
    if found.fitted:
        return (
            f"{alike}, one on true labels and one on random labels, and both classify all {true.n_train:,} training "
            "examples correctly."
        )
    if true.train_error == 0:
        return (
            f"{alike}: the one on true labels fits all {true.n_train:,} training examples, the one on random labels "
            f"still errs on {seen(random.train_error)} of its own, so it has not memorized them all."
        )
    return (
        f"{alike}: they still err on {seen(true.train_error)} (true labels) and {seen(random.train_error)} (random "
        f"labels) of their {true.n_train:,} training examples, so neither fits them all."
    )


def _unseen_sentence(found: Labels) -> str:
    true, random = found.true_labels, found.random_labels
    point = "What tells learning from memorizing is what happens on examples that were not seen"
    if found.apart:
        gap = f", at least {points(random.gap_lower)} more than on its own" if random.gap_lower > 0 else ""
        return (
            f"{point}: there the first network errs on at most {upper(true.risk_upper)}, the second on at least "
            f"{lower(random.risk_lower)}{gap}."
        )
    return (
        f"{point}, but {true.n_test:,} test examples are too few here: the first network errs on {interval(true)} of "
        f"unseen examples, the second on {interval(random)}."
    )


def _labels_caption(subject: Subject, found: Labels) -> str:
    sure = words.confidence_percent(subject.delta).replace(" %", "%")
    return (
        f"Dots: error on the {found.true_labels.n_train:,} training examples. Bars: certified interval of the error on "
        f"unseen examples, each with {sure} confidence, from {found.true_labels.n_test:,} test examples. If fitting "
        f"were learning, both bars would be at the dots; guessing errs on {seen(found.chance)}."
    )


def _measures_table(true: Network, random: Network) -> tuple[tuple[str, str, str], ...]:
    rows = [("Training error", seen(true.train_error), seen(random.train_error))]
    for name, title in (("parameters", "Number of parameters"), ("l2-norm", "Norm of all weights"),
                        ("median-margin", "Median margin"), ("vc", "VC bound (1 or more says nothing)")):  # fmt: skip
        if name in true.measures and name in random.measures:
            rows.append((title, _value(name, true.measures[name]), _value(name, random.measures[name])))
    rows.append(("Certified error on unseen examples", interval(true), interval(random)))
    return tuple(rows)


def _measures_sentence(true: Network, random: Network) -> str:
    """What the usual measures do: the same for both, a hint, or nothing."""
    hints = []
    for name, title in (("l2-norm", "the norm of the weights"), ("median-margin", "the median margin")):
        if min(true.measures.get(name, 0), random.measures.get(name, 0)) > 0:
            hints.append(f"{title} is {factor(random.measures[name] / true.measures[name])}")
    hint = f"With random labels {' and '.join(hints)}. That is a hint, not a certificate. " if hints else ""
    vc = [each.measures["vc"] for each in (true, random) if "vc" in each.measures]
    says = "and says nothing (1 or more)" if vc and min(vc) >= 1 else "and cannot tell them apart"
    counted = f"The VC bound, which counts the labelings that the architecture can fit, is above both {says}. "
    return (
        f"{hint}{counted if vc else ''}Rademacher complexity, which asks how well such a network fits random signs, "
        "does not look at the labels at all."
    )


# ---- act 2 -------------------------------------------------------------------------------------------------------


def _twin(subject: Subject, twin: Twin | None, refusal: str) -> Act:
    question = "Why should a bound change when the function does not?"
    code = "truerisk.tighten(q, p, truerisk.find_symmetry(model, x))"
    if twin is None:
        why = f"No twin was made: {refusal}" if refusal else "This act was left out to stay within the time limit."
        return Act(question, "This network was not rescaled.", (why,), why, code, "")
    return Act(
        question=question,
        answer=_twin_answer(twin),
        text=(_twin_sentence(twin), _tight_sentence(twin)),
        brief=f"A rescaled twin computes the same outputs (relative change {words.at_most(twin.output_change)}). "
        f"{_kl_words(twin)} {_still(twin)}",
        code=code,
        caption=f"Each number of the rescaled twin divided by that of the network as trained, on a logarithmic axis. "
        "The function is the same, so a number about the function would be level. Numbers that rise or fall are about "
        "the weights.",
        notes=(
            f"Q is a Gaussian around the weights with standard deviation {twin.noise:g}; its networks err on "
            f"{seen(twin.error)} of the {twin.n:,} examples. It is carried along by the rescaling, so both Q are the "
            "same distribution over functions.",
            f"The prior P is a Gaussian around 0 with standard deviation {PRIOR_STD:g}/√(fan-in). {twin.channels:,} "
            f"channels were rescaled by random factors, the exponentials of Gaussian numbers of standard deviation "
            f"{STD:g}.",
            "The bounds of this act have McAllester's form and are not cut at 1, to show how far they move; act 3 has "
            "the tighter kl form of the first two.",
        ),
    )


def _twin_answer(twin: Twin) -> str:
    ratio = twin.kl_raw_twin / twin.kl_raw
    if abs(ratio - 1) <= 0.01:
        return "Here a random rescaling hardly moves the KL, but it could."
    return f"The same function, with a KL that is {factor(ratio)}."


def _twin_sentence(twin: Twin) -> str:
    return (
        "Multiply the weights that enter a hidden unit and divide those that leave it by the same number: the outputs "
        f"stay (largest relative change here: {words.at_most(twin.output_change)}). {_kl_words(twin)}"
    )


def _kl_words(twin: Twin) -> str:
    """The KL and the bound before and after, in the direction in which they went."""
    went = f"goes from {big(twin.kl_raw)} to {big(twin.kl_raw_twin)} nats"
    bound = f"the PAC-Bayes bound, which grows with it, from {short(twin.bound_raw)} to {short(twin.bound_raw_twin)}"
    nothing = " (1 or more says nothing)" if max(twin.bound_raw, twin.bound_raw_twin) >= 1 else ""
    return f"Yet the KL, the distance of the network's weight distribution Q from a prior P fixed before the data, {went}, and {bound}{nothing}."


def _still(twin: Twin) -> str:
    still = abs(twin.kl_tightened_twin / twin.kl_tightened - 1) <= 1e-6
    if still:
        return f"Rescaled optimally, both have the same KL, {big(twin.kl_tightened)} nats."
    return (
        f"Rescaled optimally, they have {big(twin.kl_tightened)} and {big(twin.kl_tightened_twin)} nats: the solver did "
        "not find the same optimum twice."
    )


def _tight_sentence(twin: Twin) -> str:
    drop = 1 - twin.kl_tightened / twin.kl_raw
    gain = f", {100 * drop:.0f}% less than as trained" if drop >= 0.005 else ""
    bound = f" The bound from it is {short(twin.bound_tightened)} for both." if _same(twin) else ""
    return f"{_still(twin)[:-1]}{gain}: it depends on the function and no longer on how the weights are written.{bound}" \
        if _same(twin) else _still(twin)


def _same(twin: Twin) -> bool:
    return abs(twin.kl_tightened_twin / twin.kl_tightened - 1) <= 1e-6


# ---- act 3 -------------------------------------------------------------------------------------------------------


def _costs(subject: Subject, costs: Costs) -> Act:
    ranked = costs.ranked
    listed = "; ".join(f"{_plain(each)} {bound_text(each)}" for each in ranked)
    return Act(
        question="What does a certificate cost?",
        answer=_costs_answer(costs),
        text=(_costs_sentence(costs), _default_sentence(costs)),
        brief=f"{listed}. {_default_sentence(costs)}",
        code=f'truerisk.certify({_code(subject)}, method="all").table',
        caption=f"Certified upper bound on the error on unseen examples, smallest first; each holds alone, with "
        f"failure probability {words.delta(subject.delta)}. Dashed line: the hold-out baseline. A bar to the left of "
        "it would be a gain over a plain test.",
        notes=(*(_refused(each) for each in costs.refused), *_cost_notes(costs)),
    )


def _costs_answer(costs: Costs) -> str:
    ranked = costs.ranked
    if not ranked:
        return "No method certifies this network."
    best = ranked[0]
    return f"Smallest bound: {bound_text(best)}, by {_plain(best)}."


def _costs_sentence(costs: Costs) -> str:
    ranked = costs.ranked
    if len(ranked) < 2:
        return "Only one method was run, so there is nothing to compare."
    worst = [each for each in ranked if each.vacuous]
    useful = [each for each in ranked if not each.vacuous]
    said = (
        f"On the same {'data' if len(ranked) > 1 else 'examples'} and a network of one shape, "
        f"{len(useful)} of {len(ranked)} methods certify something"
    )
    if useful:
        said += f", from {bound_text(useful[0])} to {bound_text(useful[-1])}"
    if worst:
        said += f"; {' and '.join(_plain(each) for each in worst[:2])} {'says' if len(worst) == 1 else 'say'} nothing"
    return f"{said}."


def _default_sentence(costs: Costs) -> str:
    name, ranked = costs.default, costs.ranked
    first = " and its bound is the smallest here" if ranked and ranked[0].name == name else ""
    why = WHY_DEFAULT.get(name, "")
    return (
        f"The default of truerisk certify is {name}: {why}{first}. "
        "PAC-Bayes is for when no data can be set aside, or when you want to know why."
    )


def _cost_notes(costs: Costs) -> tuple[str, ...]:
    names = {each.name for each in costs.methods}
    notes = []
    if POSTERIOR in names:
        notes.append(
            "Trained posterior: a distribution over weights (the posterior) that training moves away from a prior "
            "trained on the other half of the examples; one network is sampled from it."
        )
    if CODE in names:
        notes.append("Compressed network: all examples train it and enter the bound, which grows with its bits.")
    if RAW in names:
        notes.append(
            "PAC-Bayes around the trained weights: Q and P of act 2 in the kl form; delta covers the sampling error. "
            "These two bounds are not saved as certificates."
        )
    return tuple(notes)


def _refused(each: Cost) -> str:
    return f"{each.title} is not for this network: {each.reason}"


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


def _code(subject: Subject) -> str:
    return "build, data"


def _plain(each: Cost) -> str:
    names = {
        HOLD_OUT: "hold-out test",
        PROGRESSIVE: "progressive validation",
        POSTERIOR: "trained posterior",
        CODE: "compressed network",
        RAW: "PAC-Bayes around the trained weights",
        RESCALED: "PAC-Bayes rescaled",
    }
    return names[each.name]


def bound_text(each: Cost) -> str:
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
    """A KL without decimals that nobody needs, rounded up."""
    return words.nats(value) if value < 1000 else words.magnitude(value)


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
    return f"{'×' if ratio > 1 else '÷'} {shown}"
