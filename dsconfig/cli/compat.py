"""`dsconfig compat`: show which releases accept a config."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_color_option,
    add_config_argument,
    add_job_options,
    add_output_format_option,
    add_settings_options,
    set_exit_codes,
)
from dsconfig.cli.command_inputs import os_error_reason, read_config_document
from dsconfig.cli.errors import CLEAN, PROBLEMS, fail_with_usage_error
from dsconfig.render.machine_readable import dump_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.check.accepting_releases import CompatRange


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig compat` to its parser."""
    parser.set_defaults(run=run)
    add_config_argument(parser)
    add = parser.add_argument
    add("--target", metavar="RANGE", help="only these releases, for example '>=0.14'")
    add_job_options(parser)
    add_output_format_option(parser)
    add_color_option(parser)
    add_settings_options(parser)
    rejected = "the newest of these releases rejects the config, or crashes with it"
    set_exit_codes(parser, {CLEAN: "the newest of these releases accepts the config", PROBLEMS: rejected})


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig compat`, and return the exit code."""
    from dsconfig.check.accepting_releases import ALL_RELEASES, compat, compat_table
    from dsconfig.cli.command_inputs import job_from_arguments
    from dsconfig.core.releases import UnknownReleaseError, resolve_target
    from dsconfig.render.terminal_style import style_of

    try:
        target = ALL_RELEASES if args.target is None else resolve_target(args.target, "argument")
    except UnknownReleaseError as error:
        fail_with_usage_error(str(error))
    document = read_config_document(args.file, args.job)
    job = job_from_arguments(args, document)
    try:
        stretches = compat(document, target=target, world_size=job.ranks, consumer=job.reader)
    except OSError as error:
        fail_with_usage_error(
            str(error) if error.filename is None else f"{error.filename}: {os_error_reason(error)}"
        )
    if args.output_format == "json":
        sys.stdout.write(_ranges_as_json(document.name, stretches))
    else:
        sys.stdout.write(compat_table(stretches, style_of(sys.stdout, args.color)))
    return CLEAN if stretches[-1].word == "ok" else PROBLEMS


def _ranges_as_json(name: str, stretches: Sequence[CompatRange]) -> str:
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
    return dump_json({"version": 1, "path": name, "stretches": rows}, indent=1) + "\n"
