"""What the verbs share that work on one config: reading it, reading beside it, writing a result whole."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dsconfig.cli.errors import refuse

if TYPE_CHECKING:
    from argparse import _ActionsContainer
    from typing import Any

    from dsconfig.document import Document


def add_file(parser: _ActionsContainer) -> None:
    """Declare the config as the one argument."""
    parser.add_argument("file", metavar="FILE", help="the config, or `-` for stdin")


def read(name: str) -> Document:
    """The config; a path that cannot be read ends the run."""
    from dsconfig.document import MAX_SIZE, read_bytes, read_file

    if name == "-":
        return read_bytes(sys.stdin.buffer.read(MAX_SIZE + 1), "<stdin>")
    try:
        return read_file(name)
    except OSError as error:
        refuse(f"{name}: {reason(error)}")


def mapping(name: str | None) -> dict[str, Any] | None:
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
        rewrite.write(name, data)
    except OSError as error:
        refuse(f"{name}: {reason(error)}")


def reason(error: OSError) -> str:
    """What went wrong with a file, without its name."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
