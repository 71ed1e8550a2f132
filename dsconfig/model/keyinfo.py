"""What is known of each key, as `check` reads it: frozen and light.

The table behind it (`_table`) is generated from the model; nothing here imports pydantic.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import starmap
from typing import Literal

from dsconfig.core.json_types import Json, NamedTuple, Spec
from dsconfig.core.releases import NEVER, Interval
from dsconfig.model._table import SECTIONS, TYPES

ROOT = "Config"


class KeyInfo(NamedTuple):
    """One key of one section class."""

    name: str
    section: str
    type: Spec
    default: Json
    required: bool
    spans: tuple[Interval, ...]
    """The releases that look at the key; it may have gone and come back."""
    was: tuple[tuple[int, Spec], ...]
    defaults: tuple[tuple[int, Json], ...]
    aliases: tuple[tuple[str, Interval], ...]
    takes: tuple[tuple[frozenset[str], Interval], ...]
    refused_from: int
    deprecated: int
    replaced_by: str | None
    rewrite: tuple[str, Json] | None
    """`rename`, `negate` or `switch`, with what a switch that is on stands for."""
    advice: str | None
    hidden_by: str | None
    opened_by: str | None
    fills: tuple[str, ...]
    unit: str | None
    known: tuple[str, ...]
    flags: frozenset[str]
    """Which of the booleans of `dsconfig.model.key.Key` are set, by name."""
    only: tuple[tuple[tuple[str, ...], int], ...]
    wrong_type: Literal["rejected", "crashes", "altered", "ignored"] | None

    def read_in(self, release: int) -> bool:
        """Whether the release looks at the key."""
        for first, last in self.spans:  # noqa: SIM110  a generator would cost a call for each span
            if first <= release <= last:
                return True
        return False

    def type_in(self, release: int) -> Spec:
        """The type that the release takes."""
        for last, earlier in self.was:
            if release <= last:
                return earlier
        return self.type

    def default_in(self, release: int) -> Json:
        """What the release uses when the key is absent."""
        for last, earlier in self.defaults:
            if release <= last:
                return earlier
        return self.default

    def takes_in(self, release: int) -> frozenset[str]:
        """Shapes other than an object that the release takes where this section belongs."""
        for shapes, releases in self.takes:
            if release in releases:
                return shapes
        return _NONE

    def taken_by(self, build: str, release: int) -> bool:
        """Whether the class of that kind takes this param of an optimizer."""
        return all(build in builds or release > last for builds, last in self.only)


_NONE: frozenset[str] = frozenset()


class TypeInfo(NamedTuple):
    """A type of optimizer or scheduler that DeepSpeed itself knows, in these releases."""

    name: str
    params: str | None
    """The section class of its params; None: they are a foreign class's arguments."""
    releases: Interval
    gpu: str
    cpu: str
    """Names of the classes behind it, without offload and with."""


@cache
def types_of(section: str) -> dict[str, TypeInfo]:
    """The types that the section's `type` may name, by the word they are compared with; empty for others."""
    return {
        word: TypeInfo(name, params, Interval(first, last), *classes)
        for word, (name, params, first, last, *classes) in TYPES.get(section, {}).items()
    }


def type_named(section: str, word: object) -> TypeInfo | None:
    """The type of that name in any release; those of optimizers are compared in lower case."""
    if not isinstance(word, str):
        return None
    return types_of(section).get(word.lower() if section == "Optimizer" else word)


@cache
def section_keys(name: str) -> dict[str, KeyInfo]:
    """Every key of the section class over all releases, by name."""
    keys = {}
    for key, (type_, default, spans, extra) in SECTIONS[name][1].items():  # no call per key: there are 900
        get = extra.get
        keys[key] = KeyInfo(
            name=key,
            section=name,
            type=type_,
            default=default,
            required=get("required", False),
            spans=tuple(starmap(Interval, spans)),
            was=get("was", ()),
            defaults=get("defaults", ()),
            aliases=tuple([(alias, Interval(*span)) for alias, *span in get("aliases")])
            if "aliases" in extra
            else (),
            takes=tuple([(frozenset(of), Interval(*span)) for of, *span in get("takes")])
            if "takes" in extra
            else (),
            refused_from=get("refused_from", NEVER),
            deprecated=get("deprecated", NEVER),
            replaced_by=get("replaced_by"),
            rewrite=get("rewrite"),
            advice=get("advice"),
            hidden_by=get("hidden_by"),
            opened_by=get("opened_by"),
            fills=get("fills", ()),
            unit=get("unit"),
            known=get("known", ()),
            flags=frozenset(get("flags", ())),
            only=get("only", ()),
            wrong_type=get("wrong_type"),
        )
    return keys


@cache
def all_keys() -> frozenset[str]:
    """The keys of every section class over all releases, and their aliases."""
    infos = [info for section in SECTIONS for info in section_keys(section).values()]
    return frozenset(word for info in infos for word in (info.name, *(alias for alias, _ in info.aliases)))


def keys_of(section: type) -> dict[str, KeyInfo]:
    """Every key of a section class, or of the one that it is derived from; empty for any other class."""
    return next((section_keys(cls.__name__) for cls in section.__mro__ if cls.__name__ in SECTIONS), {})


@cache
def secrets() -> frozenset[str]:
    """Names of keys whose value is never shown."""
    return frozenset(
        name for section in SECTIONS for name, info in section_keys(section).items() if "secret" in info.flags
    )


def is_secret(word: str, within: str = "") -> bool:
    """Whether a key, or one that a text of JSON names, holds what nobody else may see."""
    return word in secrets() or re.search(_SECRET, word + within, re.IGNORECASE) is not None


_SECRET = "key|token|secret|passw|credential"


@cache
def child_section(spec: Spec) -> str | None:
    """The section class that a type names directly (`X` or `X | None`), if any."""
    if spec[0] == "section":
        return str(spec[1])
    if spec[0] == "union":
        return next((str(arm[1]) for arm in spec[1:] if arm[0] == "section"), None)
    return None
