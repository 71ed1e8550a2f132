"""`dsconfig migrate`: convert a config from one release to another, and report the changes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_circumstances,
    add_color,
    add_file,
    add_settings,
    tell_exit_codes,
    to_file,
)
from dsconfig.cli.errors import CLEAN, FINDINGS, refuse
from dsconfig.cli.inputs import in_force, read, reason, refuse_input, refuse_inputs, refuse_unknown, write
from dsconfig.core.diagnostic import dotted, truncate_middle
from dsconfig.core.releases import UnknownReleaseError, resolve
from dsconfig.fix.migrate import BLOCK_KEY, Migration, migrate
from dsconfig.job.job import Fact, job_of_reader
from dsconfig.render.terminal import printable

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath
    from dsconfig.core.releases import Target
    from dsconfig.document import Document
    from dsconfig.fix.migration_plan import Change, Decision
    from dsconfig.job.detect_consumer import Reader
    from dsconfig.launch.located_config import EditableConfig
    from dsconfig.render.terminal import Style


# `dsconfig migrate`: take a config from one release to another, and say what became of it.
#
# Of a launch file it is the config that its job reads: the file that it names, or what stands in it.


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
    from dsconfig.cli.inputs import refuse_foreign
    from dsconfig.fix.migrate import in_launch_file
    from dsconfig.render.terminal import style_of

    _refuse_same(args)
    document = read(args.file)
    refuse_unknown(document)
    refuse_foreign(document)
    for name in filter(None, (args.output, args.elasticity)):
        refuse_inputs(name, document, instead=_ITSELF)
    inside = _led_to(args, document)
    if inside is not None and inside.embedding is None:
        document, args.file = inside.document, inside.document.name
        _refuse_same(args)
    config = inside.document if inside is not None else document
    way = way_of(args, config, inside)
    try:
        done = way.migrate(config, keep=args.keep_elasticity)
    except ValueError as error:
        refuse(f"{way.known_from}: {error}")
    if inside is not None and inside.embedding is not None:
        done = in_launch_file(done, inside.embedding)
    handed = None if done.stopped else _keep(args, document, done)
    # The text or the diff has stdout to itself.
    stream = sys.stdout if args.write or args.output else sys.stderr
    stream.write(told(document, done, way, handed, style_of(stream, args.color)))
    return FINDINGS if done.stopped or done.decisions else CLEAN


def _led_to(args: argparse.Namespace, document: Document) -> EditableConfig | None:
    """The config that a launch file leads to, which is what is migrated."""
    from dsconfig.cli.errors import note
    from dsconfig.launch.located_config import editable_config

    if args.file == "-":
        return None
    try:
        found = editable_config(document)
    except OSError as error:
        refuse(f"{error.filename}: {reason(error)}")
    if found is not None:
        note(found.note)
    if args.write and found is not None and found.embedding is None:
        from dsconfig.cli.run_fix import is_ours

        path = os.path.realpath(found.document.name)
        if not is_ours(path, args.file):
            refuse(f"{found.document.name} is outside of this repository, and is not changed")
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
    from dsconfig.core.file_access import contents

    try:
        return contents(name, len(text.encode())) == text.encode()
    except OSError:
        return False


# From which release a config is migrated, and what is told of it.

_ASKED = (
    "which release was the config written for? Give --from RELEASE, or --from installed, or write "
    f'`"{BLOCK_KEY}": {{"target": "RELEASE"}}` into the file'
)


@dataclass(frozen=True, slots=True)
class Way:
    """From which release to which, for whom; `known_from` says who named the first."""

    origin: str
    known_from: str
    to: str
    consumer: str
    world_size: int | None
    read_by: str = ""
    """Who reads it and how that is known, in words."""

    def migrate(self, document: Document, *, keep: bool) -> Migration:
        """Take the config this way.

        Raises:
            ValueError: it leads back, to an earlier release or the same.
        """
        from dsconfig.resolve.batch import elastic_batch_solver

        return migrate(
            document,
            self.to,
            self.origin,
            world_size=self.world_size,
            consumer=self.consumer,
            solve=elastic_batch_solver(self.origin, self.world_size) if self.world_size else None,
            keep=keep,
        )


def way_of(args: argparse.Namespace, document: Document, inside: EditableConfig | None = None) -> Way:
    """The way that is asked for; without a release to start from the run ends.

    `inside`: the launch file's words on the config, where one leads to it.
    """
    under = in_force(args, document)
    if inside is not None:
        evidence = job_of_reader(under.reader if under.reader.explicit_spec else inside.reader)
        size = inside.world_size and Fact(inside.world_size, "launch file", inside.note)
        under = under._replace(consumer=evidence.consumer, world_size=under.world_size or size or None)
    if args.target is None and under.releases.origin in ("installed", "latest"):
        refuse(_ASKED)
    said = _KNOWN_FROM.get(under.releases.origin) or under.releases.source
    known_from = "--from" if args.target else said
    try:
        to = _single(resolve(args.to, "argument"), "--to")
    except UnknownReleaseError as error:
        refuse(f"--to: {error}")
    origin = _single(under.releases, known_from)
    return Way(origin, known_from, to, under.reader.spec, under.ranks, _read_by(under.reader))


_KNOWN_FROM = {
    "environment": "DSCONFIG_TARGET",
    "file": "its own `$dsconfig`",
    "settings": "the settings",
    "argument": "--from",
}


def _single(target: Target, where: str) -> str:
    if len(target.releases) > 1:
        more = "" if where.startswith("--") else "; give --from RELEASE"
        count = f"`{target.text}` names {len(target.releases)} releases"
        refuse(f"{where}: {count}: a config is taken from one release to one{more}")
    return target.releases[0]


def _read_by(reader: Reader) -> str:
    if reader.origin in ("argument", "default"):
        return f"read by {reader.name}"
    return f"{'probably ' * reader.likely}read by {reader.name} ({reader.why})"


# -- what is told ------------------------------------------------------------------------------------------


def told(document: Document, done: Migration, way: Way, handed: str | None, style: Style) -> str:
    """What was done, and what is left to decide, in the order in which it is best worked off."""
    from dsconfig.render.terminal import flowed

    return flowed("\n".join(_told(document, done, way, handed, style)) + "\n", style)


def _told(document: Document, done: Migration, way: Way, handed: str | None, style: Style) -> Iterator[str]:
    name = printable(document.name)
    from_to = f"from {done.origin} ({way.known_from}) to {done.target}, {printable(way.read_by)}"
    if done.stopped is not None:
        yield f"{name}: not migrated {from_to}: {printable(done.stopped.reason)}"
        yield from _numbered("to decide first", done.stopped.first, style)
        yield from _list("what helps", done.stopped.hints, style)
        return
    unchanged = "nothing is changed" if done.decisions else "nothing has to be changed"
    yield f"{name}: {from_to}{'' if done.changes else f': {unchanged}'}"
    for title in ("changed", "removed"):
        lines = [_change(each) for each in done.changes if each.kind == title]
        yield from _list(title, lines, style)
    if done.elastic is not None:
        where = f"is in {handed}" if handed else "is written to a file with --write, -o or --elasticity"
        yield from _list("handed over", (f"the config with its `elasticity` block {where}",), style)
    yield from _numbered("to decide, in this order", done.decisions, style)


def _change(change: Change) -> str:
    return f"{_place(change.path, change.line)}{change.what}\n    {change.why}"


def _list(title: str, lines: Sequence[str], style: Style) -> Iterator[str]:
    if lines:
        yield f"\n{style.paint(title, 'bold')}"
        for line in lines:
            yield "\n".join(f"  {printable(part)}" for part in line.split("\n"))


def _numbered(title: str, decisions: Sequence[Decision], style: Style) -> Iterator[str]:
    if decisions:
        yield f"\n{style.paint(title, 'bold')}"
    for number, each in enumerate(decisions, 1):
        place = _place(each.path, each.line, was=each.is_removed)
        yield f"  {number}. {printable(place + each.why)}"
        for letter, choice in zip(_LETTERS, each.choices, strict=False):
            means = f": {choice.consequence}" if choice.consequence else ""
            yield f"     {letter}. {printable(choice.what + means)}"


_LETTERS = "abcdefgh"
_LONGEST = 400
"""Characters of a key that are shown."""


def _place(path: KeyPath, line: int | None, *, was: bool = False) -> str:
    at = f"{'was line' if was else 'line'} {line}, " if line else ""
    return f"{at}`{truncate_middle(dotted(path), _LONGEST)}`: " if path else at.replace(", ", ": ")
