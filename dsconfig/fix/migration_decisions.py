"""Decisions that a migration leaves to the user, and the choices, each tried out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import (
    Diagnostic,
    Effect,
    Operation,
    RemoveKey,
    RenameKey,
    SetValue,
    dotted_path,
    truncate_middle,
)
from dsconfig.core.releases import NUMBERS, RELEASES
from dsconfig.core.wording import join_alternatives, quote_value
from dsconfig.document.apply_operations import (
    apply_operations,
    apply_operations_to_value,
    are_equal_for_parsers,
)
from dsconfig.document.document import location_of_path
from dsconfig.document.text_edit import EditError
from dsconfig.evaluation.rule_context import MISSING, Context
from dsconfig.fix.migration_plan import (
    ConfigMeaning,
    ConfigMigration,
    DecisionChoice,
    Matter,
    MigrationDecision,
    fix_only_removes,
    value_or_missing,
)
from dsconfig.fix.verify_fixes import trial_budget
from dsconfig.model.key_table import (
    INFERENCE_ROOT,
    ROOT,
    child_section,
    find_key,
    may_be_secret,
    section_view_of_release,
)

if TYPE_CHECKING:
    from dsconfig.check.report import Report
    from dsconfig.core.json_types import Json, JsonObject, KeyPath
    from dsconfig.document import Document


_MAX_KEY_LENGTH = 400
"""Maximal number of characters of a key in messages."""


def line_of_key(document: Document, path: KeyPath) -> int | None:
    """Return the line of a key, or of its nearest existing parent if the key is absent."""
    location = location_of_path(document, path, "key")
    return location.line if location else None


class MigrationDecisions:
    """The decisions that a migrated text leaves to the user."""

    def __init__(
        self,
        transition: ConfigMigration,
        accepted: Document,
        displayed: Document,
        applied: Sequence[Diagnostic],
    ) -> None:
        """Compare the migrated text with the original one, whose line numbers are displayed."""
        self.transition, self.document, self.applied = transition, displayed, applied
        self.trial = MigrationTrial(transition, accepted)
        self.after = ConfigMeaning(transition.context_in_release(accepted, transition.to))
        self.new: Context = self.after.context
        batch = transition.handover.batch if transition.handover else {}
        self.reported: set[KeyPath] = {(key,) for key in batch}

    def __iter__(self) -> Iterator[MigrationDecision]:
        decisions = [
            *self._decisions_about_removed_keys(),
            *self._decisions_about_ignored_keys(),
            *self._decisions_about_new_effects(),
            *self._decisions_about_changed_values(),
            *self._decisions_about_new_warnings(),
        ]
        # Changed defaults come last: there may be many, and most of them do not matter to the job.
        yield from sorted(decisions, key=lambda each: each.urgency)
        yield from self._decisions_about_changed_defaults()

    # Removed keys

    def _decisions_about_removed_keys(self) -> Iterator[MigrationDecision]:
        for diagnostic in self.applied:
            if not fix_only_removes(diagnostic) or diagnostic.fix is None:
                continue
            for step in diagnostic.fix.operations:
                if not isinstance(step, RemoveKey):
                    continue
                self.reported.add(step.path)
                if self.transition.meaning.is_effective(step.path):
                    yield self._decision_about_removed_setting(diagnostic, step.path)
                else:
                    yield from self._decision_about_removed_typo(diagnostic, step.path)

    def _decision_about_removed_setting(self, diagnostic: Diagnostic, path: KeyPath) -> MigrationDecision:
        """Return the decision about a key that had an effect but is no longer supported."""
        origin, to = self.transition.origin, self.transition.to
        value = value_or_missing(self.transition.document.value(), path)
        choices = [DecisionChoice("leave it out", "the job runs without it")]
        if diagnostic.help and not diagnostic.help.startswith("remove"):
            choices.append(DecisionChoice(diagnostic.help))
        root = self.transition.meaning.context.root_section
        release = last_release_with(path, origin, to, root)
        if release is not None:
            choices.append(DecisionChoice(f"migrate to {release} instead", "the last release that reads it"))
        problem = (
            f"was removed: {origin} reads it, {to} rejects it; its value was {quote_in_full(path, value)}"
        )
        return MigrationDecision(
            "lost",
            path,
            line_of_key(self.transition.document, path),
            problem,
            tuple(choices),
            is_removed=True,
        )

    def _decision_about_removed_typo(
        self, diagnostic: Diagnostic, path: KeyPath
    ) -> Iterator[MigrationDecision]:
        """Yield the decision about a removed key that DeepSpeed ignored, probably because it is a typo."""
        fix = self.transition.other_fixes.get((diagnostic.code, diagnostic.path))
        value = value_or_missing(self.transition.document.value(), path)
        if self.new.key(dotted_path(path)) is not None:
            yield self._decision_about_rejected_value(diagnostic, path)
            return
        if fix is None or not isinstance(fix.operations[0], RenameKey):
            return
        to = (*path[:-1], fix.operations[0].name)
        operations = (SetValue(to, value),)
        if (
            path == diagnostic.path
            and value_or_missing(self.new.data, to) is MISSING
            and self.trial.do_operations_hold(operations)
        ):
            write = DecisionChoice(
                f"write `{to[-1]}`: {quote_value(value)}", "if it is a typo of this key", operations
            )
            leave = DecisionChoice("leave it out", f"{self.transition.origin} ignored it too")
            problem = f"was removed: {self.transition.origin} ignored it, {self.transition.to} rejects it"
            yield MigrationDecision(
                "lost",
                path,
                line_of_key(self.transition.document, path),
                problem,
                (leave, write),
                is_removed=True,
            )

    def _decision_about_rejected_value(self, diagnostic: Diagnostic, path: KeyPath) -> MigrationDecision:
        """Return the decision about a removed key whose value the later release would reject."""
        origin, to = self.transition.origin, self.transition.to
        value = quote_in_full(path, value_or_missing(self.transition.document.value(), path))
        problem = (
            f"was removed: {origin} ignored it, {to} reads it but rejects this value; its value was {value}"
        )
        choices = (
            DecisionChoice("leave it out", f"{origin} ignored it too"),
            DecisionChoice(
                f"write a value that {to} accepts",
                f"{diagnostic.message}; see `dsconfig explain {_shorten_key_path(path)}`",
            ),
        )
        return MigrationDecision(
            "lost", path, line_of_key(self.transition.document, path), problem, choices, is_removed=True
        )

    # Keys and values that the releases read differently

    def _decisions_about_ignored_keys(self) -> Iterator[MigrationDecision]:
        """Yield decisions about keys that the later release no longer reads."""
        for event in self.new.walk.unknown:
            path = event.path
            if event.section.unknown == "kept" or not self._is_unchanged(path):
                continue
            if self.transition.meaning.is_effective(path):
                self.reported.add(path)
                problem = f"no longer has an effect: {self.transition.origin} reads it, {self.transition.to} does not"
                yield self._decision_to_keep_or_remove("lost", path, problem, "it has no effect")

    def _newly_read_keys(self) -> Iterator[KeyPath]:
        """Yield the keys that the later release reads but the old one does not."""
        root, origin = self.new.root_section, NUMBERS[self.transition.origin]
        if root == INFERENCE_ROOT and section_view_of_release(root, origin).dialect == "hand":
            return  # before there were configs, the keys were arguments of `init_inference`
        for path in sorted(self.transition.meaning.ignored_keys, key=str):
            if not self._is_unchanged(path) or self.after.outermost_ignored_key(path) is not None:
                continue
            key = self.new.key(dotted_path(path))
            is_section = key is not None and child_section(key.type) is not None
            if key is None or (
                not is_section and are_equal_for_parsers(value_or_missing(self.new.data, path), key.default)
            ):
                continue
            if not self.after.is_effective(path):
                continue
            yield path

    def _decisions_about_new_effects(self) -> Iterator[MigrationDecision]:
        paths = list(self._newly_read_keys())
        self.reported.update(paths)
        for path in paths:
            problem = (
                f"takes effect now: {self.transition.origin} does not read it, {self.transition.to} does"
            )
            yield self._decision_to_keep_or_remove("new effect", path, problem, "it takes effect", paths)

    def _decision_to_keep_or_remove(
        self, matter: Matter, path: KeyPath, why: str, means: str, others: Sequence[KeyPath] = ()
    ) -> MigrationDecision:
        """Return a decision to keep or remove a key, along with the keys in `others`."""
        choices = [DecisionChoice("leave it as it is", means)]
        for paths in ((path,), tuple(others)):
            operations = tuple(map(RemoveKey, paths))
            if paths and self.trial.do_operations_hold(operations):
                action = "remove " + join_alternatives(
                    (f"`{_shorten_key_path(each)}`" for each in paths), "and"
                )
                choices.append(DecisionChoice(action, f"as in {self.transition.origin}", operations))
                break
        return MigrationDecision(matter, path, line_of_key(self.document, path), why, tuple(choices))

    def _is_unchanged(self, path: KeyPath) -> bool:
        original = value_or_missing(self.transition.document.value(), path)
        return original is not MISSING and are_equal_for_parsers(
            value_or_missing(self.new.data, path), original
        )

    def _decisions_about_changed_values(self) -> Iterator[MigrationDecision]:
        """Yield decisions about values that the releases convert differently."""
        earlier, later = self.transition.meaning.effective_values, self.after.effective_values
        for path in earlier.keys() & later.keys():
            (_, old), (place, new) = earlier[path], later[path]
            if (
                place not in self.reported
                and _is_json_value(old)
                and _is_json_value(new)
                and not _are_equivalent_values(old, new)
            ):
                yield self._decision_about_changed_value(place, old, new)

    def _decision_about_changed_value(self, place: KeyPath, old: Json, new: Json) -> MigrationDecision:
        self.reported.add(place)
        choices = [DecisionChoice("leave it as it is", f"it is {quote_value(new)}")]
        operations = (SetValue(place, old),)
        if old != "auto" and self.trial.do_operations_hold(operations):
            choices.append(
                DecisionChoice(
                    f"write {quote_value(old)}", f"as {self.transition.origin} reads it", operations
                )
            )
        problem = f"{self.transition.origin} reads it as {quote_value(old)}, {self.transition.to} as {quote_value(new)}"
        return MigrationDecision(
            "other value", place, line_of_key(self.document, place), problem, tuple(choices)
        )

    # New diagnostics

    def _decisions_about_new_warnings(self) -> Iterator[MigrationDecision]:
        report_before = self.transition.report_in_release(self.transition.document, self.transition.origin)
        counts = Counter(
            diagnostic.code for diagnostic in (*report_before.diagnostics, *report_before.suppressed)
        )
        for diagnostic in self.trial.report:
            counts[diagnostic.code] -= 1
            if counts[diagnostic.code] >= 0 or diagnostic.effect not in (Effect.IGNORED, Effect.ALTERED):
                continue
            if not any(diagnostic.path[: len(path)] == path for path in self.reported):
                yield self._decision_about_warning(diagnostic)

    def _decision_about_warning(self, diagnostic: Diagnostic) -> MigrationDecision:
        choices = [DecisionChoice("leave it as it is", "the warning stays")]
        operations: tuple[Operation, ...] = diagnostic.fix.operations if diagnostic.fix else ()
        if diagnostic.fix and self.trial.do_operations_hold(operations, diagnostic.code):
            choices.append(DecisionChoice(diagnostic.fix.title, "", operations))
        elif diagnostic.help:
            choices.append(DecisionChoice(diagnostic.help))
        line = line_of_key(self.document, diagnostic.path)
        return MigrationDecision(
            "warning", diagnostic.path, line, f"{diagnostic.message} ({diagnostic.code})", tuple(choices)
        )

    # Defaults

    def _decisions_about_changed_defaults(self) -> Iterator[MigrationDecision]:
        for path, old, new in changed_defaults(self.transition.meaning.context, self.new):
            operations = (SetValue(path, old),)
            is_in_budget = self.trial.remaining > 0
            holds = old is not None and self.trial.do_operations_hold(operations)
            if is_in_budget and not holds:
                continue  # the key has no effect here, so neither does its default
            problem = (
                f"is not set, and its default changed: "
                f"{quote_value(old)} in {self.transition.origin}, {quote_value(new)} in {self.transition.to}"
            )
            choices = [DecisionChoice("leave it out", f"it becomes {quote_value(new)}")]
            if holds:
                write = f"write `{path[-1]}`: {quote_value(old)}"
                choices.append(DecisionChoice(write, f"as in {self.transition.origin}", operations))
            line = line_of_key(self.document, path) if len(path) > 1 else None
            yield MigrationDecision("default", path, line, problem, tuple(choices))


def _shorten_key_path(path: KeyPath) -> str:
    """Return a key for a message, shortened in the middle if it is long."""
    return truncate_middle(dotted_path(path), _MAX_KEY_LENGTH)


def _is_json_value(value: Json) -> bool:
    """Return whether a leaf value is a JSON value that is neither rejected nor filled in by the consumer."""
    return value is None or isinstance(value, (bool, int, float, str, list))


def _are_equivalent_values(old: Json, new: Json) -> bool:
    """Return whether tests and arithmetic treat two values alike, as they do 1 and true."""
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_are_equivalent_values, old, new))
    return bool(old == new)


# Every choice is tried before it is offered: the resulting text is checked.

MAX_TRIALS = 48
"""Maximal number of texts checked for one migration; choices beyond this number are not offered."""


class MigrationTrial:
    """A text and its report in the later release, used to try out choices."""

    def __init__(self, transition: ConfigMigration, document: Document) -> None:
        self.transition, self.document = transition, document
        self.report = transition.report_in_release(document, transition.to)
        self.remaining = min(MAX_TRIALS, trial_budget(document))

    def do_operations_hold(self, operations: Sequence[Operation], resolved_code: str | None = None) -> bool:
        """Return whether the release accepts the text after these operations, without a new diagnostic.

        `resolved_code`: the code of a diagnostic that must disappear.
        """
        report = self._report_after_operations(operations)
        if report is None or not report.ok:
            return False
        counts_before, counts_after = _count_diagnostics(self.report), _count_diagnostics(report)
        return not counts_after - counts_before and (
            resolved_code is None or counts_after[resolved_code] < counts_before[resolved_code]
        )

    def _report_after_operations(self, operations: Sequence[Operation]) -> Report | None:
        if self.remaining == 0:
            return None
        self.remaining -= 1
        try:
            value = apply_operations_to_value(self.document.value(), operations)
            new = apply_operations(self.document, operations)
        except (EditError, KeyError, IndexError, TypeError, AttributeError):
            return None
        return (
            self.transition.report_in_release(new, self.transition.to)
            if are_equal_for_parsers(new.value(), value)
            else None
        )


def _count_diagnostics(report: Report) -> Counter[str]:
    diagnostics = (*report.diagnostics, *report.suppressed)
    return Counter(each.code for each in diagnostics if each.severity != "info")


# Wording of values and of the last release that reads a key.

_MAX_VALUE_LENGTH = 2000


def quote_in_full(path: KeyPath, value: Json) -> str:
    """Quote a removed value in full, since it is lost otherwise, unless it may be a secret."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if may_be_secret(str(path[-1]), text if isinstance(value, dict | list) else ""):
        return "a possible secret (not shown)"
    return f"`{text if len(text) <= _MAX_VALUE_LENGTH else text[:_MAX_VALUE_LENGTH] + '…'}`"


