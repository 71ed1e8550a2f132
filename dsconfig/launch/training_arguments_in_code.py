"""Find the training arguments of Python programs: their class, its defaults, and values set in code or a YAML file."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.document import read_file
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.job.consumers import training_args
from dsconfig.job.consumers.consumer import BY_NAME, COMPARED_ARGUMENTS, PLUGIN_DEFAULTS
from dsconfig.launch.python.constant_expressions import ConstantEvaluator
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import (
    ParsedModule,
    ProgramRepository,
    argument_at,
    called_function_name,
    calls_in_modules,
    keyword_argument,
    literal_value,
    program_modules,
)
from dsconfig.launch.repository_files import resolve_written_path
from dsconfig.launch.requirements import consumer_version
from dsconfig.launch.training_arguments import parse_argument_text

# A program may derive its own class from `TrainingArguments` or use one of TRL, both with other defaults. It
# may also build the arguments in code, from constants and from its own flags.

FILLING_ARGUMENTS = BY_NAME["transformers"].defaults.keys() - PLUGIN_DEFAULTS.keys()
"""Training arguments that fill a config."""
_ASSIGNABLE = FILLING_ARGUMENTS | COMPARED_ARGUMENTS
_TRANSFORMERS_CLASSES = frozenset(("TrainingArguments", "Seq2SeqTrainingArguments"))
_PARSERS = frozenset(("HfArgumentParser", "TrlParser", "H4ArgumentParser"))
_STEPS = "gradient_accumulation_steps"
_MAX_DEPTH = 8
"""Maximum length of a chain of base classes that is followed."""


class ArgumentsInCode(NamedTuple):
    """Training arguments that a program sets in code or by default, in addition to those of its command."""

    defaults: Mapping[str, Json]
    """Defaults that differ from `TrainingArguments`, by the Trainer's names; None if unknown before the run.
    """
    changed: frozenset[str]
    """Arguments that the program overwrites, whatever the command sets."""
    is_code: bool
    """Whether the program builds the arguments in code; flags with the same names are then the program's own.
    """
    has_loop: bool
    """Whether the program also has its own training loop, for which only Accelerate fills the config."""
    why: str
    """Clause on the origin of the arguments: `` train.py:9 parses its arguments into `GRPOConfig` of TRL ``."""
    explicit: Mapping[str, Json] = MappingProxyType({})
    """Arguments among `COMPARED_ARGUMENTS` in the code or in the file of `--config`, without defaults."""

    @property
    def origin_note(self) -> str:
        """Message that says where the defaults come from; empty for the defaults of Transformers."""
        if not self.defaults and not self.changed:
            return ""
        return f"{self.why}, which supplies the arguments that the command leaves out"


class _TrainingArgumentsClass(NamedTuple):
    """A class of training arguments and its defaults."""

    name: str
    defaults: Mapping[str, Json]
    changed: frozenset[str] = frozenset()
    base: str = ""
    """Class of Transformers or TRL from which the program derives it, or an empty string."""


_Resolved: TypeAlias = "_TrainingArgumentsClass | Literal['open'] | None"
"""Result of resolving a class; `open` for a class of an unread package, None for other than training arguments."""
_UNREAD_CLASS = _TrainingArgumentsClass("", dict.fromkeys(FILLING_ARGUMENTS))


def program_training_arguments(
    program: str, launch: str, flags: Mapping[str, Json], version: str | None, *, has_all_flags: bool = True
) -> ArgumentsInCode | None:
    """Return the training arguments of a program, or None if it has none.

    Args:
        program: path of the program.
        launch: file that starts the program; its repository limits which files may be read.
        flags: flags of the command by name; a value known only at run time is None.
        version: version of TRL, or None for the newest.
        has_all_flags: whether the command certainly has no further flags.
    """
    try:
        source = ProgramModules(program_modules(program, launch), version)
        return source.arguments_from_parser(flags) or source.arguments_from_constructor(
            flags if has_all_flags else None
        )
    except RecursionError:  # nesting deeper than the interpreter's stack
        return None


def training_arguments_without_command(program: str) -> ArgumentsInCode | None:
    """Return the training arguments that a program sets in code, if no command that starts it is known.

    Return None if a parser fills the arguments, because without a command no flag is known.
    """
    trl_version = consumer_version("trl", program)
    try:
        source = ProgramModules(program_modules(program, program), trl_version and trl_version[0])
        return (
            None if source.arguments_from_parser({}) is not None else source.arguments_from_constructor(None)
        )
    except RecursionError:  # nesting deeper than the interpreter's stack
        return None


def training_arguments_of_command(
    program: str,
    launch: str,
    flags: Mapping[str, Json],
    varied: frozenset[str] = frozenset(),
    file: str = "",
    *,
    has_all_flags: bool = True,
) -> ArgumentsInCode | None:
    """Return the training arguments of a program, including a command's flags and argument file.

    Args:
        program: path of the program.
        launch: file that starts the program.
        flags: flags of the command by name; a value known only at run time is None.
        varied: flags whose values depend on variables of the run.
        file: argument file as written, from `--config` or the first word after the program.
        has_all_flags: whether the command certainly has no further flags; otherwise defaults are unknown.
    """
    flag_values = {
        name: None if name in varied else parse_argument_text(value) for name, value in flags.items()
    }
    trl_version = consumer_version("trl", program)
    arguments = program_training_arguments(
        program, launch, flag_values, trl_version and trl_version[0], has_all_flags=has_all_flags
    )
    if arguments is not None and not arguments.is_code and not has_all_flags:
        return arguments._replace(defaults=dict.fromkeys(FILLING_ARGUMENTS))
    config_path = flags.get("config", file)
    if arguments is None or arguments.is_code:
        return arguments
    if config_path is None:  # the file depends on the job's shell
        return arguments._replace(defaults=dict.fromkeys(FILLING_ARGUMENTS))
    if not isinstance(config_path, str) or not config_path.endswith(_YAML_SUFFIXES):
        return arguments
    # trl scripts/utils.py, TrlParser.parse_args_and_config: values of the file become defaults of the flags.
    path = resolve_written_path(config_path, launch).path
    data = read_file(path).value() if path else None
    if not isinstance(data, dict):
        return arguments._replace(defaults=dict.fromkeys(FILLING_ARGUMENTS))
    file_values = {
        name: parse_argument_text(value) for name, value in data.items() if name in FILLING_ARGUMENTS
    }
    return arguments._replace(
        defaults=_add_trl_bf16_default({**arguments.defaults, **file_values}, {**file_values, **flag_values}),
        explicit={
            name: parse_argument_text(value) for name, value in data.items() if name in COMPARED_ARGUMENTS
        },
    )


def accumulation_steps_of_accelerator(
    program: str, launch: str, flags: Mapping[str, Json], *, has_all_flags: bool = True
) -> int | None:
    """Return the `gradient_accumulation_steps` of a program's `Accelerator(...)`, or None if unknown before the run.

    `flags`: flags of the command; a value of None is unknown before the run. The default is 1, source: accelerate
    accelerator.py:Accelerator.__init__.
    """
    flag_values = {name: parse_argument_text(value) for name, value in flags.items()}
    try:
        source = ProgramModules(program_modules(program, launch), None)
        return source.steps_of_accelerator(flag_values if has_all_flags else None)
    except RecursionError:  # nesting deeper than the interpreter's stack
        return None


def common_training_arguments(arguments: list[ArgumentsInCode]) -> ArgumentsInCode:
    """Merge the arguments of alternative programs; an argument that differs is unknown."""
    changed = frozenset().union(*(each.changed for each in arguments))
    return arguments[0]._replace(
        defaults=_values_in_common([each.defaults for each in arguments]),
        changed=changed,
        explicit=_values_in_common([each.explicit for each in arguments]),
    )


_YAML_SUFFIXES = (".yaml", ".yml", ".json")


def _has_loop_of_accelerate(parsed_modules: tuple[ParsedModule, ...]) -> bool:
    """Return whether a program has a training loop with its own `Accelerator`.

    An accelerator that only provides the rank or the device, as in many programs with a Trainer, does not count.
    """
    accelerators: set[str] = set()
    for module in parsed_modules:
        for node in module.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                is_accelerator = called_function_name(node.value) == "Accelerator"
                accelerators.update(map(ast.unparse, node.targets if is_accelerator else ()))
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("prepare", "prepare_model", "backward")
        and ast.unparse(call.func.value) in accelerators
        for _, call in calls_in_modules(parsed_modules)
    )


class ProgramModules:
    """The parsed modules of a program, used to resolve classes and imports."""

    def __init__(self, parsed_modules: tuple[ParsedModule, ...], version: str | None) -> None:
        self.modules, self.version = parsed_modules, version
        self.classes = {
            node.name: (module, node)
            for module in reversed(parsed_modules)
            for node in module.top_level_statements
            if isinstance(node, ast.ClassDef)
        }
        self.imported = {module.path: dict(_imported_names(module)) for module in parsed_modules}
        self.assigned = frozenset(_arguments_assigned_after_parsing(parsed_modules))
        self.has_loop = _has_loop_of_accelerate(parsed_modules)
        self._repository = ProgramRepository(parsed_modules[0].path if parsed_modules else "")
        self._flag_defaults = _program_flag_defaults(parsed_modules)

    # A parser of dataclasses
    # ----------------------------------------------------------------------------------------------

    def arguments_from_parser(self, flags: Mapping[str, Json]) -> ArgumentsInCode | None:
        """Return the arguments that a parser such as `HfArgumentParser` fills from flags, or None if there is none."""
        classes: list[tuple[str, _TrainingArgumentsClass]] = []
        for module, call in self._parser_calls():
            parser_classes = self._argument_classes_of_parser(argument_at(call, 0, "dataclass_types"), module)
            classes += [(module.shown_location(call), each) for each in parser_classes]
        if not classes:
            return None
        location, first = classes[0]
        defaults = _values_in_common([each.defaults for _, each in classes])
        changed = frozenset().union(*(each.changed for _, each in classes)) | self.assigned
        class_label = (
            first.name
            and f"`{first.name}`{' of TRL' if training_args.is_trl_config_class(first.name) else ''}"
        )
        why = f"{location} parses its arguments into {class_label or 'a class that dsconfig cannot read'}"
        with_precision = _add_trl_bf16_default(defaults, flags)
        return ArgumentsInCode(with_precision, changed, is_code=False, has_loop=self.has_loop, why=why)

    def parsed_argument_classes(self) -> set[str]:
        """Return the names of the classes of training arguments that a parser fills from flags."""
        return {
            each.base or each.name
            for module, call in self._parser_calls()
            for each in self._argument_classes_of_parser(argument_at(call, 0, "dataclass_types"), module)
        }

    def defaults_of_dataclass_fields(self, names: Collection[str]) -> JsonObject:
        """Return the constant defaults of the fields in `names` of the program's own dataclasses for its parser."""
        defaults: JsonObject = {}
        for module, call in self._parser_calls():
            types = self._parsed_types(argument_at(call, 0, "dataclass_types"), module)
            for name in filter(None, map(last_dotted_name, types)):
                if name not in self.classes:
                    continue
                for entry in self.classes[name][1].body:
                    if isinstance(entry, ast.AnnAssign) and last_dotted_name(entry.target) in names:
                        value = _dataclass_field_default(entry.value)
                        if value is not None:
                            _add_flag_default(defaults, last_dotted_name(entry.target), value)
        return {name: value for name, value in defaults.items() if value is not None}

    def _parser_calls(self) -> Iterator[tuple[ParsedModule, ast.Call]]:
        return (each for each in calls_in_modules(self.modules) if called_function_name(each[1]) in _PARSERS)

    def _parsed_types(self, types: ast.expr | None, module: ParsedModule) -> list[ast.expr]:
        """Return the dataclasses that a parser receives as its first argument."""
        if isinstance(types, ast.Name) and types.id not in self.classes:
            values = list(_values_assigned_to_variable(module, types.id))
            types = values[0] if len(values) == 1 else types
        return types.elts if isinstance(types, ast.Tuple | ast.List) else [types] if types else []

    def _argument_classes_of_parser(
        self, types: ast.expr | None, module: ParsedModule
    ) -> list[_TrainingArgumentsClass]:
        resolved = [self._resolve_class(node, module) for node in self._parsed_types(types, module)]
        classes = [each for each in resolved if isinstance(each, _TrainingArgumentsClass)]
        return classes or ([_UNREAD_CLASS] if "open" in resolved else [])

    # Arguments built in code
    # ----------------------------------------------------------------------------------------------

    def arguments_from_constructor(self, flags: Mapping[str, Json] | None) -> ArgumentsInCode | None:
        """Return the arguments that the program sets in code, or None; `flags` is None if the flags are unknown."""
        built = self._constructor_calls()
        if not built:
            return None
        defaults = _values_in_common([self._arguments_of_constructor_call(*each, flags) for each in built])
        changed = frozenset().union(*(built_class.changed for _, built_class, _ in built)) | self.assigned
        first, _, first_call = built[0]
        why = f"{first.shown_location(first_call)} builds the Trainer's arguments in code"
        explicit = _values_in_common(
            [
                self._keyword_argument_values(module, call, flags, COMPARED_ARGUMENTS)
                for module, _, call in built
            ]
        )
        return ArgumentsInCode(
            defaults, changed, is_code=True, has_loop=self.has_loop, why=why, explicit=explicit
        )

    def steps_of_accelerator(self, flags: Mapping[str, Json] | None) -> int | None:
        """Return the accumulation steps of all `Accelerator(...)` calls, or None if they differ or are unknown."""
        if _STEPS in self.assigned:
            return None
        steps: set[Json] = set()
        for module, call in calls_in_modules(self.modules):
            if called_function_name(call) == "Accelerator":
                value = keyword_argument(call, _STEPS)
                is_open = any(each.arg in (None, "gradient_accumulation_plugin") for each in call.keywords)
                number = 1 if value is None else self.evaluate_argument(module, value, flags)
                steps.add(number if type(number) is int and not is_open else None)
        # Without a visible call, the flag of that name is all there is.
        number = (steps or {(flags or {}).get(_STEPS)}).pop() if len(steps) < 2 else None
        return number if type(number) is int else None

    def training_argument_calls(self) -> list[tuple[ParsedModule, str, ast.Call]]:
        """Return the calls that build training arguments, each with its module and the library's class."""
        return [
            (module, built_class.base or built_class.name, call)
            for module, built_class, call in self._constructor_calls()
        ]

    def _constructor_calls(self) -> list[tuple[ParsedModule, _TrainingArgumentsClass, ast.Call]]:
        """Return the calls that build training arguments, or only those that pass `deepspeed` if there are any."""
        built: list[tuple[ParsedModule, _TrainingArgumentsClass, ast.Call]] = []
        for module, call in calls_in_modules(self.modules):
            built_class = self._resolve_class(call.func, module)
            if isinstance(built_class, _TrainingArgumentsClass):
                built.append((module, built_class, call))
        return [each for each in built if keyword_argument(each[2], "deepspeed") is not None] or built

    def _arguments_of_constructor_call(
        self,
        module: ParsedModule,
        built_class: _TrainingArgumentsClass,
        call: ast.Call,
        flags: Mapping[str, Json] | None,
    ) -> JsonObject:
        values: JsonObject = dict(built_class.defaults)
        if any(each.arg is None for each in call.keywords):
            values.update(dict.fromkeys(FILLING_ARGUMENTS))
        known_values = self._keyword_argument_values(module, call, flags, FILLING_ARGUMENTS)
        if "bf16" not in known_values:
            return {**_add_trl_bf16_default(values, known_values), **known_values}
        return {**values, **known_values}

    def _keyword_argument_values(
        self, module: ParsedModule, call: ast.Call, flags: Mapping[str, Json] | None, names: Collection[str]
    ) -> JsonObject:
        """Return the values of the keyword arguments in `names`; None marks a value known only at run time."""
        return {
            each.arg: self.evaluate_argument(module, each.value, flags)
            for each in call.keywords
            if each.arg is not None and each.arg in names
        }

    def evaluate_argument(
        self, module: ParsedModule, node: ast.expr, flags: Mapping[str, Json] | None
    ) -> Json:
        """Return an argument's constant or flag value, or None if it is known only at run time."""
        value = ConstantEvaluator(module, self._repository).evaluate_constant(node)
        if value is not UNKNOWN:
            return value
        if isinstance(node, ast.Name):
            bindings = module.names.bindings_of_name(node)
            if len(bindings) == 1 and bindings[0].kind == "value":  # `rate = args.rate`
                node = bindings[0].value if bindings[0].value is not None and not bindings[0].steps else node
                if isinstance(node, ast.Name):
                    return None
            elif any(each.kind != "parameter" for each in bindings):
                return None
        name = last_dotted_name(node)
        if flags is None or not name:
            return None
        return flags[name] if name in flags else self._flag_defaults.get(name)

    # Classes
    # ----------------------------------------------------------------------------------------------

    def _resolve_class(
        self, node: ast.expr, module: ParsedModule, depth: int = 0, defined_class: str = ""
    ) -> _Resolved:
        """Resolve an expression to the class that it names.

        `defined_class` is the name of the class being defined, whose base may have the same name.
        """
        name, package = last_dotted_name(node), ""
        if not name or depth > _MAX_DEPTH:
            return "open" if depth > _MAX_DEPTH else None
        if isinstance(node, ast.Attribute):
            package = last_dotted_name(node.value)
            package, _ = self.imported[module.path].get(package, (package, ""))
        elif name in self.imported[module.path] and not _defines_class(module, name, defined_class):
            package, name = self.imported[module.path][name]
        if (
            package.partition(".")[0] not in ("transformers", "trl")
            and name in self.classes
            and name != defined_class
        ):
            class_module, defined = self.classes[name]
            return self._resolve_class_in_module(class_module, defined, depth)
        if name in _TRANSFORMERS_CLASSES:
            return _TrainingArgumentsClass(name, {})
        if training_args.is_trl_config_class(name):
            return _TrainingArgumentsClass(name, training_args.trl_defaults(name, self.version))
        is_library = package.partition(".")[0] in ("transformers", "trl")
        return None if is_library or "TrainingArg" not in name else "open"

    def _resolve_class_in_module(self, module: ParsedModule, node: ast.ClassDef, depth: int) -> _Resolved:
        bases = [self._resolve_class(base, module, depth + 1, node.name) for base in node.bases]
        base = next((each for each in bases if isinstance(each, _TrainingArgumentsClass)), None)
        if base is None:
            return "open" if "open" in bases else None
        defaults, changed = dict(base.defaults), set(base.changed)
        for entry in node.body:
            if isinstance(entry, ast.AnnAssign) and last_dotted_name(entry.target) in FILLING_ARGUMENTS:
                defaults[last_dotted_name(entry.target)] = _dataclass_field_default(entry.value)
            elif isinstance(entry, ast.Assign):
                for target in entry.targets:
                    if last_dotted_name(target) in FILLING_ARGUMENTS:
                        defaults[last_dotted_name(target)] = _dataclass_field_default(entry.value)
            elif isinstance(entry, ast.FunctionDef):
                changed.update(_attributes_set_on_self(entry))
        return _TrainingArgumentsClass(node.name, defaults, frozenset(changed), base=base.base or base.name)


