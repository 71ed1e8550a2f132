"""Find the configs that a Python program loads: the arguments that name them, and the keys that it writes."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

from dsconfig.core.file_access import relative_path, repository_root
from dsconfig.core.json_types import NamedTuple
from dsconfig.job.consumers import INFERENCE
from dsconfig.job.detect_consumer import PossibleConsumers
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import (
    ParsedModule,
    called_function_name,
    calls_in_modules,
    keyword_argument,
    program_modules,
)
from dsconfig.launch.repository_files import deepspeed_texts, resolve_written_path, time_cache_key

# Consumer of a config that a command passes to a Python program.
#
# `--deepspeed_config` is an argument of DeepSpeed itself (deepspeed/__init__.py:_add_core_arguments). A
# program may define its own argument of this or a similar name and pass the path to the Trainer, to
# Accelerate's plugin or to Lightning. Only the program's source shows that.

_ANY_CONSUMER = ("deepspeed", "transformers", "accelerate")
"""Possible consumers of a config that a flag names, for programs that do not show the actual one."""
_CONFIG_CALLS = {
    "initialize": "deepspeed",
    "init_inference": INFERENCE,
    "DeepSpeedPlugin": "accelerate",
    "DeepSpeedStrategy": "lightning",
}
_FRAMEWORK_CALLS = {
    "HfArgumentParser": "transformers",
    "Trainer": "transformers",
    "Accelerator": "accelerate",
    "add_config_arguments": "deepspeed",
}
"""Calls that show which framework trains, but not which argument holds the config."""


_UNKNOWN_CONSUMERS = PossibleConsumers(_ANY_CONSUMER, "")


def config_consumers_of_command(
    program: str, launch: str, flag: str, folder: str = "", *, is_bare: bool
) -> PossibleConsumers:
    """Return the possible consumers of the file passed by a command's flag.

    Args:
        program: the program as written in the command: `src/train.py`, or a module; empty if there is none.
        launch: the file that contains the command.
        flag: `--deepspeed_config`, or the program's own flag for it.
        folder: directory that the script has entered with `cd`.
        is_bare: whether the command has `--deepspeed` without a value; then both flags are DeepSpeed's own.
    """
    name = program if program.endswith(".py") or not program else f"{program.replace('.', '/')}.py"
    path = resolve_written_path(name, launch, folder).path if name else None
    argument = flag.removeprefix("--").replace("-", "_")
    consumers = config_consumers_of_flag(path, launch, argument) if path else _UNKNOWN_CONSUMERS
    if consumers.why:
        return consumers._replace(why="") if consumers.names == ("deepspeed",) else consumers
    if is_bare:
        return PossibleConsumers(("deepspeed",), "")
    reason = f"{relative_path(path)} does not show its consumer" if path else "whose program was not found"
    # DeepSpeed defines the argument with an underscore only: deepspeed/__init__.py:_add_core_arguments.
    return PossibleConsumers(_ANY_CONSUMER, reason, is_content_decisive="-config" in flag)


def config_consumers_of_flag(program: str, launch: str, flag: str) -> PossibleConsumers:
    """Return the possible consumers of the file passed by a program's flag, such as `deepspeed_config`.

    `launch` is the file that starts the program; its repository limits which files may be read.
    """
    return _cached_consumers_of_flag(os.path.abspath(program), launch, flag, time_cache_key())


@lru_cache(maxsize=64)
def _cached_consumers_of_flag(program: str, launch: str, flag: str, _: int) -> PossibleConsumers:
    try:
        evidence = list(_find_consumer_evidence(program_modules(program, launch), flag))
    except RecursionError:  # nesting deeper than the interpreter's stack
        return _UNKNOWN_CONSUMERS
    for weight in (2, 1, 0):
        strongest = [each for each in evidence if each.weight == weight]
        if strongest:
            reasons = {each.reader: each.why for each in reversed(strongest)}
            names = tuple(dict.fromkeys(each.reader for each in strongest))
            return PossibleConsumers(
                names, " and ".join(reasons[name] for name in names), is_content_decisive=True
            )
    return _UNKNOWN_CONSUMERS


_PASSES_CONFIG = rb"\bconfig(?:_params)?\s*=\s*(?:\w+\.)+deepspeed\b"


def find_custom_training_loop(launch: str) -> str | None:
    """Find a program near a launch file that passes its `deepspeed` argument to `deepspeed.initialize`.

    Such a program uses `TrainingArguments` without a Trainer. Nothing then compares the arguments with the config, so
    no mismatch is reported. Return None if there is no such program.
    """
    if launch.startswith("<") or not launch:
        return None
    folder = os.path.dirname(os.path.abspath(launch))
    top = repository_root(folder)
    base = folder if top in (None, folder) else os.path.dirname(folder)
    for path, data in deepspeed_texts(top or folder, os.path.abspath(launch), deep=top is not None):
        is_near = path.startswith(os.path.join(base, ""))
        calls = is_near and path.endswith(".py") and b"deepspeed.initialize" in data
        if calls and re.search(_PASSES_CONFIG, data):
            return path
    return None


class _ConsumerEvidence(NamedTuple):
    """A location in a program that indicates a consumer."""

    weight: int
    """Strength: 2 if the call receives the flag's value, 1 if it receives some config, 0 if it only shows a
    framework.
    """
    reader: str
    why: str


def _find_consumer_evidence(program: tuple[ParsedModule, ...], flag: str) -> Iterator[_ConsumerEvidence]:
    names = _names_holding_flag_value(program, flag)
    for module, call in calls_in_modules(program):
        # `HfDeepSpeedConfig` is no evidence: it prepares partitioned loading for any consumer that trains the
        # model.
        name = called_function_name(call)
        where = f"in {relative_path(module.path)}:{call.lineno}"
        values = config_arguments_of_call(call)
        reader = _CONFIG_CALLS.get(name) or (
            "transformers" if keyword_argument(call, "deepspeed") is not None else None
        )
        if name in _CONFIG_CALLS and not values and _is_initialize_call(call):
            # `deepspeed.initialize(args=args, ...)` reads `args.deepspeed_config`:
            # deepspeed/__init__.py:initialize.
            yield _ConsumerEvidence(
                2 if flag == "deepspeed_config" else 1, "deepspeed", f"`deepspeed.{name}` {where}"
            )
        elif values and reader is not None:
            argument = shown_argument_keyword(call, values[0])
            receives_flag = any(_uses_name(value, names) for value in values)
            yield _ConsumerEvidence(2 if receives_flag else 1, reader, f"`{name}({argument}...)` {where}")
        elif framework := _framework_by_call_name(name):
            yield _ConsumerEvidence(0, framework, f"`{name}` {where}")
    for module in program:
        for node in module.nodes:
            if isinstance(node, ast.Assign) and any(_is_deepspeed_argument(each) for each in node.targets):
                receives_flag = _uses_name(node.value, names)
                where = f"in {relative_path(module.path)}:{node.lineno}"
                yield _ConsumerEvidence(
                    2 if receives_flag else 1, "transformers", f"`{ast.unparse(node.targets[0])} =` {where}"
                )


def _is_initialize_call(call: ast.Call) -> bool:
    base = call.func.value if isinstance(call.func, ast.Attribute) else None
    return called_function_name(call) == "initialize" and last_dotted_name(base) in ("deepspeed", "ds")


def _framework_by_call_name(name: str) -> str | None:
    if name in _FRAMEWORK_CALLS:
        return _FRAMEWORK_CALLS[name]
    return "transformers" if name.endswith(("TrainingArguments", "Trainer")) else None


def _is_deepspeed_argument(target: ast.expr) -> bool:
    """Return whether an assignment target is the Trainer's argument for the config, `training_args.deepspeed`."""
    if not isinstance(target, ast.Attribute) or target.attr != "deepspeed":
        return False
    return "arg" in last_dotted_name(target.value)


