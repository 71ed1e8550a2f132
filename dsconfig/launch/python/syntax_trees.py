"""Parse the Python programs of a repository into syntax trees, without running them."""

from __future__ import annotations

import ast
import errno
import os
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache

from dsconfig.core.file_access import (
    MAX_NOTEBOOK_SIZE,
    is_file,
    may_read_file,
    read_contents,
    relative_path,
    repository_root,
)
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.document.config_file_names import is_notebook_name
from dsconfig.launch.python.name_bindings import ModuleNames, NameBinding, last_dotted_name
from dsconfig.launch.repository_files import python_files_of_repository, repository_cache_key, time_cache_key

_MAX_FILE, _MAX_PROGRAM = 256 * 1024, 512 * 1024
"""Size limits in bytes: of one file, and of all files read for a program."""
_MAX_MODULES, _MAX_FOLDERS = 16, 8
"""Limits on following imports: modules per program, and parent directories searched for a module.
"""
_MAX_REEXPORTS = 3
"""Maximum number of modules that re-export a name, through which the name is followed."""


class ParsedModule(NamedTuple):
    """A parsed Python module."""

    path: str
    nodes: tuple[ast.AST, ...]
    """All syntax nodes, the module first; they are collected once because walking the tree is expensive."""

    @property
    def top_level_statements(self) -> list[ast.stmt]:
        """The top-level statements of the module."""
        first = self.nodes[0]
        return first.body if isinstance(first, ast.Module) else []

    @property
    def names(self) -> ModuleNames:
        """The scopes and bindings of the module."""
        return names_of_module(self.nodes[0])

    def shown_location(self, node: ast.AST) -> str:
        """Return the location of a node as shown in messages: `train.py:12`."""
        return f"{relative_path(self.path)}:{getattr(node, 'lineno', 1)}"


@lru_cache(maxsize=64)
def names_of_module(tree: ast.AST) -> ModuleNames:
    """Return the scopes and bindings of a parsed module."""
    assert isinstance(tree, ast.Module)
    return ModuleNames(tree)


def parse_module(path: str, data: bytes) -> ParsedModule | None:
    """Parse a Python file; return None if it is too large or is not valid Python 3."""
    nodes = _parse(data) if len(data) <= _MAX_FILE else ()
    return ParsedModule(path, nodes) if nodes else None


@lru_cache(maxsize=64)
def _parse(data: bytes) -> tuple[ast.AST, ...]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for example invalid escapes, which are the user's
            return tuple(ast.walk(ast.parse(data)))
    # Deeply nested source exhausts the stack of CPython's parser.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def read_program_bytes(path: str) -> bytes:
    """Read a Python source file, or the code cells of a notebook as one module.

    Raises:
        OSError: the file cannot be read, or is not a valid notebook.
    """
    if not is_notebook_name(path):
        return read_contents(path, _MAX_FILE)
    from dsconfig.launch.program_text import read_program_text

    text = read_contents(path, MAX_NOTEBOOK_SIZE).decode("utf-8", "replace")
    try:
        return read_program_text(text, path).text.encode("utf-8", "replace")
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error), path) from None


def program_modules(path: str, launch: str) -> tuple[ParsedModule, ...]:
    """Parse a program and the modules that it imports from its repository, in import order.

    `launch` is the file that starts the program; its repository limits which files may be read. The result is empty if
    the program cannot be parsed.
    """
    return _cached_program_modules(os.path.abspath(path), launch, time_cache_key())


@lru_cache(maxsize=16)
def _cached_program_modules(path: str, launch: str, _: int) -> tuple[ParsedModule, ...]:
    parsed: dict[str, ParsedModule] = {}
    queue, size = [path], 0
    for current in queue:
        if current in parsed or len(parsed) == _MAX_MODULES or not may_read_file(current, launch):
            continue
        try:
            data = read_program_bytes(current)
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


def _imported_files(module: ParsedModule) -> Iterator[str]:
    """Yield the repository files that a module imports."""
    folder = os.path.dirname(module.path)
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files_of_module_name(alias.name, folder)
        elif isinstance(node, ast.ImportFrom):
            base = folder
            for _ in range(min(node.level, _MAX_FOLDERS) - 1):
                base = os.path.dirname(base)
            names = [node.module or "", *(f"{node.module or ''}.{alias.name}" for alias in node.names)]
            for name in names:
                yield from _files_of_module_name(name.strip("."), base, above=not node.level)


def _files_of_module_name(name: str, folder: str, *, above: bool = True) -> Iterator[str]:
    """Yield the file of a module in a directory and, if `above` is true, in its parents within the repository."""
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


