"""How completion writes keys, values and blocks: in the text's format, with placeholders."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dsconfig.json_types import Json

_BARE = re.compile(r"[A-Za-z_][\w./+-]*")
_NOT_BARE = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""Words that YAML 1.1 takes for something else."""
_PLACE = re.compile(r'"\^(\$\{\d+:[^}]*\})"')
_NAMED = re.compile(r"\$\{\d+:([^}]*)\}")
_LONG = 60
"""Characters from which on a block has a line for each key."""


class Hand(NamedTuple):
    """How things are written in a text."""

    yaml: bool
    bare: bool
    """Whether keys stand without quotes, as YAML and Hjson have them; such texts need no commas."""
    snippets: bool
    """Whether the editor knows placeholders."""

    def key(self, word: str, quote: str) -> str:
        """A key, in the quotes that were typed already."""
        if self.bare and not quote:
            return word if _BARE.fullmatch(word) or word.startswith("$") else json.dumps(word)
        return f"{quote or chr(34)}{word}{quote or chr(34)}"

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
        text = "\n" + _indented(_yaml(body), "  ") if self.yaml else _json(body)
        text = _PLACE.sub(r"\1", text)
        return text if self.snippets else _NAMED.sub(r"\1", text)

    def literal(self, text: str) -> str:
        """A text in which nothing is a placeholder."""
        return re.sub(r"([\\$}])", r"\\\1", text) if self.snippets else text

    def hole(self) -> str:
        """Where the cursor goes."""
        return "$1" if self.snippets else ""


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
