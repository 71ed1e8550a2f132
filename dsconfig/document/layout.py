"""How a text is laid out, and new values written in its manner."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dsconfig.document.text import LINE_END

if TYPE_CHECKING:
    from dsconfig.document.text import Document
    from dsconfig.json_types import Json

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.$-]*")
_YAML_WORDS: Final = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"])


@dataclass(frozen=True, slots=True)
class Layout:
    """Line ends and indentation of a text."""

    newline: str
    unit: str
    yaml: bool

    @classmethod
    def of(cls, document: Document) -> Layout:
        """As the document has them; two blanks where nothing is indented."""
        found = LINE_END.search(document.text)
        return cls(found.group() if found else "\n", _unit(document), document.format == "yaml")


@dataclass(frozen=True, slots=True)
class Raw:
    """A value as it is written somewhere, in lines that are indented by `indent` there."""

    text: str
    indent: str
    block: bool = False
    """Whether it is YAML in block style, which cannot stand in brackets."""


def _unit(document: Document) -> str:
    """The blanks by which the first indented entry stands further in than what holds it."""
    todo = [document.root] if document.root else []
    while todo:
        node = todo.pop(0)
        todo += (*(member.node for member in node.members), *node.items)
        if node.members:
            start = node.members[0].key_span.start
            line = document.position(start)
            before = document.line(line.line)[: line.column - 1]
            outer = document.line(document.position(node.span.start).line)
            outer = outer[: len(outer) - len(outer.lstrip())]
            if before and not before.strip(" \t") and before != outer and before.startswith(outer):
                return before[len(outer) :]
    return "  "


def quoted_like(sample: str, name: str) -> str:
    """The name in the quotes of the sample, or without where the sample has none and the name needs none."""
    if sample[:1] == "'" and name.isprintable() and "'" not in name and "\\" not in name:
        return f"'{name}'"
    if sample[:1] not in ('"', "'", "") and _PLAIN_KEY.fullmatch(name) and name.lower() not in _YAML_WORDS:
        return name
    return json.dumps(name, ensure_ascii=False)


def dump(value: Json, layout: Layout, indent: str | None) -> str:
    """The value as text: on one line where `indent` is None, else objects on lines below `indent`.

    Raises:
        ValueError: the value has no text that is read back as it is.
    """
    if isinstance(value, Raw):
        if value.block:
            raise ValueError("YAML in block style cannot stand in brackets")
        return moved(value, layout, indent or "")
    if isinstance(value, dict) and value:
        pairs = [(json.dumps(str(key), ensure_ascii=False), item) for key, item in value.items()]
        if indent is None:
            return "{" + ", ".join(f"{key}: {dump(item, layout, None)}" for key, item in pairs) + "}"
        inner = indent + layout.unit
        lines = f",{layout.newline}".join(f"{inner}{key}: {dump(item, layout, inner)}" for key, item in pairs)
        return f"{{{layout.newline}{lines}{layout.newline}{indent}}}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(dump(item, layout, None) for item in value) + "]"
    return scalar(value, layout)


def scalar(value: Json, layout: Layout) -> str:
    """A value without entries."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} has no text in JSON")
    text = json.dumps(value, ensure_ascii=False)
    if layout.yaml and isinstance(value, float) and "." not in text:
        return text.replace("e", ".0e")  # YAML 1.1 takes 1e-05 for text
    return text


def moved(raw: Raw, layout: Layout, indent: str) -> str:
    """The text with its lines shifted to another indentation."""
    first, *lines = LINE_END.split(raw.text)
    shifted = [indent + line[len(raw.indent) :] if line.startswith(raw.indent) else line for line in lines]
    return layout.newline.join((first, *shifted))
