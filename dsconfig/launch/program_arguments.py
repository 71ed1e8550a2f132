"""Training arguments of a Python program: their class, its defaults, and values from code or a YAML file."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Literal, TypeAlias

from dsconfig.consumers import training_args
from dsconfig.consumers.consumer import BY_NAME, PLUGIN_DEFAULTS
from dsconfig.core.file_access import contents, is_own, root
from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.document import read_file
from dsconfig.job.detect_consumer import Given
from dsconfig.launch.format_table import Format
from dsconfig.launch.python_source import Module, called, calls, constant, keyword, last_name, modules
from dsconfig.launch.repository import search, tick
from dsconfig.launch.requirements import version_of
from dsconfig.launch.training_arguments import given, plain

# A program may derive its own class from `TrainingArguments` or use one of TRL, both with other defaults. It
# may also build the arguments in code, from constants and from its own flags.

NAMES = BY_NAME["transformers"].defaults.keys() - PLUGIN_DEFAULTS.keys()
"""Training arguments that fill a config."""
_STOCK = frozenset(("TrainingArguments", "Seq2SeqTrainingArguments"))
_PARSERS = frozenset(("HfArgumentParser", "TrlParser", "H4ArgumentParser"))
_DEEPEST = 8
"""Longest chain of base classes that is followed."""


class ProgramArguments(NamedTuple):
    """Training arguments that a program has beyond those in its command."""

    defaults: Mapping[str, Json]
    """Defaults by the Trainer's names, if they differ from `TrainingArguments`; None: unknown before the run.
    """
    changed: frozenset[str]
    """Arguments that the program overwrites, whatever the command gives."""
    is_code: bool
    """Whether the program builds the arguments in code; flags with the same names are then the program's own.
    """
    has_loop: bool
    """Whether it also has a loop of its own, for which only Accelerate fills the config."""
    why: str
    """A clause: `` train.py:9 parses its arguments into `GRPOConfig` of TRL ``."""

    @property
    def note(self) -> str:
        """Message about the origin of the defaults; empty if they are those of Transformers."""
        if not self.defaults and not self.changed:
            return ""
        return f"{self.why}, which supplies the arguments that the command leaves out"


class _Class(NamedTuple):
    """A class of training arguments and its defaults."""

    name: str
    defaults: Mapping[str, Json]
    changed: frozenset[str] = frozenset()
    is_stock: bool = False


_Resolved: TypeAlias = "_Class | Literal['open'] | None"
"""Result of a name lookup; `open`: a class of a package that is not read; None: not training arguments."""
_OPEN = _Class("", dict.fromkeys(NAMES))


def arguments_of(
    program: str, launch: str, flags: Mapping[str, Json], version: str | None
) -> ProgramArguments | None:
    """The training arguments of a program; None if it shows none.

    Args:
        program: path of the program.
        launch: file that starts the program; it decides which files may be read.
        flags: flags of its command by name; None as value: unknown before the run.
        version: of TRL; None: the newest.
    """
    try:
        source = _Source(modules(program, launch), version)
        return source.parsed(flags) or source.made(flags)
    except RecursionError:  # nesting deeper than the interpreter's stack
        return None


def arguments_in(
    program: str, launch: str, flags: Mapping[str, Json], varied: frozenset[str] = frozenset()
) -> ProgramArguments | None:
    """The training arguments of a program with the flags of a command and the YAML file that `--config`
    names.

    `varied`: flags whose values depend on the run.
    """
    known = {name: None if name in varied else plain(value) for name, value in flags.items()}
    required = version_of("trl", program)
    found = arguments_of(program, launch, known, required and required[0])
    recipe = flags.get("config")
    if found is None or found.is_code or not isinstance(recipe, str) or not recipe.endswith(_RECIPES):
        return found
    # trl scripts/utils.py, TrlParser.parse_args_and_config: values of the file become defaults of the flags.
    path = search(recipe, launch).path
    data = read_file(path).value() if path else None
    if not isinstance(data, dict):
        return found._replace(defaults=dict.fromkeys(NAMES))
    written = {name: plain(value) for name, value in data.items() if name in NAMES}
    return found._replace(defaults=_with_precision({**found.defaults, **written}, {**written, **known}))


def together(found: list[ProgramArguments]) -> ProgramArguments:
    """Combine the arguments of programs of which one will run; an argument in which they differ is unknown.
    """
    changed = frozenset().union(*(each.changed for each in found))
    return found[0]._replace(defaults=_agreed([each.defaults for each in found]), changed=changed)


_RECIPES = (".yaml", ".yml", ".json")


class _Source:
    def __init__(self, program: tuple[Module, ...], version: str | None) -> None:
        self.modules, self.version = program, version
        self.classes = {
            node.name: (module, node)
            for module in reversed(program)
            for node in module.body
            if isinstance(node, ast.ClassDef)
        }
        self.imported = {module.path: dict(_imports(module)) for module in program}
        self.assigned = frozenset(_assigned(program))
        self.has_loop = any(called(call) == "Accelerator" for _, call in calls(program))

    # A parser of dataclasses
    # ----------------------------------------------------------------------------------------------

    def parsed(self, flags: Mapping[str, Json]) -> ProgramArguments | None:
        """The arguments that a parser such as `HfArgumentParser` fills from flags; None without such a
        parser.
        """
        found: list[tuple[str, _Class]] = []
        for module, call in calls(self.modules):
            if called(call) in _PARSERS:
                types = call.args[0] if call.args else keyword(call, "dataclass_types")
                known = self._of_parser(types, module)
                found += [(module.place(call), each) for each in known]
        if not found:
            return None
        place, first = found[0]
        defaults = _agreed([each.defaults for _, each in found])
        changed = frozenset().union(*(each.changed for _, each in found)) | self.assigned
        own = first.name and f"`{first.name}`{' of TRL' if training_args.is_trl_config(first.name) else ''}"
        why = f"{place} parses its arguments into {own or 'a class that dsconfig cannot read'}"
        precise = _with_precision(defaults, flags)
        return ProgramArguments(precise, changed, is_code=False, has_loop=self.has_loop, why=why)

    def _of_parser(self, types: ast.expr | None, module: Module) -> list[_Class]:
        if isinstance(types, ast.Name) and types.id not in self.classes:
            values = list(_values_of(module, types.id))
            types = values[0] if len(values) == 1 else types
        nodes = types.elts if isinstance(types, ast.Tuple | ast.List) else [types] if types else []
        resolved = [self._resolve(node, module) for node in nodes]
        found = [each for each in resolved if isinstance(each, _Class)]
        return found or ([_OPEN] if "open" in resolved else [])

    # Arguments built in code
    # ----------------------------------------------------------------------------------------------

    def made(self, flags: Mapping[str, Json]) -> ProgramArguments | None:
        """The arguments that the program builds in code; None if it builds none."""
        found: list[tuple[str, _Class, ast.Call]] = []
        for module, call in calls(self.modules):
            known = self._resolve(call.func, module)
            if isinstance(known, _Class):
                found.append((module.place(call), known, call))
        found = [each for each in found if keyword(each[2], "deepspeed") is not None] or found
        if not found:
            return None
        declared = _declared(self.modules)
        defaults = _agreed([self._values(known, call, flags, declared) for _, known, call in found])
        changed = frozenset().union(*(known.changed for _, known, _ in found)) | self.assigned
        why = f"{found[0][0]} builds the Trainer's arguments in code"
        return ProgramArguments(defaults, changed, is_code=True, has_loop=self.has_loop, why=why)

    def _values(
        self, known: _Class, call: ast.Call, flags: Mapping[str, Json], declared: Mapping[str, Json]
    ) -> JsonObject:
        values: JsonObject = dict(known.defaults)
        if any(each.arg is None for each in call.keywords):
            values.update(dict.fromkeys(NAMES))
        given = {each.arg: _value(each.value, flags, declared) for each in call.keywords if each.arg in NAMES}
        own = {name: value for name, value in given.items() if name is not None}
        if "bf16" not in own:
            return {**_with_precision(values, own), **own}
        return {**values, **own}

    # Classes
    # ----------------------------------------------------------------------------------------------

    def _resolve(self, node: ast.expr, module: Module, depth: int = 0, but: str = "") -> _Resolved:
        """Resolve an expression to a class. `but`: the class being defined, whose base may have the same
        name.
        """
        name, package = last_name(node), ""
        if not name or depth > _DEEPEST:
            return "open" if depth > _DEEPEST else None
        if isinstance(node, ast.Attribute):
            package = last_name(node.value)
            package, _ = self.imported[module.path].get(package, (package, ""))
        elif name in self.imported[module.path] and not _defines(module, name, but):
            package, name = self.imported[module.path][name]
        if package.partition(".")[0] not in ("transformers", "trl") and name in self.classes and name != but:
            home, defined = self.classes[name]
            return self._local(home, defined, depth)
        if name in _STOCK:
            return _Class(name, {}, is_stock=True)
        if training_args.is_trl_config(name):
            return _Class(name, training_args.trl_defaults(name, self.version))
        own = package.partition(".")[0] in ("transformers", "trl")
        return None if own or "TrainingArg" not in name else "open"

    def _local(self, module: Module, node: ast.ClassDef, depth: int) -> _Resolved:
        bases = [self._resolve(base, module, depth + 1, node.name) for base in node.bases]
        base = next((each for each in bases if isinstance(each, _Class)), None)
        if base is None:
            return "open" if "open" in bases else None
        defaults, changed = dict(base.defaults), set(base.changed)
        for entry in node.body:
            if isinstance(entry, ast.AnnAssign) and last_name(entry.target) in NAMES:
                defaults[last_name(entry.target)] = _default(entry.value)
            elif isinstance(entry, ast.Assign):
                for target in entry.targets:
                    if last_name(target) in NAMES:
                        defaults[last_name(target)] = _default(entry.value)
            elif isinstance(entry, ast.FunctionDef):
                changed.update(_set_on_self(entry))
        return _Class(node.name, defaults, frozenset(changed))


def _imports(module: Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the imported names of a module, each with its package and its name there."""
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, ("." * node.level + (node.module or ""), alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name, (alias.name, "")


def _defines(module: Module, name: str, but: str) -> bool:
    if name == but:
        return False
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in module.body)


