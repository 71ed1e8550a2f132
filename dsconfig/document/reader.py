"""The reader: text, bytes, a file, a mapping or base64 becomes a `Document`.

Nothing that is read can make it raise.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dsconfig.document.numbers import number
from dsconfig.document.text import Document
from dsconfig.document.tree import (
    EVERYBODY,
    MAX_DEPTH,
    MAX_SIZE,
    MAX_VALUES,
    Format,
    Problem,
    Span,
    Tree,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


class _NotPlainError(Exception):
    """The text is JSON, but not of the plain kind that hjson and json read alike."""


def read_text(text: str, name: str = "<text>", format: Format = "json") -> Document:
    """Read a text as a file that holds it would be read."""
    if len(text) > MAX_SIZE:
        return too_large(name, format)
    if format == "yaml":
        from dsconfig.document.yaml import read_yaml

        return Document(name, text, format, tree=read_yaml(text))
    return _read_json(text, name)


def read_bytes(data: bytes, name: str = "<bytes>", format: Format = "json") -> Document:
    """Read bytes as UTF-8, as DeepSpeed's `open(path)` does in a UTF-8 locale."""
    if len(data) > MAX_SIZE:
        return too_large(name, format)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return _undecodable(data, name, format, error)
    return read_text(text, name, format)


def read_file(path: str | os.PathLike[str]) -> Document:
    """Read a file; YAML by its suffix. An `OSError` is the caller's."""
    name = str(path)
    with open(path, "rb") as file:
        data = file.read(MAX_SIZE + 1)
    return read_bytes(data, name, "yaml" if name.lower().endswith((".yaml", ".yml")) else "json")


def read_dict(mapping: Mapping[str, object], name: str = "<dict>") -> Document:
    """A document of a config that never was text: it gives back the very data, and has no places."""
    return Document(name, "", "json", tree=Tree(None, ()), value=mapping)


def read_base64(text: str, name: str = "<base64>") -> Document:
    """Read the urlsafe base64 of an Hjson text, which launchers pass (`DeepSpeedConfig.__init__`)."""
    import base64
    import binascii

    try:
        data = base64.urlsafe_b64decode(text)
    except (binascii.Error, ValueError) as error:
        problem = Problem("not-text", Span(0, len(text)), (), str(error), EVERYBODY)
        return Document(name, text, "json", tree=Tree(None, (problem,)))
    if len(data) > MAX_SIZE:
        return too_large(name, "json")
    try:
        decoded = data.decode()
    except UnicodeDecodeError as error:
        return _undecodable(data, name, "json", error)
    return _read_json(decoded, name, translate=False)


def too_large(name: str, format: Format) -> Document:
    """The document of a text that is not read at all."""
    return Document(name, "", format, tree=Tree(None, (Problem("too-large", Span(0, 0), (), "", EVERYBODY),)))


def _undecodable(data: bytes, name: str, format: Format, error: UnicodeDecodeError) -> Document:
    """Bytes that no parser gets to see. What is text around the bad ones is still located."""
    if b"\0" in data[:1024]:
        return Document(
            name, "", format, tree=Tree(None, (Problem("not-text", Span(0, 0), (), "", EVERYBODY),))
        )
    text = data.decode(errors="replace")
    start = len(data[: error.start].decode())
    detail = f"byte 0x{data[error.start]:02x}"
    found = read_text(text, name, format).tree
    problem = Problem("invalid-utf8", Span(start, start + 1), (), detail, EVERYBODY)
    return Document(name, text, format, tree=found._replace(problems=(problem, *found.problems)))


# -- JSON and Hjson --------------------------------------------------------------------------------


def _read_json(text: str, name: str, *, translate: bool = True) -> Document:
    try:
        value = _plain(text)
    except (ValueError, RecursionError, _NotPlainError):
        from dsconfig.document.tolerant import read_any

        return Document(name, text, "json", tree=read_any(text, translate=translate))
    return Document(name, text, "json", value=value, grow=lambda: _located(text))


def _located(text: str) -> Tree:
    from dsconfig.document.scanner import Scanner

    return Scanner(text).read()


def _plain(text: str) -> dict[str, object]:
    """The value of strict JSON that hjson reads alike, by json's own C scanner. Anything else raises."""
    brackets = text.count("{") + text.count("[")
    if text.count(",") + brackets >= MAX_VALUES or "\\ud" in text or "\\uD" in text:
        raise _NotPlainError  # perhaps too many values, perhaps half a surrogate pair
    if not text.isascii():
        text.encode()  # raises on a lone surrogate
    value = _DECODER.decode(text)
    if type(value) is not dict or (brackets > MAX_DEPTH and _depth(value) > MAX_DEPTH):
        raise _NotPlainError
    return value


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _NotPlainError  # duplicate keys
    return value


def _float(word: str) -> int | float:
    try:
        return number(word)
    except OverflowError:
        raise _NotPlainError from None  # json gives infinity, hjson fails


def _constant(word: str) -> object:
    raise _NotPlainError(word)  # NaN and Infinity: words to hjson


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)


def _depth(value: object) -> int:
    """How deep a value is nested, without recursion."""
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            child
            for parent in level
            for child in (
                parent.values() if isinstance(parent, dict) else parent if isinstance(parent, list) else ()
            )
            if isinstance(child, dict | list)
        ]
    return depth
