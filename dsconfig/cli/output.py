"""Output files: new text of a config, a diff or a plot."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator

from dsconfig.cli.errors import refuse
from dsconfig.document import Document
from dsconfig.document.atomic_write import rewrite
from dsconfig.render.matplotlib_output import SUFFIXES

# Writing a config's new text: to stdout, over the file, or as a diff.

CI_VARIABLES = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Variables of CI services: elsewhere a diff with `##vso[...]` may be piped into what applies it."""
_LONGEST = 60
"""Characters of a line that a message shows."""


def put(text: str) -> None:
    """Write a config's text as it would stand in a file, whatever the encoding of stdout.

    Raises:
        UsageError: a line of it would be a command to a CI service that logs the output.
    """
    refuse_commands(text)
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

    Raises:
        UsageError: a line would be a command to a CI service that logs the output.
    """
    from dsconfig.render.terminal import visible

    if sys.stdout.isatty():
        sys.stdout.writelines(map(visible, lines))
        return
    text = "".join(lines)
    refuse_commands(text, anywhere=any(os.environ.get(name) for name in CI_VARIABLES))
    sys.stdout.write(text)


def refuse_commands(text: str, *, anywhere: bool = True) -> None:
    """Refuse text that has to keep every character, where its reader may be the log of a CI service.

    `anywhere` looks for commands that may begin in the middle of a line (`##vso[...]`), too.

    Raises:
        UsageError: a line of it would be a command, and stdout is no file.
    """
    from dsconfig.render.terminal import is_agent_command, is_line_command

    if _is_file():
        return
    for line in re.split(r"[\r\n]", text):
        if is_line_command(line) or (anywhere and is_agent_command(line)):
            shown = line.strip()
            shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
            refuse(f"CI services would obey a line of the text, `{shown}`: send the output to a file")


def _is_file() -> bool:
    """Whether stdout is a file, which nobody logs as it comes."""
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):  # none of the system's
        return False


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


# Files that a verb draws a picture to.

NEEDS_MATPLOTLIB = "--plot needs matplotlib: install `deepspeed-config[plot]`"


def plotted(name: str | None) -> str:
    """The suffix of a picture's file, nothing where none is asked for; another one ends the run."""
    if name is None:
        return ""
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in SUFFIXES:
        refuse(f"--plot {name}: expected a file that ends in {' or '.join(SUFFIXES)}")
    return suffix
