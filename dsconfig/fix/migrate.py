"""`migrate`: convert a config from one release to a later one, or say what prevents it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from dsconfig.check.accepting_releases import compat
from dsconfig.core.diagnostic import Diagnostic, Effect, RemoveKey, ReplaceText, SetValue, dotted_path
from dsconfig.core.releases import NUMBERS
from dsconfig.document import Document
from dsconfig.document.apply_operations import apply_operations, reparse_document
from dsconfig.document.text_edit import EditError
from dsconfig.fix.apply_fixes import fix_document
from dsconfig.fix.migration_decisions import MigrationDecisions, line_of_key
from dsconfig.fix.migration_plan import (
    KEY,
    ConfigMigration,
    DecisionChoice,
    Kind,
    MigrationChange,
    MigrationDecision,
    Solve,
    decisions_about_elasticity,
    fix_only_removes,
    plan_elasticity_handover,
)
from dsconfig.launch.located_config import why_host_has_no_config

if TYPE_CHECKING:
    from dsconfig.launch.located_config import EmbeddedLocation


# Only what must change is changed: what the later release rejects, or interprets differently. A person
# decides about values that the later release no longer supports, and about changed defaults. The result is
# checked: the later release accepts it, or nothing is changed.

BLOCK_KEY = "$dsconfig"


@dataclass(frozen=True, slots=True)
class Migration:
    """The result of a migration; if it was stopped, the text is the original one."""

    text: str
    origin: str
    target: str
    consumer: str
    changes: tuple[MigrationChange, ...] = ()
    decisions: tuple[MigrationDecision, ...] = ()
    """The decisions that the user has to make, in the recommended order."""
    stopped: MigrationBlocker | None = None
    elastic: str | None = None
    """The config for `dsconfig elastic`, if the migration handed the `elasticity` block over to that command."""


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
    """Migrate a config from one release to a later one.

    Args:
        document: the config.
        to: the new release.
        origin: the release that the config was written for.
        world_size: number of ranks; see `check`.
        consumer: the library that loads the file; see `check`.
        solve: function that returns the batch that `origin` derives from an `elasticity` block; None if the
            number of ranks is unknown.
        keep: whether to keep the `elasticity` block, for `dsconfig elastic`, although `to` rejects it.

    Raises:
        ValueError: `origin` is not earlier than `to`.
    """
    if NUMBERS[origin] >= NUMBERS[to]:
        raise ValueError(
            f"cannot migrate from {origin} to {to}: the new release must be later than the old one"
        )
    transition = ConfigMigration(document, origin, to, world_size, consumer)
    stop = why_not_migratable(transition)
    if stop is None:
        try:
            # DeepSpeed 0.19.8 raises for an `elasticity` block (runtime/config.py); the block is handed to
            # `dsconfig elastic`.
            transition.handover = plan_elasticity_handover(transition.meaning.context.data, origin, to, solve)
            return _migrate_config(transition, keep=keep)
        except (
            EditError,
            ValueError,
        ) as error:  # the text has no place for an edit, or the batch does not fit these ranks
            stop = MigrationBlocker(str(error))
    return _stopped_migration(transition, stop)


def _stopped_migration(transition: ConfigMigration, stop: MigrationBlocker) -> Migration:
    return Migration(
        transition.document.text, transition.origin, transition.to, transition.consumer, stopped=stop
    )


def _migrate_config(transition: ConfigMigration, *, keep: bool) -> Migration:
    fixed = fix_document(
        _update_declared_target(transition.document, transition.to),
        transition.diagnostics_to_resolve,
        unsafe=True,
    )
    checked = fixed.report.document
    # `with_block` still has an `elasticity` block, `result` is the new text, and `to` must accept
    # `judged_text`.
    with_block = result = accepted = (
        checked
        if checked and checked.text == fixed.text
        else reparse_document(transition.document, fixed.text)
    )
    if transition.handover is not None:
        result = with_block if keep else transition.handover.replace_block_by_batch(with_block)
        accepted = transition.handover.remove_block(with_block) if keep else result
    stop = remaining_errors(transition, accepted)
    if stop is not None:
        return _stopped_migration(transition, stop)
    decisions = [
        *decisions_about_elasticity(transition.handover, transition.origin, transition.to, keep=keep)
    ]
    decisions += MigrationDecisions(transition, accepted, result, fixed.applied)
    changes = [*_changes_by_rules(transition, fixed.applied), *_changes_without_rule(transition, keep=keep)]
    elastic = with_block.text if transition.handover is not None and not keep else None
    return Migration(
        result.text,
        transition.origin,
        transition.to,
        transition.consumer,
        tuple(changes),
        tuple(decisions),
        elastic=elastic,
    )


def _update_declared_target(document: Document, to: str) -> Document:
    """Set the `target` in the config's `"$dsconfig"` block, if any, to the new release."""
    data = document.value()
    block = data.get(BLOCK_KEY) if isinstance(data, dict) else None
    if not isinstance(block, Mapping) or "target" not in block:
        return document
    return apply_operations(document, (SetValue((BLOCK_KEY, "target"), to),))


