"""`dsconfig resolve`: show the config that DeepSpeed runs with at a world size."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_consumer_options,
    add_file,
    add_settings,
    output_path,
    set_exit_codes,
    world_size,
)
from dsconfig.cli.command_inputs import (
    forbid_overwriting_sources,
    read,
    read_mapping,
    require_known_values,
    write,
)
from dsconfig.cli.errors import CLEAN, PROBLEMS, fail
from dsconfig.cli.resolve_helpers import (
    assignment,
    fail_without_world_size,
    json_value,
    non_json_values,
    print_resolve_error,
    with_option_names,
)
from dsconfig.core.diagnostic import dotted
from dsconfig.core.releases import NUMBERS
from dsconfig.render.fingerprint import as_json
from dsconfig.render.terminal_style import printable

if TYPE_CHECKING:
    from typing import TextIO

    from dsconfig.core.json_types import JsonObject
    from dsconfig.resolve.resolved_run import Run

DEGREES = (
    ("tp", "tensor-parallel size"),
    ("pp", "pipeline-parallel size"),
    ("sp", "sequence-parallel size"),
    ("ep", "expert-parallel size"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.set_defaults(run=run)
    add_file(parser)
    add = parser.add_argument
    add("--world-size", type=world_size, metavar="N", help="number of ranks (default: $WORLD_SIZE)")
    add("--target", metavar="RELEASE", help="DeepSpeed release (default: the installed one)")
    for name, degree in DEGREES:
        default = "1" if name == "ep" else "from the launch file, else 1"
        add(f"--{name}", type=world_size, metavar="N", help=f"{degree} (default: {default})")
    add("--set", type=assignment, action="append", metavar="KEY=VALUE", help="override a key, value as JSON")
    add_consumer_options(parser)
    output = "write the config to this file (default: `-`, stdout)"
    add("-o", "--output", type=output_path, metavar="OUT", help=output)
    add_settings(parser)
    set_exit_codes(parser, {CLEAN: "resolved", PROBLEMS: "DeepSpeed rejects the config at this world size"})


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from dsconfig.resolve.errors import ResolveError, UnknownWorldSizeError

    try:
        result = _resolve(args)
    except UnknownWorldSizeError as error:
        fail_without_world_size(error)
    except ResolveError as error:
        print_resolve_error(error, sys.stderr)
        return PROBLEMS
    except ValueError as error:
        fail(with_option_names(str(error)))
    is_rejected = any(message.kind == "refused" for message in result.messages)
    if result.mismatches or is_rejected:
        _report(result, sys.stderr)
        return PROBLEMS
    text = _json(result.config, result.release)
    if args.output:
        write(args.output, text.encode())
    else:
        sys.stdout.write(text)
    _report(result, sys.stdout if args.output else sys.stderr)
    return CLEAN


def _resolve(args: argparse.Namespace) -> Run:
    from dsconfig.cli.command_inputs import job_from_args
    from dsconfig.launch.located_config import locate
    from dsconfig.resolve.resolve import resolve_job

    document = read(args.file)
    require_known_values(document)
    if args.output:
        forbid_overwriting_sources(
            args.output, document, args.file, args.training_args, args.model_config, args.config
        )
    located = locate(document)
    return resolve_job(
        located,
        job_from_args(args, document, located),
        (args.tp, args.pp, args.sp, args.ep),
        dict(args.set or ()),
        read_mapping(args.training_args),
        read_mapping(args.model_config),
    )


def _json(config: JsonObject, release: str) -> str:
    from dsconfig.model.key_table import may_read

    for path, what in non_json_values(config):
        if may_read(path, NUMBERS[release]):
            fail(f"{printable(f'`{dotted(path)}` is {what}')}, which JSON cannot represent")
    config = json_value(config)
    text = as_json(config, indent=2, ascii=False)
    if not text.replace("\n", "").isprintable():  # a lone surrogate, or direction marks
        text = as_json(config, indent=2)
    return text + "\n"


def _report(result: Run, stream: TextIO) -> None:
    from dsconfig.render.terminal_style import flowed, style_of
    from dsconfig.resolve.resolved_run import run_lines

    style = style_of(stream)
    stream.write(flowed("".join(run_lines(result, style)), style))