def shown_argument_keyword(call: ast.Call, value: ast.expr) -> str:
    """Return the keyword with which a call passes a value, formatted for messages: `deepspeed=`."""
    return next((f"{each.arg}=" for each in call.keywords if each.value is value and each.arg), "")


def _names_holding_flag_value(program: tuple[ParsedModule, ...], flag: str) -> frozenset[str]:
    """Return the names that hold the value of a flag: its own, and those of variables and arguments that receive it."""
    names = {flag}
    for _ in range(_MAX_HOPS):
        before = len(names)
        for module in program:
            for node in module.nodes:
                if isinstance(node, ast.Assign) and _uses_name(node.value, names):
                    names.update(last_dotted_name(target) for target in node.targets)
                elif isinstance(node, ast.With):
                    for item in node.items:
                        if item.optional_vars is not None and _uses_name(item.context_expr, names):
                            names.add(last_dotted_name(item.optional_vars))
                elif isinstance(node, ast.Call):
                    keywords = (each.arg for each in node.keywords if _uses_name(each.value, names))
                    names.update(each for each in keywords if each and each != "deepspeed")
        names.discard("")
        if len(names) == before:
            break
    return frozenset(names)


_MAX_HOPS = 3
"""Maximum number of assignments through which a value is followed."""


def _uses_name(node: ast.expr, names: frozenset[str] | set[str]) -> bool:
    """Return whether an expression uses one of `names` as a name or as a string key."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name | ast.Attribute) and last_dotted_name(each) in names:
            return True
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value in names:
            return True
    return False


# Keys that a module writes into a config it has loaded, found in its syntax tree.

_Path: TypeAlias = "tuple[str, ...]"
ANY_KEY = "*"
"""Last part of a path whose keys are known only at run time."""
_LOADS = re.compile(
    r"load|read|parse|open|merge|(?:get|make|build|create|prepare)_\w*(?:config|cfg|ds)|deepcopy|copy"
)
_CONFIG_NAMES = re.compile(r"(?:\w*_)?(?:config|cfg|conf)(?:_\w+)?|(?:ds|deepspeed)(?:_\w+)?|hf_ds_config")
_DEEPSPEED_KEYS = frozenset(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps"))
"""Root keys that only DeepSpeed configs have."""
_CONFIG_PARAMETERS = {
    "initialize": ("config", "config_params"),
    "init_inference": ("config",),
    "DeepSpeedPlugin": ("hf_ds_config",),
    "DeepSpeedStrategy": ("config",),
    "HfDeepSpeedConfig": ("config_file_or_dict",),
    "HfTrainerDeepSpeedConfig": ("config_file_or_dict",),
    "DeepSpeedConfig": ("config",),
}
"""Functions that accept a config, and the parameters that receive it; the Trainer's arguments call it
`deepspeed`.
"""


class KeyWrite(NamedTuple):
    """A key that a program writes or removes."""

    path: _Path
    line: int
    absent_only: bool = False
    """Whether an existing value stays: `setdefault`, or an assignment guarded by a test for absence or
    "auto".
    """


def passes_config_to_deepspeed(module: ParsedModule) -> bool:
    """Return whether a module passes a config to DeepSpeed or a wrapper, or uses Accelerate's `deepspeed_plugin`."""
    return any(
        is_config_call(node)
        if isinstance(node, ast.Call)
        else isinstance(node, ast.Attribute) and node.attr == "deepspeed_plugin"
        for node in module.nodes
    )


