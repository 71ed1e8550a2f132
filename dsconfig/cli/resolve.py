"""`dsconfig resolve`: the config that a release runs with at a world size."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_file, add_filling, add_settings, tell_exit_codes, to_file, world_size
from dsconfig.cli.errors import CLEAN, FINDINGS, refuse
from dsconfig.cli.inputs import mapping, read, refuse_inputs, refuse_unknown, write
from dsconfig.cli.resolve_helpers import assignment, explain, in_flags, plain, refuse_open, unspeakable
from dsconfig.core.diagnostic import dotted
from dsconfig.core.releases import NUMBERS
from dsconfig.render.fingerprint import as_json
from dsconfig.render.terminal import printable

if TYPE_CHECKING:
    from typing import TextIO

    from dsconfig.core.json_types import JsonObject
    from dsconfig.resolve.run import Run

DEGREES = (
    ("tp", "ranks that share each layer (tensor parallel)"),
    ("pp", "pipeline stages"),
    ("sp", "ranks that share one sequence (sequence parallel)"),
    ("ep", "ranks that share the experts"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_file(parser)
    add = parser.add_argument
    add("--world-size", type=world_size, metavar="N", help="the number of ranks (default: $WORLD_SIZE)")
    add("--target", metavar="RELEASE", help="the release that runs it (default: the installed DeepSpeed)")
    for name, told in DEGREES:
        default = "1" if name == "ep" else "as a launch file says, else 1"
        add(f"--{name}", type=world_size, metavar="N", help=f"{told} (default: {default})")
    add("--set", type=assignment, action="append", metavar="KEY=VALUE", help="write a value first, as JSON")
    add_filling(parser)
    told = "write the config to this file (default: `-`, stdout)"
    add("-o", "--output", type=to_file, metavar="OUT", help=told)
    add_settings(parser)
    tell_exit_codes(parser, {CLEAN: "resolved", FINDINGS: "the release does not run it at this world size"})


def run(args: argparse.Namespace) -> int:
    """Resolve, and write what came out."""
    from dsconfig.resolve.errors import ResolveError, UnknownWorldSizeError

    try:
        found = _resolve(args)
    except UnknownWorldSizeError as error:
        refuse_open(error)
    except ResolveError as error:
        explain(error, sys.stderr)
        return FINDINGS
    except ValueError as error:
        refuse(in_flags(str(error)))
    refused = any(message.kind == "refused" for message in found.messages)
    if found.mismatches or refused:
        _report(found, sys.stderr)
        return FINDINGS
    text = _json(found.config, found.release)
    if args.output:
        write(args.output, text.encode())
    else:
        sys.stdout.write(text)
    _report(found, sys.stdout if args.output else sys.stderr)
    return CLEAN


def _resolve(args: argparse.Namespace) -> Run:
    from dsconfig.cli.inputs import in_force
    from dsconfig.launch.located_config import locate
    from dsconfig.resolve.resolve import resolve_job

    document = read(args.file)
    refuse_unknown(document)
    if args.output:
        refuse_inputs(args.output, document, args.file, args.training_args, args.model_config, args.config)
    located = locate(document)
    return resolve_job(
        located,
        in_force(args, document, located),
        (args.tp, args.pp, args.sp, args.ep),
        dict(args.set or ()),
        mapping(args.training_args),
        mapping(args.model_config),
    )


def _json(config: JsonObject, release: str) -> str:
    from dsconfig.model.keyinfo import may_read

    for path, what in unspeakable(config):
        if may_read(path, NUMBERS[release]):
            refuse(f"{printable(f'`{dotted(path)}` is {what}')}, for which JSON has no word")
    config = plain(config)
    text = as_json(config, indent=2, ascii=False)
    if not text.replace("\n", "").isprintable():  # half a UTF-16 pair, marks that turn a line on a terminal
        text = as_json(config, indent=2)
    return text + "\n"


def _report(found: Run, stream: TextIO) -> None:
    from dsconfig.render.terminal import flowed, style_of
    from dsconfig.resolve.run import run_lines

    style = style_of(stream)
    stream.write(flowed("".join(run_lines(found, style)), style))
