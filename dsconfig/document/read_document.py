"""Read a `Document` from text, bytes, a file, a mapping or base64."""

from __future__ import annotations

import json
import os
import re

from dsconfig.core.file_access import MAX_SIZE, read_contents
from dsconfig.core.json_types import JsonObject
from dsconfig.document.document import Document, NotPlainJsonError, parse_plain_json
from dsconfig.document.located_tree import (
    ALL_PARSERS,
    KINDS,
    MAX_DEPTH,
    Format,
    LocatedTree,
    Parser,
    TextProblem,
    TextSpan,
)

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final


# No input makes these functions raise, except a file that cannot be opened.

_TOO_LARGE = f"more than {MAX_SIZE // 2**20} MiB"


def read_text(text: str, name: str = "<text>", format: Format = "json") -> Document:
    """Parse a text as if it were the content of a file."""
    if len(text) > MAX_SIZE:
        return _failed_document("", name, format, "too-large", _TOO_LARGE)
    if format == "yaml":
        from dsconfig.document.yaml import read_yaml

        return Document(name, text, format, read_yaml(text))
    return read_json(text, name)


def read_bytes(data: bytes, name: str = "<bytes>", format: Format = "json") -> Document:
    """Decode bytes as UTF-8, as DeepSpeed's `open(path)` does in a UTF-8 locale, and parse them."""
    if len(data) > MAX_SIZE:
        return _failed_document("", name, format, "too-large", _TOO_LARGE)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return _undecodable_document(data, name, format, error)
    return read_text(text, name, format)


def read_file(path: str | os.PathLike[str]) -> Document:
    """Read a file, and parse it as YAML or JSON depending on its suffix.

    Raises:
        OSError: the file cannot be read.
    """
    name = str(path)
    return read_bytes(
        read_contents(path), name, "yaml" if name.lower().endswith((".yaml", ".yml")) else "json"
    )


def read_dict(mapping: Mapping[str, object], name: str = "<dict>") -> Document:
    """Wrap a dict that has no text; the document shares the data and has no locations."""
    return Document(name, "", "json", LocatedTree(None, ()), value=mapping, is_data=True)


def read_mapping(mapping: Mapping[str, object], name: str = "<dict>") -> Document:
    """Wrap a dict from a caller, enforcing the limits on depth and size that a text has."""
    from dsconfig.document.located_tree import exceeded_limit, replace_unserializable_values

    if (kind := exceeded_limit(mapping)) is None:
        return read_dict(replace_unserializable_values(mapping), name)
    return _failed_document("", name, "json", kind, {"too-deep": f"{MAX_DEPTH} levels"}.get(kind, ""))


def read_base64(text: str, name: str = "<base64>") -> Document:
    """Read Hjson text in URL-safe base64, as passed by launchers (`DeepSpeedConfig.__init__`)."""
    import base64
    import binascii

    try:
        data = base64.urlsafe_b64decode(text)
    except (binascii.Error, ValueError) as error:
        return _failed_document(text, name, "json", "not-text", str(error))
    if len(data) > MAX_SIZE:
        return _failed_document("", name, "json", "too-large", _TOO_LARGE)
    try:
        decoded = data.decode()
    except UnicodeDecodeError as error:
        return _undecodable_document(data, name, "json", error)
    return read_json(decoded, name, translate=False)


def read_json(text: str, name: str, *, translate: bool = True) -> Document:
    """Parse JSON or Hjson, converting line endings like `open()` if `translate` is true."""
    try:
        value = parse_plain_json(text)
    except (ValueError, RecursionError, NotPlainJsonError):
        from dsconfig.document.hjson_recovery import parse_or_recover

        return Document(name, text, "json", parse_or_recover(text, translate=translate))
    return Document(name, text, "json", lambda: _locate(text, value), value=value)


def _locate(text: str, value: JsonObject) -> LocatedTree:
    from dsconfig.document.locate_plain_json import locate_plain_json

    return locate_plain_json(text, value)


def _failed_document(text: str, name: str, format: Format, kind: str, detail: str = "") -> Document:
    """Return a document for input that cannot be parsed, whose only problem states the reason."""
    problem = TextProblem(kind, TextSpan(0, len(text)), (), detail, ALL_PARSERS)
    return Document(name, text, format, LocatedTree(None, (problem,)))


