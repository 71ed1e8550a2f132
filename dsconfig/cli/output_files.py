"""Write output: the new text of a config, a unified diff or a plot.

In a diff, lines that occur once in both texts are anchors (Bram Cohen's patience diff). Short gaps between two anchors
are compared line by line, and long gaps are replaced as a whole, so that the time is linear.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dsconfig.cli.errors import fail_with_usage_error
from dsconfig.document import Document
from dsconfig.document.atomic_write import rewrite_if_unchanged
from dsconfig.render.matplotlib_output import SUFFIXES
from dsconfig.render.terminal_style import is_line_command

# New text of a config: to stdout, into the file, or as a diff.

CI_VARIABLES = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Environment variables that CI services set; elsewhere, a diff with `##vso[...]` may be piped into `patch`."""
_LONGEST = 60
"""Maximal number of characters of a line that a message shows."""


def write_text(text: str) -> None:
    """Write the text of a config to stdout as UTF-8, regardless of stdout's encoding.

    Raises:
        UsageError: a CI service that logs the output would execute a line of it.
    """
    forbid_ci_commands(text)
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.stdout.buffer.flush()  # before anything on stderr


def rewrite_document(name: str, document: Document, text: str) -> None:
    """Write the new text of a document to its file, or to stdout for `-`.

    Raises:
        OSError: the file cannot be written, or has changed since it was read.
    """
    if name == "-":
        write_text(text)
    elif text != document.file_text:
        rewrite_if_unchanged(name, document.file_text.encode(), text.encode())


def is_lossless(document: Document) -> bool:
    """Return whether the text can be written back without loss, that is, the file was valid UTF-8."""
    return not any(problem.kind in ("invalid-utf8", "not-text") for problem in document.problems)


def check_output_format(document: Document, name: str) -> None:
    """Reject an output file that would lose bytes, or whose suffix is that of another format."""
    if not is_lossless(document):
        fail_with_usage_error(f"{document.name} is not UTF-8 text")
    suffix = os.path.splitext(name)[1].lower()
    if document.format == "yaml" and suffix in (".json", ".jsonc", ".hjson"):
        fail_with_usage_error(
            f"{name}: {document.name} is YAML and is not converted; choose a name that ends in .yaml"
        )
    if document.format != "yaml" and suffix in (".yaml", ".yml"):
        fail_with_usage_error(
            f"{name}: {document.name} is not YAML and is not converted; choose a name that ends in .json"
        )


def unified_diff(name: str, old: str, new: str) -> Iterator[str]:
    """Yield the lines of a unified diff of two texts."""

    return unified_diff_lines(old, new, _file_name_in_diff(f"a/{name}"), _file_name_in_diff(f"b/{name}"))


def print_diff(lines: Iterable[str]) -> None:
    """Print a diff, escaping control characters on a terminal.

    Elsewhere the lines stay as they are, so that the diff can be applied.

    Raises:
        UsageError: a CI service that logs the output would execute a line of it.
    """
    from dsconfig.render.terminal_style import escape_invisible, use_utf8

    if sys.stdout.isatty():
        sys.stdout.writelines(map(escape_invisible, lines))
        return
    text = "".join(lines)
    forbid_ci_commands(text, anywhere=any(os.environ.get(name) for name in CI_VARIABLES))
    use_utf8(sys.stdout)
    sys.stdout.write(text)


def forbid_ci_commands(text: str, *, anywhere: bool = True) -> None:
    """Reject text with lines that a CI service reading the log would execute.

    `anywhere` also looks for commands in the middle of a line (`##vso[...]`).

    Raises:
        UsageError: a line is a command, and stdout is not a file.
    """
    from dsconfig.render.terminal_style import is_agent_command, is_line_command

    if _is_stdout_redirected():
        return
    for line in re.split(r"[\r\n]", text):
        if is_line_command(line) or (anywhere and is_agent_command(line)):
            shown = line.strip()
            shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
            fail_with_usage_error(
                f"CI services would execute a line of the output, `{shown}`; write the output to a file"
            )


def _is_stdout_redirected() -> bool:
    """Return whether stdout is redirected to a file, which no CI service reads."""
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):  # stdout has no descriptor
        return False


def _file_name_in_diff(name: str) -> str:
    """Return a file name as git writes it, quoted and escaped if it contains unprintable characters."""
    if not name.isprintable() or any(mark in name for mark in ('"', "\\", "##")):
        quoted = (_escape_character(char) for char in name)
        return f'"{"".join(quoted)}"'
    return f"{name}\t" if " " in name else name  # patch takes the text after a blank for a date


def _escape_character(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable() and char != "#":  # `##` starts a command of CI services
        return char
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(char))


# Plots.

NEEDS_MATPLOTLIB = "--plot needs matplotlib: install `deepspeed-config[plot]`"


def plot_suffix(name: str | None) -> str:
    """Return the suffix of the plot file, or "" without one; end the run with an error if it is unknown."""
    if name is None:
        return ""
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in SUFFIXES:
        fail_with_usage_error(f"--plot {name}: expected a file that ends in {' or '.join(SUFFIXES)}")
    return suffix


