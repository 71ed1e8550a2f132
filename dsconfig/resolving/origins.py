"""What becomes of a value that is written: what counts in its place, and where that comes from."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dsconfig.batch.triplet import KEYS
from dsconfig.consumers.by_name import BY_NAME
from dsconfig.dialect import Coerced
from dsconfig.document import read_dict
from dsconfig.evaluation.context import Context, Source
from dsconfig.evaluation.events import Coercion, Refusal
from dsconfig.json_types import Json, JsonObject
from dsconfig.model.keyinfo import secrets
from dsconfig.model.views import KeyView, SectionView
from dsconfig.resolving.run import Run

ValueOrigin: TypeAlias = Literal[
    "written", "converted", "default", "dropped", "derived", "filled", "ignored", "refused"
]
_Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """One key: what counts, and why."""

    key: str
    value: Json
    origin: ValueOrigin
    note: str
    """The origin in words: `line 3`, `default of 0.19.8`."""


class Origins:
    """The origins of one config's values, before a run (None) or in one."""

    def __init__(self, written: Context, run: Run | None, place: Callable[[_Path], str]) -> None:
        self.written, self.resolved, self.release = written, run, written.release_name
        self.place = place
        self.data: JsonObject = deepcopy(run.config if run else written.data)
        if run is not None:
            self.data |= dict(zip(KEYS, run.triplet, strict=True))
        reader = "deepspeed" if run else written.consumer
        walk = Context(Source(read_dict(self.data), reader, None), written.release).walk
        judged: list[Coercion | Refusal] = [*walk.coerced, *walk.refused]
        self.verdicts = {entry.path: entry.verdict for entry in judged}
        self.dropped = {event.path for event in walk.autos if event.section.drops_auto}
        self.filled = {filled.key: filled.origin for filled in run.filled} if run else {}

    def of_key(self, key: KeyView, value: Json, path: _Path) -> Value:
        """A key that the release reads."""
        dotted, place = ".".join(path), self.place(path)
        verdict = self.verdicts.get(path)
        filled = next((name for name in self.filled if f"{dotted}.".startswith(f"{name}.")), None)
        if filled is not None:
            note = f"filled by {self.written.consumer} from {self.filled[filled]}"
            return _value(dotted, value, "filled", note)
        if dotted in KEYS and self.resolved is not None and value != self.written.data.get(dotted):
            return _value(dotted, value, "derived", f"derived for {self.resolved.world_size} ranks")
        if value == "auto" and isinstance(value, str):
            return self._of_auto(key, path)
        if isinstance(verdict, Coerced):
            return _value(dotted, verdict.value, "converted", f"{place}, from {value!r}")
        if verdict is not None:
            return _value(dotted, value, "refused", f"{place}, refused by {self.release}")
        return _value(dotted, value, "written", place)

    def _of_auto(self, key: KeyView, path: _Path) -> Value:
        dotted, place = ".".join(path), self.place(path)
        consumer = self.written.consumer
        origin = BY_NAME[consumer].origin(dotted)
        if self.resolved is None and origin is not None:
            return _value(dotted, "auto", "filled", f"{place}, filled by {consumer} from {origin}")
        if path in self.dropped:
            note = f"default of {self.release}, `auto` of {place} is dropped"
            return _value(dotted, key.default, "dropped", note)
        note = "" if "auto_is_value" in key.info.flags else ", which nobody fills"
        return _value(dotted, "auto", "written", f"{place}{note}")

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
        return _value(".".join(path), key.default, "default", f"default of {self.release}")


def _value(key: str, value: Json, origin: ValueOrigin, note: str) -> Value:
    secret = key.rpartition(".")[2] in secrets() and value is not None
    return Value(key, "***" if secret else value, origin, note)
