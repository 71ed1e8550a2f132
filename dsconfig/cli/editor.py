"""`dsconfig editor`: connect an editor with the language server, or with the schemas."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_schema_choice, add_settings, tell_exit_codes
from dsconfig.cli.errors import CLEAN, note, refuse

if TYPE_CHECKING:
    from dsconfig.schema.editors import EditorFile

WITH_SCHEMA = ("vscode", "neovim", "jetbrains", "zed")
NAMES = (*WITH_SCHEMA, "helix", "emacs", "sublime")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    parser.add_argument("editor", choices=NAMES, metavar="EDITOR", help=f"one of {', '.join(NAMES)}")
    told = "connect the schemas instead, which need no server (vscode: always; its extension has the server)"
    parser.add_argument("--schema", action="store_true", help=told)
    add_schema_choice(parser)
    parser.add_argument(
        "--write", action="store_true", help="write it into this folder; other settings stay as they are"
    )
    add_settings(parser)
    tell_exit_codes(parser, {CLEAN: "shown, or written"})


def run(args: argparse.Namespace) -> int:
    """Show what connects the editor, or write it."""
    if args.editor != "vscode" and not args.schema:
        return _serve(args)
    if args.editor not in WITH_SCHEMA:
        refuse(f"--schema is for {', '.join(WITH_SCHEMA)}: {args.editor} takes the server")
    from dsconfig.cli.inputs import schema_choice
    from dsconfig.schema.editors import files

    target, consumer = schema_choice(args)
    *schemas, settings = files(args.editor, target, consumer)
    if args.write:
        _write([*schemas, settings])
    else:
        sys.stdout.write(settings.text)
        note(f"this goes into {settings.path}, beside {' and '.join(file.path for file in schemas)}")
        note("`--write` writes all of them")
    return CLEAN


def _serve(args: argparse.Namespace) -> int:
    """Show what starts the server in the editor, or write it."""
    from dsconfig.schema.editors import SERVERS

    server = SERVERS[args.editor]
    if args.write:
        if server.place:
            refuse(f"{args.editor} reads this from {server.place}: write it there, as shown without --write")
        _write([server.file])
        return CLEAN
    sys.stdout.write(server.file.text)
    note(f"this goes into {server.place or server.file.path}; it starts `dsconfig lsp`")
    return CLEAN


def _write(files: list[EditorFile]) -> None:
    """Write the files; all of them are made before the first is written."""
    from dsconfig.cli.inputs import reason, write
    from dsconfig.schema.editors import SettingsConflictError

    ready: list[tuple[str, str, str | None]] = []
    for ours in files:
        old = _read(ours.path)
        try:
            ready.append((ours.path, ours.merged(old), old))
        except SettingsConflictError as error:
            refuse(f"{error}; see `dsconfig editor` without --write for what to add")
    for path, text, old in ready:
        if text == old:
            print(f"{path} is as it should be")
            continue
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        except OSError as error:
            refuse(f"{path}: {reason(error)}")
        write(path, text.encode())
        print(f"{'changed' if old is not None else 'wrote'} {path}")


def _read(path: str) -> str | None:
    from dsconfig.cli.inputs import reason, refuse_link
    from dsconfig.core.file_access import MAX_SIZE, contents

    refuse_link(path)
    try:
        data = contents(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        refuse(f"{path}: {reason(error)}")
    if len(data) > MAX_SIZE:
        refuse(f"{path}: longer than {MAX_SIZE // 2**20} MiB, and not read")
    try:
        return data.decode()
    except UnicodeDecodeError:
        refuse(f"{path}: not UTF-8 text")
