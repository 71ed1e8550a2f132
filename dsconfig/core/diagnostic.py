"""What a finding is, what it does to the user, and how it may be fixed: what every room hands to the next."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias

from dsconfig.core.json_types import Json, KeyPath, NamedTuple

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

SITE = "https://deepspeed-config.readthedocs.io/en/stable/"
"""Where the pages of this project are served: the one place that says so."""


def page_of(code: str) -> str:
    """The address of a rule's page."""
    return f"{SITE}rules/{code}/"


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
    def url(self) -> str:
        """The address of its rule's page."""
        return page_of(self.code)

    @property
    def dotted(self) -> str:
        """The path as people write it: `zero_optimization.stage`, `groups[0].name`."""
        return dotted(self.path)

    def to_dict(self) -> dict[str, object]:
        """The finding as `--output-format json` writes it."""
        return {
            "code": self.code,
            "name": self.name,
            "effect": self.effect.value,
            "severity": self.severity,
            "message": self.message,
            "help": self.help,
            "path": _plain(self.path),
            **_place(self.location),
            "releases": list(self.releases),
            "related": [
                {"message": other.message, "path": _plain(other.path), **_place(other.location)}
                for other in self.related
            ],
            "fix": None if self.fix is None else _fix(self.fix),
            "url": self.url,
        }

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict()` as JSON text."""
        import json

        return json.dumps(self.to_dict(), indent=indent)


def _place(location: Location | None) -> dict[str, int | None]:
    return {name: getattr(location, name, None) for name in ("line", "column", "end_line", "end_column")}


def _fix(fix: Fix) -> dict[str, object]:
    return {"title": fix.title, "safe": fix.safe, "operations": [_operation(step) for step in fix.operations]}


def _operation(step: Operation) -> dict[str, object]:
    if isinstance(step, Replace):
        return {"operation": "replace", "start": step.start, "end": step.end, "text": step.text}
    kind: dict[str, object] = {"operation": type(step).__name__.lower(), "path": _plain(step.path)}
    match step:
        case Set():
            return {**kind, "value": _plain(step.value)}
        case Rename():
            return {**kind, "name": step.name}
        case Move():
            return {**kind, "to": _plain(step.to)}
        case _:
            return kind


_INFINITY = float("inf")


def _plain(value: object) -> object:
    """The value as JSON can say it: what it cannot (NaN, an integer of too many digits) becomes a string."""
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not -_INFINITY < value < _INFINITY:  # NaN is in no order
            return str(value)
        case int() if value.bit_length() > 14_000:
            return hex(value)
        case str() | int() | float() | None:
            return value
        case _:
            return str(value)


def dotted(path: KeyPath) -> str:
    """A path as people write it: keys joined by dots, list indices in brackets; empty for the root."""
    text = ""
    for part in path:
        if type(part) is int:
            text += f"[{part}]"
        else:  # a key of a Python dict may be anything
            text += f".{part}" if text else str(part)
    return text


def clipped(text: str, most: int) -> str:
    """The text, without its middle where it is longer."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}"
