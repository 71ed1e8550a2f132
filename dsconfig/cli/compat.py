"""`dsconfig compat`: show which releases accept a config."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_color,
    add_file,
    add_job_options,
    add_settings,
    add_text_or_json,
    set_exit_codes,
)
from dsconfig.cli.command_inputs import read, reason
from dsconfig.cli.errors import CLEAN, PROBLEMS, fail
from dsconfig.render.fingerprint import as_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.check.accepting_releases import Stretch


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.set_defaults(run=run)
    add_file(parser)
    add = parser.add_argument
    add("--target", metavar="RANGE", help="only these releases, for example '>=0.14'")
    add_job_options(parser)
    add_text_or_json(parser)
    add_color(parser)
    add_settings(parser)
    rejected = "the newest of these releases rejects the config, or crashes with it"
    set_exit_codes(parser, {CLEAN: "the newest of these releases accepts the config", PROBLEMS: rejected})


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from dsconfig.check.accepting_releases import ALL_RELEASES, compat, table
    from dsconfig.cli.command_inputs import job_from_args
    from dsconfig.core.releases import UnknownReleaseError, resolve
    from dsconfig.render.terminal_style import style_of

    try:
        target = ALL_RELEASES if args.target is None else resolve(args.target, "argument")
    except UnknownReleaseError as error:
        fail(str(error))
    document = read(args.file)
    job = job_from_args(args, document)
    try:
        stretches = compat(document, target=target, world_size=job.ranks, consumer=job.reader)
    except OSError as error:
        fail(str(error) if error.filename is None else f"{error.filename}: {reason(error)}")
    if args.output_format == "json":
        sys.stdout.write(_json(document.name, stretches))
    else:
        sys.stdout.write(table(stretches, style_of(sys.stdout, args.color)))
    return CLEAN if stretches[-1].word == "ok" else PROBLEMS


def _json(name: str, stretches: Sequence[Stretch]) -> str:
    rows = [
        {
            "releases": each.releases,
            "verdict": each.word,
            "code": each.reason.code if each.reason else None,
            "path": each.reason.path if each.reason else None,
            "message": each.reason.message if each.reason else None,
        }
        for each in stretches
    ]
    return as_json({"version": 1, "path": name, "stretches": rows}, indent=1) + "\n"
