"""Classify calls in a Python program that receive a dict: what they read, overwrite or pass to a parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dsconfig.launch.python.name_bindings import ANY, Function, last_dotted_name

BUILTIN_READS = frozenset((
    "print", "len", "str", "repr", "bool", "isinstance", "issubclass", "type", "id", "hash", "any", "all", "sum", "min",
    "max", "format", "hasattr", "callable", "set", "frozenset", "ascii", "dir",
))  # fmt: skip
BUILTIN_COPIES = frozenset(("list", "tuple", "sorted", "reversed", "iter"))
DICT_COPIES = frozenset(("dict", "deepcopy", "OrderedDict", "copy"))
_LOG_METHODS = frozenset(
    ("debug", "info", "warning", "warn", "error", "exception", "critical", "print", "pprint")
)
_READ_MODULES = frozenset((
    "json", "yaml", "pprint", "logging", "logger", "log", "wandb", "torch", "pickle", "math", "os", "hjson", "mlflow",
    "tensorboard", "writer", "console", "st", "click", "sys", "warnings", "rich", "toml", "ujson", "orjson",
))  # fmt: skip
"""Modules and objects whose functions read a dict without keeping any part of it as a config."""
_READ_FUNCTIONS = frozenset((
    "pprint", "pformat", "log_dist", "print_rank_0", "print0", "rank0_print", "print_rank0", "rank_zero_info", "dumps",
    "deepspeed_config_to_str",
))  # fmt: skip


def only_reads_dict(function: ast.expr) -> bool:
    """Return whether a function outside the repository only reads a dict, as printing, logging and saving do."""
    name = last_dotted_name(function)
    if isinstance(function, ast.Name):
        return name in _READ_FUNCTIONS
    base = function
    while isinstance(base, ast.Attribute):
        base = base.value
    root = base.id if isinstance(base, ast.Name) else ""
    return name in (*_LOG_METHODS, *_READ_FUNCTIONS) or root in _READ_MODULES


def keys_of_merged_mapping(other: ast.expr) -> Iterator[str]:
    """Yield the keys that merging a mapping into another overwrites; `*` if not all keys are known."""
    if isinstance(other, ast.Dict):
        for key, value in zip(other.keys, other.values, strict=True):
            if key is None:
                yield from keys_of_merged_mapping(value)
            else:
                yield str(subscript_key(key))
    elif isinstance(other, ast.Call) and last_dotted_name(other.func) == "dict" and not other.args:
        for each in other.keywords:
            yield ANY if each.arg is None else each.arg
    elif isinstance(other, ast.IfExp):
        yield from keys_of_merged_mapping(other.body)
        yield from keys_of_merged_mapping(other.orelse)
    else:
        yield ANY


def parameter_for_argument(function: Function, key: int | str, *, is_bound: bool) -> str | None:
    """Return the parameter that receives an argument, or None if it goes to `*args` or `**kwargs`."""
    arguments = function.args
    positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if isinstance(key, int):
        index = key + is_bound
        return positional[index] if index < len(positional) else None
    keywords = (*positional[len(arguments.posonlyargs) :], *(each.arg for each in arguments.kwonlyargs))
    return key if key in keywords else None


def subscript_key(node: ast.expr | None) -> int | str:
    """Return the key of a subscript, or `*` if the key is not a literal."""
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str | int)
        and not isinstance(node.value, bool)
    ):
        return node.value
    return ANY