def _assigned(program: tuple[Module, ...]) -> Iterator[str]:
    """Yield the arguments that a program assigns after parsing: `training_args.learning_rate = ...`."""
    for module in program:
        for node in module.nodes:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AugAssign | ast.AnnAssign):
                targets = [node.target]
            for target in targets:
                if isinstance(target, ast.Attribute) and target.attr in NAMES:
                    holder = last_name(target.value)
                    if "arg" in holder or "config" in holder or "cfg" in holder:
                        yield target.attr


def _values_of(module: Module, name: str) -> Iterator[ast.expr]:
    """Yield the values assigned to a variable anywhere in a module."""
    for node in module.nodes:
        if isinstance(node, ast.Assign) and any(last_name(target) == name for target in node.targets):
            yield node.value


def _set_on_self(method: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(method):
        targets = node.targets if isinstance(node, ast.Assign) else ()
        for target in targets:
            if (
                isinstance(target, ast.Attribute)
                and last_name(target.value) == "self"
                and target.attr in NAMES
            ):
                yield target.attr


def _default(value: ast.expr | None) -> Json:
    """Default of a dataclass field: a constant or `field(default=...)`; None for any other expression."""
    if isinstance(value, ast.Call) and called(value) == "field":
        value = keyword(value, "default")
    return constant(value)


def _agreed(found: list[Mapping[str, Json]]) -> JsonObject:
    """Keep the values that all mappings share; other keys become None (unknown)."""
    names = dict.fromkeys(name for each in found for name in each)
    values: JsonObject = {}
    for name in names:
        first = found[0].get(name, _ABSENT)
        same = all(name in each and each[name] == first for each in found)
        values[name] = first if same else None
    return values


_ABSENT = object()


def _with_precision(defaults: Mapping[str, Json], given: Mapping[str, Json]) -> JsonObject:
    """Add TRL's default of `bf16`: on, unless `fp16` is (trl
    trainer/base_config.py:_BaseConfig.__post_init__).
    """
    values = dict(defaults)
    if values.get("bf16") is True and "fp16" in (*given, *values):
        fp16 = given["fp16"] if "fp16" in given else values["fp16"]
        fp16 = _WORDS.get(str(fp16).lower(), fp16)
        values["bf16"] = not fp16 if isinstance(fp16, bool) else None
    return values


_WORDS = {"true": True, "false": False}


def _declared(program: tuple[Module, ...]) -> JsonObject:
    """Defaults of a program's own flags by name, from argparse calls and from parameters of functions.

    Fire, Typer and click build flags from function parameters.
    """
    found: JsonObject = {}
    for _, call in calls(program):
        if called(call) in ("add_argument", "add_parser_argument"):
            words = [each for arg in call.args if isinstance(each := constant(arg), str)]
            name = keyword(call, "dest")
            long = next((word for word in words if word.startswith("--")), "")
            dest = constant(name) if name is not None else long.lstrip("-").replace("-", "_")
            action = constant(keyword(call, "action"))
            default = {"store_true": False, "store_false": True}.get(str(action))
            value = keyword(call, "default")
            if isinstance(dest, str) and dest:
                _declare(found, dest, default if value is None else constant(value))
    for module in program:
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args]
                with_default = arguments[len(arguments) - len(node.args.defaults) :]
                for argument, value in zip(with_default, node.args.defaults, strict=True):
                    _declare(found, argument.arg, constant(value))
    return found