def called_function_name(call: ast.Call) -> str:
    """Return the last part of the called function's name: `initialize` for `deepspeed.initialize(...)`."""
    return last_dotted_name(call.func)


def keyword_argument(call: ast.Call, *names: str) -> ast.expr | None:
    """Return the value of the first keyword argument with one of the given names, or None."""
    return next((each.value for each in call.keywords if each.arg in names), None)


def argument_at(call: ast.Call, position: int, *names: str) -> ast.expr | None:
    """Return the value of an argument that is passed by one of these names or at this position, or None."""
    return keyword_argument(call, *names) or next(iter(call.args[position : position + 1]), None)


def literal_value(node: ast.expr | None) -> Json:
    """Return the value of a number, string or bool literal, or None for any other node."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = literal_value(node.operand)
        return -number if isinstance(number, int | float) and not isinstance(number, bool) else None
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
        return node.value
    return None


def calls_in_modules(modules: tuple[ParsedModule, ...]) -> Iterator[tuple[ParsedModule, ast.Call]]:
    """Yield every call in the given modules together with its module."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.Call):
                yield module, node


class ProgramRepository:
    """The modules related to a program: those that it imports, and those that import it."""

    def __init__(self, name: str) -> None:
        self._launch = name
        self._is_file = bool(name) and not name.startswith("<")

    def find_definition(
        self, module: ParsedModule, function: ast.expr
    ) -> tuple[ParsedModule, ast.AST] | None:
        """Return the function or class to which an imported name refers, or None if it is outside the repository."""
        return self._resolve_definition(module, function, _MAX_REEXPORTS)

    def find_imported_name(
        self, module: ParsedModule, binding: NameBinding, steps: int = _MAX_REEXPORTS
    ) -> tuple[ParsedModule, NameBinding] | None:
        """Return the only assignment to a name that `from module import name` imports, and its module."""
        statement = module.names.parents.get(binding.node)
        if not steps or not isinstance(binding.node, ast.alias) or not isinstance(statement, ast.ImportFrom):
            return None
        for path in self._paths_of_import(module, statement, ""):
            source = self._parse_module_at(path)
            bindings = source.names.bindings.get((source.names.tree, binding.node.name), ()) if source else ()
            if source is not None and len(bindings) == 1:
                if bindings[0].kind == "import":
                    return self.find_imported_name(source, bindings[0], steps - 1)
                return (source, bindings[0]) if bindings[0].kind == "value" else None
        return None

    def reads_of_global_name(
        self, module: ParsedModule, name: str
    ) -> Iterator[tuple[ParsedModule, ast.expr]]:
        """Yield the expressions in other modules that read a global name of a module."""
        yield from self._reads_of_name(module, name, _MAX_REEXPORTS)

    def accesses_to_attribute(
        self, module: ParsedModule, name: str
    ) -> Iterator[tuple[ParsedModule, ast.expr]]:
        """Yield the accesses to attributes of this name in modules that import the given module."""
        for importer, _ in self._import_statements_of_module(module):
            for access in importer.names.attributes.get(name, ()):
                yield importer, access

    def _resolve_definition(
        self, module: ParsedModule, function: ast.expr, steps: int
    ) -> tuple[ParsedModule, ast.AST] | None:
        if isinstance(function, ast.Name):
            bindings = module.names.bindings_of_name(function)
            return self._resolve_import(module, bindings[0], steps) if len(bindings) == 1 else None
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            bindings = module.names.bindings_of_name(function.value)
            if len(bindings) == 1 and bindings[0].kind == "import":
                for file in self._modules_of_import(module, bindings[0]):
                    if defined := self._resolve_module_name(file, function.attr, steps):
                        return defined
        return None

    def _resolve_import(
        self, module: ParsedModule, binding: NameBinding, steps: int
    ) -> tuple[ParsedModule, ast.AST] | None:
        """Return the function or class that `from module import name` binds and its module, or None."""
        statement = module.names.parents.get(binding.node)
        if not steps or not isinstance(binding.node, ast.alias) or not isinstance(statement, ast.ImportFrom):
            return None
        for path in self._paths_of_import(module, statement, ""):
            if (source := self._parse_module_at(path)) and (
                defined := self._resolve_module_name(source, binding.node.name, steps)
            ):
                return defined
        return None

    def _resolve_module_name(
        self, module: ParsedModule, name: str, steps: int
    ) -> tuple[ParsedModule, ast.AST] | None:
        bindings = module.names.bindings.get((module.names.tree, name), ())
        if len(bindings) != 1:
            return None
        if bindings[0].kind in ("function", "class"):
            return module, bindings[0].node
        return self._resolve_import(module, bindings[0], steps - 1)

    def _modules_of_import(self, module: ParsedModule, binding: NameBinding) -> Iterator[ParsedModule]:
        """Yield the modules that an import statement binds to a name."""
        alias, statement = binding.node, module.names.parents.get(binding.node)
        if isinstance(alias, ast.alias):
            paths = (
                self._paths_of_import(module, statement, alias.name)
                if isinstance(statement, ast.ImportFrom)
                else _files_of_module_name(alias.name, os.path.dirname(os.path.abspath(module.path)))
            )
            for path in paths if self._is_file else ():
                if source := self._parse_module_at(path):
                    yield source

    def _paths_of_import(self, module: ParsedModule, statement: ast.ImportFrom, name: str) -> Iterator[str]:
        yield from _files_of_import(module, statement, name) if self._is_file else ()

    def _parse_module_at(self, path: str) -> ParsedModule | None:
        if not may_read_file(path, self._launch):
            return None
        try:
            return parse_module(path, read_contents(path, _MAX_FILE))
        except OSError:
            return None

    def _reads_of_name(
        self, module: ParsedModule, name: str, steps: int
    ) -> Iterator[tuple[ParsedModule, ast.expr]]:
        for importer, statement in self._import_statements_of_module(module):
            names = importer.names
            for alias in statement.names:
                scope = names.scope_of_node(statement)
                local = alias.asname or alias.name
                if isinstance(statement, ast.ImportFrom) and alias.name in (name, "*"):
                    local = name if alias.name == "*" else local
                    owner = names.scope_binding_name(statement, local)
                    for load in names.loads.get((owner, local), ()):
                        yield importer, load
                    if scope is names.tree and steps and local != "*":
                        yield from self._reads_of_name(importer, local, steps - 1)
                else:  # the module itself: `conf.ds_config`
                    for access in names.attributes.get(name, ()):
                        if ast.unparse(access.value) == local:
                            yield importer, access

    def _import_statements_of_module(
        self, module: ParsedModule
    ) -> Iterator[tuple[ParsedModule, ast.Import | ast.ImportFrom]]:
        """Yield the statements with which other modules import a module."""
        if self._is_file:
            path = os.path.abspath(module.path)
            yield from _cached_import_statements(path, repository_cache_key(path))


