"""The version of a task follows its own code: neither more nor less."""

import functools
import importlib
import math
import sys
import textwrap

import pytest

from truerisk.engine import fingerprint, hash_code
from truerisk.engine.version import code_of
from truerisk.errors import TrueriskError

SOURCE = '''
"""An experiment."""
import math
from collections import Counter as C

DEPTH = 3
UNUSED = 1
WIDTH: int = 2 * DEPTH


class Net:
    """A net."""

    def size(self):
        return WIDTH


def helper(x):
    """Help."""
    return Net().size() + math.sin(x)


def task(setting):
    # a comment
    return {"value": helper(setting["x"])}


def claim(rows):
    return UNUSED
'''


def edited(*changes):
    source = SOURCE
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    return hash_code(source, "task")


@pytest.mark.parametrize(
    "change",
    [
        ("DEPTH = 3", "DEPTH = 4"),  # a constant of a constant of a class of a helper
        ("2 * DEPTH", "3 * DEPTH"),
        ("math.sin", "math.cos"),
        ("import math", "import cmath as math"),
        ('setting["x"]', 'setting["y"]'),
        ("return WIDTH", "return WIDTH + 1"),
    ],
)
def test_what_the_task_uses_counts(change):
    assert edited(change) != edited()


@pytest.mark.parametrize(
    "change",
    [
        ("# a comment", "# another comment"),
        ('"""Help."""', '"""Help more."""'),
        ('    """A net."""\n\n', ""),
        ("UNUSED = 1", "UNUSED = 2"),
        ("def helper(x):", "def helper(x: UNUSED) -> float:"),
        ("return UNUSED", "return -UNUSED"),
        ('{"value": helper(setting["x"])}', '{\n        "value": helper(setting["x"]),\n    }'),
        ("from collections import Counter as C", ""),
        ("import math\n", "import math, cmath\n"),
    ],
)
def test_what_it_does_not_use_does_not(change):
    assert edited(change) == edited()


def test_names_in_blocks_are_found():
    one = "try:\n    import fast\nexcept ImportError:\n    LIMIT = 1\ndef task(s):\n    return LIMIT"
    assert hash_code(one, "task") != hash_code(one.replace("LIMIT = 1", "LIMIT = 2"), "task")


def test_decorators_and_defaults_count():
    one = "LIMIT = 1\nWRAP = 5\n\ndef wrap(f):\n    return WRAP\n\n@wrap\ndef task(s, most=LIMIT):\n    return s"
    assert (
        len({hash_code(one.replace(*c), "task") for c in (("", ""), ("LIMIT = 1", "LIMIT = 2"), ("= 5", "= 6"))}) == 3
    )


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        ("def f():\n    return 1\nf = cache(f)\ndef task(s):\n    return f()", "return 1", "return 2"),
        ("X = 1\nX += 1\ndef task(s):\n    return X", "X = 1", "X = 5"),
        ("def n():\n    return 1\nS = [n for n in (1, 2)]\ndef task(s):\n    return n()", "return 1", "return 2"),
        ("T = {}\nT['a'] = 1\ndef task(s):\n    return T", "= 1", "= 2"),
        ("T = {}\nT.update(a=1)\ndef task(s):\n    return T", "a=1", "a=2"),
        ("class P:\n    lr = 0\nP.lr = 1\ndef task(s):\n    return P.lr", "lr = 1", "lr = 2"),
        ("import torch\ntorch.set_default_dtype(1)\ndef task(s):\n    return 0", "(1)", "(2)"),
        (
            "ALL = []\ndef register(f):\n    ALL.append(f)\n@register\ndef one():\n    return 1\n"
            "def task(s):\n    return ALL[0]()",
            "return 1",
            "return 2",
        ),
        ("from b import f as x, g as y\ndef task(s):\n    return x()", "f as x, g as y", "g as x, f as y"),
        ("if True:\n    from b import f\nelse:\n    f = 1\ndef task(s):\n    return f", "from b", "from c"),
        ("def task(s):\n    from b import f\n    return f()", "from b", "from c"),
    ],
)
def test_changes_behind_a_name_count(source, old, new):
    assert source.count(old) == 1
    assert hash_code(source, "task") != hash_code(source.replace(old, new), "task")


