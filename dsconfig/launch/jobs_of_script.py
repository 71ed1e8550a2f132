"""Find the jobs that a shell script, or a manifest with commands, starts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import islice
from typing import TypeAlias

from dsconfig.core.file_access import MAX_SIZE, read_contents
from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.document import Document, read_bytes, read_dict, read_file
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.job.consumers.accelerate_launch_file import BLOCK, BLOCK_KEYS, is_launch_file
from dsconfig.job.consumers.consumer import BY_NAME
from dsconfig.job.detect_consumer import (
    DEEPSPEED_CONFIG_FLAGS,
    ConsumerEvidence,
    consumer_suggested_by_content,
)
from dsconfig.launch.config_loaded_by_program import config_consumers_of_command
from dsconfig.launch.config_references import find_consumer_in_repository, loop_consumer
from dsconfig.launch.config_source import parse_passed_config, read_config_at_path
from dsconfig.launch.embedded_text_offsets import read_with_variables
from dsconfig.launch.framework_configs import build_openrlhf_config
from dsconfig.launch.framework_presets import PRESET, framework_preset
from dsconfig.launch.hydra_jobs import jobs_composed_by_hydra
from dsconfig.launch.jobs_of_program import jobs_with_built_configs, jobs_with_named_configs
from dsconfig.launch.launch_commands import (
    ArgumentsForRanks,
    LaunchCommand,
    ScriptWithVariables,
    count_single_process,
    find_launch_commands,
    hashable_script_state,
)
from dsconfig.launch.launch_file_formats import (
    SCRIPT,
    LaunchFileFormat,
    commands_in_file,
    detect_launch_format,
    world_size_of,
)
from dsconfig.launch.launched_job import PROGRAM, LaunchedJob, decode_config_argument
from dsconfig.launch.manifest_commands import (
    commands_of_section,
    expand_azure_inputs,
    extract_shell_commands,
    manifest_environment_variables,
)
from dsconfig.launch.repository_files import (
    BudgetExceededError,
    ReadingBudget,
    budget_for_text,
    find_installed_preset,
    resolve_written_path,
    time_cache_key,
)
from dsconfig.launch.shell.interpreter import ShellInterpreter
from dsconfig.launch.steps_of_accelerator import use_steps_of_accelerator
from dsconfig.launch.tasks_without_ranks import use_tasks_as_ranks
from dsconfig.launch.training_arguments import parse_argument_text, read_launch_file_arguments
from dsconfig.launch.training_arguments_in_code import FILLING_ARGUMENTS, training_arguments_of_command
from dsconfig.launch.typical_config_keys import are_config_keys

_MAX_COMMANDS = 200
"""Maximum number of commands in a script that become jobs."""
_UNEXPANDED = re.compile(r"\$[\w({]|`")


FollowFile: TypeAlias = Callable[[Document], "LaunchedJob | None"]
"""Function that returns the job of a launch file, such as `find_jobs.job_of_launch_file`."""


def first_job_of_commands(
    launch_format: LaunchFileFormat, launch: Document, data: Mapping[str, Json] | None, follow: FollowFile
) -> LaunchedJob | None:
    """Return the job of the first command whose config exists, or else of the first that names a config."""
    first: LaunchedJob | None = None
    for job in jobs_of_commands(launch_format, launch, data, follow=follow):
        if job.document is not None:
            return job
        first = first or job
    return first


def jobs_of_commands(
    launch_format: LaunchFileFormat,
    launch: Document,
    data: Mapping[str, Json] | None,
    config_path: str | None = None,
    budget: ReadingBudget | None = None,
    follow: FollowFile = lambda _: None,
) -> Iterator[LaunchedJob]:
    """Yield the job of each command; yield nothing if reading the commands exceeds the budget.

    `data` is the manifest that contains the commands, or None for a script. `config_path` is the real path of the only
    config whose jobs are needed. `budget` is the budget of the directory. `follow` returns the job of a launch file,
    for commands that pass one to their program.

    Raises:
        BudgetExceededError: the commands exceed their own budget, or the budget of the directory in `budget`.
    """
    if budget is not None:
        budget.spend(len(launch.text))
    script = _read_script(launch_format, launch, data)
    if budget is not None:
        budget.spend(script.used)
    if script.shell is None:
        if budget is not None:
            raise BudgetExceededError
        return
    read_once = cache(_read_config_for_consumer)
    for command in script.commands:
        if budget is not None:
            budget.spend(_LOOKUP_COST)
        if config_path is not None and not _command_names_config(config_path, command, launch):
            continue
        line = None
        if data is None:
            line = script.shell.text.count("\n", 0, command.offset) + 1
            command = count_single_process(command, launch.name, script.shell.text)  # noqa: PLW2901
        if (
            command.argument_file
            and (handed := _job_of_passed_launch_file(command, launch, line, follow)) is not None
        ):
            yield handed
            continue
        full_command, is_known = _merge_argument_file(command, launch)
        job = _job_of_command(launch_format, launch, full_command, script.shell, read_once)
        if job is None and not command.path and command.program_file:
            jobs = iter(
                [*jobs_with_built_configs(launch_format, launch, full_command)]
                or [*jobs_with_named_configs(launch, full_command, config_path)]
                or [*jobs_composed_by_hydra(launch_format, launch, full_command)]
            )
        else:
            jobs = iter([] if job is None else [job])
        for each in jobs:
            job = _add_program_defaults(each, full_command, hashable_script_state(script.shell))
            job = use_tasks_as_ranks(job, full_command, script.shell.text)
            yield (job if is_known else job._replace(training_arguments=None))._replace(line=line)


def launchers_without_config(script: Document) -> Iterator[LaunchedJob]:
    """Yield a job for each launcher command that starts a program, even if the command names no config.

    The program may build its config from flags, as DeepSpeed-Chat does, so only `launcher`, `line`, `program_file` and
    `arguments` are set.
    """
    parsed = _read_script(SCRIPT, script, None)
    for command in parsed.commands:
        if parsed.shell is not None and command.launcher is not None and command.program_file:
            yield _job_of_command_alone(script, command, parsed.shell)


_FACTORY_COMMAND = r"(?:[^\n;&|]|\\\n)*\bllamafactory-cli\s+train\b"
"""Pattern of the text of a command, with the variables that it sets, that starts LLaMA-Factory."""


def _job_of_command_alone(script: Document, command: LaunchCommand, shell: ShellInterpreter) -> LaunchedJob:
    line = shell.text.count("\n", 0, command.offset) + 1
    return LaunchedJob(
        SCRIPT, script, "", "", None, None, None, command.world_size, line=line,
        arguments=command.arguments, processes=command.processes, program_file=command.program_file,
        folder=command.folder, launcher=command.launcher,
    )  # fmt: skip


def deepspeed_commands_of_factory(script: Document) -> Iterator[LaunchedJob]:
    """Yield a job for each `llamafactory-cli` command in a script whose flag or YAML file names a DeepSpeed config."""
    parsed = _read_script(SCRIPT, script, None)
    for command in parsed.commands:
        if command.launcher is not None or parsed.shell is None:
            continue
        if not re.compile(_FACTORY_COMMAND).match(parsed.shell.text, command.offset):
            continue
        lookup = resolve_written_path(command.argument_file, script.name, command.folder)
        data = None if lookup.path is None else read_file(lookup.path).value()
        named = data.get("deepspeed") if isinstance(data, dict) else None
        if command.arguments.get("deepspeed") or named:
            yield _job_of_command_alone(script, command, parsed.shell)


def commands_exceed_budget(
    launch_format: LaunchFileFormat, launch: Document, data: Mapping[str, Json] | None
) -> bool:
    """Return whether reading a launch file's commands exceeds the budget; in that case none of them is known."""
    return _read_script(launch_format, launch, data).shell is None


