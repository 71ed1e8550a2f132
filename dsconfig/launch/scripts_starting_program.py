"""Find the scripts that start a Python program, and the training arguments that they pass."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from dsconfig.core.file_access import read_contents, relative_path
from dsconfig.core.json_types import JsonObject, NamedTuple
from dsconfig.document.config_file_names import NOTEBOOK, is_notebook_name
from dsconfig.document.notebook import shell_of_notebook
from dsconfig.job.detect_consumer import ConsumerEvidence, LaunchArguments
from dsconfig.launch.launch_commands import LaunchCommand, find_program_commands, names_other_config
from dsconfig.launch.launch_file_formats import SCRIPT, SCRIPTS
from dsconfig.launch.python.constant_expressions import ConstantEvaluator
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import ProgramRepository, keyword_argument, parse_module
from dsconfig.launch.repository_files import (
    BudgetExceededError,
    files_of_repository,
    repository_cache_key,
    resolve_written_path,
)
from dsconfig.launch.shell.interpreter import ShellInterpreter
from dsconfig.launch.single_process import count_single_process
from dsconfig.launch.training_arguments import read_launch_file_arguments
from dsconfig.launch.training_arguments_in_code import (
    FILLING_ARGUMENTS,
    ArgumentsInCode,
    common_training_arguments,
    training_arguments_of_command,
    training_arguments_without_command,
)

_MAX_FILE = 256 * 1024


def ray_workers(program: str) -> int | None:
    """Return the number of workers in a program's only `ScalingConfig`, or None if unknown.

    Source: ray.air.config.ScalingConfig, whose workers are the ranks of a `TorchTrainer`.
    """
    try:
        data = read_contents(program, _MAX_FILE)
    except OSError:
        return None
    module = parse_module(program, data) if b"ScalingConfig" in data else None
    if module is None:
        return None
    names = module.names
    calls = [each for each in names.calls if last_dotted_name(each.func) == "ScalingConfig"]
    if len(calls) != 1 or any(name == "num_workers" for name in names.fields):
        return None
    (call,) = calls
    value = keyword_argument(call, "num_workers") or next(
        iter(call.args[1:2]), None
    )  # `trainer_resources` is the first field
    if not isinstance(value, ast.expr) or any(each.arg is None for each in call.keywords):
        return None
    workers = ConstantEvaluator(module, ProgramRepository(program)).evaluate_constant(value)
    return workers if type(workers) is int and workers > 0 else None


# A config in a Python source, or one that a Python source names, has no flag in a command. The scripts that start the
# program still give the number of ranks and the values of its own flags.

_MAX_COMMANDS = 50
"""Maximum number of commands in a script that are read."""


class ProgramLaunch(NamedTuple):
    """A command that starts a program."""

    script: str
    line: int
    command: LaunchCommand

    @property
    def shown_location(self) -> str:
        """Location of the command, formatted for messages: `run.sh:12`."""
        path = relative_path(self.script)
        return path if is_notebook_name(path) else f"{path}:{self.line}"


def find_program_launches(program: str) -> tuple[ProgramLaunch, ...]:
    """Return the commands in the repository's scripts that start a program."""
    path = os.path.abspath(program)
    return _cached_program_launches(path, repository_cache_key(path))


@lru_cache(maxsize=32)
def _cached_program_launches(path: str, _: tuple[int, ...]) -> tuple[ProgramLaunch, ...]:
    stem = os.fsencode(os.path.basename(path).removesuffix(".py"))
    return tuple(
        launch
        for script, data in files_of_repository(path, (*SCRIPTS, NOTEBOOK))
        if stem in data
        for launch in _program_launches_in_script(
            script, data.decode("utf-8", "replace"), os.path.realpath(path)
        )
    )


def _program_launches_in_script(script: str, text: str, program: str) -> Iterator[ProgramLaunch]:
    text = shell_of_notebook(text) if is_notebook_name(script) else text
    try:
        for command in islice(find_program_commands(ShellInterpreter(text, script, {})), _MAX_COMMANDS):
            path = resolve_written_path(command.program_file, script, command.folder).path
            if path is not None and os.path.realpath(path) == program:
                counted = count_single_process(command, script, text)
                yield ProgramLaunch(script, text.count("\n", 0, command.offset) + 1, counted)
    except BudgetExceededError:  # such a script counts as unread
        return


def add_program_launch_facts(
    reader: ConsumerEvidence, program: str, config: str, launch: str | None = None
) -> ConsumerEvidence:
    """Add the world size and training arguments of the program that names a config to the config's consumer.

    Facts in which several commands differ are unknown. Without a command, the flags of the program are unknown.
    `launch`: the only script whose commands count, or None to use all.
    """
    if program.startswith("<") or not program or reader.training_arguments is not None:
        return reader
    launches = tuple(
        each
        for each in find_program_launches(program)
        if not names_other_config(each.command, config)
        and (launch is None or os.path.realpath(each.script) == os.path.realpath(launch))
    )
    if not launches and find_program_launches(program):
        return reader  # the program names this config only as a default
    sizes = {each.command.world_size for each in launches}
    ranks = sizes.pop() if len(sizes) == 1 else None
    why = reader.why
    if sizes <= {None} and ranks is None and (workers := ray_workers(program)) is not None:
        ranks, why = workers, f"{why}; Ray starts {workers} workers"
    label = ", ".join(each.shown_location for each in launches[:2]) + (
        " and others" if len(launches) > 2 else ""
    )
    if launches:
        verb = "starts" if len(launches) == 1 else "start"
        why = f"{why}; {label} {verb} it" + (f" on {ranks} ranks" if ranks else "")
    reader = reader._replace(why=why, processes=reader.processes or ranks, launch=reader.launch or label)
    if reader.name != "transformers":
        return reader
    return reader._replace(training_arguments=_training_arguments_of_launches(program, launches))


def _training_arguments_of_launches(
    program: str, launches: tuple[ProgramLaunch, ...]
) -> LaunchArguments | None:
    """Return the training arguments that all launches of a program share, or None if unknown."""
    read: list[tuple[ArgumentsInCode, JsonObject]] = []
    for each in launches:
        command = each.command
        arguments = training_arguments_of_command(
            program,
            each.script,
            command.arguments,
            command.varying_flags,
            command.argument_file,
            has_all_flags=not command.may_have_more_flags,
        )
        if arguments is None:
            return None
        read.append((arguments, {} if arguments.is_code else command.arguments))
    if not read:
        built = training_arguments_without_command(program)
        return None if built is None else _launch_arguments(built, {})
    combined = common_training_arguments([arguments for arguments, _ in read])
    names = {name for _, flags in read for name in flags if name in FILLING_ARGUMENTS}
    flags: JsonObject = {}
    for name in names:
        values = [flags_of_command.get(name) for _, flags_of_command in read]
        flags[name] = values[0] if all(value == values[0] for value in values) else None
    return _launch_arguments(combined, flags)


def _launch_arguments(arguments: ArgumentsInCode, flags: JsonObject) -> LaunchArguments:
    argument_format = SCRIPT._replace(arguments_key="", defaults=arguments.defaults, reader="transformers")
    read = read_launch_file_arguments(argument_format, {**flags, **dict.fromkeys(arguments.changed)})
    explicit = {} if arguments.is_code else read.explicit
    explicit = {**arguments.explicit, **explicit, **dict.fromkeys(arguments.changed)}
    return read._replace(note=arguments.origin_note, explicit=explicit, are_in_code=arguments.is_code)
