"""Hover texts in Markdown: what a key does, its type, default and effective value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dsconfig.core.wording import quote_value
from dsconfig.job.consumers.accelerate_launch_file import is_launch_file
from dsconfig.lsp.commented_effective_values import effective_values_by_key
from dsconfig.lsp.completion_cursor import config_scope_of, key_at_document_path
from dsconfig.model.key_description import describe_key
from dsconfig.render.terminal_style import escape_unprintable

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject, KeyPath
    from dsconfig.document import TreeNode
    from dsconfig.lsp.workspace import DocumentSnapshot, Workspace
    from dsconfig.model.key_table import KeyView


def answer_hover(workspace: Workspace, params: JsonObject) -> JsonObject | None:
    """Answer `textDocument/hover`."""
    snapshot = workspace.snapshot_at(params["textDocument"]["uri"], params["position"])
    if snapshot is None:
        return None
    lines = snapshot.text.lines
    entry = entry_at(snapshot.text.document.root, lines.offset_of(params["position"]))
    if entry is None:
        return None
    path, span = entry
    text = _hover_text(snapshot, path)
    return (
        {"contents": {"kind": "markdown", "value": text}, "range": lines.range_between(*span)}
        if text
        else None
    )


def _hover_text(snapshot: DocumentSnapshot, path: KeyPath) -> str:
    config_scope = config_scope_of(snapshot)
    if config_scope is None:
        return _accelerate_key_text(snapshot, path)
    key = key_at_document_path(snapshot, path)
    config_path = config_scope.path_in_config(path)
    if key is None or config_path is None:
        return ""
    dotted = ".".join(map(str, config_path))
    paragraphs = [markdown_code_span(dotted), key_as_markdown(str(path[-1]), key, config_scope.release_name)]
    value = effective_values_by_key(snapshot).get(dotted)
    if value is not None:
        shown = quote_value(value.value)[1:-1]
        paragraphs.append(f"Effective value: {markdown_code_span(shown)} ({escape_markdown(value.note)})")
    return "\n\n".join(paragraphs)


def key_as_markdown(word: str, key: KeyView, release: str) -> str:
    """Describe a key in one release as Markdown; `word` is its name or an alias."""
    return describe_key(key.info, view=key, release=release, alias=word).markdown()


def _accelerate_key_text(snapshot: DocumentSnapshot, path: KeyPath) -> str:
    if not is_launch_file(snapshot.text.document.value()):
        return ""
    from dsconfig.lsp.completion_item import accelerate_key_schemas

    schema = accelerate_key_schemas(path[:-1]).get(str(path[-1]), {}) if path else {}
    description = str(schema.get("description", ""))
    return f"{markdown_code_span('.'.join(map(str, path)))}\n\n{description}" if description else ""


def entry_at(root: TreeNode | None, offset: int) -> tuple[KeyPath, tuple[int, int]] | None:
    """Return the path of the entry at an offset, and the span of its key or value.

    Return None between entries, that is, at a bracket or comma, and in a list item that is not an object.
    """
    node, path = root, tuple[str | int, ...]()
    while node is not None:
        for member in node.members:
            if _span_contains(member.key_span, offset):
                return (*path, member.key), member.key_span
        inside = next((member for member in node.members if _span_contains(member.node.span, offset)), None)
        if inside is not None:
            node, path = inside.node, (*path, inside.key)
            if not (node.members or node.items):
                return path, node.span
            continue
        numbers = (index for index, item in enumerate(node.items) if _span_contains(item.span, offset))
        index = next(numbers, None)
        node, path = (None, path) if index is None else (node.items[index], (*path, index))
    return None


def _span_contains(span: tuple[int, int], offset: int) -> bool:
    return span[0] <= offset <= span[1]


# Text of a config as Markdown: a link, image or tag in it must not be rendered.

_SPAN = re.compile(r"`([^`]+)`")
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~&@]|(?<=www)\.|:(?=//)", re.IGNORECASE)


def markdown_code_span(text: str) -> str:
    """Return a text, which may contain backticks, as a Markdown code span."""
    shown = escape_unprintable(text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    blank = " " if longest or not shown.strip() else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


def escape_markdown(text: str) -> str:
    """Escape a text for Markdown, keeping its code spans, so that bare URLs do not become links."""
    parts = _SPAN.split(escape_unprintable(text))
    return "".join(
        markdown_code_span(part) if at % 2 else _SPECIAL.sub(r"\\\g<0>", part)
        for at, part in enumerate(parts)
    )
