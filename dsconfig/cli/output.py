"""Writing a config's new text: to stdout, over the file, or as a diff."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

from dsconfig.cli.errors import refuse
from dsconfig.document import Document
from dsconfig.document.atomic_write import rewrite


def put(text: str) -> None:
    """Write a config's text as it would stand in a file, whatever the encoding of stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.stdout.buffer.flush()  # before anything on stderr


def replace(name: str, document: Document, text: str) -> None:
    """Put the new text where the document's was: on stdout for `-`, else in the file.

    Raises:
        OSError: the file cannot be written, or is not what was read.
    """
    if name == "-":
        put(text)
    elif text != document.text:
        rewrite(name, document.text.encode(), text.encode())


def is_whole(document: Document) -> bool:
    """Whether the text is all of the file: bytes that are not UTF-8 would be lost in writing it."""
    return not any(problem.kind in ("invalid-utf8", "not-text") for problem in document.problems)


def refuse_unlike(document: Document, name: str) -> None:
    """Refuse to write a config's text where it would lose bytes, or to a name of another format."""
    if not is_whole(document):
        refuse(f"{document.name}: is not UTF-8 text")
    form = os.path.splitext(name)[1].lower()
    if document.format == "yaml" and form in (".json", ".jsonc", ".hjson"):
        refuse(f"{name}: {document.name} is YAML, whose text is kept: give a name that ends in .yaml")
    if document.format != "yaml" and form in (".yaml", ".yml"):
        refuse(f"{name}: {document.name} is no YAML, and its text is kept: give a name that ends in .json")


def difference(name: str, old: str, new: str) -> Iterator[str]:
    """The unified diff of two texts, as patch tools read it."""
    from dsconfig.render.diff import unified

    return unified(old, new, _in_diff(f"a/{name}"), _in_diff(f"b/{name}"))


def show(lines: Iterable[str]) -> None:
    """Print a diff. A terminal gets no control characters; git leaves that to its pager, which there is not.

    Anything else gets the lines as they are, so that they can be applied.
    """
    from dsconfig.render.printable import visible

    sys.stdout.writelines(map(visible, lines) if sys.stdout.isatty() else lines)


def _in_diff(name: str) -> str:
    """A file's name as git writes it: in quotes and with escapes where it holds what nobody can see."""
    if not name.isprintable() or any(mark in name for mark in ('"', "\\", "##")):
        quoted = (_quoted(char) for char in name)
        return f'"{"".join(quoted)}"'
    return f"{name}\t" if " " in name else name  # else patch takes what follows the blank for a date


def _quoted(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable() and char != "#":  # two begin a command to CI services
        return char
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(char))
