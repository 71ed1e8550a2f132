"""`migrate`: a config that meant something to one release, made to mean the same to a later one.

What the old release made of a value is written out; what has a new name gets it; what the new release has no
place for is dropped; and what nobody can decide but a person is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dsconfig.checking.check import check_document
from dsconfig.checking.compat import compat, newest_taking
from dsconfig.checking.patches import same
from dsconfig.checking.report import Report
from dsconfig.diagnostic import Diagnostic, Effect, Fix, Remove, Set, dotted
from dsconfig.dialect import Coerced
from dsconfig.document import Document
from dsconfig.evaluation.context import Context, Source
from dsconfig.fixing.fix import mend
from dsconfig.model.keyinfo import ROOT, child_section, view
from dsconfig.releases import NUMBERS, RELEASES, Target
from dsconfig.words import quoted

if TYPE_CHECKING:
    from dsconfig.json_types import KeyPath


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was done or is left to do: where, what, and why."""

    path: KeyPath
    what: str
    why: str


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
    """Take a config from the release `origin`, by default the newest before `to` that takes it, to `to`.

    Raises:
        ValueError: `origin` is not earlier than `to`.
    """
    if origin is None:
        origin = _newest_before(document, to, world_size, consumer)
    elif NUMBERS[origin] >= NUMBERS[to]:
        raise ValueError(
            f"{origin} is not earlier than {to}: a config is taken from an old release to a new one"
        )
    way = _Way(origin, to, world_size, consumer)
    mended = mend(document, way.judge, unsafe=True)
    before = way.context(document, origin) if origin else None
    rewritten: list[Change] = []
    dropped: list[Change] = []
    left: list[Change] = []
    for found in mended.applied:
        assert found.fix is not None
        gone = all(isinstance(step, Remove) for step in found.fix.operations)
        (dropped if gone else rewritten).append(Change(found.path, found.fix.title, _why(found)))
        if gone and before is not None and _had_effect(before, found.path):
            what = "decide what takes its place" + (f": {found.help}" if found.help else "")
            left.append(Change(found.path, what, f"it had an effect in {origin}"))
    left += [
        Change(found.path, found.help or "change it", _why(found))
        for found in mended.report
        if found.severity != "info"
    ]
    if before is not None:
        left += _new_defaults(before, way.context(document, to))
    return Migration(mended.text, origin, to, tuple(rewritten), tuple(dropped), tuple(left))


def _newest_before(document: Document, to: str, world_size: int | None, consumer: str) -> str | None:
    earlier = tuple(release for release in RELEASES if NUMBERS[release] < NUMBERS[to])
    if not earlier:
        return None
    target = Target(earlier, f"<{to}", "argument")
    return newest_taking(compat(document, target, world_size=world_size, consumer=consumer))


def _why(found: Diagnostic) -> str:
    return f"{found.code} {found.message}"


class _Way:
    """From one release to another."""

    def __init__(self, origin: str | None, to: str, world_size: int | None, consumer: str) -> None:
        self.origin, self.to, self.world_size, self.consumer = origin, to, world_size, consumer

    def report(self, document: Document, release: str) -> Report:
        target = Target((release,), release, "argument")
        return check_document(document, target, world_size=self.world_size, consumer=self.consumer)

    def context(self, document: Document, release: str) -> Context:
        return Context(Source(document, self.consumer, self.world_size), NUMBERS[release])

    def judge(self, document: Document) -> Report:
        """What stops the later release, or is new in it, each finding with what the way does about it."""
        report = self.report(document, self.to)
        if self.origin is None:
            return report
        known = {
            _identity(found)
            for found in self.report(document, self.origin)
            if found.effect is not Effect.DEPRECATED
        }
        meant = _Meaning(self.context(document, self.origin))
        new = self.context(document, self.to)
        found = [
            replace(each, fix=meant.fix(each) or each.fix)
            for each in report.diagnostics
            if _identity(each) not in known or each.severity == "error" or meant.differs(each, new)
        ]
        return replace(report, diagnostics=tuple(found))


def _identity(found: Diagnostic) -> tuple[str, KeyPath, str]:
    return found.code, found.path, found.effect.value


class _Meaning:
    """What the old release makes of the values."""

    def __init__(self, context: Context) -> None:
        self.release = context.release_name
        self.read = {
            event.path: event.verdict.value
            for event in context.walk.coerced
            if isinstance(event.verdict, Coerced)
        }
        self.unread = {event.path for event in context.walk.unknown}

    def fix(self, found: Diagnostic) -> Fix | None:
        """Write what the old release read; drop what it did not read."""
        for length in range(len(found.path), 0, -1):
            path = found.path[:length]
            if path in self.read:
                value = self.read[path]
                return Fix(f"write {quoted(value)}, as {self.release} reads it", (Set(path, value),))
            if path in self.unread:
                return Fix(f"drop `{path[-1]}`, which {self.release} does not read", (Remove(path),))
        return None

    def differs(self, found: Diagnostic, new: Context) -> bool:
        """Whether both releases turn the value into another one, and not into the same."""
        if found.path not in self.read:
            return False
        later = [
            event.verdict.value
            for event in new.walk.coerced
            if event.path == found.path and isinstance(event.verdict, Coerced)
        ]
        return bool(later) and not same(later[0], self.read[found.path])


def _had_effect(context: Context, path: KeyPath) -> bool:
    """Whether the old release reads the key, and the key switches something on."""
    if any(event.path == path[: len(event.path)] for event in context.walk.unknown):
        return False
    value: Any = context.data
    for part in path:
        value = value.get(part) if isinstance(value, dict) else value[int(part)]
    return not (value in (None, False) or (isinstance(value, dict) and value.get("enabled") is False))


def _new_defaults(old: Context, new: Context) -> Iterator[Change]:
    """Keys that are not written, in sections that are, and that now default to something else."""
    todo: list[tuple[str, dict[str, Any], KeyPath]] = [(ROOT, old.data, ())]
    while todo:
        section, data, path = todo.pop(0)
        before, after = view(section, old.release).keys, view(section, new.release).keys
        for word, key in before.items():
            inner = child_section(key.type)
            if inner is not None and isinstance(data.get(word), dict):
                todo.append((inner, data[word], (*path, word)))
            later = after.get(word)
            if word != key.info.name or later is None or inner is not None or word in data:
                continue
            if "unread" in key.info.flags or same(key.default, later.default):
                continue
            if not any(alias in data for alias, seen in before.items() if seen.info is key.info):
                yield Change(
                    (*path, word),
                    f"set it to {quoted(key.default)} to keep what it was",
                    f"`{dotted((*path, word))}` is not set: its default was {quoted(key.default)} in "
                    f"{old.release_name} and is {quoted(later.default)} in {new.release_name}",
                )
