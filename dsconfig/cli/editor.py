"""`dsconfig editor`: set up an editor with the language server, or with the JSON Schemas."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_schema_choice, add_settings, set_exit_codes
from dsconfig.cli.errors import CLEAN, fail, print_note

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.schema.editor_settings import EditorFile, Patterns

WITH_SCHEMA = ("vscode", "neovim", "jetbrains", "zed")
SCHEMA_ONLY = ("vscode", "zed")
"""Editors that start only the servers of their extensions."""
NAMES = (*WITH_SCHEMA, "helix", "emacs", "sublime")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.set_defaults(run=run)
    parser.add_argument("editor", choices=NAMES, metavar="EDITOR", help=f"editor: {', '.join(NAMES)}")
    schema = "set up the JSON Schemas instead of the server (vscode and zed: always)"
    parser.add_argument("--schema", action="store_true", help=schema)
    add_schema_choice(parser)
    parser.add_argument(
        "--write", action="store_true", help="write the files into this directory, keeping other settings"
    )
    add_settings(parser)
    set_exit_codes(parser, {CLEAN: "configuration shown, or written"})


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.editor not in SCHEMA_ONLY and not args.schema:
        return _serve(args)
    if args.editor not in WITH_SCHEMA:
        fail(f"--schema supports {', '.join(WITH_SCHEMA)}; {args.editor} uses the language server")
    from dsconfig.cli.command_inputs import schema_target
    from dsconfig.schema.editor_settings import files

    target, consumer = schema_target(args)
    *schemas, settings = files(args.editor, target, consumer, _patterns(args))
    if args.write:
        _write([*schemas, settings])
    else:
        sys.stdout.write(settings.text)
        print_note(f"put this into {settings.path}; it needs {' and '.join(file.path for file in schemas)}")
        print_note("`--write` writes all of these files")
    return CLEAN


def _patterns(args: argparse.Namespace) -> Patterns:
    """Patterns of configs and launch files, and the paths of those in this folder that only their content tells."""
    from dsconfig.check.discover import find_configs, is_launch, read_small_file
    from dsconfig.cli.command_inputs import resolve_options
    from dsconfig.document import read_bytes
    from dsconfig.document.config_file_names import is_yaml
    from dsconfig.schema.editor_settings import patterns_of

    configs, launch_files = [], []
    for path in find_configs(".", resolve_options(args).excludes):
        data = read_small_file(path)
        if is_yaml(path) and is_launch(data):
            launch_files.append(path)
        elif path.lower().endswith((".json", ".jsonc")) and _is_config(read_bytes(data, path).value()):
            configs.append(path)
    return patterns_of(configs, launch_files)


def _is_config(data: Json) -> bool:
    """Whether the content of a file is a config, and not a launch file that names or contains one."""
    from dsconfig.launch.detect_config import is_config
    from dsconfig.launch.launch_file_formats import format_of

    return isinstance(data, dict) and is_config(data.keys()) and format_of(data) is None


def _serve(args: argparse.Namespace) -> int:
    """Show the configuration that starts the server, or write it."""
    from dsconfig.schema.editor_settings import SERVERS

    server = SERVERS[args.editor]
    if args.write:
        if server.place:
            fail(f"{args.editor} reads this from {server.place}: put the output without --write there")
        _write([server.file])
        return CLEAN
    sys.stdout.write(server.file.text)
    print_note(f"put this into {server.place or server.file.path}; it starts `dsconfig lsp`")
    return CLEAN


def _write(files: list[EditorFile]) -> None:
    """Write the files, once the new text of all of them is known."""
    from dsconfig.cli.command_inputs import reason, write
    from dsconfig.schema.editor_settings import SettingsConflictError

    pending: list[tuple[str, str, str | None]] = []
    for file in files:
        old = _read(file.path)
        try:
            pending.append((file.path, file.merged(old), old))
        except SettingsConflictError as error:
            fail(f"{error}; run `dsconfig editor` without --write to see what to add")
    for path, text, old in pending:
        if text == old:
            print(f"{path} is up to date")
            continue
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        except OSError as error:
            fail(f"{path}: {reason(error)}")
        write(path, text.encode())
        print(f"{'changed' if old is not None else 'wrote'} {path}")


def _read(path: str) -> str | None:
    from dsconfig.cli.command_inputs import forbid_link, reason
    from dsconfig.core.file_access import MAX_SIZE, contents

    forbid_link(path)
    try:
        data = contents(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        fail(f"{path}: {reason(error)}")
    if len(data) > MAX_SIZE:
        fail(f"{path}: larger than {MAX_SIZE // 2**20} MiB, not read")
    try:
        return data.decode()
    except UnicodeDecodeError:
        fail(f"{path}: not UTF-8 text")
