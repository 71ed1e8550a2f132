"""`migrate`: convert a config from one release to a later one, or say what blocks the migration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from dsconfig.check.compat import compat
from dsconfig.core.diagnostic import Diagnostic, Effect, Remove, Replace, Set, dotted
from dsconfig.core.releases import NUMBERS
from dsconfig.document import Document
from dsconfig.document.edit import again, edited
from dsconfig.document.text_edit import EditError
from dsconfig.fix.fix import fix_document
from dsconfig.fix.migration_decisions import Decisions, line_of
from dsconfig.fix.migration_plan import (
    KEY,
    Change,
    Choice,
    Decision,
    Kind,
    Solve,
    Transition,
    about_block,
    handover,
    only_removes,
)
from dsconfig.launch.located_config import why_no_config

if TYPE_CHECKING:
    from dsconfig.launch.located_config import Embedding


# `migrate`: a config that meant something to one release, made to mean the same to a later one.
#
# Only what must change is changed: what the later release refuses, or would read otherwise. What it cannot
# be told any more, and what changes by itself, is a person's to decide. The result is judged: the later
# release takes it, or nothing is changed at all.

OWN = "$dsconfig"


@dataclass(frozen=True, slots=True)
class Migration:
    """A config on its way from one release to another. Where it was stopped, the text is the file's own."""

    text: str
    origin: str
    target: str
    consumer: str
    changes: tuple[Change, ...] = ()
    decisions: tuple[Decision, ...] = ()
    """What a person must decide, in the order in which it is best worked off."""
    stopped: Stop | None = None
    elastic: str | None = None
    """The config as `dsconfig elastic` takes it, where its `elasticity` block has been handed over."""


def migrate(
    document: Document,
    to: str,
    origin: str,
    *,
    world_size: int | None = None,
    consumer: str = "deepspeed",
    solve: Solve | None = None,
    keep: bool = False,
) -> Migration:
    """Take a config from one release to a later one.

    Args:
        document: the config.
        to: the release that is to read it.
        origin: the release that it was written for.
        world_size: number of ranks; see `check`.
        consumer: who reads the file; see `check`.
        solve: the batch that `origin` derives from an `elasticity` block; None where the ranks are not known.
        keep: whether such a block stays in the text, for `dsconfig elastic`, though `to` refuses it.

    Raises:
        ValueError: `origin` is not earlier than `to`.
    """
    if NUMBERS[origin] >= NUMBERS[to]:
        raise ValueError(
            f"{origin} is not earlier than {to}: a config is taken from an old release to a new one"
        )
    way = Transition(document, origin, to, world_size, consumer)
    stop = not_taken(way)
    if stop is None:
        try:
            way.handover = handover(way.meant.context.data, origin, to, solve)
            return _carried_out(way, keep=keep)
        except (EditError, ValueError) as error:  # no place in the text, no batch for these ranks
            stop = Stop(str(error))
    return _stopped(way, stop)


def _stopped(way: Transition, stop: Stop) -> Migration:
    return Migration(way.document.text, way.origin, way.to, way.consumer, stopped=stop)


def _carried_out(way: Transition, *, keep: bool) -> Migration:
    fixed = fix_document(_dated(way.document, way.to), way.judge, unsafe=True)
    done = fixed.report.document
    kept = result = seen = done if done and done.text == fixed.text else again(way.document, fixed.text)
    if way.handover is not None:
        result = kept if keep else way.handover.carried_out(kept)
        seen = way.handover.looked_past(kept) if keep else result
    stop = still_refused(way, seen)
    if stop is not None:
        return _stopped(way, stop)
    decisions = [*about_block(way.handover, way.origin, way.to, keep=keep)]
    decisions += Decisions(way, seen, result, fixed.applied)
    changes = [*_made(way, fixed.applied), *_around(way, keep=keep)]
    elastic = kept.text if way.handover is not None and not keep else None
    return Migration(
        result.text, way.origin, way.to, way.consumer, tuple(changes), tuple(decisions), elastic=elastic
    )


def _dated(document: Document, to: str) -> Document:
    """The document, saying itself which release it is for now, if it said so before."""
    data = document.value()
    own = data.get(OWN) if isinstance(data, dict) else None
    if not isinstance(own, Mapping) or "target" not in own:
        return document
    return edited(document, (Set((OWN, "target"), to),))


def _made(way: Transition, applied: Sequence[Diagnostic]) -> Iterator[Change]:
    for found in applied:
        assert found.fix is not None
        step = found.fix.operations[0]
        gone = only_removes(found) and isinstance(step, Remove)
        path = step.path if isinstance(step, Remove) and gone else found.path
        line = line_of(way.document, path) if way.document.located(path) else None
        kind: Kind = "removed" if gone else "changed"
        yield Change(kind, path, line, found.fix.title, f"{found.message} ({found.code})")


def _around(way: Transition, *, keep: bool) -> Iterator[Change]:
    """What is changed although no rule finds it: our own block, the elastic one, and its batch."""
    data = way.document.value()
    own = data.get(OWN) if isinstance(data, dict) else None
    if isinstance(own, Mapping) and "target" in own:
        path = (OWN, "target")
        yield Change("changed", path, line_of(way.document, path), f"write `{way.to}`", "it is for this now")
    if way.handover is None or keep:
        return
    line = line_of(way.document, (KEY,))
    yield Change("removed", (KEY,), line, "hand the block over", f"{way.to} refuses a config that has it")
    for key, value in way.handover.batch.items():
        yield Change("changed", (key,), None, f"write `{value}`", f"{way.origin} derives it from the block")


