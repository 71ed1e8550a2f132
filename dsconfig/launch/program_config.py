"""Configs that a Python program loads: the argument that names one, and the keys the program writes into it.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

from dsconfig.core.json_types import NamedTuple
from dsconfig.job.detect_consumer import ProgramReaders
from dsconfig.launch.python_source import Module, called, calls, keyword, last_name, modules
from dsconfig.launch.repository import search, tick

# Consumer of a config that a command passes to a Python program.
#
# `--deepspeed_config` is an argument of DeepSpeed itself (deepspeed/__init__.py:_add_core_arguments). A
# program may define its own argument of this or a similar name and pass the path to the Trainer, to
# Accelerate's plugin or to Lightning. Only the program's source shows that.

ALL = ("deepspeed", "transformers", "accelerate")
"""Possible consumers of a config that a flag names, if the program does not show which one it is."""
_TAKES = {
    "initialize": "deepspeed",
    "init_inference": "deepspeed",
    "DeepSpeedPlugin": "accelerate",
    "DeepSpeedStrategy": "lightning",
}
_SIGNS = {
    "HfArgumentParser": "transformers",
    "Trainer": "transformers",
    "Accelerator": "accelerate",
    "add_config_arguments": "deepspeed",
}
"""Calls that show which framework trains, but not which argument holds the config."""


_UNKNOWN = ProgramReaders(ALL, "")


def readers_of_command(
    program: str, launch: str, flag: str, folder: str = "", *, bare: bool
) -> ProgramReaders:
    """Possible consumers of the file that a command's flag names.

    Args:
        program: the program as written in the command: `src/train.py`, or a module; empty if there is none.
        launch: the file that contains the command.
        flag: `--deepspeed_config`, or a program's own spelling of it.
        folder: directory that the script has entered with `cd`.
        bare: whether the command has `--deepspeed` without a value; then both flags are DeepSpeed's own.
    """
    name = program if program.endswith(".py") or not program else f"{program.replace('.', '/')}.py"
    path = search(name, launch, folder).path if name else None
    found = readers_of(path, launch, "deepspeed_config") if path else _UNKNOWN
    if found.why:
        return found._replace(why="") if found.names == ("deepspeed",) else found
    if bare:
        return ProgramReaders(("deepspeed",), "")
    shown = f"{os.path.relpath(path)} does not show its consumer" if path else "whose program was not found"
    # DeepSpeed defines the argument with an underscore only: deepspeed/__init__.py:_add_core_arguments.
    return ProgramReaders(ALL, shown, by_content="-config" in flag)


def readers_of(program: str, launch: str, flag: str) -> ProgramReaders:
    """Possible consumers of the file of a program's flag, such as `deepspeed_config`.

    `launch`: file that starts the program; it decides which files may be read.
    """
    return _readers_of(os.path.abspath(program), launch, flag, tick())


@lru_cache(maxsize=64)
def _readers_of(program: str, launch: str, flag: str, _: int) -> ProgramReaders:
    try:
        found = list(_found(modules(program, launch), flag))
    except RecursionError:  # nesting deeper than the interpreter's stack
        return _UNKNOWN
    for weight in (2, 1, 0):
        same = [each for each in found if each.weight == weight]
        if same:
            first = {each.reader: each.why for each in reversed(same)}
            names = tuple(dict.fromkeys(each.reader for each in same))
            return ProgramReaders(names, " and ".join(first[name] for name in names), by_content=True)
    return _UNKNOWN


class _Sign(NamedTuple):
    """Evidence for a consumer at one location of a program."""

    weight: int
    """Strength: 2 if the call receives the flag's value, 1 if it receives some config, 0 if it only shows a
    framework.
    """
    reader: str
    why: str


def _found(program: tuple[Module, ...], flag: str) -> Iterator[_Sign]:
    names = _holders(program, flag)
    for module, call in calls(program):
        # `HfDeepSpeedConfig` is no evidence: it prepares partitioned loading for any consumer that trains the
        # model.
        name = called(call)
        where = f"in {os.path.relpath(module.path)}:{call.lineno}"
        values = handed(call)
        reader = _TAKES.get(name) or ("transformers" if keyword(call, "deepspeed") is not None else None)
        if name in _TAKES and not values and _is_initialize(call):
            # `deepspeed.initialize(args=args, ...)` reads `args.deepspeed_config`:
            # deepspeed/__init__.py:initialize.
            yield _Sign(2 if flag == "deepspeed_config" else 1, "deepspeed", f"`deepspeed.{name}` {where}")
        elif values and reader is not None:
            argument = keyword_name(call, values[0])
            takes = any(_mentions(value, names) for value in values)
            yield _Sign(2 if takes else 1, reader, f"`{name}({argument}...)` {where}")
        elif sign := _sign(name):
            yield _Sign(0, sign, f"`{name}` {where}")
    for module in program:
        for node in module.nodes:
            if isinstance(node, ast.Assign) and any(_is_attribute(each) for each in node.targets):
                takes = _mentions(node.value, names)
                where = f"in {os.path.relpath(module.path)}:{node.lineno}"
                yield _Sign(2 if takes else 1, "transformers", f"`{ast.unparse(node.targets[0])} =` {where}")


def _is_initialize(call: ast.Call) -> bool:
    base = call.func.value if isinstance(call.func, ast.Attribute) else None
    return called(call) in ("initialize", "init_inference") and last_name(base) in ("deepspeed", "ds")


def _sign(name: str) -> str | None:
    if name in _SIGNS:
        return _SIGNS[name]
    return "transformers" if name.endswith(("TrainingArguments", "Trainer")) else None


def _is_attribute(target: ast.expr) -> bool:
    """Whether the target is an argument of the Trainer that holds the config: `training_args.deepspeed`."""
    if not isinstance(target, ast.Attribute) or target.attr != "deepspeed":
        return False
    return "arg" in last_name(target.value)


def keyword_name(call: ast.Call, value: ast.expr) -> str:
    """The keyword of a call's argument as shown in messages: `deepspeed=`."""
    return next((f"{each.arg}=" for each in call.keywords if each.value is value and each.arg), "")