def _changes_by_rules(
    transition: ConfigMigration, applied: Sequence[Diagnostic]
) -> Iterator[MigrationChange]:
    for diagnostic in applied:
        assert diagnostic.fix is not None
        step = diagnostic.fix.operations[0]
        is_removal = fix_only_removes(diagnostic) and isinstance(step, RemoveKey)
        path = step.path if isinstance(step, RemoveKey) and is_removal else diagnostic.path
        line = line_of_key(transition.document, path) if transition.document.has_path(path) else None
        kind: Kind = "removed" if is_removal else "changed"
        yield MigrationChange(
            kind, path, line, diagnostic.fix.title, f"{diagnostic.message} ({diagnostic.code})"
        )


def _changes_without_rule(transition: ConfigMigration, *, keep: bool) -> Iterator[MigrationChange]:
    """Yield the changes that no rule reports: those of the `"$dsconfig"` block, `elasticity` and its batch."""
    data = transition.document.value()
    block = data.get(BLOCK_KEY) if isinstance(data, dict) else None
    if isinstance(block, Mapping) and "target" in block:
        path = (BLOCK_KEY, "target")
        line = line_of_key(transition.document, path)
        yield MigrationChange(
            "changed", path, line, f"write `{transition.to}`", "the config is for this release now"
        )
    if transition.handover is None or keep:
        return
    line = line_of_key(transition.document, (KEY,))
    yield MigrationChange(
        "removed", (KEY,), line, "remove the section", f"{transition.to} rejects a config with it"
    )
    for key, value in transition.handover.batch.items():
        yield MigrationChange(
            "changed", (key,), None, f"write `{value}`", f"{transition.origin} derives it from `elasticity`"
        )


# The migration of an embedded config, as one of its launch file.


def map_migration_to_launch_file(migration: Migration, place: EmbeddedLocation) -> Migration:
    """Return the migration of an embedded config with the text and line numbers of its launch file."""
    text = place.write_into_host(migration.text)
    changes = tuple(replace(each, line=place.line_in_host(each.line)) for each in migration.changes)
    decisions = tuple(replace(each, line=place.line_in_host(each.line)) for each in migration.decisions)
    if text is None and migration.stopped is None:
        migration = replace(
            migration, stopped=MigrationBlocker("the new config cannot be written back into the launch file")
        )
    if migration.stopped is not None:  # commands in the hints must name the launch file
        inner = re.compile(rf"'{re.escape(place.launch.name)}: [^']*'")
        hints = tuple(inner.sub(lambda _: quote(place.launch.name), each) for each in migration.stopped.hints)
        migration = replace(migration, stopped=replace(migration.stopped, hints=hints))
    text = place.launch.text if text is None or migration.stopped is not None else text
    return replace(migration, text=text, changes=changes, decisions=decisions)


# Stops: reasons to change nothing that go beyond the two releases.

MAX_ERRORS = 50
"""Number of errors above which no alternatives are computed, because the file needs repair first."""


@dataclass(frozen=True, slots=True)
class MigrationBlocker:
    """The reason why a config cannot be migrated, with required decisions and hints."""

    reason: str
    first: tuple[MigrationDecision, ...] = ()
    hints: tuple[str, ...] = ()


def why_not_migratable(transition: ConfigMigration) -> MigrationBlocker | None:
    """Return what prevents the migration of a config that the old release rejects, so that its meaning is unknown."""
    report = transition.report_in_release(transition.document, transition.origin)
    if problem := why_host_has_no_config(transition.document):
        return MigrationBlocker(f"it is a launch file: {problem}")
    config = report.children[0] if report.children else None
    if config is not None and not (config.document is not None and config.document.is_data):
        return MigrationBlocker(f"it is a launch file: migrate its config {config.name} instead")
    if report.is_embedded and report.base_path:
        return MigrationBlocker(
            f"it is a launch file: migrate its `{dotted_path(report.base_path)}` as a file of its own"
        )
    if report.is_embedded or config is not None:
        return MigrationBlocker(
            "it is a launch file: its program builds the config from these keys, so change them there"
        )
    errors = [diagnostic for diagnostic in report if diagnostic.severity == "error"]
    if not errors:
        return None
    return MigrationBlocker(
        f"{transition.origin} {_accept_or_reject_verb(errors)} the file as it is",
        tuple(_decisions_about_errors(transition.document, errors)),
        tuple(_accepting_release_hints(transition, len(errors))),
    )