def script_starts_job(script: Document, follow: FollowFile) -> bool:
    """Return whether any command of a script names a config, builds one, or passes a launch file to its program."""
    commands = _read_script(SCRIPT, script, None).commands
    # An Accelerate launch file may start another backend, so it has to be read.
    if any(
        (command.path and command.flag != "--config_file" and not command.has_own_config_flag)
        or (command.format and command.format.builds)
        for command in commands
    ):
        return True
    return any(True for _ in jobs_of_commands(SCRIPT, script, None, follow=follow)) if commands else False


class _ParsedScript(NamedTuple):
    """The commands of a shell text that run DeepSpeed, and the interpreter of the text (None if it was not read)."""

    commands: tuple[LaunchCommand, ...]
    shell: ShellInterpreter | None
    used: int
    """Number of budget steps spent on reading the text."""


def _read_script(
    launch_format: LaunchFileFormat, launch: Document, data: Mapping[str, Json] | None
) -> _ParsedScript:
    if data is None:
        path = "" if launch.name.startswith("<") else os.path.abspath(launch.name)
        return _parse_shell_text(
            extract_shell_commands(launch.name, launch.text), path, (), path, time_cache_key()
        )
    budget = budget_for_text(len(launch.text))
    try:
        text = "\n".join(
            line
            for value in commands_in_file(launch_format, data)
            for line in commands_of_section(launch_format, value)
        )
        text = expand_azure_inputs(text, data, budget)
    except BudgetExceededError:
        return _ParsedScript((), None, budget.used_steps)
    location = "" if launch.name.startswith("<") else os.path.abspath(launch.name)
    variables = tuple(manifest_environment_variables(launch_format, data).items())
    return _parse_shell_text(text, "", variables, location, time_cache_key())


