"""Locate the cursor in a config: the word being typed, and the section and key around it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from dsconfig.core.releases import NUMBERS
from dsconfig.document import Document, read_text
from dsconfig.job.consumers.accelerate_launch_file import is_launch_file
from dsconfig.launch.launch_file_formats import detect_launch_format, is_shell_script_name
from dsconfig.lsp.relevant_documents import is_draft_config, is_draft_launch_file
from dsconfig.model.key_table import (
    KeyView,
    SectionView,
    child_section,
    find_type,
    root_section,
    section_view_of_release,
)

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath, Spec
    from dsconfig.document import TreeNode
    from dsconfig.document.located_tree import ObjectMember
    from dsconfig.lsp.workspace import DocumentSnapshot


# Half-typed text has no node for the word at the cursor. So the word is replaced by a marker, which the tolerant
# parser then returns as a key or a value.

if TYPE_CHECKING:
    _MarkerNode = tuple[Literal["key", "value"], KeyPath, Json, TreeNode]

_MARKER = "zqcursorqz"
_WORD = re.compile(r"[\w$./-]*")
"""Pattern of a part of a word; the part before the cursor is matched backwards."""
_REST = {'"': re.compile(r'[^"\n\r,:{}\[\]]*"?'), "'": re.compile(r"[^'\n\r,:{}\[\]]*'?")}
_COLON = re.compile(r"[ \t]*:")
_EQUAL_SIGN = re.compile(r"[ \t]*=(?!=)")


class CompletionCursor(NamedTuple):
    """A position that can be completed: a key of the object at `path`, or the value at `path`."""

    kind: Literal["key", "value"]
    path: KeyPath
    start: int
    end: int
    quote: str
    """Opening quote of the word at the cursor, if any."""
    gap: str
    """Space to insert before the word, which YAML needs after a colon."""
    has_value: bool
    """Whether a colon follows the word at the cursor."""
    document: Document
    """Document with a marker in place of the word at the cursor."""
    data: Json
    """Object at `path`, or the object that contains it, without the marker."""
    flow: bool
    """Whether the surrounding object or list has braces or brackets, which YAML does not need."""
    is_open: bool
    """Whether the surrounding brace is not closed yet, so that the following text is outside of it."""
    is_argument: bool = False
    """Whether the key is a keyword argument of a call, not a key of a dict."""

    @property
    def word_range(self) -> tuple[int, int]:
        """Start and end of the word under the cursor."""
        return self.start, self.end


def cursor_at(document: Document, offset: int) -> CompletionCursor | None:
    """Return what to complete at an offset, or None if neither a key nor a value is allowed there."""
    text = document.text
    start, end, quote = _word_at(text, offset)
    colon = _COLON.match(text, end) is not None
    gap = " " if document.format == "yaml" and not quote and text[:start].endswith(":") else ""
    for marker in _cursor_markers(document, colon=colon, gap=gap):
        marked = read_text(f"{text[:start]}{marker}{text[end:]}", document.name, document.format)
        for kind, path, data, container in _find_marker(marked.root, ()):
            flow = marked.text[container.span.start] in "{["
            return CompletionCursor(
                kind, path, start, end, quote, gap, colon, marked, data, flow, marker.endswith("}")
            )
    return None


def cursor_in_program(
    text: str, offset: int, read: Callable[[str], list[Document]]
) -> CompletionCursor | None:
    """Return what to complete at an offset of a Python source, or None outside config dicts.

    `read` returns the configs in a text. The source need not be valid while a key is being typed.
    """
    start, end, quote = _word_at(text, offset)
    colon, is_assigned = _COLON.match(text, end) is not None, _EQUAL_SIGN.match(text, end) is not None
    word = json.dumps(_MARKER)
    # The last one makes a config of a dict without any key.
    candidates = (word,) if colon else (f"{word}: 0", f"{word}: 0,", word, f'{word}: 0, "{_FIRST_KEY}": 0')
    if not quote:
        arguments = (_MARKER,) if is_assigned else (f"{_MARKER}=0", f"{_MARKER}=0,")
        candidates = (*candidates, *arguments)
    for marker in candidates:
        marked_text = f"{text[:start]}{marker}{text[end:]}"
        for marked in read(marked_text):
            for kind, path, data, container in _find_marker(marked.root, ()):
                is_argument = kind == "key" and marked.text[container.span.start] not in "{["
                has_value = is_assigned if is_argument else colon
                return CompletionCursor(
                    kind, path, start, end, quote, "", has_value, marked, data, True, False, is_argument
                )
    return None


_FIRST_KEY = "wall_clock_breakdown"


def _cursor_markers(document: Document, *, colon: bool, gap: str) -> Iterator[str]:
    if document.format == "yaml":
        candidates = (f"{gap}{_MARKER}",) if colon or gap else (f"{_MARKER}:", _MARKER)
        # PyYAML cannot parse a text with an open brace.
        yield from (f"{candidate}{closed}" for closed in ("", " }", " }}") for candidate in candidates)
    else:
        yield from (f'"{_MARKER}"',) if colon else (f'"{_MARKER}": 0', f'"{_MARKER}": 0,', f'"{_MARKER}"')


def _word_at(text: str, offset: int) -> tuple[int, int, str]:
    """Return the start, end and opening quote of the word at an offset."""
    line = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    quote, quote_start = "", line
    index = line
    while index < offset:
        char = text[index]
        if quote and char == "\\":
            index += 1
        elif char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote, quote_start = char, index
        index += 1
    if quote:
        rest = _REST[quote].match(text, offset)
        return quote_start, rest.end() if rest else offset, quote
    before, after = _WORD.match(text[line:offset][::-1]), _WORD.match(text, offset)
    return offset - (before.end() if before else 0), after.end() if after else offset, ""


def _find_marker(node: TreeNode | None, path: KeyPath) -> Iterator[_MarkerNode]:
    """Yield the kind, path, siblings and container of the cursor's marker in a tree."""
    if node is None:
        return
    for member in node.members:
        if _MARKER in member.key:
            yield "key", path, _sibling_entries(node, member), node
        elif isinstance(member.node.value, str) and _MARKER in member.node.value:
            yield "value", (*path, member.key), _sibling_entries(node, member), node
        else:
            yield from _find_marker(member.node, (*path, member.key))
    for index, item in enumerate(node.items):
        if isinstance(item.value, str) and _MARKER in item.value:
            yield "value", (*path, index), {}, node
        else:
            yield from _find_marker(item, (*path, index))


