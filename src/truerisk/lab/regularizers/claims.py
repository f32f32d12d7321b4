"""The claims of the experiment `regularizers`, with thresholds from the published tables.

Differences between regularizers are small. They are taken between runs of the same seed, which share examples, first
weights and batches, and are judged by their mean and its standard error over seeds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from truerisk.lab.experiment import Claim, Outcome
from truerisk.lab.rows import IncompleteError, Rows

ZHANG = "Zhang et al. 2017"


def family(model: str) -> str:
    """The published network that a model stands for.

    >>> family("inception-small-no-bn"), family("mlp-3x512")
    ('inception-no-bn', 'mlp-3x512')
    """
    return model.replace("-small", "")


def chosen(
    rows: Rows, labels: str = "true", /, *, crop: bool = False, decay: bool = False, dropout: bool = False
) -> Rows:
    """The runs with exactly these regularizers."""

    def fits(run: Mapping[str, Any]) -> bool:
        on = (run["crop"], run["weight_decay"] > 0, run["dropout"] > 0, run["labels"])
        return on == (crop, decay, dropout, labels)

    return Rows(*([run for run in runs if fits(run)] for runs in (rows.present, rows.missing)))


def gains(plain: Rows, other: Rows) -> list[float]:
    """By how much the second choice lowers the test error of the first, seed by seed."""
    before = dict(zip(plain.column("seed"), plain.column("test_error"), strict=True))
    after = dict(zip(other.column("seed"), other.column("test_error"), strict=True))
    if before.keys() != after.keys():
        raise IncompleteError("the two choices were not run with the same seeds")
    return [before[seed] - after[seed] for seed in before]


def standard_error(values: list[float]) -> float:
    """Of the mean; 0 for a single value, whose spread nobody knows."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def points(value: float) -> str:
    """A difference of error rates in percentage points, with its sign."""
    return f"{100 * value:+.1f}"


def _spread(values: list[float]) -> str:
    return f"{points(statistics.fmean(values))} ± {100 * standard_error(values):.1f}"


def _named(rows: Rows, *names: str) -> list[tuple[str, Rows]]:
    """(model, runs) of the models that stand for these published networks; of all models without names."""
    found = [(model, some) for (model,), some in rows.groups("model") if not names or family(model) in names]
    absent = set(names) - {family(model) for model, _ in found}
    if absent:
        raise IncompleteError(f"{', '.join(sorted(absent))} is not in the grid of this scale")
    return found


def _generalizes(rows: Rows) -> Outcome:
    errors, losses = {}, {}
    for model, some in _named(rows):
        errors[model] = chosen(some).mean("test_error")
        rivals = [chosen(some, crop=c, decay=w) for c in (False, True) for w in (False, True)]
        best = min(rival.mean("test_error") for rival in rivals if len(rival) or rival.missing)
        losses[model] = errors[model] - best
    worst, farthest = max(errors, key=errors.__getitem__), max(losses, key=losses.__getitem__)
    return Outcome(
        errors[worst] <= 0.7 and losses[farthest] <= 0.06,
        f"a test error of {100 * errors[worst]:.1f} % at worst ({worst}), at most {100 * losses[farthest]:.1f} points "
        f"above the best regularized one ({farthest})",
    )


def _crop_beats_decay(rows: Rows) -> Outcome:
    ahead, words = [], []
    for model, some in _named(rows, "inception", "alexnet"):
        crop, decay = (gains(chosen(some), other) for other in (chosen(some, crop=True), chosen(some, decay=True)))
        ahead += [a - b for a, b in zip(crop, decay, strict=True)]
        # Crops are harder to fit. The reader should see whether training had ended: in the paper it had.
        fitted = 1 - chosen(some, crop=True).mean("train_error")
        words.append(
            f"{model}: crops {_spread(crop)} ({100 * fitted:.1f} % training accuracy), weight decay {_spread(decay)}"
        )
    return Outcome(statistics.fmean(ahead) > standard_error(ahead), f"gains in points of {'; '.join(words)}")


def _decay_changes_little(rows: Rows) -> Outcome:
    changes = {model: gains(chosen(some), chosen(some, decay=True)) for model, some in _named(rows)}
    largest = max(changes, key=lambda model: abs(statistics.fmean(changes[model])))
    return Outcome(
        abs(statistics.fmean(changes[largest])) <= 0.03, f"{_spread(changes[largest])} points at most ({largest})"
    )


def _worst_fit(rows: Rows, *names: str, **regularizer: bool) -> tuple[float, str]:
    """The largest training error on random labels among these networks with this regularizer, and whose it is."""
    errors = {model: chosen(some, "random", **regularizer).max("train_error") for model, some in _named(rows, *names)}
    worst = max(errors, key=errors.__getitem__)
    return errors[worst], worst


def _fits_noise(rows: Rows) -> Outcome:
    error, model = _worst_fit(rows)
    return Outcome(error <= 0.01, f"a training accuracy of {100 * (1 - error):.1f} % at worst ({model})")


