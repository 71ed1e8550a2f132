"""`dsconfig init`: create a config from a preset."""

from __future__ import annotations

import argparse
import os
import sys

from dsconfig.cli.arguments import add_schema_choice, add_settings, set_exit_codes
from dsconfig.cli.errors import CLEAN, fail
from dsconfig.job.consumers import ELASTIC, HUGGING_FACE

DEFAULT, FILE = "zero2", "ds_config.json"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.set_defaults(run=run)
    add = parser.add_argument
    add(
        "file",
        nargs="?",
        default=FILE,
        metavar="FILE",
        help=f"output file, or `-` for stdout; the suffix decides the format (default: {FILE})",
    )
    add(
        "--preset",
        metavar="NAME",
        help=f"preset, see --list (default: {DEFAULT}, or that of the consumer)",
    )
    add_schema_choice(parser)
    add("--force", action="store_true", help="overwrite an existing file")
    add("--list", action="store_true", help="list the presets, and exit")
    add_settings(parser)
    set_exit_codes(parser, {CLEAN: "config written, or presets listed"})


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from dsconfig.cli.inputs import schema_target
    from dsconfig.schema import presets

    if args.list:
        width = max(map(len, presets.PRESETS))
        for preset in presets.PRESETS.values():
            print(f"{preset.name:{width}}  {preset.summary}")
        return CLEAN
    target, consumer = schema_target(args)
    try:
        text = presets.text(args.preset or _default_preset(consumer), target, consumer, file=args.file)
    except presets.PresetError as error:
        fail(f"{error}{_hint(args.preset, target.releases[-1])}")
    if args.file == "-":
        sys.stdout.write(text)
        return CLEAN
    if os.path.lexists(args.file) and not args.force:
        fail(f"{args.file} already exists; choose another name, or overwrite it with --force")
    from dsconfig.cli.inputs import write
    from dsconfig.render.terminal import printable

    write(args.file, text.encode())
    print(f"wrote {printable(args.file)} for DeepSpeed {target.releases[-1]}")
    return CLEAN


def _hint(name: str | None, release: str) -> str:
    """Hint for a preset that the release does not support; empty for any other error."""
    from dsconfig.core.releases import number
    from dsconfig.schema.presets import PRESETS

    preset = PRESETS.get(name or "")
    if preset is None or release in preset.releases:
        return ""
    is_later = preset.until is not None and number(release) > number(preset.until)
    alternative = f", or run it on {release} with `dsconfig elastic run`" if is_later else ""
    return f": use --target {preset.releases[-1]}{alternative}"


def _default_preset(consumer: str | None) -> str:
    """Preset for a consumer."""
    return consumer if consumer in (*HUGGING_FACE, ELASTIC) else DEFAULT
