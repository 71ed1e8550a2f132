"""Concise and JSON output, the summary, and that no finding can make a renderer fail."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsconfig.core.diagnostic import (
    Diagnostic,
    Effect,
    Fix,
    MoveKey,
    Operation,
    Related,
    RemoveKey,
    RenameKey,
    SetValue,
    rule_url,
)
from dsconfig.render import FORMATS, renderer
from dsconfig.render.summary import format_checked_releases, rule_statistics, summary_line
from dsconfig.render.terminal_style import TerminalStyle

from .samples import Reader, Report, Source, Target, found, location


def shown(name: str, *reports: Report, style: TerminalStyle | None = None) -> str:
    return "".join(renderer(name)(reports, Target("0.19.8"), style or TerminalStyle()))


def test_concise() -> None:
    report = found('{\n"a": 1}', '"a"')
    assert shown("concise", report) == "a.json:2:1: DSC101 unknown-key ignored warning: no such key\n"


def test_concise_without_a_place() -> None:
    diagnostic = Diagnostic("DSC101", "unknown-key", Effect.IGNORED, "no such key", ("a", 0, "b"))
    report = Report("<dict>", (diagnostic,), Target("0.19.8"), None)
    assert shown("concise", report) == "<dict>:a[0].b: DSC101 unknown-key ignored warning: no such key\n"


def test_json_exactly() -> None:
    text = '{"a": 1}'
    diagnostic = Diagnostic(
        "DSC101",
        "unknown-key",
        Effect.REJECTED,
        "no \ud800 key",
        ("a", 0),
        location=location(text, 1, 4),
        releases=("0.19.8",),
        related=(Related("here", ("b",)),),
        fix=Fix(
            "do it",
            (
                SetValue(("a",), float("nan")),
                RemoveKey(("b",)),
                RenameKey(("c",), "d"),
                MoveKey(("e",), ("f",)),
            ),
        ),
    )
    report = Report("a\udcff.json", (diagnostic,), Target("0.19.8"), Source(text))
    out = shown("json", report, Report("b.json", (), Target("0.19.8"), Source("")))
    assert out.isascii()
    nowhere = {"line": None, "column": None, "end_line": None, "end_column": None}
    reader = {"name": "deepspeed", "why": 'no value is "auto"', "origin": "default", "likely": True}
    circumstances = {"target": "0.19.8", "reader": reader}
    assert json.loads(out) == {
        "version": 1,
        "target": "0.19.8",
        "files": [
            {
                "path": "a\udcff.json",
                **circumstances,
                "diagnostics": [
                    {
                        "code": "DSC101",
                        "name": "unknown-key",
                        "effect": "rejected",
                        "severity": "error",
                        "message": "no \ud800 key",
                        "help": None,
                        "path": ["a", 0],
                        "line": 1,
                        "column": 2,
                        "end_line": 1,
                        "end_column": 5,
                        "releases": ["0.19.8"],
                        "related": [{"message": "here", "path": ["b"], **nowhere}],
                        "fix": {
                            "title": "do it",
                            "safe": False,
                            "operations": [
                                {"operation": "set", "path": ["a"], "value": "nan"},
                                {"operation": "remove", "path": ["b"]},
                                {"operation": "rename", "path": ["c"], "name": "d"},
                                {"operation": "move", "path": ["e"], "to": ["f"]},
                            ],
                        },
                        "url": rule_url("DSC101"),
                    }
                ],
            },
            {"path": "b.json", **circumstances, "diagnostics": []},
        ],
    }


def test_json_has_no_number_that_python_cannot_read_back() -> None:
    fix = Fix("do it", (SetValue((), {"a": [10**5000, float("inf"), 10**4000]}),))
    diagnostic = Diagnostic("DSC101", "unknown-key", Effect.IGNORED, "no such key", fix=fix)
    report = Report("a.json", (diagnostic,), Target("0.19.8"), None)
    (file,) = json.loads(shown("json", report))["files"]
    (step,) = file["diagnostics"][0]["fix"]["operations"]
    assert step["value"]["a"] == [hex(10**5000), "inf", 10**4000]


def test_json_of_no_files() -> None:
    assert json.loads(shown("json")) == {"version": 1, "target": "0.19.8", "files": []}


@pytest.mark.parametrize(
    ("files", "counts", "target", "line"),
    [
        (
            1,
            {},
            Target("0.19.8"),
            "Checked 1 file against DeepSpeed 0.19.8 (latest known): no problems found.",
        ),
        (
            3,
            {"error": 2, "warning": 1, "info": 4},
            Target("0.19.8", origin="installed"),
            "Checked 3 files against DeepSpeed 0.19.8 (installed): 2 errors, 1 warning, 4 info.",
        ),
        (
            2,
            {"suppressed": 2},
            Target(">=0.19.7", ("0.19.7", "0.19.8"), "settings"),
            (
                "Checked 2 files against DeepSpeed 0.19.7 to 0.19.8 (2 releases, a.toml): "
                "no problems found, 2 suppressed."
            ),
        ),
    ],
)
def test_summary(files: int, counts: dict[str, int], target: Target, line: str) -> None:
    releases = {format_checked_releases(target, "a.toml"): files}
    assert summary_line(counts, releases, [(Reader(), files)], TerminalStyle()) == f"{line}\n"


def test_summary_says_who_reads() -> None:
    trainer = Reader("transformers", '2 values are "auto"', "content")
    for readers, expected in (
        ([(trainer, 1)], ' (read by transformers: 2 values are "auto"), 2 against'),
        ([(trainer, 2), (Reader(), 1)], " (transformers: 2, deepspeed: 1), 2 against"),
        (
            [(Reader("transformers", "--consumer", "argument", False), 3)],
            " (read by transformers: --consumer), 2 against",
        ),
        ([(Reader(), 3)], ", 2 against"),
    ):
        line = summary_line({}, {"0.19.8 (settings)": 2, "0.16.9 (argument)": 1}, readers, TerminalStyle())
        assert line.startswith(
            f"Checked 3 files{expected} DeepSpeed 0.19.8 (settings), 1 against 0.16.9 (argument): "
        )


def test_statistics_put_the_most_frequent_first() -> None:
    counts = {("DSC201", "b"): 1, ("DSC101", "a"): 1, ("DSC301", "c"): 12}
    assert rule_statistics(counts, TerminalStyle()) == "    12 DSC301 c\n     1 DSC101 a\n     1 DSC201 b\n"


# -- nothing makes them fail -----------------------------------------------------------------------

WORDS = st.text(st.characters(), max_size=12) | st.sampled_from(
    ["\n", "\r\n", "\t", "\ud800", "学", "e\u0301", ""]
)
PATHS = st.lists(WORDS | st.integers(0, 3), max_size=3).map(tuple)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.binary(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(SetValue, PATHS, VALUES),
    st.builds(RemoveKey, PATHS),
    st.builds(RenameKey, PATHS, WORDS),
    st.builds(MoveKey, PATHS, PATHS),
)
FIXES = st.builds(Fix, WORDS, st.lists(OPERATIONS, max_size=2).map(tuple), st.booleans())


@st.composite
def reports(draw: st.DrawFn) -> Report:
    text = draw(st.lists(WORDS | st.just(" " * 150), max_size=8).map("".join))
    places = st.none() | st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(
        lambda ends: location(text, min(ends), max(ends))
    )
    diagnostics = st.builds(
        Diagnostic,
        st.just("DSC101"),
        st.just("unknown-key"),
        st.sampled_from(Effect),
        WORDS,
        PATHS,
        help=st.none() | WORDS,
        location=places,
        releases=st.sampled_from([(), ("0.19.8",), ("0.3.1",)]),
        related=st.lists(st.builds(Related, WORDS, PATHS, places), max_size=2).map(tuple),
        fix=st.none() | FIXES,
    )
    target = Target("x", ("0.19.7", "0.19.8"))
    source = draw(st.sampled_from([None, Source(text), Source("")]))
    return Report(draw(WORDS), tuple(draw(st.lists(diagnostics, max_size=2))), target, source)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(reports(), max_size=2),
    st.sampled_from(["utf-8", "ascii", "cp1252", "no-such-codec"]),
    st.integers(20, 120),
)
def test_no_finding_makes_a_renderer_fail(many: list[Report], encoding: str, width: int) -> None:
    for name in FORMATS:
        out = shown(name, *many, style=TerminalStyle(color=True, width=width, encoding=encoding))
        out.encode("ascii", "backslashreplace")
        assert "\x1b" not in out.replace("\x1b[", "")
        if name == "json":
            assert len(json.loads(out)["files"]) == len(many)
        if name == "concise":
            assert out.count("\n") == sum(len(report.diagnostics) for report in many)
