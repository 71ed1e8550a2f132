"""Where in the text a finding is: spans and paths become locations with lines and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Location

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath
    from dsconfig.document import Document, Part, Span


def location(document: Document, span: Span) -> Location | None:
    """The location of a span; None where the source is a dict, which has no text."""
    if document.is_data:
        return None
    start, end = document.position(span.start), document.position(span.end)
    return Location(span.start, span.end, start.line, start.column, end.line, end.column)


def location_of(document: Document, path: KeyPath, part: Part = "value") -> Location | None:
    """The location of the value at a path, or of its key; see `location`."""
    return None if document.is_data else location(document, document.span(path, part))
