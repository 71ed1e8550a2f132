"""`dsconfig lsp`: run the language server."""

from __future__ import annotations

import argparse

from dsconfig.cli.arguments import set_exit_codes
from dsconfig.cli.errors import CLEAN, FAILED, PROBLEMS, fail_with_usage_error


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig lsp` to its parser."""
    parser.set_defaults(run=run)
    parser.add_argument(
        "--stdio", action="store_true", help="communicate over stdin and stdout (the default)"
    )
    codes = {
        CLEAN: "shut down",
        PROBLEMS: "the editor exited without a shutdown request",
        FAILED: "pygls is missing",
    }
    set_exit_codes(parser, codes, "Editors start this command; `dsconfig editor` shows the configuration.")


def run(_: argparse.Namespace) -> int:
    """Serve until the editor shuts the server down."""
    try:
        from dsconfig.lsp.stdio_server import serve_stdio
    except ModuleNotFoundError as error:
        name = str(error.name).partition(".")[0]
        fail_with_usage_error(f"`{name}` is not installed: pip install 'deepspeed-config[lsp]'")
    return serve_stdio()
