"""Helpers for machine-readable formats: file names, JSON, and diagnostic fingerprints."""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import cache

from dsconfig.core import file_access
from dsconfig.core.diagnostic import Diagnostic


def relative_path(name: str) -> str:
    """Return a path relative to the repository root, or outside any repository, to the working directory.

    Files elsewhere keep their absolute path, and names such as `<stdin>` stay as they are.
    """
    if not name or name.startswith("<"):
        return name
    path = os.path.abspath(name)
    below = file_access.relative_path(path, _repository_root(os.getcwd()))
    outside = os.path.isabs(below) or below == os.pardir or below.startswith(os.pardir + os.sep)
    return (path if outside else below).replace(os.sep, "/")


@cache
def _repository_root(folder: str) -> str:
    """Return the root of the repository that contains `folder`, or `folder` itself outside a repository."""
    above = folder
    while not os.path.lexists(os.path.join(above, ".git")):
        above, below = os.path.dirname(above), above
        if above == below:
            return folder
    return above


def escape_file_name(name: str) -> str:
    """Return a file name as valid UTF-8, escaping all other bytes.

    Python represents such bytes as lone surrogates, which many JSON parsers reject.
    """
    try:
        return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:  # lone surrogates that are no escaped bytes
        return name.encode(errors="backslashreplace").decode()


def dump_json(value: object, indent: int | None = None, *, ascii: bool = True) -> str:
    """Return `value` as JSON, with `##` escaped, because CI services execute commands such as `##[group]`."""
    return json.dumps(value, indent=indent, ensure_ascii=ascii).replace("##", r"#\u0023")


class Fingerprints:
    """Fingerprints of a run's diagnostics, which do not change when lines move."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def of(self, name: str, diagnostic: Diagnostic) -> str:
        """Return a hash of rule, file and key, with a number if the combination occurs more than once."""
        words = "\0".join((relative_path(name), diagnostic.code, diagnostic.dotted))
        from hashlib import sha256  # loads OpenSSL, which few formats need

        digest = sha256(words.encode(errors="surrogatepass")).hexdigest()[:32]
        self.counts[digest] += 1
        number = self.counts[digest]
        return digest if number == 1 else f"{digest}-{number}"
