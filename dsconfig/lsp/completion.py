"""Completion of keys, values and blocks at the cursor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.job.job_facts import DSCONFIG_KEY as OWN
from dsconfig.lsp.completion_cursor import (
    CompletionCursor,
    config_in_data,
    config_scope_of,
    cursor_at,
    cursor_in_program,
    key_at_path,
    section_at_path,
)
from dsconfig.lsp.completion_item import (
    PROPERTY,
    SNIPPET,
    CompletionItem,
    InsertTextWriter,
    block_candidates,
    completion_item_for_value,
    value_candidates,
)
from dsconfig.lsp.hover import key_as_markdown
from dsconfig.lsp.workspace import configs_in_document, is_python_document
from dsconfig.model.key_table import child_section

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.lsp.completion_cursor import ConfigScope
    from dsconfig.lsp.workspace import DocumentSnapshot, Workspace
    from dsconfig.model.key_table import KeyView, SectionView

_SNIPPET, _AS_IS, _ADJUST = 2, 1, 2
_HIDDEN = frozenset(("internal", "not_json", "unread"))
_NEXT_ENTRY = re.compile(r"(\s*)[\"'\w$]")
_NO_BRACES = re.compile(
    r"""//[^\r\n]*|\#[^\r\n]*|/\*.*?(?:\*/|\Z)|"(?:[^"\\\r\n]|\\.)*"?|'(?:[^'\\\r\n]|\\.)*'?""", re.DOTALL
)
"""Pattern of comments and quoted strings, terminated or not, in which braces do not count."""
_LARGEST = 1 << 16
"""Maximal number of characters of a text in which braces are counted."""
_INDENT = re.compile(r"[ \t]*")


def answer_completion(workspace: Workspace, params: JsonObject) -> JsonObject:
    """Answer `textDocument/completion`."""
    items: list[JsonObject] = []
    snapshot, position = _snapshot_with_cursor(workspace, params["textDocument"]["uri"], params["position"])
    if snapshot is not None:
        capabilities = (
            workspace.client.get("textDocument", {}).get("completion", {}).get("completionItem", {})
        )
        if position is not None:
            before = snapshot.text.text[: position.start]
            indent = _INDENT.match(before, max(before.rfind("\r"), before.rfind("\n")) + 1)
            writer = InsertTextWriter(
                snapshot.text.yaml,
                _has_bare_keys(snapshot),
                bool(capabilities.get("snippetSupport")),
                position.flow,
                indent[0] if indent else "",
            )
            braces = _braces_around_key(snapshot, position)
            if braces is not None:
                items = [
                    _completion_item(snapshot, position, writer, offer, braces)
                    for offer in _completion_items(snapshot, position, writer)
                ]
    return {"isIncomplete": False, "items": items}


def _snapshot_with_cursor(
    workspace: Workspace, uri: str, position: JsonObject
) -> tuple[DocumentSnapshot | None, CompletionCursor | None]:
    text = workspace.texts.get(uri)
    if text is None or not is_python_document(text):
        snapshot = workspace.draft_snapshot(uri)
        if snapshot is None:
            return None, None
        return snapshot, cursor_at(snapshot.text.document, snapshot.text.lines.offset_of(position))
    # The source may be invalid while a key is typed, so the config is that of the text with a marker.
    place = cursor_in_program(
        text.text,
        text.lines.offset_of(position),
        lambda source: configs_in_document(text, workspace.texts.values(), source),
    )
    return (None, None) if place is None else (workspace.program_snapshot(text, place.document), place)


def _braces_around_key(snapshot: DocumentSnapshot, position: CompletionCursor) -> tuple[str, str] | None:
    """Return the braces to insert around a completed key, or None if the position allows no key.

    An empty JSON file needs braces; outside the braces of an object there is nothing to complete.
    """
    text = snapshot.text.text
    is_elsewhere = bool(position.path) or position.kind != "key" or len(text) > _LARGEST
    is_elsewhere = is_elsewhere or position.document.is_in_program
    if snapshot.text.yaml or snapshot.text.name.endswith(".hjson") or is_elsewhere:
        return "", ""
    if "{" not in text:
        return "{\n  ", "\n}"
    before = _NO_BRACES.sub("", text[: position.start])
    return ("", "") if before.count("{") > before.count("}") else None


def _completion_item(
    snapshot: DocumentSnapshot,
    position: CompletionCursor,
    writer: InsertTextWriter,
    item: CompletionItem,
    braces: tuple[str, str],
) -> JsonObject:
    is_python = position.document.format == "python"
    text = (_json_text_as_python(item.text) if is_python else item.text) + _comma_after(
        snapshot, position, writer
    )
    if braces[0]:
        text = braces[0] + text.replace("\n", "\n  ") + braces[1]
    text = text if text.startswith("\n") else position.gap + text
    result: JsonObject = {
        "label": _json_text_as_python(item.label) if is_python else item.label,
        "kind": item.kind,
        "filterText": f"{position.quote}{item.label}{position.quote}",
        "sortText": f"{item.rank}{item.label}",
        "textEdit": {"range": snapshot.text.lines.range_between(*position.word_range), "newText": text},
    }
    if edits := _edit_inserting_comma(snapshot, position, writer):
        result["additionalTextEdits"] = edits
    if writer.snippets:
        result |= {"insertTextFormat": _SNIPPET, "insertTextMode": _ADJUST}
    elif "\n" in text:
        result["insertTextMode"] = _AS_IS
    if item.documentation:
        result["documentation"] = {"kind": "markdown", "value": item.documentation}
    if item.detail:
        result["detail"] = item.detail
    return result


