"""argparse as this command uses it: errors are one line, and help needs no terminal module."""

from __future__ import annotations

import argparse
import os

from dsconfig.cli.errors import refuse

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help in the terminal's width. argparse's own way to find it imports the compression modules."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{"max_help_position": 30, "width": _width(), **options})


class CommandParser(argparse.ArgumentParser):
    """A parser for the command or one verb."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog=prog, formatter_class=HelpFormatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Wrong use: no page of usage, just what is wrong."""
        refuse(f"{message} (see `{self.prog} --help`)")

    def add_version(self) -> None:
        """Add `--version`."""
        from dsconfig._version import __version__

        self.add_argument("--version", action="version", version=f"dsconfig {__version__}")


def unknown_verb(verb: str | None, verbs: Iterable[str]) -> NoReturn:
    """End the run: no verb, or none that is known."""
    known = ", ".join(verbs)
    if verb is None:
        refuse(f"no command given: expected one of {known} (see `dsconfig --help`)")
    if os.path.exists(verb):
        refuse(f"`{verb}` is not a command: did you mean `dsconfig check {verb}`?")
    from dsconfig.words import closest

    close = closest(verb, verbs)
    hint = f"did you mean `{close[0]}`?" if close else f"expected one of {known}"
    refuse(f"`{verb}` is not a command: {hint}")


def _width() -> int:
    try:
        return min(os.get_terminal_size().columns, 100) - 2
    except OSError:
        return 98
