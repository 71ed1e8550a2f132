"""Exit codes, and how a command prints errors and notes to stderr.

The `run` of a command returns CLEAN or PROBLEMS. Usage errors and unreadable files end in FAILED, with one line on
stderr.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import NoReturn

CLEAN, PROBLEMS, FAILED = 0, 1, 2


class UsageError(Exception):
    """A command is used incorrectly; the message is a single line."""


def print_error(message: str) -> None:
    """Print an error to stderr."""
    sys.stdout.flush()  # so that earlier output comes first on a terminal
    _print_message_line("error", message)


def print_note(message: str) -> None:
    """Print a note to stderr."""
    _print_message_line("note", message)


def _print_message_line(kind: str, message: str) -> None:
    from dsconfig.render.terminal_style import escape_unprintable, style_of, wrap_line

    print(
        wrap_line(f"dsconfig: {kind}: {escape_unprintable(message)}", style_of(sys.stderr), 2),
        file=sys.stderr,
    )


def print_internal_error(error: Exception, name: str | None = None) -> None:
    """Print an internal error and ask for a bug report, with the traceback if DSCONFIG_DEBUG is set."""
    if os.environ.get("DSCONFIG_DEBUG"):
        import traceback

        traceback.print_exception(error)
    context = f" while checking {name}" if name else ""
    kind = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if len(kind) > 200:
        kind = f"{kind[:200]}..."
    print_error(f"internal error{context}: {kind} (please report it with the output of DSCONFIG_DEBUG=1)")


def fail_with_usage_error(message: str) -> NoReturn:
    """End the run with a usage error."""
    raise UsageError(message)
