"""Readers that turn text, bytes, a file, a mapping or base64 into a `Document`."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Final

from dsconfig.core.file_access import MAX_SIZE, contents
from dsconfig.core.json_types import JsonObject
from dsconfig.document.document import Document, NotPlainError, plain
from dsconfig.document.tree import EVERYBODY, KINDS, MAX_DEPTH, Format, Parser, Problem, Span, Tree

if TYPE_CHECKING:
    from collections.abc import Mapping


# The reader: text, bytes, a file, a mapping or base64 becomes a `Document`.
#
# Nothing that is read can make it raise.

_MOST = f"more than {MAX_SIZE // 2**20} MiB"


def read_text(text: str, name: str = "<text>", format: Format = "json") -> Document:
    """Read a text as a file that holds it would be read."""
    if len(text) > MAX_SIZE:
        return _unread("", name, format, "too-large", _MOST)
    if format == "yaml":
        from dsconfig.document.yaml import read_yaml

        return Document(name, text, format, read_yaml(text))
    return read_json(text, name)


def read_bytes(data: bytes, name: str = "<bytes>", format: Format = "json") -> Document:
    """Read bytes as UTF-8, as DeepSpeed's `open(path)` does in a UTF-8 locale."""
    if len(data) > MAX_SIZE:
        return _unread("", name, format, "too-large", _MOST)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return _undecodable(data, name, format, error)
    return read_text(text, name, format)


def read_file(path: str | os.PathLike[str]) -> Document:
    """Read a file; YAML by its suffix. An `OSError` is the caller's."""
    name = str(path)
    return read_bytes(contents(path), name, "yaml" if name.lower().endswith((".yaml", ".yml")) else "json")


def read_dict(mapping: Mapping[str, object], name: str = "<dict>") -> Document:
    """A document of a config that never was text: it gives back the very data, and has no places."""
    return Document(name, "", "json", Tree(None, ()), value=mapping, is_data=True)


def read_mapping(mapping: Mapping[str, object], name: str = "<dict>") -> Document:
    """The document of a dict that somebody made: as little as a text may it be too deep or too large."""
    from dsconfig.document.tree import excess, tamed

    if (kind := excess(mapping)) is None:
        return read_dict(tamed(mapping), name)
    return _unread("", name, "json", kind, {"too-deep": str(MAX_DEPTH)}.get(kind, ""))


def read_base64(text: str, name: str = "<base64>") -> Document:
    """Read the urlsafe base64 of an Hjson text, which launchers pass (`DeepSpeedConfig.__init__`)."""
    import base64
    import binascii

    try:
        data = base64.urlsafe_b64decode(text)
    except (binascii.Error, ValueError) as error:
        return _unread(text, name, "json", "not-text", str(error))
    if len(data) > MAX_SIZE:
        return _unread("", name, "json", "too-large", _MOST)
    try:
        decoded = data.decode()
    except UnicodeDecodeError as error:
        return _undecodable(data, name, "json", error)
    return read_json(decoded, name, translate=False)


def read_json(text: str, name: str, *, translate: bool = True) -> Document:
    """Read JSON or Hjson. `translate`: line ends are taken as `open()` gives them."""
    try:
        value = plain(text)
    except (ValueError, RecursionError, NotPlainError):
        from dsconfig.document.hjson_recovery import read_any

        return Document(name, text, "json", read_any(text, translate=translate))
    return Document(name, text, "json", lambda: _located(text), value=value)


def _located(text: str) -> Tree:
    from dsconfig.document.hjson import parse

    return parse(text)


def _unread(text: str, name: str, format: Format, kind: str, detail: str = "") -> Document:
    """The document of what is not read at all, for one reason."""
    problem = Problem(kind, Span(0, len(text)), (), detail, EVERYBODY)
    return Document(name, text, format, Tree(None, (problem,)))


def _undecodable(data: bytes, name: str, format: Format, error: UnicodeDecodeError) -> Document:
    """Bytes that no parser gets to see. What is text around the bad ones is still located."""

    wide = wide_encoding(data[:1024].decode("latin-1"))
    if wide or b"\0" in data[:1024]:
        return _unread("", name, format, "not-text", wide or "")
    text = data.decode(errors="replace")
    start = len(data[: error.start].decode())
    byte = data[error.start]
    latin = in_latin(byte)
    detail = f"byte 0x{byte:02x}" + (f", `{latin}` in Windows-1252" if latin else "")
    found = read_text(text, name, format).tree
    problem = Problem("invalid-utf8", Span(start, start + 1), (), detail, EVERYBODY)
    return Document(name, text, format, found._replace(problems=(problem, *found.problems)))


# A JSON or YAML file beside the config that holds an object: training arguments, or a model's
# `config.json`.


def read_mapping_file(path: str | os.PathLike[str]) -> JsonObject:
    """A JSON or YAML file that holds an object.

    Raises:
        OSError: the path cannot be read.
        ValueError: it is not a JSON or YAML object.
    """
    document = read_file(path)
    parser: Parser = "yaml" if document.format == "yaml" else "json"
    value = document.value(parser)
    if not document.readable(parser) or not isinstance(value, dict):
        problem = next(iter(document.problems), None)
        detail = f" ({problem.detail})" if problem and problem.detail else ""
        told = f": {KINDS[problem.kind]}{detail}" if problem else ""
        raise ValueError(f"{os.fspath(path)} holds no {parser.upper()} object{told}")
    return value


# How bytes that are not UTF-8 text were probably written, and how a string is written as text.

_MARKS: Final = (
    ("\xff\xfe\0\0", "UTF-32"),
    ("\0\0\xfe\xff", "UTF-32"),
    ("\xff\xfe", "UTF-16"),
    ("\xfe\xff", "UTF-16"),
)
"""Byte order marks, each byte as the character with its number; the longer ones first."""
_LOOKED_AT: Final = 1024


def wide_encoding(text: str) -> str | None:
    """`UTF-16` or `UTF-32`, where the characters, each of one byte, look like it.

    A byte order mark says so, as PowerShell writes it; without one the zeros do, which stand beside each
    ASCII character.
    """
    for mark, name in _MARKS:
        if text.startswith(mark):
            return name
    head = text[: min(_LOOKED_AT, len(text) // 4 * 4 or len(text) // 2 * 2)]
    zeros = [head[phase::4].count("\0") * 4 / len(head) for phase in range(4)] if head else []
    if sum(zero > _MOSTLY for zero in zeros) == 3:
        return "UTF-32"
    evens, odds = head[::2].count("\0") * 2, head[1::2].count("\0") * 2
    is_wide = max(evens, odds) > _MOSTLY * len(head) and min(evens, odds) < _RARELY * len(head)
    return "UTF-16" if head and is_wide else None


_MOSTLY: Final = 0.6
_RARELY: Final = 0.1


def in_latin(byte: int) -> str | None:
    """The character of a byte in Windows-1252, which extends Latin-1; None where it has none."""
    char = bytes([byte]).decode("cp1252", errors="replace")
    return char if char.isprintable() and char != "\ufffd" else None


def in_quotes(text: str) -> str:
    """The string as JSON writes it, readable; half a UTF-16 pair, which no file can hold, stays an escape."""
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isascii() else _HALF_PAIR.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
