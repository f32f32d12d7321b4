"""Sentences about rescaling reports that the terminal and the page share. No number is computed here."""

from __future__ import annotations

from collections.abc import Sequence

from truerisk.bounds.pac_bayes import CATONI_GRID
from truerisk.pacbayes.columns import STEPS, TUNED
from truerisk.pacbayes.rescaling import RescalingReport
from truerisk.symmetry.held import listed
from truerisk.words import bound, confidence_percent, delta, magnitude, nats, several

FORM_NAMES = {"kl": "PAC-Bayes-kl", "mcallester": "McAllester", "catoni": "Catoni"}
MEANINGS = {
    "original": "Posterior and prior as given.",
    "tuned": f"All standard deviations of the prior times one factor, the best of {len(STEPS)}. Delta is split over "
    f"these {len(STEPS)}.",
    "rescaled": "The prior moved by the best rescaling that leaves the function of every network unchanged. This uses "
    "no delta.",
    "both": f"The best rescaling and the best of the {len(STEPS)} factors together. Delta is split over the factors.",
}
CERTIFY = (
    "For the same network, the method pac-bayes-around usually certifies a smaller bound: it trains the noise of every "
    "weight and chooses a prior scale for each layer."
)
NO_FILE = "certify needs the trained weights as a file; save the state dict and give it as --weights."
NORMS = (
    "certify refuses batch-norm statistics, which the KL does not cover; move them into the weights with "
    "truerisk.fold_batch_norm."
)
NOT_ONE = "The bounds of tighten are not a certificate: there is no file to verify."


def number(value: float) -> str:
    """A bound of any size, rounded up.

    >>> number(0.59993), number(12.3456), number(2e7), number(float("inf"))
    ('0.600', '12.35', '2.000e+7', 'infinite')
    """
    return bound(value, 3) if value < 10 else magnitude(value)


def headline(reports: Sequence[RescalingReport]) -> str:
    """The finding in one short sentence."""
    if len(reports) == 1:
        return _of_one(reports[0])
    vacuous = [report for report in reports if report.vacuous("original")]
    turned = [report for report in vacuous if not report.vacuous("rescaled")]
    if not vacuous:
        lower = sum(report.bound["rescaled"] < report.bound["original"] for report in reports)
        return f"Rescaling lowers {lower} of {len(reports)} bounds, all of which were informative."
    if len(turned) == 1:
        which = "the only vacuous bound" if len(vacuous) == 1 else f"1 of {len(vacuous)} vacuous bounds"
        return f"Rescaling turns {which} into an informative one."
    if turned:
        return f"Rescaling turns {len(turned)} of {len(vacuous)} vacuous bounds into informative ones."
    if len(vacuous) == len(reports):
        return f"All {len(reports)} bounds are vacuous, before and after rescaling."
    verb = "is" if len(vacuous) == 1 else "are"
    return f"{len(vacuous)} of {len(reports)} bounds {verb} vacuous, before and after rescaling."


def _of_one(report: RescalingReport) -> str:
    before, after = number(report.bound["original"]), number(report.bound["rescaled"])
    if report.vacuous("rescaled"):
        return f"The bound of {report.name} is vacuous before and after rescaling: {before} and {after}."
    if before == after or not report.bound["rescaled"] < report.bound["original"]:
        return f"Rescaling leaves the bound of {report.name} at {after}."
    vacuous = ", which is vacuous," if report.vacuous("original") else ""
    return f"Rescaling lowers the bound of {report.name} from {before}{vacuous} to {after}."


def no_command(report: RescalingReport) -> str:
    """Why there is no command that certifies this network, and what to do."""
    return NORMS if report.best.statistics else NO_FILE


def setting(reports: Sequence[RescalingReport]) -> str:
    """The kind of bound, its delta and its examples; then what tuning the prior scale adds, if it changes a verdict."""
    one = reports[0]
    told = (
        f"{FORM_NAMES[one.form]} bounds on the error of sampled networks, from {several(one.n, 'example')}, each with "
        f"{confidence_percent(one.delta)} confidence. A bound of 1 or more is vacuous: it says nothing."
    )
    if sum(not r.vacuous("both") for r in reports) > sum(not r.vacuous("rescaled") for r in reports):
        count = sum(not report.vacuous("both") for report in reports)
        those = "it is" if len(reports) == 1 else f"{count} of {len(reports)} are"
        told += f" With a tuned prior scale as well, {those} informative."
    return told


def moving(report: RescalingReport) -> str:
    """How many channels could be rescaled, and how long it took."""
    total, unconstrained = len(report.best.log_scales), report.best.free
    if not unconstrained:
        return "Nothing in this network can be rescaled."
    which = f"All {total:,}" if unconstrained == total else f"{unconstrained:,} of {total:,}"
    those = "channel was" if total == 1 else "channels were"
    return f"{which} {those} rescaled, in {several(report.best.sweeps, 'sweep')}."


def pinned(report: RescalingReport, most: int | None = None) -> list[str]:
    """Places that stay as they are: how many channels, and why; of more than ``most``, the first ones and a count."""
    places = [f"{held.where}: {held.reason}." for held in report.best.held]
    places += [f"{pin.where} ({pin.operation}): {pin.why}." for pin in report.symmetry.pins]
    if most is None or len(places) <= most:
        return places
    left = len(places) - most
    return [*places[:most], f"More in {several(left, 'other place')}."]


def lifted(report: RescalingReport) -> str:
    """The lifted KL with its error, or why there is none."""
    found = report.lifted
    if found is None:
        note = report.lifted_note
        return f"{note[:1].upper()}{note[1:]}" if "lifted KL" in note else f"No lifted KL: {note[:1].lower()}{note[1:]}"
    return (
        f"Lifted KL: {nats(found.value, down=True)} nats, estimated from {found.draws:,} sampled networks with a "
        f"standard error of {found.standard_error:.2g}. No rescaling of this prior gets below the exact value. It "
        "enters no bound."
    )


def assumptions(reports: Sequence[RescalingReport]) -> list[str]:
    """What must be true for the bounds to hold."""
    one = reports[0]
    told = [
        "The prior, with its standard deviations, was fixed before the examples were seen. The posterior may depend on "
        "them.",
        "The examples are independent draws from the distribution of unseen examples. Copies of an example, including "
        "augmented ones, are not further draws.",
        f"Each bound holds on its own, except with probability at most {delta(one.delta)} (delta). For one network, "
        "the columns original and rescaled in the forms PAC-Bayes-kl and McAllester hold together; all others need not "
        "hold at once.",
        f"The columns {' and '.join(TUNED)} split delta over {len(STEPS)} prior scales. The form Catoni splits it over "
        f"{len(CATONI_GRID)} values of its parameter.",
        "A tenth of delta covers the Monte Carlo error of the sampled networks.",
        "The form of the bound was chosen before the numbers were seen.",
    ]
    for report in reports:
        name = f"{report.name}: " if len(reports) > 1 else ""
        statistics = report.best.statistics
        if statistics:
            told.append(
                f"{name}{listed(statistics)} were computed from data. The bounds hold only if these data are not among "
                "the examples; truerisk.fold_batch_norm moves such statistics into weights that the KL covers."
            )
        others = report.frozen
        if others:
            told.append(
                f"{name}{listed(others)} {'is' if len(others) == 1 else 'are'} frozen, so the KL does not cover "
                f"{'it' if len(others) == 1 else 'them'}. The bounds hold only if "
                f"{'its values do' if len(others) == 1 else 'their values do'} not depend on the examples."
            )
    return told
