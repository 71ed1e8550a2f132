"""The page of the command line: the help of the command and of every subcommand."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from unittest import mock

from dsconfig.cli import COMMANDS, build_parser
from pages import markdown

WIDTH = "96"


def pages() -> dict[str, str]:
    """The page by its path."""
    description = "Every command and option of dsconfig, with exit codes, as `--help` shows them."
    head = "The output of `dsconfig help COMMAND` for every command."
    with mock.patch.dict(os.environ, {"COLUMNS": WIDTH, "NO_COLOR": "1"}):
        return {"cli/index.md": markdown.page("Command line", description, head, *_helps())}


def _helps() -> Iterator[str]:
    parser = build_parser(COMMANDS)
    yield "## dsconfig"
    yield markdown.fence(parser.format_help())
    for name, subparser in _subparsers(parser):
        yield f"## dsconfig {name}"
        yield markdown.fence(subparser.format_help())
        for inner, nested in _subparsers(subparser):
            yield f"### dsconfig {name} {inner}"
            yield markdown.fence(nested.format_help())


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:  # noqa: SLF001  argparse has no public way to list them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield from action.choices.items()