def is_config_call(call: ast.Call) -> bool:
    """Return whether a call passes a config to DeepSpeed or a wrapper."""
    name = called_function_name(call)
    return (name in _CONFIG_PARAMETERS and (name != "initialize" or _is_deepspeed_initialize(call))) or bool(
        config_arguments_of_call(call)
    )


def config_arguments_of_call(call: ast.Call) -> list[ast.expr]:
    """Return the arguments of a call that are a config or the path to one."""
    name = called_function_name(call)
    if name in _CONFIG_PARAMETERS and (name != "initialize" or _is_deepspeed_initialize(call)):
        argument = keyword_argument(call, *_CONFIG_PARAMETERS[name])
        position = 0 if name.endswith("Config") else 1 if name == "init_inference" else len(call.args)
        return [argument] if argument is not None else call.args[position : position + 1]
    argument = keyword_argument(call, "deepspeed")
    is_switch = isinstance(argument, ast.Constant) and not isinstance(argument.value, str)
    return [argument] if argument is not None and not is_switch else []


def _is_deepspeed_initialize(call: ast.Call) -> bool:
    """Return whether a call of `initialize` is DeepSpeed's, because Hydra and Apex have functions of the same name."""
    base = call.func.value if isinstance(call.func, ast.Attribute) else None
    return (
        last_dotted_name(base) in ("deepspeed", "ds")
        or keyword_argument(call, "config", "config_params") is not None
    )


def config_key_writes(module: ParsedModule) -> Iterator[KeyWrite]:
    """Yield the keys that a module writes to variables that may hold a loaded config."""
    literals = {
        name
        for name, value in _assigned_names(module.top_level_statements)
        if _is_created_from_literals(value)
    }
    names = {
        last_dotted_name(each)
        for node in module.nodes
        if isinstance(node, ast.Call)
        for each in config_arguments_of_call(node)
    }
    for node in module.nodes:
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _FunctionScope(node, literals, names - {""}).key_writes()


