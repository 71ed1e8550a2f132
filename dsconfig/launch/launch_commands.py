"""Find the commands that start jobs: their configs, arguments and process counts, with shell variables expanded."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from itertools import islice, pairwise, takewhile

from dsconfig.core.file_access import MAX_SIZE, read_contents
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.document import Document
from dsconfig.document.config_file_names import SCRIPTS
from dsconfig.job.detect_consumer import LaunchArguments
from dsconfig.launch.launch_file_formats import FORMATS, LaunchFileFormat, matches_format
from dsconfig.launch.launched_job import LaunchedJob, decode_config_argument
from dsconfig.launch.launcher_call import PYTHON, LauncherCall, find_launcher_call
from dsconfig.launch.process_count import (
    ProcessCount,
    count_processes,
    solve_variables_for_ranks,
    variables_deciding_processes,
)
from dsconfig.launch.python.syntax_trees import program_modules
from dsconfig.launch.repository_files import (
    FOLDER_STEPS,
    BudgetExceededError,
    ReadingBudget,
    files_of_repository,
    is_preset_name,
    resolve_written_path,
    time_cache_key,
)
from dsconfig.launch.shell.interpreter import ShellCommand, ShellInterpreter
from dsconfig.launch.training_arguments import LORA_TARGET_KEYS, read_launch_file_arguments

# The programs that start jobs, and their flags, are rows of `dsconfig.launch.launch_file_formats`.
CONFIG_FLAGS = {
    "deepspeed_config_file": "accelerate",
    "deepspeed_config": "deepspeed",
    "deepspeed": "transformers",
    "config_file": "accelerate",
    "accelerate_config": "transformers",
    "ds_config": "deepspeed",
}
"""Flags that name a config or an Accelerate launch file, by precedence, each with the consumer it implies.
"""
_SUFFIXES = (".json", ".yaml", ".yml", ".conf", ".hjson", ".jsonc")
_PROGRAMS = [each for each in FORMATS if each.programs]
_BEFORE_ARGUMENTS = 40
"""Number of leading words searched for the program that a command starts."""


class LaunchCommand(NamedTuple):
    """A command that runs DeepSpeed, with its flags and number of processes."""

    path: str
    """The config as written: a path or preset name, or empty if the program builds its own config or uses none."""
    flag: str
    consumer: str
    format: LaunchFileFormat | None
    """The program's row in the table, or None if the table has no row for it."""
    arguments: dict[str, Json]
    """Values of the flags by name, without dashes, or None if the value is unknown before the run.

    The key `ENV` holds the variables, and `SCRIPT` the name of the script, module or subcommand.
    """
    world_size: int | None
    offset: int
    """Offset of the command in the shell text."""
    folder: str
    """Directory that the script has entered with `cd`."""
    has_known_flags: bool = False
    """Whether every flag is known because no word outside flag values contains an unexpanded variable."""
    open_variables: tuple[str, ...] = ()
    """Unset shell variables that determine the number of processes; those for the number of nodes come first."""
    varying_flags: frozenset[str] = frozenset()
    """Flags whose values depend on one of `variables_deciding_processes`."""
    processes: ProcessCount = ProcessCount(None)
    """Number of processes that the command starts, and the expressions that leave it unknown."""
    program_file: str = ""
    """Path of the Python program that the command starts, as written."""
    launcher: LauncherCall | None = None
    """The command's launcher with its own flags, or None if dsconfig does not know the launcher."""
    argument_file: str = ""
    """File with the program's arguments, as written: `llamafactory-cli train x.yaml`, `--config x.yaml`."""
    may_have_more_flags: bool = False
    """Whether a variable known only at run time may hold further flags of the program: `train.py $EXTRA_ARGS`."""

    overrides: tuple[str, ...] = ()
    """Words after the program that Hydra may read: `ds_config=zero3`, `~key`, and `-m` for a multirun."""

    @property
    def has_own_config_flag(self) -> bool:
        """Whether a flag that the program itself defines may name the config; only reading the file can confirm it."""
        name = self.flag.removeprefix("--").replace("-", "_")
        return bool(self.path) and self.flag.startswith("--") and name.rpartition(".")[2] not in CONFIG_FLAGS

    def job_without_config(
        self, job_format: LaunchFileFormat, launch: Document, argument_format: LaunchFileFormat
    ) -> LaunchedJob:
        """Return the job that this command starts, without its config."""
        return LaunchedJob(
            job_format,
            launch,
            self.path,
            self.flag,
            None,
            None,
            read_launch_file_arguments(argument_format, self.arguments),
            self.world_size,
            arguments=self.arguments,
            processes=self.processes,
            program_file=self.program_file,
            folder=self.folder,
            launcher=self.launcher,
            may_have_more_flags=self.may_have_more_flags,
        )


