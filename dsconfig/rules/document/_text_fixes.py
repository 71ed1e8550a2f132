"""How an oddity of the text is repaired: the very place written as every JSON parser reads it."""

from __future__ import annotations

import json
import re
from functools import lru_cache

from dsconfig.core.diagnostic import Fix, Replace, Set
from dsconfig.document import Document, Problem, Span
from dsconfig.document.reader import in_quotes
from dsconfig.rules.document._group_problems import json_word, python_word

_AMBIGUOUS = re.compile(r"[,:{}\[\]\"'\\]|\A(?:true|false|none)\Z", re.IGNORECASE)
"""What makes it doubtful where a word without quotes was meant to end, or whether it is a string at all."""


def repaired(document: Document, problem: Problem) -> Fix | None:
    """The fix of one oddity, or None where nothing can be said of what was meant."""
    start, end = problem.span
    text = document.text[start:end]
    match problem.kind:
        case "comment":
            return Fix("remove the comment", (_without_comment(document, start, end),))
        case "single-quotes" | "multiline-string":
            return _quoted(document, start)
        case "missing-root-braces":
            return _braced(document)
        case "unquoted-string" if right := json_word(problem):
            return _in_json(document, problem, right)
        case "unquoted-string" if _AMBIGUOUS.search(text):
            return None
        case "unquoted-key" | "unquoted-string":
            return _fix("put it in quotes", start, end, in_quotes(text))
        case "control-character":
            return _fix("write it as an escape", start, end, json.dumps(text)[1:-1])
        case "missing-comma" if start in _ends_of_words(document):
            return None  # it would become part of the word
        case "unexpected" if text == "," and _in_object(document, problem):
            return _fix("remove the comma", start, end, "")
    title, wrong, right = _SIGNS.get(problem.kind, ("", None, ""))
    return _fix(title, start, end, right) if wrong is not None and text in wrong else None


def _in_json(document: Document, problem: Problem, word: str) -> Fix:
    """The word as JSON writes it. Where Hjson reads the text, it reads a string: a value is changed."""
    start = problem.span.start
    if document.readable():
        return Fix(f"write `{word}`", (Set(problem.path, json.loads(word)),), safe=True)
    return _fix(f"write `{word}`", start, start + len(python_word(problem)), word)


_WORDS = ("unquoted-string", "bad-number", "nan", "placeholder")
_SIGNS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "trailing-comma": ("remove the comma", (",",), ""),
    "bom": ("remove the byte order mark", ("\ufeff",), ""),
    "missing-comma": ("put a comma there", ("",), ","),
    "missing-colon": ("write a colon", ("=",), ":"),
}
"""What to do, what stands there, and what ought to."""


def _in_object(document: Document, problem: Problem) -> bool:
    around = document.node(problem.path)
    return around is not None and around.kind == "object"


def _fix(title: str, start: int, end: int, text: str) -> Fix:
    return Fix(title, (Replace(start, end, text),), safe=True)


def _without_comment(document: Document, start: int, end: int) -> Replace:
    """Without its line, where it has one to itself, and without the blanks before it."""
    text = document.text
    line = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    following = re.compile(r"[ \t]*(\r\n?|\n|\Z)").match(text, end)
    if following is None:
        return Replace(start, end, "" if text[start - 1 : start] in ("", " ", "\t", "\n") else " ")
    if not text[line:start].strip():
        return Replace(line, following.end(), "")
    return Replace(line + len(text[line:start].rstrip(" \t")), end, "")


def _quoted(document: Document, start: int) -> Fix | None:
    """The string that begins here in double quotes."""
    found = _strings(document).get(start)
    if found is None:
        return None
    return _fix("use double quotes", *found[0], in_quotes(found[1]))


@lru_cache(maxsize=1)
def _strings(document: Document) -> dict[int, tuple[Span, str]]:
    """The keys and strings of a text by where they start."""
    found: dict[int, tuple[Span, str]] = {}
    todo = [document.root] if document.root else []
    while todo:
        node = todo.pop()
        if isinstance(node.value, str):
            found[node.span.start] = node.span, node.value
        found.update((each.key_span.start, (each.key_span, each.key)) for each in node.members)
        todo += (*(member.node for member in node.members), *node.items)
    return found


@lru_cache(maxsize=1)
def _ends_of_words(document: Document) -> frozenset[int]:
    """Where words end that go on to the end of their line."""
    return frozenset(problem.span.end for problem in document.problems if problem.kind in _WORDS)


def _braced(document: Document) -> Fix | None:
    root = document.root
    if root is None:
        return None
    start, end = root.span.start, len(document.text.rstrip())
    newline = "\r\n" if "\r\n" in document.text else "\n"
    edits = (Replace(start, start, f"{{{newline}"), Replace(end, end, f"{newline}}}"))
    return Fix("put the entries in braces", edits, safe=True)
