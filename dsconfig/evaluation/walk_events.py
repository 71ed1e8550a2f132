"""What the walk notes of a key, for the rules to put into words."""

from __future__ import annotations

from dsconfig.core.json_types import Json, KeyPath, NamedTuple
from dsconfig.evaluation.coercion import Coerced, Refused
from dsconfig.model.keyinfo import KeyView, SectionView


class UnknownKey(NamedTuple):
    """A key that the section does not know."""

    path: KeyPath
    section: SectionView
    value: Json


class KnownKey(NamedTuple):
    """A key that the section knows."""

    path: KeyPath
    section: SectionView
    key: KeyView
    value: Json


class Refusal(NamedTuple):
    """A value that the release does not take."""

    path: KeyPath
    section: SectionView
    key: KeyView
    value: Json
    verdict: Refused

    @property
    def place(self) -> KeyPath:
        """The path of the very part that is refused: the value, or something in it."""
        return (*self.path, *self.verdict.at)


class Coercion(NamedTuple):
    """A value that the release takes as another one."""

    path: KeyPath
    section: SectionView
    key: KeyView
    value: Json
    verdict: Coerced

    @property
    def changes_value(self) -> bool:
        """Whether the release goes on with another value: 4.0 for 4 is the same number in another type."""
        written, value = self.value, self.verdict.value
        numbers = isinstance(written, int | float) and isinstance(value, int | float)
        alike = numbers and isinstance(written, bool) == isinstance(value, bool) and written == value
        return not alike
