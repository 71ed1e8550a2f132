"""Plan a migration: compare two releases, and find changes that preserve a config's meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from dsconfig.check.check import check_document
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import Diagnostic, Effect, Fix, Operation, RemoveKey, SetValue
from dsconfig.core.releases import NUMBERS, ReleaseTarget
from dsconfig.core.wording import quote_value
from dsconfig.document import Document
from dsconfig.document.apply_operations import apply_operations, are_equal_for_parsers
from dsconfig.evaluation.coercion import CoercedValue
from dsconfig.evaluation.rule_context import MISSING, Context, EvaluatedDocument
from dsconfig.model.key_table import ROOT, keys_of_section_class

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath


REMOVED_KEY = "DSC104"
"""The rule about removed keys, whose fixes either use the current key for the same setting or only remove the key."""


@dataclass(slots=True)
class ConfigMigration:
    """The migration of a config from the release it was written for to a later one."""

    document: Document
    origin: str
    to: str
    world_size: int | None
    consumer: str
    handover: ElasticityHandover | None = None
    meaning: ConfigMeaning = field(init=False)
    """The meaning of the config in the release that it was written for."""
    other_fixes: dict[tuple[str, KeyPath], Fix] = field(default_factory=dict)
    """Fixes that `check` offers for diagnostics which the migration handles in its own way."""
    reports: dict[tuple[str, str], Report] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.meaning = ConfigMeaning(self.context_in_release(self.document, self.origin))

    def report_in_release(self, document: Document, release: str) -> Report:
        """Check a text for a release; reports are cached because several steps need them."""
        key = (document.text, release)
        if key not in self.reports:
            target = ReleaseTarget((release,), release, "argument")
            report = check_document(document, target, world_size=self.world_size, consumer=self.consumer)
            self.reports[key] = report
        return self.reports[key]

    def context_in_release(self, document: Document, release: str) -> Context:
        """Return the context in which a document is evaluated for a release."""
        return Context(EvaluatedDocument(document, self.consumer, self.world_size), NUMBERS[release])

    def diagnostics_to_resolve(self, document: Document) -> Report:
        """Return the diagnostics that the migration must resolve, with their fixes.

        An `elasticity` block that is handed over to `dsconfig elastic` is left out.
        """
        if self.handover is not None:
            document = self.handover.remove_block(document)
        report = self.report_in_release(document, self.to)
        # An ignored error still makes the new release reject the config.
        suppressed = [diagnostic for diagnostic in report.suppressed if diagnostic.severity == "error"]
        context = self.context_in_release(document, self.to)
        dropped: set[KeyPath] = set()
        required = (
            self._required_change(diagnostic, context, dropped)
            for diagnostic in (*report.diagnostics, *suppressed)
        )
        return report.copy_with(diagnostics=tuple(each for each in required if each), suppressed=())

    def _required_change(
        self, diagnostic: Diagnostic, context: Context, dropped: set[KeyPath]
    ) -> Diagnostic | None:
        """Return a diagnostic with the fix that it requires, or None if the file may stay as it is."""
        if diagnostic.severity == "error":
            return diagnostic._replace(fix=self._fix_for_diagnostic(diagnostic, context, dropped))
        if diagnostic.code == REMOVED_KEY and diagnostic.fix is not None:
            is_read = self.meaning.outermost_ignored_key(diagnostic.path) is None
            return diagnostic if is_read and not fix_only_removes(diagnostic) else None
        if diagnostic.effect is Effect.ALTERED and diagnostic.path in self.meaning.converted:
            converted = context.cached(converted_values).get(diagnostic.path)
            if not are_equal_for_parsers(converted, self.meaning.converted[diagnostic.path]):
                return diagnostic._replace(
                    fix=self.meaning.fix_preserving_meaning(diagnostic, context.data, dropped)
                )
        return None

    def _fix_for_diagnostic(
        self, diagnostic: Diagnostic, context: Context, dropped: set[KeyPath]
    ) -> Fix | None:
        """Return a fix that preserves the meaning, or else one that removes a key the release lacks."""
        preserving = self.meaning.fix_preserving_meaning(diagnostic, context.data, dropped)
        if preserving is not None:
            if diagnostic.fix is not None:
                self.other_fixes[diagnostic.code, diagnostic.path] = diagnostic.fix
            return preserving
        if diagnostic.fix is not None and (diagnostic.fix.safe or diagnostic.code == REMOVED_KEY):
            return diagnostic.fix
        if diagnostic.code == REMOVED_KEY:
            return Fix(f"remove `{diagnostic.path[-1]}`", (RemoveKey(diagnostic.path),))
        return None


def fix_only_removes(diagnostic: Diagnostic) -> bool:
    """Return whether a diagnostic's fix only removes keys or text."""
    return diagnostic.fix is not None and all(
        isinstance(step, RemoveKey) for step in diagnostic.fix.operations
    )


