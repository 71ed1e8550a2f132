"""Threads of users, retold: does dsconfig give the accepted answer?

The files have one entry per thread, in words of our own: the question, the accepted answer, files that reconstruct
it, and the rules (or known messages) that state the answer. Each was written before its first run; rules and
messages were improved with `develop.json` alone until `unseen.json` was run, and with both until `later.json` was.
Threads were added twice, the second time from searches by symptom. `first` is the verdict of the first run, if it
was not `solved`, and `verdict` is today's. First runs solved 28 of 33 and 33 of 43 threads of the first searches,
26 of 74 of the second ones (5 partly, 1 wrongly), and 10 of 26 of `later.json`. `broad.json` comes from queries without
our rules in mind: rules were improved with its half `develop` (first run: 5 of 30 solved, 1 partly), before the half
`unseen` was run once (16 of 30 solved, none wrongly; 12 with the rules before).
`fresh.json` was found by broad queries again, and run once after the rules of that day: 9 of 17 solved, none wrongly.
`recent.json` was collected the same way: its first run solved 11 of 26 threads and one partly (its message also advised
a precision that the user's version rejects).
`python -m tests.threads` replays them and prints a table.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
HALVES = ("develop", "unseen", "later", "broad", "fresh", "recent")


class Answer(NamedTuple):
    """Result of one thread: how well it is answered, and what was reported."""

    verdict: str
    """`solved`, `partly` or `silent`."""
    reported: tuple[str, ...]


def threads(half: str) -> list[dict[str, Any]]:
    """The threads of one half."""
    entries: list[dict[str, Any]] = json.loads((HERE / f"{half}.json").read_text("utf-8"))
    return entries


def replay(thread: dict[str, Any], folder: Path) -> Answer:
    """Write the files of a thread, and check them or explain its error. The folder becomes the repository."""
    for name, content in thread.get("files", {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2), "utf-8")
    reported = _explained(thread["error"]) if "error" in thread else _checked(thread, folder)
    expected, partial = thread["expects"], thread.get("partly", [])
    if expected == ["none"]:  # the config and the launch are not to blame
        return Answer("solved" if not reported else "partly", reported)
    solved = reported[:1] if "error" in thread else reported
    verdict = (
        "solved" if set(expected) & set(solved) else "partly" if set(partial) & set(reported) else "silent"
    )
    return Answer(verdict, reported)


def _explained(text: str) -> tuple[str, ...]:
    from dsconfig.rules.error_messages import find_error_messages

    return tuple(match.entry.id for match in find_error_messages(text))


def _checked(thread: dict[str, Any], folder: Path) -> tuple[str, ...]:
    from dsconfig import check

    reports = [check(str(folder / thread["check"]), target=thread["target"])]
    codes: dict[str, None] = {}
    while reports:
        report = reports.pop()
        codes |= {
            each.code: None for each in report if each.severity != "info" or each.code in thread["expects"]
        }
        reports += report.children
    return tuple(codes)
