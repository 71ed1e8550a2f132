"""`dsconfig compat`: a table of the releases, and what each does with a config."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_circumstances, add_color, add_file, add_settings, tell_exit_codes
from dsconfig.cli.errors import CLEAN, FINDINGS, refuse
from dsconfig.cli.inputs import read, reason
from dsconfig.render.fingerprint import as_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.check.compat import Stretch


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_file(parser)
    add = parser.add_argument
    add("--target", metavar="RANGE", help="these releases only, for example '>=0.14'")
    add_circumstances(parser)
    add("--output-format", choices=("text", "json"), default="text", help="default: text")
    add_color(parser)
    add_settings(parser)
    told = "the newest release, of those asked for, refuses the config, or crashes with it"
    tell_exit_codes(parser, {CLEAN: "the newest release takes the config", FINDINGS: told})


def run(args: argparse.Namespace) -> int:
    """Show what the releases do."""
    from dsconfig.check.compat import ALL_RELEASES, compat, table
    from dsconfig.cli.inputs import in_force
    from dsconfig.core.releases import UnknownReleaseError, resolve
    from dsconfig.render.terminal import style_of

    try:
        target = ALL_RELEASES if args.target is None else resolve(args.target, "argument")
    except UnknownReleaseError as error:
        refuse(str(error))
    document = read(args.file)
    under = in_force(args, document)
    try:
        stretches = compat(document, target=target, world_size=under.ranks, consumer=under.reader)
    except OSError as error:
        refuse(str(error) if error.filename is None else f"{error.filename}: {reason(error)}")
    if args.output_format == "json":
        sys.stdout.write(_json(document.name, stretches))
    else:
        sys.stdout.write(table(stretches, style_of(sys.stdout, args.color)))
    return CLEAN if stretches[-1].word == "ok" else FINDINGS


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