def _holders(program: tuple[Module, ...], flag: str) -> frozenset[str]:
    """Names that hold the value of the flag: the flag itself, and variables and arguments it is passed to."""
    names = {flag}
    for _ in range(_HOPS):
        before = len(names)
        for module in program:
            for node in module.nodes:
                if isinstance(node, ast.Assign) and _mentions(node.value, names):
                    names.update(last_name(target) for target in node.targets)
                elif isinstance(node, ast.With):
                    for item in node.items:
                        if item.optional_vars is not None and _mentions(item.context_expr, names):
                            names.add(last_name(item.optional_vars))
                elif isinstance(node, ast.Call):
                    taken = (each.arg for each in node.keywords if _mentions(each.value, names))
                    names.update(each for each in taken if each and each != "deepspeed")
        names.discard("")
        if len(names) == before:
            break
    return frozenset(names)


_HOPS = 3
"""Assignments through which a value is followed."""


def _mentions(node: ast.expr, names: frozenset[str] | set[str]) -> bool:
    """Whether an expression uses one of these names, or one of them as a string key."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name | ast.Attribute) and last_name(each) in names:
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
_CONFIGS = re.compile(r"(?:\w*_)?(?:config|cfg|conf)(?:_\w+)?|(?:ds|deepspeed)(?:_\w+)?|hf_ds_config")
_OWN_KEYS = frozenset(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps"))
"""Root keys that only DeepSpeed configs have."""
_HANDED = {
    "initialize": ("config", "config_params"),
    "init_inference": ("config",),
    "DeepSpeedPlugin": ("hf_ds_config",),
    "DeepSpeedStrategy": ("config",),
    "HfDeepSpeedConfig": ("config_file_or_dict",),
    "HfTrainerDeepSpeedConfig": ("config_file_or_dict",),
    "DeepSpeedConfig": ("config",),
}
"""Calls that take a config, and the arguments they take it in; the Trainer's arguments take it as
`deepspeed`.
"""


class Write(NamedTuple):
    """A key that a program writes or removes."""

    path: _Path
    line: int
    absent_only: bool = False
    """Whether an existing value stays: `setdefault`, or an assignment guarded by a test for absence or
    "auto".
    """


def hands_over(module: Module) -> bool:
    """Whether a module passes a config to DeepSpeed or a wrapper, or uses Accelerate's `deepspeed_plugin`."""
    return any(
        is_handing(node)
        if isinstance(node, ast.Call)
        else isinstance(node, ast.Attribute) and node.attr == "deepspeed_plugin"
        for node in module.nodes
    )


def is_handing(call: ast.Call) -> bool:
    """Whether a call passes a config to DeepSpeed or a wrapper."""
    name = called(call)
    return (name in _HANDED and (name != "initialize" or _is_deepspeed(call))) or bool(handed(call))


