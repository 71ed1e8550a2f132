"""Whether a fix may be made without being asked for."""

from __future__ import annotations

from collections.abc import Iterable

from dsconfig.checking.patches import edits
from dsconfig.checking.report import Report
from dsconfig.diagnostic import Diagnostic
from dsconfig.document import Document
from dsconfig.document.edit import Edit, EditError


def is_safe(found: Diagnostic, report: Report) -> bool:
    """Whether the finding's fix is safe in every release that is checked, and loses no comment."""
    if found.fix is None or not found.fix.safe or set(report.target.releases) - set(found.releases):
        return False
    if report.document is None or not report.document.comments:
        return True
    try:
        return not _loses_comment(report.document, edits(report.document, found.fix))
    except EditError:
        return True


def _loses_comment(document: Document, made: Iterable[Edit]) -> bool:
    return any(
        edit.start < span.end and span.start < edit.end and text.strip() not in edit.text
        for edit in made
        for span, text in document.comments
    )
