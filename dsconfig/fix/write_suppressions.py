"""Add suppressions to a config's text, as keys in strict JSON and as comments elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.suppressions import apply_suppressions
from dsconfig.core.diagnostic import Diagnostic, SetValue
from dsconfig.document.apply_operations import apply_operations, are_equal_for_parsers, reparse_document
from dsconfig.document.document import LINE_END, line_starts

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.document import Document

KEY = "$dsconfig"


class SuppressedText(NamedTuple):
    """A text with suppressions, and the diagnostics that remain unsuppressed."""

    text: str
    unsuppressed: tuple[Diagnostic, ...]


def add_suppressions(
    document: Document, diagnostics: Sequence[Diagnostic], *, comments: bool
) -> SuppressedText:
    """Add a suppression for each diagnostic, as a comment if `comments` says that the consumer accepts them."""
    if not document.is_readable():  # a text that does not parse has no place for a suppression
        return SuppressedText(document.text, tuple(diagnostics))
    return (
        _suppress_by_comments(document, diagnostics) if comments else _suppress_by_keys(document, diagnostics)
    )


def file_accepts_comments(document: Document, reader: str) -> bool:
    """Return whether both a file's format and its consumer accept comments."""
    if document.format == "yaml":
        return True
    return document.name.lower().endswith((".hjson", ".jsonc")) and reader == "deepspeed"


# -- as keys -----------------------------------------------------------------------------------------------


def _suppress_by_keys(document: Document, diagnostics: Sequence[Diagnostic]) -> SuppressedText:
    """Add `"$dsconfig": {"ignore": {"a.key": ["DSC101"]}}`, which does not affect other keys."""
    config = document.value()
    block = config.get(KEY, {}) if isinstance(config, dict) else None
    if not isinstance(block, dict):
        return SuppressedText(document.text, tuple(diagnostics))
    # By key and not for the whole file: a new diagnostic of the same rule elsewhere is still shown.
    by_key: dict[str, list[str]] = {}
    for each in diagnostics:
        by_key.setdefault(each.dotted, []).append(each.code)
    try:
        new = apply_operations(
            document,
            (_ignore_operation(config, block, _merge_ignore_lists(block.get("ignore", {}), by_key)),),
        )
    except ValueError:  # the text has no place for it
        return SuppressedText(document.text, tuple(diagnostics))
    return SuppressedText(new.text, apply_suppressions(new, diagnostics).kept)


def _ignore_operation(config: Json, block: dict[str, Json], ignore: Json) -> SetValue:
    return (
        SetValue((KEY, "ignore"), ignore) if KEY in config else SetValue((KEY,), {**block, "ignore": ignore})
    )


def _merge_ignore_lists(before: Json, by_key: dict[str, list[str]]) -> Json:
    """Return the merged value of `ignore`: a list of rules for the whole file, or lists by key."""
    ignored = {"": before} if isinstance(before, list) else dict(before) if isinstance(before, dict) else {}
    for key, codes in by_key.items():
        rules = ignored.get(key, [])
        existing = rules if isinstance(rules, list) else []
        ignored[key] = [*existing, *(code for code in dict.fromkeys(sorted(codes)) if code not in existing)]
    return ignored[""] if list(ignored) == [""] else ignored


# -- as comments -------------------------------------------------------------------------------------------


class _SuppressionComment(NamedTuple):
    """A comment to insert at the end of a line or above it; line 0 stands for the whole file."""

    line: int
    codes: tuple[str, ...]
    above: bool = False


def _suppress_by_comments(document: Document, diagnostics: Sequence[Diagnostic]) -> SuppressedText:
    """Add a comment for each diagnostic to its line, above the line if needed, or for the whole file."""
    lines = [_SuppressionComment(line, codes) for line, codes in _codes_by_line(diagnostics).items()]
    _, not_comments = _insert_comments(document, lines)
    if not_comments:
        lines = [each._replace(above=each in not_comments) for each in lines]
        _, not_comments = _insert_comments(document, lines)
        lines = [each for each in lines if each not in not_comments]
    # A diagnostic of the text (DSC0…) is shown at its first location, which may itself be in a comment:
    # suppress it for the whole file.
    file_codes = {each.code for each in diagnostics if each.location is None or each.code.startswith("DSC0")}
    text, unsuppressed = document.text, tuple(diagnostics)
    for _ in range(2):
        planned = [
            *lines,
            *([_SuppressionComment(0, tuple(sorted(file_codes)), above=True)] if file_codes else []),
        ]
        text, not_comments = _insert_comments(document, planned)
        if not_comments:
            return SuppressedText(document.text, tuple(diagnostics))
        unsuppressed = _unsuppressed_diagnostics(document, text, planned, diagnostics)
        if not unsuppressed:
            break
        file_codes |= {each.code for each in unsuppressed}
    return SuppressedText(text, unsuppressed)


