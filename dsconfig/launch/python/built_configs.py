"""Configs that a program builds for one command: dicts that depend on functions and on the command's flags."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.launch.python.argparse_values import flag_values_of_commands
from dsconfig.launch.python.calls_receiving_dict import consumer_of_argument
from dsconfig.launch.python.constant_expressions import ConstantEvaluator
from dsconfig.launch.python.data_flow import DataFlow, DictWrite
from dsconfig.launch.python.expression_evaluator import CommandFacts, OuterValues
from dsconfig.launch.python.function_interpreter import UNREACHED, FunctionInterpreter
from dsconfig.launch.python.interpreted_values import COMMAND_ARGUMENTS, Container, ValueOrigin, to_json
from dsconfig.launch.python.name_bindings import ANY, last_dotted_name
from dsconfig.launch.python.syntax_trees import ParsedModule, ProgramRepository, program_modules
from dsconfig.launch.repository_files import BudgetExceededError, ReadingBudget, time_cache_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.launch.launch_commands import LaunchCommand
    from dsconfig.launch.python.name_bindings import Function, NameBinding
    from dsconfig.launch.python.syntax_trees import ParsedModule, ProgramRepository


# Values of expressions in a program started by one command, found by interpreting the functions around them.

_ARGUMENT_NAMES = re.compile(r"(?:\w+_)?args|opts?|flags")
"""Names that programs commonly give to the result of an argument parser, or to parameters that hold that result."""
_MAX_DEPTH = 6
"""Maximum number of further functions that are interpreted to find the value of a variable."""


class CommandValues(OuterValues):
    """Values of expressions in a program that a command starts; `modules` are the program and its imports."""

    def __init__(
        self,
        modules: tuple[ParsedModule, ...],
        repository: ProgramRepository,
        facts: CommandFacts,
        flow_of: Callable[[ValueOrigin], DataFlow],
    ) -> None:
        self._modules, self._repository, self._facts, self._flow_of = modules, repository, facts, flow_of
        self._known: dict[ast.expr, object] = {}
        self._depth = 0

    def value_of(self, module: ParsedModule, node: ast.expr) -> object:
        """Return the value that an expression has when the program reaches it."""
        value = self._value_or_unreached(module, node)
        return UNKNOWN if value is UNREACHED else value

    def _value_or_unreached(self, module: ParsedModule, node: ast.expr) -> object:
        """Return the value of an expression, or `UNREACHED` if its function never evaluates it."""
        if node in self._known:
            return self._known[node]
        self._known[node] = UNKNOWN  # a value that depends on itself
        if self._depth > _MAX_DEPTH:
            return UNKNOWN
        self._depth += 1
        interpreter = FunctionInterpreter(self._repository, self._facts, self, node)
        scope = module.names.enclosing_function(node) or module.names.tree
        try:
            value = interpreter.value_in_scope(module, scope)
        except (BudgetExceededError, RecursionError):
            value = UNKNOWN
        finally:
            self._depth -= 1
        if isinstance(value, Container) and value.kind == "dict":
            for origin in value.origins:
                for write in self._flow_of(origin).writes:
                    if write.node not in interpreter.visited:
                        _apply_unknown_write(value, write)
        self._known[node] = value
        return value

    def value_of_parameter(self, module: ParsedModule, function: Function, name: str) -> object:
        """Return the value of a function's parameter, given the only call of the function."""
        if _ARGUMENT_NAMES.fullmatch(name):
            return COMMAND_ARGUMENTS
        call = self._only_call(module, function)
        if call is None or isinstance(function, ast.Lambda):
            return UNKNOWN
        caller, node = call
        is_open = any(isinstance(each, ast.Starred) for each in node.args) or any(
            each.arg is None for each in node.keywords
        )
        if is_open:
            return UNKNOWN
        parameters = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        is_method = module.names.class_of_method(function) is not None
        positional = dict(zip(parameters[is_method:], node.args, strict=False))
        keywords = {each.arg: each.value for each in node.keywords}
        if argument := keywords.get(name) or positional.get(name):
            return self.value_of(caller, argument)
        default = next((each.value for each in module.names.bindings[function, name]), None)
        return (
            UNKNOWN
            if default is None
            else ConstantEvaluator(module, self._repository).evaluate_constant(default)
        )

    def value_of_global(self, module: ParsedModule, name: ast.Name) -> object:
        """Return the value of a global variable that is set by exactly one statement of the program."""
        names = module.names
        bindings = names.bindings_of_name(name)
        if _ARGUMENT_NAMES.fullmatch(name.id) and all(map(_is_parser_result, bindings)):
            return COMMAND_ARGUMENTS
        constants = ConstantEvaluator(module, self._repository)
        value = constants.only_binding_of(name)
        if value is None:
            return self._value_of_import(module, bindings)
        return self.value_of(module, value)

    def value_of_assigned_argument(self, name: str) -> object:
        """Return the value that the program assigns to an argument, if all assignments that run agree."""
        assigned = [
            (module, each)
            for module in self._modules
            for each in module.names.fields.get(name, ())
            if isinstance(each.node, ast.Attribute)
            and _ARGUMENT_NAMES.fullmatch(last_dotted_name(each.node.value))
        ]
        if not assigned or any(each.value is None or each.steps for _, each in assigned):
            return UNKNOWN
        values = [self._value_or_unreached(module, each.value) for module, each in assigned if each.value]
        reached = [each for each in values if each is not UNREACHED]
        is_same = all(type(each) is type(reached[0]) and each == reached[0] for each in reached)
        return reached[0] if reached and is_same else UNKNOWN

    def value_of_field(self, module: ParsedModule, access: ast.Attribute) -> object:
        """Return the value of an attribute that is set by exactly one statement of the module."""
        if _ARGUMENT_NAMES.fullmatch(access.attr):
            return COMMAND_ARGUMENTS
        bindings = module.names.fields.get(access.attr, ())
        if (
            len(bindings) != 1
            or bindings[0].kind != "value"
            or bindings[0].steps
            or bindings[0].value is None
        ):
            return UNKNOWN
        return self.value_of(module, bindings[0].value)

    def _value_of_import(self, module: ParsedModule, bindings: list[NameBinding]) -> object:
        """Return the value of a constant that another module of the repository defines."""
        source = self._repository.find_imported_name(module, bindings[0]) if len(bindings) == 1 else None
        if source is None:
            return UNKNOWN
        defining, binding = source
        return UNKNOWN if binding.value is None or binding.steps else self.value_of(defining, binding.value)

    def _only_call(self, module: ParsedModule, function: Function) -> tuple[ParsedModule, ast.Call] | None:
        """Return the only call of a function in the program, or None if there are several calls or none."""
        if isinstance(function, ast.Lambda):
            return None
        names, paths = module.names, {each.path for each in self._modules}
        owner = names.class_of_method(function)
        uses: list[tuple[ParsedModule, ast.expr]] = []
        if owner is not None and function.name != "__init__":
            uses += [(module, each) for each in names.attributes.get(function.name, ())]
            uses += self._repository.accesses_to_attribute(module, function.name)
        else:
            name = function.name if owner is None else owner.name
            scope = names.scope_of_node(function if owner is None else owner)
            uses += [(module, each) for each in names.loads.get((scope, name), ())]
            uses += self._repository.reads_of_global_name(module, name)
        calls = [
            (user, parent)
            for user, each in uses
            if user.path in paths
            and isinstance(parent := user.names.parents.get(each), ast.Call)
            and parent.func is each
        ]
        return calls[0] if len(calls) == 1 else None


