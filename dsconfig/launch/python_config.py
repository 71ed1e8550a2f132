"""Configs in Python sources: which library loads them, and the keys that only a run shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dsconfig.document.python_source import config_at, python_configs
from dsconfig.job.detect_consumer import Overwrite, Reader, consumer_of_content

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document import Document

SUFFIXES = (".py",)


def is_python(path: str) -> bool:
    """Whether the name is that of a Python source."""
    return path.lower().endswith(SUFFIXES)


def documents_in(data: bytes, path: str) -> list[Document]:
    """The configs in a Python source, as documents; empty where there is none, or the text is no Python."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return []
    return [each.document for each in python_configs(text, path)]


def reader_of(document: Document) -> Reader:
    """The library that loads a config of a Python source: the call that it is passed to says so, else its values."""
    config = config_at(document)
    if config is not None and config.consumer is not None:
        return Reader(config.consumer, config.why, "content")
    return consumer_of_content(document.value())


def unknown_in(document: Document) -> frozenset[KeyPath]:
    """The paths whose value only a run shows; one that ends in `*` stands for keys that the source does not show."""
    config = config_at(document)
    return frozenset() if config is None else config.unknown


def with_unknown(
    document: Document, overwrite: Callable[[str, Json], Overwrite | None] | None
) -> Callable[[str, Json], Overwrite | None]:
    """Answer for a key that the source leaves to the run; for others what programs of the repository write."""
    unknown = sorted(unknown_in(document), key=len)
    line = document.position(document.root.span.start).line if document.root else 1
    place = f"{document.name}:{line}"

    def found(path: str, config: Json) -> Overwrite | None:
        parts = tuple(path.split("."))
        for each in unknown:
            is_open = each[-1] == "*"
            above = each[:-1] if is_open else each
            if parts[: len(above)] == above and not (is_open and document.has_path(parts)):
                return Overwrite(path, place, absent_only=False)
        return None if overwrite is None else overwrite(path, config)

    return found
