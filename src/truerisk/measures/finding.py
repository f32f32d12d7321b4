"""What the numbers of a network say, in sentences: the same in the terminal and on the page."""

from __future__ import annotations

from truerisk.measures.audit import Audit
from truerisk.measures.compare import Comparison, votes
from truerisk.measures.found import Measures
from truerisk.measures.observed import Errors, Observed
from truerisk.measures.theorems import Bound
from truerisk.measures.zoo import zoo
from truerisk.words import bound_percent, lower_percent, magnitude, seen_percent, several

SHORT = 22  # letters of a name that a headline can hold
CRITERION = (
    "Leading measures are the best of each family by granulated tau, their rank correlation with the gap (test error "
    "minus training error). They are ranked by the lower end of the 95% interval over {zoos} zoos, and tau must have "
    "one sign for every hyperparameter."
)


def headline(found: Measures, audit: Audit | None = None) -> str:
    """The finding in at most 14 words."""
    if audit is not None:
        return f"{len(audit.fooled)} of {len(audit.moves)} numbers changed while the network stayed the same function."
    if found.reference is not None and (given := votes(found, found.reference.found)):
        simpler = sum(vote.simpler == 1 for vote in given)
        return f"{_rate(simpler, len(given))} this network simpler than a random-label copy."
    return _risk(found)


def _rate(count: int, total: int) -> str:
    """
    >>> _rate(5, 6), _rate(1, 6), _rate(1, 1)
    ('5 of 6 leading measures rate', '1 of 6 leading measures rates', '1 of 1 leading measure rates')
    """
    return f"{count} of {several(total, 'leading measure')} {'rates' if count == 1 else 'rate'}"


def _risk(found: Measures) -> str:
    """The observed error next to the smallest bound."""
    bounds = ranked(found)
    if found.observed is None:
        if not bounds:
            return f"{several(len(found.values), 'measure')} of one network."
        return f"The smallest of {several(len(bounds), 'bound')} is {_value(bounds[0])}."
    error = f"{kind(found.observed)} error is {seen_percent(found.observed.best.rate)}"
    if not bounds:
        return f"{error}, on {several(found.observed.best.n, 'example')}."
    if len(bounds) == 1:
        return f"{error}; the bound is {_value(bounds[0])}."
    return f"{error}; the smallest of {len(bounds)} bounds is {_value(bounds[0])}."


def ranked(found: Measures) -> list[Bound]:
    """The bounds, smallest first."""
    return sorted(found.bounds.values(), key=lambda bound: bound.natural_log)


def _value(bound: Bound) -> str:
    return magnitude(bound.value, bound.log)


def kind(observed: Observed) -> str:
    return "Training" if observed.test is None else "Held-out"


def errors_sentence(observed: Observed) -> str:
    """Observed errors with the interval that the held-out ones give for the true risk."""
    train = f"{seen_percent(observed.train.rate)} of {observed.train.n:,} training examples"
    if observed.test is None:
        return f"It misclassifies {train}; no held-out examples were given (--test)."
    return (
        f"It misclassifies {train} and {seen_percent(observed.test.rate)} of {observed.test.n:,} held-out examples "
        f"(95% interval for the true risk: {interval(observed.test)}).{repeated_sentence(observed)}"
    )


def repeated_sentence(observed: Observed) -> str:
    """A warning, after a space, where held-out inputs are training inputs."""
    if not observed.repeated or observed.test is None:
        return ""
    return (
        f" {observed.repeated:,} of {observed.test.n:,} held-out inputs equal training inputs; if they are the "
        "same examples and not merely equal ones, the held-out error is too low and its interval does not hold."
    )


def interval(errors: Errors) -> str:
    """Both ends rounded outward."""
    low, high = errors.interval
    return f"{lower_percent(low)} to {bound_percent(high)}"