# Changes that a migration makes, and decisions that it leaves to the user.

Kind: TypeAlias = Literal["changed", "removed"]
Matter: TypeAlias = Literal["refused", "batch", "lost", "other value", "new effect", "warning", "default"]
MATTERS: tuple[Matter, ...] = ("refused", "batch", "lost", "other value", "new effect", "warning", "default")
"""Kinds of decisions in the recommended order: blockers of the job's start first, then the largest changes."""


@dataclass(frozen=True, slots=True)
class MigrationChange:
    """One change made by a migration: the line in the original file, what changes, and why."""

    kind: Kind
    path: KeyPath
    line: int | None
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class DecisionChoice:
    """A choice in a decision, and its consequence; a choice without operations requires no edit."""

    what: str
    consequence: str = ""
    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True, slots=True)
class MigrationDecision:
    """A decision that only the user can make.

    `line` is a line of the new text, or of the original file if the key was removed or nothing was changed.
    """

    kind: Matter
    path: KeyPath
    line: int | None
    why: str
    choices: tuple[DecisionChoice, ...]
    is_removed: bool = False
    """Whether the key that the decision is about exists only in the original file."""

    @property
    def urgency(self) -> tuple[int, int]:
        """Sort key that puts decisions into the recommended order."""
        return MATTERS.index(self.kind), self.line or 0


# The meaning of a config in the release that it was written for, which every change must preserve.


class ConfigMeaning:
    """The meaning of a config, given by its effective values in one release."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.release = context.release_name
        self.converted = converted_values(context)
        self.ignored_keys = {event.path for event in context.walk.unknown if event.section.unknown != "kept"}

    def fix_preserving_meaning(
        self, diagnostic: Diagnostic, data: JsonObject, dropped: set[KeyPath]
    ) -> Fix | None:
        """Return a fix that writes the value the old release used, or drops a key it ignored.

        `data` is the current config, `dropped` the keys already dropped from it for other diagnostics.
        """
        for path in (diagnostic.path, *(each.path for each in diagnostic.related)):
            if (unread := self.outermost_ignored_key(path)) is None or unread in dropped:
                continue
            if self._is_untouched(unread, data):
                dropped.add(unread)
                return Fix(f"remove `{unread[-1]}`, which {self.release} does not read", (RemoveKey(unread),))
        for length in range(len(diagnostic.path), 0, -1):
            path = diagnostic.path[:length]
            if path in self.converted and self._is_untouched(path, data):
                value = self.converted[path]
                return Fix(
                    f"write {quote_value(value)}, as {self.release} reads it", (SetValue(path, value),)
                )
        return None

    def outermost_ignored_key(self, path: KeyPath) -> KeyPath | None:
        """Return the outermost key of `path` that the release ignores, or None if it reads all of it."""
        prefixes = (path[:length] for length in range(1, len(path) + 1))
        return next((prefix for prefix in prefixes if prefix in self.ignored_keys), None)

    def is_effective(self, path: KeyPath) -> bool:
        """Return whether the release reads a key and its value enables something."""
        if self.outermost_ignored_key(path) is not None:
            return False
        value = value_or_missing(self.context.data, path)
        is_disabled = isinstance(value, dict) and value.get("enabled") is False
        return not (value in (MISSING, None, False) or value in ({}, []) or is_disabled)

    def _is_untouched(self, path: KeyPath, data: JsonObject) -> bool:
        original = value_or_missing(self.context.data, path)
        return original is not MISSING and are_equal_for_parsers(value_or_missing(data, path), original)

    @cached_property
    def effective_values(self) -> dict[KeyPath, tuple[KeyPath, Json]]:
        """The effective value of each leaf by canonical path, with the path where it is written."""
        return {path: (written, value) for path, written, value in _leaf_values(self.context, self.converted)}


def converted_values(context: Context) -> dict[KeyPath, Json]:
    """Return the values after the release's conversions, by path, without "auto" values."""
    return {
        event.path: event.verdict.value
        for event in context.walk.coerced
        if isinstance(event.verdict, CoercedValue) and event.value != "auto"
    }


