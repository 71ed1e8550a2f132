"""The effective value of every key and where it comes from: the file, a default, the batch, the consumer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

from dsconfig import releases
from dsconfig.batch.triplet import KEYS
from dsconfig.checking.source import read
from dsconfig.consumers import BY_NAME
from dsconfig.dialect import Coerced
from dsconfig.document import Document, read_dict
from dsconfig.evaluation.context import Context, Source
from dsconfig.model.keyinfo import ROOT, KeyView, SectionView, child_section, view
from dsconfig.releases import NUMBERS, Target
from dsconfig.resolving.errors import ResolveError
from dsconfig.resolving.resolve import resolve
from dsconfig.resolving.run import Message, Run

Origin = Literal["written", "converted", "default", "dropped", "derived", "filled", "ignored", "refused"]
_HIDDEN = frozenset({"internal", "not_json", "unread"})
_SECRETS = frozenset({"api_key"})


@dataclass(frozen=True, slots=True)
class Value:
    """One key: what counts, and why."""

    key: str
    value: Any
    origin: Origin
    note: str
    """The origin in words: `line 3`, `default of 0.19.8`."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The values of a config, and what there is to say of it."""

    values: tuple[Value, ...]
    release: str
    messages: tuple[Message, ...] = ()


def effective(
    source: str | bytes | os.PathLike[str] | Mapping[str, Any] | Document,
    world_size: int | None = None,
    target: str | Target | None = None,
    consumer: str | None = None,
    *,
    training_args: Mapping[str, Any] | None = None,
    model_config: Mapping[str, Any] | None = None,
    every: bool = False,
    keys: Sequence[str] = (),
) -> Shown:
    """The effective values of a config.

    Args:
        source: see `check`, as for target and consumer. world_size: ranks; None: the batch is not derived.
        training_args: what the consumer fills "auto" from; see `resolve`. model_config: likewise.
        every: whether to list the defaults of sections that are not written, too.
        keys: list only these keys and what is below them, with all defaults.

    Raises:
        ResolveError: the config cannot be read. OSError, UnknownReleaseError, ValueError: see `resolve`.
    """
    chosen = target if isinstance(target, Target) else releases.resolve(target)
    release = chosen.releases[-1]
    document = source if isinstance(source, Document) else read(source)
    who = consumer or "deepspeed"
    written = Context(Source(document, who, None), NUMBERS[release])
    if not written.is_config or not document.readable(written.parser):
        raise ResolveError(f"{document.name} cannot be read: `dsconfig check` says why")
    run: Run | None = None
    messages: tuple[Message, ...] = ()
    if world_size is not None:
        try:
            run = resolve(
                document, world_size, chosen, who, training_args=training_args, model_config=model_config
            )
            messages = run.messages
        except ResolveError as error:
            messages = (Message("note", f"no batch at world size {world_size}: {error.reason}"),)
    listing = _Listing(document, written, run, release, who, every=every, keys=tuple(keys))
    found = tuple(value for value in listing.run() if listing.wanted(value.key))
    return Shown(found, release, messages)


