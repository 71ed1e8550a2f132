"""Document links from launch files to their configs, and to schemas."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.core.file_access import may_read
from dsconfig.job.consumers.accelerate_launch_file import BLOCK, LINK, is_launch_file
from dsconfig.launch.find_jobs import jobs_of
from dsconfig.launch.located_config import find_link
from dsconfig.lsp.protocol import uri_of

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.document import Document
    from dsconfig.lsp.workspace import Snapshot, Workspace

_SCHEMA = "$schema"


class Link(NamedTuple):
    """Range of a text that links to a file or an address."""

    start: int
    end: int
    uri: str
    tooltip: str


def answer(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """Answer `textDocument/documentLink`."""
    snapshot = workspace.snapshot(params["textDocument"]["uri"])
    if snapshot is None:
        return []
    lines = snapshot.text.lines
    return [
        {"range": lines.range(link.start, link.end), "target": link.uri, "tooltip": link.tooltip}
        for link in links(snapshot)
    ]


def links(snapshot: Snapshot) -> Iterator[Link]:
    """All links of a document."""
    document = snapshot.text.document
    yield from _configs(document)
    schema = document.node((_SCHEMA,))
    if schema is not None and isinstance(schema.value, str) and schema.value:
        uri = schema.value
        if "://" not in uri and not document.name.startswith("<"):
            path = os.path.join(os.path.dirname(document.name), uri)
            uri = uri_of(path) if may_read(path, document.name) else ""
        if uri.startswith(("https://", "http://", "file:///")):  # a local file, not one on another machine
            yield Link(*_unquoted(document, *schema.span), uri, "Open the schema")


def _configs(document: Document) -> Iterator[Link]:
    """Links to the configs that a launch file names."""
    if is_launch_file(document.value()) and (target := find_link(document)) is not None:
        node = document.node((BLOCK, LINK))
        if node is not None and target[1].path is not None:
            yield Link(*_unquoted(document, *node.span), uri_of(target[1].path), "Open the config")
    try:
        jobs = list(jobs_of(document))
    except OSError:
        return
    for job in jobs:
        if job.lookup is None or job.lookup.path is None:
            continue
        start, end = _path_span(document, job.reference, job.key, job.line)
        if start < end:
            yield Link(start, end, uri_of(job.lookup.path), "Open the config")


def _path_span(document: Document, path: str, key: str, line: int | None) -> tuple[int, int]:
    """Range in which a launch file has the path of its config."""
    if line is None:
        key_path = tuple(key.split("."))
        span = document.span(key_path) if document.has_path(key_path) else (0, len(document.text))
    else:
        lines = document.text.split("\n")
        line_start = len("\n".join(lines[: line - 1])) + (line > 1)
        span = line_start, len(document.text)
    start = document.text.find(path, *span)
    return (start, start + len(path)) if start >= 0 else (0, 0)


def _unquoted(document: Document, start: int, end: int) -> tuple[int, int]:
    """Range without its quotes."""
    has_quotes = end - start >= 2 and document.text[start] in "\"'" and document.text[end - 1] in "\"'"
    return (start + 1, end - 1) if has_quotes else (start, end)