def find_launch_commands(shell: ShellInterpreter) -> Iterator[LaunchCommand]:
    """Yield the commands in a shell text that run DeepSpeed with a config."""
    for each in shell.run_commands():
        if command := _parse_launch_command(each, shell):
            yield command


def _parse_launch_command(shell: ShellCommand, script: ShellInterpreter) -> LaunchCommand | None:
    words = shell.words
    flags = _parse_long_flags(words)
    group = _group_of_config_flag(flags)
    flags |= {
        name.removeprefix(group): value for name, value in flags.items() if group and name.startswith(group)
    }
    if (path := _config_of_elastic_run(words)) is not None:
        ranks = count_processes(flags, shell, script).ranks
        return LaunchCommand(path, "elastic run", "elastic", None, flags, ranks, shell.offset, shell.folder)
    program = _program_format(words, flags) if flags else None
    config_flag = next(
        (
            config_flag
            for config_flag in CONFIG_FLAGS
            if _flag_names_config(config_flag, flags, words, program)
        ),
        "",
    )
    if not config_flag and program is None:
        config_flag = next(filter(partial(_may_name_config, flags), flags), "")
    if (
        not config_flag
        and not (program is not None and program.builds)
        and not _builds_plugin_config(words, flags)
        and not _argument_file(words, flags)
        and not _starts_program(words)
    ):
        return None
    consumer = CONFIG_FLAGS.get(config_flag, "deepspeed" if config_flag else "accelerate")
    if program is not None and config_flag in ("deepspeed", "accelerate_config", ""):
        consumer = program.reader
    command = _build_launch_command(shell, script, flags, config_flag, consumer, program)
    if not group:
        return command
    # The arguments of a group have defaults of their own, often in the file of another flag.
    return command._replace(flag=f"--{group}{config_flag}", may_have_more_flags=True)


def _group_of_config_flag(flags: Mapping[str, Json]) -> str:
    """Return the group of the flag that names the config: `training_arguments.` for `--training_arguments.deepspeed`.

    jsonargparse, tyro and Quinine build such flags from nested classes.
    """
    groups = {name[: -len("deepspeed")] for name in flags if name.endswith(".deepspeed")}
    return groups.pop() if len(groups) == 1 and "deepspeed" not in flags else ""


def _may_name_config(flags: Mapping[str, Json], name: str) -> bool:
    """Return whether a flag such as `--ds_config_path` may name a config; only reading the file can confirm it."""
    value = flags[name]
    return (
        isinstance(value, str)
        and value.endswith(_SUFFIXES)
        and "$" not in value
        and _OWN_CONFIG_FLAG.fullmatch(name) is not None
    )


def names_other_config(command: LaunchCommand, config: str) -> bool:
    """Return whether a flag of a command replaces the program's default config path, even if its value is unknown."""
    name = os.path.basename(config)
    values = (
        value
        for flag, value in command.arguments.items()
        # `--deepspeed` alone only switches DeepSpeed on.
        if (flag in CONFIG_FLAGS and value is not True)
        or (_OWN_CONFIG_FLAG.fullmatch(flag) and flag not in CONFIG_FLAGS and "stage" not in flag)
    )
    return not all(isinstance(value, str) and os.path.basename(value) == name for value in values)


_OWN_CONFIG_FLAG = re.compile(r"(?:\w+[_.])?(?:ds|deepspeed|deep_speed|zero)(?:_\w+)?")