@lru_cache(maxsize=256)
def _parse_shell_text(
    text: str, path: str, variables: tuple[tuple[str, str], ...], location: str, _: int
) -> _ParsedScript:
    """Parse a shell text; results are cached because many configs of a directory need the same scripts."""
    shell = ShellInterpreter(text, path, dict(variables), location=location)
    try:
        commands = tuple(islice(find_launch_commands(shell), _MAX_COMMANDS))
    except BudgetExceededError:
        return _ParsedScript((), None, shell.budget.used_steps)
    return _ParsedScript(commands, shell, shell.budget.used_steps)


_LOOKUP_COST = 200
"""Number of budget steps charged for resolving a config's path."""


def _command_names_config(config_path: str, command: LaunchCommand, launch: Document) -> bool:
    """Return whether a command names the config at the given real path."""
    path = resolve_written_path(command.path, launch.name, command.folder).path if command.path else None
    return path is not None and os.path.realpath(path) == config_path


def _job_of_passed_launch_file(
    command: LaunchCommand, launch: Document, line: int | None, follow: FollowFile
) -> LaunchedJob | None:
    """Return the job of the launch file that a command passes to its program, or None if there is none."""
    if command.flag.startswith("--") or not command.argument_file.endswith((".yaml", ".yml", ".json")):
        return None  # the command names the config itself
    lookup = resolve_written_path(command.argument_file, launch.name, command.folder)
    if lookup.path is None:
        return None
    document = read_file(lookup.path)
    inner_format = detect_launch_format(document.value())
    if inner_format is None or inner_format.commands or (job := follow(document)) is None:
        return None
    started_by = launch.name if line is None else f"{launch.name}:{line}"
    data = document.value()
    job = _with_command_arguments(job._replace(started_by=started_by), command, data)
    if job.world_size is not None:
        return job
    ranks = world_size_of(job.format, data) if isinstance(data, dict) else None
    return job._replace(world_size=ranks or command.world_size, processes=command.processes)


def _with_command_arguments(job: LaunchedJob, command: LaunchCommand, data: Json) -> LaunchedJob:
    """Return the job of an argument file, updated with the flags of the command that passes it.

    In the programs of `launch_file_formats`, the flags override the file: trl scripts/utils.py:TrlParser, axolotl
    cli/utils/load.py, LLaMA-Factory hparams/parser.py:read_args. Other programs may ignore the flags.
    """
    arguments, program = job.training_arguments, command.format
    if arguments is None or not isinstance(data, dict):
        return job
    job_format = program if program is not None and job.format.name == "Transformers" else job.format
    names = FILLING_ARGUMENTS | job_format.arguments.keys()
    flags = {name: parse_argument_text(value) for name, value in command.arguments.items() if name in names}
    if program is not None and (flags or job_format is not job.format):
        arguments = read_launch_file_arguments(job_format, {**data, **flags})
    elif changed := frozenset(name for name, value in flags.items() if data.get(name) != value):
        known = {name: value for name, value in arguments.arguments.items() if name not in changed}
        arguments = arguments._replace(
            arguments=known,
            unknown=arguments.unknown | changed,
            explicit={**arguments.explicit, **dict.fromkeys(changed)},
        )
    return job._replace(format=job_format, training_arguments=arguments)


