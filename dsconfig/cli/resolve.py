"""`dsconfig resolve`: show the config with which DeepSpeed runs at a world size."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_config_argument,
    add_consumer_options,
    add_settings_options,
    parse_output_path,
    parse_world_size,
    set_exit_codes,
)
from dsconfig.cli.command_inputs import (
    forbid_overwriting_sources,
    read_config_document,
    read_mapping_file,
    require_known_values,
    write_output_file,
)
from dsconfig.cli.errors import CLEAN, PROBLEMS, fail_with_usage_error
from dsconfig.cli.resolve_helpers import (
    fail_without_world_size,
    non_json_values,
    parse_assignment,
    print_resolve_error,
    to_json_value,
    use_option_names,
)
from dsconfig.core.diagnostic import dotted_path
from dsconfig.core.releases import NUMBERS
from dsconfig.render.machine_readable import dump_json
from dsconfig.render.terminal_style import escape_unprintable, use_utf8

if TYPE_CHECKING:
    from typing import TextIO

    from dsconfig.core.json_types import JsonObject
    from dsconfig.resolve.resolved_run import ResolvedRun

DEGREES = (
    ("tp", "tensor-parallel size"),
    ("pp", "pipeline-parallel size"),
    ("sp", "sequence-parallel size"),
    ("ep", "expert-parallel size"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig resolve` to its parser."""
    parser.set_defaults(run=run)
    add_config_argument(parser)
    add = parser.add_argument
    add("--world-size", type=parse_world_size, metavar="N", help="number of ranks (default: $WORLD_SIZE)")
    add("--target", metavar="RELEASE", help="DeepSpeed release (default: the installed one)")
    for name, degree in DEGREES:
        default = "1" if name == "ep" else "from the launch file, else 1"
        add(f"--{name}", type=parse_world_size, metavar="N", help=f"{degree} (default: {default})")
    override = "override a key, value as JSON"
    add("--set", type=parse_assignment, action="append", metavar="KEY=VALUE", help=override)
    add_consumer_options(parser)
    output = "write the config to this file (default: `-`, stdout)"
    add("-o", "--output", type=parse_output_path, metavar="OUT", help=output)
    add_settings_options(parser)
    set_exit_codes(parser, {CLEAN: "resolved", PROBLEMS: "DeepSpeed rejects the config at this world size"})


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig resolve`, and return the exit code."""
    from dsconfig.resolve.errors import ResolveError, UnknownWorldSizeError

    try:
        result = _resolve_config(args)
    except UnknownWorldSizeError as error:
        fail_without_world_size(error)
    except ResolveError as error:
        print_resolve_error(error, sys.stderr)
        return PROBLEMS
    except ValueError as error:
        fail_with_usage_error(use_option_names(str(error)))
    is_rejected = any(message.kind == "refused" for message in result.messages)
    if result.mismatches or is_rejected:
        _print_report(result, sys.stderr)
        return PROBLEMS
    text = _resolved_config_as_json(result.config, result.release)
    if args.output:
        write_output_file(args.output, text.encode())
    else:
        use_utf8(sys.stdout)
        sys.stdout.write(text)
    _print_report(result, sys.stdout if args.output else sys.stderr)
    return CLEAN


def _resolve_config(args: argparse.Namespace) -> ResolvedRun:
    from dsconfig.cli.command_inputs import job_from_arguments
    from dsconfig.launch.located_config import locate_config
    from dsconfig.resolve.resolve import resolve_job

    document = read_config_document(args.file, args.job)
    require_known_values(document)
    if args.output:
        forbid_overwriting_sources(
            args.output, document, args.file, args.training_args, args.model_config, args.config
        )
    located = locate_config(document)
    return resolve_job(
        located,
        job_from_arguments(args, document, located),
        (args.tp, args.pp, args.sp, args.ep),
        dict(args.set or ()),
        read_mapping_file(args.training_args),
        read_mapping_file(args.model_config),
    )


def _resolved_config_as_json(config: JsonObject, release: str) -> str:
    from dsconfig.model.key_table import may_release_read_path

    for path, what in non_json_values(config):
        if may_release_read_path(path, NUMBERS[release]):
            fail_with_usage_error(
                f"{escape_unprintable(f'`{dotted_path(path)}` is {what}')}, which JSON cannot represent"
            )
    config = to_json_value(config)
    text = dump_json(config, indent=2, ascii=False)
    if not text.replace("\n", "").isprintable():  # a lone surrogate, or direction marks
        text = dump_json(config, indent=2)
    return text + "\n"


def _print_report(result: ResolvedRun, stream: TextIO) -> None:
    from dsconfig.render.terminal_style import style_of, wrap_lines
    from dsconfig.resolve.resolved_run import run_lines

    style = style_of(stream)
    stream.write(wrap_lines("".join(run_lines(result, style)), style))