def _assigned_names(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names assigned in a scope with their values, ignoring nested functions."""
    for node in _scope_nodes(body):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name | ast.Attribute):
                    yield ast.unparse(target), node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            if isinstance(node.target, ast.Name | ast.Attribute):
                yield ast.unparse(node.target), node.value
        elif isinstance(node, ast.NamedExpr):
            yield node.target.id, node.value


def _scope_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of a scope in source order, without the bodies of nested functions."""
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _is_created_from_literals(value: ast.expr) -> bool:
    """Return whether an expression creates an object that is empty or consists of literals, so not a loaded config."""
    if isinstance(value, ast.Dict):
        return None not in value.keys
    return (
        isinstance(value, ast.Call)
        and called_function_name(value) in ("dict", "defaultdict", "OrderedDict")
        and not (value.args or any(each.arg is None for each in value.keywords))
    )


def _is_copy_for_another_model(value: ast.expr) -> bool:
    """Return whether a value is a copy of the config in Accelerate's plugin, made for a model that is not trained.

    TRL changes such a copy for the reference model: trl models/utils.py:prepare_deepspeed.
    """
    if not (
        isinstance(value, ast.Call) and called_function_name(value) in ("deepcopy", "copy") and value.args
    ):
        return False
    copied = value.args[0]
    return (
        isinstance(copied, ast.Attribute)
        and copied.attr == "deepspeed_config"
        and last_dotted_name(copied.value).endswith("plugin")
    )


class _FunctionScope:
    """A function or module top level that is searched for writes to configs."""

    def __init__(
        self,
        scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef,
        literals: set[str],
        names: set[str],
    ) -> None:
        self.body, self.names = scope.body, names
        arguments = () if isinstance(scope, ast.Module) else (*scope.args.posonlyargs, *scope.args.args)
        parameters = {each.arg for each in arguments}
        values = list(_assigned_names(scope.body))
        self.loaded = {name for name, value in values if isinstance(value, ast.Call) and _loads_config(value)}
        local_names = {name for name, _ in values}
        created = {
            name
            for name in local_names
            if all(
                _is_created_from_literals(value) or _is_copy_for_another_model(value)
                for other, value in values
                if other == name
            )
        }
        self.created = created | (literals - parameters - local_names)
        self.aliases: dict[str, tuple[str, _Path]] = {}

    def key_writes(self) -> Iterator[KeyWrite]:
        yield from self._writes_in_block(self.body, frozenset())

    def _writes_in_block(self, body: list[ast.stmt], guarded: frozenset[str]) -> Iterator[KeyWrite]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            inner = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
            cases = [each.body for each in (*getattr(node, "handlers", ()), *getattr(node, "cases", ()))]
            if not any(isinstance(each, list) for each in inner):
                yield from self._writes_in_statement(node, guarded)
                continue
            tested = _keys_tested_absent(node.test) if isinstance(node, ast.If) else frozenset()
            for index, each in enumerate([*inner, *cases]):
                yield from self._writes_in_block(
                    each or [], guarded | (tested if index == 0 else frozenset())
                )

    def _writes_in_statement(self, node: ast.stmt, guarded: frozenset[str]) -> Iterator[KeyWrite]:
        for write in self._writes_of(node):
            absent_only = write.absent_only or bool(write.path and write.path[-1] in guarded)
            yield write._replace(absent_only=absent_only)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            variable_path = self._split_variable_and_keys(node.value)
            if variable_path is not None and not (
                variable_path[0] == node.targets[0].id and not variable_path[1]
            ):
                self.aliases[node.targets[0].id] = variable_path
            else:
                self.aliases.pop(node.targets[0].id, None)

    def _writes_of(self, node: ast.stmt) -> Iterator[KeyWrite]:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = [
                each
                for target in node.targets
                for each in (target.elts if isinstance(target, ast.Tuple | ast.List) else [target])
            ]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Delete):
            targets = node.targets
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr):
            yield from self._writes_by_merge(node.target, [node.value], node)
        for target in targets:
            if isinstance(target, ast.Subscript):
                yield from self._write_of_key(target.value, _subscript_key(target), node.lineno)
        for each in ast.walk(node):
            if isinstance(each, ast.Call):
                yield from self._writes_by_call(each)
            elif isinstance(each, ast.Dict) and None in each.keys:
                yield from self._writes_by_dict_unpacking(each)
            elif isinstance(each, ast.BinOp) and isinstance(each.right, ast.Dict):
                yield from self._writes_by_merge(each.left, [each.right], each)

    def _writes_by_call(self, call: ast.Call) -> Iterator[KeyWrite]:
        if called_function_name(call) == "dict" and call.args and call.keywords:
            yield from self._writes_by_merge(call.args[0], [], call, call.keywords)
        if not isinstance(call.func, ast.Attribute):
            return
        base = call.func.value
        if call.func.attr == "update":
            yield from self._writes_by_merge(base, call.args, call, call.keywords)
        elif call.func.attr in ("setdefault", "pop") and call.args:
            for write in self._write_of_key(base, _string_constant_key(call.args[0]), call.lineno):
                opens_section = len(call.args) == 1 or isinstance(call.args[1], ast.Dict)  # opens a section
                if call.func.attr == "pop" or not opens_section:
                    yield write._replace(absent_only=call.func.attr == "setdefault")

    def _writes_by_dict_unpacking(self, node: ast.Dict) -> Iterator[KeyWrite]:
        """Yield the keys that a dict display such as `{**config, "key": value}` overwrites."""
        bases = [value for key, value in zip(node.keys, node.values, strict=True) if key is None]
        for base in bases:
            keys = [key for key in node.keys if key is not None]
            for key in keys:
                yield from self._write_of_key(base, _string_constant_key(key), node.lineno)

    def _writes_by_merge(
        self, base: ast.expr, others: list[ast.expr], node: ast.AST, keywords: list[ast.keyword] | None = None
    ) -> Iterator[KeyWrite]:
        line = getattr(node, "lineno", 1)
        for other in others:
            if isinstance(other, ast.Dict) and None not in other.keys:
                for path in _keys_of_dict_literal(other):
                    yield from self._write_of_key(base, path, line)
            else:
                yield from self._write_of_key(base, None, line)
        for each in keywords or ():
            yield from self._write_of_key(base, None if each.arg is None else (each.arg,), line)

    def _write_of_key(self, base: ast.expr, key: _Path | None, line: int) -> Iterator[KeyWrite]:
        """Yield the write of `key` (None if unknown) to the expression `base`, if `base` may be a config."""
        variable_path = self._split_variable_and_keys(base)
        if variable_path is None:
            return
        variable, path = variable_path
        full_path = (*path, *((ANY_KEY,) if key is None else key))
        may_be = self._may_be_config(variable, sure=key is None) or (key and full_path[0] in _DEEPSPEED_KEYS)
        if may_be and variable not in self.created:
            yield KeyWrite(full_path, line)

    def _may_be_config(self, variable: str, *, sure: bool) -> bool:
        last = variable.rpartition(".")[2]
        if last in self.names or (variable in self.loaded and not sure):
            return True
        return _CONFIG_NAMES.fullmatch(last) is not None and (not sure or variable in self.loaded)

    def _split_variable_and_keys(self, node: ast.expr) -> tuple[str, _Path] | None:
        """Split a lookup such as `config["a"]["b"]` into its variable and keys; return None for other expressions."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id, (node.id, ()))
        if isinstance(node, ast.Attribute):
            return ast.unparse(node), ()
        key: _Path | None = None
        if isinstance(node, ast.Subscript):
            base, key = node.value, _subscript_key(node)
        elif _is_key_lookup(node) and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            base, key = node.func.value, _string_constant_key(node.args[0])
        if key is None:
            return None
        variable_path = self._split_variable_and_keys(base)
        return None if variable_path is None else (variable_path[0], (*variable_path[1], *key))


def _is_key_lookup(node: ast.expr) -> bool:
    """Return whether a node is a lookup such as `config.get("key")`."""
    return (
        isinstance(node, ast.Call) and called_function_name(node) in ("get", "setdefault") and bool(node.args)
    )


def _loads_config(call: ast.Call) -> bool:
    return _LOADS.search(called_function_name(call)) is not None


def _subscript_key(node: ast.Subscript) -> _Path | None:
    return _string_constant_key(node.slice)


def _string_constant_key(node: ast.expr | None) -> _Path | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return (node.value,)
    return None


def _keys_of_dict_literal(node: ast.Dict) -> Iterator[_Path | None]:
    """Yield the top-level keys of a dict literal."""
    for key in node.keys:
        yield _string_constant_key(key)


def _keys_tested_absent(test: ast.expr) -> frozenset[str]:
    """Return the keys that a condition compares with None or "auto", or tests for being absent."""
    keys: set[str] = set()
    for node in ast.walk(test):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        left, operator, right = node.left, node.ops[0], node.comparators[0]
        if isinstance(operator, ast.NotIn) and (key := _string_constant_key(left)):
            keys.update(key)
        is_unset = isinstance(right, ast.Constant) and right.value in ("auto", None)
        if isinstance(operator, ast.Eq | ast.Is) and is_unset:
            key = _subscript_key(left) if isinstance(left, ast.Subscript) else None
            if isinstance(left, ast.Call) and called_function_name(left) == "get" and left.args:
                key = _string_constant_key(left.args[0])
            keys.update(key or ())
    return frozenset(keys)
