"""Find the values of a program's flags, such as `args.batch_size` in a config dict, in the scripts that start it."""

from __future__ import annotations

import ast
import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from dsconfig.core.json_types import NamedTuple
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import (
    called_function_name,
    calls_in_modules,
    keyword_argument,
    literal_value,
    program_modules,
)
from dsconfig.launch.repository_files import repository_cache_key
from dsconfig.launch.scripts_starting_program import find_program_launches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsconfig.core.json_types import Json
    from dsconfig.launch.launch_commands import LaunchCommand
    from dsconfig.launch.python.syntax_trees import ParsedModule

_NAMESPACE = re.compile(r"args|opts?|flags|\w+_args")
"""Names that programs give to the result of `parse_args`."""
_WRITES = frozenset(("update", "pop", "setdefault", "clear", "__setitem__"))
_SETTERS = frozenset(("setattr", "set_defaults", "Namespace"))
"""Calls that may set any argument before or after parsing."""


class _ArgparseFlag(NamedTuple):
    """A flag that a call of `add_argument` defines."""

    kind: str
    """Conversion: `int`, `float`, `str`, `store_true` or `store_false`; empty for any other conversion."""
    default: Json


def argument_value(module: ParsedModule, node: ast.expr) -> Json:
    """Return the value of `args.name` if all commands that start the program agree on it, else `UNKNOWN`.

    As in argparse, a flag without a `type` is a string.
    """
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return UNKNOWN
    if (
        not _NAMESPACE.fullmatch(node.value.id)
        or module.path.startswith("<")
        or not module.path.endswith(".py")
    ):
        return UNKNOWN
    bindings = module.names.bindings_of_name(node.value)
    if not bindings or not all(
        each.kind == "parameter" or _is_parser_result(each.value) for each in bindings
    ):
        return UNKNOWN
    path = os.path.abspath(module.path)
    return _values_of_flags(path, repository_cache_key(path)).get(node.attr, UNKNOWN)


def _is_parser_result(value: ast.expr | None) -> bool:
    """Return whether an expression is the result of an argument parser, possibly returned by a function."""
    return isinstance(value, ast.Call) and "arg" in last_dotted_name(value.func)


@lru_cache(maxsize=16)
def _values_of_flags(path: str, _: tuple[int, ...]) -> Mapping[str, Json]:
    """Return the known values of a program's flags by attribute name."""
    launches = find_program_launches(path)
    modules = program_modules(path, path) if launches else ()
    values = flag_values_of_commands(modules, [each.command for each in launches])
    return {name: value for name, value in values.items() if value is not None and value is not UNKNOWN}


def flag_values_of_commands(
    modules: tuple[ParsedModule, ...], commands: Sequence[LaunchCommand]
) -> dict[str, Json]:
    """Return the values of a program's flags by attribute name; a value that differs between commands is `UNKNOWN`.

    A flag that has no default and that no command sets is None.
    """
    if not modules or not commands or any(_may_set_unknown_arguments(module) for module in modules):
        return {}
    values: dict[str, Json] = {}
    for name, flag in _defined_flags(modules).items():
        flag_values = [
            UNKNOWN
            if name not in each.arguments and each.may_have_more_flags
            else _convert_flag_text(flag, each.arguments[name])
            if name in each.arguments
            else flag.default
            for each in commands
        ]
        first = flag_values[0]
        is_same = all(each == first and type(each) is type(first) for each in flag_values)
        is_open = not is_same or any(_is_assigned(module, name) for module in modules)
        values[name] = UNKNOWN if is_open else first
    return values


def _is_assigned(module: ParsedModule, name: str) -> bool:
    """Return whether a module assigns to an attribute with the name of a parsed argument, other than on `self`."""
    return any(
        not (isinstance(each.node, ast.Name) or _is_attribute_of_self(each.node))
        for each in module.names.fields.get(name, ())
    )


def _is_attribute_of_self(target: ast.AST) -> bool:
    return isinstance(target, ast.Attribute) and last_dotted_name(target.value) == "self"


