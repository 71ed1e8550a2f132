"""Migration plan: differences between two releases, and the changes that preserve the meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from dsconfig.check.check import check_document
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import Diagnostic, Effect, Fix, Operation, Remove, Set
from dsconfig.core.releases import NUMBERS, Target
from dsconfig.core.wording import quoted
from dsconfig.document import Document
from dsconfig.document.edit import edited, same
from dsconfig.evaluation.coercion import Coerced
from dsconfig.evaluation.context import MISSING, Context, Source
from dsconfig.model.keyinfo import ROOT, section_keys

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath


# From one release to another: what must change on the way, and what the way does about it.

REMOVED_KEY = "DSC104"
"""The rule of keys that earlier releases read: its fixes say the same as today's keys do, or only remove."""


@dataclass(slots=True)
class Transition:
    """The way of a config from the release that it was written for to a later one."""

    document: Document
    origin: str
    to: str
    world_size: int | None
    consumer: str
    handover: Handover | None = None
    meant: Meaning = field(init=False)
    """What the file means to the release that it was written for."""
    offered: dict[tuple[str, KeyPath], Fix] = field(default_factory=dict)
    """What `check` offers for findings that the way deals with otherwise."""
    reports: dict[tuple[str, str], Report] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.meant = Meaning(self.context(self.document, self.origin))

    def report(self, document: Document, release: str) -> Report:
        """What `check` says at this release; several parts of a migration ask it of the same text."""
        key = (document.text, release)
        if key not in self.reports:
            target = Target((release,), release, "argument")
            report = check_document(document, target, world_size=self.world_size, consumer=self.consumer)
            self.reports[key] = report
        return self.reports[key]

    def context(self, document: Document, release: str) -> Context:
        """The document in the eyes of this release."""
        return Context(Source(document, self.consumer, self.world_size), NUMBERS[release])

    def judge(self, document: Document) -> Report:
        """What must change, each finding with what the way does about it, if it knows.

        An `elasticity` block that is handed over is looked past.
        """
        if self.handover is not None:
            document = self.handover.looked_past(document)
        report = self.report(document, self.to)
        silenced = [found for found in report.suppressed if found.severity == "error"]
        context = self.context(document, self.to)
        gone: set[KeyPath] = set()
        must = (self._must(found, context, gone) for found in (*report.diagnostics, *silenced))
        return report.replaced(diagnostics=tuple(each for each in must if each), suppressed=())

    def _must(self, found: Diagnostic, new: Context, gone: set[KeyPath]) -> Diagnostic | None:
        """The finding with its remedy; None where the file may stay as it is."""
        if found.severity == "error":
            return found._replace(fix=self._remedy(found, new, gone))
        if found.code == REMOVED_KEY and found.fix is not None:
            read = self.meant.ignored(found.path) is None
            return found if read and not only_removes(found) else None
        if found.effect is Effect.ALTERED and found.path in self.meant.read:
            later = new.once(readings).get(found.path)
            if not same(later, self.meant.read[found.path]):
                return found._replace(fix=self.meant.fix(found, new.data, gone))
        return None

    def _remedy(self, found: Diagnostic, new: Context, gone: set[KeyPath]) -> Fix | None:
        """What keeps the meaning; else, of a key that the release has no place for, taking it out."""
        kept = self.meant.fix(found, new.data, gone)
        if kept is not None:
            if found.fix is not None:
                self.offered[found.code, found.path] = found.fix
            return kept
        if found.fix is not None and (found.fix.safe or found.code == REMOVED_KEY):
            return found.fix
        if found.code == REMOVED_KEY:
            return Fix(f"remove `{found.path[-1]}`", (Remove(found.path),))
        return None


def only_removes(found: Diagnostic) -> bool:
    """Whether the finding's fix only takes something out."""
    return found.fix is not None and all(isinstance(step, Remove) for step in found.fix.operations)


# What a migration does to a config, and what it leaves to a person, with the choices that there are.

Kind: TypeAlias = Literal["changed", "removed"]
Matter: TypeAlias = Literal["refused", "batch", "lost", "other value", "new effect", "warning", "default"]
MATTERS: tuple[Matter, ...] = ("refused", "batch", "lost", "other value", "new effect", "warning", "default")
"""What there may be to decide, in the order in which it is best worked off: what keeps the job from starting,
then what changes it most.
"""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was done: where, in which line of the file as it was, what, and why."""

    kind: Kind
    path: KeyPath
    line: int | None
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to decide, and what it means. Without operations there is nothing to edit for it."""

    what: str
    means: str = ""
    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """One thing that only a person can decide.

    The line is that of the text as it comes out; where a key is gone, or nothing was changed, of the file.
    """

    matter: Matter
    path: KeyPath
    line: int | None
    why: str
    choices: tuple[Choice, ...]
    gone: bool = False
    """Whether the key stands in the file only."""

    @property
    def urgency(self) -> tuple[int, int]:
        """A sort key: the order in which decisions are worked off."""
        return MATTERS.index(self.matter), self.line or 0


# What a config means to the release that it was written for: the measure of every change to it.