def _undecodable_document(data: bytes, name: str, format: Format, error: UnicodeDecodeError) -> Document:
    """Return a document for bytes that are not valid UTF-8, with locations around the invalid byte."""

    wide_name = wide_encoding(data[:1024].decode("latin-1"))
    if wide_name or b"\0" in data[:1024]:
        return _failed_document("", name, format, "not-text", wide_name or "")
    text = data.decode(errors="replace")
    start = len(data[: error.start].decode())
    byte = data[error.start]
    character = windows_1252_character(byte)
    detail = f"byte 0x{byte:02x}" + (f", `{character}` in Windows-1252" if character else "")
    tree = read_text(text, name, format).tree
    problem = TextProblem("invalid-utf8", TextSpan(start, start + 1), (), detail, ALL_PARSERS)
    return Document(name, text, format, tree._replace(problems=(problem, *tree.problems)))


# Documents of one run: discovery parses a file to see that it is a config, and the check needs the same document.

_MAX_KEPT, _MAX_KEPT_SIZE = 1000, 1 << 15
"""Maximum number of documents that are kept, and maximum size of each in bytes."""
_kept: dict[str, tuple[bytes, Document]] = {}


def keep_document(document: Document, data: bytes) -> None:
    """Store a document for `kept_document`, unless it is large."""
    if len(_kept) < _MAX_KEPT and len(data) <= _MAX_KEPT_SIZE:
        _kept[document.name] = data, document


def kept_document(data: bytes, name: str, format: Format, *, is_last: bool = False) -> Document | None:
    """Return the document that was stored for a file, or None if the bytes of the file have changed.

    If `is_last` is true, the document is no longer kept, because the caller may change the values of its config.
    """
    kept = _kept.pop(name, None) if is_last else _kept.get(name)
    return None if kept is None or kept[0] != data or kept[1].format != format else kept[1]


# Other JSON or YAML files with an object: training arguments, or a model's `config.json`.


def read_mapping_file(path: str | os.PathLike[str]) -> JsonObject:
    """Read an object from a JSON or YAML file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the content is not a JSON or YAML object.
    """
    document = read_file(path)
    parser: Parser = "yaml" if document.format == "yaml" else "json"
    value = document.value(parser)
    if not document.is_readable(parser) or not isinstance(value, dict):
        problem = next(iter(document.problems), None)
        detail = f" ({problem.detail})" if problem and problem.detail else ""
        reason = f": {KINDS[problem.kind]}{detail}" if problem else ""
        raise ValueError(f"{os.fspath(path)} does not contain a {parser.upper()} object{reason}")
    return value


# Encodings of bytes that are not UTF-8, and JSON strings.

_MARKS: Final = (
    ("\xff\xfe\0\0", "UTF-32"),
    ("\0\0\xfe\xff", "UTF-32"),
    ("\xff\xfe", "UTF-16"),
    ("\xfe\xff", "UTF-16"),
)
"""Byte order marks, decoded as Latin-1; longer ones first."""
_SAMPLE_SIZE: Final = 1024


def wide_encoding(text: str) -> str | None:
    """Return `UTF-16` or `UTF-32` if text decoded as Latin-1 seems to be in that encoding, else None.

    A byte order mark, as written by PowerShell, decides; without one, the zero bytes next to ASCII characters do.
    """
    for mark, name in _MARKS:
        if text.startswith(mark):
            return name
    head = text[: min(_SAMPLE_SIZE, len(text) // 4 * 4 or len(text) // 2 * 2)]
    zeros = [head[phase::4].count("\0") * 4 / len(head) for phase in range(4)] if head else []
    if sum(zero > _MANY_ZEROS for zero in zeros) == 3:
        return "UTF-32"
    evens, odds = head[::2].count("\0") * 2, head[1::2].count("\0") * 2
    is_wide = max(evens, odds) > _MANY_ZEROS * len(head) and min(evens, odds) < _FEW_ZEROS * len(head)
    return "UTF-16" if head and is_wide else None


_MANY_ZEROS: Final = 0.6
_FEW_ZEROS: Final = 0.1


def windows_1252_character(byte: int) -> str | None:
    """Return the character for a byte in Windows-1252, which extends Latin-1, or None if undefined."""
    char = bytes([byte]).decode("cp1252", errors="replace")
    return char if char.isprintable() and char != "\ufffd" else None


def readable_json_string(text: str) -> str:
    """Return text as a readable JSON string, escaping unpaired surrogates, which no file can contain."""
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isascii() else re.sub(_SURROGATE, lambda match: f"\\u{ord(match[0]):04x}", quoted)


_SURROGATE: Final = "[\ud800-\udfff]"
