"""Exit codes, and what the command says beside its result.

The `run` of a verb returns CLEAN or FINDINGS (for `check`: `dsconfig.cli.check`); wrong use and files that cannot be
read end in FAILED, with one line on stderr.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import NoReturn

CLEAN, FINDINGS, FAILED = 0, 1, 2


class UsageError(Exception):
    """Wrong use; the message is the one line to show."""


def complain(message: str) -> None:
    """Show one line on stderr."""
    sys.stdout.flush()  # what was found before comes first on a terminal
    _say("error", message)


def note(message: str) -> None:
    """Say something that is not an error."""
    _say("note", message)


def _say(kind: str, message: str) -> None:
    from dsconfig.render.terminal import printable, style_of, wrapped

    print(wrapped(f"dsconfig: {kind}: {printable(message)}", style_of(sys.stderr), 2), file=sys.stderr)


def complain_internal(error: Exception, name: str | None = None) -> None:
    """Say that the fault is ours, and what to report; the traceback only where DSCONFIG_DEBUG is set."""
    if os.environ.get("DSCONFIG_DEBUG"):
        import traceback

        traceback.print_exception(error)
    doing = f" while checking {name}" if name else ""
    kind = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if len(kind) > 200:
        kind = f"{kind[:200]}..."
    complain(f"internal error{doing}: {kind} (please report it with the output under DSCONFIG_DEBUG=1)")


def refuse(message: str) -> NoReturn:
    """End the run for wrong use."""
    raise UsageError(message)
