"""URIs of files and their paths."""

from __future__ import annotations

import os
from urllib.parse import quote, unquote, urlsplit


def path_of(uri: str) -> str | None:
    """The path of a file's URI; None for any other, such as that of a text that was never saved."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return None
    path = unquote(parts.path)
    if os.name == "nt":
        path = path.lstrip("/").replace("/", os.sep)
        return f"{os.sep * 2}{parts.netloc}{os.sep}{path}" if parts.netloc else path
    return path or None


def uri_of(path: str) -> str:
    """The URI of a path."""
    path = os.path.abspath(path)
    if os.name == "nt":
        path = path.replace(os.sep, "/")
        return f"file:{quote(path)}" if path.startswith("//") else f"file:///{quote(path, safe='/')}"
    return f"file://{quote(path, safe='/')}"


def real(name: str) -> str:
    """The path under which a file is known, whichever way leads to it."""
    return name if name.startswith("<") else os.path.realpath(name)


def name_of(uri: str) -> str:
    """What a document goes by: its path, or its URI in angle brackets, which no file has for a name."""
    return path_of(uri) or f"<{uri}>"
