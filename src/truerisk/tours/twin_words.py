"""Act 2 in words: how far a rescaling moved each number, or why there is no twin."""

from __future__ import annotations

import textwrap

from truerisk import words
from truerisk.tours.act import Act
from truerisk.tours.numbers import big, factor, seen, short, tiny
from truerisk.tours.twin import PRIOR_STD, STD, Move, Twin


def tell_twin(twin: Twin | None, refusal: str) -> Act:
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
