"""`dsconfig migrate`: take a config from one release to another, and say what became of it.

Of a launch file it is the config that its job reads: the file that it names, or what stands in it.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_circumstances, add_color, add_file, add_settings, to_file
from dsconfig.cli.errors import CLEAN, FINDINGS, refuse
from dsconfig.cli.files import read, reason, refuse_input, refuse_inputs, write
from dsconfig.cli.parser import tell_exit_codes

if TYPE_CHECKING:
    from dsconfig.document import Document
    from dsconfig.fix.migrate import Migration
    from dsconfig.launch.located_config import EditableConfig


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_file(parser)
    add = parser.add_argument
    add(
        "--to",
        metavar="RELEASE",
        help="the release that is to read the config (default: the installed one, else the latest known)",
    )
    known = "default: the target that the file's `$dsconfig` or the settings give"
    add("--from", dest="target", metavar="RELEASE", help=f"that it was written for, or `installed` ({known})")
    add_circumstances(parser)
    group = parser.add_argument_group("where it goes", "by default the new text goes to stdout")
    add = group.add_mutually_exclusive_group().add_argument
    add("--write", action="store_true", help="write it over FILE")
    add("-o", "--output", type=to_file, metavar="OUT", help="write it to this file, and leave FILE as it is")
    add("--diff", action="store_true", help="show the changes, and write none")
    add = parser.add_argument_group("an elasticity block", "for a release that refuses it").add_argument
    beside = "default: beside what is written, NAME.elasticity.json"
    add("--elasticity", metavar="FILE", help=f"write the config that still has it to this file ({beside})")
    add("--keep-elasticity", action="store_true", help="leave it where it is, for `dsconfig elastic`")
    add_color(parser)
    add_settings(parser)
    left = "something is left for a person to decide, or nothing could be done"
    tell_exit_codes(parser, {CLEAN: "migrated, or nothing to change", FINDINGS: left})


def run(args: argparse.Namespace) -> int:
    """Migrate the file."""
    from dsconfig.cli.migrate_report import told, way_of
    from dsconfig.cli.options import refuse_foreign
    from dsconfig.fix.embedded_migration import lifted
    from dsconfig.render.terminal import style_of

    _refuse_same(args)
    document = read(args.file)
    refuse_foreign(document)
    for name in filter(None, (args.output, args.elasticity)):
        refuse_inputs(name, document, instead=_ITSELF)
    inside = _led_to(args, document)
    if inside is not None and inside.place is None:
        document, args.file = inside.document, inside.document.name
        _refuse_same(args)
    config = inside.document if inside is not None else document
    way = way_of(args, config, inside)
    try:
        done = way.migrate(config, keep=args.keep_elasticity)
    except ValueError as error:
        refuse(f"{way.known_from}: {error}")
    if inside is not None and inside.place is not None:
        done = lifted(done, inside.place)
    handed = None if done.stopped else _keep(args, document, done)
    # The text or the diff has stdout to itself.
    stream = sys.stdout if args.write or args.output else sys.stderr
    stream.write(told(document, done, way, handed, style_of(stream, args.color)))
    return FINDINGS if done.stopped or done.decisions else CLEAN


def _led_to(args: argparse.Namespace, document: Document) -> EditableConfig | None:
    """The config that a launch file leads to, which is what is migrated."""
    from dsconfig.cli.errors import note
    from dsconfig.launch.located_config import editable

    if args.file == "-":
        return None
    try:
        found = editable(document)
    except OSError as error:
        refuse(f"{error.filename}: {reason(error)}")
    if found is not None:
        note(found.note)
    if args.write and found is not None and found.place is None:
        from dsconfig.cli.run_fix import is_ours

        path = os.path.realpath(found.document.name)
        if not is_ours(path, args.file):
            refuse(f"{found.document.name} stands outside of this repository, and is not changed")
    return found


_ITSELF = "only --write writes over it, else give another name"


def _refuse_same(args: argparse.Namespace) -> None:
    if args.write and args.file == "-":
        refuse("--write needs a file: what comes from stdin goes to stdout")
    for name in (args.output, args.elasticity):
        if name:
            refuse_input(name, args.file, args.config, instead=_ITSELF)
    if args.output and args.elasticity and os.path.abspath(args.output) == os.path.abspath(args.elasticity):
        refuse(f"{args.output} cannot take both the config and the one with its elasticity block")


def _keep(args: argparse.Namespace, document: Document, done: Migration) -> str | None:
    """Do with the new text what was asked for; returns the file that has the `elasticity` block."""
    from dsconfig.cli.output import difference, put, refuse_unlike, replace, show
    from dsconfig.document.atomic_write import sweep

    refuse_unlike(document, args.output or "")
    if args.diff:
        show(difference(document.name, document.text, done.text))
        return None
    handed = None if done.elastic is None else _hand_over(args, done.elastic)
    if args.output:
        write(args.output, done.text.encode())
    elif args.write:
        try:
            sweep(os.path.dirname(os.path.realpath(args.file)))
            replace(args.file, document, done.text)
        except OSError as error:
            refuse(f"{args.file}: {reason(error)}")
    else:
        put(done.text)
    return handed


def _hand_over(args: argparse.Namespace, text: str) -> str | None:
    """Write the config that has the block to a file of its own, before it is taken out of this one."""
    name = args.elasticity
    if name is None:
        beside = args.output or (args.file if args.write else None)
        if beside is None:
            return None
        stem, suffix = os.path.splitext(beside)
        name = f"{stem}.elasticity{suffix}"
    if os.path.lexists(name) and not _holds(name, text):
        refuse(f"{name} exists already: name another file with --elasticity, and nothing is lost")
    write(name, text.encode())
    return str(name)


def _holds(name: str, text: str) -> bool:
    from dsconfig.core.file_bytes import contents

    try:
        return contents(name, len(text.encode())) == text.encode()
    except OSError:
        return False
