"""The section and the key behind a path of a config, as one release sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.model.keyinfo import ROOT, child_section, type_named
from dsconfig.model.release_view import KeyView, SectionView, view

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath, Spec


def section_at(path: KeyPath, data: Json, release: int) -> SectionView | None:
    """The section whose keys stand at a path of a config; None where any word may stand.

    `data` is the config: the params of an optimizer depend on its type.
    """
    spec: Spec = ("section", ROOT)
    for depth in range(len(path) + 1):
        name = child_section(spec)
        if depth == len(path):
            return None if name is None else view(name, release)
        if name is None:
            spec = _member(spec, path[depth])
            continue
        key = view(name, release).keys.get(str(path[depth]))
        if key is None:
            return None
        around = data_at(data, path[:depth])
        kind = type_named(name, around.get("type")) if path[depth] == "params" else None
        spec = ("section", kind.params) if kind is not None and kind.params else key.type
    return None


def key_at(path: KeyPath, data: Json, release: int) -> KeyView | None:
    """The key at a path of a config; None where the release knows none there."""
    seen = section_at(path[:-1], data, release) if path else None
    return None if seen is None else seen.keys.get(str(path[-1]))


def data_at(data: Json, path: KeyPath) -> dict[str, Json]:
    """The object at a path; an empty one where there is none."""
    for part in path:
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return {}
    return data if isinstance(data, dict) else {}


def _member(spec: Spec, part: str | int) -> Spec:
    """The type of a member of a list or a map."""
    wanted = "list" if isinstance(part, int) else "map"
    arms = spec[1:] if spec[0] == "union" else (spec,)
    found = next((arm[1] for arm in arms if arm[0] == wanted), None)
    return ("any",) if found is None else tuple(found)
