"""Long texts packed for the store, which takes text: zlib in base64; short ones stay readable."""

from __future__ import annotations

import base64
import zlib

SHORT = 4096
"""Characters of a text that is left as it is; it does not begin with the mark."""
LONGEST = 1 << 26
"""Characters of a text that is unpacked: a few bytes can stand for any number."""
_MARK = "z"
_LEVEL = 1
"""A tenth larger than at 6, in a small part of its time: all nodes that form a group wait for it."""


def pack(text: str) -> str:
    """The text as it is kept; `text` is ASCII."""
    if len(text) < SHORT:
        return text
    return _MARK + base64.b64encode(zlib.compress(text.encode("ascii"), _LEVEL)).decode("ascii")


def unpack(packed: str | bytes) -> str:
    """What `pack` was given.  Raises `ValueError` for anything else."""
    kept = packed.decode("ascii") if isinstance(packed, bytes) else packed
    if not kept.startswith(_MARK):
        return kept
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(base64.b64decode(kept[len(_MARK) :], validate=True), LONGEST)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacker.eof or unpacker.unused_data or len(text) < SHORT:
        raise ValueError("it was cut short, or is longer than any job's")
    return text.decode("ascii")
