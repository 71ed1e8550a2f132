"""How completion writes keys, values and blocks: in the text's format, with placeholders."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.lsp.cursor import Cursor

_BARE = re.compile(r"[A-Za-z_][\w./+-]*")
_NOT_BARE = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""Words that YAML 1.1 takes for something else."""
_PLACE = re.compile(r'"\^(\$\{\d+:[^}]*\})"')
_NAMED = re.compile(r"\$\{\d+:([^}]*)\}")
_EMPTY = {"section": "{}", "map": "{}", "list": "[]", "str": '""'}
_LONG = 60
"""Characters from which on a block has a line for each key."""


class Hand(NamedTuple):
    """How things are written in a text."""

    yaml: bool
    bare: bool
    """Whether keys stand without quotes, as YAML and Hjson have them; a line of its own needs no comma."""
    snippets: bool
    """Whether the editor knows placeholders."""
    flow: bool
    """Whether what is around has braces."""
    indent: str
    """The white space before the line."""

    @property
    def is_block(self) -> bool:
        """Whether objects are written as lines that stand further in, without braces."""
        return self.yaml and not self.flow

    def entry(self, word: str, at: Cursor, value: str) -> str:
        """A key in the quotes that were typed already, and its value, unless it has one."""
        key = f"{at.quote or chr(34)}{word}{at.quote or chr(34)}"
        if self.bare and not at.quote and (_BARE.fullmatch(word) or word.startswith("$")):
            key = word
        between = ":" if value.startswith("\n") else ": "
        return self.literal(key) + ("" if at.has_value else f"{between}{value}".rstrip(" "))

    def value(self, value: Json, quote: str = "") -> str:
        """A value without objects in it."""
        if isinstance(value, str) and self.yaml and not quote:
            bare = _BARE.fullmatch(value) and value.lower() not in _NOT_BARE
            return value if bare else json.dumps(value)
        if isinstance(value, str) and quote == "'":
            return f"'{value}'"
        return json.dumps(value)

    def block(self, body: Json) -> str:
        """An object with everything in it, as it follows a key; its lines stand under the key's own."""
        if not body:
            return self.beneath()
        text = "\n" + _indented(_yaml(body), "  ") if self.is_block else _json(body)
        text = _PLACE.sub(r"\1", text)
        return text if self.snippets else _NAMED.sub(r"\1", text).replace("\n", f"\n{self.indent}")

    def beneath(self) -> str:
        """An empty object, in which the next key is typed."""
        if self.is_block and self.snippets:
            return "\n  $1"
        return "" if self.is_block else self.hole("section")

    def place(self, value: Json) -> str:
        """A value that is likely meant, and can be typed over."""
        text = self.value(value)
        if not self.snippets:
            return text
        if value in ([], {}, ""):
            return f"{text[:1]}$1{text[1:]}"
        return f"${{1:{self.literal(text)}}}"

    def literal(self, text: str) -> str:
        """A text in which nothing is a placeholder."""
        return re.sub(r"([\\$}])", r"\\\1", text) if self.snippets else text

    def hole(self, kind: str) -> str:
        """Where the value of a kind is typed; a value where the editor knows no such place."""
        empty = _EMPTY.get(kind, "")
        if not self.snippets:
            return empty or "null"
        return f"{empty[:1]}$1{empty[1:]}" if empty else "$1"


def _json(body: Json) -> str:
    flat = json.dumps(body)
    return flat if len(flat) <= _LONG else json.dumps(body, indent=2)


def _yaml(body: Json) -> str:
    lines = []
    for key, value in body.items():
        if isinstance(value, dict):
            lines.append(f"{key}:\n{_indented(_yaml(value), '  ')}")
        elif isinstance(value, str) and _BARE.fullmatch(value):
            lines.append(f"{key}: {value}")
        else:
            lines.append(f"{key}: {json.dumps(value)}")
    return "\n".join(lines)


def _indented(text: str, by: str) -> str:
    return "\n".join(by + line for line in text.split("\n"))
