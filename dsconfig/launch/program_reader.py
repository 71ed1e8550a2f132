"""Who reads the config that a command hands to a Python program in an argument of its own.

`--deepspeed_config` is an argument of DeepSpeed itself; a program may call its own so, or nearly so, and hand
the path to the Trainer, to Accelerate's plugin or to Lightning. Only the program shows that.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import lru_cache

from dsconfig.core.json_types import NamedTuple
from dsconfig.job.detect_consumer import ProgramReaders
from dsconfig.launch.config_search import search
from dsconfig.launch.config_writes import handed
from dsconfig.launch.python_source import Module, called, calls, keyword, last_name, modules
from dsconfig.launch.repository import tick

ALL = ("deepspeed", "transformers", "accelerate")
"""Those that read a config which a program names by a flag, where nothing shows which of them does."""
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
"""What a program calls that says who reads the config, though not with which argument."""


_UNKNOWN = ProgramReaders(ALL, "")


def readers_of_command(
    program: str, launch: str, flag: str, folder: str = "", *, bare: bool
) -> ProgramReaders:
    """Those that may read the file of a flag in a command.

    Args:
        program: the program as the command names it: `src/train.py`, or a module; empty where it names none.
        launch: the file in which the command stands.
        flag: `--deepspeed_config`, or a program's own spelling of that.
        folder: where its script has gone before.
        bare: whether the command has `--deepspeed` without a value, which makes both DeepSpeed's own.
    """
    name = program if program.endswith(".py") or not program else f"{program.replace('.', '/')}.py"
    path = search(name, launch, folder).path if name else None
    found = readers_of(path, launch, "deepspeed_config") if path else _UNKNOWN
    if found.why:
        return found._replace(why="") if found.names == ("deepspeed",) else found  # as the flag says
    if bare:
        return ProgramReaders(("deepspeed",), "")
    shown = f"{os.path.relpath(path)} does not show who reads it" if path else "whose program is not there"
    # DeepSpeed has the argument with an underscore: deepspeed/__init__.py:_add_core_arguments.
    return ProgramReaders(ALL, shown, by_content="-config" in flag)


def readers_of(program: str, launch: str, flag: str) -> ProgramReaders:
    """Those that may read the file of a flag (`deepspeed_config`) of a program.

    `launch`: the file that leads to the program, which decides what may be read.
    """
    return _readers_of(os.path.abspath(program), launch, flag, tick())


@lru_cache(maxsize=64)
def _readers_of(program: str, launch: str, flag: str, _: int) -> ProgramReaders:
    try:
        found = list(_found(modules(program, launch), flag))
    except RecursionError:  # deeper than anybody writes
        return _UNKNOWN
    for weight in (2, 1, 0):
        same = [each for each in found if each.weight == weight]
        if same:
            first = {each.reader: each.why for each in reversed(same)}
            names = tuple(dict.fromkeys(each.reader for each in same))
            return ProgramReaders(names, " and ".join(first[name] for name in names), by_content=True)
    return _UNKNOWN


class _Sign(NamedTuple):
    """One place of a program that says who reads the config."""

    weight: int
    """2: it takes the value of the flag; 1: it takes some config; 0: it trains with somebody."""
    reader: str
    why: str


def _found(program: tuple[Module, ...], flag: str) -> Iterator[_Sign]:
    names = _holders(program, flag)  # `HfDeepSpeedConfig` partitions a model for whoever trains it
    for module, call in calls(program):
        name = called(call)
        where = f"in {os.path.relpath(module.path)}:{call.lineno}"
        values = handed(call)
        reader = _TAKES.get(name) or ("transformers" if keyword(call, "deepspeed") is not None else None)
        if name in _TAKES and not values and _is_initialize(call):
            # `deepspeed.initialize(args=args, ...)` reads `args.deepspeed_config`.
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
    """Whether the config is assigned to an argument of the Trainer: `training_args.deepspeed`."""
    if not isinstance(target, ast.Attribute) or target.attr != "deepspeed":
        return False
    return "arg" in last_name(target.value)


def keyword_name(call: ast.Call, value: ast.expr) -> str:
    """The name by which a call takes a value, as it is written there: `deepspeed=`."""
    return next((f"{each.arg}=" for each in call.keywords if each.value is value and each.arg), "")


def _holders(program: tuple[Module, ...], flag: str) -> frozenset[str]:
    """The names of what holds the value of the flag: its own, and what it is assigned or passed to."""
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
"""From variable to variable that a value is followed."""


def _mentions(node: ast.expr, names: frozenset[str] | set[str]) -> bool:
    """Whether an expression uses one of these names, or the text of one as a key."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name | ast.Attribute) and last_name(each) in names:
            return True
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value in names:
            return True
    return False
