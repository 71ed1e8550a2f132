"""Document links from launch files to configs and schemas, and "go to definition" along these links."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.core.file_access import may_read_file
from dsconfig.job.consumers.accelerate_launch_file import BLOCK, LINK, is_launch_file
from dsconfig.launch.find_jobs import jobs_of_launch_file
from dsconfig.launch.located_config import find_config_link
from dsconfig.lsp.protocol import uri_from_path

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.document import Document
    from dsconfig.lsp.workspace import DocumentSnapshot, Workspace

_SCHEMA = "$schema"


class DocumentLink(NamedTuple):
    """A range of a text that links to a file or URL."""

    start: int
    end: int
    uri: str
    tooltip: str


def answer_document_link(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """Answer `textDocument/documentLink`."""
    snapshot = workspace.snapshot(params["textDocument"]["uri"])
    if snapshot is None:
        return []
    lines = snapshot.text.lines
    return [
        {"range": lines.range_between(link.start, link.end), "target": link.uri, "tooltip": link.tooltip}
        for link in document_links(snapshot)
    ]


def document_links(snapshot: DocumentSnapshot) -> Iterator[DocumentLink]:
    """Yield all links in a document."""
    document = snapshot.text.document
    yield from _links_to_configs(document)
    schema = document.node((_SCHEMA,))
    if schema is not None and isinstance(schema.value, str) and schema.value:
        uri = schema.value
        if "://" not in uri and not document.name.startswith("<"):
            path = os.path.join(os.path.dirname(document.name), uri)
            uri = uri_from_path(path) if may_read_file(path, document.name) else ""
        if uri.startswith(("https://", "http://", "file:///")):  # a local file, not one on another machine
            yield DocumentLink(*_span_without_quotes(document, *schema.span), uri, "Open the schema")


def _links_to_configs(document: Document) -> Iterator[DocumentLink]:
    """Yield links to the configs named by a launch file."""
    if is_launch_file(document.value()) and (target := find_config_link(document)) is not None:
        node = document.node((BLOCK, LINK))
        if node is not None and target[1].path is not None:
            yield DocumentLink(
                *_span_without_quotes(document, *node.span), uri_from_path(target[1].path), "Open the config"
            )
    try:
        jobs = list(jobs_of_launch_file(document))
    except OSError:
        return
    for job in jobs:
        if job.lookup is None or job.lookup.path is None:
            continue
        start, end = _span_of_config_path(document, job.reference, job.key, job.line)
        if start < end:
            yield DocumentLink(start, end, uri_from_path(job.lookup.path), "Open the config")


def _span_of_config_path(document: Document, path: str, key: str, line: int | None) -> tuple[int, int]:
    """Return the span of the config's path in a launch file."""
    if line is None:
        key_path = tuple(key.split("."))
        span = document.span(key_path) if document.has_path(key_path) else (0, len(document.text))
    else:
        lines = document.text.split("\n")
        line_start = len("\n".join(lines[: line - 1])) + (line > 1)
        span = line_start, len(document.text)
    start = document.text.find(path, *span)
    return (start, start + len(path)) if start >= 0 else (0, 0)


def _span_without_quotes(document: Document, start: int, end: int) -> tuple[int, int]:
    """Return a range without its surrounding quotes."""
    has_quotes = end - start >= 2 and document.text[start] in "\"'" and document.text[end - 1] in "\"'"
    return (start + 1, end - 1) if has_quotes else (start, end)


_TOP = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}


def answer_definition(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """Answer `textDocument/definition`."""
    snapshot = workspace.snapshot(params["textDocument"]["uri"])
    if snapshot is None:
        return []
    offset = snapshot.text.lines.offset_of(params["position"])
    return [
        {"uri": link.uri, "range": _TOP}
        for link in document_links(snapshot)
        if link.uri.startswith("file:") and link.start - 1 <= offset <= link.end + 1
    ]
