"""JSON text that is not plain: read as hjson reads it, recovered where it refuses, judged by json itself.

Imported only for such a text: most files never need it.
"""

from __future__ import annotations

import json

from dsconfig.document.recovery import Recovery
from dsconfig.document.scanner import Scanner
from dsconfig.document.strings import SURROGATE, ReadError
from dsconfig.document.tree import BOTH_JSON, EVERYBODY, NOBODY, ONLY_JSON, Node, Problem, Span, Tree


def read_any(text: str, *, translate: bool) -> Tree:
    """The tree of any text: exact where hjson accepts it, else recovered."""
    try:
        tree = Scanner(text, translate=translate).read()
    except ReadError as fault:
        tree = _recovered(text, fault, translate=translate)
    if not text.isascii() and (half := SURROGATE.search(text)):  # no file has one, a text in memory may
        problem = Problem("lone-surrogate", Span(*half.span()), (), "", NOBODY)
        tree = tree._replace(problems=(*tree.problems, problem))
    return _with_verdict_of_json(text, tree)


def _recovered(text: str, fault: ReadError, *, translate: bool) -> Tree:
    limits = EVERYBODY if fault.kind in ("too-deep", "too-large") else None
    span = Span(min(fault.start, len(text)), min(fault.end, len(text)))
    first = Problem(fault.kind, span, (), fault.detail, limits or BOTH_JSON)
    if limits:
        return Tree(None, (first,))
    if "\0" in text:
        return Tree(None, (first._replace(kind="not-text"),))
    recovery = Recovery(text, translate=translate)
    tree = recovery.read()
    if recovery.unclosed:
        again = Recovery(text, translate=translate, by_indent=True)
        by_indent = again.read()
        tree = by_indent if again.closed_by_indent else tree
    if any("hjson" in problem.refused_by for problem in tree.problems):
        return tree
    return tree._replace(problems=(*tree.problems, first))


def _with_verdict_of_json(text: str, tree: Tree) -> Tree:
    """json itself says whether json takes the text: the problems must agree with it."""
    if any(problem.kind in ("too-deep", "too-large") for problem in tree.problems):
        return tree
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        if any("json" in problem.refused_by for problem in tree.problems):
            return tree
        at = getattr(error, "pos", 0)
        return tree._replace(
            problems=(*tree.problems, Problem("unexpected", Span(at, at), (), str(error), ONLY_JSON))
        )
    kept = (problem._replace(refused_by=problem.refused_by - ONLY_JSON) for problem in tree.problems)
    return tree._replace(problems=tuple(kept))


def json_value(text: str, root: Node | None) -> object:
    """What `json.load` gives: json's own reading where it accepts the text, else the recovered tree."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _numbers_of_json(text, root)


def _numbers_of_json(text: str, node: Node | None) -> object:
    """A recovered value with json's numbers: `1e3` is a float to it. The depth is bounded by MAX_DEPTH."""
    if node is None:
        return None
    if node.kind == "object":
        return {member.key: _numbers_of_json(text, member.node) for member in node.members}
    if node.kind == "array":
        return [_numbers_of_json(text, item) for item in node.items]
    if node.kind == "number" and isinstance(node.value, int):
        raw = text[node.span.start : node.span.end]
        return node.value if raw.lstrip("-").isdigit() else float(raw)
    return node.value