def bounds_sentences(found: Measures) -> list[str]:
    """How many bounds are below 1, and how far the others are above it."""
    bounds = ranked(found)
    useful, vacuous = [b for b in bounds if not b.vacuous], [b for b in bounds if b.vacuous]
    said = []
    if useful:
        listed = ", ".join(f"{b.name} {_value(b)}" for b in useful[:3])
        said.append(f"{several(len(useful), 'bound')} below 1: {listed}{', ...' if len(useful) > 3 else ''}.")
    elif bounds:
        said.append("No bound is below 1.")
    if len(vacuous) > 1:
        ends = f"from {_value(vacuous[0])} ({vacuous[0].name}) to {_value(vacuous[-1])} ({vacuous[-1].name})"
        said.append(f"{len(vacuous)} bounds are 1 or more and say nothing: {ends}.")
    elif vacuous:
        said.append(f"1 bound is 1 or more and says nothing: {vacuous[0].name} {_value(vacuous[0])}.")
    return said


def zoo_sentence() -> str:
    """Data, architectures, and scale of the zoo."""
    about = zoo().about
    hyper = about["hyper"]
    widths, depths = (" or ".join(str(v) for v in hyper[name]) for name in ("width", "depth"))
    return (
        f"The zoo: {about['networks']} fully connected networks ({depths} hidden layers of {widths} units) trained on "
        f"{about['examples']} examples of MNIST-1D, from the experiment predictiveness at {about['scale']} scale. "
        "For other architectures and data, a place in the zoo is a loose comparison."
    )


def zoo_limits() -> list[str]:
    """What the zoo can and cannot tell."""
    about = zoo().about
    low, high = (seen_percent(gap) for gap in about["gap"])
    strongest, move = max(about["moves"].items(), key=lambda item: item[1])
    return [
        f"All its gaps lie between {low} and {high}. Of all hyperparameters, {strongest} moves the gap most, by "
        f"{100 * move:.1f} points; the noise of one gap is {100 * about['noise']:.1f} points. So the zoo ranks small "
        "changes of large gaps; it cannot show which measures tell a gap of a few percent from these.",
        f"The leading measures were picked out of {len(zoo().measures)} on these networks, by a rule that was chosen "
        "when their taus were known. So tau is too large if anything, and no interval accounts for the choice.",
        f"{about['trained'] - about['networks']} of {about['trained']} networks never reached the common training loss "
        "and are left out.",
        "Most values depend on architecture, input size, and number of examples. The reference on random labels "
        "(--calibrate) shares all of these with the network; the zoo does not.",
    ]


def criterion() -> str:
    return CRITERION.format(zoos=zoo().about["zoos"])


def compared(found: Comparison) -> str:
    """The finding of a comparison in at most 14 words."""
    one, two = short_names(found)
    a, b, neither = found.simpler
    total = a + b + neither
    if not total:
        return f"{len(found.rows())} numbers of two networks, {one} and {two}."
    if not a + b:
        return f"{_rate(0, total)} {one} or {two} simpler."
    if a == b:
        verb = "rates" if a == 1 else "rate"
        return f"{total} leading measures are split: {a} {verb} {one} simpler, {b} {verb} {two} simpler."
    most, first, second = (a, one, two) if a > b else (b, two, one)
    return f"{_rate(most, total)} {first} simpler than {second}."


def short_names(found: Comparison) -> tuple[str, str]:
    """The names of both networks, or A and B where these do not fit a headline or are alike."""
    one, two = found.names
    return (one, two) if one != two and max(len(one), len(two)) <= SHORT else ("A", "B")


def tau_sentence(name: str) -> str:
    """How a measure does in the zoo: its correlation with the gap, and which way it points."""
    known = zoo().measures[name]
    assert known.tau is not None
    way = "larger" if known.tau > 0 else "smaller"
    ends = f"95% interval {known.low:+.2f} to {known.high:+.2f}"
    return f"Zoo: tau {known.tau:+.2f} ({ends}); larger values go with {way} gaps."
