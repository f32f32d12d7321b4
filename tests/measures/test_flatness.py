"""PAC-Bayes flatness: formulas against plain loops, given the radius (which has tests of its own)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from measures.cases import build
from measures.test_searched import taught

from truerisk.measures import MEASURES, NotDefined, Subject


@pytest.fixture(scope="module")
def subject(images):
    """30 of 60 examples are in the sample: m is 60 all the same."""
    module = build("convnet")
    return Subject(module, taught(module, images), build("convnet", 1), rows=30)


def value(subject, name):
    return MEASURES[name](subject).value


def flat(module):
    """All trainable parameters, biases too, as a list of Python floats."""
    return [float(v) for p in module.parameters() for v in p.detach().flatten()]


def test_quadratic_forms(subject):
    w, w0 = flat(subject.module), flat(subject.init)
    sigma = value(subject, "pacbayes-flatness") ** -0.5
    for name, terms in {
        "pacbayes-origin": [a * a for a in w],
        "pacbayes-init": [(a - b) ** 2 for a, b in zip(w, w0, strict=True)],
    }.items():
        expected = math.fsum(terms) / (4 * sigma**2) + math.log(60 / sigma) + 10
        assert value(subject, name) == pytest.approx(expected, rel=1e-12)


def test_magnitude_aware_forms(subject):
    w, w0 = flat(subject.module), flat(subject.init)
    sigma = value(subject, "pacbayes-magnitude-flatness") ** -0.5
    for name, size in {
        "pacbayes-magnitude-origin": math.fsum(a * a for a in w),
        "pacbayes-magnitude-init": math.fsum((a - b) ** 2 for a, b in zip(w, w0, strict=True)),
    }.items():
        total = 0.0
        for a, b in zip(w, w0, strict=True):
            total += math.log((1e-6 + (sigma**2 + 1) * size / len(w)) / (1e-6 + sigma**2 * (a - b) ** 2)) / 4
        assert value(subject, name) == pytest.approx(total + math.log(60 / sigma) + 10, rel=1e-10)


@pytest.mark.parametrize("name", ["pacbayes-origin", "pacbayes-init", "pacbayes-magnitude-init"])
def test_layers_add_up(name, subject):
    found = MEASURES[name](subject)
    radius = "pacbayes-magnitude-flatness" if "magnitude" in name else "pacbayes-flatness"
    rest = math.log(60 * math.sqrt(value(subject, radius))) + 10
    assert sum(found.layers.values()) + rest == pytest.approx(found.value)
    assert len(found.layers) == len(list(subject.module.parameters()))


def test_measures_from_initialization_need_it(images):
    module = build("mlp")
    subject = Subject(module, taught(module, images))
    for name in ("pacbayes-init", "pacbayes-magnitude-init", "pacbayes-magnitude-origin", "sharpness-init"):
        with pytest.raises(NotDefined, match="initialization"):
            MEASURES[name](subject)
    assert np.isfinite(value(subject, "pacbayes-origin"))
