"""JUnit XML: a suite for each file, in it a failed test for each error and warning.

A clean file has one test, which passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Diagnostic
from dsconfig.render.concise import place
from dsconfig.render.fingerprint import relative
from dsconfig.render.terminal import printable

if TYPE_CHECKING:
    from dsconfig.render import Report, Target
    from dsconfig.render.terminal import Style


def render(reports: Iterable[Report], target: Target, style: Style) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """One document for the whole run, in plain ASCII."""
    suites = [
        _unread(each) if each.read_error or each.why_not_config else _suite(each.name, each.diagnostics)
        for each in reports
    ]
    tests, failures = sum(suite[1] for suite in suites), sum(suite[2] for suite in suites)
    errors = sum(suite[3] for suite in suites)
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<testsuites name="dsconfig" tests="{tests}" failures="{failures}" errors="{errors}">\n'
    for text, *_ in suites:
        yield text
    yield "</testsuites>\n"


def _unread(report: Report) -> tuple[str, int, int, int]:
    """The suite of a file of which nothing is known: one test that could not be run."""
    name, why = _text(relative(report.name)), _text(report.read_error or report.why_not_config or "")
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


def _suite(name: str, found: Sequence[Diagnostic]) -> tuple[str, int, int, int]:
    """The suite of one file, and how many tests it has, and failures and errors among them."""
    failures = sum(each.severity != "info" for each in found)
    tests = max(1, len(found))
    head = f'  <testsuite name="{_text(relative(name))}" tests="{tests}" failures="{failures}" errors="0">\n'
    cases = "".join(_case(name, each) for each in found) or _passed(name)
    return f"{head}{cases}  </testsuite>\n", tests, failures, 0


def _passed(name: str) -> str:
    return f'    <testcase name="dsconfig" classname="{_text(relative(name))}"/>\n'


def _case(name: str, found: Diagnostic) -> str:
    line = f' line="{found.location.line}"' if found.location else ""
    title = f"{found.code} {found.name}{f' {found.dotted}' if found.path else ''}"
    said = f"{place(relative(name), found)}: {found.message}{f' ({found.help})' if found.help else ''}"
    if found.severity == "info":
        body = f"      <system-out>{_text(said)}</system-out>\n"
    else:
        what = f'message="{_text(found.message)}" type="{found.effect.value}"'
        body = f"      <failure {what}>{_text(said)}</failure>\n"
    where = f'classname="{_text(relative(name))}" file="{_text(relative(name))}"{line}'
    return f'    <testcase name="{_text(title)}" {where}>\n{body}    </testcase>\n'


def _text(text: str) -> str:
    """Text as XML takes it, which has no control characters, not even escaped ones."""
    return escape(printable(text)).encode("ascii", "xmlcharrefreplace").decode("ascii")
