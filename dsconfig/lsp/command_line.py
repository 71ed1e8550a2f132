"""`dsconfig lsp`: the language server."""

from __future__ import annotations

import argparse

from dsconfig.cli.arguments import set_exit_codes
from dsconfig.cli.errors import CLEAN, FAILED, PROBLEMS, fail


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    parser.add_argument("--stdio", action="store_true", help="talk over stdin and stdout, as it does anyway")
    told = {CLEAN: "shut down", PROBLEMS: "the editor has gone without a word", FAILED: "pygls is missing"}
    set_exit_codes(parser, told, "Editors start this; `dsconfig editor` tells how.")


def run(_: argparse.Namespace) -> int:
    """Serve until the editor ends it."""
    try:
        from dsconfig.lsp.server import serve
    except ModuleNotFoundError as error:
        name = str(error.name).partition(".")[0]
        fail(f"`{name}` is not installed: pip install 'deepspeed-config[lsp]'")
    return serve()
