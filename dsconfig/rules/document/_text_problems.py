"""Oddities of the text: which there are, and what messages say of them."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix
from dsconfig.core.wording import quoted
from dsconfig.document import KINDS, Problem
from dsconfig.evaluation.context import Context

READ = "runtime/config.py:DeepSpeedConfig.__init__"
OWN = frozenset({"duplicate-key", "placeholder", "empty", "root-not-object", "invalid-utf8", "not-text"})
"""Kinds with a rule of their own."""
BEYOND = frozenset({"too-large", "too-deep", "huge-number", "alias-bomb", "lone-surrogate"})
"""Kinds beyond which nothing is claimed of DeepSpeed's verdict."""


def problems(ctx: Context, *kinds: str) -> Iterator[Problem]:
    """The oddities of these kinds, in the order of the text."""
    for problem in ctx.document.problems:
        if problem.kind in kinds:
            yield problem


def repair(ctx: Context, problem: Problem) -> Fix | None:
    """The fix of one oddity, or None where it is doubtful what was meant."""
    from dsconfig.rules.document._text_fixes import repaired  # most texts have nothing odd

    return repaired(ctx.document, problem)


def says(problem: Problem) -> str:
    """The oddity in words, with the text that shows it where that helps."""
    said, detail = meaning(problem), problem.detail.strip()
    if not detail or problem.kind in _NO_DETAIL:
        return said
    return f"{said}, {quoted(problem.detail)}" if problem.kind not in _PROSE else f"{said}: {detail}"


def meaning(problem: Problem) -> str:
    """What its kind means."""
    return KINDS[problem.kind].partition(";")[0].partition(":")[0]


_NO_DETAIL = frozenset({"bom", "comment"})
_PROSE = frozenset({"yaml-error", "too-large", "too-deep", "alias-bomb", "not-text", "invalid-utf8"})


def is_binary(ctx: Context) -> bool:
    """Whether it is not text: Hjson takes nearly any bytes for one string, but no config holds a NUL."""
    return not ctx.is_config and "\0" in ctx.document.text
