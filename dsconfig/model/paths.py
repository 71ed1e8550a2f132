"""The keys by their paths: all of them, those on the way to one, and those that a wrong path means."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from dsconfig.core.json_types import KeyPath, Spec
from dsconfig.core.releases import NUMBERS
from dsconfig.model._table import MISWRITTEN, VARIANTS
from dsconfig.model.keyinfo import ROOT, KeyInfo, child_section, section_keys


def along(path: KeyPath) -> Iterator[KeyInfo]:
    """The keys along a path, as far as the model knows them."""
    section: str | None = ROOT
    for word in path:
        info = section_keys(section).get(str(word)) if section else None
        if info is None:
            return
        yield info
        section = child_section(info.type)


@cache
def _miswritten() -> dict[tuple[str, str], tuple[str, KeyPath]]:
    """By section class, of which a config may name one twice, and word: section and path of what is meant."""
    found: dict[tuple[str, str], tuple[str, KeyPath]] = {}
    for path, meant in MISWRITTEN.items():
        above, _, word = path.rpartition(".")
        place = tuple(meant.split(".")) if meant else ()
        found[_section_at(above), word] = _section_at(meant.rpartition(".")[0]), place
    return found


@cache
def _section_at(path: str) -> str:
    last = ROOT
    for info in along(tuple(path.split("."))) if path else ():
        last = child_section(info.type) or last
    return last


def meant_in(section: str, word: str) -> tuple[str, KeyPath] | None:
    """Section and path of the key that is meant by a word which no release ever read in the section.

    The path is empty where no key is meant. None: nothing is known of the word.
    """
    return _miswritten().get((section, word))


def keys(release: str | None = None) -> Iterator[tuple[tuple[str, ...], KeyInfo]]:
    """Every key with its path, parents first; `*` stands for a free-form name or a list element.

    With a release: only what that release reads. A path occurs once for every section class that has it: the
    params of all optimizers share their paths.
    """
    yield from _walk(ROOT, (), NUMBERS[release] if release else None)


def _walk(name: str, path: tuple[str, ...], release: int | None) -> Iterator[tuple[tuple[str, ...], KeyInfo]]:
    for info in section_keys(name).values():
        if release is not None and not info.read_in(release):
            continue
        here = (*path, info.name)
        yield here, info
        spec = info.type if release is None else info.type_in(release)
        for inner, more in _inner(spec):
            for one in (inner, *VARIANTS.get(inner, ())):
                yield from _walk(one, (*here, *more), release)


def _inner(spec: Spec) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Section classes inside a type, each with the `*` steps that lead to it."""
    if spec[0] == "section":
        yield spec[1], ()
    elif spec[0] in ("list", "map"):
        for name, more in _inner(spec[1]):
            yield name, ("*", *more)
    elif spec[0] == "union":
        for arm in spec[1:]:
            yield from _inner(arm)
