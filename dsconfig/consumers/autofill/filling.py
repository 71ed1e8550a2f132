"""A config while a consumer fills it in place, and the record of what was filled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dsconfig.consumers.autofill.log import Filled, Message, Mismatch
from dsconfig.consumers.consumer import Consumer
from dsconfig.consumers.training_args import Arguments
from dsconfig.core.json_types import Json, JsonObject


@dataclass(slots=True)
class Filling:
    """One config being filled. `given`: whether there are training arguments to fill it from."""

    config: JsonObject
    consumer: Consumer
    args: Arguments
    given: bool
    model: Mapping[str, Json] | None
    likely: Mapping[str, Json] = field(default_factory=dict)
    """What unknown arguments are on most machines."""
    filled: list[Filled] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    """Keys that stay "auto" here alone: what the consumer fills them with is not known."""

    def fill(self, key: str, value: Json, origin: str, *, must_match: bool = False) -> None:
        """Put `value` where "auto" is written; else, where it must match, compare it with what is written."""
        *sections, last = key.split(".")
        here: Json = self.config
        for section in sections:
            here = here.get(section) if isinstance(here, dict) else None
        if not isinstance(here, dict):
            return
        written = here.get(last)
        if value is None:
            self.unknown |= {key} if written == "auto" else set()
        elif written == "auto":
            here[last] = value
            self.filled.append(Filled(key, value, origin))
        elif must_match and written is not None and written != value:
            self.mismatches.append(Mismatch(key, written, origin, value))

    def fill_from_table(self, key: str, value: Json, *, compared: bool = True) -> None:
        """Fill a key, with the origin and the demand to match that the consumer's table has for it.

        `compared`: whether what is written is held against the value at all.
        """
        entry = next(entry for entry in self.consumer.fills if entry.key == key)
        self.fill(key, value, entry.origin, must_match=entry.must_match and compared)

    def insert(self, key: str, value: Json, origin: str) -> None:
        """Put in a key at the top level that the consumer writes itself."""
        self.config[key] = value
        self.filled.append(Filled(key, value, origin))

    def refuse(self, text: str, key: str) -> None:
        """Say why the consumer will raise."""
        self.messages.append(Message("refused", text, key))


def autos(section: Mapping[str, Json], prefix: str = "") -> Iterator[str]:
    """The dotted path of every "auto" in objects; lists are not looked into."""
    for key, value in section.items():
        if isinstance(value, dict):
            yield from autos(value, f"{prefix}{key}.")
        elif value == "auto" and isinstance(value, str):
            yield f"{prefix}{key}"
