"""Changes that reduce memory, in the config, the script or the environment, and the order in which they are shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.config_values import ConfigValues

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject

NOWHERE: Mapping[str, Json] = {}
UsageOf = Callable[[Sequence["ConfigChange"]], "tuple[int, int] | None"]
"""Function from changes to the upper bounds of a rank and its host, or to None if they cannot be combined."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change to config values, the script or the environment.

    `arguments` are training arguments. They set the `values` that the config leaves to them
    (`left_to_arguments`).
    """

    description: str
    values: Mapping[str, Json]
    checkpointing: bool = False
    zero_init: bool = False
    expandable_segments: bool = False
    """Whether the environment sets `expandable_segments`, which affects only cached blocks."""
    arguments: Mapping[str, Json] = field(default_factory=dict)
    left_to_arguments: frozenset[str] = frozenset()

    @property
    def in_config(self) -> JsonObject:
        """Return the values that the user must set in the config itself."""
        return {key: value for key, value in self.values.items() if key not in self.left_to_arguments}

    def to_dict(self, bound: int, host: int) -> JsonObject:
        """Return the change as JSON, with the upper bounds in bytes that a rank and its host have after it."""
        return {
            "told": self.description,
            "set": self.in_config,
            "arguments": dict(self.arguments),
            "checkpointing": self.checkpointing,
            "zero_init": self.zero_init,
            "expandable_segments": self.expandable_segments,
            "bound": bound,
            "host_bound": host,
        }


class AppliedChange(NamedTuple):
    """A change, and the upper bounds in bytes of a rank and its host once it and all earlier changes are applied."""

    change: ConfigChange
    bound: int
    host: int


def merge_values(values: Mapping[str, Json], more: Mapping[str, Json]) -> dict[str, Json]:
    """Merge config values; the new value of a section replaces all its old keys."""
    anew = tuple(f"{key}." for key in more)
    kept = {key: value for key, value in values.items() if key not in more and not key.startswith(anew)}
    return {**kept, **more}


def change_values(config: ConfigValues, changes: Sequence[ConfigChange]) -> ConfigValues:
    """Apply changes to the values of a config, and return the resulting values."""
    values, explicit_keys = config.values, set(config.explicit_keys)
    for change in changes:
        replaced = tuple(f"{key}." for key in change.values)
        flat = dict(item for key, value in change.values.items() for item in _flat_items(key, value))
        values = {key: value for key, value in values.items() if not key.startswith(replaced)} | flat
        explicit_keys = {key for key in explicit_keys if not key.startswith(replaced)} | flat.keys()
    return ConfigValues(values, explicit_keys)


def _flat_items(key: str, value: Json) -> Iterator[tuple[str, Json]]:
    """Yield dotted keys and their values, descending into sections."""
    if isinstance(value, dict):
        for name, nested in value.items():
            yield from _flat_items(f"{key}.{name}", nested)
    else:
        yield key, value


def change_of_values(values: Mapping[str, Json]) -> ConfigChange:
    """Return the change that sets these config values."""
    description = " and ".join(f"set `{key}` to {json.dumps(value)}" for key, value in values.items())
    return ConfigChange(description, values)


def merge_changes(changes: Sequence[ConfigChange]) -> ConfigChange:
    """Merge several changes into one, listing repeated keys once."""
    if len(changes) == 1:
        return changes[0]
    values: dict[str, Json] = {}
    for change in changes:
        values = merge_values(values, change.values)
    only_sets_values = all(change == change_of_values(change.values) for change in changes)
    return ConfigChange(
        change_of_values(values).description
        if only_sets_values
        else " and ".join(change.description for change in changes),
        values,
        any(change.checkpointing for change in changes),
        any(change.zero_init for change in changes),
        any(change.expandable_segments for change in changes),
        {key: value for change in changes for key, value in change.arguments.items()},
        frozenset[str]().union(*(change.left_to_arguments for change in changes)),
    )


def changes_with_effect(
    chosen: Sequence[ConfigChange], usage_of: UsageOf, includes_host: bool
) -> Iterator[AppliedChange]:
    """Yield the changes that affect memory, each with the memory usage after it.

    A change without an effect of its own waits for the next one in its sections and shares its line, or is
    tried again at the end. Changes that never have an effect are grouped, and left out if the group has none either.
    """
    applied, waiting = list[ConfigChange](), list[ConfigChange]()
    previous = usage_of(())

    def effect(changes: Sequence[ConfigChange]) -> tuple[int, int] | None:
        """Return the memory usage after these changes, or None if they have no effect."""
        usage = usage_of([*applied, *changes])
        same = (
            usage is None
            or previous is None
            or (usage if includes_host else usage[:1]) == (previous if includes_host else previous[:1])
        )
        return None if same else usage

    for change in chosen:
        related = [other for other in waiting if _changed_sections(other) & _changed_sections(change)]
        waiting = [other for other in waiting if other not in related]
        if change.expandable_segments and previous is not None:  # not in the upper bounds
            yield AppliedChange(change, *previous)
            applied.append(change)
        elif usage := effect([*related, change]):
            yield AppliedChange(merge_changes([*related, change]), *usage)
            applied, previous = [*applied, *related, change], usage
        else:
            waiting += [*related, change]
    while candidate := next(((change, usage) for change in waiting if (usage := effect([change]))), None):
        change, previous = candidate
        yield AppliedChange(change, *previous)
        applied.append(change)
        waiting.remove(change)
    if waiting and (usage := effect(waiting)):
        yield AppliedChange(merge_changes(waiting), *usage)


def _changed_sections(change: ConfigChange) -> set[str]:
    """Return the config sections in which a change sets keys."""
    return {".".join(key.split(".")[:2]) for key in change.values}
