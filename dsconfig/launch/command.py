"""Command of a job: its config and arguments, with variables solved where the script computes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice, takewhile

from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.job.detect_consumer import Given
from dsconfig.launch.format_table import FORMATS, Format, is_of
from dsconfig.launch.launched_job import Processes, open_of, processes, solved, text_of
from dsconfig.launch.model_argument import TARGETS
from dsconfig.launch.repository import FOLDER, Budget, SpentError, is_name
from dsconfig.launch.shell_interpreter import Shell, ShellCommand
from dsconfig.launch.training_arguments import given

# The command of a job, in a shell script or a manifest: which config it names, with which arguments.
#
# The programs that start jobs, and their flags, are rows of `dsconfig.launch.format_table`.

READERS = {
    "deepspeed_config_file": "accelerate",
    "deepspeed_config": "deepspeed",
    "deepspeed": "transformers",
    "config_file": "accelerate",
}
"""Flags that name a config, or Accelerate's launch file, and who reads it then."""
_SUFFIXES = (".json", ".yaml", ".yml", ".conf", ".hjson", ".jsonc")
_PROGRAMS = [each for each in FORMATS if each.programs]
_BEFORE_ARGUMENTS = 40
"""Among so many words a command says which program it runs."""


class Command(NamedTuple):
    """A command that runs DeepSpeed with a config."""

    path: str
    """The config as it is written: a path or a preset's name; empty where the program makes it itself."""
    flag: str
    reader: str
    format: Format | None
    """The program, where it is one of those that have a row."""
    arguments: dict[str, Json]
    """Its flags, without their dashes (None: known to the job's shell alone); `ENV`: its variables; `SCRIPT`:
    the name of the script, module or verb that it runs, where that is clear.
    """
    world_size: int | None
    offset: int
    """Where it begins in the text."""
    folder: str
    """Where the script has gone before."""
    is_whole: bool = False
    """Whether all of its flags are known."""
    open: tuple[str, ...] = ()
    """What of the job's own shell decides how many processes there are, nodes first."""
    varies: frozenset[str] = frozenset()
    """Its flags that depend on one of these too."""
    processes: Processes = Processes(None)
    """How many processes it starts, and what leaves that to the run."""
    program_file: str = ""
    """The Python program that it starts, as it is written."""


def commands_in(shell: Shell) -> Iterator[Command]:
    """Each command of a shell text that runs DeepSpeed with a config."""
    for each in shell.commands():
        if found := _command(each):
            yield found


def _command(shell: ShellCommand) -> Command | None:
    words = shell.words
    given = _flags(words)
    if (path := _of_elastic(words)) is not None:
        ranks = processes(given, shell).ranks
        return Command(path, "elastic run", "elastic", None, given, ranks, shell.offset, shell.folder)
    program = _program(words, given) if given else None
    flag = next((flag for flag in READERS if _names(flag, given, words, program)), "")
    if not flag and not (program is not None and program.makes) and not _plugin(words, given):
        return None
    reader = READERS.get(flag, "accelerate")
    if program is not None and flag in ("deepspeed", ""):
        reader = program.reader
    opened, started = open_of(shell), processes(given, shell)
    depending = _depending(shell, opened)
    unknown = [name for name, value in given.items() if isinstance(value, str) and "$" in value]
    return Command(
        str(given[flag]) if flag else "",
        _spelled(flag, words) if flag else words[0],
        reader,
        program,
        {**given, **dict.fromkeys(unknown), "ENV": dict(shell.variables), "SCRIPT": _script(words)},
        started.ranks,
        shell.offset,
        shell.folder,
        not any("$" in word for last, word in zip(("", *words), words, strict=False) if last[:2] != "--"),
        opened,
        frozenset(
            name for name, value in given.items() if name and isinstance(value, str) and value in depending
        ),
        started,
        _program_file(words),
    )


def _spelled(flag: str, words: tuple[str, ...]) -> str:
    """A flag as the command writes it: `--deepspeed-config` is none of DeepSpeed."""
    own = f"--{flag.replace('_', '-')}"
    return own if any(word.partition("=")[0] == own for word in words) else f"--{flag}"


def _program_file(words: tuple[str, ...]) -> str:
    """The Python program that a command starts: a path, or that of the module behind `-m`."""
    for word, following in zip(words[:_BEFORE_ARGUMENTS], (*words[1:], ""), strict=False):
        if word.endswith(".py"):
            return word
        if word in ("-m", "--module") and following.partition(".")[0] not in _LAUNCHERS:
            return f"{following.replace('.', '/')}.py" if following else ""
    return ""


_LAUNCHERS = ("torch", "accelerate", "deepspeed")
"""Packages whose modules start another program."""


