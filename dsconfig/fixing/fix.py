"""`fix`: check → make the fixes that do not overlap → check again, until nothing is left to fix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.checking.affordable import affordable
from dsconfig.checking.check import check_document
from dsconfig.checking.circumstances import circumstances
from dsconfig.checking.report import Report
from dsconfig.checking.source import is_text
from dsconfig.diagnostic import Diagnostic
from dsconfig.document import Document, Format, read_text
from dsconfig.fixing.apply_fixes import MOST_TRIALS, Judge, Pass
from dsconfig.releases import Target

if TYPE_CHECKING:
    from dsconfig.json_types import KeyPath

MOST_PASSES = 10
_LEAST_TRIALS = 4
"""Texts that are tried in all passes, however long they are."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A text, the findings that were fixed in it, and the report of what is left."""

    text: str
    applied: tuple[Diagnostic, ...]
    report: Report


def fix(
    text: str,
    unsafe: bool = False,
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    format: Format = "json",
) -> str:
    """The text of a config with its findings fixed; everything else keeps its bytes.

    Args:
        text: the config's text.
        unsafe: whether to make all fixes; else only safe ones are made, which change no value that DeepSpeed
            ends up using and lose nothing that is written.
        target: a release or a range; see `check`.
        world_size: number of ranks; see `check`.
        consumer: who reads the file; see `check`.
        format: `json` (with its dialects) or `yaml`.

    Raises:
        UnknownReleaseError: the target names no release.
        ValueError: this is a path and not text, or the consumer, world size or format is impossible.
    """
    if not is_text(text) and format == "json":
        raise ValueError(f"{text!r} is not a config's text: read the file first")
    if format not in ("json", "yaml"):
        raise ValueError(f"unknown format {format!r}: expected json or yaml")
    document = read_text(text, format=format)
    found = circumstances(document, target, world_size, consumer)

    def judge(document: Document) -> Report:
        return check_document(document, found.target, world_size=found.world_size, consumer=found.reader)

    return fix_document(document, judge, unsafe=unsafe).text


def fix_document(document: Document, judge: Judge, *, unsafe: bool = False) -> Fixed:
    """Fix a document, as far as the findings of `judge` have fixes."""
    report = judge(document)
    applied: list[Diagnostic] = []
    seen = {document.text}
    withdrawn: set[tuple[str, KeyPath, str]] = set()
    settled, left = 0, max(_LEAST_TRIALS, affordable(document.text, len(report.target.releases)))
    for _ in range(MOST_PASSES):
        trial = Pass(document, report, judge, withdrawn, min(left, MOST_TRIALS))
        done = trial.run(unsafe=unsafe)
        left -= trial.trials
        if not done or trial.result is None:
            if not withdrawn or len(applied) == settled or left <= 0:
                break
            settled = len(applied)
            withdrawn.clear()  # what did harm at first may do none beside what was fixed since
            continue
        if trial.result[0].text in seen:  # two fixes undo each other
            break
        document, report = trial.result
        seen.add(document.text)
        applied += [each.found for each in trial.made]
    return Fixed(document.text, tuple(applied), report)
