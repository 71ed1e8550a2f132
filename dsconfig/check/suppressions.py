"""Suppressions in a file: parse the "$dsconfig" block and comments, and apply them to the diagnostics."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.core.diagnostic import Diagnostic, Effect, Location
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import UnknownReleaseError, resolve
from dsconfig.document.document import location, location_of
from dsconfig.evaluation.context import MOST
from dsconfig.job.run_facts import DSCONFIG_KEY, EXPECTED_VALUES, is_valid_setting

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath
    from dsconfig.document import Document, Span


# Parts the findings into those that stay and those that the file itself silences.
#
# Suppression comes after the verdict: what is silenced is kept apart, never lost. A suppression that
# silences nothing is itself a finding (DSC008), so that none outlives its reason.


class Silenced(NamedTuple):
    """The findings that stay, those that are silenced, and the findings about the suppressions."""

    kept: tuple[Diagnostic, ...]
    suppressed: tuple[Diagnostic, ...]
    unused: tuple[Diagnostic, ...]
    cut: bool
    """Whether there is more to find than is listed."""


def apply(document: Document, diagnostics: Sequence[Diagnostic], *, cut: bool = False) -> Silenced:
    """Part the findings into those that are kept and those that the document silences.

    `cut`: there are more than these, so that nobody knows what a suppression silences.
    """
    found = list(written(document))
    if not found:
        return Silenced(tuple(diagnostics), (), (), cut)
    entries = [entry for entry in found if isinstance(entry, Suppression)]
    silencers = _Silencers(entries)
    kept: list[Diagnostic] = []
    suppressed: list[Diagnostic] = []
    for each in diagnostics:
        (suppressed if silencers.silence(each) else kept).append(each)
    about = [entry for entry in found if isinstance(entry, Diagnostic)]
    idle = [entry for entry in entries if not silencers.serves(entry, cut=cut)]
    about += [_unused(entry, silencers) for entry in idle[: MOST + 1]]
    unused: list[Diagnostic] = []
    for each in about[:MOST]:
        (suppressed if silencers.silence(each) else unused).append(each)
    return Silenced(tuple(kept), tuple(suppressed), tuple(unused), cut or len(about) > MOST)


class _Silencers:
    """The suppressions by the place that they cover, each selector once."""

    def __init__(self, entries: Iterable[Suppression]) -> None:
        from dsconfig.check.rule_selector import catalogue, match

        self.rules = catalogue()
        self.codes = {each: match(each, self.rules) for each in {entry.selector for entry in entries}}
        self.at: dict[Place, set[str]] = {}
        self.used: set[tuple[Place, str]] = set()
        for entry in entries:
            if self.codes[entry.selector]:
                self.at.setdefault(entry.place, set()).add(entry.selector)
        self.lengths = {len(place) for place in self.at if isinstance(place, str)}

    def silence(self, found: Diagnostic) -> bool:
        """Whether a suppression covers the finding; all that do are used."""
        silencing = list(self._covering(found))
        self.used.update(silencing)
        return bool(silencing)

    def _covering(self, found: Diagnostic) -> Iterator[tuple[Place, str]]:
        for place in places(found, self.lengths):
            for selector in self.at.get(place, ()):
                if found.code in self.codes[selector]:
                    yield place, selector

    def serves(self, entry: Suppression, *, cut: bool) -> bool:
        """Whether the suppression is used, or speaks of findings like the one that it is unused."""
        codes = self.codes[entry.selector]
        return (entry.place, entry.selector) in self.used or CODE in codes or (cut and bool(codes))


def _unused(entry: Suppression, silencers: _Silencers) -> Diagnostic:
    from dsconfig.check.rule_selector import suggest

    said = f"the suppression `{entry.selector}`"
    if silencers.codes[entry.selector]:
        return finding(f"{said} silences nothing", entry.path, entry.location)
    hint = suggest(entry.selector, silencers.rules)
    return finding(f"{said} names no rule{hint}", entry.path, entry.location)


# The suppressions written in a file: a root `"$dsconfig"` block, or comments where the format has them.
#
# "$dsconfig": {"ignore": ["DSC401", "unknown-key"]} the whole file "$dsconfig": {"ignore":
# {"zero_optimization.stage": ["DSC4"]}} a key and all below it "$dsconfig": {"consumer": "transformers",
# "target": "0.16.9"} see dsconfig.job.run_facts // dsconfig: ignore[DSC401, unknown-key] at the end of
# a line, or alone above one # dsconfig: ignore-file[DSC401] the whole file, from any line

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
    if isinstance(value, dict) and DSCONFIG_KEY in value:
        yield from _block(document, value[DSCONFIG_KEY])


def finding(message: str, path: KeyPath, location: Location | None, help: str = "remove it") -> Diagnostic:
    """A finding about a suppression."""
    return Diagnostic(CODE, NAME, Effect.IGNORED, message, path, help=help, location=location)


# -- the block ---------------------------------------------------------------------------------------------


def _block(document: Document, block: object) -> Iterator[Suppression | Diagnostic]:
    if not isinstance(block, dict):
        yield _malformed(document, (DSCONFIG_KEY,), "an object with the key `ignore`")
        return
    yield from _circumstances(document, block)
    match block.get("ignore", []):
        case list() as selectors:
            yield from _selectors(document, (DSCONFIG_KEY, "ignore"), selectors)
        case dict() as by_path:
            for below, selectors in by_path.items():
                yield from _selectors(document, (DSCONFIG_KEY, "ignore", below), selectors, below)
        case _:
            yield _malformed(
                document, (DSCONFIG_KEY, "ignore"), "a list of rules, or an object of such lists by key"
            )


def _circumstances(document: Document, block: Mapping[object, object]) -> Iterator[Diagnostic]:
    """What is wrong with the keys beside `ignore`, which say how the config is read."""
    for key, value in block.items():
        path, where = (DSCONFIG_KEY, str(key)), location_of(document, (DSCONFIG_KEY, str(key)), "key")
        if key in EXPECTED_VALUES:
            problem = None if is_valid_setting(str(key), value) else f"expected {EXPECTED_VALUES[str(key)]}"
            if key == "target" and problem is None:
                problem = _unknown_release(str(value))
            if problem:
                yield finding(
                    f"`{key}` is not understood: {problem}", path, where, "correct it, or remove it"
                )
        elif key != "ignore":
            told = f"expected one of {', '.join(('ignore', *EXPECTED_VALUES))}"
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
        f'write it as `"{DSCONFIG_KEY}": {{"ignore": ["DSC401"]}}`',
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
