"""What is told of a config that is filled: messages, what was filled, and what does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dsconfig.core.json_types import Json

MessageKind: TypeAlias = Literal[
    "environment", "overridden", "removed", "written", "unfilled", "refused", "note"
]


@dataclass(frozen=True, slots=True)
class Message:
    """Something that the user should know about how the config came about."""

    kind: MessageKind
    """`environment` a variable was read; `overridden`, `removed`, `written` the config says other than the
    file; `unfilled` an "auto" is left; `refused` the consumer will raise; `note` anything else.
    """
    text: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Filled:
    """An "auto" that the consumer replaces, or a key that it puts in."""

    key: str
    value: Json
    origin: str
    """From what: a training argument, the model's hidden size, a constant."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A written value that differs from the training argument it must equal."""

    key: str
    written: Json
    argument: str
    value: Json

    def __str__(self) -> str:
        return f"`{self.key}` is {self.written!r}, but `{self.argument}` is {self.value!r}"