def _imported_names(module: ParsedModule) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the imported names of a module, each with its package and its original name."""
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, ("." * node.level + (node.module or ""), alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name, (alias.name, "")


def _defines_class(module: ParsedModule, name: str, defined_class: str) -> bool:
    if name == defined_class:
        return False
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in module.top_level_statements)


def _arguments_assigned_after_parsing(program: tuple[ParsedModule, ...]) -> Iterator[str]:
    """Yield the arguments that a program assigns after parsing: `training_args.learning_rate = ...`."""
    for module in program:
        for node in module.nodes:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AugAssign | ast.AnnAssign):
                targets = [node.target]
            for target in targets:
                # `self.learning_rate` is an attribute of a model or loop; any other object may be the arguments.
                if isinstance(target, ast.Attribute) and last_dotted_name(target.value) != "self":
                    yield from {target.attr} & _ASSIGNABLE


def _values_assigned_to_variable(module: ParsedModule, name: str) -> Iterator[ast.expr]:
    """Yield every value that a module assigns to a variable."""
    for node in module.nodes:
        if isinstance(node, ast.Assign) and any(last_dotted_name(target) == name for target in node.targets):
            yield node.value


def _attributes_set_on_self(method: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(method):
        targets = node.targets if isinstance(node, ast.Assign) else ()
        for target in targets:
            if (
                isinstance(target, ast.Attribute)
                and last_dotted_name(target.value) == "self"
                and target.attr in FILLING_ARGUMENTS
            ):
                yield target.attr


def _dataclass_field_default(value: ast.expr | None) -> Json:
    """Return the default of a dataclass field, given as a constant or `field(default=...)`; None for any other."""
    if isinstance(value, ast.Call) and called_function_name(value) == "field":
        value = keyword_argument(value, "default")
    return literal_value(value)


def _values_in_common(mappings: list[Mapping[str, Json]]) -> JsonObject:
    """Merge mappings: keep all keys, and replace values that differ by None, which means unknown."""
    names = dict.fromkeys(name for each in mappings for name in each)
    values: JsonObject = {}
    for name in names:
        first = mappings[0].get(name, _ABSENT)
        is_common = all(name in each and each[name] == first for each in mappings)
        values[name] = first if is_common else None
    return values


_ABSENT = object()


def _add_trl_bf16_default(defaults: Mapping[str, Json], explicit: Mapping[str, Json]) -> JsonObject:
    """Add TRL's default for `bf16`, which is true unless `fp16` is set.

    Source: trl trainer/base_config.py:_BaseConfig.__post_init__.
    """
    values = dict(defaults)
    if values.get("bf16") is True and "fp16" in (*explicit, *values):
        fp16 = explicit["fp16"] if "fp16" in explicit else values["fp16"]
        fp16 = _BOOLEANS.get(str(fp16).lower(), fp16)
        values["bf16"] = not fp16 if isinstance(fp16, bool) else None
    return values


_BOOLEANS = {"true": True, "false": False}


def _program_flag_defaults(program: tuple[ParsedModule, ...]) -> JsonObject:
    """Return the defaults of a program's own flags, from its argparse calls or function parameters.

    Fire, Typer and click build flags from function parameters.
    """
    defaults: JsonObject = {}
    for _, call in calls_in_modules(program):
        if called_function_name(call) in ("add_argument", "add_parser_argument"):
            words = [each for arg in call.args if isinstance(each := literal_value(arg), str)]
            name = keyword_argument(call, "dest")
            long = next((word for word in words if word.startswith("--")), "")
            dest = literal_value(name) if name is not None else long.lstrip("-").replace("-", "_")
            action = literal_value(keyword_argument(call, "action"))
            default = {"store_true": False, "store_false": True}.get(str(action))
            value = keyword_argument(call, "default")
            if isinstance(dest, str) and dest:
                _add_flag_default(defaults, dest, default if value is None else literal_value(value))
    for module in program:
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args]
                with_default = arguments[len(arguments) - len(node.args.defaults) :]
                for argument, value in zip(with_default, node.args.defaults, strict=True):
                    _add_flag_default(defaults, argument.arg, literal_value(value))
    return defaults


def _add_flag_default(defaults: JsonObject, name: str, value: Json) -> None:
    defaults[name] = None if name in defaults and defaults[name] != value else value
