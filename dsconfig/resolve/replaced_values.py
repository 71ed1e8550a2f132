"""Which written values do not count, what counts in their place, and where that comes from."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from dsconfig.consumers.registry import consumer_of
from dsconfig.core.batch_triplet import KEYS
from dsconfig.core.diagnostic import Effect
from dsconfig.core.json_values import at, copied
from dsconfig.document import read_dict
from dsconfig.evaluation.context import Context, SkipRule, Source
from dsconfig.evaluation.walk_events import Coercion, Refusal
from dsconfig.launch.program_writes import overwrite_of
from dsconfig.model.keyinfo import KeyView, SectionView, secrets
from dsconfig.resolve.blocking_findings import report_on
from dsconfig.resolve.derived import derivations
from dsconfig.resolve.derived.derivation import given
from dsconfig.resolve.run import Run

if TYPE_CHECKING:
    from dsconfig.consumers.autofill.filling import Filling
    from dsconfig.core.json_types import Json, JsonObject, KeyPath

ValueOrigin: TypeAlias = Literal[
    "written", "converted", "default", "dropped", "derived", "filled", "ignored", "refused"
]
_Path: TypeAlias = tuple[str, ...]


class Value(NamedTuple):
    """One key: what counts, and why."""

    key: str
    value: Json
    origin: ValueOrigin
    note: str
    """The origin in words: `line 3`, `default of 0.19.8`."""


class Origins:
    """The origins of one config's values: as written (None), filled on any number of ranks, or in a run."""

    def __init__(
        self,
        written: Context,
        made: Run | Filling | None,
        place: Callable[[_Path], str],
        formula: str | None = None,
    ) -> None:
        """`formula`: the batch in the number of GPUs, where nobody knows that; see `batch_formula`."""
        run = made if isinstance(made, Run) else None
        self.written, self.resolved, self.release = written, run, written.release_name
        self.place = place
        self.of_ranks, _, self.formula = (formula or "").partition(" = ")
        self.data: JsonObject = copied(made.config if made else written.data)
        if run is not None:
            self.data |= dict(zip(KEYS, run.triplet, strict=True))
        self.reader = "deepspeed" if run else written.consumer
        self.seen = Context(Source(read_dict(self.data), self.reader, None), written.release)
        walk = self.seen.walk
        judged: list[Coercion | Refusal] = [*walk.coerced, *walk.refused]
        self.verdicts = {entry.path: entry for entry in judged}
        self.dropped = {event.path for event in walk.autos if event.section.drops_auto}
        self.filled = {filled.key: filled.origin for filled in made.filled} if made else {}
        self.unknown = made.unknown if made else None
        self.derivations = derivations(self.seen)
        self._led_to = {
            ".".join(key.split(".")[:length])
            for key, entry in self.derivations.items()
            if any(given(self.seen, other) for other in entry.of)
            for length in range(1, key.count(".") + 1)
        }
        self._refused: list[KeyPath] | None = None

    def leads_to(self, path: _Path) -> bool:
        """Whether something that is written may give a value to what is below this section."""
        return ".".join(path) in self._led_to

    def of_key(self, key: KeyView, value: Json, path: _Path) -> Value:
        """A key that the release reads."""
        dotted, place = ".".join(path), self.place(path)
        found = overwrite_of(self.written.document.name, dotted, self.written.data)
        if found is not None and value == at(self.written.data, dotted):
            return _value(dotted, value, "written", f"{place}, before {found.place} writes it")
        filled = next((name for name in self.filled if f"{dotted}.".startswith(f"{name}.")), None)
        if filled is not None:
            note = f"filled by {self.written.consumer} from {self.filled[filled]}"
            return self._derived(_value(dotted, value, "filled", note), key)
        if dotted in KEYS and self.resolved is not None and value != self.written.data.get(dotted):
            return _value(dotted, value, "derived", f"derived for {self.resolved.world_size} ranks")
        if value == "auto" and isinstance(value, str):
            return self._of_auto(key, path)
        return self._derived(self._as_written(dotted, value, path, place), key)

    def _as_written(self, dotted: str, value: Json, path: _Path, place: str) -> Value:
        entry = self.verdicts.get(path)
        if entry is None:
            return _value(dotted, value, "written", place)
        by_hand = entry.section.dialect == "hand"
        if isinstance(entry, Refusal):
            if by_hand and not self._rejected(path):
                return _value(dotted, value, "written", place)
            return _value(dotted, value, "refused", f"{place}, refused by {self.release}")
        became = entry.verdict.value
        if by_hand:  # what is written is what the code goes on with
            return _value(dotted, value, "written", f"{place}, which counts as {_word(became)}")
        return _value(dotted, became, "converted", f"{place}, from {value!r}")

    def _rejected(self, path: _Path) -> bool:
        """Whether `check` finds that the release refuses what stands there."""
        if self._refused is None:
            report = report_on(self.seen.document, self.release, self.reader)
            self._refused = [found.path for found in report if found.effect is Effect.REJECTED]
        return any(found[: len(path)] == path for found in self._refused)

    def _derived(self, found: Value, key: KeyView) -> Value:
        """The value that DeepSpeed makes of it, where it makes one."""
        entry = self.derivations.get(".".join((*found.key.split(".")[:-1], key.info.name)))
        if entry is None or found.origin == "refused":
            return found
        try:
            value = entry.find(self.seen, found.value)
        except SkipRule:
            return found
        if value == found.value and type(value) is type(found.value):
            return found
        if entry.why is not None and found.origin != "default":
            return found._replace(value=value, origin="derived", note=f"{found.note}, {entry.why}")
        origins = [other for other in entry.of if given(self.seen, other)]
        if origins:
            note = f"derived from `{'`, `'.join(origins)}`"
            return found._replace(value=value, origin="derived", note=note)
        if found.origin in ("default", "dropped"):
            return found._replace(value=value)
        return found._replace(value=value, origin="converted", note=f"{found.note}, from {found.value!r}")

    def _of_auto(self, key: KeyView, path: _Path) -> Value:
        dotted, place = ".".join(path), self.place(path)
        consumer = self.written.consumer
        origin = consumer_of(consumer).origin(dotted)
        if origin is not None and (self.unknown is None or dotted in self.unknown):
            return _value(dotted, "auto", "filled", f"{place}, filled by {consumer} from {origin}")
        if path in self.dropped:
            value = self._without_auto(key, path)
            note = f"default of {self.release}, `auto` of {place} is dropped"
            return self._derived(_value(dotted, value, "dropped", note), key)
        note = "" if "auto_is_value" in key.info.flags else ", which nobody fills"
        return self._derived(_value(dotted, "auto", "written", f"{place}{note}"), key)

    def _without_auto(self, key: KeyView, path: _Path) -> Json:
        """The value of a key whose "auto" is dropped: what its other name says, if that is written too."""
        try:
            value = self.seen.value(".".join((*path[:-1], key.info.name)))
        except SkipRule:
            value = key.default
        return {} if value is None and key.type[0] == "section" else value

    def of_unknown(self, section: SectionView, value: Json, path: _Path) -> Value:
        """A key that the release does not know in this section."""
        dotted, place = ".".join(path), self.place(path)
        if section.unknown == "rejected":
            return _value(dotted, value, "refused", f"{place}, no key of {self.release}")
        if section.unknown == "ignored":
            return _value(dotted, value, "ignored", f"{place}, not read by {self.release}")
        return _value(dotted, value, "written", place)

    def of_default(self, key: KeyView, path: _Path) -> Value:
        """A key that is not written."""
        if self.formula and ".".join(path) == self.of_ranks:
            note = f"{self.formula}; the number of GPUs is not known: give --world-size"
            return _value(self.of_ranks, None, "derived", note)
        found = _value(".".join(path), key.default, "default", f"default of {self.release}")
        return self._derived(found, key)


def _word(value: Json) -> str:
    return json.dumps(value, default=str)


def _value(key: str, value: Json, origin: ValueOrigin, note: str) -> Value:
    secret = key.rpartition(".")[2] in secrets() and value is not None
    return Value(key, "***" if secret else value, origin, note)
