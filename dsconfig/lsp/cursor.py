"""Cursor in a config: the range of the config, its release, and the section and key at a path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from dsconfig.consumers.accelerate_launch_file import is_launch_file
from dsconfig.core.releases import NUMBERS
from dsconfig.document import Document, read_text
from dsconfig.launch.format_table import SCRIPTS, format_of
from dsconfig.lsp.document_filter import begins_launch, is_empty
from dsconfig.model.keyinfo import ROOT, KeyView, SectionView, child_section, type_named, view

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath, Spec
    from dsconfig.document import Node
    from dsconfig.document.tree import Member
    from dsconfig.lsp.workspace import Judged


# Where a cursor is in a config: among the keys of which object, or at which value.
#
# Half-typed text has no place for what is being typed. So the word at the cursor is replaced by a mark,
# which the tolerant reader then finds as a key or as a value: nothing here reads a config by itself.

if TYPE_CHECKING:
    _Place = tuple[Literal["key", "value"], KeyPath, Json, Node]

_MARK = "zqcursorqz"
_WORD = re.compile(r"[\w$./-]*")
"""A part of a word that is being typed; the one before the cursor is searched backwards."""
_REST = {'"': re.compile(r'[^"\n\r,:{}\[\]]*"?'), "'": re.compile(r"[^'\n\r,:{}\[\]]*'?")}
_COLON = re.compile(r"[ \t]*:")


class Cursor(NamedTuple):
    """What is being typed: a key of the object at `path`, or the value at it."""

    kind: Literal["key", "value"]
    path: KeyPath
    start: int
    end: int
    quote: str
    """The quote that the word at the cursor has already, if one."""
    gap: str
    """What has to stand before the word: the space after the colon that YAML asks for."""
    has_value: bool
    """Of a key, whether a colon follows it."""
    document: Document
    """The text with the mark in it."""
    data: Json
    """The object at `path`, or around it, without the mark."""
    flow: bool
    """Whether the object or list around the word has braces or brackets, which YAML does without."""
    is_open: bool
    """Whether the brace is not closed yet: what follows stands outside of it."""

    @property
    def word(self) -> tuple[int, int]:
        """Where the word at the cursor stands."""
        return self.start, self.end


def cursor(document: Document, offset: int) -> Cursor | None:
    """The place of the cursor; None where neither a key nor a value can stand."""
    text = document.text
    start, end, quote = _word(text, offset)
    colon = _COLON.match(text, end) is not None
    gap = " " if document.format == "yaml" and not quote and text[:start].endswith(":") else ""
    for mark in _marks(document, colon=colon, gap=gap):
        marked = read_text(f"{text[:start]}{mark}{text[end:]}", document.name, document.format)
        for kind, path, data, around in _found(marked.root, ()):
            flow = marked.text[around.span.start] in "{["
            return Cursor(kind, path, start, end, quote, gap, colon, marked, data, flow, mark.endswith("}"))
    return None


def _marks(document: Document, *, colon: bool, gap: str) -> Iterator[str]:
    if document.format == "yaml":
        marks = (f"{gap}{_MARK}",) if colon or gap else (f"{_MARK}:", _MARK)
        # PyYAML reads nothing of a text in which a brace is still open.
        yield from (f"{mark}{closed}" for closed in ("", " }", " }}") for mark in marks)
    else:
        yield from (f'"{_MARK}"',) if colon else (f'"{_MARK}": 0', f'"{_MARK}": 0,', f'"{_MARK}"')


def _word(text: str, offset: int) -> tuple[int, int, str]:
    """Where the word at an offset starts and ends, and its quote."""
    line = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    quote, opened = "", line
    at = line
    while at < offset:
        char = text[at]
        if quote and char == "\\":
            at += 1
        elif char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote, opened = char, at
        at += 1
    if quote:
        rest = _REST[quote].match(text, offset)
        return opened, rest.end() if rest else offset, quote
    before, after = _WORD.match(text[line:offset][::-1]), _WORD.match(text, offset)
    return offset - (before.end() if before else 0), after.end() if after else offset, ""


def _found(node: Node | None, path: KeyPath) -> Iterator[_Place]:
    """Where the mark is."""
    if node is None:
        return
    for member in node.members:
        if _MARK in member.key:
            yield "key", path, _beside(node, member), node
        elif isinstance(member.node.value, str) and _MARK in member.node.value:
            yield "value", (*path, member.key), _beside(node, member), node
        else:
            yield from _found(member.node, (*path, member.key))
    for index, item in enumerate(node.items):
        if isinstance(item.value, str) and _MARK in item.value:
            yield "value", (*path, index), {}, node
        else:
            yield from _found(item, (*path, index))


def _beside(node: Node, member: Member) -> Json:
    """The other entries of an object."""
    return {each.key: each.node.value for each in node.members if each is not member}


# Which part of an open text is the config, and the release in whose eyes its keys are told of.


class Scope(NamedTuple):
    """Where in a text the config stands, and the circumstances in which its keys are told of."""

    base: KeyPath
    release: int
    release_name: str
    consumer: str

    def inside(self, path: KeyPath) -> KeyPath | None:
        """The path within the config; None where it is not in it."""
        return path[len(self.base) :] if path[: len(self.base)] == self.base else None


def scope(judged: Judged) -> Scope | None:
    """The circumstances of a text that is a config or holds one; None for any other.

    Of a range of releases, those of the newest.
    """
    report, data = judged.report, judged.text.document.value()
    name = judged.text.name
    leads = name.endswith(SCRIPTS) or is_launch_file(data) or format_of(data) is not None
    leads = leads or begins_launch(name, data)
    if (report.why_not_config and not is_empty(judged.text)) or (leads and not report.is_embedded):
        return None
    newest = report.target.releases[-1]
    return Scope(report.base_path, NUMBERS[newest], newest, report.consumer)


def config_in(data: Json, base: KeyPath) -> Json:
    """The config in what a text says."""
    for part in base:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def key_of(judged: Judged, path: KeyPath) -> KeyView | None:
    """The key at a path of a text; None where there is none that the release knows."""
    seen = scope(judged)
    inside = None if seen is None else seen.inside(path)
    if seen is None or not inside:
        return None
    return key_at(inside, config_in(judged.text.document.value(), seen.base), seen.release)


def config_path(judged: Judged, key: str) -> KeyPath | None:
    """The path in a text of a key of its config; None where it is not written there."""
    path = (*judged.report.base_path, *key.split("."))
    return path if judged.text.document.has_path(path) else None


# The section and the key behind a path of a config, as one release sees them.


def section_at(path: KeyPath, data: Json, release: int) -> SectionView | None:
    """The section whose keys stand at a path of a config; None where any word may stand.

    `data` is the config: the params of an optimizer depend on its type.
    """
    spec: Spec = ("section", ROOT)
    for depth in range(len(path) + 1):
        name = child_section(spec)
        if depth == len(path):
            return None if name is None else view(name, release)
        if name is None:
            spec = _member(spec, path[depth])
            continue
        key = view(name, release).keys.get(str(path[depth]))
        if key is None:
            return None
        around = data_at(data, path[:depth])
        kind = type_named(name, around.get("type")) if path[depth] == "params" else None
        spec = ("section", kind.params) if kind is not None and kind.params else key.type
    return None


def key_at(path: KeyPath, data: Json, release: int) -> KeyView | None:
    """The key at a path of a config; None where the release knows none there."""
    seen = section_at(path[:-1], data, release) if path else None
    return None if seen is None else seen.keys.get(str(path[-1]))


def data_at(data: Json, path: KeyPath) -> dict[str, Json]:
    """The object at a path; an empty one where there is none."""
    for part in path:
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return {}
    return data if isinstance(data, dict) else {}


def _member(spec: Spec, part: str | int) -> Spec:
    """The type of a member of a list or a map."""
    wanted = "list" if isinstance(part, int) else "map"
    arms = spec[1:] if spec[0] == "union" else (spec,)
    found = next((arm[1] for arm in arms if arm[0] == wanted), None)
    return ("any",) if found is None else tuple(found)
