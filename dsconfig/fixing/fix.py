"""`fix`: check → take the fixes that do not overlap → edit → check again, until nothing is left to mend.

No edit is trusted: what the new text says is compared with what the fixes mean, and a fix that the text does
not carry is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from dsconfig import releases
from dsconfig.checking.check import check_document
from dsconfig.checking.patches import again, carried_out, edits, same
from dsconfig.checking.report import Report
from dsconfig.checking.source import is_text
from dsconfig.diagnostic import SEVERITIES, Diagnostic, Fix, Move, Operation, Remove, Replace
from dsconfig.document import Document, Format, read_text
from dsconfig.document.edit import Edit, EditError, apply
from dsconfig.releases import Target

if TYPE_CHECKING:
    from dsconfig.json_types import KeyPath


MOST_PASSES = 10
Judge: TypeAlias = Callable[[Document], Report]


@dataclass(frozen=True, slots=True)
class Mended:
    """A text, what was mended in it, and the report of what is left."""

    text: str
    applied: tuple[Diagnostic, ...]
    report: Report


def fix(
    text: str,
    unsafe: bool = False,
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    format: Format = "json",
) -> str:
    """The text of a config with its findings mended; what is not mended keeps its bytes.

    Only safe fixes are made, which change no value that DeepSpeed ends up using and lose nothing that is
    written, unless `unsafe` asks for all. The other arguments are those of `check`; `format` is `json` (with
    its dialects) or `yaml`.

    Raises:
        UnknownReleaseError: the target names no release.
        ValueError: this is no text but a path, or the consumer, world size or format is impossible.
    """
    if not is_text(text) and format == "json":
        raise ValueError(f"{text!r} is no config's text: read the file first")
    if format not in ("json", "yaml"):
        raise ValueError(f"unknown format {format!r}: expected json or yaml")
    chosen = target if isinstance(target, Target) else releases.resolve(target)
    reader = "deepspeed" if consumer is None else consumer

    def judge(document: Document) -> Report:
        return check_document(document, chosen, world_size=world_size, consumer=reader)

    return mend(read_text(text, format=format), judge, unsafe=unsafe).text


def mend(document: Document, judge: Judge, *, unsafe: bool = False) -> Mended:
    """Mend a document, as far as the findings of `judge` go and can be mended."""
    report = judge(document)
    applied: list[Diagnostic] = []
    seen = {document.text}
    for _ in range(MOST_PASSES):
        text, made = _pass(document, report, unsafe=unsafe)
        if text in seen:  # nothing was made, or two fixes undo each other
            break
        seen.add(text)
        applied += made
        document = again(document, text)
        report = judge(document)
    return Mended(document.text, tuple(applied), report)


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


# -- one pass ----------------------------------------------------------------------------------------------


def _pass(document: Document, report: Report, *, unsafe: bool) -> tuple[str, list[Diagnostic]]:
    """The text with every fix made that does not have to wait for another one."""
    if document.is_data or document.root is None:
        return document.text, []
    taken: list[_Taken] = []
    for wanted in _wanted(document, report, unsafe=unsafe):
        taken = _compatible(document, wanted)
        if taken:
            break
    while len(taken) > 1 and not _means(document, taken):  # as where nothing of a section would be left
        del taken[len(taken) // 2 :]
    return _edited(document, taken), [each.found for each in taken]


def _wanted(document: Document, report: Report, *, unsafe: bool) -> Iterator[list[Diagnostic]]:
    """The findings to mend, errors first. The text itself comes before its values: what a parser refuses was
    read by guessing.
    """
    found = [
        each
        for each in report.diagnostics
        if each.fix is not None and each.fix.operations and (unsafe or is_safe(each, report))
    ]
    yield [each for each in found if each.fix and isinstance(each.fix.operations[0], Replace)]
    if document.readable():
        yield sorted(found, key=lambda each: SEVERITIES.index(each.severity))


def _compatible(document: Document, wanted: list[Diagnostic]) -> list[_Taken]:
    """The fixes that the text carries, without those that meet one before them."""
    taken: list[_Taken] = []
    for found in wanted:
        assert found.fix is not None
        try:
            own = _Taken(found, found.fix, edits(document, found.fix), _paths(found.fix))
        except EditError:
            continue
        if not any(own.meets(other) for other in taken) and _means(document, [own]):
            taken.append(own)
    return taken


@dataclass(frozen=True, slots=True)
class _Taken:
    """A fix on its way into the text."""

    found: Diagnostic
    fix: Fix
    edits: list[Edit]
    paths: list[KeyPath]

    def meets(self, other: _Taken) -> bool:
        """Whether the two speak of one place; an edit that only inserts meets what it touches."""
        if any(_related(one, two) for one in self.paths for two in other.paths):
            return True
        return any(_meet(one, two) for one in self.edits for two in other.edits)


def _meet(one: Edit, two: Edit) -> bool:
    if one.start == one.end or two.start == two.end:
        return one.start <= two.end and two.start <= one.end
    return one.start < two.end and two.start < one.end


def _related(one: KeyPath, two: KeyPath) -> bool:
    length = min(len(one), len(two))
    return one[:length] == two[:length]


def _edited(document: Document, taken: list[_Taken]) -> str:
    return apply(document.text, [edit for each in taken for edit in each.edits])


def _means(document: Document, taken: list[_Taken]) -> bool:
    """Whether the new text holds what the fixes make of the old one's value."""
    try:
        value: Any = document.value()
        for each in taken:
            value = carried_out(value, each.fix.operations)
    except (KeyError, IndexError, TypeError, AttributeError):
        return False
    new = again(document, _edited(document, taken))
    if document.readable() and not new.readable():
        return False
    # A text past help grows comma by comma.
    textual = isinstance(taken[0].fix.operations[0], Replace)
    if textual and len(new.problems) >= len(document.problems):
        return False
    return same(new.value(), value)


def _paths(fix: Fix) -> list[KeyPath]:
    """The places that the fix speaks of; taking an item out of a list moves the others."""
    paths: list[KeyPath] = []
    for operation in fix.operations:
        paths += _touched(operation)
    return paths


def _touched(operation: Operation) -> list[KeyPath]:
    if isinstance(operation, Replace):
        return []
    path = operation.path
    if isinstance(operation, Remove | Move) and path and isinstance(path[-1], int):
        path = path[:-1]
    return [path, operation.to] if isinstance(operation, Move) else [path]
