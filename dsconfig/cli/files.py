"""Reading a config and the files that go with it, and writing a result."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from dsconfig.cli.errors import refuse
from dsconfig.core.read_boundary import OUTSIDE, leads_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsconfig.core.json_types import JsonObject
    from dsconfig.document import Document


def read(name: str) -> Document:
    """The config; a path that cannot be read ends the run."""
    from dsconfig.launch.passed_path import read_config

    try:
        return read_stdin("<stdin>") if name == "-" else read_config(name)
    except OSError as error:
        refuse(f"{name}: {reason(error)}")


def read_stdin(name: str) -> Document:
    """The document on stdin, as a file of this name would be read.

    Raises:
        OSError: stdin cannot be read.
    """
    from dsconfig.core.file_bytes import MAX_SIZE
    from dsconfig.document import read_bytes

    if sys.stdin is None:
        raise OSError(9, "stdin is closed", "-")
    try:
        data = sys.stdin.buffer.read(MAX_SIZE + 1)
    except OSError as error:
        error.filename = "-"
        raise
    return read_bytes(data, name, "yaml" if name.lower().endswith((".yaml", ".yml")) else "json")


def mapping(name: str | None) -> JsonObject | None:
    """The JSON or YAML object in a file, None where no file is named."""
    from dsconfig.document.mapping_file import read_mapping

    if name is None:
        return None
    try:
        return read_mapping(name)
    except OSError as error:
        refuse(f"{name}: {reason(error)}")
    except ValueError as error:
        refuse(str(error))


def write(name: str, data: bytes) -> None:
    """Write a file whole or not at all; a path that cannot be written ends the run."""
    from dsconfig.document import atomic_write

    refuse_link(name)
    try:
        if is_stdout(name):  # another file in its place would lose what else is written there
            _refuse_commands(data)
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        atomic_write.sweep(os.path.dirname(os.path.realpath(name)))
        atomic_write.write(name, data)
    except OSError as error:
        refuse(f"{name}: {reason(error)}")


def _refuse_commands(data: bytes) -> None:
    from dsconfig.cli.output import refuse_commands

    try:
        text = data.decode()
    except UnicodeDecodeError:  # a picture
        return
    refuse_commands(text)


def is_stdout(name: str) -> bool:
    """Whether a name leads to the file that stdout is, as `/dev/stdout` does."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):  # no such file, or no stdout that is one
        return False


def refuse_link(name: str) -> None:
    """Refuse to write through a link that somebody put into a repository to have a file elsewhere changed."""
    if leads_out(name):
        refuse(f"{name} is a link to a file that {OUTSIDE}: name that file, if it is meant")


def refuse_input(name: str, *inputs: str | None, instead: str = "give another name") -> None:
    """Refuse to write over a file that something was read from, whatever it is called there."""
    for other in inputs:
        if other and _is_same(name, other):
            refuse(f"{name} is {'what stdin is' if other == '-' else other}, which is read: {instead}")


def refuse_inputs(
    name: str, document: Document, *others: str | None, instead: str = "give another name"
) -> None:
    """Refuse to write over a config, what it leads to or what leads to it, and these other files."""
    from dsconfig.launch.located_config import files_behind

    with suppress(OSError):  # whoever reads it says so
        refuse_input(name, *files_behind(document), *others, instead=instead)


def _is_same(name: str, other: str) -> bool:
    """Whether two names lead to one file: by links of either kind, or in other letters where that is one."""
    try:
        there = os.fstat(sys.stdin.fileno()) if other == "-" else os.stat(other)
        return stat.S_ISREG(there.st_mode) and os.path.samestat(os.stat(name), there)
    except (OSError, ValueError, AttributeError):  # there is none
        return False


def into_file(name: str, run: Callable[[], tuple[int, set[str]]]) -> int:
    """Run it, and write to a file what it would have written to stdout: whole, or not at all.

    `run` returns also which files it depends on: none of them is written over.
    """
    from contextlib import redirect_stdout
    from io import StringIO

    text = StringIO(newline="")
    with redirect_stdout(text):
        refuse_link(name)
        code, inputs = run()
    refuse_input(name, *sorted(inputs))
    try:
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    except OSError as error:
        refuse(f"{name}: {reason(error)}")
    write(name, text.getvalue().encode(errors="backslashreplace"))
    return code


def reason(error: OSError) -> str:
    """What went wrong with a file, without its name."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
