"""`Section`, the base class of config sections; `RootKeys`, the base class of top-level keys; and types of fields.

No module that declares sections uses `from __future__ import annotations`: pydantic would evaluate each
annotation again in every subclass, which takes an eighth of the import time of `Config`.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, TypeGuard, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_serializer,
    model_validator,
)

from dsconfig.core.json_types import Json, JsonObject, Spec
from dsconfig.model.key import HAND, SectionReading

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from typing_extensions import Self


class Section(BaseModel):
    """A JSON object of the config, as a typed class.

    Building one in Python is strict: a misspelled key or a wrong type raises `BuildError`, which lists
    each wrong field once, with the values that it accepts. Two sections are equal if the same keys are set to
    the same values.
    """

    READS: ClassVar[tuple[SectionReading, ...]] = HAND
    SOURCE: ClassVar[str] = ""
    """DeepSpeed file and symbol that read the section; keys without a source of their own inherit it."""
    NOT_KEYS: ClassVar[tuple[str, ...]] = ()
    """Names in documentation and examples of the section that never had a meaning."""
    EDITOR_KEYS: ClassVar[tuple[str, ...]] = ()
    """Keys for editors and for dsconfig, which DeepSpeed ignores."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        validate_assignment=True,
        protected_namespaces=(),
        populate_by_name=True,
        use_attribute_docstrings=False,  # costs 45 ms at import; `iter_fields.field_docstrings` parses them when needed
        defer_build=True,  # `Config` builds its sections; few others are ever built alone
    )

    _spelled: dict[str, str] = PrivateAttr(default_factory=dict)
    """The aliases with which keys were set, by attribute."""
    _unknown: JsonObject = PrivateAttr(default_factory=dict)
    """Unknown keys that were set."""
    _order: tuple[str, ...] = PrivateAttr(default=())
    """The keys as they were spelled, in the order in which they were set."""

    if not TYPE_CHECKING:  # type checkers read the stub

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _translate_build_error(type(self), values, error) from None

        # Otherwise pydantic calls `__init__` for inner sections too, and loses the outer part of error paths.
        __init__.__pydantic_base_init__ = True

        def __setattr__(self, name: str, value: object) -> None:
            if name.startswith("_"):
                super().__setattr__(name, value)
                return
            from dsconfig.model.build_section import convert_section_input, params_as_class

            values = {"type": getattr(self, "type", None), name: value} if name == "params" else {name: value}
            section_input = convert_section_input(type(self), self.EDITOR_KEYS, values)
            try:
                if section_input.wrong:
                    raise section_input.to_error(type(self), None)
                super().__setattr__(name, section_input.values.get(name, value))
                if name == "type" and isinstance(params := self.__dict__.get("params"), Section):
                    with suppress(ValidationError):  # params of the new type may be set later
                        self.__dict__["params"] = params_as_class(type(self), self.type, params.to_dict())
            except ValidationError as error:
                raise _translate_build_error(type(self), {name: value}, error) from None

    @model_validator(mode="wrap")
    @classmethod
    def _build_from_values(cls, data: Any, build: "ModelWrapValidatorHandler[Self]") -> "Self":
        """Convert Python values to JSON and build the section, keeping spelling and key order."""
        if not isinstance(data, dict) or not data:
            return build(data)
        from dsconfig.model.build_section import convert_section_input

        section_input = convert_section_input(cls, cls.EDITOR_KEYS, data)
        try:
            section = build(section_input.values)
        except ValidationError as error:
            raise section_input.to_error(cls, error) from None
        if section_input.wrong:
            raise section_input.to_error(cls, None)
        section.set_spelling(section_input.spelled, section_input.unknown, tuple(data))
        return section

    @model_serializer
    def _dump_set_keys(self) -> dict[str, Any]:
        """Return the keys that were set, for `model_dump` of this section or of a model that contains it."""
        return self.to_dict()

    @classmethod
    def absent(cls) -> "Self":
        """Return the section as if the config did not contain it, without its required keys."""
        return cls.model_construct()

    def to_dict(self) -> JsonObject:
        """Return the keys that were set, with the names, order and types they have in JSON."""
        values = {key: to_plain_value(value) for key, (_, value) in self.set_keys().items()}
        return {key: values[key] for key in self._order if key in values} | values

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict()` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def set_spelling(self, spelled: dict[str, str], extra: JsonObject, order: tuple[str, ...]) -> None:
        """Store the spelling of the keys, the unknown keys, and the order of all keys."""
        self._spelled, self._order = spelled, order
        if self.model_extra is None:  # the class does not allow unknown keys, but the file contains some
            self._unknown = extra
        else:
            self.model_extra.update(extra)

    @property
    def unknown_keys(self) -> JsonObject:
        """Unknown keys that were set, as a mutable mapping."""
        return self._unknown if self.model_extra is None else self.model_extra

    def allows(self, key: str) -> bool:
        """Return whether the unknown key `key` may be set in this section."""
        is_editor_key = bool(self.EDITOR_KEYS) and (key in self.EDITOR_KEYS or key.startswith("//"))
        return is_editor_key or key in self.unknown_keys or self.model_extra is not None

    def unset(self, name: str) -> None:
        """Remove a key that was set, resetting its attribute to the default."""
        field = type(self).model_fields[name]
        self.__dict__[name] = field.get_default(call_default_factory=True)
        self.model_fields_set.discard(name)

    def set_unvalidated(self, name: str, value: object, spelling: str) -> None:
        """Set an attribute to a value from another section, without validation."""
        if name not in self.model_fields_set and spelling != name:
            self._spelled[name] = spelling
        self.__dict__[name] = value
        self.model_fields_set.add(name)

    def set_keys(self) -> dict[str, tuple[str | None, object]]:
        """Return the keys that were set, with the attribute (None for an unknown key) and value of each."""
        by_key: dict[str, tuple[str | None, object]] = {}
        values, spelled = self.__dict__, self._spelled
        for name, field in type(self).model_fields.items():
            if name in values and _is_key_set(
                self, name, field
            ):  # an absent section has no values for its required keys
                by_key[spelled.get(name) or field.alias or name] = (name, values[name])
        for key, value in {**(self.model_extra or {}), **self._unknown}.items():
            by_key[key] = (None, value)
        return by_key

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Section):
            return NotImplemented
        return _hashable_value(self.to_dict()) == _hashable_value(other.to_dict())

    def __hash__(self) -> int:
        return hash((type(self).__name__, _hashable_value(self.to_dict())))

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        from dsconfig.model.key_table import may_be_secret

        by_key = self.set_keys()
        order = dict.fromkeys((*(key for key in self._order if key in by_key), *by_key))
        unknown = {}
        for key in order:
            name, value = by_key[key]
            display = "***" if value is not None and may_be_secret(key) and isinstance(value, str) else value
            if name is None:
                unknown[key] = display
            else:
                yield name, display
        if unknown:
            yield None, _UnknownKeys(unknown)

    def __str__(self) -> str:
        return repr(self)


class RootKeys(Section):
    """Top-level keys declared by one module of the model; `Config` inherits from all subclasses."""

    SOURCE = "runtime/config.py:DeepSpeedConfig._initialize_params"
    EDITOR_KEYS = ("$schema", "$dsconfig")


class _UnknownKeys(dict[str, object]):
    """Unknown keys, shown as `**{...}` in the repr of a section."""

    def __repr__(self) -> str:
        return f"**{super().__repr__()}"


def is_section(annotation: object) -> TypeGuard[type[Section]]:
    """Return whether an annotation is a section class; in Python 3.10, `list[int]` also counts as a `type`."""
    return get_origin(annotation) is None and isinstance(annotation, type) and issubclass(annotation, Section)


def _translate_build_error(
    section: type[Section], values: Mapping[str, object], error: ValidationError
) -> Exception:
    """Translate a pydantic error into one that names keys as in the config."""
    from dsconfig.model.build_section import KIND, build_error, translate_pydantic_error
    from dsconfig.model.key_table import keys_of_section_or_base

    if any(each["type"] != KIND for each in error.errors(include_url=False)):
        error = translate_pydantic_error(section.__name__, keys_of_section_or_base(section), values, error)
    return build_error(section.__name__, error)


def _is_key_set(section: Section, name: str, field: "FieldInfo") -> bool:
    """Return whether a key, or a key inside its default section, was set."""
    if name in section.model_fields_set:
        return True
    value = section.__dict__.get(name)
    if isinstance(value, Section):
        fields = type(value).model_fields
        return bool(value.unknown_keys) or any(_is_key_set(value, inner, fields[inner]) for inner in fields)
    return isinstance(value, list | dict) and value != field.get_default(call_default_factory=True)


def to_plain_value(value: object) -> Json:
    """Copy a value, converting sections to dicts and tuples to lists."""
    if isinstance(value, Section):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: to_plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain_value(item) for item in value]
    return value


def _hashable_value(value: Json) -> object:
    """Convert a JSON value to a hashable form in which `true` and 1 differ."""
    if isinstance(value, dict):
        return frozenset((key, _hashable_value(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(_hashable_value(item) for item in value)
    return ("bool", value) if isinstance(value, bool) else value


# Types of fields.


def _reject_bool_as_int(value: object) -> object:
    if type(value) is not int:
        raise ValueError("Input should be an integer, not a float, a boolean or a string")
    return value


EXACT_INT = BeforeValidator(_reject_bool_as_int)
"""Validator for a `Literal` of integers, for which pydantic would also accept `True` and `3.0`."""


@dataclass(frozen=True, slots=True)
class TypeCheckedByDeepSpeed:
    """Annotation with the type that DeepSpeed checks, if it differs from the Python type."""

    spec: Spec


Auto: TypeAlias = Literal["auto"]
PositiveInt: TypeAlias = Annotated[int, Field(gt=0)]
NonNegativeInt: TypeAlias = Annotated[int, Field(ge=0)]
NonNegativeFloat: TypeAlias = Annotated[float, Field(ge=0)]
Fraction: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Pair: TypeAlias = Annotated[list[float], Field(min_length=2, max_length=2)]
PathText: TypeAlias = Annotated[str, TypeCheckedByDeepSpeed(("path",))]
"""A string that DeepSpeed converts to a `pathlib.Path`."""
Names: TypeAlias = Annotated[list[str], TypeCheckedByDeepSpeed(("list", ("any",)))]
"""A list of names; DeepSpeed checks that it is a list, but not its items."""
PythonObject: TypeAlias = Annotated[object, TypeCheckedByDeepSpeed(("never",))]
"""A Python object: the release accepts no JSON value."""
FreeForm: TypeAlias = dict[str, Any]  # and not `Json`, because pydantic evaluates the type
"""A section with the keys of another program (a model, a script, a plugin); each use names it."""
ABSENT: Json = None
"""Default of an optional key that has no default value and does not accept null."""
DERIVED: Json = None
"""Default of an optional key whose value DeepSpeed derives, as its docstring describes."""
