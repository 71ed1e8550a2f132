"""From which release a config is migrated, and what is told of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.cli.errors import refuse
from dsconfig.cli.options import in_force
from dsconfig.core.diagnostic import clipped, dotted
from dsconfig.core.releases import UnknownReleaseError, resolve
from dsconfig.fix.migrate import OWN, Migration, migrate
from dsconfig.job.job import Fact, of_reader
from dsconfig.render.printable import printable

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath
    from dsconfig.core.releases import Target
    from dsconfig.document import Document
    from dsconfig.fix.migration_types import Change, Decision
    from dsconfig.job.detect_consumer import Reader
    from dsconfig.launch.located_config import EditableConfig
    from dsconfig.render.terminal import Style

_ASKED = (
    "which release was the config written for? Give --from RELEASE, or --from installed, or write "
    f'`"{OWN}": {{"target": "RELEASE"}}` into the file'
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
        from dsconfig.resolve.elastic_batch import batch_of

        return migrate(
            document,
            self.to,
            self.origin,
            world_size=self.world_size,
            consumer=self.consumer,
            solve=batch_of(self.origin, self.world_size) if self.world_size else None,
            keep=keep,
        )


def way_of(args: argparse.Namespace, document: Document, inside: EditableConfig | None = None) -> Way:
    """The way that is asked for; without a release to start from the run ends.

    `inside`: the launch file's words on the config, where one leads to it.
    """
    under = in_force(args, document)
    if inside is not None:
        evidence = of_reader(under.reader if under.reader.said else inside.reader)
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
    from dsconfig.render.wrap import flowed

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
        place = _place(each.path, each.line, was=each.gone)
        yield f"  {number}. {printable(place + each.why)}"
        for letter, choice in zip(_LETTERS, each.choices, strict=False):
            means = f": {choice.means}" if choice.means else ""
            yield f"     {letter}. {printable(choice.what + means)}"


_LETTERS = "abcdefgh"
_LONGEST = 400
"""Characters of a key that are shown."""


def _place(path: KeyPath, line: int | None, *, was: bool = False) -> str:
    at = f"{'was line' if was else 'line'} {line}, " if line else ""
    return f"{at}`{clipped(dotted(path), _LONGEST)}`: " if path else at.replace(", ", ": ")