def _may_set_unknown_arguments(module: ParsedModule) -> bool:
    """Return whether a module may set arguments by computed names, for example with `setattr`."""
    parents = module.names.parents
    for node in module.nodes:
        is_vars = isinstance(node, ast.Call) and last_dotted_name(node.func) == "vars"
        is_dict = isinstance(node, ast.Attribute) and node.attr == "__dict__"
        if is_vars or is_dict:
            parent = parents.get(node)
            is_written = isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load)
            if is_written or (isinstance(parent, ast.Attribute) and parent.attr in _WRITES):
                return True
        elif isinstance(node, ast.Call) and last_dotted_name(node.func) in _SETTERS:
            target = node.args[0] if node.args else None
            # `setattr(module, name, layer)` replaces a part of a model, `setattr(args, name, value)` an argument.
            if last_dotted_name(node.func) != "setattr" or _may_hold_arguments(module, target):
                return True
    return False


def _may_hold_arguments(module: ParsedModule, target: ast.expr | None) -> bool:
    """Return whether an expression may be a parser's result, based on its name or the calls that pass it."""
    if not isinstance(target, ast.Name) or _NAMESPACE.fullmatch(target.id):
        return not isinstance(target, ast.Attribute) or _NAMESPACE.fullmatch(target.attr) is not None
    function = module.names.enclosing_function(target)
    bindings = module.names.bindings_of_name(target)
    if not isinstance(function, ast.FunctionDef) or any(each.kind != "parameter" for each in bindings):
        return not bindings
    return any(
        last_dotted_name(call.func) == function.name
        and any(_NAMESPACE.fullmatch(last_dotted_name(each)) for each in call.args)
        for call in module.names.calls
    )


def _defined_flags(modules: tuple[ParsedModule, ...]) -> dict[str, _ArgparseFlag]:
    """Return the flags that a program defines; a flag with conflicting definitions has an unknown value."""
    flags: dict[str, _ArgparseFlag] = {}
    for _, call in calls_in_modules(modules):
        if called_function_name(call) == "add_config_arguments":
            # deepspeed/__init__.py:_add_core_arguments
            flags["deepspeed"] = _ArgparseFlag("store_true", default=False)
        if called_function_name(call) != "add_argument":
            continue
        words = [each for argument in call.args if isinstance(each := literal_value(argument), str)]
        long = next((word for word in words if word.startswith("--")), "")
        dest = literal_value(keyword_argument(call, "dest")) or long.lstrip("-").replace("-", "_")
        if not isinstance(dest, str) or not dest or not long:
            continue
        action, default = literal_value(keyword_argument(call, "action")), keyword_argument(call, "default")
        kind = (
            str(action)
            if action in ("store_true", "store_false")
            else last_dotted_name(keyword_argument(call, "type") or _STR)
        )
        if kind not in _KINDS or keyword_argument(call, "nargs") is not None or (action and action != kind):
            kind = ""
        value = _default_of_flag(kind, default)
        if default is None and kind.startswith("store_"):
            value = kind == "store_false"
        flag = _ArgparseFlag(kind, value)
        flags[dest] = (
            flag if flags.get(dest, flag) == flag and long.lstrip("-").replace("-", "_") == dest else _OPEN
        )
    return flags


def _default_of_flag(kind: str, default: ast.expr | None) -> Json:
    """Return the default of a flag, which argparse converts if it is a string; None if there is no default."""
    value = literal_value(default)
    is_none = default is None or (isinstance(default, ast.Constant) and default.value is None)
    if value is None:
        return None if is_none else UNKNOWN
    return _convert_flag_text(_ArgparseFlag(kind, None), value) if isinstance(value, str) else value


_STR = ast.Name("str")
_KINDS = frozenset(("int", "float", "str", "store_true", "store_false"))
_OPEN = _ArgparseFlag("", UNKNOWN)


def _convert_flag_text(flag: _ArgparseFlag, value: Json) -> Json:
    """Convert the text of a flag as argparse does, or return `UNKNOWN` if its type is not supported."""
    try:
        match flag.kind:
            case "store_true" | "store_false":
                return flag.kind == "store_true" if value is True else UNKNOWN
            case "int" if isinstance(value, str):
                return int(value)
            case "float" if isinstance(value, str):
                return float(value)
            case "str" if isinstance(value, str):
                return value
    except ValueError:
        pass
    return UNKNOWN