class _Listing:
    """Walks written keys and defaults side by side."""

    def __init__(
        self,
        document: Document,
        written: Context,
        run: Run | None,
        release: str,
        consumer: str,
        *,
        every: bool,
        keys: tuple[str, ...],
    ) -> None:
        self.document, self.written, self.resolved = document, written, run
        self.release, self.number, self.every, self.keys = release, NUMBERS[release], every, keys
        self.consumer = consumer
        self.data: dict[str, Any] = deepcopy(run.config if run else written.data)
        if run is not None:
            self.data |= dict(zip(KEYS, run.triplet, strict=True))
        reader = "deepspeed" if run else consumer
        seen = Context(Source(read_dict(self.data), reader, None), self.number)
        self.verdicts = {event.path: event.verdict for event in (*seen.walk.coerced, *seen.walk.refused)}
        self.dropped = {event.path for event in seen.walk.autos if event.section.drops_auto}
        self.filled = {filled.key: filled.origin for filled in run.filled} if run else {}

    def wanted(self, key: str) -> bool:
        """Whether the key was asked for, or nothing was."""
        return not self.keys or any(key == name or key.startswith(f"{name}.") for name in self.keys)

    def run(self) -> Iterator[Value]:
        """Every value, sections in the order of the file and then of the model."""
        yield from self._section(view(ROOT, self.number), self.data, ())

    def _section(self, seen: SectionView, data: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Value]:
        canonical = set()
        for word, value in data.items():
            key = seen.keys.get(word)
            if key is not None:
                canonical.add(key.info.name)
            yield from self._written(seen, key, value, (*path, word), data)
        for name in dict.fromkeys(key.info.name for key in seen.keys.values()):
            if name not in canonical:
                yield from self._default(seen.keys[name], (*path, name))

    def _written(
        self,
        seen: SectionView,
        key: KeyView | None,
        value: Any,
        path: tuple[str, ...],
        siblings: Mapping[str, Any],
    ) -> Iterator[Value]:
        if key is None:
            yield self._unknown(seen, path, value)
            return
        inner = _params(siblings.get("type")) if path[-1] == "params" else None
        inner = inner or child_section(key.type)
        if inner is not None and isinstance(value, dict) and path not in self.verdicts:
            yield from self._section(view(inner, self.number), value, path)
            return
        yield self._judged(key, value, path)

    def _judged(self, key: KeyView, value: Any, path: tuple[str, ...]) -> Value:
        dotted = ".".join(path)
        verdict = self.verdicts.get(path)
        section = next(
            (name for name in self.filled if dotted == name or dotted.startswith(f"{name}.")), None
        )
        if section is not None:
            return _value(dotted, value, "filled", f"filled by {self.consumer} from {self.filled[section]}")
        if dotted in KEYS and self.resolved is not None and value != self.written.data.get(dotted):
            return _value(dotted, value, "derived", f"derived for {self.resolved.world_size} ranks")
        if value == "auto" and isinstance(value, str):
            return self._auto(key, path)
        if isinstance(verdict, Coerced):
            return _value(dotted, verdict.value, "converted", f"{self._place(path)}, from {value!r}")
        if verdict is not None:
            return _value(dotted, value, "refused", f"{self._place(path)}, refused by {self.release}")
        return _value(dotted, value, "written", self._place(path))

    def _auto(self, key: KeyView, path: tuple[str, ...]) -> Value:
        dotted = ".".join(path)
        origin = BY_NAME[self.consumer].origin(dotted)
        if self.resolved is None and origin is not None:
            return _value(
                dotted, "auto", "filled", f"{self._place(path)}, filled by {self.consumer} from {origin}"
            )
        if path in self.dropped:
            return _value(
                dotted,
                key.default,
                "dropped",
                f"default of {self.release}, `auto` of {self._place(path)} is dropped",
            )
        note = "" if "auto_is_value" in key.info.flags else ", which nobody fills"
        return _value(dotted, "auto", "written", f"{self._place(path)}{note}")

    def _unknown(self, seen: SectionView, path: tuple[str, ...], value: Any) -> Value:
        dotted, place = ".".join(path), self._place(path)
        if seen.unknown == "rejected":
            return _value(dotted, value, "refused", f"{place}, no key of {self.release}")
        if seen.unknown == "ignored":
            return _value(dotted, value, "ignored", f"{place}, not read by {self.release}")
        return _value(dotted, value, "written", place)

    def _default(self, key: KeyView, path: tuple[str, ...]) -> Iterator[Value]:
        """The key that is not written; at the top and in sections of their own only where asked for."""
        dotted = ".".join(path)
        asked = self.every or any(self._near(dotted, name) for name in self.keys)
        if key.info.flags & _HIDDEN or key.info.deprecated <= self.number or not (asked or len(path) > 1):
            return
        inner = child_section(key.type)
        if inner is not None:
            if asked and len(path) < 6:
                yield from self._section(view(inner, self.number), {}, path)
            return
        yield _value(dotted, key.default, "default", f"default of {self.release}")

    @staticmethod
    def _near(dotted: str, name: str) -> bool:
        return f"{dotted}.".startswith(f"{name}.") or f"{name}.".startswith(f"{dotted}.")

    def _place(self, path: tuple[str, ...]) -> str:
        if self.document.is_data or not self.document.located(path):
            return "written"
        return f"line {self.document.position(self.document.span(path, 'key').start).line}"


def _params(kind: Any) -> str | None:
    """The section class of `params` for an optimizer or scheduler type, where it has one of its own."""
    if not isinstance(kind, str):
        return None
    from dsconfig.model.optimizer import OPTIMIZERS
    from dsconfig.model.scheduler import SCHEDULERS

    entries: list[tuple[str, Any]] = [(entry.name, entry.params) for entry in OPTIMIZERS]
    entries += [(entry.name, entry.params) for entry in SCHEDULERS]
    return next((cls.__name__ for name, cls in entries if cls and name.lower() == kind.lower()), None)


def _value(key: str, value: Any, origin: Origin, note: str) -> Value:
    secret = key.rpartition(".")[2] in _SECRETS and value is not None
    return Value(key, "***" if secret else value, origin, note)
