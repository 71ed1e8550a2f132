"""`Key`, the metadata of a config key, and `SectionReading`, how releases read a section."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dsconfig.core.json_types import Json

# A field of the model is the only place where a key is declared. Its annotation is the type that the newest
# release accepts, its default the value that DeepSpeed uses if the key is absent, its docstring the description.
# `Key` holds the rest: releases, unit, aliases, replacement, earlier types, consumers that resolve "auto".
# `schema.generate` turns the fields into the key table of the checker, which `dsconfig.model.key_table` reads.

Filler: TypeAlias = Literal["transformers", "accelerate"]
"""A consumer that replaces "auto" with a value of its own."""
Shape: TypeAlias = Literal[
    "null", "true", "false", "[]", "list", "string", "number", "auto", "falsy", "mapping"
]
"""A JSON value other than an object in place of a section. `falsy` is every value that is false in Python, such
as an empty string or 0; `mapping` is every argument of `dict()`: an empty list or string, a list of pairs."""

Build: TypeAlias = Literal["gpu", "cpu", "torch"]
"""The class that DeepSpeed builds for an optimizer type: its GPU kernel, its CPU kernel, or PyTorch's class."""


@dataclass(frozen=True, slots=True)
class KeyAlias:
    """Another name for a key, which some releases read."""

    name: str
    since: str
    until: str | None = None


@dataclass(frozen=True, slots=True)
class EarlierType:
    """The type that a key had in releases up to and including `until`."""

    until: str
    type: object


@dataclass(frozen=True, slots=True)
class NonObjectValues:
    """JSON values other than objects that releases accept for a section.

    Only sections that are not pydantic models in DeepSpeed need this; otherwise the type of the field says it.
    """

    shapes: tuple[Shape, ...]
    since: str = "0.3.1"
    until: str | None = None


@dataclass(frozen=True, slots=True)
class AcceptingClasses:
    """The optimizer implementations that accept a param, up to and including release `until`."""

    builds: tuple[Build, ...]
    until: str | None = None


@dataclass(frozen=True, slots=True)
class BooleanReplacement:
    """How to replace a deprecated boolean key: set its replacement to `value` if the key is true, else remove it."""

    value: Json

    def __hash__(self) -> int:
        return hash(repr(self.value))  # a dict is not hashable


ANY_SHAPE: tuple[Shape, ...] = ("null", "true", "false", "[]", "list", "string", "number", "auto")
ANYTHING = NonObjectValues(ANY_SHAPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Metadata of a key beyond its type, default and description.

    `since` and `until` are the first and last release that read the key; `until` is None if the key is still read.
    `spans` replaces them if a key was removed and added again. `source` is the DeepSpeed file and symbol that reads it.
    """

    since: str
    source: str = ""
    until: str | None = None
    spans: tuple[tuple[str, str | None], ...] = ()
    refused_from: str | None = None
    """First release that raises as soon as the key is present, whatever its value."""
    deprecated: str | None = None
    """First release that warns about the key or names a successor."""
    replaced_by: str | None = None
    """Dotted path of the key to use instead, or a short phrase where that is not a key."""
    rewrite: Literal["rename", "negate", "move"] | BooleanReplacement | None = None
    """How to rewrite the key as the one in `replaced_by`: rename it, negate its boolean, see `BooleanReplacement`, or
    move it to another section. Only "move" leaves the section. None: it cannot be rewritten mechanically."""
    advice: str | None = None
    """Advice for a removed key without a replacement in DeepSpeed."""
    miswritten: tuple[str, ...] = ()
    """Dotted paths at which documentation, examples and other frameworks place the key, although no release
    reads it there."""
    hidden_by: str | None = None
    """A key of the same section. If it is present, DeepSpeed's hand-written parsing does not read this one."""
    opened_by: str | None = None
    """Condition under which an engine reads the key or section: the dotted path of a key that must be enabled,
    or a constant of `dsconfig.model.key`. None: every engine reads it."""
    aliases: tuple[KeyAlias, ...] = ()
    unit: str | None = None
    was: tuple[EarlierType, ...] = ()
    """Earlier types, oldest first; the annotation is the newest."""
    defaults: tuple[tuple[str, Json], ...] = ()
    """Earlier defaults as (last release that used it, value), oldest first; the field's default is the
    newest."""
    takes: tuple[NonObjectValues, ...] = ()
    fills: tuple[Filler, ...] = ()
    """Consumers that resolve "auto". The annotation then has an `Auto` arm, so that such a config can be built;
    the key table omits it, because DeepSpeed does not accept it."""
    auto_is_value: bool = False
    """DeepSpeed itself interprets "auto"; for other keys it drops "auto" or fails."""
    known: tuple[str, ...] = ()
    """Documented values, if the set is open or DeepSpeed validates it only after loading."""
    means: tuple[tuple[Json, str], ...] = ()
    """The meaning of each documented value."""
    fold_case: bool = False
    """Case does not matter when words are compared."""
    unread: bool = False
    """Accepted without effect."""
    internal: bool = False
    """For internal use by DeepSpeed, not for users."""
    not_json: bool = False
    """Cannot be given a meaningful value in JSON."""
    secret: bool = False
    """dsconfig never shows the value of any key with this name."""
    complete: bool = False
    """DeepSpeed reads the whole section when it loads the config, and raises if a key without a default is
    absent."""
    spelled_out: bool = False
    """Presets write the value even for consumers that could resolve "auto"."""
    only: tuple[AcceptingClasses, ...] = ()
    """Which classes behind an optimizer's type accept the param, oldest first; empty: all of them."""
    wrong_type: Literal["rejected", "crashes", "altered", "ignored"] | None = None
    """Usual effect of a wrong type where loading does not check it; None: it depends on the type."""

    def __hash__(self) -> int:
        # Tools hash annotations, but a default may be a list, which is not hashable.
        return hash((self.since, self.until, self.source, self.unit))


@dataclass(frozen=True, slots=True)
class SectionReading:
    """How the releases from `since` to `until` read a section.

    `by` is "hand" (dictionary look-ups, no conversion) or "pydantic" (1 up to 0.14.5, 2 from 0.15.0 on). `unknown` says
    what happens to keys that the section does not know. If `drops_auto`, keys whose value is the string "auto" are
    removed before reading, so their defaults apply.
    """

    by: Literal["hand", "pydantic"]
    since: str = "0.3.1"
    until: str | None = None
    unknown: Literal["ignored", "kept", "rejected"] = "ignored"
    drops_auto: bool = False


HAND = (SectionReading("hand"),)


# Conditions for `Key.opened_by` that the config does not show.

SCRIPT = "script"
"""A call in the script, a kind of model, or a tool."""
HALF = "half precision"
"""The model is cast to half precision."""