def value_or_missing(data: Json, path: KeyPath) -> Json:
    """Return the value at `path`, or MISSING if it does not exist."""
    for part in path:
        if isinstance(data, dict):
            data = data.get(part, MISSING)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return MISSING
    return data


def _leaf_values(context: Context, read: dict[KeyPath, Json]) -> Iterator[tuple[KeyPath, KeyPath, Json]]:
    aliases = context.walk.aliases
    todo: list[tuple[KeyPath, KeyPath, Json]] = [((), (), context.walk.values)]
    while todo:
        path, written, value = todo.pop()
        if isinstance(value, dict):
            for key_name, child in value.items():
                child_path = (*path, key_name)
                todo.append((child_path, aliases.get(child_path, (*written, key_name)), child))
        else:
            yield path, written, read.get(written, value)


# An `elasticity` block in a migration to a release that rejects it: it is removed and replaced by its batch.
#
# The block is never thrown away: the caller writes the config with the block to another file, or keeps it for
# `dsconfig elastic`, which removes it itself.

KEY = "elasticity"
BATCH_KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
Solve: TypeAlias = Callable[["JsonObject"], Mapping[str, int]]
"""Function that returns the batch keys a release derives from a config with an `elasticity` block.

Raises ValueError if no batch satisfies the block.
"""


class ElasticityHandover(NamedTuple):
    """An `elasticity` block that the later release rejects, and its replacement batch (empty if unknown)."""

    block: JsonObject
    is_enabled: bool
    batch: Mapping[str, int]

    def replace_block_by_batch(self, document: Document, batch: Mapping[str, int] | None = None) -> Document:
        """Return the document with the `elasticity` block replaced by its batch keys.

        Raises:
            EditError: the batch keys cannot be inserted into the text.
        """
        values = self.batch if batch is None else batch
        operations: list[Operation] = [SetValue((key,), value) for key, value in values.items()]
        return apply_operations(document, (*operations, RemoveKey((KEY,))))

    def remove_block(self, document: Document) -> Document:
        """Return the document without the `elasticity` block, to check the rest of it."""
        data = document.value()
        needs_batch = (
            self.is_enabled and isinstance(data, dict) and not any(key in data for key in BATCH_KEYS)
        )
        return self.replace_block_by_batch(
            document, {BATCH_KEYS[1]: 1} if needs_batch and not self.batch else None
        )


def plan_elasticity_handover(
    data: JsonObject, origin: str, to: str, solve: Solve | None
) -> ElasticityHandover | None:
    """Plan how to replace the `elasticity` block; return None if it has no effect or may stay.

    Raises:
        ValueError: `solve` finds no batch for the block.
    """
    block: Json = data.get(KEY)
    info = keys_of_section_class(ROOT)[KEY]
    if NUMBERS[to] < info.refused_from or not isinstance(block, dict) or not block.keys() - {"enabled"}:
        return None
    is_enabled = bool(block.get("enabled")) and info.is_read_in(NUMBERS[origin])
    return ElasticityHandover(block, is_enabled, solve(data) if is_enabled and solve is not None else {})


def decisions_about_elasticity(
    handed_over: ElasticityHandover | None, origin: str, to: str, *, keep: bool
) -> Iterator[MigrationDecision]:
    """Yield the decision about an `elasticity` block and its batch, if it is replaced."""
    if handed_over is None or not handed_over.is_enabled:
        return
    if keep:
        run = DecisionChoice(
            "start it with `dsconfig elastic run`", "which removes `elasticity` and writes the batch"
        )
        problem = f"stays, although {to} itself rejects a config with it"
        yield MigrationDecision("batch", (KEY,), None, problem, (run,))
        return
    problem = f"is handed over because {to} rejects it: the job is no longer elastic"
    stay = DecisionChoice("start the handed-over config with `dsconfig elastic run`", "the job stays elastic")
    batch_keys = [f"`{key}` {value}" for key, value in handed_over.batch.items()]
    if batch_keys:
        consequence = f"{', '.join(batch_keys)}, as {origin} uses on these ranks"
        yield MigrationDecision(
            "batch",
            (KEY,),
            None,
            problem,
            (DecisionChoice("train with the batch as written", consequence), stay),
        )
        return
    pass_world_size = DecisionChoice("pass --world-size N", f"writes the batch that {origin} uses on N ranks")
    keep_keys = DecisionChoice(
        "leave the batch keys as they are", f"{origin} ignored them, and they take effect now"
    )
    yield MigrationDecision("batch", (KEY,), None, problem, (pass_world_size, stay, keep_keys))
