"""Completion: keys that are not there yet, values that a key takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.lsp.cursor import Cursor, cursor
from dsconfig.lsp.known import section_at
from dsconfig.lsp.place import Scope, config_in, scope
from dsconfig.lsp.told import told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsconfig.json_types import JsonObject
    from dsconfig.lsp.judged import Judged
    from dsconfig.lsp.workspace import Workspace
    from dsconfig.model.views import KeyView, SectionView

_PROPERTY = 10


def answer(workspace: Workspace, params: JsonObject) -> JsonObject:
    """`textDocument/completion`."""
    judged = workspace.judged(params["textDocument"]["uri"])
    found: list[JsonObject] = []
    if judged is not None and not judged.report.foreign:
        at = cursor(judged.text.document, judged.text.lines.offset(params["position"]))
        found = [] if at is None else list(_items(judged, at))
    return {"isIncomplete": False, "items": found}


def _items(judged: Judged, at: Cursor) -> Iterator[JsonObject]:
    seen = scope(judged)
    inside = seen.inside(at.path)
    if inside is None or at.kind == "value":
        return
    section = section_at(inside, config_in(at.document.value(), seen.base), seen.release)
    if section is not None:
        yield from _keys(judged, at, seen, section)


def _keys(judged: Judged, at: Cursor, seen: Scope, section: SectionView) -> Iterator[JsonObject]:
    there = {section.keys[word].info.name for word in at.data if word in section.keys}
    for word, key in section.keys.items():
        info = key.info
        if word != info.name or info.name in there or info.flags & {"internal", "not_json", "unread"}:
            continue
        yield _key(judged, at, word, key, seen)


def _key(judged: Judged, at: Cursor, word: str, key: KeyView, seen: Scope) -> JsonObject:
    quote = at.quote or ("" if judged.text.yaml else '"')
    found: JsonObject = {
        "label": word,
        "kind": _PROPERTY,
        "documentation": {"kind": "markdown", "value": told(word, key, seen.release_name)},
        "filterText": f"{quote}{word}{quote}",
        "textEdit": {
            "range": judged.text.lines.range(*at.word),
            "newText": f"{quote}{word}{quote}{'' if at.has_value else ': '}",
        },
    }
    if key.info.deprecated <= seen.release:
        found["tags"] = [1]
    return found