def _accept_or_reject_verb(errors: Sequence[Diagnostic]) -> str:
    is_rejected = any(diagnostic.effect is Effect.REJECTED for diagnostic in errors)
    return "rejects" if is_rejected else "crashes with"


def remaining_errors(transition: ConfigMigration, document: Document) -> MigrationBlocker | None:
    """Return what prevents the migration: errors that the later release still reports after it."""
    report = transition.report_in_release(document, transition.to)
    suppressed = [diagnostic for diagnostic in report.suppressed if diagnostic.effect is Effect.REJECTED]
    errors = [diagnostic for diagnostic in (*report, *suppressed) if diagnostic.severity == "error"]
    if not errors:
        return None
    first = list(
        _decisions_about_errors(
            transition.document, [_map_to_original_file(transition, diagnostic) for diagnostic in errors]
        )
    )
    handover = transition.handover
    if handover is not None and handover.is_enabled and not handover.batch:
        others = [
            each for each, diagnostic in zip(first, errors, strict=True) if diagnostic.code[:4] != "DSC2"
        ]
        if len(others) < len(first):
            first = [_decision_about_batch(transition), *others]
    return MigrationBlocker(
        f"{transition.to} still {_accept_or_reject_verb(errors)} the migrated config", tuple(first), (_EDIT,)
    )


_EDIT = "nothing is changed: make these decisions in the file, then migrate it again"


def _map_to_original_file(transition: ConfigMigration, diagnostic: Diagnostic) -> Diagnostic:
    """Return a diagnostic with its location in the original file."""
    from dsconfig.document.document import location_of_path

    return diagnostic._replace(location=location_of_path(transition.document, diagnostic.path))


def _decisions_about_errors(document: Document, errors: Sequence[Diagnostic]) -> Iterator[MigrationDecision]:
    for diagnostic in errors:
        choices: tuple[DecisionChoice, ...] = ()
        operations = diagnostic.fix.operations if diagnostic.fix else ()
        if any(not isinstance(each, ReplaceText) and not document.has_path(each.path) for each in operations):
            operations = ()
        if diagnostic.help or diagnostic.fix is not None:
            title = diagnostic.fix.title if diagnostic.fix else ""
            choices = (DecisionChoice(diagnostic.help or title, "", operations),)
        line = diagnostic.location.line if diagnostic.location and diagnostic.path else None
        yield MigrationDecision(
            "refused", diagnostic.path, line, f"{diagnostic.message} ({diagnostic.code})", choices
        )


def _decision_about_batch(transition: ConfigMigration) -> MigrationDecision:
    from dsconfig.fix.migration_decisions import line_of_key

    choices = (
        DecisionChoice("pass --world-size N", f"writes the batch that {transition.origin} uses on N ranks"),
        DecisionChoice(
            "pass --keep-elasticity", "keeps `elasticity` for `dsconfig elastic run`, which removes it"
        ),
    )
    problem = "decides the batch by the number of ranks, which is unknown"
    return MigrationDecision("batch", (KEY,), line_of_key(transition.document, (KEY,)), problem, choices)


def _accepting_release_hints(transition: ConfigMigration, number: int) -> Iterator[str]:
    """Yield hints about the releases that accept the file and about its fixes."""
    if number > MAX_ERRORS:
        return
    accepting = [
        each.releases
        for each in compat(
            transition.document, world_size=transition.world_size, consumer=transition.consumer
        )
        if each.word == "ok"
    ]
    if not accepting:
        yield "no release accepts it"
    for releases in reversed(accepting):
        names = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
        hint = (
            f", including {transition.to}: there is nothing to migrate" if transition.to in releases else ""
        )
        yield f"{names} would accept it{hint}"
    for unsafe in (False, True):
        fixed = fix_document(
            transition.document,
            lambda text: transition.report_in_release(text, transition.origin),
            unsafe=unsafe,
        )
        if fixed.report.ok:
            options = f"--target {transition.origin}{' --unsafe-fixes' if unsafe else ''}"
            options += f" --consumer {transition.consumer}" if transition.consumer != "deepspeed" else ""
            options += f" --world-size {transition.world_size}" if transition.world_size else ""
            yield f"`dsconfig fix {options} {quote(transition.document.name)}` fixes it"
            return
