"""How a text is laid out, and new values written in its manner."""

from __future__ import annotations

import json
import math
import re
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from dsconfig.document.document import LINE_END
from dsconfig.document.encoding import in_quotes

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.document.document import Document

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.$-]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,99})(?:\.\d{1,99})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_YAML_FLOAT: Final = re.compile(r"-?\d+\.\d+(?:[eE][+-]\d+)?")
_BLANKS: Final = re.compile(r"[ \t]*")
_LOOKED_AT: Final = 1000
"""Values among which an indented entry is looked for."""
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


class Manner(NamedTuple):
    """How the entries around a place are written; `key` and `word` are samples, of which the quote counts."""

    key: str = '"'
    word: str = '"'
    colon: str = ": "
    gap: str = " "
    """Behind a comma, on one line."""
    padding: str = ""
    """Inside the braces of an object on one line."""
    comma: str = ","
    """Between entries on lines of their own; Hjson does without."""
    trailing: str = ""
    """Behind the last of them."""
    spread: bool = True
    """Whether objects take lines of their own."""
    flow: bool = True
    """Whether objects stand in brackets, as they need not in YAML."""


def _unit(document: Document) -> str:
    """The blanks by which the first indented entry stands further in than what holds it."""
    todo = deque([(document.root, 0)] if document.root else [])
    for _ in range(_LOOKED_AT):
        if not todo:
            break
        node, holder = todo.popleft()
        todo += ((member.node, member.key_span.start) for member in node.members)
        todo += ((item, item.span.start) for item in node.items)
        if node.members:
            start = node.members[0].key_span.start
            at = node.span.start if document.text[node.span.start] in "{[" else holder
            before, outer = _indent(document, start), _indent(document, at)
            alone = len(before) == document.position(start).column - 1
            if before and alone and before != outer and before.startswith(outer):
                return before[len(outer) :]
    return "  "


def _indent(document: Document, at: int) -> str:
    """The blanks at the beginning of the line of an offset."""
    found = _BLANKS.match(document.text, at - document.position(at).column + 1)
    return found.group() if found else ""


def quoted_like(sample: str, name: str) -> str:
    """The name in the quotes of the sample, or without where the sample has none and the name needs none."""
    if sample[:1] == "'" and name.isprintable() and "'" not in name and "\\" not in name:
        return f"'{name}'"
    if sample[:1] not in ('"', "'", "") and _PLAIN_KEY.fullmatch(name) and name.lower() not in _YAML_WORDS:
        return name
    return in_quotes(name)


def dump(value: Json, layout: Layout, indent: str | None, manner: Manner) -> str:
    """The value as text: on one line where `indent` is None, else objects on lines below `indent`.

    Raises:
        ValueError: the value has no text that is read back as it is.
    """
    if isinstance(value, Raw):
        if value.block:
            raise ValueError("YAML in block style cannot stand in brackets")
        return moved(value, layout, indent or "")
    if isinstance(value, dict) and value:
        pairs = [(f"{quoted_like(manner.key, str(key))}{manner.colon}", item) for key, item in value.items()]
        if indent is None or not manner.spread:
            inside = [f"{key}{dump(item, layout, None, manner)}" for key, item in pairs]
            return f"{{{manner.padding}{f',{manner.gap}'.join(inside)}{manner.padding}}}"
        inner = indent + layout.unit
        lines = [_line(key, item, layout, inner, manner) for key, item in pairs]
        return f"{{{layout.newline}{joined(lines, layout, manner)}{layout.newline}{indent}}}"
    if isinstance(value, list | tuple):
        return "[" + f",{manner.gap}".join(dump(item, layout, None, manner) for item in value) + "]"
    return scalar(value, layout, manner.word if layout.yaml or manner.word in QUOTES else '"')


def _line(key: str, value: Json, layout: Layout, indent: str, manner: Manner) -> str:
    """A line of an object, without its comma."""
    if isinstance(value, str) and not (manner.comma or manner.trailing):
        return f"{indent}{key}{scalar(value, layout, manner.word)}"
    return f"{indent}{key}{dump(value, layout, indent, manner)}"


def joined(lines: list[str], layout: Layout, manner: Manner) -> str:
    """The lines of an object one below the other."""
    return f"{manner.comma}{layout.newline}".join(lines) + manner.trailing


QUOTES: Final = ("'", '"')


def scalar(value: Json, layout: Layout, sample: str = '"') -> str:
    """A value without entries; a string in the quotes of the sample, or bare as the sample is."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} has no text in JSON")
    if isinstance(value, str):
        return quoted_like(sample, value)
    text = json.dumps(value, ensure_ascii=False)
    if layout.yaml and isinstance(value, float) and "." not in text:
        return text.replace("e", ".0e")  # YAML 1.1 takes 1e-05 for text
    return text


def as_written(text: object, value: object, *, yaml: bool) -> bool:
    """Whether the text of a string, without its quotes, is this number."""
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        return False
    if yaml and isinstance(value, float) and not _YAML_FLOAT.fullmatch(text):
        return False
    read = int(text) if text.lstrip("-").isdigit() else float(text)
    return type(read) is type(value) and read == value


def moved(raw: Raw, layout: Layout, indent: str) -> str:
    """The text with its lines shifted to another indentation."""
    first, *lines = LINE_END.split(raw.text)
    shifted = [indent + line[len(raw.indent) :] if line.startswith(raw.indent) else line for line in lines]
    return layout.newline.join((first, *shifted))
