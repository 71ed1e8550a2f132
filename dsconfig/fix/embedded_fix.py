"""Fixes of a config that stands in a launch file as a text: a string, base64, a here-document of a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.check import check_document
from dsconfig.document.edit import again
from dsconfig.launch.located_config import editable, value_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsconfig.check.report import Report
    from dsconfig.document import Document
    from dsconfig.launch.located_config import Embedding


class Within(NamedTuple):
    """The text that stands in the launch file, where it does, and what judges it as its job reads it."""

    text: Document
    place: Embedding
    judge: Callable[[Document], Report]


def within(launch: Document, report: Report) -> Within | None:
    """The config that the reported launch file holds as a string; None where it holds none as one."""
    inside = editable(launch) if report.is_held and not launch.is_data else None
    if inside is None or inside.place is None:
        return None
    path = inside.place.path
    if path is not None and not isinstance(value_at(launch.value(), path), str):
        return None
    reader = inside.reader._replace(given=report.given, known=report.reader.known)
    wanted = {found.code for found in report}

    def judge(text: Document) -> Report:
        seen = check_document(text, report.target, world_size=report.world_size, consumer=reader)
        found = (each if each.code in wanted else each._replace(fix=None) for each in seen)
        return seen.replaced(diagnostics=tuple(found))

    return Within(again(inside.document, inside.document.text), inside.place, judge)
