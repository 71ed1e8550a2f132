"""Configs in Python sources: the library that loads them, and keys that are only known at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dsconfig.document.python_source import config_at, python_configs
from dsconfig.job.detect_consumer import Overwrite, Reader, consumer_of_content

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document import Document


def documents_in(data: bytes, path: str) -> list[Document]:
    """Return the configs in a Python source as documents; none if it is not valid Python."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return []
    return [each.document for each in python_configs(text, path)]


def reader_of(document: Document) -> Reader:
    """Return the library that loads a config: the one that the source passes it to, else a guess from its values."""
    config = config_at(document)
    if config is not None and config.consumer is not None:
        return Reader(config.consumer, config.why, "content")
    return consumer_of_content(document.value())


def unknown_in(document: Document) -> frozenset[KeyPath]:
    """Return the paths whose value is only known at run time; a final `*` stands for every key not in the source."""
    config = config_at(document)
    return frozenset() if config is None else config.unknown


def with_unknown(
    document: Document, overwrite: Callable[[str, Json], Overwrite | None] | None
) -> Callable[[str, Json], Overwrite | None]:
    """Return a function that reports an overwrite for unknown keys of the source, else calls `overwrite`."""
    unknown = sorted(unknown_in(document), key=len)
    line = document.position(document.root.span.start).line if document.root else 1
    location = f"{document.name}:{line}"

    def find_overwrite(path: str, config: Json) -> Overwrite | None:
        parts = tuple(path.split("."))
        for each in unknown:
            is_open = each[-1] == "*"
            prefix = each[:-1] if is_open else each
            if parts[: len(prefix)] == prefix and not (is_open and document.has_path(parts)):
                return Overwrite(path, location, absent_only=False)
        return None if overwrite is None else overwrite(path, config)

    return find_overwrite
