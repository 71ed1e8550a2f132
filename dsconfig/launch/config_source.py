"""Read any config source that `check` accepts: a path, text, bytes, URL-safe base64, a dict or a `Config`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from dsconfig import document
from dsconfig.document import Document
from dsconfig.launch.read_passed_config import read_config_at_path

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Protocol, TypeAlias

    from dsconfig.core.json_types import Json, JsonObject

    class ConfigObject(Protocol):
        """An object with a `to_dict` method that returns a config, such as `dsconfig.Config`."""

        def to_dict(self) -> JsonObject:
            """Return the keys that were set, as a dict."""


ConfigSource: TypeAlias = "str | bytes | os.PathLike[str] | Mapping[str, Json] | ConfigObject"

_BASE64 = r"[A-Za-z0-9_-]{8,}={0,2}"


def read_config_source(source: ConfigSource) -> Document:
    """Read a config source of any supported kind into a document.

    A string with a bracket, quote, line end or colon that is not an existing path is text. URL-safe base64
    that decodes to an object is a config as launchers encode it. Any other string is a path.

    Raises:
        OSError: the path cannot be read.
        TypeError: the source is of another type.
    """
    if isinstance(source, Mapping):
        return document.read_mapping(source)
    if isinstance(source, bytes):
        return document.read_bytes(source, "<bytes>")
    if isinstance(source, str) and is_config_text(source):
        return document.read_text(source)
    if isinstance(source, str) and _is_base64_config(source):
        return document.read_base64(source)
    if isinstance(source, str | os.PathLike):
        return read_config_at_path(os.fspath(source))
    if hasattr(source, "to_dict"):
        return document.read_mapping(source.to_dict(), "<config>")
    raise TypeError(f"expected a path, text, bytes, a dict or a Config, not {type(source).__name__}")


def is_config_text(source: str) -> bool:
    """Return whether a string is the text of a config rather than a path."""
    if not source or "\0" in source:
        return True
    # A file may have a colon or a brace in its name, so an existing path wins.
    looks = any(char in source for char in '{}[]\n\r"') or ": " in source
    return looks and not os.path.exists(source)


def _is_base64_config(source: str) -> bool:
    """Return whether a string is a URL-safe base64 config rather than an existing path.

    DeepSpeed accepts a base64 config wherever a path is expected: runtime/config.py:DeepSpeedConfig.__init__.
    """
    if not re.fullmatch(_BASE64, source) or os.path.exists(source):
        return False
    return "{" in document.read_base64(source).text