def _declare(found: JsonObject, name: str, value: Json) -> None:
    found[name] = None if name in found and found[name] != value else value


def _value(node: ast.expr, flags: Mapping[str, Json], declared: Mapping[str, Json]) -> Json:
    """Value of an argument: a constant or a flag's value; None: unknown before the run."""
    known = constant(node)
    if known is not None:
        return known
    name = last_name(node)
    if name and name in flags:
        return flags[name]
    return declared.get(name) if name else None


# Program that reads a launch file with training arguments: `train.py recipe.yaml`.

_LARGEST, _MOST, _MOST_FOLDERS = 64 * 1024, 100, 6
_PARSES = re.compile(rb"\b(?:Hf|H4|Trl)\w*Parser\b")


def given_by_program(found: Format, data: Mapping[str, Json], launch: str) -> Given:
    """Read the arguments of a launch file, with the defaults of the program that reads it."""
    known = None if launch.startswith("<") else _of_programs(os.path.abspath(launch), tick())
    if known is None:
        return given(found, data)
    defaults = {**known.defaults, **dict.fromkeys(known.changed)}
    written = {name: value for name, value in data.items() if name not in known.changed}
    if "fp16" in written and "bf16" not in written and defaults.get("bf16") is True:
        defaults["bf16"] = not written["fp16"]  # TRL: on unless `fp16` is, see `_with_precision`
    return given(found._replace(defaults=defaults), written)._replace(note=known.note)


