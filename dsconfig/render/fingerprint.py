"""What the formats for other programs share: the names of files, and what tells a finding from the others."""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import cache

from dsconfig.core.diagnostic import Diagnostic


def relative(name: str) -> str:
    """The path from the repository's root, with slashes; where there is none, from the working directory.

    What lies elsewhere keeps its absolute path, and what is not a file its name: `<stdin>`.
    """
    if not name or name.startswith("<"):
        return name
    path = os.path.abspath(name)
    try:
        below = os.path.relpath(path, _root(os.getcwd()))
    except ValueError:  # another drive
        return path
    outside = below == os.pardir or below.startswith(os.pardir + os.sep)
    return (path if outside else below).replace(os.sep, "/")


@cache
def _root(folder: str) -> str:
    """The nearest folder upwards that is a repository; else the folder itself."""
    above = folder
    while not os.path.lexists(os.path.join(above, ".git")):
        above, below = os.path.dirname(above), above
        if above == below:
            return folder
    return above


def in_words(name: str) -> str:
    """A file's name as text for any program: bytes that are not UTF-8 are escaped.

    Python makes half a UTF-16 pair of it, which many parsers of JSON refuse.
    """
    try:
        return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:  # halves that came from elsewhere
        return name.encode(errors="backslashreplace").decode()


def as_json(value: object, indent: int | None = None, *, ascii: bool = True) -> str:
    """The value in JSON, which a CI service that logs it does not take for commands (`##[group]`)."""
    return json.dumps(value, indent=indent, ensure_ascii=ascii).replace("##", r"#\u0023")


class Fingerprints:
    """One for each finding of a run, the same in the next run even where lines have moved."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def of(self, name: str, found: Diagnostic) -> str:
        """Rule, file and key; the second of their kind gets a number besides."""
        words = "\0".join((relative(name), found.code, found.dotted))
        from hashlib import sha256  # loads OpenSSL, which few formats need

        digest = sha256(words.encode(errors="surrogatepass")).hexdigest()[:32]
        self.seen[digest] += 1
        number = self.seen[digest]
        return digest if number == 1 else f"{digest}-{number}"
