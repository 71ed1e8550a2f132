"""The command line: what `--help` of the command, and of every verb, shows."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from unittest import mock

from dsconfig.cli import COMMANDS, build_parser
from pages import markdown

WIDTH = "96"


def pages() -> dict[str, str]:
    """The one page."""
    told = "Every command and option of dsconfig, as its help shows them, with exit codes."
    head = "What `dsconfig help COMMAND` shows, for every command."
    with mock.patch.dict(os.environ, {"COLUMNS": WIDTH, "NO_COLOR": "1"}):
        return {"cli/index.md": markdown.page("Command line", told, head, *_helps())}


def _helps() -> Iterator[str]:
    parser = build_parser(COMMANDS)
    yield "## dsconfig"
    yield markdown.fence(parser.format_help())
    for name, own in _verbs(parser):
        yield f"## dsconfig {name}"
        yield markdown.fence(own.format_help())
        for inner, nested in _verbs(own):
            yield f"### dsconfig {name} {inner}"
            yield markdown.fence(nested.format_help())


def _verbs(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:  # noqa: SLF001  argparse has no other way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield from action.choices.items()
