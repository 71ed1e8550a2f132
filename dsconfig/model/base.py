"""The vocabulary of the model: what stands on a field, and the section every part of the config derives
from.

A field of the model is the only place that knows a key. Its annotation is what the newest release that reads
the key takes, its default what DeepSpeed uses when the key is absent, its docstring the prose, and `Key` the
rest: releases, unit, aliases, replacement, earlier types, who fills "auto". `dsconfig.model.walk` turns all
of it into `KeyInfo`, and `schema.generate` writes the table that the checker works on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, TypeGuard, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from typing_extensions import Self

Consumer: TypeAlias = Literal["transformers", "accelerate", "lightning"]
Shape: TypeAlias = Literal[
    "null", "true", "false", "[]", "list", "string", "number", "auto", "falsy", "mapping"
]
"""A JSON value that is no object, given where a section belongs. `falsy` is what Python counts as false, an
empty string and 0 too; `mapping` what its `dict()` takes: an empty list or string, a list of pairs."""

Build: TypeAlias = Literal["gpu", "cpu", "torch"]
"""Which class stands behind the type of an optimizer: DeepSpeed's kernel, the one for offload, PyTorch's."""


def _exact_int(value: object) -> object:
    if type(value) is not int:
        raise ValueError("Input should be an integer, not a float, a boolean or a string")
    return value


EXACT_INT = BeforeValidator(_exact_int)
"""Stands beside a `Literal` of integers, to which pydantic would let `True` and `3.0` through."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Stands beside a Python type where DeepSpeed checks another one: the type that the checker goes by, as
    in `dsconfig.model.spec`.
    """

    spec: tuple[Any, ...]


Auto: TypeAlias = Literal["auto"]
PositiveInt: TypeAlias = Annotated[int, Field(gt=0)]
NonNegativeInt: TypeAlias = Annotated[int, Field(ge=0)]
NonNegativeFloat: TypeAlias = Annotated[float, Field(ge=0)]
Fraction: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Pair: TypeAlias = Annotated[list[float], Field(min_length=2, max_length=2)]
PathText: TypeAlias = Annotated[str, Checked(("path",))]
"""A `pathlib.Path` of DeepSpeed's."""
Names: TypeAlias = Annotated[list[str], Checked(("list", ("any",)))]
"""Meant to hold names; DeepSpeed looks only at the list, never at what is in it."""
PythonObject: TypeAlias = Annotated[object, Checked(("never",))]
"""An object of Python that the release insists on: no JSON value will do."""
FreeForm: TypeAlias = dict[str, Any]
"""A section whose keys belong to somebody else (a model, a script, a plugin); every use says whose."""
ABSENT: Any = None
"""Default of a key that may be left out, has no default of its own, and does not take null."""
DERIVED: Any = None
"""The same, where DeepSpeed works the value out; the docstring says how."""


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
    type: Any


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


ANYTHING = Takes(("null", "true", "false", "[]", "list", "string", "number", "auto"))


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
    aliases: tuple[Alias, ...] = ()
    unit: str | None = None
    was: tuple[Was, ...] = ()
    """Earlier types, oldest first; the annotation is the newest."""
    defaults: tuple[tuple[str, Any], ...] = ()
    """Earlier defaults as (last release that used it, value), oldest first; the field's default is the
    newest."""
    takes: tuple[Takes, ...] = ()
    fills: tuple[Consumer, ...] = ()
    """Consumers that replace "auto" here by a value of their own. The annotation then has an `Auto` arm, so
    that such a config can be built; the checker's table leaves it out, for DeepSpeed does not take it."""
    auto_is_value: bool = False
    """DeepSpeed itself gives "auto" a meaning here; elsewhere it strips it, or stumbles over it."""
    known: tuple[str, ...] = ()
    """Values that exist today where the set is open, or checked only later than at load."""
    means: tuple[tuple[Any, str], ...] = ()
    """What each word of a closed or known set stands for."""
    fold_case: bool = False
    """Words are compared without regard to case."""
    unread: bool = False
    """Taken, and never looked at again."""
    internal: bool = False
    """Meant for DeepSpeed itself, not for users."""
    not_json: bool = False
    """Cannot be given a meaningful value in JSON."""
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


class Section(BaseModel):
    """One JSON object of the config.

    Building one in Python is strict: a misspelt key or a wrong type raises `pydantic.ValidationError` at
    once.
    """

    READS: ClassVar[tuple[Reads, ...]] = HAND
    SOURCE: ClassVar[str] = ""
    """DeepSpeed file and symbol that reads the section; keys without a source of their own inherit it."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        validate_assignment=True,
        protected_namespaces=(),
        populate_by_name=True,
        use_attribute_docstrings=False,  # costs 45 ms at import; the walker reads them when somebody asks
    )

    _spelled: dict[str, str] = PrivateAttr(default_factory=dict)
    """The aliases under which a loaded file has keys, by attribute."""
    _unknown: dict[str, Any] = PrivateAttr(default_factory=dict)
    """What a loaded file holds that the model does not know."""

    @classmethod
    def absent(cls) -> Self:
        """The section as it is when nobody wrote it, also where it has required keys."""
        return cls.model_construct()

    def to_dict(self) -> dict[str, Any]:
        """Return exactly what was set, under the keys of the JSON and in its types."""
        plain = {}
        for name, field in type(self).model_fields.items():
            if name not in self.__dict__:  # a required key of an absent section
                continue
            value = self.__dict__[name]
            if name in self.model_fields_set or _touched(value, field):
                plain[self._spelled.get(name) or field.alias or name] = _plain(value)
        for name, value in {**(self.model_extra or {}), **self._unknown}.items():
            plain[name] = _plain(value)
        return plain

    def remember(self, spelled: dict[str, str], extra: dict[str, Any]) -> None:
        """Keep how a file spells keys, and what it holds that the model does not know; for `load`."""
        self._spelled = spelled
        if self.model_extra is None:  # the class takes no such keys, but the file has them
            self._unknown = extra
        else:
            self.model_extra.update(extra)

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict()` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)


def is_section(annotation: object) -> TypeGuard[type[Section]]:
    """Whether an annotation is a section class. Python 3.10 takes `list[int]` for a class."""
    return get_origin(annotation) is None and isinstance(annotation, type) and issubclass(annotation, Section)


def _touched(value: object, field: FieldInfo) -> bool:
    """Whether something was set inside a value that stands there by default."""
    if isinstance(value, Section):
        return bool(value.to_dict())
    if isinstance(value, (list, dict)):
        return bool(value != field.get_default(call_default_factory=True))
    return False


def _plain(value: object) -> Any:
    if isinstance(value, Section):
        return value.to_dict()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
