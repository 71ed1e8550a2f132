"""`Key`: everything known of a key apart from its type, default and description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dsconfig.core.json_types import Json

# `Key`: everything known of a key apart from its type, default and description; and how a section is read.
#
# A field of the model is the only place that knows a key. Its annotation is what the newest release that reads
# the key accepts, its default what DeepSpeed uses when the key is absent, its docstring the description, and
# `Key` the rest: releases, unit, aliases, replacement, earlier types, who fills "auto". `schema.generate` turns
# all of it into the table that the checker works on, which `dsconfig.model.keyinfo` reads.

Filler: TypeAlias = Literal["transformers", "accelerate"]
"""A consumer that replaces "auto" with a value of its own."""
Shape: TypeAlias = Literal[
    "null", "true", "false", "[]", "list", "string", "number", "auto", "falsy", "mapping"
]
"""A JSON value other than an object where a section belongs. `falsy` is whatever Python counts as false, such
as an empty string or 0; `mapping` is what `dict()` accepts: an empty list or string, a list of pairs."""

Build: TypeAlias = Literal["gpu", "cpu", "torch"]
"""Which class an optimizer's type leads to: DeepSpeed's kernel, its kernel for offload, or PyTorch's own."""


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name under which a release reads the key."""

    name: str
    since: str
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Was:
    """An earlier type of a key: what releases up to and including `until` accepted."""

    until: str
    type: object


@dataclass(frozen=True, slots=True)
class Takes:
    """What a release accepts in place of an object where a section belongs.

    Only sections that DeepSpeed opens by hand need it; inside a pydantic section the type says so.
    """

    shapes: tuple[Shape, ...]
    since: str = "0.3.1"
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Only:
    """The classes behind an optimizer's type that accept a param, up to and including `until`."""

    builds: tuple[Build, ...]
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch that is on becomes `value` under the key that replaced it; one that is off is dropped."""

    value: Json

    def __hash__(self) -> int:
        return hash(repr(self.value))  # an object has no hash of its own


ANY_SHAPE: tuple[Shape, ...] = ("null", "true", "false", "[]", "list", "string", "number", "auto")
ANYTHING = Takes(ANY_SHAPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What is known of one key apart from its type, default and description.

    `since` and `until` are the first and last release that read the key (`until` None: it is still read);
    `spans` replaces them where a key came, went and came back. `source` is the DeepSpeed file and symbol
    that reads it.
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
    rewrite: Literal["rename", "negate"] | Switch | None = None
    """How to express the key through the one in `replaced_by`, which stands beside it: rename it, negate its
    boolean, or see `Switch`. None: it cannot be rewritten mechanically."""
    advice: str | None = None
    """What to do about a removed key that nothing in DeepSpeed replaces."""
    miswritten: tuple[str, ...] = ()
    """Dotted paths at which documentation, examples and other frameworks write the key, although no release
    ever read it there."""
    hidden_by: str | None = None
    """A sibling key: where it is present, DeepSpeed's hand-written readers do not look at this one."""
    opened_by: str | None = None
    """What makes an engine look at the value, or into the section: the dotted path of a key that is on, or
    one of `dsconfig.model.key`. None: every engine looks."""
    aliases: tuple[Alias, ...] = ()
    unit: str | None = None
    was: tuple[Was, ...] = ()
    """Earlier types, oldest first; the annotation is the newest."""
    defaults: tuple[tuple[str, Json], ...] = ()
    """Earlier defaults as (last release that used it, value), oldest first; the field's default is the
    newest."""
    takes: tuple[Takes, ...] = ()
    fills: tuple[Filler, ...] = ()
    """Consumers that replace "auto" here with a value of their own. The annotation then has an `Auto` arm, so
    that such a config can be built; the checker's table leaves it out, since DeepSpeed does not accept it."""
    auto_is_value: bool = False
    """DeepSpeed itself gives "auto" a meaning here; elsewhere it drops it, or fails on it."""
    known: tuple[str, ...] = ()
    """Values that exist today, where the set is open or checked only after loading."""
    means: tuple[tuple[Json, str], ...] = ()
    """What each value of a closed or known set stands for."""
    fold_case: bool = False
    """Case does not matter when words are compared."""
    unread: bool = False
    """Accepted, and never looked at again."""
    internal: bool = False
    """Meant for DeepSpeed itself, not for users."""
    not_json: bool = False
    """Cannot be given a meaningful value in JSON."""
    secret: bool = False
    """The value is never shown, wherever a key of this name stands."""
    complete: bool = False
    """The section is read completely while the config is loaded, so that leaving out a key without a default
    raises."""
    spelled_out: bool = False
    """What a preset is about: the value is written out even for a consumer that could fill it."""
    only: tuple[Only, ...] = ()
    """Which classes behind an optimizer's type accept the param, oldest first; empty: all of them."""
    wrong_type: Literal["rejected", "crashes", "altered", "ignored"] | None = None
    """Usual effect of a wrong type where loading does not check it; None: it depends on the type."""

    def __hash__(self) -> int:
        # Programs that read annotations keep them in tables; defaults may be lists, which have no hash.
        return hash((self.since, self.until, self.source, self.unit))


@dataclass(frozen=True, slots=True)
class Reads:
    """How releases from `since` to `until` read a section.

    `by` is "hand" (dictionary look-ups, no conversion) or "pydantic" (1 up to 0.14.5, 2 from 0.15.0 on).
    `unknown` says what happens to keys that the section does not know. `drops_auto`: keys whose value is the
    string "auto" are removed before reading, so that their defaults apply.
    """

    by: Literal["hand", "pydantic"]
    since: str = "0.3.1"
    until: str | None = None
    unknown: Literal["ignored", "kept", "rejected"] = "ignored"
    drops_auto: bool = False


HAND = (Reads("hand"),)


# What makes an engine look at a value or into a section, besides the switches in the config.

SCRIPT = "script"
"""A call in the script, a kind of model, a tool: nothing that the config shows."""
HALF = "half precision"
"""Casting the model to half precision."""
