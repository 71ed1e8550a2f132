"""Find the changes that a program makes to a config after loading the file, by following the data flow."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial

from dsconfig.launch.config_loaded_by_program import KeyWrite
from dsconfig.launch.python.calls_receiving_dict import BUILTIN_COPIES, DICT_COPIES, consumer_of_argument
from dsconfig.launch.python.data_flow import DataFlow
from dsconfig.launch.python.name_bindings import ANY, last_dotted_name, returned_expressions
from dsconfig.launch.python.syntax_trees import ParsedModule, ProgramRepository

_LOADS = re.compile(
    r"(?:safe_|full_|unsafe_)?loads?|(?:load|read|parse|open)_\w+|from_(?:file|json|yaml)|_load_config"
)
"""Pattern of functions that return the content of a file unchanged."""
_PATHS = frozenset(
    ("str", "Path", "join", "abspath", "expanduser", "realpath", "getattr", "vars", "resolve", "fspath")
)
"""Functions whose result is a path."""
_FILES = re.compile(r"(?i)config|cfg|deepspeed|json|path|file")
"""Pattern of names of variables that hold a config or its path."""
_CONVERSIONS = frozenset(("to_container", "to_object", "asdict", "to_dict"))
"""Functions that return a config of OmegaConf, or a dataclass, as a dict with the same values."""
_MAX_DEPTH, _MAX_VALUES = 12, 50


def changes_of_loaded_configs(module: ParsedModule, launch: str) -> Iterator[KeyWrite]:
    """Yield the changes that a module makes to loaded configs; the path `*` stands for every key.

    `launch` is the file that starts the program; its repository limits which files may be read.
    """
    repository = ProgramRepository(launch)
    for call in module.names.calls:
        if (
            _LOADS.fullmatch(last_dotted_name(call.func))
            and repository.find_definition(module, call.func) is None
        ):
            flow = DataFlow(repository, partial(consumer_of_argument, repository)).follow_values(module, call)
            for write in flow.writes if flow.receivers else ():
                if write.module.path == module.path:
                    yield KeyWrite(write.path, getattr(write.node, "lineno", 1), write.absent_only)
    yield from _configs_built_outside_repository(module, repository)


def _configs_built_outside_repository(
    module: ParsedModule, repository: ProgramRepository
) -> Iterator[KeyWrite]:
    """Yield a write to `*` for each config that is built by a function outside the repository."""
    for call in module.names.calls:
        arguments: list[tuple[int | str, ast.expr]] = list(enumerate(call.args))
        arguments += [(each.arg or "", each.value) for each in call.keywords]
        for key, argument in arguments:
            if consumer_of_argument(repository, module, call, key) is not None:
                for source, origin in _ExternalCallSearch(repository).calls_behind_value(module, argument):
                    if source.path == module.path and _receives_config_file(source, origin):
                        yield KeyWrite((ANY,), getattr(origin, "lineno", 1))


def _receives_config_file(module: ParsedModule, call: ast.Call) -> bool:
    """Return whether a call receives a config file's content or path."""
    values: list[ast.AST] = [*call.args, *(each.value for each in call.keywords)]
    for value in values[:_MAX_VALUES]:
        for node in ast.walk(value):
            if isinstance(node, ast.Call) and _LOADS.fullmatch(last_dotted_name(node.func)):
                return True
            if isinstance(node, ast.Name | ast.Attribute) and _FILES.search(last_dotted_name(node)):
                return True
            if isinstance(node, ast.Name) and len(values) < _MAX_VALUES:
                values += [
                    each.value for each in module.names.bindings_of_name(node) if each.value is not None
                ]
    return False


class _ExternalCallSearch:
    """Search for the calls of functions outside the repository whose results a value may contain."""

    def __init__(self, repository: ProgramRepository) -> None:
        self._repository = repository
        self._seen: set[ast.AST] = set()

    def calls_behind_value(
        self, module: ParsedModule, value: ast.expr, depth: int = 0
    ) -> Iterator[tuple[ParsedModule, ast.Call]]:
        """Yield the external calls whose result a value may contain, except loaders and path functions."""
        if value in self._seen or depth > _MAX_DEPTH:
            return
        self._seen.add(value)
        names = module.names
        inner: list[ast.expr | None] = []
        match value:
            case ast.Name():
                bindings = names.bindings_of_name(value)
                inner = [each.value for each in bindings if each.kind == "value" and not each.steps]
            case ast.Attribute():
                fields = names.fields.get(value.attr, ())
                inner = [each.value for each in fields if each.kind == "value" and not each.steps]
            case ast.IfExp():
                inner = [value.body, value.orelse]
            case ast.BoolOp():
                inner = list(value.values)
            case ast.NamedExpr() | ast.Await():
                inner = [value.value]
            case ast.Subscript():
                inner = [value.value]
            case ast.Call():
                yield from self._calls_behind_call(module, value, depth)
            case _:
                pass
        for each in inner:
            if each is not None:
                yield from self.calls_behind_value(module, each, depth + 1)

    def _calls_behind_call(
        self, module: ParsedModule, call: ast.Call, depth: int
    ) -> Iterator[tuple[ParsedModule, ast.Call]]:
        name = last_dotted_name(call.func)
        definition = self._find_definition(module, call.func)
        if definition is not None:
            source, node = definition
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                for returned in returned_expressions(node):
                    yield from self.calls_behind_value(source, returned, depth + 1)
        elif name in DICT_COPIES or name in BUILTIN_COPIES or name in _CONVERSIONS or name == "get":
            inner = call.func.value if isinstance(call.func, ast.Attribute) and not call.args else None
            inner = call.func.value if isinstance(call.func, ast.Attribute) and name == "get" else inner
            for each in (inner, *call.args[:1]):
                if each is not None:
                    yield from self.calls_behind_value(module, each, depth + 1)
        elif not _LOADS.fullmatch(name) and name not in _PATHS:
            yield module, call

    def _find_definition(
        self, module: ParsedModule, function: ast.expr
    ) -> tuple[ParsedModule, ast.AST] | None:
        if isinstance(function, ast.Name):
            bindings = module.names.bindings_of_name(function)
            if len(bindings) == 1 and bindings[0].kind in ("function", "class"):
                return module, bindings[0].node
        if isinstance(function, ast.Attribute) and last_dotted_name(function.value) in ("self", "cls"):
            methods = module.names.functions.get(function.attr, ())
            if methods:
                return module, methods[0]
        return self._repository.find_definition(module, function)
