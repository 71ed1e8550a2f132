"""What stands on a field of the model beside its type, default and prose: `Key`, and how a section is read.

A field of the model is the only place that knows a key. Its annotation is what the newest release that reads
the key takes, its default what DeepSpeed uses when the key is absent, its docstring the prose, and `Key` the
rest: releases, unit, aliases, replacement, earlier types, who fills "auto". `dsconfig.model.walk` turns all
of it into `KeyInfo`, and `schema.generate` writes the table that the checker works on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from dsconfig.json_types import Json

Filler: TypeAlias = Literal["transformers", "accelerate"]
"""A consumer that replaces "auto" by a value of its own."""
Shape: TypeAlias = Literal[
    "null", "true", "false", "[]", "list", "string", "number", "auto", "falsy", "mapping"
]
"""A JSON value that is no object, given where a section belongs. `falsy` is what Python counts as false, an
empty string and 0 too; `mapping` what its `dict()` takes: an empty list or string, a list of pairs."""

Build: TypeAlias = Literal["gpu", "cpu", "torch"]
"""Which class stands behind the type of an optimizer: DeepSpeed's kernel, the one for offload, PyTorch's."""


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name under which a release reads the key."""

    name: str
    since: str
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Was:
    """An earlier type of a key: what releases up to and including `until` took."""

    until: str
    type: object


@dataclass(frozen=True, slots=True)
class Takes:
    """What else than an object a release takes where a section belongs, without complaint.

    Only needed for sections that DeepSpeed opens by hand; inside a pydantic section the type says it.
    """

    shapes: tuple[Shape, ...]
    since: str = "0.3.1"
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Only:
    """A param that not every class takes which a type may stand for (`OptimizerType`), up to and including
    `until`.
    """

    builds: tuple[Build, ...]
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch that is on says `value` of the key that replaced it; one that is off says nothing."""

    value: Json


ANY_SHAPE: tuple[Shape, ...] = ("null", "true", "false", "[]", "list", "string", "number", "auto")
ANYTHING = Takes(ANY_SHAPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What is known of one key beside its type, default and prose.

    `since` and `until` are the first and last release that look at the key (`until` None: still read);
    `spans` replaces them where a key came, went and came back. `source` is the DeepSpeed file and symbol
    that reads it.
    """

    since: str
    source: str = ""
    until: str | None = None
    spans: tuple[tuple[str, str | None], ...] = ()
    refused_from: str | None = None
    """First release that raises when the key is present at all, whatever its value."""
    deprecated: str | None = None
    """First release that warns about the key or names a successor."""
    replaced_by: str | None = None
    """Dotted path of the key to use instead, or a short phrase where it is no key."""
    rewrite: Literal["rename", "negate"] | Switch | None = None
    """How a config that has the key says the same with that of `replaced_by`, which stands beside it: under
    the new name, with the opposite truth, or as a switch does. None: no mere change of words does it."""
    advice: str | None = None
    """What to do about a key that is gone, and that nothing in DeepSpeed replaces."""
    miswritten: tuple[str, ...] = ()
    """Dotted paths at which documentation, examples and other frameworks write the key, where no release
    ever read it."""
    hidden_by: str | None = None
    """A key beside this one: where it is written, code that reads by hand does not open this one."""
    opened_by: str | None = None
    """What must be there before an engine looks at the value, or into the section: the dotted path of a key
    that is on, or one of `dsconfig.model.openers`. None: an engine looks at once."""
    aliases: tuple[Alias, ...] = ()
    unit: str | None = None
    was: tuple[Was, ...] = ()
    """Earlier types, oldest first; the annotation is the newest."""
    defaults: tuple[tuple[str, Json], ...] = ()
    """Earlier defaults as (last release that used it, value), oldest first; the field's default is the
    newest."""
    takes: tuple[Takes, ...] = ()
    fills: tuple[Filler, ...] = ()
    """Consumers that replace "auto" here by a value of their own. The annotation then has an `Auto` arm, so
    that such a config can be built; the checker's table leaves it out, for DeepSpeed does not take it."""
    auto_is_value: bool = False
    """DeepSpeed itself gives "auto" a meaning here; elsewhere it strips it, or stumbles over it."""
    known: tuple[str, ...] = ()
    """Values that exist today where the set is open, or checked only later than at load."""
    means: tuple[tuple[Json, str], ...] = ()
    """What each word of a closed or known set stands for."""
    fold_case: bool = False
    """Words are compared without regard to case."""
    unread: bool = False
    """Taken, and never looked at again."""
    internal: bool = False
    """Meant for DeepSpeed itself, not for users."""
    not_json: bool = False
    """Cannot be given a meaningful value in JSON."""
    secret: bool = False
    """Never shown, wherever a key of this name stands."""
    complete: bool = False
    """A section that is looked up whole as the config is loaded: it is refused where a key without default is
    left out."""
    spelled_out: bool = False
    """What a preset is about: it writes the value for a consumer too that could fill it."""
    only: tuple[Only, ...] = ()
    """Params of an optimizer that only some of its classes take; oldest first, empty for all."""
    wrong_type: Literal["rejected", "crashes", "altered", "ignored"] | None = None
    """Usual effect of a wrong type where the release does not check it at load; None: by the type."""


@dataclass(frozen=True, slots=True)
class Reads:
    """How the releases of a span read a section.

    `by` is "hand" (dictionary look-ups, no conversion) or "pydantic" (1 up to 0.14.5, 2 from 0.15.0 on).
    `unknown` says what happens to a key that the section does not know. `drops_auto`: keys whose value is
    the string "auto" are removed before reading, so that their defaults apply.
    """

    by: Literal["hand", "pydantic"]
    since: str = "0.3.1"
    until: str | None = None
    unknown: Literal["ignored", "kept", "rejected"] = "ignored"
    drops_auto: bool = False


HAND = (Reads("hand"),)
