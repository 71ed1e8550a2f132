"""`dsconfig show`: what counts in a config, and where each value comes from."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_color, add_file, add_filling, add_settings, tell_exit_codes, world_size
from dsconfig.cli.errors import CLEAN, FINDINGS, complain, refuse
from dsconfig.cli.inputs import mapping, read
from dsconfig.cli.resolve_helpers import in_flags, plain
from dsconfig.render.fingerprint import as_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsconfig.render.terminal import Style
    from dsconfig.resolve.effective_values import Shown

FORMATS = ("table", "json")
_TONES = {"refused": "error", "ignored": "warning", "dropped": "warning", "converted": "warning"}
_TONES |= {"default": "dim", "derived": "good", "filled": "good"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_file(parser)
    add = parser.add_argument
    add("keys", nargs="*", metavar="KEY", help="show only this key or section, with all its defaults")
    add("--world-size", type=world_size, metavar="N", help="derive the batch for this number of ranks")
    add("--target", metavar="RELEASE", help="the release that reads it (default: the installed DeepSpeed)")
    add_filling(parser)
    add("--all", action="store_true", help="show the defaults of sections that are not written, too")
    add("--output-format", choices=FORMATS, default="table", help="how values are shown (default: table)")
    add_color(parser)
    add_settings(parser)
    tell_exit_codes(parser, {CLEAN: "shown", FINDINGS: "the release refuses the config"})


def run(args: argparse.Namespace) -> int:
    """Show what counts."""
    from dsconfig.cli.inputs import in_force
    from dsconfig.launch.located_config import locate
    from dsconfig.render.terminal import style_of
    from dsconfig.resolve.effective_values import effective_in
    from dsconfig.resolve.errors import ResolveError

    document = read(args.file)
    located = locate(document)
    job = in_force(args, document, located)
    try:
        shown = effective_in(
            located,
            job,
            training_args=mapping(args.training_args),
            model_config=mapping(args.model_config),
            every=args.all,
            keys=args.keys,
        )
    except ResolveError as error:
        complain(in_flags(str(error)))
        return FINDINGS
    except ValueError as error:
        refuse(str(error))
    if args.keys and not shown.values:
        refuse(
            f"no key of DeepSpeed {shown.release} is called {' or '.join(f'`{key}`' for key in args.keys)}"
        )
    style = style_of(sys.stdout, args.color)
    sys.stdout.writelines(_json(shown) if args.output_format == "json" else _table(shown, style))
    return CLEAN


def _table(shown: Shown, style: Style) -> Iterator[str]:
    from dsconfig.render.terminal import flowed, printable, wrapped

    cells = [(value.key, json.dumps(plain(value.value), ensure_ascii=False)) for value in shown.values]
    key, value = (max((len(row[at]) for row in cells), default=0) for at in (0, 1))
    if style.wraps:
        key, value = min(key, style.width // 2), min(value, style.width // 5)
    for (name, text), found in zip(cells, shown.values, strict=True):
        note = style.paint(printable(found.note), _TONES.get(found.origin, "bold"))
        row = f"{printable(name):{key}}  {printable(text):{min(value, 40)}}  {note}"
        yield wrapped(row, style, key + 2) + "\n"
    for message in shown.messages:
        yield flowed(f"{style.paint(message.kind, 'info')}: {printable(message.text)}\n", style)


def _json(shown: Shown) -> Iterator[str]:
    values = [
        {"key": value.key, "value": plain(value.value), "origin": value.origin, "note": value.note}
        for value in shown.values
    ]
    yield as_json({"version": 1, "release": shown.release, "values": values}, indent=2) + "\n"