class Meaning:
    """What a release makes of the values."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.release = context.release_name
        self.read = readings(context)
        self.unread = {event.path for event in context.walk.unknown if event.section.unknown != "kept"}

    def fix(self, found: Diagnostic, data: JsonObject, gone: set[KeyPath]) -> Fix | None:
        """Write what the old release read; drop what it did not read.

        `data` is the config as it stands, `gone` what is dropped from it for another finding already.
        """
        for path in (found.path, *(each.path for each in found.related)):
            if (unread := self.ignored(path)) is None or unread in gone:
                continue
            if self._untouched(unread, data):
                gone.add(unread)
                return Fix(f"remove `{unread[-1]}`, which {self.release} does not read", (Remove(unread),))
        for length in range(len(found.path), 0, -1):
            path = found.path[:length]
            if path in self.read and self._untouched(path, data):
                value = self.read[path]
                return Fix(f"write {quoted(value)}, as {self.release} reads it", (Set(path, value),))
        return None

    def ignored(self, path: KeyPath) -> KeyPath | None:
        """The outermost key on the way that the release does not read; None where it reads the whole path."""
        ways = (path[:length] for length in range(1, len(path) + 1))
        return next((way for way in ways if way in self.unread), None)

    def effective(self, path: KeyPath) -> bool:
        """Whether the release reads the key, and the key switches something on."""
        if self.ignored(path) is not None:
            return False
        value = at(self.context.data, path)
        off = isinstance(value, dict) and value.get("enabled") is False
        return not (value in (MISSING, None, False) or value in ({}, []) or off)

    def _untouched(self, path: KeyPath, data: JsonObject) -> bool:
        written = at(self.context.data, path)
        return written is not MISSING and same(at(data, path), written)

    @cached_property
    def values(self) -> dict[KeyPath, tuple[KeyPath, Json]]:
        """What the release ends up with and where it is written, by canonical paths to the leaves."""
        return {path: (written, value) for path, written, value in _leaves(self.context, self.read)}


def readings(context: Context) -> dict[KeyPath, Json]:
    """What the release reads where something else is written; never in place of "auto"."""
    return {
        event.path: event.verdict.value
        for event in context.walk.coerced
        if isinstance(event.verdict, Coerced) and event.value != "auto"
    }


def at(data: Json, path: KeyPath) -> Json:
    """What stands at a path; MISSING where nothing does."""
    for part in path:
        if isinstance(data, dict):
            data = data.get(part, MISSING)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return MISSING
    return data


def _leaves(context: Context, read: dict[KeyPath, Json]) -> Iterator[tuple[KeyPath, KeyPath, Json]]:
    spelled = context.walk.spelled
    todo: list[tuple[KeyPath, KeyPath, Json]] = [((), (), context.walk.values)]
    while todo:
        path, written, value = todo.pop()
        if isinstance(value, dict):
            for word, inner in value.items():
                here = (*path, word)
                todo.append((here, spelled.get(here, (*written, word)), inner))
        else:
            yield path, written, read.get(written, value)


# An `elasticity` block on its way to a release that refuses it: taken out, with its batch in its place.
#
# The block is never thrown away: the caller writes the config that still has it to another file, or keeps
# it for `dsconfig elastic`, which takes the block out by itself.

KEY = "elasticity"
BATCH_KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
Solve: TypeAlias = Callable[["JsonObject"], Mapping[str, int]]
"""The batch keys that a release derives from a config with a block; raises ValueError for lack of one."""


class Handover(NamedTuple):
    """A block that the later release refuses, and what it leads to; an empty `batch` is not known."""

    block: JsonObject
    on: bool
    batch: Mapping[str, int]

    def carried_out(self, document: Document, batch: Mapping[str, int] | None = None) -> Document:
        """The document without the block, and with its batch.

        Raises:
            EditError: the text gives no place for it.
        """
        values = self.batch if batch is None else batch
        operations: list[Operation] = [Set((key,), value) for key, value in values.items()]
        return edited(document, (*operations, Remove((KEY,))))

    def looked_past(self, document: Document) -> Document:
        """The document without the block, for a release to judge the rest of it."""
        data = document.value()
        bare = self.on and isinstance(data, dict) and not any(key in data for key in BATCH_KEYS)
        return self.carried_out(document, {BATCH_KEYS[1]: 1} if bare and not self.batch else None)


def handover(data: JsonObject, origin: str, to: str, solve: Solve | None) -> Handover | None:
    """How the config's block is handed over; None where there is none, or it says nothing, or may stay.

    Raises:
        ValueError: the block has no batch, as `solve` says.
    """
    block: Json = data.get(KEY)
    info = section_keys(ROOT)[KEY]
    if NUMBERS[to] < info.refused_from or not isinstance(block, dict) or not block.keys() - {"enabled"}:
        return None
    on = bool(block.get("enabled")) and info.read_in(NUMBERS[origin])
    return Handover(block, on, solve(data) if on and solve is not None else {})


def about_block(handed: Handover | None, origin: str, to: str, *, keep: bool) -> Iterator[Decision]:
    """What is to decide about a block, and the batch that came from it."""
    if handed is None or not handed.on:
        return
    if keep:
        run = Choice(
            "start it with `dsconfig elastic run`", "which takes the block out and writes the batch in"
        )
        why = f"stays, though {to} itself refuses a config that has it"
        yield Decision("batch", (KEY,), None, why, (run,))
        return
    why = f"is handed over, since {to} refuses it: the job is no longer elastic"
    stay = Choice("start the handed-over config with `dsconfig elastic run`", "the job stays elastic")
    fixed = [f"`{key}` {value}" for key, value in handed.batch.items()]
    if fixed:
        means = f"{', '.join(fixed)}, as {origin} has it on these ranks"
        yield Decision("batch", (KEY,), None, why, (Choice("train with the batch as written", means), stay))
        return
    give = Choice("give --world-size N", f"the batch that {origin} takes on N ranks is written in")
    leave = Choice(
        "leave the batch keys as they are", f"{origin} passed over them, and they count from now on"
    )
    yield Decision("batch", (KEY,), None, why, (give, stay, leave))
