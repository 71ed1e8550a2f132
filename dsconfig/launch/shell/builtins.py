"""Built-in shell commands that change the state of the shell: `cd`, `set --`, `read`, `[ … ]` and others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from dsconfig.core.json_types import NamedTuple
from dsconfig.document.config_file_names import SCRIPTS
from dsconfig.launch.shell import expressions as shell_arithmetic
from dsconfig.launch.shell.expressions import contains_unknown_value
from dsconfig.launch.shell.variables import ShellVariables

SUCCESS, FAILURE, ASSUMED, UNKNOWN = "success", "failure", "assumed", "unknown"
"""Statuses of a command; commands other than tests are assumed to succeed."""


class ShellState(Protocol):
    """The shell state that built-in commands change."""

    values: ShellVariables
    folder: str
    """Directory entered with `cd`, relative to the directory in which the script starts."""
    status: str
    """Status of the last command."""
    stop: str
    """`exit`, `return` or `break`, if the current list of commands ends there."""


class BuiltinCall(NamedTuple):
    """A call of a built-in command: its words as written and expanded, and its here-documents."""

    raw: list[str]
    words: tuple[str, ...]
    bodies: tuple[str, ...]


def run_test_command(shell: ShellState, words: Iterable[str], *, is_double: bool) -> None:
    """Evaluate `[ … ]` or `[[ … ]]`, and set the shell's exit status."""
    result = shell.values.evaluate_condition(words, is_double=is_double)
    shell.status = UNKNOWN if result is None else SUCCESS if result else FAILURE


def run_arithmetic_command(shell: ShellState, text: str) -> None:
    """Evaluate `((…))` or `let`, and mark variables whose new value is unknown."""
    values = shell.values
    values.lexer.assigned.clear()
    result = values.lexer.evaluate_arithmetic(text, values.variables)
    values.apply_arithmetic_assignments(
        () if result is not None else shell_arithmetic.assigned_variables(text)
    )
    shell.status = UNKNOWN if result is None else SUCCESS if result else FAILURE


def _run_cd(shell: ShellState, call: BuiltinCall) -> None:
    if len(call.words) > 1:
        shell.folder = folder_after_cd(shell.folder, call.words[-1])


def _run_exit(shell: ShellState, call: BuiltinCall) -> None:
    shell.stop = "break" if call.words[0] in ("break", "continue") else call.words[0]


def _run_test(shell: ShellState, call: BuiltinCall) -> None:
    raw = call.raw
    run_test_command(shell, raw[1:-1] if raw[0] == "[" and raw[-1] == "]" else raw[1:], is_double=False)


def _run_true(shell: ShellState, call: BuiltinCall) -> None:
    shell.status = FAILURE if call.raw[0] == "false" else SUCCESS


def _run_let(shell: ShellState, call: BuiltinCall) -> None:
    for word in call.words[1:]:
        run_arithmetic_command(shell, word)


def _run_set(shell: ShellState, call: BuiltinCall) -> None:
    words = call.words
    if "--" in words:
        shell.values.set_positional_arguments(words[words.index("--") + 1 :])
    elif len(words) > 1 and not words[1].startswith(("-", "+")):
        shell.values.set_positional_arguments(words[1:])


def _run_shift(shell: ShellState, call: BuiltinCall) -> None:
    arguments, words = shell.values.variables.get("@"), call.words
    if arguments is not None:
        count = int(words[1]) if len(words) > 1 and words[1].isdecimal() and len(words[1]) < 4 else 1
        shell.values.set_positional_arguments(arguments[count:])


def _run_unset(shell: ShellState, call: BuiltinCall) -> None:
    for name in call.words[1:]:
        shell.values.unset_variable(name)


def _run_read(shell: ShellState, call: BuiltinCall) -> None:
    words = call.words
    names = [word for word in words[1:] if word.isidentifier()]
    if words[:2] == ("printf", "-v"):
        names = list(words[2:3])
    elif words[0] == "printf":
        return
    for name in names:
        shell.values.forget_variable(name)
    if words[0] == "read" and call.bodies and names:
        options = "".join(word[1:] for word in words[1:] if word.startswith("-"))
        _read_here_document(shell, options, names, call.bodies[-1])


def _read_here_document(shell: ShellState, options: str, names: list[str], body: str) -> None:
    """Read a here-document or here-string into variables."""
    values = shell.values
    origins = values.origins_of_last_expansion()
    separator = "".join(values.variables.get("IFS", ())[:1])
    if "d" in options:
        values.set_variable(names[-1], (body,), origins)
    elif not contains_unknown_value(body) and "a" in options:
        values.set_variable(names[-1], tuple(body.strip().split(separator or None)), origins)
    elif not contains_unknown_value(body):
        parts = body.strip().split(separator or None, len(names) - 1)
        for name, part in zip(names, [*parts, *[""] * len(names)], strict=False):
            values.set_variable(name, (part,), origins)


def _run_getopts(shell: ShellState, call: BuiltinCall) -> None:
    shell.status = UNKNOWN
    for name in call.words[2:3]:
        shell.values.forget_variable(name)


def _run_search_command(shell: ShellState, _: BuiltinCall) -> None:
    """Mark the exit status of `grep -q`, `command -v` or a similar command as unknown."""
    shell.status = UNKNOWN


BUILTINS: Mapping[str, Callable[[ShellState, BuiltinCall], None]] = {
    **dict.fromkeys(("cd", "pushd"), _run_cd),
    **dict.fromkeys(("exit", "return", "break", "continue"), _run_exit),
    **dict.fromkeys(("[", "test"), _run_test),
    **dict.fromkeys(("true", "false", ":"), _run_true),
    **dict.fromkeys(("read", "printf", "mapfile", "readarray"), _run_read),
    **dict.fromkeys(("grep", "which", "type", "hash", "command"), _run_search_command),
    "let": _run_let,
    "set": _run_set,
    "shift": _run_shift,
    "unset": _run_unset,
    "getopts": _run_getopts,
}


def folder_after_cd(folder: str, step: str) -> str:
    """Return the directory after a `cd`; empty if unknown."""
    if step.startswith("/") or "$" in step or step in ("-", "~"):
        return "" if "$" in step or step in ("-", "~") else step
    return f"{folder}/{step}" if folder else step


# Commands that start a script: `bash train.sh 4`, `srun ./train.sh`.

_STARTERS = frozenset(
    ("bash", "sh", "srun", "sbatch", "source", "exec", "nohup", "zsh", "qsub", "env", "time", "setsid")
)
"""Programs that start a script."""
_MAX_LEADING = 20
"""Number of leading words searched for the script that a command starts."""


def index_of_started_script(words: Sequence[str]) -> int | None:
    """Return the index of the script among a command's words, or None if it starts no script."""
    at = next((at for at, word in enumerate(words[:_MAX_LEADING]) if _is_script_name(word)), None)
    if at is None:
        return None
    programs = (os.path.basename(word) for word in words[:at] if _is_program_name(word))
    return at if all(program in _STARTERS for program in programs) else None


def _is_script_name(word: str) -> bool:
    return word.endswith(SCRIPTS) and not word.startswith("-")


def _is_program_name(word: str) -> bool:
    """Return whether a word may name a program, rather than be a flag or the value of a flag."""
    return not word.startswith("-") and "=" not in word and not word.isdecimal()
