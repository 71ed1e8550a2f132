"""A config's text with suppressions of findings: as keys where it is strict JSON, else as comments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.suppressions import apply
from dsconfig.core.diagnostic import Diagnostic, Set
from dsconfig.document.document import LINE_END, line_starts
from dsconfig.document.edit import again, edited, same

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.document import Document

KEY = "$dsconfig"


class Silenced(NamedTuple):
    """The new text, and the findings that it does not silence."""

    text: str
    left: tuple[Diagnostic, ...]


def silenced(document: Document, found: Sequence[Diagnostic], *, comments: bool) -> Silenced:
    """The text with a suppression of each finding. `comments`: whether its readers take comments."""
    if not document.readable():  # a text that means nothing has no place for one
        return Silenced(document.text, tuple(found))
    return _by_comments(document, found) if comments else _by_keys(document, found)


def takes_comments(document: Document, reader: str) -> bool:
    """Whether a file is in a format with comments, by its name, and read by somebody who takes them."""
    if document.format == "yaml":
        return True
    return document.name.lower().endswith((".hjson", ".jsonc")) and reader == "deepspeed"


# -- as keys -----------------------------------------------------------------------------------------------


def _by_keys(document: Document, found: Sequence[Diagnostic]) -> Silenced:
    """With `"$dsconfig": {"ignore": {"a.key": ["DSC101"]}}`: what is found elsewhere later is still said."""
    config = document.value()
    block = config.get(KEY, {}) if isinstance(config, dict) else None
    if not isinstance(block, dict):
        return Silenced(document.text, tuple(found))
    by_key: dict[str, list[str]] = {}
    for each in found:
        by_key.setdefault(each.dotted, []).append(each.code)
    try:
        new = edited(document, (_entry(config, block, _merged(block.get("ignore", {}), by_key)),))
    except ValueError:  # the text gives no place for it
        return Silenced(document.text, tuple(found))
    return Silenced(new.text, apply(new, found).kept)


def _entry(config: Json, block: dict[str, Json], ignore: Json) -> Set:
    return Set((KEY, "ignore"), ignore) if KEY in config else Set((KEY,), {**block, "ignore": ignore})


def _merged(before: Json, by_key: dict[str, list[str]]) -> Json:
    """What is ignored from now on: a list of rules where all are for the whole file, else lists by key."""
    ignored = {"": before} if isinstance(before, list) else dict(before) if isinstance(before, dict) else {}
    for key, codes in by_key.items():
        here = ignored.get(key, [])
        known = here if isinstance(here, list) else []
        ignored[key] = [*known, *(code for code in dict.fromkeys(sorted(codes)) if code not in known)]
    return ignored[""] if list(ignored) == [""] else ignored


# -- as comments -------------------------------------------------------------------------------------------


class _Remark(NamedTuple):
    """A comment to write: about a line, at its end or above it; line 0 stands for the whole file."""

    line: int
    codes: tuple[str, ...]
    above: bool = False


def _by_comments(document: Document, found: Sequence[Diagnostic]) -> Silenced:
    """With a comment at the end of each line; above it where the end belongs to a text; else for the file."""
    lines = [_Remark(line, codes) for line, codes in _by_line(found).items()]
    _, refused = _written(document, lines)
    if refused:
        lines = [each._replace(above=each in refused) for each in lines]
        _, refused = _written(document, lines)
        lines = [each for each in lines if each not in refused]
    # What is said of the text stands at its first place, which a comment may be.
    wide = {each.code for each in found if each.location is None or each.code.startswith("DSC0")}
    text, left = document.text, tuple(found)
    for _ in range(2):
        remarks = [*lines, *([_Remark(0, tuple(sorted(wide)), above=True)] if wide else [])]
        text, refused = _written(document, remarks)
        if refused:
            return Silenced(document.text, tuple(found))
        left = _kept(document, text, remarks, found)
        if not left:
            break
        wide |= {each.code for each in left}
    return Silenced(text, left)


def _by_line(found: Iterable[Diagnostic]) -> dict[int, tuple[str, ...]]:
    by_line: dict[int, set[str]] = {}
    for each in found:
        if each.location is not None and not each.code.startswith("DSC0"):
            by_line.setdefault(each.location.line, set()).add(each.code)
    return {line: tuple(sorted(codes)) for line, codes in sorted(by_line.items())}


def _written(document: Document, remarks: Sequence[_Remark]) -> tuple[str, list[_Remark]]:
    """The text with the comments, and those of them that its reader does not take for comments."""
    mark, lines = _mark(document), _lines(document.text)
    head, columns = "\ufeff" * lines[0].startswith("\ufeff"), [0] * len(remarks)
    lines[0] = lines[0][len(head) :]
    end = LINE_END.search(document.text)
    for index, each in enumerate(remarks):
        comment = f"{mark} dsconfig: {'ignore' if each.line else 'ignore-file'}[{', '.join(each.codes)}]"
        line = lines[each.line - 1]
        body = line.rstrip("\r\n")
        if not each.line:
            columns[index] = len(head)
            head += comment + (end[0] if end else "\n")
        elif each.above:
            columns[index] = len(body) - len(body.lstrip())
            lines[each.line - 1] = f"{body[: columns[index]]}{comment}{end[0] if end else chr(10)}{line}"
        else:
            columns[index] = len(body) + 2
            lines[each.line - 1] = f"{body}  {comment}{line[len(body) :]}"
    starts = [0, *accumulate(map(len, [head, *lines]))]
    places = [starts[each.line] + column for each, column in zip(remarks, columns, strict=True)]
    text = head + "".join(lines)
    new = again(document, text)
    known = [span for span, _ in new.comments] if same(document.value(), new.value()) else []
    seen = _covered(places, known)
    return text, [each for each, is_seen in zip(remarks, seen, strict=True) if not is_seen]


def _covered(places: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[bool]:
    """Whether each place lies in a span; both in their order."""
    from bisect import bisect_right

    starts = sorted(start for start, _ in spans)
    ends = dict(spans)
    found = []
    for place in places:
        index = bisect_right(starts, place) - 1
        found.append(index >= 0 and place < ends[starts[index]])
    return found


def _kept(
    document: Document, text: str, remarks: Sequence[_Remark], found: Sequence[Diagnostic]
) -> tuple[Diagnostic, ...]:
    """The findings, on the lines where they stand in the new text, that it does not silence."""
    above = [each.line for each in remarks if each.above]
    return apply(again(document, text), [_moved(each, above) for each in found]).kept


def _moved(found: Diagnostic, above: Iterable[int]) -> Diagnostic:
    """The finding below the comments that were put above these lines."""
    place = found.location
    if place is None:
        return found
    down = sum(line <= place.line for line in above)
    return found._replace(location=place._replace(line=place.line + down))


def _lines(text: str) -> list[str]:
    """The lines with their ends, as places count them."""
    return [text[start:end] for start, end in pairwise((*line_starts(text), len(text)))]


def _mark(document: Document) -> str:
    """What begins a comment in this file."""
    if document.format == "yaml":
        return "#"
    first = next((text for _, text in document.comments if not text.startswith("/*")), "")
    if not first:
        return "#" if document.name.lower().endswith(".hjson") else "//"
    return "//" if first.startswith("//") else "#"
