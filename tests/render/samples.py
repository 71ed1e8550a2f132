"""Reports made by hand."""

from __future__ import annotations

from typing import NamedTuple

from dsconfig.core.diagnostic import Diagnostic, Effect, Location
from dsconfig.document import Document
from dsconfig.document.located_tree import LocatedTree
from dsconfig.render.report_protocols import JobSummary
from dsconfig.rules import RULES, Rule


class Target(NamedTuple):
    text: str
    releases: tuple[str, ...] = ("0.19.8",)
    origin: str = "latest"
    source: str = ""


class Source(NamedTuple):
    text: str


class Reader(NamedTuple):
    name: str = "deepspeed"
    why: str = 'no value is "auto"'
    origin: str = "default"
    likely: bool = True

    def __str__(self) -> str:
        return f"read by {self.name}: {self.why}"


class Report(NamedTuple):
    name: str
    diagnostics: tuple[Diagnostic, ...]
    target: Target
    document: Source | None
    reader: Reader = Reader()
    why_not_config: str | None = None
    read_error: str | None = None
    summary: JobSummary | None = None

    def edits(self, diagnostic: Diagnostic) -> tuple[tuple[int, int, str], ...]:
        return ((0, 1, diagnostic.message),) if diagnostic.fix and self.document else ()

    def rule(self, code: str) -> Rule | None:
        return RULES.get(code)


def place(text: str, snippet: str, length: int | None = None) -> Location:
    """Where `snippet` first stands in the text; an empty one stands at the end."""
    start = text.index(snippet) if snippet else len(text)
    return location(text, start, start + (len(snippet) if length is None else length))


def location(text: str, start: int, end: int) -> Location:
    document = Document("", text, "json", LocatedTree(None, ()))
    first, last = document.position(start), document.position(end)
    return Location(start, end, first.line, first.column, last.line, last.column)


def found(text: str, snippet: str) -> Report:
    """A report with one finding at the place of `snippet`."""
    diagnostic = Diagnostic(
        "DSC101", "unknown-key", Effect.IGNORED, "no such key", location=place(text, snippet)
    )
    return Report("a.json", (diagnostic,), Target("0.19.8"), Source(text))
