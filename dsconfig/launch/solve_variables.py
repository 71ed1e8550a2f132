"""The arguments of a command whose script reckons them from what its job's shell holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from dsconfig.core.json_types import NamedTuple
from dsconfig.job.detect_consumer import Given
from dsconfig.launch.command import Command, commands_in
from dsconfig.launch.format_row import Format
from dsconfig.launch.process_count import solved
from dsconfig.launch.reading_budget import FOLDER, Budget, SpentError
from dsconfig.launch.shell_interpreter import Shell
from dsconfig.launch.training_arguments import given


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
