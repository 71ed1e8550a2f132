"""What can still be said of a config whose text the parser refuses.

The reader guesses what was meant, so that an editor still knows the keys. A finding that rests on a guess is
noise beside the syntax error: it is left out, and comes back, if it was right, when the text can be read.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from dsconfig.document import Document, Problem
from dsconfig.document.tree import MAX_PROBLEMS, YAML_TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.core.json_types import KeyPath
    from dsconfig.evaluation.context import Context, Finding
    from dsconfig.evaluation.rule import Rule

_PLAIN = frozenset(
    {
        "comment",
        "trailing-comma",
        "single-quotes",
        "unquoted-key",
        "multiline-string",
        "missing-root-braces",
        "control-character",
        "bom",
        "duplicate-key",
        YAML_TEXT,
    }
)
"""Kinds that leave no doubt of what was meant, also where a parser refuses them."""
_WRITTEN = ("text", "template", "job")
"""Subjects of rules that need no config."""
_LOST = frozenset({"unclosed", "unexpected", "yaml-error"})
"""Kinds after which nobody knows which section a key belongs to."""


def certain(context: Context, findings: list[tuple[Rule, Finding]]) -> list[tuple[Rule, Finding]]:
    """The findings without those that rest on a guess.

    Whatever looks at the text stays. Of the rest, that which speaks of what is absent goes, and that which
    speaks of a place with an error in it. Where brackets or lines are in doubt, only the values of known keys
    are certain.
    """
    doubtful = [problem for problem in context.document.problems if _is_doubtful(context, problem)]
    if not doubtful:
        return findings
    if len(context.document.problems) >= MAX_PROBLEMS:  # the rest of the oddities is not kept
        return [(rule, finding) for rule, finding in findings if rule.reads in _WRITTEN]
    starts = [problem.span.start for problem in doubtful]
    lost = any(problem.kind in _LOST or _swallows_an_entry(problem) for problem in doubtful)
    return [
        (rule, finding)
        for rule, finding in findings
        if rule.reads in _WRITTEN
        or ((rule.general or not lost) and _is_intact(context.document, finding, starts))
    ]


def _is_doubtful(context: Context, problem: Problem) -> bool:
    if context.parser not in problem.refused_by or problem.kind in _PLAIN:
        return False
    return problem.kind != "missing-comma" or "hjson" in problem.refused_by


def _swallows_an_entry(problem: Problem) -> bool:
    """Whether a bare word holds a colon: Hjson takes its whole line for a string."""
    return problem.kind == "unquoted-string" and ": " in problem.detail


def _is_intact(document: Document, finding: Finding, starts: Sequence[int]) -> bool:
    """Whether every place of the finding is in the text, and no error in it."""
    paths = (finding.path, *(path for _, path in finding.related))
    return all(document.located(path) and not _holds(document, path, starts) for path in paths)


def _holds(document: Document, path: KeyPath, starts: Sequence[int]) -> bool:
    if not path:  # the root holds them all
        return True
    start, end = document.span(path, "entry")
    index = bisect_left(starts, start)
    return index < len(starts) and starts[index] <= end