@lru_cache(maxsize=64)
def _of_programs(launch: str, _: int) -> ProgramArguments | None:
    """The training arguments of the programs that may read the launch file; None if there are none."""
    texts = list(_texts(launch))
    base = re.escape(os.path.basename(launch).encode())
    # Bounded repeats, so that a text full of names takes no more than linear time.
    command = re.compile(rb"(?<![\w./-])([\w./-]{1,300}\.py)\b(?:[^\n;&|]|\\\n){0,1000}?[\s/=\"']%b\b" % base)
    named = {
        place.path
        for path, data in texts
        for match in command.finditer(data)
        if (place := search(match[1].decode(), path)).path is not None
    }
    parsing = {path for path, data in texts if path.endswith(".py") and _PARSES.search(data)}
    found = [
        known
        for program in sorted(path for path in named or parsing if path is not None)
        if (known := arguments_in(program, launch, {})) is not None and not known.is_code
    ]
    return together(found) if found else None


def _texts(launch: str) -> Iterator[tuple[str, bytes]]:
    """Yield the scripts and programs in the launch file's directory and its parents within the repository."""
    folder = os.path.dirname(launch)
    top = root(folder)
    for _ in range(_MOST_FOLDERS):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            names = []
        names = [name for name in names if name.endswith((".py", ".sh", ".md")) or name == "Makefile"]
        for path in (os.path.join(folder, name) for name in names[:_MOST]):
            if is_own(path):
                try:
                    yield path, contents(path, _LARGEST)
                except OSError:
                    continue
        if top is None or folder in (top, os.path.dirname(folder)):
            return
        folder = os.path.dirname(folder)
