"""`Section`, from which every section of the config derives, and `RootKeys`, for those of the top level.

Neither here nor where sections are declared are annotations text (`from __future__ import annotations`):
pydantic would evaluate each for every class that inherits it, an eighth of what importing `Config` costs.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_serializer,
    model_validator,
)

from dsconfig.core.json_types import Json, JsonObject
from dsconfig.model.key import HAND, Reads

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from typing_extensions import Self


class Section(BaseModel):
    """One JSON object of the config.

    Building one in Python is strict: a misspelled key or a wrong type raises `BuildError`, which names
    each field once, with what it takes. Two sections are equal where what is written in them is.
    """

    READS: ClassVar[tuple[Reads, ...]] = HAND
    SOURCE: ClassVar[str] = ""
    """DeepSpeed file and symbol that read the section; keys without a source of their own inherit it."""
    NOT_KEYS: ClassVar[tuple[str, ...]] = ()
    """Names that documentation and examples show in the section, and that never meant anything."""
    OWN_WORDS: ClassVar[tuple[str, ...]] = ()
    """Keys that DeepSpeed does not know, and that are meant for editors and for dsconfig."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        validate_assignment=True,
        protected_namespaces=(),
        populate_by_name=True,
        use_attribute_docstrings=False,  # costs 45 ms at import; `describe` reads them when needed
        defer_build=True,  # `Config` builds the sections in it; of the others few are ever built alone
    )

    _spelled: dict[str, str] = PrivateAttr(default_factory=dict)
    """The aliases under which keys were written, by attribute."""
    _unknown: JsonObject = PrivateAttr(default_factory=dict)
    """What was written and the model does not know."""
    _order: tuple[str, ...] = PrivateAttr(default=())
    """The keys in the order in which they were written, as they were spelt."""

    if not TYPE_CHECKING:  # to which neither takes just anything

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _for_users(type(self), values, error) from None

        # Else pydantic takes sections within others through here too, and the paths of its errors end here.
        __init__.__pydantic_base_init__ = True

        def __setattr__(self, name: str, value: object) -> None:
            if name.startswith("_"):
                super().__setattr__(name, value)
                return
            from dsconfig.model.build_section import take, typed_params

            given = {"type": getattr(self, "type", None), name: value} if name == "params" else {name: value}
            taken = take(type(self), self.OWN_WORDS, given)
            try:
                if taken.wrong:
                    raise taken.complaint(type(self), None)
                super().__setattr__(name, taken.values.get(name, value))
                if name == "type" and isinstance(params := self.__dict__.get("params"), Section):
                    with suppress(ValidationError):  # those of the other type may follow
                        self.__dict__["params"] = typed_params(type(self), self.type, params.to_dict())
            except ValidationError as error:
                raise _for_users(type(self), {name: value}, error) from None

    @model_validator(mode="wrap")
    @classmethod
    def _build(cls, data: Any, build: "ModelWrapValidatorHandler[Self]") -> "Self":
        """Take Python's values, build, and keep how everything was written."""
        if not isinstance(data, dict) or not data:
            return build(data)
        from dsconfig.model.build_section import take

        taken = take(cls, cls.OWN_WORDS, data)
        try:
            made = build(taken.values)
        except ValidationError as error:
            raise taken.complaint(cls, error) from None
        if taken.wrong:
            raise taken.complaint(cls, None)
        made.remember(taken.spelled, taken.unknown, tuple(data))
        return made

    @model_serializer
    def _dump(self) -> dict[str, Any]:
        """What was set, for `model_dump` too, also of another model that has this one as a field."""
        return self.to_dict()

    @classmethod
    def absent(cls) -> "Self":
        """The section as it is when a config lacks it, even if it has required keys."""
        return cls.model_construct()

    def to_dict(self) -> JsonObject:
        """Exactly what was set, under the keys of the JSON, in their order and in its types."""
        found = {word: plain(value) for word, (_, value) in self.written().items()}
        return {word: found[word] for word in self._order if word in found} | found

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict()` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def remember(self, spelled: dict[str, str], extra: JsonObject, order: tuple[str, ...]) -> None:
        """Keep how the keys were spelt, those that the model does not know, and the order of all."""
        self._spelled, self._order = spelled, order
        if self.model_extra is None:  # the class takes no such keys, but there are some
            self._unknown = extra
        else:
            self.model_extra.update(extra)

    @property
    def remembered(self) -> JsonObject:
        """What is written and the model does not know, by key; to change it, change this."""
        return self._unknown if self.model_extra is None else self.model_extra

    def keeps(self, word: str) -> bool:
        """Whether a key that the model does not know may be written here."""
        own = bool(self.OWN_WORDS) and (word in self.OWN_WORDS or word.startswith("//"))
        return own or word in self.remembered or self.model_extra is not None

    def forget(self, name: str) -> None:
        """Leave a key out that was written; its attribute has its default again."""
        field = type(self).model_fields[name]
        self.__dict__[name] = field.get_default(call_default_factory=True)
        self.model_fields_set.discard(name)

    def adopt(self, name: str, value: object, spelt: str) -> None:
        """Set an attribute as another section holds it, which may have read it from a file."""
        if name not in self.model_fields_set and spelt != name:
            self._spelled[name] = spelt
        self.__dict__[name] = value
        self.model_fields_set.add(name)

    def written(self) -> dict[str, tuple[str | None, object]]:
        """What was set, by the key of the JSON: the attribute, if there is one, and the value."""
        found: dict[str, tuple[str | None, object]] = {}
        values, spelled = self.__dict__, self._spelled
        for name, field in type(self).model_fields.items():
            if name in values and _is_set(self, name, field):  # an absent section lacks its required keys
                found[spelled.get(name) or field.alias or name] = (name, values[name])
        for word, value in {**(self.model_extra or {}), **self._unknown}.items():
            found[word] = (None, value)
        return found

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Section):
            return NotImplemented
        return _frozen(self.to_dict()) == _frozen(other.to_dict())

    def __hash__(self) -> int:
        return hash((type(self).__name__, _frozen(self.to_dict())))

    def __repr_args__(self) -> Iterator[tuple[str | None, object]]:
        from dsconfig.model.keyinfo import is_secret

        written = self.written()
        order = dict.fromkeys((*(word for word in self._order if word in written), *written))
        rest = {}
        for word in order:
            name, value = written[word]
            shown = "***" if value is not None and is_secret(word) and isinstance(value, str) else value
            if name is None:
                rest[word] = shown
            else:
                yield name, shown
        if rest:
            yield None, _Rest(rest)

    def __str__(self) -> str:
        return repr(self)


class RootKeys(Section):
    """Top-level keys that a file of the model declares: `Config` inherits from every subclass."""

    SOURCE = "runtime/config.py:DeepSpeedConfig._initialize_params"
    OWN_WORDS = ("$schema", "$dsconfig")


class _Rest(dict[str, object]):
    """Keys that are not keyword arguments, as a call would pass them."""

    def __repr__(self) -> str:
        return f"**{super().__repr__()}"


def is_section(annotation: object) -> TypeGuard[type[Section]]:
    """Whether an annotation is a section class. Python 3.10 takes `list[int]` for a class."""
    return get_origin(annotation) is None and isinstance(annotation, type) and issubclass(annotation, Section)


def _for_users(section: type[Section], values: Mapping[str, object], error: ValidationError) -> Exception:
    """The error in words of the config; pydantic knows only its own."""
    from dsconfig.model.build_section import KIND, build_error, in_words
    from dsconfig.model.keyinfo import keys_of

    if any(each["type"] != KIND for each in error.errors(include_url=False)):
        error = in_words(section.__name__, keys_of(section), values, error)
    return build_error(section.__name__, error)


def _is_set(section: Section, name: str, field: "FieldInfo") -> bool:
    """Whether a key was given, or something was set inside the value that stands there by default."""
    if name in section.model_fields_set:
        return True
    value = section.__dict__.get(name)
    if isinstance(value, Section):
        fields = type(value).model_fields
        return bool(value.remembered) or any(_is_set(value, inner, fields[inner]) for inner in fields)
    return isinstance(value, list | dict) and value != field.get_default(call_default_factory=True)


def plain(value: object) -> Json:
    """A copy of a value in which sections are dicts, and tuples lists."""
    if isinstance(value, Section):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _frozen(value: Json) -> object:
    """What is written, in a form that can be compared and hashed: `true` is not 1, as it is to Python."""
    if isinstance(value, dict):
        return frozenset((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return ("bool", value) if isinstance(value, bool) else value