def find_program_commands(shell: ShellInterpreter) -> Iterator[LaunchCommand]:
    """Yield the commands in a shell text that start a Python program, with or without a config."""
    for each in shell.run_commands():
        if _starts_program(each.words):
            yield _build_launch_command(each, shell, _parse_long_flags(each.words), "", "", None)


def _starts_program(words: tuple[str, ...]) -> bool:
    """Return whether a command starts a Python program, directly or through a launcher."""
    program = _program_file_of_command(words)
    before = words[: words.index(program)] if program in words else words[:1]
    return bool(program) and any(_STARTS_PROGRAMS.fullmatch(os.path.basename(word)) for word in before)


_STARTS_PROGRAMS = re.compile(r"python[\d.]*|torchrun|deepspeed|accelerate|torch\.distributed\.\w+")


def _build_launch_command(
    shell: ShellCommand,
    script: ShellInterpreter,
    flags: dict[str, Json],
    config_flag: str,
    consumer: str,
    program: LaunchFileFormat | None,
) -> LaunchCommand:
    words = shell.words
    open_names, counts = variables_deciding_processes(shell), count_processes(flags, shell, script)
    dependent = _words_depending_on_variables(shell, open_names)
    unexpanded = [name for name, value in flags.items() if isinstance(value, str) and "$" in value]
    return LaunchCommand(
        str(flags[config_flag]) if config_flag else "",
        _flag_spelling(config_flag, words) if config_flag else words[0],
        consumer,
        program,
        {**flags, **dict.fromkeys(unexpanded), "ENV": dict(shell.variables), "SCRIPT": _script_name(words)},
        counts.ranks,
        shell.offset,
        shell.folder,
        not any("$" in word for last, word in zip(("", *words), words, strict=False) if last[:2] != "--"),
        open_names,
        frozenset(
            name for name, value in flags.items() if name and isinstance(value, str) and value in dependent
        ),
        counts,
        _program_file_of_command(words),
        find_launcher_call(words, shell.variables),
        _argument_file(words, flags),
        _may_have_more_flags(words),
        _hydra_words(words),
    )


