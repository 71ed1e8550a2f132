"""Full output: golden files, and difficult source lines."""

from __future__ import annotations

from textwrap import dedent

import pytest

from dsconfig.core.diagnostic import Diagnostic, Effect, Fix, Related, RemoveKey
from dsconfig.render.full import format_releases, render
from dsconfig.render.terminal_style import TerminalStyle

from .samples import Report, Source, Target, found, place

TARGET = Target("0.19.8")


def full(report: Report, style: TerminalStyle | None = None) -> str:
    return "".join(render([report], report.target, style or TerminalStyle()))


def marked(text: str, snippet: str, *, width: int = 100, encoding: str = "utf-8") -> list[str]:
    """The source lines and marks shown for the place of `snippet`, without the gutter."""
    lines = full(found(text, snippet), TerminalStyle(width=width, encoding=encoding)).splitlines()
    return [line.partition("|")[2][1:] for line in lines if "|" in line][1:]


def test_a_finding_with_everything() -> None:
    text = '{\n  "train_batch_size": 256,\n  "zero_optimization": {"stage": 5}\n}\n'
    diagnostic = Diagnostic(
        "DSC201",
        "batch-triplet",
        Effect.REJECTED,
        "`train_batch_size` 256 is not 4 x 8",
        ("train_batch_size",),
        help="write 32",
        location=place(text, "256"),
        releases=("0.19.7", "0.19.8"),
        related=(Related("`stage` is set here", ("zero_optimization", "stage"), place(text, "5}", 1)),),
        fix=Fix("remove `train_batch_size`", (RemoveKey(("train_batch_size",)),)),
    )
    report = Report(
        "ds.json", (diagnostic,), Target(">=0.19.6", ("0.19.6", "0.19.7", "0.19.8")), Source(text)
    )
    assert full(report) == dedent("""\
        error[DSC201] batch-triplet (rejected): `train_batch_size` 256 is not 4 x 8
         --> ds.json:2:23
          |
        2 |   "train_batch_size": 256,
          |                       ^^^
         ::: 3:34: `stage` is set here
          |
        3 |   "zero_optimization": {"stage": 5}
          |                                  ^
          = help: write 32
          = fix: remove `train_batch_size` (unsafe)
          = releases: 0.19.7 to 0.19.8

        """)


def test_a_dict_has_no_places() -> None:
    diagnostic = Diagnostic(
        "DSC101", "unknown-key", Effect.IGNORED, "`stagee` is no key", ("zero_optimization", "stagee")
    )
    assert full(Report("<dict>", (diagnostic,), TARGET, None)) == dedent("""\
        warning[DSC101] unknown-key (ignored): `stagee` is no key
         --> <dict>:zero_optimization.stagee

        """)


def test_colour_only_adds_escape_sequences() -> None:
    import re

    report = found('{"a": 1}', "1")
    colored = full(report, TerminalStyle(color=True))
    assert "\x1b[1;33m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == full(report)


@pytest.mark.parametrize(
    ("text", "snippet", "lines"),
    [
        pytest.param('\t"a":\tnull', "null", ['    "a":    null', "            ^^^^"], id="tabs"),
        pytest.param('"学習": 1', "1", ['"学習": 1', "        ^"], id="wide"),
        pytest.param('"é": 1', "1", ['"é": 1', "     ^"], id="combining"),
        pytest.param('"学": 1', "学", ['"学": 1', " ^^"], id="a wide place"),
        pytest.param('{"a": 1,\r\n "b": 2}\r\n', "2", [' "b": 2}', "      ^"], id="crlf"),
        pytest.param('{"a": 1,\r "b": 2}', "2", [' "b": 2}', "      ^"], id="cr"),
        pytest.param('{"a": \x1b[31m}', "{", [r'{"a": \x1b[31m}', "^"], id="control"),
        pytest.param('{"a": "\udc80"}', "}", [r'{"a": "\udc80"}', "              ^"], id="surrogate"),
        pytest.param('{"a": "\u202e"}', "}", [r'{"a": "\u202e"}', "              ^"], id="direction"),
        pytest.param(
            '{"a": {\n  "b": 1\n}}', '{\n  "b": 1\n}', ['{"a": {', "      ^", "}}", "^"], id="several lines"
        ),
    ],
)
def test_the_marks_stand_below_the_place(text: str, snippet: str, lines: list[str]) -> None:
    assert marked(text, snippet) == lines


def test_lines_left_out_are_told() -> None:
    text = '{"a": {\n  "b": 1,\n  "c": 2\n}}'
    lines = full(found(text, '{\n  "b": 1,\n  "c": 2\n}')).splitlines()
    assert lines[3:8] == ['1 | {"a": {', "  |       ^", "...", "4 | }}", "  | ^"]


def test_a_place_at_the_end_of_the_file_is_marked() -> None:
    text = '{"a": 1'
    assert marked(text, "") == ['{"a": 1', "       ^"]
    assert marked("{\n", "") == ["", "^"]


def test_what_the_terminal_cannot_show_keeps_the_marks_in_place() -> None:
    assert marked('"é": 1', "1", encoding="ascii") == [r'"\xe9": 1', "        ^"]


@pytest.mark.parametrize("before", [0, 30, 200, 5000, 3_000_000])
@pytest.mark.parametrize("after", [0, 30, 5000])
def test_a_long_line_is_cut_around_the_place(before: int, after: int) -> None:
    source, marks = marked("x" * before + "HERE" + "y" * after, "HERE", width=80)
    start = source.index("HERE")
    assert marks == " " * start + "^^^^"
    assert len(source) <= 80
    assert source.startswith("...") == (before > 30)
    assert source.endswith("...") == (after > 30)


def test_a_long_place_is_cut_too() -> None:
    source, marks = marked("{" + "x" * 5000 + "}", "x" * 5000, width=60)
    assert source.endswith("...")
    assert len(marks) <= len(source)


def test_releases_are_told_as_runs() -> None:
    checked = ("0.14.0", "0.14.1", "0.14.2", "0.15.0", "0.16.0")
    assert format_releases(("0.14.0", "0.14.1", "0.15.0"), checked) == "0.14.0 to 0.14.1, 0.15.0"
    assert format_releases(("0.16.0",), checked) == "0.16.0"


def test_messages_cannot_forge_output() -> None:
    diagnostic = Diagnostic("DSC101", "unknown-key", Effect.IGNORED, "`a\nb\x1b[0m\u202e` is no key", ("a",))
    output = full(Report("a\nb.json", (diagnostic,), TARGET, None))
    assert r"`a\nb\x1b[0m\u202e` is no key" in output
    assert r"--> a\nb.json:a" in output