def last_release_with(path: KeyPath, origin: str, to: str, root: str = ROOT) -> str | None:
    """Return the last release before `to` that reads the key, or None if that is `origin` or unknown."""
    key = dotted_path(path)
    between = [each for each in RELEASES if NUMBERS[origin] < NUMBERS[each] < NUMBERS[to]]
    return next(
        (each for each in reversed(between) if find_key(key, NUMBERS[each], root)[0] is not None), None
    )


def changed_defaults(old: Context, new: Context) -> Iterator[tuple[KeyPath, Json, Json]]:
    """Yield the absent keys of existing sections whose default changes, with the old and the new default."""
    todo: list[tuple[str, JsonObject, KeyPath]] = [(new.root_section, new.data, ())]
    while todo:
        section, data, path = todo.pop(0)
        old_keys, new_keys = (
            section_view_of_release(section, old.release).keys,
            section_view_of_release(section, new.release).keys,
        )
        for key_name, key in old_keys.items():
            key_path = (*path, key_name)
            child = child_section(key.type)
            if child is not None and isinstance(data.get(key_name), dict):
                todo.append((child, data[key_name], key_path))
            later = new_keys.get(key_name)
            if key_name != key.info.name or later is None or child is not None or key_name in data:
                continue
            if "unread" in key.info.flags or are_equal_for_parsers(key.default, later.default):
                continue
            if not path and key_name in new.overwritten:
                continue
            if not any(alias in data for alias, other in old_keys.items() if other.info is key.info):
                yield key_path, key.default, later.default
