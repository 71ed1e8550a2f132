"""Which oddities of a text are one finding: all of one kind that Hjson reads, all brackets that stay open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dsconfig.document import Problem

_JSON = {"true": "true", "false": "false", "none": "null", "null": "null"}
_BRACKETS = {"{": "}", "[": "]"}
_WORDS = frozenset({"unquoted-string", "bad-number", "nan", "placeholder"})


def json_word(problem: Problem) -> str | None:
    """What JSON writes for a bare `True`, `False` or `None`; None for any other oddity."""
    if problem.kind != "unquoted-string":
        return None
    return _JSON.get(python_word(problem).lower())


def python_word(problem: Problem) -> str:
    """The bare word itself. Hjson takes a comma behind it for a part of it."""
    return problem.detail.rstrip(", \t")


def closer(problem: Problem) -> str | None:
    """What would close a bracket that stays open; None for any other oddity."""
    return _BRACKETS.get(problem.detail) if problem.kind == "unclosed" else None


def groups(problems: Iterable[Problem]) -> list[list[Problem]]:
    """The oddities that have one cause together; without those that only follow from others."""
    together: dict[object, list[Problem]] = {}
    for number, problem in enumerate(causes(list(problems))):
        together.setdefault(_cause(problem, number), []).append(problem)
    return list(together.values())


def _cause(problem: Problem, number: int) -> object:
    if json_word(problem):
        return "a word of Python"
    if closer(problem):
        return "an open bracket"
    return problem.kind if problem.refused_by == {"json"} else number


def causes(found: list[Problem]) -> Iterator[Problem]:
    """Without a comma missed behind what is odd itself, and what is odd only by the reader's guess."""
    ends = {problem.span.end for problem in found if problem.kind in _WORDS or closer(problem)}
    open_text = any(problem.kind == "unclosed" and not closer(problem) for problem in found)
    lost = any(problem.kind == "unclosed" for problem in found)
    for problem in found:
        if problem.kind == "missing-comma" and problem.span.start in ends:
            continue
        if closer(problem) and open_text:
            continue
        if problem.kind == "unexpected" and problem.detail != ",":
            if lost:
                continue
            lost = True
        yield problem