def handed(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that are a config or its path."""
    name = called(call)
    if name in _HANDED and (name != "initialize" or _is_deepspeed(call)):
        found = keyword(call, *_HANDED[name])
        return [found] if found is not None else call.args[:1] if name.endswith("Config") else []
    found = keyword(call, "deepspeed")
    plain = isinstance(found, ast.Constant) and not isinstance(found.value, str)
    return [found] if found is not None and not plain else []


def _is_deepspeed(call: ast.Call) -> bool:
    """Whether `initialize` is DeepSpeed's: many libraries, such as Hydra and apex, have a function of this
    name.
    """
    base = call.func.value if isinstance(call.func, ast.Attribute) else None
    return last_name(base) in ("deepspeed", "ds") or keyword(call, "config", "config_params") is not None


def writes_in(module: Module) -> Iterator[Write]:
    """Yield the keys that a module writes into variables that may hold a loaded config."""
    literals = {name for name, value in _assigned(module.body) if _is_literal(value)}
    names = {last_name(each) for node in module.nodes if isinstance(node, ast.Call) for each in handed(node)}
    for node in module.nodes:
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _Scope(node, literals, names - {""}).writes()


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names assigned in a scope, without nested functions, with their values."""
    for node in _own(body):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name | ast.Attribute):
                    yield ast.unparse(target), node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            if isinstance(node.target, ast.Name | ast.Attribute):
                yield ast.unparse(node.target), node.value
        elif isinstance(node, ast.NamedExpr):
            yield node.target.id, node.value


