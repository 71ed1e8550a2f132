"""What a rule demands of a section, so far as a JSON schema can say it where an editor underlines the key.

A rule states it beside its code, and its dates hold for it too. Keys are dotted paths from the section. Only
tests of sibling keys, or of a key right inside one, make sense: a schema can say more, but then its message
lands on the whole object. The rest is `check`'s.
"""

from __future__ import annotations

from typing import TypeAlias

from dsconfig.core.json_types import NamedTuple


class Written(NamedTuple):
    """The key is there, and not "auto", which may be dropped."""

    key: str


class Is(NamedTuple):
    """The key is there with one of these values."""

    key: str
    values: tuple[bool | int | str, ...]


class Counts(NamedTuple):
    """The key has one of these values, of which its default is one: it may be left out."""

    key: str
    values: tuple[bool | int | str, ...]


class Less(NamedTuple):
    """The key is there with a number below the bound."""

    key: str
    bound: float


class NotEmpty(NamedTuple):
    """The section holds something."""


class Absent(NamedTuple):
    """The key must not be there; the message says why."""

    key: str
    message: str


class Needed(NamedTuple):
    """The key must be there."""

    key: str


Test: TypeAlias = "Written | Is | Counts | Less | NotEmpty"
Demand: TypeAlias = "Absent | Needed"


class Condition(NamedTuple):
    """In the section of this name: when all tests hold, so must the demand."""

    section: str
    when: tuple[Test, ...]
    then: Demand
    consumers: tuple[str, ...] = ()
    """Who must be reading; empty for all."""
