"""The suppressions written in a file: a root `"$dsconfig"` block, or comments where the format has them.

"$dsconfig": {"ignore": ["DSC401", "unknown-key"]}                     the whole file
"$dsconfig": {"ignore": {"zero_optimization.stage": ["DSC4"]}}         a key and all below it
"$dsconfig": {"consumer": "transformers", "target": "0.16.9"}          see dsconfig.job.dsconfig_block
// dsconfig: ignore[DSC401, unknown-key]     at the end of a line, or alone above one
# dsconfig: ignore-file[DSC401]              the whole file, from any line
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.core.diagnostic import Diagnostic, Effect, Location
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import UnknownReleaseError, resolve
from dsconfig.document.document import location, location_of
from dsconfig.job.dsconfig_block import EXPECTED, KEY, fits

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath
    from dsconfig.document import Document, Span

CODE, NAME = "DSC008", "unused-suppression"
_COMMENT = r"dsconfig:\s*(ignore-file|ignore)\b(?:\s*\[([^][]*)\])?"
_COMMENT_MARKS = ("#", "//", "/*")


Place: TypeAlias = "int | str"
"""A line, a key with all below it, or the whole file, which is the empty key."""


class Suppression(NamedTuple):
    """One selector where it is written, and what it covers: a line, a key and all below it, or the file."""

    selector: str
    path: KeyPath
    location: Location | None
    line: int | None = None
    below: str = ""

    @property
    def place(self) -> Place:
        """What it covers."""
        return self.below if self.line is None else self.line


def places(found: Diagnostic, lengths: Container[int]) -> Iterator[Place]:
    """The places that a finding is at: the file, its line, and the keys that lead to it, of these lengths."""
    yield ""
    if found.location is not None:
        yield found.location.line
    dotted = found.dotted
    for end in range(1, len(dotted) + 1):
        if end in lengths and dotted[end : end + 1] in ("", ".", "["):
            yield dotted[:end]


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
    yield from _circumstances(document, block)
    match block.get("ignore", []):
        case list() as selectors:
            yield from _selectors(document, (KEY, "ignore"), selectors)
        case dict() as by_path:
            for below, selectors in by_path.items():
                yield from _selectors(document, (KEY, "ignore", below), selectors, below)
        case _:
            yield _malformed(document, (KEY, "ignore"), "a list of rules, or an object of such lists by key")


def _circumstances(document: Document, block: Mapping[object, object]) -> Iterator[Diagnostic]:
    """What is wrong with the keys beside `ignore`, which say how the config is read."""
    for key, value in block.items():
        path, where = (KEY, str(key)), location_of(document, (KEY, str(key)), "key")
        if key in EXPECTED:
            problem = None if fits(str(key), value) else f"expected {EXPECTED[str(key)]}"
            if key == "target" and problem is None:
                problem = _unknown_release(str(value))
            if problem:
                yield finding(
                    f"`{key}` is not understood: {problem}", path, where, "correct it, or remove it"
                )
        elif key != "ignore":
            told = f"expected one of {', '.join(('ignore', *EXPECTED))}"
            yield finding(f"`{key}` is not understood: {told}", path, where, "remove it")


def _unknown_release(text: str) -> str | None:
    try:
        resolve(text)
    except UnknownReleaseError as error:
        return str(error)
    return None


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
    lines = _Lines(document)
    for span, text in document.comments:
        for found in re.finditer(_COMMENT, text) if "dsconfig:" in text else ():
            place = location(document, span)
            selectors = [word.strip() for word in (found[2] or "").split(",") if word.strip()]
            if not selectors:
                example = f"name the rules: `dsconfig: {found[1]}[DSC401]`"
                yield finding("this suppression names no rule", (), place, example)
            line = None if found[1] == "ignore-file" else lines.meant(span)
            yield from (Suppression(selector, (), place, line) for selector in selectors)


class _Lines:
    """Which line each comment speaks of."""

    def __init__(self, document: Document) -> None:
        self.document, self.text = document, document.text
        self.said: list[int] = []
        """By line, the first from there on with something else on it than a comment, or the last."""

    def meant(self, span: Span) -> int:
        """The comment's own line, or the next with something on it where the comment stands alone."""
        start, end = self.document.position(span.start), self.document.position(span.end)
        if not self._starts_line(span.start) or not self._ends_line(span.end):
            return start.line
        return self._next(end.line + 1)

    def _starts_line(self, at: int) -> bool:
        while at and self.text[at - 1] not in "\r\n":
            at -= 1
            if not self.text[at].isspace():
                return False
        return True

    def _ends_line(self, at: int) -> bool:
        while at < len(self.text) and self.text[at] not in "\r\n":
            if not self.text[at].isspace():
                return False
            at += 1
        return True

    def _next(self, line: int) -> int:
        if not self.said:
            last = self.document.position(len(self.text)).line
            self.said = [last] * (last + 1)
            for number in range(last - 1, 0, -1):
                text = self.document.line(number).strip()
                alone = not text or text.startswith(_COMMENT_MARKS)
                self.said[number] = self.said[number + 1] if alone else number
        return self.said[line] if line < len(self.said) else line
