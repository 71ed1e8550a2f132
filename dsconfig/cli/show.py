"""`dsconfig show`: show the effective values of a config and where each comes from."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_color_option,
    add_config_argument,
    add_consumer_options,
    add_settings_options,
    parse_world_size,
    set_exit_codes,
)
from dsconfig.cli.command_inputs import read_config_document, read_mapping_file
from dsconfig.cli.errors import CLEAN, PROBLEMS, fail_with_usage_error, print_error
from dsconfig.cli.resolve_helpers import to_json_value, use_option_names
from dsconfig.render.machine_readable import dump_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsconfig.render.terminal_style import TerminalStyle
    from dsconfig.resolve.effective_values import EffectiveValues

FORMATS = ("table", "json")
_TONES = {"refused": "error", "ignored": "warning", "dropped": "warning", "converted": "warning"}
_TONES |= {"default": "dim", "derived": "good", "filled": "good"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig show` to its parser."""
    parser.set_defaults(run=run)
    add_config_argument(parser)
    add = parser.add_argument
    add("keys", nargs="*", metavar="KEY", help="show only this key or section, with all of its defaults")
    add("--world-size", type=parse_world_size, metavar="N", help="derive the batch for this world size")
    add("--target", metavar="RELEASE", help="DeepSpeed release (default: the installed one)")
    add_consumer_options(parser)
    add("--all", action="store_true", help="also show the defaults of sections that are not in the config")
    add("--output-format", choices=FORMATS, default="table", help="output format (default: table)")
    add_color_option(parser)
    add_settings_options(parser)
    set_exit_codes(parser, {CLEAN: "values shown", PROBLEMS: "DeepSpeed rejects the config"})


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig show`, and return the exit code."""
    from dsconfig.cli.command_inputs import job_from_arguments
    from dsconfig.launch.located_config import locate_config
    from dsconfig.render.terminal_style import style_of
    from dsconfig.resolve.effective_values import effective_values_of_job
    from dsconfig.resolve.errors import ResolveError

    document = read_config_document(args.file, args.job)
    located = locate_config(document)
    job = job_from_arguments(args, document, located)
    try:
        shown = effective_values_of_job(
            located,
            job,
            training_args=read_mapping_file(args.training_args),
            model_config=read_mapping_file(args.model_config),
            every=args.all,
            keys=args.keys,
        )
    except ResolveError as error:
        print_error(use_option_names(str(error)))
        return PROBLEMS
    except ValueError as error:
        fail_with_usage_error(str(error))
    if args.keys and not shown.values:
        fail_with_usage_error(
            f"DeepSpeed {shown.release} has no key {' or '.join(f'`{key}`' for key in args.keys)}"
        )
    style = style_of(sys.stdout, args.color)
    sys.stdout.writelines(
        _values_as_json(shown) if args.output_format == "json" else _values_as_table(shown, style)
    )
    return CLEAN


def _values_as_table(shown: EffectiveValues, style: TerminalStyle) -> Iterator[str]:
    from dsconfig.render.terminal_style import escape_unprintable, wrap_line, wrap_lines

    cells = [
        (value.key, json.dumps(to_json_value(value.value), ensure_ascii=False)) for value in shown.values
    ]
    key, value = (max((len(row[at]) for row in cells), default=0) for at in (0, 1))
    if style.wraps:
        key, value = min(key, style.width // 2), min(value, style.width // 5)
    for (name, text), effective in zip(cells, shown.values, strict=True):
        note = style.paint(escape_unprintable(effective.note), _TONES.get(effective.origin, "bold"))
        row = f"{escape_unprintable(name):{key}}  {escape_unprintable(text):{min(value, 40)}}  {note}"
        yield wrap_line(row, style, key + 2) + "\n"
    for message in shown.messages:
        yield wrap_lines(f"{style.paint(message.kind, 'info')}: {escape_unprintable(message.text)}\n", style)


def _values_as_json(shown: EffectiveValues) -> Iterator[str]:
    values = [
        {"key": value.key, "value": to_json_value(value.value), "origin": value.origin, "note": value.note}
        for value in shown.values
    ]
    yield dump_json({"version": 1, "release": shown.release, "values": values}, indent=2) + "\n"
