"""A change of a config or its script, and the order in which changes are told: each line has an effect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject

NOWHERE: Mapping[str, Json] = {}
Held = Callable[[Sequence["Change"]], "tuple[int, int] | None"]
"""What a rank and its host hold at most after some changes; None where they do not go together."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change: values of the config, or something in the script.

    `arguments` are training arguments, which fill those of `values` that the config leaves to them (`left`).
    """

    told: str
    values: Mapping[str, Json]
    checkpointing: bool = False
    zero_init: bool = False
    arguments: Mapping[str, Json] = field(default_factory=dict)
    left: frozenset[str] = frozenset()

    @property
    def in_config(self) -> JsonObject:
        """What the config itself is to say."""
        return {key: value for key, value in self.values.items() if key not in self.left}

    def to_dict(self, bound: int, host: int) -> JsonObject:
        """As JSON has it, with what a rank and its host hold at most after it."""
        return {
            "told": self.told,
            "set": self.in_config,
            "arguments": dict(self.arguments),
            "checkpointing": self.checkpointing,
            "zero_init": self.zero_init,
            "bound": bound,
            "host_bound": host,
        }


class After(NamedTuple):
    """A change, and what a rank and its host hold at most with it and those before it, in bytes."""

    change: Change
    bound: int
    host: int


def over(values: Mapping[str, Json], more: Mapping[str, Json]) -> dict[str, Json]:
    """Values with others written after them; what stands in a section that is written anew is gone."""
    anew = tuple(f"{key}." for key in more)
    kept = {key: value for key, value in values.items() if key not in more and not key.startswith(anew)}
    return {**kept, **more}


def set_to(values: Mapping[str, Json]) -> Change:
    """The change that writes these values."""
    told = " and ".join(f"set `{key}` to {json.dumps(value)}" for key, value in values.items())
    return Change(told, values)


def together(changes: Sequence[Change]) -> Change:
    """Several changes as one; what a later one writes anew is told once."""
    if len(changes) == 1:
        return changes[0]
    values: dict[str, Json] = {}
    for change in changes:
        values = over(values, change.values)
    plain = all(change == set_to(change.values) for change in changes)
    return Change(
        set_to(values).told if plain else " and ".join(change.told for change in changes),
        values,
        any(change.checkpointing for change in changes),
        any(change.zero_init for change in changes),
        {key: value for change in changes for key, value in change.arguments.items()},
        frozenset[str]().union(*(change.left for change in changes)),
    )


def steps_of(chosen: Sequence[Change], held: Held, hosts: bool) -> Iterator[After]:
    """The changes as they are told, with what is held after each.

    One that changes nothing by itself waits for the next in one of its sections, and stands in its line;
    else for the end, where it is tried again. What has no effect then stands with the others that have none,
    and is left out if that is so of all of them.
    """
    done, waiting = list[Change](), list[Change]()
    last = held(())

    def effect(changes: Sequence[Change]) -> tuple[int, int] | None:
        """What is held, if that is something else than before."""
        now = held([*done, *changes])
        same = now is None or last is None or (now if hosts else now[:1]) == (last if hosts else last[:1])
        return None if same else now

    for change in chosen:
        mates = [other for other in waiting if _sections(other) & _sections(change)]
        waiting = [other for other in waiting if other not in mates]
        if now := effect([*mates, change]):
            yield After(together([*mates, change]), *now)
            done, last = [*done, *mates, change], now
        else:
            waiting += [*mates, change]
    while found := next(((change, now) for change in waiting if (now := effect([change]))), None):
        change, last = found
        yield After(change, *last)
        done.append(change)
        waiting.remove(change)
    if waiting and (now := effect(waiting)):
        yield After(together(waiting), *now)


def _sections(change: Change) -> set[str]:
    """The sections of the config that it is about."""
    return {".".join(key.split(".")[:2]) for key in change.values}
