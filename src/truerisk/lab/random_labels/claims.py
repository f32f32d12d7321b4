"""What Zhang et al. 2017 published about random labels, and what counts as having seen it again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from scipy.stats import spearmanr

from truerisk.lab.experiment import Claim, Outcome
from truerisk.lab.figure import percent
from truerisk.lab.rows import IncompleteError, Rows

ZHANG = "Zhang et al. 2017"
CHANCE = 0.1  # of a right guess among ten classes
PUBLISHED_PARAMETERS = {
    "mlp-1x512": 1_209_866,
    "mlp-3x512": 1_735_178,
    "alexnet": 1_387_786,
    "inception": 1_649_402,
    "inception-no-bn": 1_649_402,
}
# (training accuracy, test accuracy) without crops and weight decay, in percent
PUBLISHED_ACCURACY = {
    ("inception", "true labels"): (100.0, 85.75),
    ("inception", "random labels"): (100.0, 9.78),
    ("inception-no-bn", "true labels"): (100.0, 82.00),
    ("inception-no-bn", "random labels"): (100.0, 10.12),
    ("alexnet", "true labels"): (100.0, 76.07),
    ("alexnet", "random labels"): (99.82, 9.86),
    ("mlp-3x512", "true labels"): (100.0, 52.39),
    ("mlp-3x512", "random labels"): (100.0, 10.48),
    ("mlp-1x512", "true labels"): (100.0, 50.51),
    ("mlp-1x512", "random labels"): (99.34, 10.61),
}
LEAST_FIT = 0.99  # below the lowest published training accuracy on random labels, 99.34 %
NOISE = 0.02  # one step of corruption costs 5 to 20 points; a mean over test sets is known to about one
RANK = 0.8  # of 1: neighbouring levels near the end take about equally long, and may change places
SMALL_FACTOR = 3.0
GAP = 0.2  # half of the smallest published one (50.51 - 10.61): the training sets here are smaller
SAME = 0.03  # two trainings from different first weights differ by one or two points on a test set of 500


def published_name(model: str) -> str:
    """The published network of which a small one is a copy.

    >>> published_name("inception-small-no-bn")
    'inception-no-bn'
    """
    return model.replace("-small", "")


def networks(rows: Rows) -> Iterator[tuple[str, Rows]]:
    """The rows of each network on each data set, with a name for people."""
    for (data, model), some in rows.groups("data", "model"):
        yield f"{model} on {data}", some


def by_level(rows: Rows, name: str) -> dict[float, float]:
    """The mean of a field at each level of corruption, for one network."""
    labels = rows.where(treatment=["true labels", "corrupted labels", "random labels"])
    return {p: some.mean(name) for (p,), some in sorted(labels.groups("p"), key=lambda item: item[0])}


def levels(rows: Rows, name: str) -> Iterator[tuple[str, dict[float, float]]]:
    """`by_level` of each network that was trained on at least three levels of corruption."""
    found = [(title, by_level(some, name)) for title, some in networks(rows)]
    many = [(title, means) for title, means in found if len(means) >= 3]
    if not many:
        raise IncompleteError("no network was trained on three or more levels of corruption")
    yield from many


def _parameters(rows: Rows) -> Outcome:
    counts = {published_name(m): some.max("published_parameters") for (m,), some in rows.groups("model")}
    wrong = {m: n for m, n in counts.items() if n != PUBLISHED_PARAMETERS[m]}
    text = ", ".join(f"{n:,} ({m})" for m, n in (wrong or counts).items())
    return Outcome(not wrong, text)


def _fits(rows: Rows) -> Outcome:
    worst = rows.max("train_error")
    row = next(row for row in rows if row["train_error"] == worst)
    exact = sum(row["train_error"] == 0 for row in rows)
    where = f"{row['model']} on {row['data']}, {row['treatment']}"
    return Outcome(
        1 - worst >= LEAST_FIT, f"{percent(1 - worst, 2)} at worst ({where}), 100 % in {exact} of {len(rows)} runs"
    )


def _chance(rows: Rows) -> Outcome:
    off, text = 0.0, []
    for title, some in networks(rows.where(treatment="random labels")):
        accuracy = 1 - some.mean("test_error")
        # Not divided by the number of seeds: errors on test images of one class are not independent.
        off = max(off, abs(accuracy - CHANCE) / math.sqrt(CHANCE * (1 - CHANCE) / some.min("n_test")))
        text.append(f"{percent(accuracy)} ({title})")
    if not text:
        raise IncompleteError("no network was trained on random labels")
    return Outcome(off <= 3, ", ".join(text))


def _generalises(rows: Rows) -> Outcome:
    gaps = {}
    for title, some in networks(rows):
        true, random = some.where(treatment="true labels"), some.where(treatment="random labels")
        gaps[title] = random.mean("test_error") - true.mean("test_error")
    worst = min(gaps, key=lambda title: gaps[title])
    return Outcome(gaps[worst] >= GAP, f"a gap of {100 * gaps[worst]:.1f} points at least ({worst})")


def _slower(rows: Rows) -> Outcome:
    ranks = {title: _rank_correlation(means) for title, means in levels(rows, "steps")}
    slower = [means[1.0] > means[0.0] for _, means in levels(rows, "steps")]
    text = ", ".join(f"{rank:.2f} ({title})" for title, rank in ranks.items())
    return Outcome(min(ranks.values()) >= RANK and all(slower), f"rank correlations {text}")


def _rank_correlation(means: dict[float, float]) -> float:
    if len(set(means.values())) == 1:
        return 0.0  # all took equally long, or none was fitted
    return float(spearmanr(list(means), list(means.values())).statistic)


def slowdowns(rows: Rows) -> dict[str, float]:
    """Steps until random labels are fitted over steps until true labels are, for each network."""
    random, true = (rows.where(treatment=name) for name in ("random labels", "true labels"))
    fast = {title: some.mean("steps") for title, some in networks(true)}
    return {title: some.mean("steps") / fast[title] for title, some in networks(random) if fast.get(title)}


def _factor(rows: Rows) -> Outcome:
    found = slowdowns(rows)
    if not found:
        raise IncompleteError("no network was trained on both true and random labels")
    # Where random labels were not fitted in the end, the factor is larger than what is printed.
    open_ended = [title for title, some in networks(rows.where(treatment="random labels")) if not some.min("fitted")]
    text = ", ".join(f"{'over ' if title in open_ended else ''}{f:.1f} ({title})" for title, f in found.items())
    return Outcome(max(found.values()) <= SMALL_FACTOR and not open_ended, text)


def _test_error(rows: Rows) -> Outcome:
    drops, ends = [], {}
    for title, means in levels(rows, "test_error"):
        errors = list(means.values())
        drops.append(max(before - after for before, after in itertools.pairwise(errors)))
        ends[title] = errors[-1]
    text = ", ".join(f"{percent(end)} at the end ({title})" for title, end in ends.items())
    seen = max(drops) <= NOISE and all(abs(end - (1 - CHANCE)) <= 0.05 for end in ends.values())
    return Outcome(seen, f"{text}; largest fall between two levels {100 * max(0.0, *drops):.1f} points")


def _pixels_faster(rows: Rows) -> Outcome:
    ratios = {}
    for title, some in networks(rows.where(treatment=["random labels", "random pixels", "Gaussian pixels"])):
        names = {name for (name,), _ in some.groups("treatment")}
        for name in sorted(names - {"random labels"}):
            slow = some.where(treatment="random labels").mean("steps")
            ratios[f"{title}, {name}"] = some.where(treatment=name).mean("steps") / slow
    if not ratios:
        raise IncompleteError("no network was trained on random pixels")
    worst = max(ratios, key=lambda title: ratios[title])
    return Outcome(ratios[worst] < 1, f"{ratios[worst]:.2f} times the steps at worst ({worst})")


def _shuffled(rows: Rows) -> Outcome:
    changes = {}
    true, moved = (
        rows.where(model=["mlp-1x512", "mlp-3x512"], treatment=t) for t in ("true labels", "shuffled pixels")
    )
    plain = dict(networks(true))
    for title, some in networks(moved):
        changes[title] = plain[title].mean("test_error") - some.mean("test_error")
    if not changes:
        raise IncompleteError("no fully connected network was trained on shuffled pixels")
    seen = max(abs(change) for change in changes.values()) <= SAME
    return Outcome(seen, ", ".join(f"{100 * change:+.1f} points ({title})" for title, change in changes.items()))


CLAIMS = (
    Claim(
        "parameters",
        "The networks have many more parameters than the 50,000 training examples.",
        f"{ZHANG}, table 1",
        "1,209,866 (MLP 1x512), 1,735,178 (MLP 3x512), 1,387,786 (AlexNet), 1,649,402 (Inception)",
        "exactly the published number for 28x28 colour images",
        _parameters,
    ),
    Claim(
        "fits-everything",
        "The same networks fit true labels, corrupted labels, random labels and three kinds of random images.",
        f"{ZHANG}, figure 1a and table 1",
        "100 % training accuracy; on random labels 99.34 % (MLP 1x512) and 99.82 % (AlexNet)",
        "at least 99 % training accuracy in every run",
        _fits,
    ),
    Claim(
        "chance",
        "A network that has fitted random labels is right on new images as often as a blind guess.",
        f"{ZHANG}, table 1",
        "9.78 % to 10.61 % test accuracy",
        "10 % within three binomial standard deviations of one test set, for every network",
        _chance,
    ),
    Claim(
        "generalises",
        "On true labels these networks do generalise, though nothing about them has changed.",
        f"{ZHANG}, table 1",
        "test accuracy of 50.51 % to 85.75 % on true labels, 40 to 76 points above random labels",
        "a gap in test accuracy of at least 20 points, half of the smallest published one (fewer examples here)",
        _generalises,
    ),
    Claim(
        "slower-with-corruption",
        "The more labels are corrupted, the longer fitting takes.",
        f"{ZHANG}, figure 1b",
        "a smooth rise with the level of corruption",
        "in each network with three levels or more, a rank correlation of level and steps of at least 0.8 and random "
        "labels slower than true ones",
        _slower,
    ),
    Claim(
        "small-factor",
        "Even fully random labels slow fitting down by a small factor only.",
        f"{ZHANG}, section 2.1 and figure 1b",
        "a small constant factor; up to about 3 in the figure (quoted from memory), with 50,000 examples",
        "at most 3 times the steps for true labels, in every network",
        _factor,
    ),
    Claim(
        "test-error-rises",
        "Test error rises steadily with the level of corruption, up to that of a blind guess.",
        f"{ZHANG}, figure 1c",
        "up to 90 %",
        "no fall by more than 2 points from one level to the next, and 85 % to 95 % at the end",
        _test_error,
    ),
    Claim(
        "pixels-faster",
        "Random pixels and Gaussian noise are fitted faster than random labels on real images.",
        f"{ZHANG}, section 2.1 and figure 1a",
        "faster for both; no number is given",
        "fewer steps than for random labels, in every network",
        _pixels_faster,
    ),
    Claim(
        "permutation",
        "A fully connected network does not care where a pixel is: shuffled images are learned as well as plain ones.",
        "follows from the structure of the network and its first weights",
        "the same distribution of test errors",
        "a change of at most 3 points in test accuracy",
        _shuffled,
    ),
)
