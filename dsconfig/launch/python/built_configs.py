"""Find the config dicts that a program builds for one command, using the values of the command's flags."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.launch.python.argparse_values import flag_values_of_commands
from dsconfig.launch.python.command_values import CommandValues
from dsconfig.launch.python.config_receivers import consumer_of_argument
from dsconfig.launch.python.data_flow import DataFlow
from dsconfig.launch.python.expression_evaluator import CommandFacts
from dsconfig.launch.python.interpreted_values import Container, ValueOrigin, to_json
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import ParsedModule, ProgramRepository, program_modules
from dsconfig.launch.repository_files import ReadingBudget, time_cache_key

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.launch.launch_commands import LaunchCommand

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
        """Return the data flow of a value, which is everything that the program may do with it."""
        if origin not in self._flows:
            flow = DataFlow(self.repository, lambda *call: consumer_of_argument(self.repository, *call))
            self._flows[origin] = flow.follow_values(origin.module, origin.node)
        return self._flows[origin]


@lru_cache(maxsize=16)
def _read_program(path: str, _: int) -> _Program:
    return _Program(path)


def configs_built_by_program(path: str, command: LaunchCommand) -> tuple[BuiltConfig, ...]:
    """Return the configs that a program builds as dicts when a command starts it."""
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
    """Evaluate the configs that a program builds from the flags of one command."""

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
