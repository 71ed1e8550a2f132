"""Built-in commands that change what is known of a script: `cd`, `set --`, `read`, `[ … ]` and others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from dsconfig.core.json_types import NamedTuple
from dsconfig.launch.shell import arithmetic as shell_arithmetic
from dsconfig.launch.shell.test_expressions import is_unknown
from dsconfig.launch.shell.variables import Values

SUCCESS, FAILURE, ASSUMED, UNKNOWN = "success", "failure", "assumed", "unknown"
"""Statuses of a command. Commands other than tests are assumed to succeed."""


class Shell(Protocol):
    """State of a shell that built-in commands change."""

    values: Values
    folder: str
    """Directory that `cd` has entered, relative to the script's start."""
    status: str
    """Status of the last command."""
    stop: str
    """`exit`, `return` or `break`, if the current list of commands ends there."""


class Call(NamedTuple):
    """A call of a built-in command: its words as written and expanded, and its here-documents."""

    raw: list[str]
    words: tuple[str, ...]
    bodies: tuple[str, ...]


def run_test(shell: Shell, words: Iterable[str], *, is_double: bool) -> None:
    """Evaluate `[ … ]` or `[[ … ]]`."""
    result = shell.values.condition(words, is_double=is_double)
    shell.status = UNKNOWN if result is None else SUCCESS if result else FAILURE


def calculate(shell: Shell, text: str) -> None:
    """Evaluate `((…))` or `let`; what it changes to an unknown value is forgotten."""
    values = shell.values
    values.lexer.assigned.clear()
    result = values.lexer.arithmetic(text, values.variables)
    values.apply_arithmetic(() if result is not None else shell_arithmetic.assigned_names(text))
    shell.status = UNKNOWN if result is None else SUCCESS if result else FAILURE


def _cd(shell: Shell, call: Call) -> None:
    if len(call.words) > 1:
        shell.folder = enter_folder(shell.folder, call.words[-1])


def _end(shell: Shell, call: Call) -> None:
    shell.stop = "break" if call.words[0] in ("break", "continue") else call.words[0]


def _test(shell: Shell, call: Call) -> None:
    raw = call.raw
    run_test(shell, raw[1:-1] if raw[0] == "[" and raw[-1] == "]" else raw[1:], is_double=False)


def _true(shell: Shell, call: Call) -> None:
    shell.status = FAILURE if call.raw[0] == "false" else SUCCESS


def _let(shell: Shell, call: Call) -> None:
    for word in call.words[1:]:
        calculate(shell, word)


def _set(shell: Shell, call: Call) -> None:
    words = call.words
    if "--" in words:
        shell.values.set_arguments(words[words.index("--") + 1 :])
    elif len(words) > 1 and not words[1].startswith(("-", "+")):
        shell.values.set_arguments(words[1:])


def _shift(shell: Shell, call: Call) -> None:
    arguments, words = shell.values.variables.get("@"), call.words
    if arguments is not None:
        count = int(words[1]) if len(words) > 1 and words[1].isdecimal() and len(words[1]) < 4 else 1
        shell.values.set_arguments(arguments[count:])


def _unset(shell: Shell, call: Call) -> None:
    for name in call.words[1:]:
        shell.values.unset(name)


def _read(shell: Shell, call: Call) -> None:
    words = call.words
    names = [word for word in words[1:] if word.isidentifier()]
    if words[:2] == ("printf", "-v"):
        names = list(words[2:3])
    elif words[0] == "printf":
        return
    for name in names:
        shell.values.forget(name)
    if words[0] == "read" and call.bodies and names:
        options = "".join(word[1:] for word in words[1:] if word.startswith("-"))
        _read_body(shell, options, names, call.bodies[-1])


def _read_body(shell: Shell, options: str, names: list[str], body: str) -> None:
    """Read a here-document or here-string into variables."""
    values = shell.values
    origins = values.last_origins()
    separator = "".join(values.variables.get("IFS", ())[:1])
    if "d" in options:
        values.set(names[-1], (body,), origins)
    elif not is_unknown(body) and "a" in options:
        values.set(names[-1], tuple(body.strip().split(separator or None)), origins)
    elif not is_unknown(body):
        parts = body.strip().split(separator or None, len(names) - 1)
        for name, part in zip(names, [*parts, *[""] * len(names)], strict=False):
            values.set(name, (part,), origins)


def _getopts(shell: Shell, call: Call) -> None:
    shell.status = UNKNOWN
    for name in call.words[2:3]:
        shell.values.forget(name)


def _search(shell: Shell, _: Call) -> None:
    """Run `grep -q`, `command -v` and the like: whether they succeed is a condition."""
    shell.status = UNKNOWN


BUILTINS: Mapping[str, Callable[[Shell, Call], None]] = {
    **dict.fromkeys(("cd", "pushd"), _cd),
    **dict.fromkeys(("exit", "return", "break", "continue"), _end),
    **dict.fromkeys(("[", "test"), _test),
    **dict.fromkeys(("true", "false", ":"), _true),
    **dict.fromkeys(("read", "printf", "mapfile", "readarray"), _read),
    **dict.fromkeys(("grep", "which", "type", "hash", "command"), _search),
    "let": _let,
    "set": _set,
    "shift": _shift,
    "unset": _unset,
    "getopts": _getopts,
}


def enter_folder(folder: str, step: str) -> str:
    """Directory after a `cd`; empty if unknown."""
    if step.startswith("/") or "$" in step or step in ("-", "~"):
        return "" if "$" in step or step in ("-", "~") else step
    return f"{folder}/{step}" if folder else step
