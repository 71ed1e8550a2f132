"""What DeepSpeed does to the value of one key while it builds its config object, and in which releases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dsconfig.core.releases import EVERY_RELEASE, NEVER, Interval, number
from dsconfig.evaluation.context import Context

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

Find: TypeAlias = "Callable[[Context, Json], Json]"
"""From the config, and the value that the key would have, to the one that it has.

It may raise `SkipRule` where what it asks for is refused, or to be filled by the consumer.
"""


class Derivation(NamedTuple):
    """What DeepSpeed does to the value of one key."""

    key: str
    find: Find
    source: str
    of: tuple[str, ...] = ()
    """Other keys that it looks at."""
    releases: Interval = EVERY_RELEASE
    why: str | None = None
    """In words, where the value is not what another key says."""


def alone(make: Callable[[Json], Json]) -> Find:
    """What is done to a value, whatever else is written."""
    return lambda _, value: make(value)


def since(release: str, until: str | None = None) -> Interval:
    """The releases from one to another, or to the newest."""
    return Interval(number(release), number(until) if until else NEVER)


def given(ctx: Context, key: str) -> bool:
    """Whether the key is written, and not as an "auto" that DeepSpeed drops."""
    found: Json = ctx.walk.values
    for part in key.split("."):
        if not isinstance(found, dict) or part not in found:
            return False
        found = found[part]
    return True
