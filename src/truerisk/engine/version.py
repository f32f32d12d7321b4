"""The version of a task: a hash of its own code, so that a result is never taken for that of another program.

The hash covers the task and, step by step, whatever it uses from its own module and from other modules of the same
package (``truerisk.lab``): functions, classes, constants, imports, and statements at the top of those modules that may
change any of them. Comments, docstrings, types, layout and all that the task does not use (claims, figures, other
experiments) leave it as it is. So does a change elsewhere, in a library say; an experiment that needs to notice one
raises its ``version``.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import importlib.util
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from truerisk.errors import TrueriskError

DEPTH = 2  # how much of a module's dotted name says where it belongs: truerisk.lab
LENGTH = 16  # hexadecimal digits: two programs collide with probability 2^-64
NEWER = ("ctx", "kind", "type_params", "type_comment")  # parts of a tree that say nothing, or not in every Python
EVERY = "*"  # in a table of definitions: what counts for every name of the module
START = time.time()  # code that was changed later may not be the code that runs

Table = dict[str, list[ast.stmt]]  # what gives each name of a module its meaning
Place = tuple[str, str]  # a module and a name in it
Piece = str | Place  # code, or the place that an import leads to


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
    return hash_code(source_of(module), name, module)


def hash_code(
    source: str,
    name: str,
    module: str = "",
    depth: int = DEPTH,
    leaves: frozenset[str] = frozenset(),
    write: Callable[[ast.AST], str] = ast.unparse,
) -> str:
    """As `code_of`, for a given text; without a module, imports are not followed.

    ``leaves`` are modules that are named, not followed. ``write`` turns code into text: `ast.unparse`, whose quotes
    depend on the version of Python, or `outline`, which does not.
    """
    package = ".".join(module.split(".")[:-1][:depth])
    tables = {module: definitions(source)}
    if name not in tables[module]:
        raise TrueriskError(f"the task {name} is not defined where the experiment is; define it there with def.")
    waiting: list[Place] = [(module, name)]
    pieces: dict[Place, list[Piece]] = {}
    while waiting:
        where, wanted = waiting.pop()
        if where not in tables:
            tables[where] = definitions(source_of(where))
        if (where, wanted) in pieces or wanted not in tables[where]:  # a builtin, an argument, a local name
            continue
        found = pieces[where, wanted] = []
        waiting.append((where, EVERY))
        for node in tables[where][wanted]:
            targets = [target for target in _targets(node, where, package) if target[0] not in leaves]
            if isinstance(node, ast.Import | ast.ImportFrom) and targets:
                found += targets
            else:
                found.append(write(_bare(node)))
                waiting += [(where, used) for used in _names(node)]
            waiting += [place for target in targets for place in _whole(target, tables)]
    return hashlib.sha256(_text(pieces).encode()).hexdigest()[:LENGTH]


def outline(node: Any) -> str:
    """A syntax tree as text, the same in every version of Python that parses it.

    >>> outline(ast.parse("x = f(1)").body[0])
    'Assign(targets=[Name(id=x)] value=Call(func=Name(id=f) args=[Constant(value=1)]))'
    """
    if isinstance(node, ast.AST):
        fields = (
            (name, value) for name, value in ast.iter_fields(node) if name not in NEWER and value not in (None, [])
        )
        return f"{type(node).__name__}({' '.join(f'{name}={outline(value)}' for name, value in fields)})"
    if isinstance(node, list):
        return f"[{' '.join(map(outline, node))}]"
    bare = isinstance(node, str) and node.isidentifier() and node not in ("True", "False", "None")
    return node if bare else repr(node)


def _text(pieces: dict[Place, list[Piece]]) -> str:
    """All pieces in order. Modules are named only where two define the same name: code may move within the package."""
    count = Counter(name for _, name in pieces)

    def label(place: Place) -> str:
        return place[1] if count[place[1]] == 1 else ".".join(place)

    lines = [
        f"{label(place)}\n{piece if isinstance(piece, str) else f'from {label(piece)}'}"
        for place, found in pieces.items()
        for piece in found
    ]
    return "\n".join(sorted(lines))


def definitions(source: str) -> Table:
    """For each name at the top of a module, all statements there that give it a meaning or change it.

    Calls (``TABLE.update(...)``) and functions behind a decorator of the module's own (``@register``) may change
    anything: they stand under `EVERY`.
    """
    table: Table = {}
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant):
            table.setdefault(EVERY, []).append(statement)
        for name in dict.fromkeys(_bound(statement)):
            table.setdefault(name, []).append(_alone(statement, name))
    for name, statements in list(table.items()):
        for node in statements:
            decorators = getattr(node, "decorator_list", [])
            if name != EVERY and any(_defined(base, table) for d in decorators for base in _names(d)):
                table.setdefault(EVERY, []).append(node)
    return table


def _defined(name: str, table: Table) -> bool:
    return any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in table.get(name, []))


def _bound(node: ast.AST) -> Iterator[str]:
    """The names that a statement gives a meaning, or that it changes: not those inside functions and comprehensions."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store | ast.Del):
            yield node.id
    elif isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node.ctx, ast.Store | ast.Del):
            yield from _names(node.value)
    elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        for part in ast.iter_child_nodes(node):
            yield from _bound(part)


def _alone(statement: ast.stmt, name: str) -> ast.stmt:
    """Of an import of several names, the import of this one."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        one = copy.copy(statement)
        one.names = [alias for alias in statement.names if (alias.asname or alias.name.partition(".")[0]) == name]
        return one
    return statement


def _targets(node: ast.AST, where: str, package: str) -> list[Place]:
    """The places inside the package that imports in this statement lead to; `EVERY` for a whole module."""
    found: list[Place] = []
    for part in ast.walk(node) if package else ():
        if isinstance(part, ast.Import):
            found += [(alias.name, EVERY) for alias in part.names if _inside(alias.name, package)]
        elif isinstance(part, ast.ImportFrom):
            module = "." * part.level + (part.module or "")
            if part.level:
                module = importlib.util.resolve_name(module, where if _is_package(where) else where.rpartition(".")[0])
            if _inside(module, package):
                found += [_place(module, alias.name, where) for alias in part.names]
    return found


def _place(module: str, name: str, where: str) -> Place:
    if name == "*":
        raise TrueriskError(f"{where} imports * from {module}, so the version of its code is unknown; import names.")
    return (f"{module}.{name}", EVERY) if _is_module(module, name) else (module, name)


def _whole(target: Place, tables: dict[str, Table]) -> list[Place]:
    """A place itself, or all names of a module."""
    module, name = target
    if name != EVERY:
        return [target]
    if module not in tables:
        tables[module] = definitions(source_of(module))
    return [(module, each) for each in tables[module]]


def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


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


def _is_package(module: str) -> bool:
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.submodule_search_locations is not None


def source_of(module: str) -> str:
    try:
        spec = importlib.util.find_spec(module)
    except ValueError:  # a script, or a notebook
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise TrueriskError(
            f"the source of {module} is not here, so the version of its code is unknown; "
            "put the experiment into a file of its own and give its path."
        )
    path = Path(spec.origin)
    if module in sys.modules and path.stat().st_mtime > START:
        raise TrueriskError(f"{path.name} was changed while this process runs; start again to run the new code.")
    return path.read_text(encoding="utf-8")