_JSON_WORDS = re.compile(r'"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b')
_PYTHON_WORDS = {"true": "True", "false": "False", "null": "None"}


def _json_text_as_python(text: str) -> str:
    """Replace `true`, `false` and `null` in a JSON text with Python's constants."""
    return _JSON_WORDS.sub(lambda match: _PYTHON_WORDS.get(match[0], match[0]), text)


def _has_bare_keys(snapshot: DocumentSnapshot) -> bool:
    """Return whether the keys of a text are unquoted, judging by the first key that is not being typed."""
    document = snapshot.text.document
    if document.format == "python":
        return False
    if snapshot.text.yaml or document.root is None or not document.root.members:
        return snapshot.text.yaml or snapshot.text.name.endswith(".hjson")
    return document.text[document.root.members[0].key_span.start] not in "\"'"


def _comma_after(snapshot: DocumentSnapshot, position: CompletionCursor, writer: InsertTextWriter) -> str:
    """Return a comma if one must be inserted before the next entry, else an empty string."""
    following = _NEXT_ENTRY.match(snapshot.text.text, position.end)
    if following is None or position.has_value or position.is_open:
        return ""
    return "," if _needs_comma(writer, following[1]) else ""


def _edit_inserting_comma(
    snapshot: DocumentSnapshot, position: CompletionCursor, writer: InsertTextWriter
) -> list[JsonObject]:
    """Return the edit that inserts a missing comma after the previous entry; empty if no comma is missing."""
    before = snapshot.text.text[: position.start].rstrip()
    if position.kind != "key" or before[-1:] in ("{", "[", "(", ",", "", "/"):
        return []
    if not _needs_comma(writer, snapshot.text.text[len(before) : position.start]):
        return []
    return [{"range": snapshot.text.lines.range_between(len(before), len(before)), "newText": ","}]


def _needs_comma(writer: InsertTextWriter, gap: str) -> bool:
    """Return whether a comma is missing in the gap between two entries."""
    if writer.yaml or not writer.bare:
        return writer.flow
    return "\n" not in gap and "\r" not in gap


def _completion_items(
    snapshot: DocumentSnapshot, position: CompletionCursor, writer: InsertTextWriter
) -> Iterator[CompletionItem]:
    data = position.document.value()
    config_scope = config_scope_of(snapshot)
    path = None if config_scope is None else config_scope.path_in_config(position.path)
    if config_scope is None:
        from dsconfig.lsp.completion_item import accelerate_file_items

        yield from accelerate_file_items(data, position, writer)
    elif path is not None and path[:1] == (OWN,):
        from dsconfig.lsp.completion_item import dsconfig_block_items as of_own_block

        yield from of_own_block(path[1:], position, writer)
    elif path is not None and position.kind == "key":
        section = section_at_path(path, config_in_data(data, config_scope.base), config_scope)
        if section is not None:
            yield from _key_items(position, writer, config_scope, section)
    elif path:
        yield from _value_items(config_in_data(data, config_scope.base), path, position, writer, config_scope)


def _key_items(
    position: CompletionCursor, writer: InsertTextWriter, config_scope: ConfigScope, section: SectionView
) -> Iterator[CompletionItem]:
    present = {section.keys[word].info.name for word in position.data if word in section.keys}
    for word, key in section.keys.items():
        info = key.info
        is_old = info.deprecated <= config_scope.release
        if word != info.name or info.name in present or info.flags & _HIDDEN or is_old:
            continue
        yield CompletionItem(
            word,
            writer.write_entry(word, position, _first_value_for_key(key, writer, config_scope)),
            PROPERTY,
            key_as_markdown(word, key, config_scope.release_name),
            info.unit or "",
            _sort_rank_of_key(section, key, position.data),
        )
    if section.name == "Config" and OWN not in position.data:
        yield CompletionItem(
            OWN,
            writer.write_entry(OWN, position, writer.write_empty_object()),
            PROPERTY,
            "Settings of this config for `dsconfig`.",
            rank=8,
        )


def _first_value_for_key(key: KeyView, writer: InsertTextWriter, config_scope: ConfigScope) -> str:
    """Return the value to insert after a completed key: a placeholder with the most likely value."""
    if child_section(key.type) is not None:
        return writer.write_empty_object()
    values = value_candidates(key, config_scope)
    best = next((candidate for candidate in values if candidate.value == "auto"), None) or next(
        (candidate for candidate in values if candidate.is_default), values[0] if values else None
    )
    if best is None:
        return writer.write_empty_value(key.type[0])
    return writer.write_placeholder(best.value)


def _sort_rank_of_key(section: SectionView, key: KeyView, data: Json) -> int:
    """Return the sort rank of a key, which is last for keys that the config's ZeRO stage does not read."""
    if section.name == "ZeroOptimization" and isinstance(stage := data.get("stage"), int):
        from dsconfig.model.key_table import ZERO_STAGES

        if stage not in ZERO_STAGES.get(key.info.name, (stage,)):
            return 7
    return 4 if key.info.required else 5


def _value_items(
    data: Json,
    path: tuple[str | int, ...],
    position: CompletionCursor,
    writer: InsertTextWriter,
    config_scope: ConfigScope,
) -> Iterator[CompletionItem]:
    while path and isinstance(path[-1], int):
        path = path[:-1]
    key = key_at_path(path, data, config_scope)
    section = section_at_path(path[:-1], data, config_scope)
    if key is None or section is None:
        return
    for rank, candidate in enumerate(value_candidates(key, config_scope)):
        yield completion_item_for_value(candidate, position, writer, min(rank, 9))
    for candidate in block_candidates(section, key, config_scope):
        yield CompletionItem(candidate.label, writer.write_block(candidate.value), SNIPPET, detail="block")
