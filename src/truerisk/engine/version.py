"""The version of a task: a hash of its own code, so that a result is never taken for that of another program.

The hash covers the task and, step by step, whatever it uses from its own module and from other modules of the same
package (``truerisk.lab``): functions, classes, constants, imports. Comments, docstrings, types, layout and all that the
task does not use (claims, figures, other experiments) leave it as it is. So does a change elsewhere, in a library say;
an experiment that needs to notice one raises its ``version``.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import importlib.util
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from truerisk.errors import TrueriskError

DEPTH = 2  # how much of a module's dotted name says where it belongs: truerisk.lab
LENGTH = 16  # hexadecimal digits: two programs collide with probability 2^-64


def fingerprint(task: Callable[..., Any]) -> str:
    """The hash of a task's own code.

    A task that is no function of a module says so itself: it has an attribute ``fingerprint``.

    >>> fingerprint(fingerprint) == fingerprint(fingerprint) != fingerprint(code_of)
    True
    """
    own = getattr(task, "fingerprint", None)
    if isinstance(own, str):
        return own
    module, name = getattr(task, "__module__", None), getattr(task, "__qualname__", "")
    if not isinstance(module, str) or not name.isidentifier():
        raise TrueriskError(f"the task {task!r} is no function at the top of a module; define it there with def.")
    return code_of(module, name)


@cache
def code_of(module: str, name: str) -> str:
    """The hash of the code that ``name`` needs in ``module`` and in modules of the same package."""
    return hash_code(_source(module), name, module)


def hash_code(source: str, name: str, module: str = "") -> str:
    """As `code_of`, for a given text; without a module, imports are not followed."""
    package = ".".join(module.split(".")[:-1][:DEPTH])
    tables = {module: _definitions(source)}
    waiting, pieces = [(module, name)], {}
    while waiting:
        where, wanted = waiting.pop()
        if (where, wanted) in pieces:
            continue
        if where not in tables:
            tables[where] = _definitions(_source(where))
        node = tables[where].get(wanted)
        if node is None:  # a builtin or an argument; or a module beside, which counts as a whole
            if where != module and _is_module(where, wanted):
                pieces[where, wanted] = ast.unparse(ast.parse(_source(f"{where}.{wanted}")))
            continue
        imported = _imported(node, package)
        pieces[where, wanted] = "" if imported else ast.unparse(_bare(node))
        waiting += [imported] if imported else [(where, used) for used in _names(node)]
    # Without the modules' names: moving code within the package changes nothing.
    text = "\n".join(sorted(f"{wanted}\n{code}" for (_, wanted), code in pieces.items() if code))
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def _definitions(source: str) -> dict[str, ast.stmt]:
    """The statement at the top of a module that gives each name its meaning (the last one, if there are several)."""
    table: dict[str, ast.stmt] = {}
    for statement in ast.parse(source).body:
        for name in _bound(statement):
            table[name] = _alone(statement, name)
    return table


def _alone(statement: ast.stmt, name: str) -> ast.stmt:
    """Of an import of several names, the import of this one."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        one = copy.copy(statement)
        one.names = [alias for alias in statement.names if (alias.asname or alias.name.partition(".")[0]) == name]
        return one
    return statement


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
    else:  # an assignment, or a block around some
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name


def _imported(node: ast.stmt, package: str) -> tuple[str, str] | None:
    """(module, name) where the statement imports a name from a module of the package itself."""
    if not isinstance(node, ast.ImportFrom) or not package or node.level:
        return None
    if node.module is None or not (node.module == package or node.module.startswith(f"{package}.")):
        return None
    return node.module, node.names[0].name


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _bare(node: ast.stmt) -> ast.stmt:
    """The statement without docstrings and without the types of functions, in place."""
    for part in ast.walk(node):
        if isinstance(part, ast.arg):
            part.annotation = None
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            part.returns = None
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(part):
            part.body = part.body[1:] or [ast.Pass()]
    return node


def _is_module(package: str, name: str) -> bool:
    try:
        return importlib.util.find_spec(f"{package}.{name}") is not None
    except ModuleNotFoundError:  # `package` is a plain module
        return False


def _source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise TrueriskError(f"the source of the module {module} is not here, so its version is unknown.")
    return Path(spec.origin).read_text(encoding="utf-8")
