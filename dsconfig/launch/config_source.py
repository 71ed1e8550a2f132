"""What `check` takes: the path of a config, its text or bytes, URL-safe base64, a dict or a `Config`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from dsconfig import document
from dsconfig.document import Document
from dsconfig.launch.config_references import read_config

if TYPE_CHECKING:
    from typing import Protocol

    from dsconfig.core.json_types import Json, JsonObject

    class Built(Protocol):
        """A config that was built, such as `dsconfig.Config`."""

        def to_dict(self) -> JsonObject:
            """What was set."""


ConfigSource: TypeAlias = "str | bytes | os.PathLike[str] | Mapping[str, Json] | Built"

_BASE64 = r"[A-Za-z0-9_-]{8,}={0,2}"


def read(source: ConfigSource) -> Document:
    """The document behind a source.

    A string with a bracket, quote, line end or colon in it, and no file of that name, is text. URL-safe
    base64 that decodes to an object is what launchers pass on. Any other string is a path.

    Raises:
        OSError: the path cannot be read.
        TypeError: this is nothing of all that.
    """
    if isinstance(source, Mapping):
        return document.read_mapping(source)
    if isinstance(source, bytes):
        return document.read_bytes(source, "<bytes>")
    if isinstance(source, str) and is_text(source):
        return document.read_text(source)
    if isinstance(source, str) and _is_base64(source):
        return document.read_base64(source)
    if isinstance(source, str | os.PathLike):
        return read_config(os.fspath(source))
    if hasattr(source, "to_dict"):
        return document.read_mapping(source.to_dict(), "<config>")
    raise TypeError(f"expected a path, text, bytes, a dict or a Config, not {type(source).__name__}")


def is_text(source: str) -> bool:
    """Whether a string is a config's text rather than the path of a file."""
    if not source or "\0" in source:
        return True
    looks = any(char in source for char in '{}[]\n\r"') or ": " in source
    return looks and not os.path.exists(source)


def _is_base64(source: str) -> bool:
    """Whether a string is a config in URL-safe base64, and not the name of a file."""
    if not re.fullmatch(_BASE64, source) or os.path.exists(source):
        return False
    return "{" in document.read_base64(source).text
