"""JUnit XML output: one suite per file, with a failed test for each error or warning.

A clean file has one passed test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from dsconfig.core.diagnostic import Diagnostic
from dsconfig.render.concise import format_position
from dsconfig.render.machine_readable import relative_path
from dsconfig.render.terminal_style import escape_unprintable

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.render.report_protocols import CheckedReleases, FileReport
    from dsconfig.render.terminal_style import TerminalStyle


def render(reports: Iterable[FileReport], target: CheckedReleases, style: TerminalStyle) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """Yield an ASCII XML document for the whole run."""
    suites = [
        _unreadable_file_suite(each)
        if each.read_error or each.why_not_config
        else _file_suite(each.name, each.diagnostics)
        for each in reports
    ]
    tests, failures = sum(suite[1] for suite in suites), sum(suite[2] for suite in suites)
    errors = sum(suite[3] for suite in suites)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="dsconfig" tests="{tests}" failures="{failures}" errors="{errors}">\n'
    for text, *_ in suites:
        yield text
    yield "</testsuites>\n"


def _unreadable_file_suite(report: FileReport) -> tuple[str, int, int, int]:
    """Return the suite of an unreadable file, which has one test with an error."""
    name, why = (
        _xml_text(relative_path(report.name)),
        _xml_text(report.read_error or report.why_not_config or ""),
    )
    return (
        (
            f'  <testsuite name="{name}" tests="1" failures="0" errors="1">\n'
            f'    <testcase name="dsconfig" classname="{name}">\n      <error message="{why}"/>\n'
            "    </testcase>\n  </testsuite>\n"
        ),
        1,
        0,
        1,
    )


def _file_suite(name: str, diagnostics: Sequence[Diagnostic]) -> tuple[str, int, int, int]:
    """Return the suite of a file, with its numbers of tests, failures and errors."""
    failures = sum(each.severity != "info" for each in diagnostics)
    tests = max(1, len(diagnostics))
    head = f'  <testsuite name="{_xml_text(relative_path(name))}" tests="{tests}" failures="{failures}" errors="0">\n'
    cases = "".join(_failed_test_case(name, each) for each in diagnostics) or _passed_test_case(name)
    return f"{head}{cases}  </testsuite>\n", tests, failures, 0


def _passed_test_case(name: str) -> str:
    return f'    <testcase name="dsconfig" classname="{_xml_text(relative_path(name))}"/>\n'


def _failed_test_case(name: str, diagnostic: Diagnostic) -> str:
    line = f' line="{diagnostic.location.file_lines[0]}"' if diagnostic.location else ""
    title = f"{diagnostic.code} {diagnostic.name}{f' {diagnostic.dotted}' if diagnostic.path else ''}"
    advice = f" ({diagnostic.help})" if diagnostic.help else ""
    text = f"{format_position(relative_path(name), diagnostic)}: {diagnostic.message}{advice}"
    if diagnostic.severity == "info":
        body = f"      <system-out>{_xml_text(text)}</system-out>\n"
    else:
        attributes = f'message="{_xml_text(diagnostic.message)}" type="{diagnostic.effect.value}"'
        body = f"      <failure {attributes}>{_xml_text(text)}</failure>\n"
    location = f'classname="{_xml_text(relative_path(name))}" file="{_xml_text(relative_path(name))}"{line}'
    return f'    <testcase name="{_xml_text(title)}" {location}>\n{body}    </testcase>\n'


def _xml_text(text: str) -> str:
    """Escape text for XML, in which control characters are not allowed even if escaped."""
    return escape(escape_unprintable(text)).encode("ascii", "xmlcharrefreplace").decode("ascii")
