"""Output files: new text of a config, a diff or a plot."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator

from dsconfig.cli.errors import fail_with_usage_error
from dsconfig.document import Document
from dsconfig.document.atomic_write import rewrite_if_unchanged
from dsconfig.render.matplotlib_output import SUFFIXES

# New text of a config: to stdout, into the file, or as a diff.

CI_VARIABLES = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Variables set by CI services; elsewhere, a diff with `##vso[...]` may be piped into `patch`."""
_LONGEST = 60
"""Characters of a line that a message shows."""


def write_text(text: str) -> None:
    """Write the text of a config to stdout as UTF-8, whatever the encoding of stdout.

    Raises:
        UsageError: a CI service that logs the output would execute a line of it.
    """
    forbid_ci_commands(text)
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.stdout.buffer.flush()  # before anything on stderr


def rewrite_document(name: str, document: Document, text: str) -> None:
    """Write the new text of a document: to stdout for `-`, otherwise to its file.

    Raises:
        OSError: the file cannot be written, or has changed since it was read.
    """
    if name == "-":
        write_text(text)
    elif text != document.file_text:
        rewrite_if_unchanged(name, document.file_text.encode(), text.encode())


def is_lossless(document: Document) -> bool:
    """Whether the text can be written back: bytes that are not UTF-8 would be lost."""
    return not any(problem.kind in ("invalid-utf8", "not-text") for problem in document.problems)


def check_output_format(document: Document, name: str) -> None:
    """Reject an output file that would lose bytes, or whose suffix is of another format."""
    if not is_lossless(document):
        fail_with_usage_error(f"{document.name} is not UTF-8 text")
    suffix = os.path.splitext(name)[1].lower()
    if document.format == "yaml" and suffix in (".json", ".jsonc", ".hjson"):
        fail_with_usage_error(
            f"{name}: {document.name} is YAML and is not converted; choose a name that ends in .yaml"
        )
    if document.format != "yaml" and suffix in (".yaml", ".yml"):
        fail_with_usage_error(
            f"{name}: {document.name} is not YAML and is not converted; choose a name that ends in .json"
        )


def unified_diff(name: str, old: str, new: str) -> Iterator[str]:
    """Unified diff of two texts."""
    from dsconfig.render.unified_diff import unified_diff_lines

    return unified_diff_lines(old, new, _file_name_in_diff(f"a/{name}"), _file_name_in_diff(f"b/{name}"))


def print_diff(lines: Iterable[str]) -> None:
    """Print a diff, with control characters escaped on a terminal.

    Elsewhere the lines stay as they are, so that the diff can be applied.

    Raises:
        UsageError: a CI service that logs the output would execute a line of it.
    """
    from dsconfig.render.terminal_style import escape_invisible

    if sys.stdout.isatty():
        sys.stdout.writelines(map(escape_invisible, lines))
        return
    text = "".join(lines)
    forbid_ci_commands(text, anywhere=any(os.environ.get(name) for name in CI_VARIABLES))
    sys.stdout.write(text)


def forbid_ci_commands(text: str, *, anywhere: bool = True) -> None:
    """Reject text that a CI service reading the log would execute, where escaping would corrupt the text.

    `anywhere` also looks for commands in the middle of a line (`##vso[...]`).

    Raises:
        UsageError: a line is a command, and stdout is not a file.
    """
    from dsconfig.render.terminal_style import is_agent_command, is_line_command

    if _is_stdout_redirected():
        return
    for line in re.split(r"[\r\n]", text):
        if is_line_command(line) or (anywhere and is_agent_command(line)):
            shown = line.strip()
            shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
            fail_with_usage_error(
                f"CI services would execute a line of the output, `{shown}`; write the output to a file"
            )


def _is_stdout_redirected() -> bool:
    """Whether stdout is redirected to a file, which no CI service reads as a log."""
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):  # stdout has no descriptor
        return False


def _file_name_in_diff(name: str) -> str:
    """File name as git writes it: quoted and escaped if it has unprintable characters."""
    if not name.isprintable() or any(mark in name for mark in ('"', "\\", "##")):
        quoted = (_escape_character(char) for char in name)
        return f'"{"".join(quoted)}"'
    return f"{name}\t" if " " in name else name  # patch takes the text after a blank for a date


def _escape_character(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable() and char != "#":  # `##` starts a command of CI services
        return char
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(char))


# Plots.

NEEDS_MATPLOTLIB = "--plot needs matplotlib: install `deepspeed-config[plot]`"


def plot_suffix(name: str | None) -> str:
    """Suffix of the plot file, empty without one; the run ends for an unknown suffix."""
    if name is None:
        return ""
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in SUFFIXES:
        fail_with_usage_error(f"--plot {name}: expected a file that ends in {' or '.join(SUFFIXES)}")
    return suffix
