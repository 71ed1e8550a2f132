"""Python programs of a repository as syntax trees: parsed, never executed."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache

from dsconfig.core.file_access import contents, is_file, may_read, repository_root
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.launch.python.name_bindings import Binding, Names
from dsconfig.launch.repository import cache_key, programs, tick

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

    @property
    def names(self) -> Names:
        """Scopes and bindings of the module."""
        return names_of(self.nodes[0])

    def location(self, node: ast.AST) -> str:
        """Location of a node as shown in messages: `train.py:12`."""
        return f"{os.path.relpath(self.path)}:{getattr(node, 'lineno', 1)}"


@lru_cache(maxsize=64)
def names_of(tree: ast.AST) -> Names:
    """Return the scopes and bindings of a parsed module."""
    assert isinstance(tree, ast.Module)
    return Names(tree)


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


class ProgramRepository:
    """The modules around a program: those that it imports, and those that import it."""

    def __init__(self, name: str) -> None:
        self._launch = name
        self._is_file = bool(name) and not name.startswith("<")

    def definition(self, module: Module, function: ast.expr) -> tuple[Module, ast.AST] | None:
        """Return the function or class that an imported name refers to; None if it is not in the repository."""
        return self._definition(module, function, _MAX_REEXPORTS)

    def imports_of(self, module: Module, name: str) -> Iterator[tuple[Module, ast.expr]]:
        """Yield the expressions in other modules that read a global name of a module."""
        yield from self._imports_of(module, name, _MAX_REEXPORTS)

    def attributes_of(self, module: Module, name: str) -> Iterator[tuple[Module, ast.expr]]:
        """Yield the accesses to an attribute of this name in modules that import a module."""
        for importer, _ in self._importers(module):
            for access in importer.names.attributes.get(name, ()):
                yield importer, access

    def _definition(self, module: Module, function: ast.expr, steps: int) -> tuple[Module, ast.AST] | None:
        if isinstance(function, ast.Name):
            bindings = module.names.bindings_of(function)
            return self._imported(module, bindings[0], steps) if len(bindings) == 1 else None
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            bindings = module.names.bindings_of(function.value)
            if len(bindings) == 1 and bindings[0].kind == "import":
                for file in self._files(module, bindings[0]):
                    if defined := self._defined(file, function.attr, steps):
                        return defined
        return None

    def _imported(self, module: Module, binding: Binding, steps: int) -> tuple[Module, ast.AST] | None:
        """Return the function or class that `from module import name` binds."""
        statement = module.names.parents.get(binding.node)
        if not steps or not isinstance(binding.node, ast.alias) or not isinstance(statement, ast.ImportFrom):
            return None
        for path in self._paths_of(module, statement, ""):
            if (source := self._module(path)) and (
                defined := self._defined(source, binding.node.name, steps)
            ):
                return defined
        return None

    def _defined(self, module: Module, name: str, steps: int) -> tuple[Module, ast.AST] | None:
        bindings = module.names.bindings.get((module.names.tree, name), ())
        if len(bindings) != 1:
            return None
        if bindings[0].kind in ("function", "class"):
            return module, bindings[0].node
        return self._imported(module, bindings[0], steps - 1)

    def _files(self, module: Module, binding: Binding) -> Iterator[Module]:
        """Yield the modules that an import binds to a name."""
        alias, statement = binding.node, module.names.parents.get(binding.node)
        if isinstance(alias, ast.alias):
            paths = (
                self._paths_of(module, statement, alias.name)
                if isinstance(statement, ast.ImportFrom)
                else _module_file(alias.name, os.path.dirname(os.path.abspath(module.path)))
            )
            for path in paths if self._is_file else ():
                if source := self._module(path):
                    yield source

    def _paths_of(self, module: Module, statement: ast.ImportFrom, name: str) -> Iterator[str]:
        yield from _files_of_import(module, statement, name) if self._is_file else ()

    def _module(self, path: str) -> Module | None:
        if not may_read(path, self._launch):
            return None
        try:
            return parse_module(path, contents(path, _MAX_FILE))
        except OSError:
            return None

    def _imports_of(self, module: Module, name: str, steps: int) -> Iterator[tuple[Module, ast.expr]]:
        for importer, statement in self._importers(module):
            names = importer.names
            for alias in statement.names:
                scope = names.scope_of(statement)
                local = alias.asname or alias.name
                if isinstance(statement, ast.ImportFrom) and alias.name in (name, "*"):
                    local = name if alias.name == "*" else local
                    owner = names.owner_of(statement, local)
                    for load in names.loads.get((owner, local), ()):
                        yield importer, load
                    if scope is names.tree and steps and local != "*":
                        yield from self._imports_of(importer, local, steps - 1)
                else:  # the module itself: `conf.ds_config`
                    for access in names.attributes.get(name, ()):
                        if ast.unparse(access.value) == local:
                            yield importer, access

    def _importers(self, module: Module) -> Iterator[tuple[Module, ast.Import | ast.ImportFrom]]:
        """Yield the import statements of other modules that import a module."""
        if self._is_file:
            path = os.path.abspath(module.path)
            yield from _importers(path, cache_key(path))


@lru_cache(maxsize=32)
def _importers(path: str, _: tuple[int, ...]) -> tuple[tuple[Module, ast.Import | ast.ImportFrom], ...]:
    """Return the import statements in the repository that import the module at a path, with their modules."""
    stem = os.path.basename(path).removesuffix(".py")
    if stem == "__init__":
        stem = os.path.basename(os.path.dirname(path))
    # Most files mention the name of no other module in an import, so they need not be parsed.
    mention = re.compile(rb"(?m)^[ \t]*(?:from|import)[ \t][^\n]*\b%b\b" % re.escape(stem.encode()))
    importers: list[tuple[Module, ast.Import | ast.ImportFrom]] = []
    for other, data in programs(path):
        if other == path or not mention.search(data) or (module := parse_module(other, data)) is None:
            continue
        importers += [
            (module, node)
            for node in module.nodes
            if isinstance(node, ast.Import | ast.ImportFrom) and path in _imported_paths(module, node)
        ]
    return tuple(importers)


def _imported_paths(module: Module, statement: ast.Import | ast.ImportFrom) -> set[str]:
    """Return the absolute paths of the modules that a statement imports."""
    if isinstance(statement, ast.ImportFrom):
        names = ["", *(alias.name for alias in statement.names)]
        files = [each for name in names for each in _files_of_import(module, statement, name)]
    else:
        folder = os.path.dirname(os.path.abspath(module.path))
        files = [each for alias in statement.names for each in _module_file(alias.name, folder)]
    return {os.path.abspath(each) for each in files}


def _files_of_import(module: Module, statement: ast.ImportFrom, name: str) -> Iterator[str]:
    """Yield the file of the module in an import statement, or of a module `name` in that package."""
    base = os.path.dirname(os.path.abspath(module.path))
    for _ in range(min(statement.level, _MAX_FOLDERS) - 1):
        base = os.path.dirname(base)
    dotted = ".".join(part for part in (statement.module or "", name) if part)
    if dotted:
        yield from _module_file(dotted, base, above=not statement.level)
    else:
        yield from (path for path in [os.path.join(base, "__init__.py")] if is_file(path))


_MAX_REEXPORTS = 3
"""Modules through which a name is followed that they import and export again."""