def _depending(shell: ShellCommand, opened: tuple[str, ...]) -> frozenset[str]:
    """The words that depend on what is open, and what stands behind the `=` of each."""
    words = [word for word, read in shell.open.items() if not read.isdisjoint(opened)] if opened else []
    return frozenset((*words, *(word.partition("=")[2] for word in words if "=" in word)))


def _of_elastic(words: tuple[str, ...]) -> str | None:
    """The config of `dsconfig elastic run`; None for any other command."""
    for at, word in enumerate(words[:-3]):
        if word.endswith("dsconfig") and words[at + 1 : at + 3] == ("elastic", "run"):
            return next((path for path in words[at + 3 :] if path.endswith(_SUFFIXES) or "$" in path), None)
    return None


def _script(words: tuple[str, ...]) -> str | None:
    """The name of what a command runs: `dpo` of `scripts/dpo.py`, `-m trl.scripts.dpo` and `trl dpo`."""
    for word, before in zip(words, ("", *words), strict=False):
        if word.endswith(".py"):
            return word.rpartition("/")[2].removesuffix(".py")
        if before == "trl" or (before in ("-m", "--module") and not word.startswith("torch.")):
            return word.rpartition(".")[2]
    return None


def _program(words: tuple[str, ...], given: Mapping[str, Json]) -> Format | None:
    """The program that a command runs, where the table has a row for it."""
    first = [word for word in words[:_BEFORE_ARGUMENTS] if not word.startswith("-")]
    for each in _PROGRAMS:
        patterns = each.programs + (each.scripts if each.scripts and is_of(each, given) else ())
        if any(fnmatchcase(word, pattern) for word in first for pattern in patterns):
            return each
    return None


def _flags(words: tuple[str, ...]) -> dict[str, Json]:
    """The long flags of a command: text, or true where nothing follows."""
    given: dict[str, Json] = {}
    for at, (word, following) in enumerate(zip(words, [*words[1:], "--"], strict=False)):
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            alone = following.startswith("-") and not following[1:2].isdigit()
            given[name.replace("-", "_")] = value if equals else True if alone else following
            if name in TARGETS and not equals and not alone:
                following_words = islice(words, at + 1, None)
                given[name] = list(takewhile(lambda each: not each.startswith("-"), following_words))
    return given


def _names(flag: str, given: Mapping[str, Json], words: tuple[str, ...], program: Format | None) -> bool:
    """Whether a flag names the config."""
    value = given.get(flag)
    if not isinstance(value, str) or not value:
        return False
    if flag == "config_file":
        return "launch" in words and any(word.endswith("accelerate") for word in words)
    if flag == "deepspeed" and program is not None and program.preset and is_name(value):
        return True
    return flag == "deepspeed_config" or value.endswith(_SUFFIXES) or "$" in value or bool(text_of(value))


def _plugin(words: tuple[str, ...], given: Mapping[str, Json]) -> bool:
    """Whether `accelerate launch` makes the config of its flags."""
    return "use_deepspeed" in given and "launch" in words


# The arguments of a command whose script reckons them from what its job's shell holds.


class Script(NamedTuple):
    """A text of commands, where it stands, and the variables that it is given."""

    text: str
    path: str
    variables: tuple[tuple[str, str], ...]


def script_of(shell: Shell) -> Script:
    """What a shell reads."""
    return Script(shell.text, shell.path, tuple(shell.told.items()))


@dataclass(frozen=True)
class AtRanks:
    """What gives the arguments of a command on so many ranks.

    With `--nnodes=$N --nproc_per_node=8` sixteen ranks are two nodes, whatever the script reckons from `$N`.
    """

    script: Script
    command: Command
    format: Format

    def __repr__(self) -> str:
        return f"AtRanks({self.script.path!r}, {self.command.offset})"

    def __call__(self, ranks: int) -> Given | None:
        """The arguments; None where no value of the variables makes it so many ranks."""
        found = _solved(self.script, self.command.offset, self.command.open, ranks)
        if found is None:
            return None
        command, values = found
        said = " and ".join(f"`{name}` is {value}" for name, value in values.items() if name.isidentifier())
        note = f"on {ranks} ranks {said} in the job's shell" if said else ""
        return given(self.format._replace(within=""), command.arguments)._replace(note=note)


@lru_cache(maxsize=64)
def _solved(
    script: Script, offset: int, names: tuple[str, ...], ranks: int
) -> tuple[Command, dict[str, str]] | None:
    budget = Budget(FOLDER)
    try:
        return solved(lambda values: _read(script, offset, values, budget), names, ranks)
    except SpentError:
        return None


def _read(script: Script, offset: int, values: Mapping[str, str], budget: Budget) -> Command | None:
    """The command that begins there, with such values in the job's shell."""
    found = commands_in(Shell(script.text, script.path, {**dict(script.variables), **values}, budget))
    return next((command for command in found if command.offset == offset), None)
