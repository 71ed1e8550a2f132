"""Markdown output for a pull request comment or a CI job summary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from dsconfig.core.diagnostic import SEVERITIES, Diagnostic, Location
from dsconfig.render.machine_readable import escape_file_name, relative_path
from dsconfig.render.summary import LONG, count_noun, format_checked_releases
from dsconfig.render.terminal_style import escape_unprintable

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.render.report_protocols import CheckedReleases, FileReport
    from dsconfig.render.terminal_style import TerminalStyle

MARK = "<!-- dsconfig -->"
"""First line of the output, by which a workflow finds its earlier comment in order to update it."""
LIMIT = 60_000
"""Number of characters after which diagnostics are only counted: GitHub rejects comments of more than 65,536."""


def render(reports: Iterable[FileReport], target: CheckedReleases, style: TerminalStyle) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """Yield the totals, then the diagnostics of each file, and only the number of those beyond `LIMIT`."""
    kept = [each for each in reports if each.why_not_config is None]
    diagnostics = [each for report in kept for each in report.diagnostics]
    yield f"{MARK}\n{_totals_heading(diagnostics)}\n\n{_checked_files_line(kept)}\n"
    if len(diagnostics) >= LONG:
        yield f"\n{''.join(_rules_table(diagnostics))}"
    room, left_out = LIMIT, 0
    for report in kept:
        heading = f"\n#### {_code_span(escape_file_name(relative_path(report.name)))}\n\n"
        if report.read_error:
            yield f"{heading}- **error**: cannot be read: {_escape_markdown(escape_unprintable(report.read_error))}\n"
        for diagnostic in report.diagnostics:
            item = heading + _list_item(diagnostic)
            room -= len(item)
            if room < 0:
                left_out += 1
                continue
            yield item
            heading = ""
    if left_out:
        yield f"\n{count_noun(left_out, 'more problem')} left out: run `dsconfig check` to see all of them.\n"


def _totals_heading(diagnostics: list[Diagnostic]) -> str:
    numbers = Counter(each.severity for each in diagnostics)
    totals = ", ".join(count_noun(numbers[each], each) for each in SEVERITIES if numbers[each])
    return f"### DeepSpeed configs: {totals or 'no problems found'}"


def _checked_files_line(reports: list[FileReport]) -> str:
    read = {
        each.name: format_checked_releases(each.target, None) for each in reports if each.read_error is None
    }
    if not read:
        return "No file was checked."
    return (
        f"Checked {count_noun(len(read), 'file')} against DeepSpeed "
        f"{_escape_markdown('; '.join(dict.fromkeys(read.values())))}."
    )


def _rules_table(diagnostics: list[Diagnostic]) -> Iterator[str]:
    """Yield a table of the rules with diagnostics, most frequent first."""
    yield "| problems | rule |\n|---:|---|\n"
    for (name, code, url), number in Counter(
        (each.name, each.code, each.url) for each in diagnostics
    ).most_common():
        yield f"| {number} | [{code}]({url}) {name} |\n"


def _format_line(location: Location) -> str:
    """Return a location's line as text, with the cell for a notebook."""
    cell = "" if location.cell is None else f"cell {location.cell.number}, "
    return f"{cell}line {location.line}"


def _list_item(diagnostic: Diagnostic) -> str:
    """Return the list item of a diagnostic, with its help and fix as nested items."""
    place = f" in {_format_line(diagnostic.location)}" if diagnostic.location else ""
    rule = f"[{diagnostic.code} {diagnostic.name}]({diagnostic.url})"
    message = _message_as_markdown(diagnostic.message)
    lines = [f"- **{diagnostic.severity}**{place}, {rule} ({diagnostic.effect.value}): {message}"]
    if diagnostic.help:
        lines.append(f"  - help: {_message_as_markdown(diagnostic.help)}")
    if diagnostic.fix is not None:
        unsafe = "" if diagnostic.fix.safe else " (unsafe)"
        lines.append(f"  - fix: {_message_as_markdown(diagnostic.fix.title)}{unsafe}")
    return "\n".join(lines) + "\n"


# Names and values come from the checked files, so nothing of them may become markup.


def _message_as_markdown(message: str) -> str:
    """Convert a message to Markdown: code in backticks stays code, all other text is escaped."""
    pieces = escape_unprintable(" ".join(message.splitlines())).split("`")
    if len(pieces) % 2 == 0:  # a backtick without a partner
        return _escape_markdown("`".join(pieces))
    return "".join(
        _code_span(piece) if index % 2 else _escape_markdown(piece) for index, piece in enumerate(pieces)
    )


def _code_span(text: str) -> str:
    """Return a code span whose delimiter is longer than any run of backticks in `text`."""
    text = escape_unprintable(text)
    if not text.strip():
        return _escape_markdown(text)
    longest = max((len(each) for each in re.findall("`+", text)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _escape_markdown(text: str) -> str:
    """Escape plain text for Markdown; `@` is escaped too, so that it does not mention a user."""
    escaped = re.sub(r"([\\`*_\[\]<>&|~$!])", r"\\\1", text)
    # A comment interrupts mentions, references to issues, and links, which GitHub finds after it reads the markup.
    return re.sub(r"([@#:])(?=[\w/])|(?<=www)(?=\.)", r"\1<!-- -->", escaped)