def _merge_argument_file(command: LaunchCommand, launch: Document) -> tuple[LaunchCommand, bool]:
    """Merge a command's argument file with its overriding flags, and return whether all arguments are known.

    The source of a program in the repository shows how it reads the file; see `training_arguments_of_command`.
    """
    if not command.argument_file or "config" not in command.arguments:
        return command, True
    if command.format is None:
        return command, resolve_written_path(
            command.program_file, launch.name, command.folder
        ).path is not None
    lookup = resolve_written_path(command.argument_file, launch.name, command.folder)
    data = None if lookup.path is None else read_file(lookup.path).value()
    if not isinstance(data, dict):
        return command, False
    arguments = {str(key): value for key, value in data.items() if value is not None}
    return command._replace(arguments={**arguments, **command.arguments}), True


def _read_config_for_consumer(path: str, reader: str) -> Document:
    """Read the config at a path with the parser of its consumer."""
    return parse_passed_config(read_contents(path), path, reader)


def _job_of_command(
    launch_format: LaunchFileFormat,
    launch: Document,
    command: LaunchCommand,
    shell: ShellInterpreter,
    read: Callable[[str, str], Document],
) -> LaunchedJob | None:
    job_format = (command.format or launch_format)._replace(
        reader=command.consumer, commands=launch_format.commands
    )
    job = command.job_without_config(
        job_format, launch, _without_defaults_of_unknown_flags(job_format, command)
    )
    if job.training_arguments is not None and command.varying_flags:
        job = job._replace(
            training_arguments=job.training_arguments._replace(
                at=ArgumentsForRanks(hashable_script_state(shell), command, job_format)
            )
        )
    if not command.path:
        return _job_with_built_config(job, command)
    if text := decode_config_argument(command.path):
        config = read_bytes(text.data, f"{launch.name}: {command.flag}")
        return job._replace(
            format=job_format, reference=command.flag, document=config, encoding=text.encoding
        )
    if job_format.preset and (preset := find_installed_preset(job_format.preset, command.path)):
        return job._replace(document=parse_passed_config(read_contents(preset), preset, job_format.reader))
    if built := framework_preset(job_format.name, command.path):
        preset_format = job_format._replace(builds=PRESET)
        return job._replace(format=preset_format, document=read_dict(built, f"{launch.name}: {command.flag}"))
    lookup = resolve_written_path(command.path, launch.name, command.folder)
    if command.has_own_config_flag and not (lookup.path and _is_config_at(lookup.path)):
        return None
    # A file that the script writes replaces the one that is there today.
    if (
        lookup.path is None
        or command.path in shell.output.documents
        or command.path in shell.output.sed_outputs
    ):
        return _use_config_written_by_script(job._replace(lookup=lookup), command.path, shell)
    document = read(lookup.path, job_format.reader)
    if command.flag == "--config_file":
        if not is_launch_file(document.value()):
            return None  # this Accelerate launch file does not use DeepSpeed
        job = job._replace(flags=_flags_of_launch_file(command))
        document = _remove_process_count(document, command)
    if command.format is None and command.consumer == "transformers":
        # The command's program, if it can be read, may parse the file itself instead of passing it to a
        # Trainer.
        consumer = find_consumer_in_repository(lookup.path, ConsumerEvidence(command.consumer, "", "script"))
        is_deepspeed = _is_flag_without_trainer(command, document) and not _has_trainer(command, launch)
        job_format = job_format._replace(
            reader="deepspeed" if is_deepspeed else consumer.name if consumer else command.consumer
        )
        if command.has_known_flags and not _config_filling_arguments(command):
            job = job._replace(training_arguments=None)  # the program sets them in code
    return _set_program_consumer(job._replace(format=job_format, document=document, lookup=lookup), command)


def _is_config_at(path: str) -> bool:
    """Return whether the file at a path contains config keys."""
    data = read_config_at_path(path).value()
    return isinstance(data, dict) and are_config_keys([key for key in data if isinstance(key, str)])


def _without_defaults_of_unknown_flags(
    job_format: LaunchFileFormat, command: LaunchCommand
) -> LaunchFileFormat:
    """Return the format without its defaults if a variable in the command may contain more flags."""
    defaults = dict.fromkeys(FILLING_ARGUMENTS) if command.may_have_more_flags else job_format.defaults
    return job_format._replace(arguments_key="", defaults=defaults)


