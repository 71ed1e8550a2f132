"""Silencing findings inside the file: a root `"$dsconfig"` block, or comments where the format has them.

    "$dsconfig": {"ignore": ["DSC401", "unknown-key"]}                     the whole file
    "$dsconfig": {"ignore": {"zero_optimization.stage": ["DSC4"]}}         a key and all below it
    // dsconfig: ignore[DSC401, unknown-key]     at the end of a line, or alone above one
    # dsconfig: ignore-file[DSC401]              the whole file, from any line

Suppression comes after the verdict: what is silenced is kept apart, never lost. One that silences nothing is
itself a finding (DSC008), so that none outlives its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.diagnostic import Diagnostic, Effect, Location, Path

if TYPE_CHECKING:
    from dsconfig.document import Document, Span

CODE, NAME = "DSC008", "unused-suppression"
KEY = "$dsconfig"
_COMMENT = re.compile(r"dsconfig:\s*(ignore-file|ignore)\b(?:\s*\[([^\]]*)\])?")
_COMMENT_MARKS = ("#", "//", "/*")


class Suppression(NamedTuple):
    """The findings that stay, those that are silenced, and what is to be said of the suppressions."""

    kept: tuple[Diagnostic, ...]
    suppressed: tuple[Diagnostic, ...]
    unused: tuple[Diagnostic, ...]


class Entry(NamedTuple):
    """One selector where it is written, and what it covers: a line, a key and all below it, or the file."""

    selector: str
    path: Path
    location: Location | None
    line: int | None = None
    below: str = ""

    def covers(self, found: Diagnostic) -> bool:
        """Whether the finding is at the place that this entry speaks of."""
        if self.line is not None:
            return found.location is not None and found.location.line == self.line
        return not self.below or f"{found.dotted}.".startswith((f"{self.below}.", f"{self.below}["))


def apply(document: Document, diagnostics: Sequence[Diagnostic]) -> Suppression:
    """Part the findings into those that are kept and those that the document silences."""
    value = document.value()
    block = isinstance(value, dict) and KEY in value
    if not block and not any("dsconfig:" in text for _, text in document.comments):
        return Suppression(tuple(diagnostics), (), ())
    written = list(_comments(document))
    if isinstance(value, dict) and KEY in value:
        written += _block(document, value[KEY])
    entries = [entry for entry in written if isinstance(entry, Entry)]
    broken = [found for found in written if isinstance(found, Diagnostic)]
    return _part(diagnostics, entries, broken)


def _part(diagnostics: Sequence[Diagnostic], entries: list[Entry], broken: list[Diagnostic]) -> Suppression:
    from dsconfig.checking.select import catalogue, match

    rules = catalogue()
    codes = {entry: match(entry.selector, rules) for entry in entries}
    kept: list[Diagnostic] = []
    suppressed: list[Diagnostic] = []
    used: set[Entry] = set()
    for found in diagnostics:
        silencing = [entry for entry in entries if found.code in codes[entry] and entry.covers(found)]
        used.update(silencing)
        (suppressed if silencing else kept).append(found)
    unused: list[Diagnostic] = []
    idle = [entry for entry in entries if entry not in used and CODE not in codes[entry]]
    for found in broken + [_unused(entry, codes[entry], rules) for entry in idle]:
        silent = any(CODE in codes[entry] and entry.covers(found) for entry in entries)
        (suppressed if silent else unused).append(found)
    return Suppression(tuple(kept), tuple(suppressed), tuple(unused))


def _unused(entry: Entry, codes: frozenset[str], rules: Mapping[str, str]) -> Diagnostic:
    from dsconfig.checking.select import suggest

    if codes:
        return _say(f"the suppression `{entry.selector}` silences nothing", entry.path, entry.location)
    hint = suggest(entry.selector, rules)
    return _say(f"the suppression `{entry.selector}` names no rule{hint}", entry.path, entry.location)


def _say(message: str, path: Path, location: Location | None, help: str = "remove it") -> Diagnostic:
    return Diagnostic(CODE, NAME, Effect.IGNORED, message, path, help=help, location=location)


# -- the block ---------------------------------------------------------------------------------------------


def _block(document: Document, block: object) -> Iterator[Entry | Diagnostic]:
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
    document: Document, path: Path, selectors: object, below: str = ""
) -> Iterator[Entry | Diagnostic]:
    if not isinstance(selectors, list):
        yield _malformed(document, path, "a list of rules")
        return
    for index, selector in enumerate(selectors):
        place = (*path, index)
        if isinstance(selector, str):
            yield Entry(selector, place, _location(document, document.span(place)), below=below)
        else:
            yield _malformed(document, place, "the code or name of a rule")


def _malformed(document: Document, path: Path, expected: str) -> Diagnostic:
    where = _location(document, document.span(path, "key"))
    return _say(
        f"this suppression is not understood: expected {expected}",
        path,
        where,
        f'write it as `"{KEY}": {{"ignore": ["DSC401"]}}`',
    )


# -- comments ----------------------------------------------------------------------------------------------


def _comments(document: Document) -> Iterator[Entry | Diagnostic]:
    for span, text in document.comments:
        for found in _COMMENT.finditer(text) if "dsconfig:" in text else ():
            location = _location(document, span)
            selectors = [word.strip() for word in (found[2] or "").split(",") if word.strip()]
            if not selectors:
                example = f"name the rules: `dsconfig: {found[1]}[DSC401]`"
                yield _say("this suppression names no rule", (), location, example)
            line = None if found[1] == "ignore-file" else _line_meant(document, span)
            yield from (Entry(selector, (), location, line) for selector in selectors)


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


def _location(document: Document, span: Span) -> Location | None:
    if document.root is None:
        return None
    start, end = document.position(span.start), document.position(span.end)
    return Location(span.start, span.end, start.line, start.column, end.line, end.column)
