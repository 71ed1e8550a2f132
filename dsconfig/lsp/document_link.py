"""Document links, and the way from a launch file to its config."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.consumers.accelerate_launch_file import BLOCK, LINK, is_launch_file
from dsconfig.core.file_access import may_read
from dsconfig.launch.find_jobs import jobs_of
from dsconfig.launch.located_config import find_link
from dsconfig.lsp.protocol import uri_of

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.document import Document
    from dsconfig.lsp.workspace import Judged, Workspace

_SCHEMA = "$schema"


class Link(NamedTuple):
    """A stretch of a text that leads to a file, or to an address."""

    start: int
    end: int
    uri: str
    told: str


def answer(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """`textDocument/documentLink`."""
    judged = workspace.judged(params["textDocument"]["uri"])
    if judged is None:
        return []
    lines = judged.text.lines
    return [
        {"range": lines.range(link.start, link.end), "target": link.uri, "tooltip": link.told}
        for link in links(judged)
    ]


def links(judged: Judged) -> Iterator[Link]:
    """Every link of a text."""
    document = judged.text.document
    yield from _configs(document)
    schema = document.node((_SCHEMA,))
    if schema is not None and isinstance(schema.value, str) and schema.value:
        uri = schema.value
        if "://" not in uri and not document.name.startswith("<"):
            path = os.path.join(os.path.dirname(document.name), uri)
            uri = uri_of(path) if may_read(path, document.name) else ""
        if uri.startswith(("https://", "http://", "file:///")):  # of a file, on no other machine
            yield Link(*_inner(document, *schema.span), uri, "the schema")


def _configs(document: Document) -> Iterator[Link]:
    """The configs that a launch file names."""
    if is_launch_file(document.value()) and (found := find_link(document)) is not None:
        node = document.node((BLOCK, LINK))
        if node is not None and found[1].path is not None:
            yield Link(*_inner(document, *node.span), uri_of(found[1].path), "the config")
    try:
        jobs = list(jobs_of(document))
    except OSError:
        return
    for job in jobs:
        if job.lookup is None or job.lookup.path is None:
            continue
        start, end = _written(document, job.reference, job.key, job.line)
        if start < end:
            yield Link(start, end, uri_of(job.lookup.path), "the config")


def _written(document: Document, written: str, key: str, line: int | None) -> tuple[int, int]:
    """Where a launch file writes the path of its config."""
    if line is None:
        path = tuple(key.split("."))
        span = document.span(path) if document.has_path(path) else (0, len(document.text))
    else:
        lines = document.text.split("\n")
        start = len("\n".join(lines[: line - 1])) + (line > 1)
        span = start, len(document.text)
    at = document.text.find(written, *span)
    return (at, at + len(written)) if at >= 0 else (0, 0)


def _inner(document: Document, start: int, end: int) -> tuple[int, int]:
    """A stretch without its quotes."""
    quoted = end - start >= 2 and document.text[start] in "\"'" and document.text[end - 1] in "\"'"
    return (start + 1, end - 1) if quoted else (start, end)
