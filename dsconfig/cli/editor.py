"""`dsconfig editor`: set up an editor with the language server or the JSON Schemas."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_schema_options, add_settings_options, set_exit_codes
from dsconfig.cli.errors import CLEAN, fail_with_usage_error, print_note

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.schema.editor_settings import EditorSettingsFile, SchemaFilePatterns

WITH_SCHEMA = ("vscode", "neovim", "jetbrains", "zed")
SCHEMA_ONLY = ("vscode", "zed")
"""Editors that start only the servers of their extensions."""
NAMES = (*WITH_SCHEMA, "helix", "emacs", "sublime")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig editor` to its parser."""
    parser.set_defaults(run=run)
    parser.add_argument("editor", choices=NAMES, metavar="EDITOR", help=f"editor: {', '.join(NAMES)}")
    schema = "set up the JSON Schemas instead of the server (vscode and zed: always)"
    parser.add_argument("--schema", action="store_true", help=schema)
    add_schema_options(parser)
    parser.add_argument(
        "--write", action="store_true", help="write the files into this directory, keeping other settings"
    )
    add_settings_options(parser)
    set_exit_codes(parser, {CLEAN: "configuration shown, or written"})


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig editor`, and return the exit code."""
    if args.editor not in SCHEMA_ONLY and not args.schema:
        return _configure_language_server(args)
    if args.editor not in WITH_SCHEMA:
        fail_with_usage_error(
            f"--schema supports {', '.join(WITH_SCHEMA)}; {args.editor} uses the language server"
        )
    from dsconfig.cli.command_inputs import schema_release_and_consumer
    from dsconfig.schema.editor_settings import editor_files

    target, consumer = schema_release_and_consumer(args)
    *schemas, settings = editor_files(args.editor, target, consumer, _config_patterns(args))
    if args.write:
        _write_files([*schemas, settings])
    else:
        sys.stdout.write(settings.text)
        print_note(f"put this into {settings.path}; it needs {' and '.join(file.path for file in schemas)}")
        print_note("`--write` writes all of these files")
    return CLEAN


def _config_patterns(args: argparse.Namespace) -> SchemaFilePatterns:
    """Return file patterns for configs and launch files, and the paths of files recognized only by content."""
    from dsconfig.check.discover import find_configs, read_small_file, resembles_accelerate_file
    from dsconfig.cli.command_inputs import options_from_arguments
    from dsconfig.document import read_bytes
    from dsconfig.document.config_file_names import is_yaml_name
    from dsconfig.job.detect_consumer import is_inference_config
    from dsconfig.schema.editor_settings import patterns_for_files

    configs, launch_files, inference_configs = [], [], []
    for path in find_configs(".", options_from_arguments(args).is_path_excluded):
        data = read_small_file(path)
        if is_yaml_name(path) and resembles_accelerate_file(data):
            launch_files.append(path)
        elif path.lower().endswith((".json", ".jsonc")):
            value = read_bytes(data, path).value()
            if isinstance(value, dict) and is_inference_config(value):
                inference_configs.append(path)
            elif _is_config_text(value):
                configs.append(path)
    return patterns_for_files(configs, launch_files, inference_configs)


def _is_config_text(data: Json) -> bool:
    """Return whether a file contains a config, rather than a launch file that names or contains one."""
    from dsconfig.launch.classify_config_file import has_config_keys
    from dsconfig.launch.launch_file_formats import detect_launch_format

    return isinstance(data, dict) and has_config_keys(data.keys()) and detect_launch_format(data) is None


def _configure_language_server(args: argparse.Namespace) -> int:
    """Show or write the editor configuration that starts the language server."""
    from dsconfig.schema.editor_settings import SERVERS

    server = SERVERS[args.editor]
    if args.write:
        if server.place:
            fail_with_usage_error(
                f"{args.editor} reads this from {server.place}: put the output without --write there"
            )
        _write_files([server.file])
        return CLEAN
    sys.stdout.write(server.file.text)
    print_note(f"put this into {server.place or server.file.path}; it starts `dsconfig lsp`")
    return CLEAN


def _write_files(files: list[EditorSettingsFile]) -> None:
    """Write an editor's settings files after the new text of all of them has been determined."""
    from dsconfig.cli.command_inputs import os_error_reason, write_output_file
    from dsconfig.schema.editor_settings import SettingsConflictError

    pending: list[tuple[str, str, str | None]] = []
    for file in files:
        old = _read_existing(file.path)
        try:
            pending.append((file.path, file.text_with_our_settings(old), old))
        except SettingsConflictError as error:
            fail_with_usage_error(f"{error}; run `dsconfig editor` without --write to see what to add")
    for path, text, old in pending:
        if text == old:
            print(f"{path} is up to date")
            continue
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        except OSError as error:
            fail_with_usage_error(f"{path}: {os_error_reason(error)}")
        write_output_file(path, text.encode())
        print(f"{'changed' if old is not None else 'wrote'} {path}")


def _read_existing(path: str) -> str | None:
    from dsconfig.cli.command_inputs import forbid_link, os_error_reason
    from dsconfig.core.file_access import MAX_SIZE, read_contents

    forbid_link(path)
    try:
        data = read_contents(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        fail_with_usage_error(f"{path}: {os_error_reason(error)}")
    if len(data) > MAX_SIZE:
        fail_with_usage_error(f"{path}: larger than {MAX_SIZE // 2**20} MiB, not read")
    try:
        return data.decode()
    except UnicodeDecodeError:
        fail_with_usage_error(f"{path}: not UTF-8 text")
