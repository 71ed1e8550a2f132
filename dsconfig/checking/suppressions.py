"""The suppressions written in a file: a root `"$dsconfig"` block, or comments where the format has them.

"$dsconfig": {"ignore": ["DSC401", "unknown-key"]}                     the whole file
"$dsconfig": {"ignore": {"zero_optimization.stage": ["DSC4"]}}         a key and all below it
// dsconfig: ignore[DSC401, unknown-key]     at the end of a line, or alone above one
# dsconfig: ignore-file[DSC401]              the whole file, from any line
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.checking.locate import location, location_of
from dsconfig.diagnostic import Diagnostic, Effect, Location

if TYPE_CHECKING:
    from dsconfig.document import Document, Span
    from dsconfig.json_types import KeyPath

CODE, NAME = "DSC008", "unused-suppression"
KEY = "$dsconfig"
_COMMENT = re.compile(r"dsconfig:\s*(ignore-file|ignore)\b(?:\s*\[([^\]]*)\])?")
_COMMENT_MARKS = ("#", "//", "/*")


class Suppression(NamedTuple):
    """One selector where it is written, and what it covers: a line, a key and all below it, or the file."""

    selector: str
    path: KeyPath
    location: Location | None
    line: int | None = None
    below: str = ""

    def covers(self, found: Diagnostic) -> bool:
        """Whether the finding is at the place that this entry covers."""
        if self.line is not None:
            return found.location is not None and found.location.line == self.line
        return not self.below or f"{found.dotted}.".startswith((f"{self.below}.", f"{self.below}["))


def written(document: Document) -> Iterator[Suppression | Diagnostic]:
    """Every suppression in the document; a finding where one is malformed."""
    yield from _comments(document)
    value = document.value()
    if isinstance(value, dict) and KEY in value:
        yield from _block(document, value[KEY])


def finding(message: str, path: KeyPath, location: Location | None, help: str = "remove it") -> Diagnostic:
    """A finding about a suppression."""
    return Diagnostic(CODE, NAME, Effect.IGNORED, message, path, help=help, location=location)


# -- the block ---------------------------------------------------------------------------------------------


def _block(document: Document, block: object) -> Iterator[Suppression | Diagnostic]:
    if not isinstance(block, dict):
        yield _malformed(document, (KEY,), "an object with the key `ignore`")
        return
    others = [key for key in block if key != "ignore"]
    yield from (_malformed(document, (KEY, key), "`ignore`, the only key") for key in others)
    match block.get("ignore", []):
        case list() as selectors:
            yield from _selectors(document, (KEY, "ignore"), selectors)
        case dict() as by_path:
            for below, selectors in by_path.items():
                yield from _selectors(document, (KEY, "ignore", below), selectors, below)
        case _:
            yield _malformed(document, (KEY, "ignore"), "a list of rules, or an object of such lists by key")


def _selectors(
    document: Document, path: KeyPath, selectors: object, below: str = ""
) -> Iterator[Suppression | Diagnostic]:
    if not isinstance(selectors, list):
        yield _malformed(document, path, "a list of rules")
        return
    for index, selector in enumerate(selectors):
        place = (*path, index)
        if isinstance(selector, str):
            yield Suppression(selector, place, location_of(document, place), below=below)
        else:
            yield _malformed(document, place, "the code or name of a rule")


def _malformed(document: Document, path: KeyPath, expected: str) -> Diagnostic:
    where = location_of(document, path, "key")
    return finding(
        f"this suppression is not understood: expected {expected}",
        path,
        where,
        f'write it as `"{KEY}": {{"ignore": ["DSC401"]}}`',
    )


# -- comments ----------------------------------------------------------------------------------------------


def _comments(document: Document) -> Iterator[Suppression | Diagnostic]:
    for span, text in document.comments:
        for found in _COMMENT.finditer(text) if "dsconfig:" in text else ():
            place = location(document, span)
            selectors = [word.strip() for word in (found[2] or "").split(",") if word.strip()]
            if not selectors:
                example = f"name the rules: `dsconfig: {found[1]}[DSC401]`"
                yield finding("this suppression names no rule", (), place, example)
            line = None if found[1] == "ignore-file" else _line_meant(document, span)
            yield from (Suppression(selector, (), place, line) for selector in selectors)


def _line_meant(document: Document, span: Span) -> int:
    """The comment's own line, or the next with something on it where the comment stands alone."""
    start, end = document.position(span.start), document.position(span.end)
    before = document.line(start.line)[: start.column - 1]
    after = document.line(end.line)[end.column - 1 :]
    if before.strip() or after.strip():
        return start.line
    line, last = end.line + 1, document.position(len(document.text)).line
    while line < last and (not (text := document.line(line).strip()) or text.startswith(_COMMENT_MARKS)):
        line += 1
    return line
