"""The keys of a release as the generator wants them: the seam between the suite and `dsconfig.model`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

Step: TypeAlias = "str | int"
Spec: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """One key with its path in a config: `*` is already a name or an index."""

    path: tuple[Step, ...]
    type: Spec
    default: Any
    aliases: tuple[str, ...] = ()
    first: int = 0
    """Number of the first release that reads it."""
    refused: int = 10**9
    """Number of the first release that raises when it is there at all."""

    @property
    def name(self) -> str:
        """The last step."""
        return str(self.path[-1])

    @property
    def dotted(self) -> str:
        """For labels."""
        return ".".join(map(str, self.path))

    @property
    def section(self) -> bool:
        """Whether keys of the model stand below it."""
        return any(kind in ("section", "map") for kind in kinds(self.type))


def kinds(spec: Spec) -> set[str]:
    """The names of a type's arms."""
    return set().union(*map(kinds, spec[1:])) if spec[0] == "union" else {spec[0]}


def arms(spec: Spec) -> tuple[Spec, ...]:
    """A union's arms, or the type itself."""
    return spec[1:] if spec[0] == "union" else (spec,)


def modelled_as(release: str) -> str:
    """The release as which the model is seen: one newer than the model knows counts as its newest."""
    from dsconfig.core.releases import LATEST, NUMBERS

    return release if release in NUMBERS else LATEST


@cache
def slots(release: str | None = None, root: str = "Config") -> tuple[Slot, ...]:
    """Every key below a root that the release reads (None: that any release reads), parents first."""
    from dsconfig.core.releases import NUMBERS
    from dsconfig.model.key_table import iter_keys

    found: dict[tuple[Step, ...], Slot] = {}
    steps: dict[tuple[str, ...], Step] = {}
    seen_as = modelled_as(release) if release else None
    number = NUMBERS[seen_as] if seen_as else None
    for path, info in iter_keys(seen_as, root):
        type_ = info.type_in(number) if number else info.type
        default = info.default_in(number) if number else info.default
        aliases = tuple(name for name, known in info.aliases if number is None or number in known)
        concrete = tuple(steps.get(path[: i + 1], part) for i, part in enumerate(path))
        below: Step = 0 if "list" in kinds(type_) else "group_one"
        for depth in range(1, 4):
            steps[path + ("*",) * depth] = below
        first = min(since for since, _ in info.spans)
        found.setdefault(concrete, Slot(concrete, type_, default, aliases, first, info.refused_from))
    return tuple(found.values())


@cache
def names() -> frozenset[str]:
    """Every name of a key in any release."""
    return frozenset(name for slot in slots() for name in (slot.name, *slot.aliases))


@cache
def by_path(release: str | None = None, root: str = "Config") -> dict[tuple[Step, ...], Slot]:
    """The slots below a root by path, under their aliases too."""
    found = {slot.path: slot for slot in slots(release, root)}
    for slot in slots(release, root):
        for alias in slot.aliases:
            found.setdefault((*slot.path[:-1], alias), slot)
    return found


@cache
def known_by(release: str) -> frozenset[tuple[Step, ...]]:
    """Paths that this release or an earlier one reads."""
    from dsconfig.core.releases import NUMBERS

    now = NUMBERS[modelled_as(release)]
    first: dict[tuple[Step, ...], int] = {}
    for slot in slots():
        above = first.get(slot.path[:-1], 0)
        first[slot.path] = max(slot.first, above)
    return frozenset(path for path, number in first.items() if number <= now)


def foreign(release: str) -> Iterator[Slot]:
    """Keys that only other releases read."""
    own = by_path(release)
    return (slot for slot in slots() if slot.path not in own)


def put(config: Any, path: tuple[Step, ...], value: Any) -> None:
    """Sets a place in a config, making the objects and lists on the way."""
    here = config
    for step, following in pairwise(path):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(step, int):
            here.extend([None] * (step + 1 - len(here)))
            if not isinstance(here[step], type(empty)):
                here[step] = empty
        elif not isinstance(here.get(step), type(empty)):
            here[step] = empty
        here = here[step]
    last = path[-1]
    if isinstance(last, int):
        here.extend([None] * (last + 1 - len(here)))
    here[last] = value


def get(config: Any, path: tuple[Step, ...], default: Any = None) -> Any:
    """What stands at a place."""
    try:
        for step in path:
            config = config[step]
    except (KeyError, IndexError, TypeError):
        return default
    return config


def prune(config: dict[str, Any], release: str) -> dict[str, Any]:
    """The config without the keys that the release does not read, as far as the model knows the section."""
    return _pruned(config, (), by_path(release))


def _pruned(
    config: dict[str, Any], path: tuple[Step, ...], known: dict[tuple[Step, ...], Slot]
) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in config.items():
        here = (*path, name)
        if here in known:
            slot = known[here]
            deeper = isinstance(value, dict) and "section" in kinds(slot.type)
            kept[name] = _pruned(value, here, known) if deeper else value
    return kept
