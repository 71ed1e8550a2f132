"""What `migrate` promises, asked of one migration."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.check.check import check_document
from dsconfig.check.report import Report
from dsconfig.cli.migrate import MigrationRoute
from dsconfig.core.diagnostic import ReplaceText
from dsconfig.core.json_types import Json, KeyPath
from dsconfig.core.releases import NUMBERS, resolve_target
from dsconfig.document import Document, read_text
from dsconfig.document.apply_operations import apply_operations
from dsconfig.evaluation.rule_context import MISSING, Context, EvaluatedDocument
from dsconfig.fix.migrate import Migration
from dsconfig.fix.migration_decisions import _are_equivalent_values, _is_json_value
from dsconfig.fix.migration_plan import (
    BATCH_KEYS,
    ConfigMeaning,
    DecisionChoice,
    MigrationDecision,
    value_or_missing,
)

MOST = 4
"""Of what is to decide before a migration, so much is done and migrated again."""


def broken(text: str, way: MigrationRoute, done: Migration) -> Iterator[str]:
    """The promises that the migration of this text does not keep."""
    if done.stopped is not None:
        if done.text != text or done.changes or done.elastic:
            yield "stopped, and changed something"
        if not done.stopped.reason or not (done.stopped.first or done.stopped.hints):
            yield f"stopped without a reason: {done.stopped}"
        yield from _followed_in_file(text, way, done.stopped.first)
        return
    result = read_text(done.text)
    yield from _not_taken(report(result, way))
    written = BATCH_KEYS if done.elastic else ()  # the batch that the ranks given lead to
    yield from _filled(read_text(text).value(), result.value(), written)
    yield from _unspoken(text, way, done)
    yield from _followed(result, way, done)


def report(document: Document, way: MigrationRoute, release: str | None = None) -> Report:
    """What `check` says of a text at the end of the way."""
    target = resolve_target(release or way.to)
    return check_document(document, target, world_size=way.world_size, consumer=way.consumer)


def _not_taken(found: Report) -> Iterator[str]:
    for each in (*found.diagnostics, *found.suppressed):
        if each.severity == "error" and (each in found.diagnostics or each.effect == "rejected"):
            yield f"the result is not taken: {each.code} {each.message}"


def _filled(old: Json, new: Json, written: tuple[str, ...], path: KeyPath = ()) -> Iterator[str]:
    """Every "auto" stays one, or goes with its key."""
    if path and path[0] in written:
        return
    here = value_or_missing(new, path)
    if old == "auto" and here is not MISSING and here != "auto":
        yield f'"auto" of {path} became {here!r}'
    entries = old.items() if isinstance(old, dict) else ()
    for word, value in entries:
        yield from _filled(value, new, written, (*path, word))


def _unspoken(text: str, way: MigrationRoute, done: Migration) -> Iterator[str]:
    """Values that both releases read, each another, of which nothing is said."""
    source = EvaluatedDocument(read_text(text), way.consumer, way.world_size)
    before = ConfigMeaning(Context(source, NUMBERS[way.origin])).effective_values
    source = EvaluatedDocument(read_text(done.text), way.consumer, way.world_size)
    after = ConfigMeaning(Context(source, NUMBERS[way.to])).effective_values
    said = [each.path for each in (*done.changes, *done.decisions)]
    for path in before.keys() & after.keys():
        (written, old), (place, new) = before[path], after[path]
        if not _is_json_value(old) or not _is_json_value(new) or _are_equivalent_values(old, new):
            continue
        if not any(where[: len(each)] == each for each in said for where in (path, written, place)):
            yield f"{path} is {old!r} before, {new!r} after, and nothing is said of it"


def _followed(result: Document, way: MigrationRoute, done: Migration) -> Iterator[str]:
    """Each choice that is an edit can be made, the release takes what comes out, and nothing new is found."""
    base = _codes(report(result, way))
    for decision in done.decisions:
        for choice in decision.choices:
            if not choice.operations:
                continue
            try:
                found = report(apply_operations(result, choice.operations), way)
            except ValueError as error:
                yield f"{_named(decision, choice)}: {error}"
                continue
            if not found.ok:
                yield f"{_named(decision, choice)}: the release does not take what comes out"
            if new := [code for code in _codes(found) if code not in base]:
                yield f"{_named(decision, choice)}: brings {new}"


def _followed_in_file(text: str, way: MigrationRoute, first: tuple[MigrationDecision, ...]) -> Iterator[str]:
    """Each edit that is named first ends the matter: the next migration has other things to say, or none."""
    for decision in first[:MOST]:
        for choice in decision.choices:
            if not choice.operations or isinstance(choice.operations[0], ReplaceText):
                continue  # behind a mistake in the text stands the next
            try:
                edit = apply_operations(read_text(text), choice.operations)
            except ValueError as error:
                yield f"{_named(decision, choice)}: {error}"
                continue
            again = way.migrate_document(edit, keep=False).stopped
            if again and _alike_in(again.first, decision) >= _alike_in(first, decision):
                yield f"{_named(decision, choice)}: done, and still to do"


def _alike_in(decisions: tuple[MigrationDecision, ...], one: MigrationDecision) -> int:
    return sum((each.path, each.why) == (one.path, one.why) for each in decisions)


def _codes(found: Report) -> list[str]:
    return [each.code for each in found if each.severity != "info"]


def _named(decision: MigrationDecision, choice: DecisionChoice) -> str:
    return f"{decision.path}: {decision.why}: {choice.what}"
