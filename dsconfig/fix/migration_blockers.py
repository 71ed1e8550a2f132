"""Why a migration changes nothing: what stands in its way that is no matter of the two releases alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from dsconfig.check.compat import compat
from dsconfig.core.diagnostic import Diagnostic, Effect, Replace, dotted
from dsconfig.fix.elasticity_handover import KEY
from dsconfig.fix.fix import fix_document
from dsconfig.fix.migration_plan import Transition
from dsconfig.fix.migration_types import Choice, Decision
from dsconfig.launch.located_config import why_nowhere

if TYPE_CHECKING:
    from dsconfig.document import Document


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
    if why := why_nowhere(way.document):
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
