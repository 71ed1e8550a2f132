"""The config that a launch file names, as the programs that are launched read it."""

from __future__ import annotations

from typing import NamedTuple

from dsconfig import document as reader
from dsconfig.consumers import HUGGING_FACE
from dsconfig.consumers.launch_file import linked
from dsconfig.document import Document


class Named(NamedTuple):
    """A config that a launch file names."""

    written: str
    """Its name, as the launch file writes it."""
    document: Document | None
    """None: there is no such file, seen from here."""
    consumer: str
    """Who reads it."""


def named(launch: Document, consumer: str) -> Named | None:
    """The config that a launch file names; None where it names none.

    Raises:
        OSError: the config cannot be read.
    """
    found = linked(launch)
    if found is None:
        return None
    written, path = found
    # The script may have a Trainer, which fills more than Accelerate alone.
    reads = consumer if consumer in HUGGING_FACE else "transformers"
    if path is None:
        return Named(written, None, reads)
    with open(path, "rb") as file:
        config = reader.read_bytes(file.read(reader.MAX_SIZE + 1), path, "json")  # whatever its name says
    return Named(written, config, reads)
