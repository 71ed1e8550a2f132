"""Which key a help means by a name: beside the finding, inside it, or where the release reads one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from dsconfig.core.diagnostic import Diagnostic
from dsconfig.core.json_types import KeyPath
from dsconfig.evaluation.rule_context import Context
from dsconfig.model.key_table import keys_of_section_class, types_of_section
from dsconfig.rules._suggest_section import is_read_at, paths_of
from tests.parity.generators.keyspace import Spec


class Scene(NamedTuple):
    """A config with a finding whose help is followed."""

    data: dict[str, Any]
    found: Diagnostic
    context: Context


def written(scene: Scene, path: KeyPath) -> bool:
    """Whether the config has the key."""
    here: Any = scene.data
    for part in path:
        inside = isinstance(here, dict) and part in here
        if not inside and not (isinstance(here, list) and isinstance(part, int) and part < len(here)):
            return False
        here = here[part]
    return True


def at(data: Any, path: KeyPath) -> Any:
    """The value at a path that is there; else None."""
    for part in path:
        inside = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if not inside and not (isinstance(data, dict) and part in data):
            return None
        data = data[part]
    return data


def place(scene: Scene, name: str, *, here: bool) -> KeyPath | None:
    """The path that `name` means; `here`: one that the config has."""
    path = scene.found.path
    if not name:
        return path
    parts: KeyPath = tuple(name.split("."))
    if not here and isinstance(at(scene.data, path), dict) and _lacked(scene, name):
        return (*path, *parts)
    if path[-len(parts) :] == parts and (not here or written(scene, path)):
        return path
    for candidate in dict.fromkeys(_near(scene, path, parts)):
        if written(scene, candidate) or (not here and _open(scene, candidate) and _read(scene, candidate)):
            return candidate
    if not here and isinstance(at(scene.data, path), dict):
        return (*path, *parts)
    for home in paths_of(scene.context, str(parts[-1])):
        candidate = tuple(home.split("."))
        if written(scene, candidate) or (not here and _open(scene, candidate)):
            return candidate
    return None if here else (*path[:-1], *parts)


def _lacked(scene: Scene, name: str) -> bool:
    """Whether the message says of the key it begins with that it has no such key."""
    return bool(re.match(rf"`[^`]*`(?: of `[^`]*`)? has no `{re.escape(name)}`", scene.found.message))


def _near(scene: Scene, path: KeyPath, parts: KeyPath) -> Iterator[KeyPath]:
    for related in scene.found.related:
        if related.path[-len(parts) :] == parts:
            yield related.path
    if len(parts) > 1:
        yield parts
    for length in range(len(path), -1, -1):
        yield (*path[:length], *parts)
        yield (*path[:length], "params", *parts)
    for related in scene.found.related:
        yield (*related.path[:-1], *parts)


def _read(scene: Scene, path: KeyPath) -> bool:
    """Whether the release reads the key, or has no say in it."""
    return is_read_at(scene.context, path)


def _open(scene: Scene, path: KeyPath) -> bool:
    """Whether nothing but objects stands on the way."""
    return all(
        isinstance(at(scene.data, path[:length]), dict)
        for length in range(len(path))
        if written(scene, path[:length])
    )


def named(scene: Scene) -> list[KeyPath]:
    """The keys beside the finding that its message names."""
    beside = scene.found.path[:-1]
    words = re.findall(r"(\w+)`", scene.found.message)
    return [path for word in dict.fromkeys(words) if written(scene, path := (*beside, word))]


def spec(scene: Scene, path: KeyPath) -> Spec:
    """The type of the key at the path; of one that nobody describes, a guess by its name."""
    key = scene.context.key(".".join(map(str, path))) if path else None
    if key is None and path[1:2] == ("params",):
        section = {"optimizer": "Optimizer", "scheduler": "Scheduler"}[str(path[0])]
        for kind in types_of_section(section).values():
            found = keys_of_section_class(kind.params).get(str(path[-1])) if kind.params else None
            if found is not None:
                return found.type
    if key is not None:
        return key.type
    if path[-1] == "betas":
        return ("enum", [0.9, 0.999])
    return ("str",) if "path" in str(path[-1]) else ("int", 1, None, None, None)


def default(scene: Scene, path: KeyPath) -> Any:
    """What the release uses where the key is absent; None where it is not known."""
    return scene.context.default(".".join(map(str, path))) if path else None
