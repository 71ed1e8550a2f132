"""Reading a config and the files that go with it, and writing a result."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.errors import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsconfig.document import Document
    from dsconfig.json_types import JsonObject


def read(name: str) -> Document:
    """The config; a path that cannot be read ends the run."""
    from dsconfig.document import read_file

    try:
        return read_stdin("<stdin>") if name == "-" else read_file(name)
    except OSError as error:
        refuse(f"{name}: {reason(error)}")


def read_stdin(name: str) -> Document:
    """The document on stdin, as a file of this name would be read.

    Raises:
        OSError: stdin cannot be read.
    """
    from dsconfig.document import MAX_SIZE, read_bytes

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
    from dsconfig.consumers.training_args import read_mapping

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
    from dsconfig.document import rewrite

    try:
        if is_stdout(name):  # another file in its place would lose what else is written there
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        rewrite.sweep(os.path.dirname(os.path.realpath(name)))
        rewrite.write(name, data)
    except OSError as error:
        refuse(f"{name}: {reason(error)}")


def is_stdout(name: str) -> bool:
    """Whether a name leads to the file that stdout is, as `/dev/stdout` does."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):  # no such file, or no stdout that is one
        return False


def refuse_input(name: str, *inputs: str | None) -> None:
    """Refuse to write over a file that something else was read from."""
    for other in inputs:
        if other and os.path.exists(name) and os.path.exists(other) and os.path.samefile(name, other):
            refuse(f"{name} is {other}, which is read: give another name")


def into_file(name: str, run: Callable[[], int]) -> int:
    """Run it, and write to a file what it would have written to stdout: whole, or not at all."""
    from contextlib import redirect_stdout
    from io import StringIO

    text = StringIO(newline="")
    with redirect_stdout(text):
        code = run()
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
