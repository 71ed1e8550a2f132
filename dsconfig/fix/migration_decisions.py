"""Decisions that a migration leaves to a person, with choices that were tried and their messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import (
    Diagnostic,
    Effect,
    Operation,
    Remove,
    Rename,
    Set,
    dotted,
    truncate_middle,
)
from dsconfig.core.releases import NUMBERS, RELEASES
from dsconfig.core.wording import one_of, quoted
from dsconfig.document.document import location_of
from dsconfig.document.edit import carried_out, edited, same
from dsconfig.document.text_edit import EditError
from dsconfig.evaluation.context import MISSING, Context
from dsconfig.fix.migration_plan import Choice, Decision, Matter, Meaning, Transition, at, only_removes
from dsconfig.fix.verify import affordable
from dsconfig.model.keyinfo import ROOT, child_section, find, is_secret, view

if TYPE_CHECKING:
    from dsconfig.check.report import Report
    from dsconfig.core.json_types import Json, JsonObject, KeyPath
    from dsconfig.document import Document


# What a migration leaves to a person: everything by which the job would not be what it was.

_LONGEST = 400
"""Characters of a key that are shown."""


def line_of(document: Document, path: KeyPath) -> int | None:
    """The line of a key, or of its nearest parent that the text has."""
    found = location_of(document, path, "key")
    return found.line if found else None


class Decisions:
    """What is to decide about a text that a migration came to."""

    def __init__(
        self, way: Transition, seen: Document, shown: Document, applied: Sequence[Diagnostic]
    ) -> None:
        """`seen` is what the later release is asked about, `shown` what lines are counted in."""
        self.way, self.document, self.applied = way, shown, applied
        self.trial = Trial(way, seen)
        self.after = Meaning(way.context(seen, way.to))
        self.new: Context = self.after.context
        batch = way.handover.batch if way.handover else {}
        self.spoken_of: set[KeyPath] = {(key,) for key in batch}

    def __iter__(self) -> Iterator[Decision]:
        found = [
            *self._lost(),
            *self._ignored_now(),
            *self._counting(),
            *self._other_values(),
            *self._warnings(),
        ]
        yield from sorted(found, key=lambda each: each.urgency)
        yield from self._defaults()

    # What was taken out ---------------------------------------------------------------------------

    def _lost(self) -> Iterator[Decision]:
        for found in self.applied:
            if not only_removes(found) or found.fix is None:
                continue
            for step in found.fix.operations:
                if not isinstance(step, Remove):
                    continue
                self.spoken_of.add(step.path)
                if self.way.meant.effective(step.path):
                    yield self._missed(found, step.path)
                else:
                    yield from self._meant_otherwise(found, step.path)

    def _missed(self, found: Diagnostic, path: KeyPath) -> Decision:
        """A key that did something, and for which the later release has no place."""
        origin, to = self.way.origin, self.way.to
        value = at(self.way.document.value(), path)
        choices = [Choice("leave it out", "the job goes on without it")]
        if found.help and not found.help.startswith("remove"):
            choices.append(Choice(found.help))
        last = last_reader(path, origin, to)
        if last is not None:
            choices.append(Choice(f"migrate to {last} instead", "it is the last release that reads it"))
        why = f"is gone: {origin} read it, and {to} refuses it; it was {said(path, value)}"
        return Decision("lost", path, line_of(self.way.document, path), why, tuple(choices), gone=True)

    def _meant_otherwise(self, found: Diagnostic, path: KeyPath) -> Iterator[Decision]:
        """A key that nobody read, and that was likely meant to say something."""
        fix = self.way.offered.get((found.code, found.path))
        value = at(self.way.document.value(), path)
        if self.new.key(dotted(path)) is not None:
            yield self._not_as_written(found, path)
            return
        if fix is None or not isinstance(fix.operations[0], Rename):
            return
        to = (*path[:-1], fix.operations[0].name)
        operations = (Set(to, value),)
        if path == found.path and at(self.new.data, to) is MISSING and self.trial.holds(operations):
            write = Choice(f"write `{to[-1]}`: {quoted(value)}", "if that was meant", operations)
            leave = Choice("leave it out", f"as {self.way.origin} did")
            why = f"is gone: {self.way.origin} never read it, and {self.way.to} refuses it"
            yield Decision("lost", path, line_of(self.way.document, path), why, (leave, write), gone=True)

    def _not_as_written(self, found: Diagnostic, path: KeyPath) -> Decision:
        """A key that only the later release reads, and not with this value."""
        origin, to = self.way.origin, self.way.to
        value = said(path, at(self.way.document.value(), path))
        why = f"is gone: {origin} never read it, and {to}, which would, does not take it; it was {value}"
        choices = (
            Choice("leave it out", f"as {origin} had it"),
            Choice(
                f"put it back as {to} reads it", f"{found.message}; see `dsconfig explain {_named(path)}`"
            ),
        )
        return Decision("lost", path, line_of(self.way.document, path), why, choices, gone=True)

    # What is read otherwise -----------------------------------------------------------------------

    def _ignored_now(self) -> Iterator[Decision]:
        """Keys that the old release read and the later one passes over."""
        for event in self.new.walk.unknown:
            path = event.path
            if event.section.unknown == "kept" or not self._as_it_was(path):
                continue
            if self.way.meant.effective(path):
                self.spoken_of.add(path)
                why = f"has no effect any more: {self.way.origin} reads it, {self.way.to} does not"
                yield self._keep_or_remove("lost", path, why, "it does nothing")

    def _read_now(self) -> Iterator[KeyPath]:
        """Keys that the old release passed over and the later one reads."""
        for path in sorted(self.way.meant.unread, key=str):
            if not self._as_it_was(path) or self.after.ignored(path) is not None:
                continue
            key = self.new.key(dotted(path))
            inner = key is not None and child_section(key.type) is not None
            if key is None or (not inner and same(at(self.new.data, path), key.default)):
                continue
            if not self.after.effective(path):
                continue
            yield path

    def _counting(self) -> Iterator[Decision]:
        paths = list(self._read_now())
        self.spoken_of.update(paths)
        for path in paths:
            why = f"counts from now on: {self.way.origin} does not read it, {self.way.to} does"
            yield self._keep_or_remove("new effect", path, why, "it counts", paths)

    def _keep_or_remove(
        self, matter: Matter, path: KeyPath, why: str, means: str, others: Sequence[KeyPath] = ()
    ) -> Decision:
        """`others`: what has to go along where this alone may not."""
        choices = [Choice("leave it as it is", means)]
        for paths in ((path,), tuple(others)):
            operations = tuple(map(Remove, paths))
            if paths and self.trial.holds(operations):
                what = "remove " + one_of((f"`{_named(each)}`" for each in paths), "and")
                choices.append(Choice(what, f"as {self.way.origin} has it", operations))
                break
        return Decision(matter, path, line_of(self.document, path), why, tuple(choices))

    def _as_it_was(self, path: KeyPath) -> bool:
        written = at(self.way.document.value(), path)
        return written is not MISSING and same(at(self.new.data, path), written)

    def _other_values(self) -> Iterator[Decision]:
        """Values that both releases read, each in its own way."""
        earlier, later = self.way.meant.values, self.after.values
        for path in earlier.keys() & later.keys():
            (_, old), (place, new) = earlier[path], later[path]
            if place not in self.spoken_of and _plain(old) and _plain(new) and not _alike(old, new):
                yield self._read_as(place, old, new)

    def _read_as(self, place: KeyPath, old: Json, new: Json) -> Decision:
        self.spoken_of.add(place)
        choices = [Choice("leave it as it is", f"it is {quoted(new)}")]
        operations = (Set(place, old),)
        if old != "auto" and self.trial.holds(operations):
            choices.append(Choice(f"write {quoted(old)}", f"as {self.way.origin} reads it", operations))
        why = f"is {quoted(old)} to {self.way.origin}, and {quoted(new)} to {self.way.to}"
        return Decision("other value", place, line_of(self.document, place), why, tuple(choices))

    # What `check` has to say that is new ----------------------------------------------------------

    def _warnings(self) -> Iterator[Decision]:
        before = self.way.report(self.way.document, self.way.origin)
        known = Counter(found.code for found in (*before.diagnostics, *before.suppressed))
        for found in self.trial.report:
            known[found.code] -= 1
            if known[found.code] >= 0 or found.effect not in (Effect.IGNORED, Effect.ALTERED):
                continue
            if not any(found.path[: len(path)] == path for path in self.spoken_of):
                yield self._warning(found)

    def _warning(self, found: Diagnostic) -> Decision:
        choices = [Choice("leave it as it is", "it stays as described")]
        operations: tuple[Operation, ...] = found.fix.operations if found.fix else ()
        if found.fix and self.trial.holds(operations, found.code):
            choices.append(Choice(found.fix.title, "", operations))
        elif found.help:
            choices.append(Choice(found.help))
        line = line_of(self.document, found.path)
        return Decision("warning", found.path, line, f"{found.message} ({found.code})", tuple(choices))

    # What is not written --------------------------------------------------------------------------

    def _defaults(self) -> Iterator[Decision]:
        for path, old, new in new_defaults(self.way.meant.context, self.new):
            operations = (Set(path, old),)
            asked = self.trial.left > 0
            kept = old is not None and self.trial.holds(operations)
            if asked and not kept:
                continue  # the key would say nothing here: what it defaults to is no matter
            why = (
                f"is not written, and its default is another: "
                f"{quoted(old)} in {self.way.origin}, {quoted(new)} in {self.way.to}"
            )
            choices = [Choice("leave it out", f"it becomes {quoted(new)}")]
            if kept:
                write = f"write `{path[-1]}`: {quoted(old)}"
                choices.append(Choice(write, f"as in {self.way.origin}", operations))
            line = line_of(self.document, path) if len(path) > 1 else None
            yield Decision("default", path, line, why, tuple(choices))


def _named(path: KeyPath) -> str:
    """A key in words: a long one without its middle."""
    return truncate_middle(dotted(path), _LONGEST)


def _plain(value: Json) -> bool:
    """Whether it is a value that JSON has: neither refused nor filled by the consumer."""
    return value is None or isinstance(value, (bool, int, float, str, list))


def _alike(old: Json, new: Json) -> bool:
    """Whether code that tests or calculates with them sees no difference: 1 counts as true."""
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_alike, old, new))
    return bool(old == new)


# Choices are tried before they are offered: the text that they lead to is judged.

MOST = 48
"""Texts that are judged for one migration at most; what is not judged is not offered."""


class Trial:
    """A text, the later release's report of it, and what becomes of them by one choice or another."""

    def __init__(self, way: Transition, document: Document) -> None:
        self.way, self.document = way, document
        self.report = way.report(document, way.to)
        self.left = min(MOST, affordable(document))

    def holds(self, operations: Sequence[Operation], gone: str | None = None) -> bool:
        """Whether the release takes the text that the operations make, and finds no more in it than now.

        `gone`: the code of a finding that must come to an end by it.
        """
        report = self._report(operations)
        if report is None or not report.ok:
            return False
        before, after = _counted(self.report), _counted(report)
        return not after - before and (gone is None or after[gone] < before[gone])

    def _report(self, operations: Sequence[Operation]) -> Report | None:
        if self.left == 0:
            return None
        self.left -= 1
        try:
            value = carried_out(self.document.value(), operations)
            new = edited(self.document, operations)
        except (EditError, KeyError, IndexError, TypeError, AttributeError):
            return None
        return self.way.report(new, self.way.to) if same(new.value(), value) else None


