"""What may stand as the value of a key, the likeliest first, with what each stands for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.model.key_prose import meaning
from dsconfig.model.keyinfo import child_section, types_of

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, Spec
    from dsconfig.lsp.config_range import Scope
    from dsconfig.model.release_view import KeyView, SectionView


class Candidate(NamedTuple):
    """One value."""

    value: Json
    told: str = ""
    is_default: bool = False
    label: str = ""
    """What a block is called; empty for a plain value."""


def candidates(key: KeyView, seen: Scope) -> list[Candidate]:
    """The values of a key that holds no section, each once."""
    found: dict[str, Candidate] = {}
    for value in _values(key, seen):
        told = meaning(key.info, value)
        if value == "auto" and not told:
            told = f"filled by {seen.consumer.capitalize()}"
        same = value == key.default and type(value) is type(key.default)
        found.setdefault(repr(value), Candidate(value, told, same))
    return list(found.values())


def _values(key: KeyView, seen: Scope) -> Iterator[Json]:
    info = key.info
    kinds = {kind.name: kind for kind in types_of(info.section).values()} if info.name == "type" else {}
    if seen.consumer in info.fills:
        yield "auto"
    for word in info.known:
        if word not in kinds or seen.release in kinds[word].releases:
            yield float(word) if key.type[0] in ("int", "float") else word
    if info.name == "type":
        yield from (name for name, kind in kinds.items() if seen.release in kind.releases)
    if isinstance(key.default, list):
        yield key.default
        return
    yield from _of_type(key.type)
    if key.default is not None and not isinstance(key.default, dict):
        yield key.default


def _of_type(spec: Spec) -> Iterator[Json]:
    match spec[0]:
        case "bool":
            yield from (True, False)
        case "enum":
            yield from spec[1:]
        case "union":
            for arm in spec[1:]:
                yield from _of_type(arm)
        case "list":
            yield []
        case "map":
            yield {}


def blocks(section: SectionView, key: KeyView, seen: Scope) -> Iterator[Candidate]:
    """Blocks for a key that holds a section: an empty one, and those that people mostly mean."""
    inner = child_section(key.type)
    if inner is None:
        return
    from dsconfig.schema import snippets

    for each in snippets.of(section, key.info.name, inner, seen.release):
        yield Candidate(each["body"], label=str(each["label"]))
    yield Candidate({}, label="empty")
