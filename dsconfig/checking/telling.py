"""A report in words: what `dsconfig check` would show of the file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dsconfig.render import full
from dsconfig.render.style import Style
from dsconfig.render.summary import against, note, summary

if TYPE_CHECKING:
    from dsconfig.checking.report import Report

_PLAIN = Style()


def told(report: Report) -> str:
    """The findings, the notes, and the closing line; those of the files that this one names among them."""
    reports = (report, *report.children)
    judged = [each for each in reports if not each.foreign]
    counts = Counter[str](found.severity for each in judged for found in each.diagnostics)
    suppressed = sum(len(each.suppressed) for each in judged)
    notes = [report.target.note] if report.target.note else []
    for each in reports:
        notes += each.notes
        if each.world_sizes and not each.foreign:
            notes.append(f"{each.name} works at these world sizes: {each.world_sizes}")
    closing = summary(
        {**counts, "suppressed": suppressed},
        Counter(against(each.target, None) for each in judged),
        Counter(each.reader for each in judged).most_common(),
        _PLAIN,
    )
    found = "".join(full.render(reports, report.target, _PLAIN))
    return found + "".join(note(text, _PLAIN) for text in notes) + closing