def _own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of a scope in text order, without the bodies of nested functions."""
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def _is_literal(value: ast.expr) -> bool:
    """Whether an object is created empty or from literals, so that it is not a loaded config."""
    if isinstance(value, ast.Dict):
        return None not in value.keys
    return (
        isinstance(value, ast.Call)
        and called(value) in ("dict", "defaultdict", "OrderedDict")
        and not (value.args or any(each.arg is None for each in value.keywords))
    )


class _Scope:
    """A function, or the top level of a module."""

    def __init__(
        self,
        scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef,
        literals: set[str],
        names: set[str],
    ) -> None:
        self.body, self.names = scope.body, names
        arguments = () if isinstance(scope, ast.Module) else (*scope.args.posonlyargs, *scope.args.args)
        given = {each.arg for each in arguments}
        values = list(_assigned(scope.body))
        self.loaded = {name for name, value in values if isinstance(value, ast.Call) and _loads(value)}
        own = {name for name, _ in values}
        made = {name for name in own if all(_is_literal(value) for known, value in values if known == name)}
        self.made = made | (literals - given - own)
        self.aliases: dict[str, tuple[str, _Path]] = {}

    def writes(self) -> Iterator[Write]:
        yield from self._block(self.body, frozenset())

    def _block(self, body: list[ast.stmt], guarded: frozenset[str]) -> Iterator[Write]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            inner = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
            cases = [each.body for each in (*getattr(node, "handlers", ()), *getattr(node, "cases", ()))]
            if not any(isinstance(each, list) for each in inner):
                yield from self._statement(node, guarded)
                continue
            tested = _tested(node.test) if isinstance(node, ast.If) else frozenset()
            for index, each in enumerate([*inner, *cases]):
                yield from self._block(each or [], guarded | (tested if index == 0 else frozenset()))

    def _statement(self, node: ast.stmt, guarded: frozenset[str]) -> Iterator[Write]:
        for found in self._of(node):
            absent = found.absent_only or bool(found.path and found.path[-1] in guarded)
            yield found._replace(absent_only=absent)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            place = self._place(node.value)
            if place is not None and not (place[0] == node.targets[0].id and not place[1]):
                self.aliases[node.targets[0].id] = place
            else:
                self.aliases.pop(node.targets[0].id, None)

    def _of(self, node: ast.stmt) -> Iterator[Write]:
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
            yield from self._merged(node.target, [node.value], node)
        for target in targets:
            if isinstance(target, ast.Subscript):
                yield from self._at(target.value, _key(target), node.lineno)
        for each in ast.walk(node):
            if isinstance(each, ast.Call):
                yield from self._of_call(each)
            elif isinstance(each, ast.Dict) and None in each.keys:
                yield from self._spread(each)
            elif isinstance(each, ast.BinOp) and isinstance(each.right, ast.Dict):
                yield from self._merged(each.left, [each.right], each)

    def _of_call(self, call: ast.Call) -> Iterator[Write]:
        if called(call) == "dict" and call.args and call.keywords:
            yield from self._merged(call.args[0], [], call, call.keywords)
        if not isinstance(call.func, ast.Attribute):
            return
        base = call.func.value
        if call.func.attr == "update":
            yield from self._merged(base, call.args, call, call.keywords)
        elif call.func.attr in ("setdefault", "pop") and call.args:
            for found in self._at(base, _text(call.args[0]), call.lineno):
                opens = len(call.args) == 1 or isinstance(call.args[1], ast.Dict)  # opens a section
                if call.func.attr == "pop" or not opens:
                    yield found._replace(absent_only=call.func.attr == "setdefault")

    def _spread(self, node: ast.Dict) -> Iterator[Write]:
        """Writes of a dict display such as `{**config, "key": value}`."""
        bases = [value for key, value in zip(node.keys, node.values, strict=True) if key is None]
        for base in bases:
            keys = [key for key in node.keys if key is not None]
            for key in keys:
                yield from self._at(base, _text(key), node.lineno)

    def _merged(
        self, base: ast.expr, others: list[ast.expr], node: ast.AST, keywords: list[ast.keyword] | None = None
    ) -> Iterator[Write]:
        line = getattr(node, "lineno", 1)
        for other in others:
            if isinstance(other, ast.Dict) and None not in other.keys:
                for path in _paths(other):
                    yield from self._at(base, path, line)
            else:
                yield from self._at(base, None, line)
        for each in keywords or ():
            yield from self._at(base, None if each.arg is None else (each.arg,), line)

    def _at(self, base: ast.expr, key: _Path | None, line: int) -> Iterator[Write]:
        """Yield the write of a key (None: unknown) into an expression, if that may be a config."""
        place = self._place(base)
        if place is None:
            return
        variable, path = place
        whole = (*path, *((ANY_KEY,) if key is None else key))
        may_be = self._may_be_config(variable, sure=key is None) or (key and whole[0] in _OWN_KEYS)
        if may_be and variable not in self.made:
            yield Write(whole, line)

    def _may_be_config(self, variable: str, *, sure: bool) -> bool:
        last = variable.rpartition(".")[2]
        if last in self.names or (variable in self.loaded and not sure):
            return True
        return _CONFIGS.fullmatch(last) is not None and (not sure or variable in self.loaded)

    def _place(self, node: ast.expr) -> tuple[str, _Path] | None:
        """The variable of an expression and the keys that follow it; None if it is not a plain lookup."""
        if isinstance(node, ast.Name):
            return self.aliases.get(node.id, (node.id, ()))
        if isinstance(node, ast.Attribute):
            return ast.unparse(node), ()
        key: _Path | None = None
        if isinstance(node, ast.Subscript):
            base, key = node.value, _key(node)
        elif _is_look_up(node) and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            base, key = node.func.value, _text(node.args[0])
        if key is None:
            return None
        place = self._place(base)
        return None if place is None else (place[0], (*place[1], *key))


def _is_look_up(node: ast.expr) -> bool:
    """Whether this is a lookup such as `config.get("key")`."""
    return isinstance(node, ast.Call) and called(node) in ("get", "setdefault") and bool(node.args)


def _loads(call: ast.Call) -> bool:
    return _LOADS.search(called(call)) is not None


def _key(node: ast.Subscript) -> _Path | None:
    return _text(node.slice)


def _text(node: ast.expr | None) -> _Path | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return (node.value,)
    return None


def _paths(node: ast.Dict) -> Iterator[_Path | None]:
    """Yield the keys of a dict literal at its top level."""
    for key in node.keys:
        yield _text(key)


def _tested(test: ast.expr) -> frozenset[str]:
    """Keys that a condition tests to be absent, None or "auto"."""
    found: set[str] = set()
    for node in ast.walk(test):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        left, operator, right = node.left, node.ops[0], node.comparators[0]
        if isinstance(operator, ast.NotIn) and (key := _text(left)):
            found.update(key)
        empty = isinstance(right, ast.Constant) and right.value in ("auto", None)
        if isinstance(operator, ast.Eq | ast.Is) and empty:
            key = _key(left) if isinstance(left, ast.Subscript) else None
            if isinstance(left, ast.Call) and called(left) == "get" and left.args:
                key = _text(left.args[0])
            found.update(key or ())
    return frozenset(found)
