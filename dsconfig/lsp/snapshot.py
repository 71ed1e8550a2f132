"""What was found in one version of a text, and where that is for an editor."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from dsconfig.check.check import recheck
from dsconfig.fix.verify import holding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dsconfig.check.report import Report
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.lsp.open_documents import OpenText
    from dsconfig.resolve.replaced_values import Value


_USUAL = 8


class Judged:
    """A text, and the report of it. Its fixes are tried when they are asked for: that is what costs."""

    def __init__(self, text: OpenText, report: Report) -> None:
        self.text, self.report = text, report
        self.values: Mapping[str, Value] | None = None
        """The effective values, once they were asked for."""
        self._proven: dict[int, Diagnostic] = {}

    @property
    def world_size(self) -> int | None:
        """That of the job; None where it is not known."""
        return self.report.world_size or self.report.reader.processes

    @property
    def likely_world_size(self) -> int:
        """The same; else one at which the batch works, of a host's eight GPUs if that can be."""
        sizes = self.report.sizes
        if self.world_size is not None:
            return self.world_size
        if not sizes or _USUAL in sizes:
            return _USUAL
        return max((size for size in sizes if size <= _USUAL), default=sizes[0])

    @cached_property
    def model(self) -> str | None:
        """The model of the job, by its path or name, if somebody names it: memory is told of no other."""
        known = self.report.reader.known.model
        if known is not None and isinstance(known.named, str):
            return None if known.barred else known.named
        from dsconfig.resolve.launch_overrides import told

        try:
            return told(self.text.document, self.report.reader).model
        except (OSError, ValueError):
            return None

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """Where each finding stands, in code points."""
        return [
            (0, min(1, len(self.text.text))) if found.location is None else found.location[:2]
            for found in self.report
        ]

    def between(self, start: int, end: int) -> list[int]:
        """The numbers of the findings that touch a stretch of the text."""
        return [number for number, at in enumerate(self.places) if at[0] <= end and start <= at[1]]

    def proven(self, numbers: Sequence[int]) -> list[Diagnostic]:
        """These findings, with the fixes that were tried and do no harm."""
        left = [number for number in numbers if number not in self._proven]
        if left:
            wanted = [self.report[number] for number in left]
            shown = holding(self.report, partial(recheck, self.report), wanted)
            self._proven.update(zip(left, shown, strict=True))
        return [self._proven[number] for number in numbers]
