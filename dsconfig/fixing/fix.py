"""`fix`: check → make the fixes that do not overlap → check again, until nothing is left to fix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from dsconfig import releases
from dsconfig.checking.check import check_document
from dsconfig.checking.patches import again
from dsconfig.checking.report import Report
from dsconfig.checking.source import is_text
from dsconfig.diagnostic import Diagnostic
from dsconfig.document import Document, Format, read_text
from dsconfig.fixing.apply_fixes import apply_fixes
from dsconfig.releases import Target

MOST_PASSES = 10
Judge: TypeAlias = Callable[[Document], Report]


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
    chosen = target if isinstance(target, Target) else releases.resolve(target)
    reader = "deepspeed" if consumer is None else consumer

    def judge(document: Document) -> Report:
        return check_document(document, chosen, world_size=world_size, consumer=reader)

    return fix_document(read_text(text, format=format), judge, unsafe=unsafe).text


def fix_document(document: Document, judge: Judge, *, unsafe: bool = False) -> Fixed:
    """Fix a document, as far as the findings of `judge` have fixes."""
    report = judge(document)
    applied: list[Diagnostic] = []
    seen = {document.text}
    for _ in range(MOST_PASSES):
        text, made = apply_fixes(document, report, unsafe=unsafe)
        if text in seen:  # nothing was made, or two fixes undo each other
            break
        seen.add(text)
        applied += made
        document = again(document, text)
        report = judge(document)
    return Fixed(document.text, tuple(applied), report)
