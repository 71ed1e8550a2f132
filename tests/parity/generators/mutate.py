"""One mutation of a sound config: every kind at every path that the release reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from types import MappingProxyType
from typing import Any, TypeAlias

from tests.parity.generators import bases, keyspace, values
from tests.parity.generators.bases import Config
from tests.parity.generators.keyspace import Slot
from tests.parity.generators.values import UnfitError

Mutator: TypeAlias = "Callable[[Config, Slot, str, Random], None]"
SOME_WORDS = ("my_key", "enable", "Enabled", "params", "type", "stage3", "comment", "_note", "")


def _unknown(config: Config, slot: Slot, release: str, rng: Random) -> None:
    """An unknown key inside a section."""
    if not slot.section:
        raise UnfitError
    keyspace.put(config, (*slot.path, rng.choice(SOME_WORDS)), rng.choice((1, True, "x", None, {}, "auto")))


def _misspelt(config: Config, slot: Slot, release: str, rng: Random) -> None:
    """The key with a slip of the finger, and a value it would take."""
    name = slot.name
    if len(name) < 3 or isinstance(slot.path[-1], int):
        raise UnfitError
    place = rng.randrange(len(name) - 1)
    slips = (
        name[:place] + name[place + 1 :],
        name[:place] + name[place + 1] + name[place] + name[place + 2 :],
        name[:place] + name[place] + name[place:],
        name + "s",
        name.replace("_", "-"),
        name.upper(),
        "".join(part.title() for part in name.split("_")),
        f" {name}",
    )
    keyspace.put(config, (*slot.path[:-1], rng.choice(slips)), values.valid(slot.type, rng))


def _moved_up(config: Config, slot: Slot, release: str, rng: Random) -> None:
    """The key in its grandparent, or at the root."""
    if len(slot.path) < 2:
        raise UnfitError
    depth = rng.choice((0, len(slot.path) - 2))
    keyspace.put(config, (*slot.path[:depth], slot.name), values.valid(slot.type, rng))


def _moved_aside(config: Config, slot: Slot, release: str, rng: Random) -> None:
    """The key in some other section."""
    sections = [s for s in keyspace.slots(release) if s.section and s.path != slot.path[:-1]]
    if not sections:
        raise UnfitError
    keyspace.put(config, (*rng.choice(sections).path, slot.name), values.valid(slot.type, rng))


def _other_release(config: Config, slot: Slot, release: str, rng: Random) -> None:
    """Next to the key (or in the section), a key of earlier or later releases."""
    near = [s for s in keyspace.foreign(release) if s.path[:-1] in (slot.path[:-1], slot.path)]
    if not near:
        raise UnfitError
    other = rng.choice(near)
    keyspace.put(config, other.path, values.valid(other.type, rng))


def _with_alias(config: Config, slot: Slot, release: str, rng: Random) -> None:
    """The key under another of its names, alone or next to the key."""
    if not slot.aliases:
        raise UnfitError
    value = values.valid(slot.type, rng)
    keyspace.put(config, (*slot.path[:-1], rng.choice(slot.aliases)), value)
    if rng.random() < 0.5:
        keyspace.put(config, slot.path, rng.choice((value, values.valid(slot.type, rng), None, "auto")))


def _given(make: values.Maker) -> Mutator:
    def put(config: Config, slot: Slot, release: str, rng: Random) -> None:
        keyspace.put(config, slot.path, make(slot, rng))

    return put


KINDS: Mapping[str, Mutator] = MappingProxyType(
    {
        **{name: _given(make) for name, make in values.KINDS.items()},
        "unknown-child": _unknown,
        "misspelt": _misspelt,
        "moved-up": _moved_up,
        "moved-aside": _moved_aside,
        "other-release": _other_release,
        "alias": _with_alias,
    }
)
"""What may happen to one key. Spoilt texts are in `writing.BROKEN`."""


def foreign_keys(release: str, rng: Random, world_size: int) -> Iterator[tuple[str, Config]]:
    """Every key that only other releases read, with a value those would take."""
    strangers = list(keyspace.foreign(release))
    rng.shuffle(strangers)
    for slot in strangers:
        config = bases.host(rng, release, world_size, slot.path)
        keyspace.put(config, slot.path, values.valid(slot.type, rng))
        yield f"foreign {slot.dotted}", config


def plan(release: str, rng: Random) -> Iterator[tuple[str, Slot]]:
    """Kinds and paths without end: every path in each round, every kind at a path before any comes again."""
    slots = list(keyspace.slots(release))
    rng.shuffle(slots)
    names = list(KINDS)
    starts = {slot.path: rng.sample(names, len(names)) for slot in slots}
    turn = 0
    while slots:
        for slot in slots:
            yield starts[slot.path][turn % len(names)], slot
        turn += 1


def mutations(release: str, rng: Random, sizes: Iterator[int]) -> Iterator[tuple[str, int, Any]]:
    """(label, world size, config) without end."""
    for kind, slot in plan(release, rng):
        world_size = next(sizes)
        config = bases.host(rng, release, world_size, slot.path)
        try:
            KINDS[kind](config, slot, release, rng)
        except UnfitError:
            continue
        yield f"{kind} {slot.dotted}", world_size, config
