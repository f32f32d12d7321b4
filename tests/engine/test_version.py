"""The version of a task follows its own code: neither more nor less."""

import functools
import importlib
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
