"""`migrate`: a config that meant something to one release, made to mean the same to a later one.

What the old release made of a value is written out, renamed keys get their new names, keys that the new
release has no place for are dropped, and what only a person can decide is listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dsconfig.checking.compat import compat, newest_taking
from dsconfig.diagnostic import Diagnostic, Remove
from dsconfig.document import Document
from dsconfig.evaluation.context import Context
from dsconfig.fixing.changes import Change, new_defaults
from dsconfig.fixing.fix import fix_document
from dsconfig.fixing.meaning import had_effect
from dsconfig.fixing.transition import Transition
from dsconfig.releases import NUMBERS, RELEASES, Target


@dataclass(frozen=True, slots=True)
class Migration:
    """A config on its way from one release to another. `origin` is None where no earlier release takes it."""

    text: str
    origin: str | None
    target: str
    rewritten: tuple[Change, ...]
    dropped: tuple[Change, ...]
    to_decide: tuple[Change, ...]


def migrate(
    document: Document,
    to: str,
    origin: str | None = None,
    *,
    world_size: int | None = None,
    consumer: str = "deepspeed",
) -> Migration:
    """Take a config from one release to a later one.

    Args:
        document: the config.
        to: the release that is to read it.
        origin: the release that reads it; None: the newest before `to` that takes it.
        world_size: number of ranks; see `check`.
        consumer: who reads the file; see `check`.

    Raises:
        ValueError: `origin` is not earlier than `to`.
    """
    if origin is None:
        origin = _newest_before(document, to, world_size, consumer)
    elif NUMBERS[origin] >= NUMBERS[to]:
        raise ValueError(
            f"{origin} is not earlier than {to}: a config is taken from an old release to a new one"
        )
    way = Transition(origin, to, world_size, consumer)
    fixed = fix_document(document, way.judge, unsafe=True)
    dropped = [found for found in fixed.applied if _drops(found)]
    rewritten = [found for found in fixed.applied if not _drops(found)]
    left = [_to_change(found) for found in fixed.report if found.severity != "info"]
    if origin is not None:
        before = way.context(document, origin)
        left = [*_to_replace(dropped, before), *left, *new_defaults(before, way.context(document, to))]
    return Migration(fixed.text, origin, to, _done(rewritten), _done(dropped), tuple(left))


def _newest_before(document: Document, to: str, world_size: int | None, consumer: str) -> str | None:
    earlier = tuple(release for release in RELEASES if NUMBERS[release] < NUMBERS[to])
    if not earlier:
        return None
    target = Target(earlier, f"<{to}", "argument")
    return newest_taking(compat(document, target, world_size=world_size, consumer=consumer))


def _drops(found: Diagnostic) -> bool:
    """Whether the finding's fix only takes something out."""
    return found.fix is not None and all(isinstance(step, Remove) for step in found.fix.operations)


def _done(applied: Iterable[Diagnostic]) -> tuple[Change, ...]:
    return tuple(Change(found.path, found.fix.title, _why(found)) for found in applied if found.fix)


def _to_change(found: Diagnostic) -> Change:
    return Change(found.path, found.help or "change it", _why(found))


def _to_replace(dropped: Iterable[Diagnostic], before: Context) -> Iterator[Change]:
    """What was dropped although it had an effect in the old release."""
    for found in dropped:
        if had_effect(before, found.path):
            what = "decide what takes its place" + (f": {found.help}" if found.help else "")
            yield Change(found.path, what, f"it had an effect in {before.release_name}")


def _why(found: Diagnostic) -> str:
    return f"{found.code} {found.message}"