CONTEXT = 3
_SHORT = 64
"""Maximal number of lines of a gap that difflib compares, whose time is quadratic."""


class ChangedLineRange(NamedTuple):
    """A change that replaces lines `start` to `end` of the old text with `new_start` to `new_end` of the new one."""

    start: int
    end: int
    new_start: int
    new_end: int


def unified_diff_lines(old: str, new: str, old_name: str, new_name: str) -> Iterator[str]:
    """Yield the lines of a unified diff, or nothing if the texts are equal.

    A line that GitHub's runner would execute as a command is removed and added again: a context line only gets a
    leading blank, which the runner ignores (`ActionCommand.TryParseV2`).
    """
    before, after = _split_lines(old), _split_lines(new)
    changed = changed_lines(before, after)
    if changed and "::" in old:
        changed = sorted((*changed, *_command_lines(before, changed)))
    for number, hunk in enumerate(_group_into_hunks(changed)):
        if not number:
            yield f"--- {old_name}\n"
            yield f"+++ {new_name}\n"
        for line in _format_hunk(hunk, before, after):
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _split_lines(text: str) -> list[str]:
    """Split a text into lines, keeping the line endings; as in patch tools, only a line feed ends a line."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + [last] * bool(last)


# -- changes -----------------------------------------------------------------------------------------------


def changed_lines(old: Sequence[str], new: Sequence[str]) -> list[ChangedLineRange]:
    """Return the changed line ranges in order, separated by unchanged lines."""
    result: list[ChangedLineRange] = []
    old_at = new_at = 0
    for old_line, new_line in (*_unique_common_lines(old, new), (len(old), len(new))):
        result += _changes_in_gap(old, new, ChangedLineRange(old_at, old_line, new_at, new_line))
        old_at, new_at = old_line, new_line
    return result


def _unique_common_lines(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the longest sequence of lines that are unique in both texts and in the same order."""
    where = _lines_that_occur_once(new)
    pairs = [(at, where[line]) for line, at in _lines_that_occur_once(old).items() if line in where]
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


def _lines_that_occur_once(lines: Sequence[str]) -> dict[str, int]:
    count = Counter(lines)
    return {line: at for at, line in enumerate(lines) if count[line] == 1}


def _changes_in_gap(
    old: Sequence[str], new: Sequence[str], gap: ChangedLineRange
) -> Iterator[ChangedLineRange]:
    """Yield the changes within a gap between two anchors."""
    start, end, new_start, new_end = gap
    while start < end and new_start < new_end and old[start] == new[new_start]:
        start, new_start = start + 1, new_start + 1
    while start < end and new_start < new_end and old[end - 1] == new[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    if start == end and new_start == new_end:
        return
    if start == end or new_start == new_end or max(end - start, new_end - new_start) > _SHORT:
        yield ChangedLineRange(start, end, new_start, new_end)
        return
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, old[start:end], new[new_start:new_end], autojunk=False)
    for tag, i, j, new_i, new_j in matcher.get_opcodes():
        if tag != "equal":
            yield ChangedLineRange(start + i, start + j, new_start + new_i, new_start + new_j)


def _command_lines(old: Sequence[str], changed: Sequence[ChangedLineRange]) -> Iterator[ChangedLineRange]:
    """Yield each unchanged line that is a CI command as a change that replaces the line with itself."""
    at = new_at = 0
    for change in (*changed, ChangedLineRange(len(old), len(old), 0, 0)):
        for line in range(at, change.start):
            if any(map(is_line_command, old[line].split("\r"))):
                new = new_at + line - at
                yield ChangedLineRange(line, line + 1, new, new + 1)
        at, new_at = change.end, change.new_end


# -- output ------------------------------------------------------------------------------------------------


def _group_into_hunks(changed: Iterable[ChangedLineRange]) -> Iterator[list[ChangedLineRange]]:
    """Yield the changes of each hunk; changes with overlapping context share one."""
    hunk: list[ChangedLineRange] = []
    for change in changed:
        if hunk and change.start - hunk[-1].end > 2 * CONTEXT:
            yield hunk
            hunk = []
        hunk.append(change)
    if hunk:
        yield hunk


def _format_hunk(hunk: list[ChangedLineRange], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    first, last = hunk[0], hunk[-1]
    lead = min(CONTEXT, first.start)
    trail = min(CONTEXT, len(old) - last.end)
    was = _format_line_range(first.start - lead, last.end + trail)
    now = _format_line_range(first.new_start - lead, last.new_end + trail)
    yield f"@@ -{was} +{now} @@\n"
    at = first.start - lead
    for change in hunk:
        yield from (f" {line}" for line in old[at : change.start])
        yield from (f"-{line}" for line in old[change.start : change.end])
        yield from (f"+{line}" for line in new[change.new_start : change.new_end])
        at = change.end
    yield from (f" {line}" for line in old[at : at + trail])


def _format_line_range(start: int, end: int) -> str:
    """Format a line range for a hunk header; an empty range names the line before it."""
    if end - start == 1:
        return str(start + 1)
    return f"{start + (end > start)},{end - start}"
