"""Find the scripts that start a Python program, and the training arguments that they pass."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from dsconfig.core.file_access import relative_path
from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.document.config_file_names import NOTEBOOK, SCRIPTS, is_notebook_name
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.document.notebook import shell_of_notebook
from dsconfig.job.detect_consumer import ConsumerEvidence, LaunchArguments
from dsconfig.launch.launch_commands import (
    LaunchCommand,
    count_single_process,
    find_program_commands,
    names_other_config,
)
from dsconfig.launch.launch_file_formats import SCRIPT
from dsconfig.launch.python.constant_expressions import ConstantEvaluator
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import (
    ParsedModule,
    ProgramRepository,
    argument_at,
    parse_module,
    read_program_bytes,
)
from dsconfig.launch.repository_files import (
    BudgetExceededError,
    files_of_repository,
    repository_cache_key,
    resolve_written_path,
)
from dsconfig.launch.shell.interpreter import ShellInterpreter
from dsconfig.launch.training_arguments import read_launch_file_arguments
from dsconfig.launch.training_arguments_in_code import (
    FILLING_ARGUMENTS,
    ArgumentsInCode,
    common_training_arguments,
    training_arguments_of_command,
    training_arguments_without_command,
)


def processes_started_by_program(program: str) -> int | None:
    """Return the number of ranks that a program or notebook sets or starts itself, or None if unknown.

    Sources: ray.air.config.ScalingConfig, whose workers are the ranks of a `TorchTrainer`; accelerate
    launchers.py:notebook_launcher; `os.environ["WORLD_SIZE"]`, which torch's `env://` reads.
    """
    try:
        data = read_program_bytes(program)
    except OSError:
        return None
    module = parse_module(program, data) if any(word in data for word in _STARTS_RANKS) else None
    if module is None or any(name == "num_workers" for name in module.names.fields):
        return None
    counts = list(_counts_of_ranks(module, ConstantEvaluator(module, ProgramRepository(program))))
    ranks = counts[0] if counts and all(count == counts[0] for count in counts) else None
    return ranks if type(ranks) is int and ranks > 0 else None


_STARTS_RANKS = (b"ScalingConfig", b"notebook_launcher", b"WORLD_SIZE")


def _counts_of_ranks(module: ParsedModule, constants: ConstantEvaluator) -> Iterator[Json]:
    """Yield each number of ranks that a module sets; `UNKNOWN` for a number known only at run time."""
    for call in module.names.calls:
        name = last_dotted_name(call.func)
        if name not in ("ScalingConfig", "notebook_launcher"):
            continue
        # The first fields are `trainer_resources` of one, `function` and `args` of the other.
        keyword, position = ("num_workers", 1) if name == "ScalingConfig" else ("num_processes", 2)
        value = argument_at(call, position, keyword)
        is_open = any(each.arg in (None, "num_nodes") for each in call.keywords)
        yield UNKNOWN if value is None or is_open else constants.evaluate_constant(value)
    for node in module.nodes:
        if isinstance(node, ast.Assign) and any(_is_world_size(target) for target in node.targets):
            value = constants.evaluate_constant(node.value)
            # Below a condition the value may be the default for a program without a launcher.
            is_certain = isinstance(module.names.parents.get(node), ast.Module)
            is_number = isinstance(value, str) and value.isdecimal()
            yield int(value) if is_certain and is_number else UNKNOWN


def _is_world_size(target: ast.expr) -> bool:
    """Return whether an assignment target is `os.environ["WORLD_SIZE"]`."""
    return (
        isinstance(target, ast.Subscript)
        and last_dotted_name(target.value) == "environ"
        and isinstance(target.slice, ast.Constant)
        and target.slice.value == "WORLD_SIZE"
    )


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
    """Add to a config's consumer the world size and training arguments of the program that names the config.

    Facts that differ between commands are unknown, as are the program's flags if no command is known. `launch` is the
    only script whose commands to use, or None for all.
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
    if sizes <= {None} and ranks is None and (started := processes_started_by_program(program)) is not None:
        ranks, why = started, f"{why}; the program starts {started} rank{'s' * (started > 1)}"
    label = ", ".join(each.shown_location for each in launches[:2]) + (
        " and others" if len(launches) > 2 else ""
    )
    if launches:
        verb = "starts" if len(launches) == 1 else "start"
        why = f"{why}; {label} {verb} it" + (f" on {ranks} rank{'s' * (ranks > 1)}" if ranks else "")
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