def _job_with_built_config(job: LaunchedJob, command: LaunchCommand) -> LaunchedJob | None:
    """Return the job whose program builds its config from the command's flags, or None if it builds none."""
    job_format = job.format
    if command.format is None:
        if "use_deepspeed" not in command.arguments:
            return None
        job_format = job_format._replace(name="Accelerate", builds="accelerate")
    elif not command.format.builds:
        return None
    return job._replace(
        format=job_format, reference=command.flag, document=_build_config_from_flags(command, job.launch)
    )


def _set_program_consumer(job: LaunchedJob, command: LaunchCommand) -> LaunchedJob:
    """Set the consumer of a job to the one to which its program passes the file of the flag."""
    is_of_deepspeed = command.flag in DEEPSPEED_CONFIG_FLAGS or command.has_own_config_flag
    if command.format is not None or not is_of_deepspeed or job.document is None:
        return job
    is_bare = command.arguments.get("deepspeed") is True
    consumers = config_consumers_of_command(
        command.program_file, job.launch.name, command.flag, command.folder, is_bare=is_bare
    )
    content = consumer_suggested_by_content(job.document.value()).name
    job_format = job.format._replace(reader=consumers.most_likely(content))
    return job._replace(format=job_format, other_consumers=consumers.less_likely(content), why=consumers.why)


def _add_program_defaults(
    job: LaunchedJob, command: LaunchCommand, script: ScriptWithVariables
) -> LaunchedJob:
    """Add the program's defaults for the training arguments that the command leaves out."""
    is_deepspeed_dict = job.format.builds == PROGRAM and job.format.reader == "deepspeed"
    if command.format is not None or not command.program_file or is_deepspeed_dict:
        return job
    if job.format.reader != "transformers" and (command.consumer != "accelerate" or job.other_consumers):
        return job
    path = resolve_written_path(command.program_file, job.launch.name, command.folder).path
    program_arguments = (
        None
        if path is None
        else training_arguments_of_command(
            path,
            job.launch.name,
            command.arguments,
            command.varying_flags,
            command.argument_file,
            has_all_flags=not command.may_have_more_flags,
        )
    )
    if program_arguments is None or (job.format.reader == "accelerate" and program_arguments.has_loop):
        if job.format.reader == "accelerate" and path is not None and _program_imports_trainer(path):
            why = f"{command.program_file} uses a Trainer and Accelerate itself"
            job = job._replace(other_consumers=("transformers",), why=why)
        return use_steps_of_accelerator(job, command, path) if job.format.reader == "accelerate" else job
    # Also under `accelerate launch` the Trainer fills the config: transformers
    # integrations/deepspeed.py:propagate_args_to_deepspeed.
    argument_format = job.format._replace(
        arguments_key="", defaults=program_arguments.defaults, reader="transformers"
    )
    job = job._replace(format=job.format._replace(reader="transformers"))
    flags = {
        name: value
        for name, value in command.arguments.items()
        if not program_arguments.is_code or name not in FILLING_ARGUMENTS
    }
    arguments = read_launch_file_arguments(
        argument_format, {**flags, **dict.fromkeys(program_arguments.changed)}
    )
    if command.varying_flags and not program_arguments.is_code and not program_arguments.changed:
        arguments = arguments._replace(at=ArgumentsForRanks(script, command, argument_format))
    # Flags of a program that builds the arguments in code are its own.
    explicit = {} if program_arguments.is_code else arguments.explicit
    explicit = {**program_arguments.explicit, **explicit, **dict.fromkeys(program_arguments.changed)}
    arguments = arguments._replace(
        note=program_arguments.origin_note, explicit=explicit, are_in_code=program_arguments.is_code
    )
    return job._replace(training_arguments=arguments)


_TRAINER_IMPORT = (
    rb"from\s+(?:transformers|trl)[\w.]*\s+import\s+(?:\([^)]*|[^\n(]*)\b(?!PPO)\w*Trainer\b"
    rb"|\btransformers\.Trainer\("
)
"""Pattern of an import of a Trainer, except TRL's PPOTrainer, which has its own training loop."""


def _program_imports_trainer(path: str) -> bool:
    """Return whether a program imports a Trainer, which resolves the config even if Accelerate is also used."""
    try:
        return re.search(_TRAINER_IMPORT, read_contents(path, MAX_SIZE)) is not None
    except OSError:
        return False


def _remove_process_count(launch: Document, command: LaunchCommand) -> Document:
    """Remove `num_processes` from an Accelerate launch file if a flag of unknown value overrides it."""
    data = launch.value()
    if not command.processes.open_expressions or not isinstance(data, dict) or "num_processes" not in data:
        return launch
    return launch.with_value({key: value for key, value in data.items() if key != "num_processes"})