# The migration of a config that stands in a launch file, as one of the launch file.


def lifted(done: Migration, place: Embedding) -> Migration:
    """What became of the config, in the launch file's own lines."""
    text = place.put_back(done.text)
    changes = tuple(replace(each, line=place.line(each.line)) for each in done.changes)
    decisions = tuple(replace(each, line=place.line(each.line)) for each in done.decisions)
    if text is None and done.stopped is None:
        done = replace(done, stopped=Stop("what comes out cannot be written back into the launch file"))
    if done.stopped is not None:  # the commands among the hints are for the file
        inner = re.compile(rf"'{re.escape(place.launch.name)}: [^']*'")
        hints = tuple(inner.sub(lambda _: quote(place.launch.name), each) for each in done.stopped.hints)
        done = replace(done, stopped=replace(done.stopped, hints=hints))
    text = place.launch.text if text is None or done.stopped is not None else text
    return replace(done, text=text, changes=changes, decisions=decisions)


# Why a migration changes nothing: what stands in its way that is no matter of the two releases alone.

MANY = 50
"""Errors beyond which nobody waits to hear what becomes of them elsewhere, or by fixes."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The reason in one line, what must be decided first, and what may help."""

    reason: str
    first: tuple[Decision, ...] = ()
    hints: tuple[str, ...] = ()


def not_taken(way: Transition) -> Stop | None:
    """Where the release that it was written for does not take the file, nothing says what the file means."""
    report = way.report(way.document, way.origin)
    if why := why_no_config(way.document):
        return Stop(f"it is a launch file; {why}")
    config = report.children[0] if report.children else None
    if config is not None and not (config.document is not None and config.document.is_data):
        return Stop(f"it is a launch file; the config is {config.name}: migrate that")
    if report.is_held and report.base:
        return Stop(f"it is a launch file; the config is its `{dotted(report.base)}`: migrate that as a file")
    if report.is_held or config is not None:
        return Stop("it is a launch file; a program makes the config of what stands there: change that")
    errors = [found for found in report if found.severity == "error"]
    if not errors:
        return None
    return Stop(
        f"{way.origin} {_does(errors)} the file as it is",
        tuple(_first(way.document, errors)),
        tuple(_ways_out(way, len(errors))),
    )


def _does(errors: Sequence[Diagnostic]) -> str:
    refused = any(found.effect is Effect.REJECTED for found in errors)
    return "refuses" if refused else "stops in training with"


def still_refused(way: Transition, document: Document) -> Stop | None:
    """Where the later release does not take what the migration came to."""
    report = way.report(document, way.to)
    silenced = [found for found in report.suppressed if found.effect is Effect.REJECTED]
    errors = [found for found in (*report, *silenced) if found.severity == "error"]
    if not errors:
        return None
    first = list(_first(way.document, [_in_file(way, found) for found in errors]))
    handed = way.handover
    if handed is not None and handed.on and not handed.batch:
        others = [each for each, found in zip(first, errors, strict=True) if found.code[:4] != "DSC2"]
        if len(others) < len(first):
            first = [_batch(way), *others]
    return Stop(f"{way.to} still {_does(errors)} what comes out", tuple(first), (_EDIT,))


_EDIT = "nothing is changed: decide, and migrate the file again"


def _in_file(way: Transition, found: Diagnostic) -> Diagnostic:
    """The finding at its place in the file as it is, which stays as it is."""
    from dsconfig.document.document import location_of

    return found._replace(location=location_of(way.document, found.path))


def _first(document: Document, errors: Sequence[Diagnostic]) -> Iterator[Decision]:
    for found in errors:
        choices: tuple[Choice, ...] = ()
        operations = found.fix.operations if found.fix else ()
        if any(not isinstance(each, Replace) and not document.located(each.path) for each in operations):
            operations = ()
        if found.help or found.fix is not None:
            title = found.fix.title if found.fix else ""
            choices = (Choice(found.help or title, "", operations),)
        line = found.location.line if found.location and found.path else None
        yield Decision("refused", found.path, line, f"{found.message} ({found.code})", choices)


def _batch(way: Transition) -> Decision:
    from dsconfig.fix.migration_decisions import line_of

    choices = (
        Choice("give --world-size N", f"the batch that {way.origin} takes on N ranks is written in"),
        Choice("give --keep-elasticity", "the block stays, for `dsconfig elastic run`, which takes it out"),
    )
    why = "decides the batch by the number of ranks, which is not known"
    return Decision("batch", (KEY,), line_of(way.document, (KEY,)), why, choices)


def _ways_out(way: Transition, number: int) -> Iterator[str]:
    """Which releases take the file, and whether its fixes help."""
    if number > MANY:
        return
    taken = [
        each.releases
        for each in compat(way.document, world_size=way.world_size, consumer=way.consumer)
        if each.word == "taken"
    ]
    if not taken:
        yield "no release takes it"
    for releases in reversed(taken):
        span = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
        also = f", so also {way.to}: there is nothing to migrate" if way.to in releases else ""
        yield f"{span} would take it{also}"
    for unsafe in (False, True):
        fixed = fix_document(way.document, lambda text: way.report(text, way.origin), unsafe=unsafe)
        if fixed.report.ok:
            options = f"--target {way.origin}{' --unsafe-fixes' if unsafe else ''}"
            options += f" --consumer {way.consumer}" if way.consumer != "deepspeed" else ""
            options += f" --world-size {way.world_size}" if way.world_size else ""
            yield f"`dsconfig fix {options} {quote(way.document.name)}` puts it right"
            return
