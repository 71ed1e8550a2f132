"""What a finding is, what it does to the user, and how it may be fixed: what every room hands to the next."""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple, TypeAlias

from dsconfig.json_types import Json, KeyPath

Severity: TypeAlias = Literal["error", "warning", "info"]
EffectName: TypeAlias = Literal["rejected", "crashes", "ignored", "altered", "deprecated", "wasteful"]
"""How rules write an effect."""


class Effect(str, Enum):
    """What a finding does to the user; severity follows from it and is never taste."""

    REJECTED = "rejected"
    CRASHES = "crashes"
    IGNORED = "ignored"
    ALTERED = "altered"
    DEPRECATED = "deprecated"
    WASTEFUL = "wasteful"

    @property
    def severity(self) -> Severity:
        """`error` for what stops the run, `info` for what only costs, `warning` for the rest."""
        return _SEVERITY[self]


_SEVERITY: dict[Effect, Severity] = {
    Effect.REJECTED: "error",
    Effect.CRASHES: "error",
    Effect.IGNORED: "warning",
    Effect.ALTERED: "warning",
    Effect.DEPRECATED: "warning",
    Effect.WASTEFUL: "info",
}

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""Most severe first."""


class Location(NamedTuple):
    """A stretch of the source text, the end exclusive. Lines and columns, in code points, count from 1."""

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int


class Related(NamedTuple):
    """Another place that the finding refers to."""

    message: str
    path: KeyPath
    location: Location | None = None


class Set(NamedTuple):
    """Give the key at `path` this value; add it where it is absent."""

    path: KeyPath
    value: Json


class Remove(NamedTuple):
    """Take the key at `path` out."""

    path: KeyPath


class Rename(NamedTuple):
    """Give the key at `path` another name, value and place unchanged."""

    path: KeyPath
    name: str


class Move(NamedTuple):
    """Take the key at `path` out and put it, with its value, at `to`."""

    path: KeyPath
    to: KeyPath


class Replace(NamedTuple):
    """Put `text` in place of a stretch of the source: for what is odd in the text and not in a value.

    The offsets are in code points, the end exclusive. Several in one fix refer to the same text.
    """

    start: int
    end: int
    text: str


Operation: TypeAlias = "Set | Remove | Rename | Move | Replace"


class Fix(NamedTuple):
    """Operations that resolve the finding, in their order; on text only where no path leads to the place.

    `safe` is claimed only where the values that DeepSpeed ends up using do not change, or where it refused
    the file, only one reading is possible and nothing written is lost.
    """

    title: str
    operations: tuple[Operation, ...]
    safe: bool = False


class Diagnostic(NamedTuple):
    """One finding.

    `releases` are the releases checked to which it applies, oldest first; `location` is None where the source
    has no text (a dict). A key that is absent is located at its nearest existing parent.
    """

    code: str
    name: str
    effect: Effect
    message: str
    path: KeyPath = ()
    help: str | None = None
    location: Location | None = None
    releases: tuple[str, ...] = ()
    related: tuple[Related, ...] = ()
    fix: Fix | None = None

    @property
    def severity(self) -> Severity:
        """The effect's severity."""
        return self.effect.severity

    @property
    def dotted(self) -> str:
        """The path as people write it: `zero_optimization.stage`, `groups[0].name`."""
        return dotted(self.path)


def dotted(path: KeyPath) -> str:
    """A path as people write it: keys joined by dots, list indices in brackets; empty for the root."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