def _sibling_entries(node: TreeNode, member: ObjectMember) -> Json:
    """Return all entries of an object except `member`."""
    return {each.key: each.node.value for each in node.members if each is not member}


# Scope of the config in a document.


class ConfigScope(NamedTuple):
    """The path of the config in a document, and the release and consumer that apply to it."""

    base: KeyPath
    release: int
    release_name: str
    consumer: str

    def path_in_config(self, path: KeyPath) -> KeyPath | None:
        """Convert a document path to a path in the config, or None if it is outside."""
        return path[len(self.base) :] if path[: len(self.base)] == self.base else None


def config_scope_of(snapshot: DocumentSnapshot) -> ConfigScope | None:
    """Return the scope of a document's config for the newest release of its target, or None without a config."""
    report, data = snapshot.report, snapshot.text.document.value()
    name = snapshot.text.name
    is_launch = is_shell_script_name(name) or is_launch_file(data) or detect_launch_format(data) is not None
    is_launch = is_launch or is_draft_launch_file(name, data)
    if (report.why_not_config and not is_draft_config(snapshot.text)) or (
        is_launch and not report.is_embedded
    ):
        return None
    newest = report.target.releases[-1]
    return ConfigScope(report.base_path, NUMBERS[newest], newest, report.consumer)


def config_in_data(data: Json, base: KeyPath) -> Json:
    """Return the config inside the data of a document."""
    for part in base:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def key_at_document_path(snapshot: DocumentSnapshot, path: KeyPath) -> KeyView | None:
    """Return the key at a document path, or None if the release has none."""
    config_scope = config_scope_of(snapshot)
    relative = None if config_scope is None else config_scope.path_in_config(path)
    if config_scope is None or not relative:
        return None
    data = config_in_data(snapshot.text.document.value(), config_scope.base)
    return key_at_path(relative, data, config_scope)


def document_path_of_key(snapshot: DocumentSnapshot, key: str) -> KeyPath | None:
    """Return the document path of a config key, or None if it is not in the text."""
    path = (*snapshot.report.base_path, *key.split("."))
    return path if snapshot.text.document.has_path(path) else None


# Sections and keys of a release by path.


def section_at_path(path: KeyPath, data: Json, scope: ConfigScope) -> SectionView | None:
    """Return the section at a path of a config, or None if any key is allowed there.

    `data` is the config; the parameters of an optimizer depend on its type.
    """
    spec: Spec = ("section", root_section(scope.consumer))
    release = scope.release
    for depth in range(len(path) + 1):
        name = child_section(spec)
        if depth == len(path):
            return None if name is None else section_view_of_release(name, release)
        if name is None:
            spec = _type_of_member(spec, path[depth])
            continue
        key = section_view_of_release(name, release).keys.get(str(path[depth]))
        if key is None:
            return None
        parent = object_at_path(data, path[:depth])
        params_type = find_type(name, parent.get("type")) if path[depth] == "params" else None
        spec = ("section", params_type.params) if params_type is not None and params_type.params else key.type
    return None


def key_at_path(path: KeyPath, data: Json, scope: ConfigScope) -> KeyView | None:
    """Return the key at a path of a config, or None if the release has no such key."""
    section = section_at_path(path[:-1], data, scope) if path else None
    return None if section is None else section.keys.get(str(path[-1]))


def object_at_path(data: Json, path: KeyPath) -> dict[str, Json]:
    """Return the object at a path, or an empty one if there is none."""
    for part in path:
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return {}
    return data if isinstance(data, dict) else {}


def _type_of_member(spec: Spec, part: str | int) -> Spec:
    """Return the type of a list item or map value."""
    wanted = "list" if isinstance(part, int) else "map"
    arms = spec[1:] if spec[0] == "union" else (spec,)
    member_type = next((arm[1] for arm in arms if arm[0] == wanted), None)
    return ("any",) if member_type is None else tuple(member_type)
