"""Helpers of machine-readable formats: file names, JSON, and fingerprints of diagnostics."""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import cache

from dsconfig.core.diagnostic import Diagnostic


def relative_path(name: str) -> str:
    """Path relative to the repository root, or to the working directory outside of a repository.

    Files elsewhere keep their absolute path, and names such as `<stdin>` stay as they are.
    """
    if not name or name.startswith("<"):
        return name
    path = os.path.abspath(name)
    try:
        below = os.path.relpath(path, _repository_root(os.getcwd()))
    except ValueError:  # another drive
        return path
    outside = below == os.pardir or below.startswith(os.pardir + os.sep)
    return (path if outside else below).replace(os.sep, "/")


@cache
def _repository_root(folder: str) -> str:
    """Nearest parent directory that is a repository, or the directory itself."""
    above = folder
    while not os.path.lexists(os.path.join(above, ".git")):
        above, below = os.path.dirname(above), above
        if above == below:
            return folder
    return above


def escape_file_name(name: str) -> str:
    """File name as valid UTF-8: other bytes are escaped.

    Python represents them as lone surrogates, which many JSON parsers reject.
    """
    try:
        return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:  # lone surrogates that are no escaped bytes
        return name.encode(errors="backslashreplace").decode()


def dump_json(value: object, indent: int | None = None, *, ascii: bool = True) -> str:
    """Value as JSON, with `##` escaped: CI services execute commands such as `##[group]` in a log."""
    return json.dumps(value, indent=indent, ensure_ascii=ascii).replace("##", r"#\u0023")


class Fingerprints:
    """Fingerprints of the diagnostics of a run, stable when lines move."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def of(self, name: str, diagnostic: Diagnostic) -> str:
        """Hash of rule, file and key, with a number if it occurs again."""
        words = "\0".join((relative_path(name), diagnostic.code, diagnostic.dotted))
        from hashlib import sha256  # loads OpenSSL, which few formats need

        digest = sha256(words.encode(errors="surrogatepass")).hexdigest()[:32]
        self.counts[digest] += 1
        number = self.counts[digest]
        return digest if number == 1 else f"{digest}-{number}"
