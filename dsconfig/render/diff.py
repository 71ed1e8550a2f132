"""The unified diff of two texts, in a time that grows with their length and not with its square.

Lines that occur once in both texts hold the others in place (Bram Cohen's patience diff). What lies between
two of them is compared line by line where it is short, and replaced as a whole where it is not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dsconfig.render.terminal import is_line_command

CONTEXT = 3
_SHORT = 64
"""Lines on either side up to which difflib, whose time is their product, may look."""


class Change(NamedTuple):
    """Lines `start` to `end` of the old text, for which those from `new_start` to `new_end` stand."""

    start: int
    end: int
    new_start: int
    new_end: int


def unified(old: str, new: str, old_name: str, new_name: str) -> Iterator[str]:
    """The diff as patch tools read it, line by line; nothing where the texts are the same.

    A line that would be a command in the log of a GitHub workflow is removed and added again: as context it
    would stand behind a blank, which hides nothing from the runner (`ActionCommand.TryParseV2`).
    """
    before, after = _lines(old), _lines(new)
    found = changes(before, after)
    if found and "::" in old:
        found = sorted((*found, *_commands(before, found)))
    for number, hunk in enumerate(_hunks(found)):
        if not number:
            yield f"--- {old_name}\n"
            yield f"+++ {new_name}\n"
        for line in _hunk(hunk, before, after):
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """The lines with their ends; only a line feed ends one, as patch tools count."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + [last] * bool(last)


# -- what changed ------------------------------------------------------------------------------------------


def changes(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    """The stretches that differ, in their order, with something the same between them."""
    found: list[Change] = []
    old_at = new_at = 0
    for old_line, new_line in (*_anchors(old, new), (len(old), len(new))):
        found += _between(old, new, Change(old_at, old_line, new_at, new_line))
        old_at, new_at = old_line, new_line
    return found


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that stand once in both texts: the longest choice that has one order in both."""
    where = _once(new)
    pairs = [(at, where[line]) for line, at in _once(old).items() if line in where]
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, at) in enumerate(pairs):
        length = bisect_left(ends, at)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [at]
        last[length : length + 1] = [number]
    chosen: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = before[number]
    return chosen[::-1]


def _once(lines: Sequence[str]) -> dict[str, int]:
    count = Counter(lines)
    return {line: at for at, line in enumerate(lines) if count[line] == 1}


def _between(old: Sequence[str], new: Sequence[str], gap: Change) -> Iterator[Change]:
    """What differs in one stretch."""
    start, end, new_start, new_end = gap
    while start < end and new_start < new_end and old[start] == new[new_start]:
        start, new_start = start + 1, new_start + 1
    while start < end and new_start < new_end and old[end - 1] == new[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    if start == end and new_start == new_end:
        return
    if start == end or new_start == new_end or max(end - start, new_end - new_start) > _SHORT:
        yield Change(start, end, new_start, new_end)
        return
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, old[start:end], new[new_start:new_end], autojunk=False)
    for tag, i, j, new_i, new_j in matcher.get_opcodes():
        if tag != "equal":
            yield Change(start + i, start + j, new_start + new_i, new_start + new_j)


def _commands(old: Sequence[str], found: Sequence[Change]) -> Iterator[Change]:
    """A change of each command among the lines that stay, into itself."""
    at = new_at = 0
    for change in (*found, Change(len(old), len(old), 0, 0)):
        for line in range(at, change.start):
            if any(map(is_line_command, old[line].split("\r"))):
                new = new_at + line - at
                yield Change(line, line + 1, new, new + 1)
        at, new_at = change.end, change.new_end


# -- how it is written -------------------------------------------------------------------------------------


def _hunks(found: Iterable[Change]) -> Iterator[list[Change]]:
    """The changes by hunk: those whose context meets stand in one."""
    hunk: list[Change] = []
    for change in found:
        if hunk and change.start - hunk[-1].end > 2 * CONTEXT:
            yield hunk
            hunk = []
        hunk.append(change)
    if hunk:
        yield hunk


def _hunk(hunk: list[Change], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    first, last = hunk[0], hunk[-1]
    lead = min(CONTEXT, first.start)
    trail = min(CONTEXT, len(old) - last.end)
    was = _range(first.start - lead, last.end + trail)
    now = _range(first.new_start - lead, last.new_end + trail)
    yield f"@@ -{was} +{now} @@\n"
    at = first.start - lead
    for change in hunk:
        yield from (f" {line}" for line in old[at : change.start])
        yield from (f"-{line}" for line in old[change.start : change.end])
        yield from (f"+{line}" for line in new[change.new_start : change.new_end])
        at = change.end
    yield from (f" {line}" for line in old[at : at + trail])


def _range(start: int, end: int) -> str:
    """The lines as a hunk's head counts them; one that is empty follows the line that is named."""
    if end - start == 1:
        return str(start + 1)
    return f"{start + (end > start)},{end - start}"