def _counted(report: Report) -> Counter[str]:
    found = (*report.diagnostics, *report.suppressed)
    return Counter(each.code for each in found if each.severity != "info")


# How a migration speaks of a key's value, and of the release that read it last.

_LONGEST_MESSAGE = 2000


def said(path: KeyPath, value: Json) -> str:
    """A value that is written nowhere any more, in full; but never a secret."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if is_secret(str(path[-1]), text if isinstance(value, dict | list) else ""):
        return "a value that may be secret, and is not shown"
    return f"`{text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + '…'}`"


def last_reader(path: KeyPath, origin: str, to: str) -> str | None:
    """The last release before `to` that reads the key; None where it is `origin` itself, or not known."""
    place = dotted(path)
    between = [each for each in RELEASES if NUMBERS[origin] < NUMBERS[each] < NUMBERS[to]]
    return next((each for each in reversed(between) if find(place, NUMBERS[each])[0] is not None), None)


# What changes by itself from one release to another: defaults of keys that are not written.


def new_defaults(old: Context, new: Context) -> Iterator[tuple[KeyPath, Json, Json]]:
    """Keys that are not written, in sections that are, with the default that was and the one that is."""
    todo: list[tuple[str, JsonObject, KeyPath]] = [(ROOT, new.data, ())]
    while todo:
        section, data, path = todo.pop(0)
        before, after = view(section, old.release).keys, view(section, new.release).keys
        for word, key in before.items():
            here = (*path, word)
            inner = child_section(key.type)
            if inner is not None and isinstance(data.get(word), dict):
                todo.append((inner, data[word], here))
            later = after.get(word)
            if word != key.info.name or later is None or inner is not None or word in data:
                continue
            if "unread" in key.info.flags or same(key.default, later.default):
                continue
            if not path and word in new.overwritten:
                continue
            if not any(alias in data for alias, seen in before.items() if seen.info is key.info):
                yield here, key.default, later.default
