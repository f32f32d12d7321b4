"""The page of a landscape: numbers, clipped colors, hostile names, surfaces in a script."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

from truerisk.landscape import Landscape, Pair, Plane, Surface, Twin
from truerisk.report.landscape import render_landscape
from truerisk.report.landscape_figures import MOST, Scale, scale_of, thinned

ONE = {"w": torch.ones(2)}


def bowl(steep: float, size: int = 7, start: float = 0.1) -> Surface:
    x = np.linspace(-1, 1, size)
    loss = start + steep * (x[None, :] ** 2 + x[:, None] ** 2)
    return Surface(x, x, loss, np.zeros_like(loss), (float((start / steep) ** 0.5),) * 8)


def found(mine: Surface, other: Surface | None, **plane) -> Landscape:
    here = Plane("random 1", "random", ONE, ONE, **plane)
    twin = "there is none." if other is None else Twin(torch.nn.Identity(), {}, 8, 1.0, 1e-7)
    return Landscape((Pair(here, mine, None if other is None else here, other),), twin, "filter", 50, 1e-8)


def test_numbers_and_what_the_colors_leave_out():
    page = render_landscape(found(bowl(1.0), bowl(1000.0)), {"Network": "net"})
    assert "doubles at a distance of 0.316" in page
    assert "at 0.01." in page
    assert "Colors and heights end at a loss of 2.1; the twin reaches 2,000." in page
    assert page.count("<canvas") == 2


def test_surfaces_of_the_script_are_on_one_scale():
    page = render_landscape(found(bowl(1.0), bowl(1000.0)), {"Network": "net"})
    given = json.loads(re.search(r'id="surfaces">(.*?)</script>', page, re.DOTALL)[1])
    own, twin = given["grids"]["0-network"], given["grids"]["0-twin"]
    assert own[3][3] == twin[3][3] == 0.0
    assert own[0][0] == twin[0][0] == 1.0
    assert own[3][0] == pytest.approx(np.log(1.1 / 0.1) / np.log(2.1 / 0.1), abs=1e-3)


def test_names_are_escaped():
    page = render_landscape(found(bowl(1.0), None), {"Network": "<script>alert(1)</script>"}, "truerisk <b>")
    assert "<script>alert" not in page
    assert "truerisk &lt;b&gt;" in page
    assert page.count("<canvas") == 1


def test_losses_that_are_not_finite_and_zero():
    loss = bowl(1.0).loss.copy()
    loss[0, 0], loss[3, 3] = np.nan, 0.0
    surface = Surface(bowl(1.0).x, bowl(1.0).y, loss, loss)
    pair = found(surface, bowl(1.0)).pairs[0]
    scale = scale_of(pair)
    assert scale.of(loss)[0, 0] == 1.0
    assert scale.of(loss)[3, 3] == 0.0
    assert Scale(-1, 1).of(np.array([1e9, 1e-9, 1.0])).tolist() == [1.0, 0.0, 0.5]


def test_large_grids_are_thinned_around_the_middle():
    few = thinned(bowl(1.0, 301))
    assert len(few.x) <= MOST + 2
    assert few.x[0] == -1
    assert 0.0 in few.x
    assert few.center == pytest.approx(0.1)


def test_the_path_is_drawn():
    page = render_landscape(
        found(bowl(1.0), None, path=((0.5, 0.5), (0.0, 0.0)), explained=(0.9, 0.05)), {"Network": "n"}
    )
    assert 'class="trail"' in page
    assert "90.0% and 5.0% of the variance" in page