def _codes_by_line(diagnostics: Iterable[Diagnostic]) -> dict[int, tuple[str, ...]]:
    by_line: dict[int, set[str]] = {}
    for each in diagnostics:
        if each.location is not None and not each.code.startswith("DSC0"):
            by_line.setdefault(each.location.line, set()).add(each.code)
    return {line: tuple(sorted(codes)) for line, codes in sorted(by_line.items())}


def _insert_comments(
    document: Document, remarks: Sequence[_SuppressionComment]
) -> tuple[str, list[_SuppressionComment]]:
    """Insert comments into the text, and return those that the parser does not recognize as comments."""
    mark, lines = _comment_marker(document), _lines_with_ends(document.text)
    head, columns = "\ufeff" * lines[0].startswith("\ufeff"), [0] * len(remarks)
    lines[0] = lines[0][len(head) :]
    line_end = LINE_END.search(document.text)
    for index, each in enumerate(remarks):
        comment = f"{mark} dsconfig: {'ignore' if each.line else 'ignore-file'}[{', '.join(each.codes)}]"
        line = lines[each.line - 1]
        body = line.rstrip("\r\n")
        if not each.line:
            columns[index] = len(head)
            head += comment + (line_end[0] if line_end else "\n")
        elif each.above:
            columns[index] = len(body) - len(body.lstrip())
            lines[each.line - 1] = (
                f"{body[: columns[index]]}{comment}{line_end[0] if line_end else chr(10)}{line}"
            )
        else:
            columns[index] = len(body) + 2
            lines[each.line - 1] = f"{body}  {comment}{line[len(body) :]}"
    starts = [0, *accumulate(map(len, [head, *lines]))]
    offsets = [starts[each.line] + column for each, column in zip(remarks, columns, strict=True)]
    text = head + "".join(lines)
    new = reparse_document(document, text)
    comment_spans = (
        [span for span, _ in new.comments] if are_equal_for_parsers(document.value(), new.value()) else []
    )
    recognized = _are_offsets_in_spans(offsets, comment_spans)
    return text, [each for each, is_comment in zip(remarks, recognized, strict=True) if not is_comment]


def _are_offsets_in_spans(offsets: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[bool]:
    """Return, for each sorted offset, whether one of the sorted spans contains it."""
    from bisect import bisect_right

    starts = sorted(start for start, _ in spans)
    ends = dict(spans)
    covered = []
    for offset in offsets:
        index = bisect_right(starts, offset) - 1
        covered.append(index >= 0 and offset < ends[starts[index]])
    return covered


def _unsuppressed_diagnostics(
    document: Document, text: str, remarks: Sequence[_SuppressionComment], diagnostics: Sequence[Diagnostic]
) -> tuple[Diagnostic, ...]:
    """Return the diagnostics that the new text does not suppress, with their new lines."""
    above = [each.line for each in remarks if each.above]
    return apply_suppressions(
        reparse_document(document, text), [_shift_diagnostic(each, above) for each in diagnostics]
    ).kept


def _shift_diagnostic(diagnostic: Diagnostic, above: Iterable[int]) -> Diagnostic:
    """Move a diagnostic down by the number of comments inserted above it."""
    location = diagnostic.location
    if location is None:
        return diagnostic
    shift = sum(line <= location.line for line in above)
    return diagnostic._replace(location=location._replace(line=location.line + shift))


def _lines_with_ends(text: str) -> list[str]:
    """Split a text into lines, keeping the line endings; lines are numbered as in diagnostic locations."""
    return [text[start:end] for start, end in pairwise((*line_starts(text), len(text)))]


def _comment_marker(document: Document) -> str:
    """Return the comment marker of the document's format."""
    if document.format == "yaml":
        return "#"
    first = next((text for _, text in document.comments if not text.startswith("/*")), "")
    if not first:
        return "#" if document.name.lower().endswith(".hjson") else "//"
    return "//" if first.startswith("//") else "#"
