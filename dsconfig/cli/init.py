"""`dsconfig init`: write a config to start from."""

from __future__ import annotations

import argparse
import os
import sys

from dsconfig.cli.arguments import add_schema_choice, add_settings, tell_exit_codes
from dsconfig.cli.errors import CLEAN, refuse
from dsconfig.consumers import ELASTIC, HUGGING_FACE

DEFAULT, FILE = "zero2", "ds_config.json"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add = parser.add_argument
    add(
        "file",
        nargs="?",
        default=FILE,
        metavar="FILE",
        help=f"the file, its format by its name, or `-` for stdout (default: {FILE})",
    )
    add("--preset", metavar="NAME", help=f"what to start from (default: {DEFAULT}); see --list")
    add_schema_choice(parser)
    add("--force", action="store_true", help="write over a file that exists")
    add("--list", action="store_true", help="list the presets, and stop")
    add_settings(parser)
    tell_exit_codes(parser, {CLEAN: "written, or listed"})


def run(args: argparse.Namespace) -> int:
    """Write the config, or list what there is."""
    from dsconfig.cli.inputs import schema_choice
    from dsconfig.schema import presets

    if args.list:
        width = max(map(len, presets.PRESETS))
        for preset in presets.PRESETS.values():
            print(f"{preset.name:{width}}  {preset.summary}")
        return CLEAN
    target, consumer = schema_choice(args)
    try:
        text = presets.text(args.preset or _default(consumer), target, consumer, file=args.file)
    except presets.PresetError as error:
        refuse(f"{error}{_to_do(args.preset, target.releases[-1])}")
    if args.file == "-":
        sys.stdout.write(text)
        return CLEAN
    if os.path.lexists(args.file) and not args.force:
        refuse(f"{args.file}: exists already; give another name, or --force to write over it")
    from dsconfig.cli.inputs import write
    from dsconfig.render.terminal import printable

    write(args.file, text.encode())
    print(f"wrote {printable(args.file)} for DeepSpeed {target.releases[-1]}")
    return CLEAN


def _to_do(name: str | None, release: str) -> str:
    """What to do where a preset is not for the release; empty where something else is wrong."""
    from dsconfig.core.releases import number
    from dsconfig.schema.presets import PRESETS

    preset = PRESETS.get(name or "")
    if preset is None or release in preset.releases:
        return ""
    later = preset.until is not None and number(release) > number(preset.until)
    more = f"; {release} runs it too, by `dsconfig elastic run`" if later else ""
    return f": write it with --target {preset.releases[-1]}{more}"


def _default(consumer: str | None) -> str:
    """The preset that a consumer's users most likely want."""
    return consumer if consumer in (*HUGGING_FACE, ELASTIC) else DEFAULT