def _hydra_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words after the program of a command that may be Hydra overrides."""
    program = _program_file_of_command(words)
    start = words.index(program) + 1 if program in words else len(words)
    if start == len(words) and program:  # `python -m package.module key=value`
        start = next((at + 2 for at, word in enumerate(words) if word in ("-m", "--module")), start)
    return tuple(word for word in words[start:] if word == "-m" or _HYDRA_WORD.match(word))


_HYDRA_WORD = re.compile(r"(?:\+{0,2}[A-Za-z_][\w./@-]*=|~[A-Za-z_])")


def _may_have_more_flags(words: tuple[str, ...]) -> bool:
    """Return whether an unknown variable follows the program, so that it may contain more flags."""
    program = _program_file_of_command(words)
    start = words.index(program) if program in words else 0
    return any(
        _VARIABLE.fullmatch(word) and (word in _SCRIPT_ARGUMENTS or not last.startswith("--"))
        for last, word in pairwise(words[start:])
    )


_SCRIPT_ARGUMENTS = ("$@", "$*", "${@}", "${*}")
_VARIABLE = re.compile(r"\$(?:\w+|[@*]|\{[^{}]*\})")


def _argument_file(words: tuple[str, ...], flags: Mapping[str, Json]) -> str:
    """Return the file from which a command's program reads its arguments, or an empty string if there is none.

    The flag `--config` or the first word after the program names this file: transformers
    hf_argparser.py:parse_yaml_file, LLaMA-Factory hparams/parser.py:read_args, axolotl cli/main.py:train.
    """
    named = flags.get("config")
    if isinstance(named, str):
        return named
    is_behind_program = False
    for last, word in pairwise(("", *words)):
        if is_behind_program and not last.startswith("-") and word.endswith(_ARGUMENT_FILES):
            return word
        is_behind_program |= word.endswith(".py") or word in _TRAINING_COMMANDS or last in ("-m", "--module")
    return ""


_ARGUMENT_FILES = (".yaml", ".yml", ".json")
_TRAINING_COMMANDS = frozenset(("train", "sft", "pt", "rlhf", "grpo", "dpo", "fine-tune"))
"""Subcommands of LLaMA-Factory, Axolotl, ms-swift and TRL."""


def _flag_spelling(flag: str, words: tuple[str, ...]) -> str:
    """Return a flag as the command spells it; DeepSpeed itself accepts `--deepspeed_config` but no hyphens."""
    spelling = f"--{flag.replace('_', '-')}"
    return spelling if any(word.partition("=")[0] == spelling for word in words) else f"--{flag}"


def _program_file_of_command(words: tuple[str, ...]) -> str:
    """Return the path of the program that a command starts; `-m package.module` gives `package/module.py`."""
    for word, following in zip(words[:_BEFORE_ARGUMENTS], (*words[1:], ""), strict=False):
        if word.endswith(".py"):
            return word
        if word in ("-m", "--module") and following.partition(".")[0] not in _LAUNCHERS:
            return f"{following.replace('.', '/')}.py" if following else ""
    return ""


_LAUNCHERS = ("torch", "accelerate", "deepspeed")
"""Packages whose modules start another program: `torch.distributed.run`, `accelerate.commands.launch`."""


def _words_depending_on_variables(shell: ShellCommand, variables: tuple[str, ...]) -> frozenset[str]:
    """Return the words of a command that depend on `variables`, and the values in words like `--flag=value`."""
    words = (
        [word for word, origins in shell.dependencies.items() if not origins.isdisjoint(variables)]
        if variables
        else []
    )
    return frozenset((*words, *(word.partition("=")[2] for word in words if "=" in word)))


def _config_of_elastic_run(words: tuple[str, ...]) -> str | None:
    """Return the config of `dsconfig elastic run`, or None for any other command."""
    for at, word in enumerate(words[:-3]):
        if word.endswith("dsconfig") and words[at + 1 : at + 3] == ("elastic", "run"):
            return next((path for path in words[at + 3 :] if path.endswith(_SUFFIXES) or "$" in path), None)
    return None


def _script_name(words: tuple[str, ...]) -> str | None:
    """Return the script or module that a command runs: `dpo` for both `scripts/dpo.py` and `-m trl.scripts.dpo`."""
    for word, before in zip(words, ("", *words), strict=False):
        if word.endswith(".py"):
            return word.rpartition("/")[2].removesuffix(".py")
        if before == "trl" or (before in ("-m", "--module") and not word.startswith("torch.")):
            return word.rpartition(".")[2]
    return None


def _program_format(words: tuple[str, ...], flags: Mapping[str, Json]) -> LaunchFileFormat | None:
    """Return the launch format of the program that a command runs, or None if it has none."""
    first = [word for word in words[:_BEFORE_ARGUMENTS] if not word.startswith("-")]
    for each in _PROGRAMS:
        patterns = each.programs + (each.scripts if each.scripts and matches_format(each, flags) else ())
        if any(fnmatchcase(word, pattern) for word in first for pattern in patterns):
            return each
    return None


def _parse_long_flags(words: tuple[str, ...]) -> dict[str, Json]:
    """Return the long flags of a command with their values as text; a flag without a value is True."""
    flags: dict[str, Json] = {}
    is_llamafactory = any(word.rpartition("/")[2] == "llamafactory-cli" for word in words[:_BEFORE_ARGUMENTS])
    for at, (word, following) in enumerate(zip(words, [*words[1:], "--"], strict=False)):
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            # Argparse takes a negative number such as `-1` as a value, not as a flag.
            is_switch = following.startswith("-") and not following[1:2].isdigit()
            # `--deepspeed $@`: the script's own arguments are further flags.
            is_switch = is_switch or following in _SCRIPT_ARGUMENTS
            # Both spellings are accepted: transformers hf_argparser.py:HfArgumentParser._parse_dataclass_field.
            flags[name.replace("-", "_")] = value if equals else True if is_switch else following
            if name in LORA_TARGET_KEYS and not equals and not is_switch:
                # Several words may follow these flags: `--lora_target q_proj v_proj`.
                following_words = islice(words, at + 1, None)
                flags[name] = list(takewhile(lambda each: not each.startswith("-"), following_words))
        elif match := _HYDRA_OVERRIDE.fullmatch(word):
            flags.setdefault(match[1], match[2])
        elif is_llamafactory and (match := _OVERRIDE.fullmatch(word)):
            flags[match[1]] = match[2]
    return flags


_HYDRA_OVERRIDE = re.compile(r"\+{1,2}(?:\w+\.)*(deepspeed_config|ds_config)=(.*)")
"""Pattern of a Hydra override that names a config: `++deepspeed_config=ds.json`."""
_OVERRIDE = re.compile(r"([a-z][a-z0-9_]*)=(.*)")
"""Pattern of a word that overrides an argument in a file: `llamafactory-cli train x.yaml learning_rate=1e-5`."""


def _flag_names_config(
    flag: str, flags: Mapping[str, Json], words: tuple[str, ...], program: LaunchFileFormat | None
) -> bool:
    """Return whether the value of `flag` is the path of a config."""
    value = flags.get(flag)
    if not isinstance(value, str) or not value:
        return False
    # `--config_file` is Accelerate's only behind `accelerate launch`; many programs have a flag of this name.
    if flag == "config_file":
        return "launch" in words and any(word.endswith("accelerate") for word in words)
    if flag == "ds_config" and not any(word.startswith("+") and "ds_config=" in word for word in words):
        return False  # a flag of this name may mean anything
    if flag == "accelerate_config" and (program is None or program.name != "TRL"):
        return False
    if program is not None and program.preset and flag in program.config and is_preset_name(value):
        return True
    return (
        # DeepSpeed opens any path, whatever its suffix: runtime/config.py:DeepSpeedConfig.__init__.
        flag == "deepspeed_config"
        or value.endswith(_SUFFIXES)
        or "$" in value
        or bool(decode_config_argument(value))
    )


def _builds_plugin_config(words: tuple[str, ...], flags: Mapping[str, Json]) -> bool:
    """Return whether `accelerate launch --use_deepspeed` builds the config from its flags."""
    return "use_deepspeed" in flags and "launch" in words


# Arguments of a command whose script calculates them from the number of ranks.


class ScriptWithVariables(NamedTuple):
    """A shell text, its path, and the variables that are set before it runs."""

    text: str
    path: str
    variables: tuple[tuple[str, str], ...]


def hashable_script_state(shell: ShellInterpreter) -> ScriptWithVariables:
    """Return the text, path and variables of a shell script, as a cache key."""
    return ScriptWithVariables(shell.text, shell.path, tuple(shell.environment.items()))


@dataclass(frozen=True)
class ArgumentsForRanks:
    """Evaluates a command's arguments for a given number of ranks.

    With `--nnodes=$N --nproc_per_node=8`, 16 ranks mean N=2, and the script is evaluated again with that value.
    """

    script: ScriptWithVariables
    command: LaunchCommand
    format: LaunchFileFormat

    def __repr__(self) -> str:
        return f"AtRanks({self.script.path!r}, {self.command.offset})"

    def __call__(self, ranks: int) -> LaunchArguments | None:
        """Return the arguments at `ranks` ranks, or None if no values of the unset variables give that number."""
        solution = _command_for_ranks(self.script, self.command.offset, self.command.open_variables, ranks)
        if solution is None:
            return None
        command, values = solution
        assignments = " and ".join(
            f"`{name}` is {value}" for name, value in values.items() if name.isidentifier()
        )
        note = f"on {ranks} ranks {assignments} in the job's shell" if assignments else ""
        return read_launch_file_arguments(self.format._replace(arguments_key=""), command.arguments)._replace(
            note=note
        )


@lru_cache(maxsize=64)
def _command_for_ranks(
    script: ScriptWithVariables, offset: int, names: tuple[str, ...], ranks: int
) -> tuple[LaunchCommand, dict[str, str]] | None:
    budget = ReadingBudget(FOLDER_STEPS)
    try:
        return solve_variables_for_ranks(
            lambda values: _command_at_offset(script, offset, values, budget), names, ranks
        )
    except BudgetExceededError:
        return None


def _command_at_offset(
    script: ScriptWithVariables, offset: int, values: Mapping[str, str], budget: ReadingBudget
) -> LaunchCommand | None:
    """Return the command at `offset` after evaluating the script with `values` as shell variables."""
    commands = find_launch_commands(
        ShellInterpreter(script.text, script.path, {**dict(script.variables), **values}, budget)
    )
    return next((command for command in commands if command.offset == offset), None)


# Programs that a command starts as a single process: `python train.py`, without a launcher.
#
# Without the variables of a launcher, DeepSpeed asks MPI for the ranks, and a process that MPI did not start is the
# only one: comm/comm.py:init_distributed, mpi_discovery. The Trainer and Accelerate count one process as well:
# accelerate state.py:PartialState, which reads LOCAL_RANK.

_STARTERS = (
    r"spawn|start_processes|notebook_launcher|debug_launcher|torchrun|distributed\.run|\bray\b|lightning|\bFabric\b"
    r"|submitit|mpi4py|horovod|TorchDistributor|elastic_launch|composer|os\.exec|(?i:WORLD_SIZE)[\"']\]\s*="
)
STARTS_PROCESSES = re.compile(rf"{_STARTERS}|Popen|subprocess|multiprocessing|os\.system|launch\(")
"""Pattern of code with which a program starts its own processes, or may do so."""
_STARTS_PROCESSES_IN_MODULE = re.compile(_STARTERS)
"""Pattern of such code in a module that the program imports; many use `subprocess` for other purposes."""
RANK_VARIABLES = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE"})
"""Environment variables that a script sets if it starts each process itself."""
_NAMES_RANKS = re.compile(r"\b\w*(?:RANK|WORLD_SIZE|PROCID|NODEID)\b")
"""Pattern of a variable with which a script may start one process for each rank."""
_STARTS_SEVERAL = r"\b(?:srun|mpirun|mpiexec|jsrun|torchrun|pdsh|parallel|ssh|deepspeed|accelerate)\b[^\n]*"
"""Pattern of a command that starts a script several times, up to the name of the script."""


def count_single_process(command: LaunchCommand, script: str, text: str) -> LaunchCommand:
    """Return a command with a world size of 1 if it certainly starts only one process, else unchanged.

    Args:
        command: the command.
        script: path of the script or notebook with the command.
        text: the shell commands of the script.
    """
    launcher, variables = command.launcher, command.arguments.get("ENV")
    if launcher is None or launcher.name != PYTHON or command.world_size is not None:
        return command
    tasks = variables.get("SLURM_NTASKS") if isinstance(variables, dict) else None
    if command.processes != ProcessCount(None) or tasks not in (None, "1") or _NAMES_RANKS.search(text):
        return command
    # A container may run on several machines, whose manifest is elsewhere.
    if script.startswith("<") or re.search(r"(?<!make)(?<!just)file", os.path.basename(script).lower()):
        return command
    program = resolve_written_path(command.program_file, script, command.folder).path
    path = os.path.abspath(script)
    if program is None or not _is_single(os.path.abspath(program), path, time_cache_key()):
        return command
    return command._replace(world_size=1, processes=ProcessCount(1))


@lru_cache(maxsize=64)
def _is_single(program: str, script: str, _: int) -> bool:
    """Return whether no module of the program starts processes, and no other script starts it several times."""
    modules = program_modules(program, script)
    if not modules:
        return False
    try:
        for module in modules:
            text = read_contents(module.path, MAX_SIZE).decode("utf-8", "replace")
            is_program = os.path.realpath(module.path) == os.path.realpath(program)
            if (STARTS_PROCESSES if is_program else _STARTS_PROCESSES_IN_MODULE).search(text):
                return False
    except OSError:
        return False
    name = os.fsencode(os.path.basename(script))
    starts_several = re.compile(_STARTS_SEVERAL.encode() + re.escape(name))
    return not any(
        name in data and starts_several.search(data) for _, data in files_of_repository(script, SCRIPTS)
    )