def _is_parser_result(binding: NameBinding) -> bool:
    return isinstance(binding.value, ast.Call) and "arg" in last_dotted_name(binding.value.func)


def _apply_unknown_write(config: Container, write: DictWrite) -> None:
    """Mark a path of a config as unknown, because code elsewhere in the program writes to it."""
    container, path = config, write.path
    for key in path[:-1]:
        inner = container.entries.get(key)
        if not isinstance(inner, Container):
            if inner is not None or not write.absent_only:
                container.entries[key] = UNKNOWN
            return
        container = inner
    if path[-1] == ANY:
        container.forget_values()
    elif not (write.absent_only and container.entries.get(path[-1], UNKNOWN) is not UNKNOWN):
        container.entries[path[-1]] = UNKNOWN


# Calls that receive a config.

_PREPARATIONS = frozenset(("HfDeepSpeedConfig", "HfTrainerDeepSpeedConfig", "Init", "DeepSpeedConfig"))
"""Calls that receive a config in addition to the call that trains with the config."""
_CONSUMERS = ("deepspeed", "transformers", "accelerate")
_SAMPLE_RANKS = (2, 3, 8)
"""Numbers of ranks for which a config is computed, to see how its batch depends on the number of ranks."""
_MAX_STEPS = 40_000
"""Maximum number of expressions and statements that are interpreted for one command and one number of ranks."""


class BuiltConfig(NamedTuple):
    """A config that a program builds as a dict."""

    value: JsonObject | None
    """The config, with `UNKNOWN` for values known only at run time; None if the whole config is unknown."""
    consumer: str
    location: str
    """Location of the call that receives the config: `main.py:12`."""
    literal: ValueOrigin | None
    """Dict in the source that the config starts from, or None if there are several."""


