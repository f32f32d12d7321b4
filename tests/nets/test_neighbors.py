"""A user's file imports modules that lie beside it, and nothing of that is left behind."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from truerisk import find_symmetry, measure
from truerisk.errors import TrueriskError
from truerisk.nets import architecture

SHAPE, CLASSES = (4,), 3
NET = """
    from pathlib import Path

    from torch import nn
    from layers import Block, WIDTH

    ready = Block(4, 3)

    class Net(nn.Module):
        def __init__(self, classes):
            super().__init__()
            self.block, self.head = Block(4, WIDTH), nn.Linear(WIDTH, classes)

        def forward(self, x):
            return self.head(self.block(x))

    def build(classes):
        return Net(classes)

    def lazy():
        import layers
        from parts.heads import head
        return nn.Sequential(layers.Block(4, layers.WIDTH), head(layers.WIDTH))

    def from_a_file():
        width = int((Path(__file__).parent / "width.txt").read_text())
        return nn.Sequential(Block(4, width), nn.Linear(width, 3))
"""
LAYERS = """
    from dataclasses import dataclass

    from torch import nn

    WIDTH = {width}

    @dataclass
    class Setting:
        width: "int" = WIDTH

    class Block(nn.Module):
        def __init__(self, before, after):
            super().__init__()
            self.linear = nn.Linear(before, after)

        def forward(self, x):
            return self.linear(x).relu()
"""
HEADS = """
    from torch import nn

    def head(width):
        from layers import Setting
        assert Setting().width == width
        return nn.Linear(width, 3)
"""


def folder(at: Path, width: int) -> Path:
    (at / "parts").mkdir(parents=True)
    for name, text in {"net.py": NET, "layers.py": LAYERS.format(width=width), "parts/heads.py": HEADS}.items():
        (at / name).write_text(textwrap.dedent(text))
    (at / "width.txt").write_text(str(width + 1))
    return at


@pytest.fixture
def untouched():
    """The test leaves ``sys.path`` and the names of neighbors as they were."""
    path, names = list(sys.path), {"layers", "parts", "parts.heads", "net"}
    before = {name: sys.modules.get(name) for name in names}
    yield
    assert sys.path == path
    assert {name: sys.modules.get(name) for name in names} == before


def built(at: Path, name: str = "build"):
    return architecture(f"{at / 'net.py'}:{name}", SHAPE, CLASSES)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(("name", "width"), [("build", 5), ("Net", 5), ("lazy", 5), ("from_a_file", 6)])
def test_files_beside_a_file_are_found(tmp_path, monkeypatch, name, width):
    """From any working folder, at the top of the file and inside the factory, with packages that have no __init__."""
    at = folder(tmp_path / "mine", 5)
    monkeypatch.chdir(tmp_path)
    net = built(at, name).build(0)
    assert next(net.parameters()).shape == (width, 4)
    assert net(torch.zeros(2, 4)).shape == (2, 3)
    assert find_symmetry(net, torch.zeros(1, 4)).dim == width


@pytest.mark.usefixtures("untouched")
def test_a_module_of_the_file_is_taken_as_it_is(tmp_path):
    arch = built(folder(tmp_path / "mine", 5), "ready")
    assert arch.given is not None
    assert arch.given.linear.weight.shape == (3, 4)


@pytest.mark.usefixtures("untouched")
def test_two_folders_with_equal_names_do_not_mix(tmp_path):
    """Both are loaded, then both build, in turns; what is imported late comes from the right folder."""
    one, two = (built(folder(tmp_path / name, width), "lazy") for name, width in (("one", 5), ("two", 7)))
    widths = [len(arch.build(seed)[0].linear.weight) for seed in (0, 1) for arch in (one, two)]
    assert widths == [5, 7, 5, 7]
    assert type(one.build(0)[0]) is type(one.build(1)[0])
    assert type(one.build(0)[0]) is not type(two.build(0)[0])


def test_a_module_of_the_users_own_stays(tmp_path, monkeypatch):
    """``layers`` from elsewhere is loaded already: the file gets its neighbor, the user keeps the other one."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "layers.py").write_text("WIDTH = 99\n")
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    mine = importlib.import_module("layers")
    try:
        assert len(built(folder(tmp_path / "mine", 5), "lazy").build(0)[0].linear.weight) == 5
        assert sys.modules["layers"] is mine
    finally:
        del sys.modules["layers"]


def test_a_neighbor_that_the_user_has_loaded_is_shared(tmp_path, monkeypatch):
    """A notebook beside the file: ``isinstance`` with its own classes holds."""
    at = folder(tmp_path / "mine", 5)
    monkeypatch.syspath_prepend(at)
    mine = importlib.import_module("layers")
    try:
        assert isinstance(built(at).build(0).block, mine.Block)
        assert sys.modules["layers"] is mine
    finally:
        del sys.modules["layers"]


def test_a_neighbor_that_the_user_loads_later_stays(tmp_path, monkeypatch):
    at = folder(tmp_path / "mine", 5)
    arch = built(at, "lazy")
    monkeypatch.syspath_prepend(at)
    mine = importlib.import_module("layers")
    try:
        assert len(arch.build(0)[0].linear.weight) == 5
        assert sys.modules["layers"] is mine
    finally:
        del sys.modules["layers"]


@pytest.mark.usefixtures("untouched")
def test_libraries_are_not_loaded_again(tmp_path):
    """Files and folders with the names of libraries beside a network: what is loaded stays, torch above all."""
    at = folder(tmp_path / "mine", 5)
    (at / "torch.py").write_text("raise SystemError('not torch')\n")
    (at / "scipy").mkdir()  # data, say
    import scipy
    import scipy.stats

    assert built(at).build(0)(torch.zeros(1, 4)).shape == (1, 3)
    assert sys.modules["torch"] is torch
    assert sys.modules["scipy"] is scipy
    assert sys.modules["scipy.stats"] is scipy.stats


@pytest.mark.usefixtures("untouched")
def test_an_edited_neighbor_is_read_again(tmp_path):
    at = folder(tmp_path / "mine", 5)
    assert len(built(at).build(0).block.linear.weight) == 5
    (at / "layers.py").write_text(textwrap.dedent(LAYERS.format(width=17)))  # another size, so that Python notices
    assert len(built(at).build(0).block.linear.weight) == 17


@pytest.mark.usefixtures("untouched")
def test_failures_leave_nothing_and_say_why(tmp_path):
    at = folder(tmp_path / "mine", 5)
    (at / "layers.py").write_text("import no_such_thing\n")
    with pytest.raises(TrueriskError, match=r"net.py:build could not be imported .*no_such_thing"):
        built(at)
    (at / "parts" / "heads.py").write_text("1 / 0\n")
    (at / "layers.py").write_text(textwrap.dedent(LAYERS.format(width=5)))
    with pytest.raises(TrueriskError, match="ZeroDivisionError"):
        built(at, "lazy")


@pytest.mark.usefixtures("untouched")
def test_such_a_network_is_measured(tmp_path):
    """By name, from Python: it is trained, folded, and followed like any other."""
    at = folder(tmp_path / "mine", 5)
    X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    found = measure(f"{at / 'net.py'}:build", (X.numpy(), (X[:, 0] > 0).long().numpy() + 1), only=["parameters"])
    assert found["parameters"] == 5 * 4 + 5 + 5 * 3 + 3
