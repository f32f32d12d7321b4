"""Act 2 in words: how far a rescaling moved each number, or why there is no twin."""

from __future__ import annotations

import textwrap

from truerisk import words
from truerisk.tours.act import Act
from truerisk.tours.numbers import big, factor, seen, short, tiny
from truerisk.tours.twin import PRIOR_STD, STD, Move, Twin


def tell_twin(twin: Twin | None, refusal: str) -> Act:
    question = "Why should a bound change when the function does not?"
    code = "truerisk.audit(build, data).fooled"
    yours = "The measures that a rescaling of your own network moves, although its function stays:"
    if twin is None:
        why = "This act was left out to stay within the time limit."
        if refusal:
            why = f"No twin was made: {textwrap.shorten(refusal, 200, placeholder=' ...')}"
        return Act(question, "Nothing was rescaled here.", (why,), why, code, yours, "")
    return Act(
        question=question,
        answer=_twin_answer(twin),
        text=(
            "Multiply the weights into a hidden unit by a positive number and divide those out of it by the same "
            f"number: no output changes. Here {twin.channels:,} units were rescaled at random.",
            "A PAC-Bayes bound limits the error of random weights Q around the trained ones. It grows with the KL "
            "divergence: how far Q is from a prior P, random weights fixed before any data. The rescaling carries Q "
            f"along. {_kl_words(twin)} {_still(twin)}",
        ),
        brief=f"{twin.channels:,} hidden units are rescaled; every output stays (change "
        f"{words.at_most(twin.output_change)}). A PAC-Bayes bound grows with the KL: how far random weights around the "
        f"trained ones are from a prior, fixed before any data. {_kl_words(twin)} {_still(twin)}",
        code=code,
        yours=yours,
        caption="Numbers of the rescaled twin divided by those of the network as trained; the axis is logarithmic. "
        "Both networks compute the same function. A line that leaves the level measures how the weights are written.",
        notes=(
            f"The largest change of an output is {tiny(twin.output_change)}, relative to the largest output.",
            "The weight norm is Euclidean. Sharpness says how fast the training loss rises around the weights (trace "
            "of the Hessian). The path norm adds up the absolute products of the weights along all paths.",
            f"Q is a Gaussian around the weights with standard deviation {twin.noise:g}. Its networks err on "
            f"{seen(twin.error)} of the {twin.n:,} examples.",
            "The rescaling multiplies the standard deviations of Q by the same factors as its means. So Q and its twin "
            "are one distribution over functions, with one error rate.",
            "The tightened KL is the smallest one over all rescalings, so it is the same for every rescaled twin. "
            "PAC-Bayes certificates use it automatically; finding it uses no delta.",
            f"P is a Gaussian around 0 with standard deviation {PRIOR_STD:g}/√(fan-in). The random factors are "
            f"exponentials of Gaussian numbers with standard deviation {STD:g}.",
            "The bounds of this act have McAllester's form and are not cut at 1, to show how far they move. They are "
            f"for comparison; act 3 shows the kl form, which is tighter. All {twin.n:,} examples enter these bounds, "
            f"and delta is split over {words.several(twin.tried, 'configuration')}.",
            "For Gaussians q and p of your own, truerisk.tighten(q, p, truerisk.find_symmetry(model, x)).kl_after is "
            "the tightened KL.",
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
        f"The KL goes from {big(twin.kl_raw)} to {big(twin.kl_raw_twin)}, and the bound from "
        f"{short(twin.bound_raw)} to {short(twin.bound_raw_twin)}{nothing}."
    )


def _still(twin: Twin) -> str:
    """What is left of the difference after the optimal rescaling."""
    if Move("", twin.kl_tightened, twin.kl_tightened_twin).moved:
        return (
            f"Rescaled optimally, their KLs are {big(twin.kl_tightened)} and {big(twin.kl_tightened_twin)}: the "
            "search did not end at the same place twice."
        )
    return (
        f"Rescaled optimally, both have KL {big(twin.kl_tightened)} and bound {short(twin.bound_tightened)}, like "
        "every rescaled twin."
    )