class _ConfigReceiver(NamedTuple):
    module: ParsedModule
    call: ast.Call
    argument: ast.expr
    consumer: str


class _Program:
    """The modules of a program, the calls that receive a config, and a cache of data flows."""

    def __init__(self, path: str) -> None:
        self.modules = program_modules(path, path)
        self.repository = ProgramRepository(path)
        self.receivers = tuple(self._find_receivers())
        self._flows: dict[ValueOrigin, DataFlow] = {}
        self.configs: dict[str, tuple[BuiltConfig, ...]] = {}
        """Configs for the commands that were read before, by their flags and world size."""

    def _find_receivers(self) -> Iterator[_ConfigReceiver]:
        for module in self.modules:
            for call in module.names.calls:
                if last_dotted_name(call.func) in _PREPARATIONS:
                    continue
                for each in call.keywords:
                    consumer = consumer_of_argument(self.repository, module, call, each.arg or "")
                    if consumer in _CONSUMERS and not isinstance(each.value, ast.Constant):
                        yield _ConfigReceiver(module, call, each.value, consumer)

    def flow_of(self, origin: ValueOrigin) -> DataFlow:
        """Return the data flow of a value: all that the program may do with it."""
        if origin not in self._flows:
            flow = DataFlow(self.repository, lambda *call: consumer_of_argument(self.repository, *call))
            self._flows[origin] = flow.follow_values(origin.module, origin.node)
        return self._flows[origin]


@lru_cache(maxsize=16)
def _read_program(path: str, _: int) -> _Program:
    return _Program(path)


def configs_built_by_program(path: str, command: LaunchCommand) -> tuple[BuiltConfig, ...]:
    """Return the configs that a program, started by a command, builds as dicts."""
    program = _read_program(os.path.abspath(path), time_cache_key())
    if not program.receivers:
        return ()
    flags = flag_values_of_commands(program.modules, [command])
    key = repr((flags, command.world_size))
    if key not in program.configs:
        reader = _ConfigReader(program, flags, command.world_size)
        configs = (reader.read_config(each) for each in program.receivers)
        program.configs[key] = tuple(each for each in configs if each is not None)
    return program.configs[key]


class _ConfigReader:
    """Evaluates the configs that a program builds from the flags of one command."""

    def __init__(self, program: _Program, flags: dict[str, Json], ranks: int | None) -> None:
        self._program, self._flags, self._ranks = program, flags, ranks
        self._values: dict[int | None, CommandValues] = {}

    def read_config(self, receiver: _ConfigReceiver) -> BuiltConfig | None:
        """Return the config that a call receives, or None if the argument is not a dict."""
        value = self._value_for_ranks(receiver, self._ranks)
        if not isinstance(value, Container) or value.kind != "dict":
            return None
        config = to_json(value)
        if isinstance(config, dict) and self._ranks is None:
            config = self._with_batch_for_any_ranks(receiver, config)
        location = receiver.module.shown_location(receiver.call)
        return BuiltConfig(
            config if isinstance(config, dict) else None, receiver.consumer, location, value.literal
        )

    def _value_for_ranks(self, receiver: _ConfigReceiver, ranks: int | None) -> object:
        if ranks not in self._values:
            facts = CommandFacts(self._flags, ranks, ReadingBudget(_MAX_STEPS))
            program = self._program
            self._values[ranks] = CommandValues(program.modules, program.repository, facts, program.flow_of)
        return self._values[ranks].value_of(receiver.module, receiver.argument)

    def _with_batch_for_any_ranks(self, receiver: _ConfigReceiver, config: JsonObject) -> JsonObject:
        """Drop the batch size if the program derives it from the number of ranks just as DeepSpeed would.

        Source: deepspeed runtime/config.py:DeepSpeedConfig._set_batch_related_parameters.
        """
        micro = config.get(MICRO)
        if config.get(TRAIN) is not UNKNOWN or not _is_count(micro):
            return config
        steps: set[Json] = set()
        for ranks in _SAMPLE_RANKS:
            value = to_json(self._value_for_ranks(receiver, ranks))
            total = value.get(TRAIN) if isinstance(value, dict) else None
            if not _is_count(total) or total % (micro * ranks):
                return config
            steps.add(total // (micro * ranks))
        if len(steps) > 1 or config.get(STEPS, *steps) not in steps:
            return config
        rest = {key: value for key, value in config.items() if key != TRAIN}
        return {**rest, STEPS: steps.pop()}


def _is_count(value: Json) -> TypeGuard[int]:
    return type(value) is int and value > 0