def _fits_noise_with_decay(rows: Rows) -> Outcome:
    error, model = _worst_fit(rows, "inception", "mlp-3x512", "mlp-1x512", decay=True)
    return Outcome(error <= 0.01, f"a training accuracy of {100 * (1 - error):.1f} % at worst ({model})")


def _alexnet_fails_with_decay(rows: Rows) -> Outcome:
    plain, _ = _worst_fit(rows, "alexnet")
    if plain > 0.01:  # then weight decay is not what keeps it from converging
        raise IncompleteError(f"without weight decay it is at {100 * (1 - plain):.1f} % training accuracy only")
    error, model = _worst_fit(rows, "alexnet", decay=True)
    return Outcome(error >= 0.1, f"a training accuracy of {100 * (1 - error):.1f} % ({model})")


def _fits_noise_with_dropout(rows: Rows) -> Outcome:
    error, model = _worst_fit(rows, "alexnet", "mlp-3x512", "mlp-1x512", dropout=True)
    return Outcome(error <= 0.1, f"a training accuracy of {100 * (1 - error):.1f} % at worst ({model})")


def _early_stopping(rows: Rows) -> Outcome:
    found = {}
    for model, some in _named(rows):
        runs = chosen(some)
        found[model] = [a - b for a, b in zip(runs.column("test_error"), runs.column("best_test_error"), strict=True)]
    every = [gain for some in found.values() for gain in some]
    most = max(found, key=lambda model: statistics.fmean(found[model]))
    return Outcome(
        statistics.fmean(every) <= 0.01,
        f"{_spread(every)} points on average over all networks, {_spread(found[most])} at most ({most})",
    )


def _batch_norm(rows: Rows) -> Outcome:
    found = gains(*(chosen(some) for name in ("inception-no-bn", "inception") for _, some in _named(rows, name)))
    return Outcome(statistics.fmean(found) > standard_error(found), f"{_spread(found)} points")


CLAIMS = (
    Claim(
        "generalizes-without",
        "Without any explicit regularizer networks still generalize, nearly as well as with crops and weight decay.",
        f"{ZHANG}, Table 1",
        "85.8, 76.1, 52.4 and 50.5 % test accuracy without, at most 5.2 points below the best with crops or decay",
        "a test error at least 20 points below chance and at most 6 points above the best with crops or decay",
        _generalizes,
    ),
    Claim(
        "crop-beats-decay",
        "Random crops help more than weight decay.",
        f"{ZHANG}, Table 1 and section 3",
        "Inception: crops +3.6, weight decay +0.3; AlexNet: crops +3.6, weight decay +1.3",
        "a larger gain from crops, by more than one standard error over networks and seeds",
        _crop_beats_decay,
    ),
    Claim(
        "decay-changes-little",
        "Weight decay alone changes the test accuracy little.",
        f"{ZHANG}, Table 1",
        "-0.1 to +1.3 points",
        "a mean change of at most 3 points for every network",  # the published 1.3, and noise of few test examples
        _decay_changes_little,
    ),
    Claim(
        "fits-random-labels",
        "All networks fit random labels.",
        f"{ZHANG}, Table 1",
        "99.3 to 100 % training accuracy",
        "at least 99 % for every network without regularizers",
        _fits_noise,
    ),
    Claim(
        "decay-does-not-prevent",
        "With weight decay, Inception and the fully connected networks still fit random labels.",
        f"{ZHANG}, Table 4",
        "they do",
        "at least 99 % training accuracy",
        _fits_noise_with_decay,
    ),
    Claim(
        "alexnet-decay-fails",
        "AlexNet with weight decay fails to converge on random labels.",
        f"{ZHANG}, Table 4",
        "failed to converge",
        "a training accuracy of at most 90 %",
        _alexnet_fails_with_decay,
    ),
    Claim(
        "dropout-does-not-prevent",
        "Dropout does not prevent networks from fitting random labels.",
        f"{ZHANG}, Table 2 (Inception V3 on ImageNet)",
        "91.2 % training accuracy with dropout and weight decay (quoted from memory)",
        "at least 90 % training accuracy with dropout of one half, for every network that has dropout here",
        _fits_noise_with_dropout,
    ),
    Claim(
        "early-stopping-gains-little",
        "Stopping early could gain nothing on CIFAR-10.",
        f"{ZHANG}, section 3.1, Figure 2",
        "none on CIFAR-10 (some on ImageNet)",
        "at most 1 point on average",  # the best of many noisy counts lies below the last one even by chance
        _early_stopping,
    ),
    Claim(
        "batch-norm-helps",
        "Batch norm improves the generalization of Inception a little.",
        f"{ZHANG}, section 3.1",
        "+3 to +4 points",
        "a gain of more than one standard error; its size is not asked for, as errors are smaller on easier data",
        _batch_norm,
    ),
)