@lru_cache(maxsize=32)
def _cached_import_statements(
    path: str, _: tuple[int, ...]
) -> tuple[tuple[ParsedModule, ast.Import | ast.ImportFrom], ...]:
    """Return the statements in the repository that import the module at a path, and the modules they are in."""
    stem = os.path.basename(path).removesuffix(".py")
    if stem == "__init__":
        stem = os.path.basename(os.path.dirname(path))
    # Most files mention the name of no other module in an import, so they need not be parsed.
    mention = re.compile(rb"(?m)^[ \t]*(?:from|import)[ \t][^\n]*\b%b\b" % re.escape(os.fsencode(stem)))
    importers: list[tuple[ParsedModule, ast.Import | ast.ImportFrom]] = []
    for other, data in python_files_of_repository(path):
        if other == path or not mention.search(data) or (module := parse_module(other, data)) is None:
            continue
        importers += [
            (module, node)
            for node in module.nodes
            if isinstance(node, ast.Import | ast.ImportFrom) and path in _imported_paths(module, node)
        ]
    return tuple(importers)


def _imported_paths(module: ParsedModule, statement: ast.Import | ast.ImportFrom) -> set[str]:
    """Return the absolute paths of the modules that an import statement imports."""
    if isinstance(statement, ast.ImportFrom):
        names = ["", *(alias.name for alias in statement.names)]
        files = [each for name in names for each in _files_of_import(module, statement, name)]
    else:
        folder = os.path.dirname(os.path.abspath(module.path))
        files = [each for alias in statement.names for each in _files_of_module_name(alias.name, folder)]
    return {os.path.abspath(each) for each in files}


def _files_of_import(module: ParsedModule, statement: ast.ImportFrom, name: str) -> Iterator[str]:
    """Yield the file of the module in a `from` import, or of its submodule `name`."""
    base = os.path.dirname(os.path.abspath(module.path))
    for _ in range(min(statement.level, _MAX_FOLDERS) - 1):
        base = os.path.dirname(base)
    dotted = ".".join(part for part in (statement.module or "", name) if part)
    if dotted:
        yield from _files_of_module_name(dotted, base, above=not statement.level)
    else:
        yield from (path for path in [os.path.join(base, "__init__.py")] if is_file(path))
