"""JSON text that is not plain: read as hjson reads it, recovered where it refuses, judged by json itself."""

from __future__ import annotations

import json

from dsconfig.document.hjson.errors import ReadError
from dsconfig.document.hjson.parser import parse
from dsconfig.document.hjson.recovery import recover
from dsconfig.document.hjson.strings import SURROGATE
from dsconfig.document.tree import BOTH_JSON, EVERYBODY, NOBODY, ONLY_JSON, Problem, Span, Tree


def read_any(text: str, *, translate: bool) -> Tree:
    """The tree of any text: exact where hjson accepts it, else recovered."""
    try:
        tree = parse(text, translate=translate)
    except ReadError as fault:
        tree = _recovered(text, fault, translate=translate)
    if not text.isascii() and (half := SURROGATE.search(text)):  # no file has one, a text in memory may
        tree = _with(tree, Problem("lone-surrogate", Span(*half.span()), (), "", NOBODY))
    return _with_verdict_of_json(text, tree)


def _recovered(text: str, fault: ReadError, *, translate: bool) -> Tree:
    limits = EVERYBODY if fault.kind in ("too-deep", "too-large") else None
    span = Span(min(fault.start, len(text)), min(fault.end, len(text)))
    first = Problem(fault.kind, span, (), fault.detail, limits or BOTH_JSON)
    if limits:
        return Tree(None, (first,))
    if "\0" in text:
        return Tree(None, (first._replace(kind="not-text"),))
    tree = recover(text, translate=translate)
    if any("hjson" in problem.refused_by for problem in tree.problems):
        return tree
    return _with(tree, first)


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
        return _with(tree, Problem("unexpected", Span(at, at), (), str(error), ONLY_JSON))
    kept = (problem._replace(refused_by=problem.refused_by - ONLY_JSON) for problem in tree.problems)
    return tree._replace(problems=tuple(kept))


def _with(tree: Tree, problem: Problem) -> Tree:
    return tree._replace(problems=(*tree.problems, problem))
