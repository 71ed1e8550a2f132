"""What is odd in a YAML text, and where PyYAML's nodes stand in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.document.tree import ONLY_YAML, Parser, Problem, Span

if TYPE_CHECKING:
    import yaml

    from dsconfig.core.json_types import KeyPath


class Notes:
    """The oddities of one text. `shift`: length of the byte order mark that PyYAML is not given."""

    __slots__ = ("problems", "shift", "text")

    def __init__(self, text: str, shift: int) -> None:
        self.text, self.shift = text, shift
        self.problems: list[Problem] = []

    def note(
        self,
        kind: str,
        span: Span,
        detail: str = "",
        refused_by: frozenset[Parser] = ONLY_YAML,
        path: KeyPath = (),
    ) -> None:
        """Keep an oddity as data."""
        end = min(span.end, len(self.text))
        self.problems.append(Problem(kind, Span(min(span.start, end), end), path, detail, refused_by))

    def place(self, node: yaml.Node) -> Span:
        """Where a node stands. The marks of block collections and block scalars run on to the next token."""
        start, end = node.start_mark.index + self.shift, node.end_mark.index + self.shift
        return Span(start, start + len(self.text[start:end].rstrip()))
