"""What a migration does to a config, and what it leaves to a person, with the choices that there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from dsconfig.core.diagnostic import Operation

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath

Kind: TypeAlias = Literal["changed", "removed"]
Matter: TypeAlias = Literal["refused", "batch", "lost", "other value", "new effect", "warning", "default"]
MATTERS: tuple[Matter, ...] = ("refused", "batch", "lost", "other value", "new effect", "warning", "default")
"""What there may be to decide, in the order in which it is best worked off: what keeps the job from starting,
then what changes it most.
"""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was done: where, in which line of the file as it was, what, and why."""

    kind: Kind
    path: KeyPath
    line: int | None
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to decide, and what it means. Without operations there is nothing to edit for it."""

    what: str
    means: str = ""
    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """One thing that only a person can decide.

    The line is that of the text as it comes out; where a key is gone, or nothing was changed, of the file.
    """

    matter: Matter
    path: KeyPath
    line: int | None
    why: str
    choices: tuple[Choice, ...]
    gone: bool = False
    """Whether the key stands in the file only."""

    @property
    def urgency(self) -> tuple[int, int]:
        """A sort key: the order in which decisions are worked off."""
        return MATTERS.index(self.matter), self.line or 0