def _flags_of_launch_file(command: LaunchCommand) -> JsonObject:
    """Return the flags of `accelerate launch` that match keys of its launch file, without the program's flags."""
    return {key: parse_argument_text(command.arguments.get(key)) for key in _launcher_flags(command)}


def _launcher_flags(command: LaunchCommand) -> Iterator[str]:
    """Yield the flags of `accelerate launch` in a command that correspond to keys of its launch file."""
    known = BLOCK_KEYS | {"mixed_precision"}
    yield from (key for key in (command.launcher.flags if command.launcher else ()) if key in known)


def _is_flag_without_trainer(command: LaunchCommand, config: Document) -> bool:
    """Return whether a program without Trainer arguments or "auto" passes its `--deepspeed` file to DeepSpeed."""
    has_trainer_arguments = "output_dir" in command.arguments or _config_filling_arguments(command)
    return (
        command.has_known_flags
        and not has_trainer_arguments
        and consumer_suggested_by_content(config.value()).name == "deepspeed"
    )


def _has_trainer(command: LaunchCommand, launch: Document) -> bool:
    """Return whether a command's program uses a Trainer rather than its own training loop."""
    path = (
        resolve_written_path(command.program_file, launch.name, command.folder).path
        if command.program_file
        else None
    )
    return path is not None and loop_consumer(os.path.abspath(path), time_cache_key()) == "transformers"


def _config_filling_arguments(command: LaunchCommand) -> set[str]:
    """Return the Trainer arguments of a command from which config values are filled."""
    return command.arguments.keys() & BY_NAME["transformers"].defaults.keys()


def _build_config_from_flags(command: LaunchCommand, launch: Document) -> Document | None:
    """Return the config that a command's program builds from its flags, or None if it builds none."""
    name = f"{launch.name}: {command.flag}"
    if command.format is not None and command.format.builds == "openrlhf":
        # A value such as `$3` is None among the arguments: only a run shows it.
        flags = {
            key: UNKNOWN if value is None else parse_argument_text(value)
            for key, value in command.arguments.items()
        }
        return read_dict(build_openrlhf_config(flags), name)
    # `accelerate launch --use_deepspeed` without further flags: ZeRO stage 2 (commands/launch.py,
    # `--zero_stage`).
    flags = _flags_of_launch_file(command)
    block = {key: value for key, value in flags.items() if key in BLOCK_KEYS}
    config: JsonObject = {"distributed_type": "DEEPSPEED", BLOCK: block or {"zero_stage": 2}}
    if isinstance(precision := flags.get("mixed_precision"), str):
        config["mixed_precision"] = precision
    return read_dict(config, name)


def _use_config_written_by_script(job: LaunchedJob, name: str, shell: ShellInterpreter) -> LaunchedJob:
    """Replace a job's config with the one that its script writes to the path `name`, if it does."""
    try:
        document = _config_written_by_script(name, shell, job.launch)
    except BudgetExceededError:
        return job._replace(is_written_by_script=True, is_too_long=True)
    return job._replace(
        document=document,
        lookup=None if document else job.lookup,
        is_written_by_script=name in shell.output.documents or name in shell.output.sed_outputs,
        is_template=name in shell.output.sed_outputs and name not in shell.output.documents,
    )


def _config_written_by_script(name: str, shell: ShellInterpreter, launch: Document) -> Document | None:
    """Return the config that a script writes, as a here-document or by editing a template with `sed`, or None.

    Raises:
        BudgetExceededError: the text exceeds the size limit for configs.
    """
    is_literal = False
    if (written := shell.output.documents.get(name)) is not None:
        text, is_literal = written
        ReadingBudget(MAX_SIZE).spend(len(text))
    elif (sed_output := shell.output.sed_outputs.get(name)) is not None:
        template = resolve_written_path(sed_output.template, launch.name)
        if template.path is None:
            return None
        text = sed_output.apply_edits(
            read_contents(template.path, MAX_SIZE).decode("utf-8", "replace"), MAX_SIZE
        )
    else:
        return None
    if _UNEXPANDED.search(text) and not is_literal:
        return read_with_variables(text, f"{launch.name}: {name}")
    return read_bytes(text.encode("utf-8", "replace"), f"{launch.name}: {name}")
