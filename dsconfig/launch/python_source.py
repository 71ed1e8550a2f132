"""Python programs of a repository as syntax trees: parsed, never executed."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterator
from functools import lru_cache

from dsconfig.core.file_access import contents, is_file, may_read, repository_root
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.launch.repository import tick

_MAX_FILE, _MAX_PROGRAM = 256 * 1024, 512 * 1024
"""Size limits in bytes: of one file, and of all files read for a program."""
_MAX_MODULES, _MAX_FOLDERS = 16, 8
"""Limits of the imports that are followed: modules per program, and parent directories searched for a module.
"""


class Module(NamedTuple):
    """A parsed file."""

    path: str
    nodes: tuple[ast.AST, ...]
    """All syntax nodes, the module first. Walking the tree is the expensive step, so it happens once."""

    @property
    def body(self) -> list[ast.stmt]:
        """The top-level statements."""
        first = self.nodes[0]
        return first.body if isinstance(first, ast.Module) else []

    def location(self, node: ast.AST) -> str:
        """Location of a node as shown in messages: `train.py:12`."""
        return f"{os.path.relpath(self.path)}:{getattr(node, 'lineno', 1)}"


def parse_module(path: str, data: bytes) -> Module | None:
    """Parse a file; None if it is not valid Python 3 or too large."""
    nodes = _parse(data) if len(data) <= _MAX_FILE else ()
    return Module(path, nodes) if nodes else None


@lru_cache(maxsize=64)
def _parse(data: bytes) -> tuple[ast.AST, ...]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for example invalid escapes, which are the user's
            return tuple(ast.walk(ast.parse(data)))
    # Deeply nested source exhausts the stack of CPython's parser.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def program_modules(path: str, launch: str) -> tuple[Module, ...]:
    """Parse a program and the modules of its repository that it imports, in import order.

    `launch`: file that starts the program; it decides which files may be read. Empty if the program cannot be
    parsed.
    """
    return _modules(os.path.abspath(path), launch, tick())


@lru_cache(maxsize=16)
def _modules(path: str, launch: str, _: int) -> tuple[Module, ...]:
    parsed: dict[str, Module] = {}
    queue, size = [path], 0
    for current in queue:
        if current in parsed or len(parsed) == _MAX_MODULES or not may_read(current, launch):
            continue
        try:
            data = contents(current, _MAX_FILE)
        except OSError:
            continue
        size += len(data)
        module = parse_module(current, data) if size <= _MAX_PROGRAM else None
        if module is None:
            if current == path:
                return ()
            continue
        parsed[current] = module
        if len(queue) < _MAX_MODULES * 4:
            queue += _imported_files(module)
    return tuple(parsed.values())


def _imported_files(module: Module) -> Iterator[str]:
    """Yield the files of the repository that a module imports."""
    folder = os.path.dirname(module.path)
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module_file(alias.name, folder)
        elif isinstance(node, ast.ImportFrom):
            base = folder
            for _ in range(min(node.level, _MAX_FOLDERS) - 1):
                base = os.path.dirname(base)
            names = [node.module or "", *(f"{node.module or ''}.{alias.name}" for alias in node.names)]
            for name in names:
                yield from _module_file(name.strip("."), base, above=not node.level)


def _module_file(name: str, folder: str, *, above: bool = True) -> Iterator[str]:
    """Yield the file of a module, relative to a directory or to its parents within the repository."""
    parts, top = name.split("."), repository_root(folder)
    if not all(parts):
        return
    # The directory of a script or the repository root is usually on `sys.path`, so parents are tried as well.
    for _ in range(_MAX_FOLDERS):
        base = os.path.join(folder, *parts)
        for file in (f"{base}.py", os.path.join(base, "__init__.py")):
            if is_file(file):
                yield file
                return
        if not above or folder == top or top is None:
            return
        folder = os.path.dirname(folder)


def called_name(call: ast.Call) -> str:
    """Last name of the called function: `initialize` of `deepspeed.initialize(...)`."""
    return last_name(call.func)


def last_name(node: ast.AST | None) -> str:
    """Last name of `a.b.c`; empty for any other node."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def keyword(call: ast.Call, *names: str) -> ast.expr | None:
    """Value of the first of these keyword arguments that a call has."""
    return next((each.value for each in call.keywords if each.arg in names), None)


def constant(node: ast.expr | None) -> Json:
    """Value of a number, string or bool literal; None for any other node."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = constant(node.operand)
        return -number if isinstance(number, int | float) and not isinstance(number, bool) else None
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
        return node.value
    return None


def calls(modules: tuple[Module, ...]) -> Iterator[tuple[Module, ast.Call]]:
    """Yield every call in these modules."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.Call):
                yield module, node
