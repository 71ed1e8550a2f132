"""A file that an editor reads, and how its settings join what is there already.

What is there stays byte for byte; our settings are added to it, or the file is left alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypeAlias

from dsconfig.document import Node, read_text
from dsconfig.document.edit import Edit, EditError, apply, editor

Entry: TypeAlias = "tuple[tuple[str, ...], object]"
"""A setting: the keys that lead to it, and its value."""


class SettingsConflictError(ValueError):
    """Settings that cannot be added to; the message is one line."""


@dataclass(frozen=True, slots=True)
class EditorFile:
    """One file, with the text that it has where there is none yet."""

    path: str
    text: str
    entries: tuple[Entry, ...] = ()
    """Settings to add to the JSON that is there; without them the file is ours as a whole."""
    mark: str | None = None
    """What only a file of ours contains: such a file may be written over."""

    def merged(self, old: str | None) -> str:
        """The text of the file with our settings in it, the rest as it was.

        Raises:
            SettingsConflictError: something else stands where our settings belong.
        """
        ours = old is not None and self.mark is not None and self.mark in old
        if old is None or old == self.text or not old.strip() or ours:
            return self.text
        if not self.entries:
            raise SettingsConflictError(f"{self.path}: exists, and is not what would be written")
        for path, value in self.entries:
            old = _added(self.path, old, path, value)
        return old


def _added(name: str, text: str, path: tuple[str, ...], value: object) -> str:
    """The settings with one entry more, or unchanged where it is there already."""
    document = read_text(text, name)
    root = document.root
    if root is None or root.kind != "object" or not {found.kind for found in document.problems} <= _FINE:
        raise SettingsConflictError(f"{name}: no JSON object to add settings to")
    try:
        there = document.node(path)
        if there is None:
            return apply(text, editor(document).set(path, value))
        if isinstance(value, list) and there.kind == "array":
            return _extended(text, there, value)
    except EditError as error:
        raise SettingsConflictError(f"{name}: {error}") from None
    raise SettingsConflictError(f"{name}: `{'.'.join(path)}` is {there.kind} there, where a list belongs")


_FINE = frozenset(("comment", "trailing-comma", "bom"))
"""What editors allow in their settings."""


def _extended(text: str, there: Node, value: list[object]) -> str:
    """The list with our items that it lacks at its end."""
    held = [_plain(item) for item in there.items]
    lacking = [item for item in value if item not in held]
    if not lacking:
        return text
    written = ", ".join(json.dumps(item) for item in lacking)
    if not there.items:
        return apply(text, [Edit(there.span.start, there.span.end, f"[{written}]")])
    end = there.items[-1].span.end
    return apply(text, [Edit(end, end, f", {written}")])


def _plain(node: Node) -> object:
    if node.kind == "object":
        return {member.key: _plain(member.node) for member in node.members}
    return [_plain(item) for item in node.items] if node.kind == "array" else node.value