def test_a_task_from_elsewhere_is_refused():
    with pytest.raises(TrueriskError, match="is not defined where the experiment is"):
        hash_code("from other import task", "run")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with an experiment, a module beside it, and a library elsewhere."""

    def write(**files):
        folder = tmp_path / "lab_of_test"
        folder.mkdir(exist_ok=True)
        texts = {
            "__init__": "",
            "beside": "SIZE = 1\ndef used():\n    return abs(SIZE)\ndef unused():\n    return 2\n",
            "experiment": """
                from lab_of_test.beside import used as mine
                from library_of_test import tool
                def task(setting):
                    return {"v": mine() + tool()}
                """,
            **files,
        }
        for name, text in texts.items():
            (folder / f"{name}.py").write_text(textwrap.dedent(text))
        (tmp_path / "library_of_test.py").write_text(files.get("library", "def tool():\n    return 1\n"))
        importlib.invalidate_caches()
        code_of.cache_clear()
        for name in [name for name in sys.modules if name.startswith(("lab_of_test", "library_of_test"))]:
            del sys.modules[name]
        return fingerprint(importlib.import_module("lab_of_test.experiment").task)

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("truerisk.engine.version.START", math.inf)  # these files are written after it
    yield write
    code_of.cache_clear()
    for name in [name for name in sys.modules if name.startswith(("lab_of_test", "library_of_test"))]:
        del sys.modules[name]


def test_modules_beside_the_experiment_count_and_others_do_not(package):
    first = package()
    assert package() == first
    beside = "SIZE = {}\ndef used():\n    return abs(SIZE)\ndef unused():\n    return {}\n"
    assert package(beside=beside.format(2, 2)) != first
    assert package(beside=beside.format(1, 3)) == first
    moved = "from lab_of_test.elsewhere import used as mine\nfrom library_of_test import tool\n"
    moved += "def task(setting):\n    return {'v': mine() + tool()}\n"
    assert package(experiment=moved, elsewhere=beside.format(1, 3)) == first
    whole = "import library_of_test\nfrom lab_of_test import beside\ndef task(s):\n    return beside.used()\n"
    assert package(experiment=whole) != package(experiment=whole, beside=beside.format(1, 3))
    assert package(library="def tool():\n    return 2\n") == first


def test_a_task_that_is_no_function_is_refused():
    with pytest.raises(TrueriskError, match="no function at the top"):
        fingerprint(functools.partial(print, 1))
    with pytest.raises(TrueriskError, match="no function at the top"):
        fingerprint(lambda setting: {})


@pytest.mark.parametrize(
    "how",
    [
        "from .beside import used\ndef task(s):\n    return used()\n",
        "from . import beside\ndef task(s):\n    return beside.used()\n",
        "import lab_of_test.beside\ndef task(s):\n    return lab_of_test.beside.used()\n",
        "import lab_of_test.beside as b\ndef task(s):\n    return b.used()\n",
        "def task(s):\n    from lab_of_test.beside import used\n    return used()\n",
        "if True:\n    from lab_of_test.beside import used\ndef task(s):\n    return used()\n",
        "from lab_of_test.between import used\ndef task(s):\n    return used()\n",
        "from lab_of_test import between\ndef task(s):\n    return between.used()\n",
    ],
)
def test_every_way_to_import_from_beside_is_followed(package, how):
    beside = "SIZE = {}\ndef used():\n    return SIZE\n"
    between = "from lab_of_test.beside import used\n"
    first = package(experiment=how, beside=beside.format(1), between=between)
    assert package(experiment=how, beside=beside.format(1), between=between) == first
    assert package(experiment=how, beside=beside.format(2), between=between) != first


def test_the_same_name_in_two_modules_is_told_apart(package):
    how = "from lab_of_test.{} import f as x\nfrom lab_of_test.{} import f as y\ndef task(s):\n    return x() - y()\n"
    files = {"b": "def f():\n    return 1\n", "c": "def f():\n    return 2\n"}
    assert package(experiment=how.format("b", "c"), **files) != package(experiment=how.format("c", "b"), **files)


def test_stars_are_refused(package):
    with pytest.raises(TrueriskError, match="import names"):
        package(experiment="from lab_of_test.beside import *\ndef task(s):\n    return used()\n")


def test_code_that_changed_under_a_running_process_is_refused(package, monkeypatch):
    package()
    code_of.cache_clear()
    monkeypatch.setattr("truerisk.engine.version.START", 0.0)
    with pytest.raises(TrueriskError, match="was changed while this process runs"):
        fingerprint(sys.modules["lab_of_test.experiment"].task)
