"""`dsconfig migrate`: take a config from one release to another, and say what became of it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_circumstances, add_color, add_file
from dsconfig.cli.errors import CLEAN, FINDINGS, refuse
from dsconfig.cli.files import read, reason, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.document import Document
    from dsconfig.fixing.changes import Change
    from dsconfig.fixing.migrate import Migration
    from dsconfig.render.style import Style


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_file(parser)
    add = parser.add_argument
    add("--to", metavar="RELEASE", required=True, help="the release that is to read the config")
    add("--from", dest="origin", metavar="RELEASE", help="default: the newest before it that takes the file")
    add_circumstances(parser)
    add("--diff", action="store_true", help="show the changes, and write none")
    add("-o", "--output", metavar="OUT", help="write to this file, and leave FILE as it is")
    add_color(parser)
    parser.epilog = "Ends in exit code 1 where something is left for a person to decide."


def run(args: argparse.Namespace) -> int:
    """Migrate the file."""
    from dsconfig.cli.options import in_force
    from dsconfig.fixing.migrate import migrate
    from dsconfig.releases import UnknownReleaseError
    from dsconfig.render.style import style_of

    document = read(args.file)
    try:
        to, origin = _single(args.to), None if args.origin is None else _single(args.origin)
        under = in_force(args, document)
        done = migrate(document, to, origin, world_size=under.world_size, consumer=under.reader.name)
    except (UnknownReleaseError, ValueError) as error:
        refuse(str(error))
    # The text or the diff has stdout to itself.
    stream = sys.stderr if args.diff or (args.file == "-" and not args.output) else sys.stdout
    _keep(args, document, done.text)
    stream.write(_told(document.name, done, style_of(stream, args.color), guessed=origin is None))
    return FINDINGS if done.to_decide else CLEAN


def _single(text: str) -> str:
    from dsconfig.releases import resolve

    found = resolve(text, "argument").releases
    if len(found) > 1:
        refuse(f"`{text}` names {len(found)} releases: a config is taken from one to one")
    return found[0]


def _keep(args: argparse.Namespace, document: Document, text: str) -> None:
    from dsconfig.cli.output import difference, is_whole, replace

    if not is_whole(document):
        refuse(f"{document.name}: is not UTF-8 text")
    if args.diff:
        sys.stdout.writelines(difference(document.name, document.text, text))
    elif args.output:
        write(args.output, text.encode())
    else:
        try:
            replace(args.file, document, text)
        except OSError as error:
            refuse(f"{args.file}: {reason(error)}")


def _told(name: str, done: Migration, style: Style, *, guessed: bool) -> str:
    from dsconfig.render.text import printable

    origin = done.origin or "no release that takes it"
    known = " (the newest before it that takes the file)" if guessed and done.origin else ""
    lines = [f"{printable(name)}: from {origin}{known} to {done.target}"]
    for title, changes in (
        ("rewritten", done.rewritten),
        ("dropped", done.dropped),
        ("to decide", done.to_decide),
    ):
        if changes:
            lines += ["", style.paint(title, "bold"), *_lines(changes)]
    if len(lines) == 1:
        lines.append("nothing to do")
    return "\n".join(lines) + "\n"


def _lines(changes: Sequence[Change]) -> list[str]:
    from dsconfig.diagnostic import dotted
    from dsconfig.render.text import printable

    lines = []
    for change in changes:
        where = f"{dotted(change.path)}: " if change.path else ""
        lines += [f"  {printable(where + change.what)}", f"      {printable(change.why)}"]
    return lines
