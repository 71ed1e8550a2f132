"""YAML text becomes a located tree; lines that are not YAML are left out, and noted."""

from __future__ import annotations

import re
from typing import Final

import yaml

from dsconfig.document.document import line_start
from dsconfig.document.tree import MAX_VALUES, NOBODY, Node, Span, Tree
from dsconfig.document.yaml.comments import comments
from dsconfig.document.yaml.limits import LimitError, check_limits
from dsconfig.document.yaml.problems import Notes
from dsconfig.document.yaml.pyyaml import ERRORS, LOADER, message, offset
from dsconfig.document.yaml.repair import values_of
from dsconfig.document.yaml.to_tree import Locator

_ODD: Final = re.compile("\ufeff?[^\t\ufeff]*[\t\ufeff]")
"""`yaml.safe_load` refuses tabs that libyaml takes, and takes inner byte order marks; it reads such text."""
_SLOWLY: Final = 100_000
"""Longest text that PyYAML's Python code reads: it takes ten times as long."""
_LINE: Final = re.compile(r"[^\r\n]*")
_ATTEMPTS: Final = 8


def read_yaml(text: str) -> Tree:
    """The located tree of a YAML text: PyYAML's values, spans from its marks."""
    mark = 1 if text.startswith("\ufeff") else 0
    mark -= text.startswith("\ufeff\ufeff")  # PyYAML steps over one only
    notes = Notes(text, mark)
    if mark:
        notes.note("bom", Span(0, 1), refused_by=NOBODY)
    try:
        root = _root(_manifest(text[mark:]), notes)
    except LimitError as limit:
        at = limit.at + mark
        notes.note(limit.kind, Span(at, at), limit.detail)
        root = None
    return _tree(root, notes)


def _manifest(text: str) -> str:
    """Of several manifests of Kubernetes the one that speaks of DeepSpeed, all else blanked out."""
    if "\n---" not in text or not _MANIFEST.search(text):
        return text
    ends = [match.span() for match in _SEPARATOR.finditer(text)]
    starts = [0, *(end for _, end in ends)]
    parts = [Span(*each) for each in zip(starts, [*(at for at, _ in ends), len(text)], strict=True)]
    told = [part for part in parts if _MANIFEST.search(text, *part)]
    chosen = next((part for part in told if "deepspeed" in text[slice(*part)].lower()), told[0])
    before, after = text[: chosen.start], text[chosen.end :]
    return _NO_END.sub(" ", before) + text[slice(*chosen)] + _NO_END.sub(" ", after)


_MANIFEST: Final = re.compile(r"^apiVersion:", re.MULTILINE)
_SEPARATOR: Final = re.compile(r"^---(?:[ \t][^\r\n]*)?$", re.MULTILINE)
_NO_END: Final = re.compile(r"[^\r\n]")


def _tree(root: Node | None, notes: Notes) -> Tree:
    """What was read."""
    if root is not None and root.kind != "object":
        kind = "root-not-object" if root.value is not None else "empty"
        notes.note(kind, root.span, root.kind, NOBODY)
    found = comments(notes.text, root)
    if len(found) >= MAX_VALUES:
        notes.note("too-large", found[-1][0], f"more than {MAX_VALUES} comments")
    return Tree(root, tuple(sorted(notes.problems, key=lambda problem: problem.span)), found)


def _root(text: str, notes: Notes) -> Node | None:
    """The root with its values and places."""
    node = _compose(text, notes)
    if node is None:
        if not notes.problems:
            notes.note("empty", Span(0, 0), refused_by=NOBODY)
        return None
    values = values_of(node, notes)
    return None if values is None else Locator(notes, values).node(node)


def _compose(text: str, notes: Notes) -> yaml.Node | None:
    """PyYAML's root node; lines that are not YAML are blanked out until the rest is."""
    loader_class = yaml.SafeLoader if _ODD.match(notes.text) and len(notes.text) < _SLOWLY else LOADER
    first_fault = len(text)
    for attempt in range(_ATTEMPTS):
        loader = None
        check_limits(text)  # also of what is left: an error may have hidden an alias from it
        try:
            loader = loader_class(text)
            return loader.get_single_node()
        except ERRORS as error:
            at = offset(error, text)
            first_fault = min(first_fault, at)
            if attempt == 0:
                notes.note("yaml-error", Span(at + notes.shift, at + notes.shift + 1), message(error))
            text = _without_line(text, at, error) if attempt < _ATTEMPTS - 2 else text[:first_fault]
        finally:
            if loader is not None:
                loader.dispose()
    return None


def _without_line(text: str, at: int, error: BaseException) -> str:
    """The text with the line of the error blanked out, so that all places stay."""
    if "another document" in message(error):
        return text[:at]
    start = line_start(text, at)
    while start and not text[start:at].strip() and not _line(text, start).strip():
        at = start - 1  # the error is found at the end, or on an empty line: its cause stands above
        start = line_start(text, at)
    length = len(_line(text, start))
    return text[:start] + " " * length + text[start + length :]


def _line(text: str, start: int) -> str:
    match = _LINE.match(text, start)
    return match.group() if match else ""
