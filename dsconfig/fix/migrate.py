"""`migrate`: a config that meant something to one release, made to mean the same to a later one.

Only what must change is changed: what the later release refuses, or would read otherwise. What it cannot be
told any more, and what changes by itself, is a person's to decide. The result is judged: the later release
takes it, or nothing is changed at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dsconfig.core.diagnostic import Diagnostic, Remove, Set
from dsconfig.core.releases import NUMBERS
from dsconfig.document import Document
from dsconfig.document.edit import again, edited
from dsconfig.document.text_edit import EditError
from dsconfig.fix.elasticity_handover import KEY, Solve, about_block, handover
from dsconfig.fix.fix import fix_document
from dsconfig.fix.migration_blockers import Stop, not_taken, still_refused
from dsconfig.fix.migration_decisions import Decisions, line_of
from dsconfig.fix.migration_plan import Transition, only_removes
from dsconfig.fix.migration_types import Change, Decision, Kind

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
