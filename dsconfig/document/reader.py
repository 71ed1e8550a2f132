"""The reader: text, bytes, a file, a mapping or base64 becomes a `Document`.

Nothing that is read can make it raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.core.file_bytes import MAX_SIZE, contents
from dsconfig.document.document import Document
from dsconfig.document.strict_json import NotPlainError, plain
from dsconfig.document.tree import EVERYBODY, MAX_DEPTH, Format, Problem, Span, Tree

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping


_MOST = f"more than {MAX_SIZE // 2**20} MiB"


def read_text(text: str, name: str = "<text>", format: Format = "json") -> Document:
    """Read a text as a file that holds it would be read."""
    if len(text) > MAX_SIZE:
        return _unread("", name, format, "too-large", _MOST)
    if format == "yaml":
        from dsconfig.document.yaml.read import read_yaml

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
    from dsconfig.document.limits import excess, tamed

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
        from dsconfig.document.hjson.read import read_any

        return Document(name, text, "json", read_any(text, translate=translate))
    return Document(name, text, "json", lambda: _located(text), value=value)


def _located(text: str) -> Tree:
    from dsconfig.document.hjson.parser import parse

    return parse(text)


def _unread(text: str, name: str, format: Format, kind: str, detail: str = "") -> Document:
    """The document of what is not read at all, for one reason."""
    problem = Problem(kind, Span(0, len(text)), (), detail, EVERYBODY)
    return Document(name, text, format, Tree(None, (problem,)))


def _undecodable(data: bytes, name: str, format: Format, error: UnicodeDecodeError) -> Document:
    """Bytes that no parser gets to see. What is text around the bad ones is still located."""
    from dsconfig.document.encoding import in_latin, wide_encoding

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
