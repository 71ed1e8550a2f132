"""Diagnostics: their effect, their location, and fixes as operations on key paths."""

from __future__ import annotations

from enum import Enum

from dsconfig.core.json_types import Json, KeyPath, NamedTuple

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

Severity: TypeAlias = "Literal['error', 'warning', 'info']"
EffectName: TypeAlias = "Literal['rejected', 'crashes', 'ignored', 'altered', 'deprecated', 'wasteful']"
"""Names of the effects, as rules write them."""


class Effect(str, Enum):
    """How a problem affects the user, which determines the severity of the diagnostic."""

    REJECTED = "rejected"
    CRASHES = "crashes"
    IGNORED = "ignored"
    ALTERED = "altered"
    DEPRECATED = "deprecated"
    WASTEFUL = "wasteful"

    @property
    def severity(self) -> Severity:
        """`error` if the run fails, `info` if the problem only costs resources, otherwise `warning`."""
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
"""The base URL of the project's pages, defined only here."""


def rule_url(code: str) -> str:
    """Return the URL of a rule's documentation."""
    return f"{SITE}rules/{code}/"


SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""The severities, most severe first."""


class NotebookCell(NamedTuple):
    """The notebook cell to which a location refers."""

    number: int
    """Position of the cell among all cells of the notebook, counted from 1."""
    line: int
    """Line of the notebook file that contains the first line of the location."""
    end_line: int


class Location(NamedTuple):
    """A range of the source text, with an exclusive end; lines and columns count code points from 1.

    In a notebook, lines and columns refer to the source of one cell.
    """

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int
    cell: NotebookCell | None = None

    @property
    def file_lines(self) -> tuple[int, int]:
        """The first and last line in the file, for output formats without notebook cells."""
        return (self.line, self.end_line) if self.cell is None else (self.cell.line, self.cell.end_line)

    @property
    def shown(self) -> str:
        """The position as text: `3:5`, or in a notebook, `cell 2:3:5`."""
        cell = "" if self.cell is None else f"cell {self.cell.number}:"
        return f"{cell}{self.line}:{self.column}"


class Related(NamedTuple):
    """Another location that helps to explain a diagnostic."""

    message: str
    path: KeyPath
    location: Location | None = None


class SetValue(NamedTuple):
    """Operation that sets the key at `path` to a value, adding the key if it is absent."""

    path: KeyPath
    value: Json


class RemoveKey(NamedTuple):
    """Operation that removes the key at `path`."""

    path: KeyPath


class RenameKey(NamedTuple):
    """Operation that renames the key at `path` without changing its value or position."""

    path: KeyPath
    name: str


class MoveKey(NamedTuple):
    """Operation that moves the key at `path`, with its value, to `to`."""

    path: KeyPath
    to: KeyPath


class ReplaceText(NamedTuple):
    """Operation that replaces a range of source text, for problems in the text rather than in a value.

    The offsets count code points, and the end is exclusive. If a fix has several replacements, all offsets refer
    to the original text.
    """

    start: int
    end: int
    text: str


Operation: TypeAlias = "SetValue | RemoveKey | RenameKey | MoveKey | ReplaceText"


class Fix(NamedTuple):
    """A list of operations that resolves a diagnostic; text replacements are used only where no path applies.

    A fix is `safe` only if the effective values in DeepSpeed do not change, or if DeepSpeed rejects the file,
    there is only one interpretation, and nothing in the file is lost.
    """

    title: str
    operations: tuple[Operation, ...]
    safe: bool = False


class Diagnostic(NamedTuple):
    """One problem found in a config.

    `releases` are the checked releases that the diagnostic applies to, oldest first. `location` is None for a
    config without source text (a dict). An absent key is located at its nearest existing parent.
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
        """The severity that follows from the diagnostic's effect."""
        return self.effect.severity

    @property
    def url(self) -> str:
        """The URL of the rule's documentation."""
        return rule_url(self.code)

    @property
    def dotted(self) -> str:
        """The key path as users write it: `zero_optimization.stage`, `groups[0].name`."""
        return dotted_path(self.path)

    def to_dict(self) -> dict[str, object]:
        """Return the diagnostic in the format of `--output-format json`."""
        return {
            "code": self.code,
            "name": self.name,
            "effect": self.effect.value,
            "severity": self.severity,
            "message": self.message,
            "help": self.help,
            "path": _json_value(self.path),
            **_location_as_json(self.location),
            "releases": list(self.releases),
            "related": [
                {
                    "message": other.message,
                    "path": _json_value(other.path),
                    **_location_as_json(other.location),
                }
                for other in self.related
            ],
            "fix": None if self.fix is None else _fix_as_json(self.fix),
            "url": self.url,
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict()` as JSON text."""
        import json

        return json.dumps(self.to_dict(), indent=indent)


def _location_as_json(location: Location | None) -> dict[str, int | None]:
    fields = {name: getattr(location, name, None) for name in ("line", "column", "end_line", "end_column")}
    cell = None if location is None else location.cell
    return fields if cell is None else {**fields, "cell": cell.number}


def _fix_as_json(fix: Fix) -> dict[str, object]:
    return {
        "title": fix.title,
        "safe": fix.safe,
        "operations": [_operation_as_json(step) for step in fix.operations],
    }


_OPERATIONS = {SetValue: "set", RemoveKey: "remove", RenameKey: "rename", MoveKey: "move"}
"""Names of the fix operations in JSON output."""


def _operation_as_json(step: Operation) -> dict[str, object]:
    if isinstance(step, ReplaceText):
        return {"operation": "replace", "start": step.start, "end": step.end, "text": step.text}
    kind: dict[str, object] = {"operation": _OPERATIONS[type(step)], "path": _json_value(step.path)}
    match step:
        case SetValue():
            return {**kind, "value": _json_value(step.value)}
        case RenameKey():
            return {**kind, "name": step.name}
        case MoveKey():
            return {**kind, "to": _json_value(step.to)}
        case _:
            return kind


_INFINITY = float("inf")


def _json_value(value: object) -> object:
    """Convert a value for JSON output; NaN and overlong integers become strings."""
    # Also true for NaN, which compares false to everything.
    match value:
        case dict():
            return {str(key): _json_value(item) for key, item in value.items()}
        case list() | tuple():
            return [_json_value(item) for item in value]
        case float() if not -_INFINITY < value < _INFINITY:
            return str(value)
        case int() if value.bit_length() > 14_000:
            return hex(value)
        case str() | int() | float() | None:
            return value
        case _:
            return str(value)


def dotted_path(path: KeyPath) -> str:
    """Return a key path as users write it: keys joined by dots, list indices in brackets."""
    text = ""
    for part in path:
        if type(part) is int:
            text += f"[{part}]"
        else:  # keys of a Python dict can be of any type
            text += f".{part}" if text else str(part)
    return text


def truncate_middle(text: str, limit: int) -> str:
    """Replace the middle of a text that is longer than `limit` by an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit // 2]}…{text[-limit // 2 :]}"
