"""`Section`, from which every section of the config derives, and `RootKeys`, for those of the top level."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar, TypeGuard, get_origin

from pydantic import BaseModel, ConfigDict, PrivateAttr

from dsconfig.json_types import Json, JsonObject
from dsconfig.model.key import HAND, Reads

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from typing_extensions import Self


class Section(BaseModel):
    """One JSON object of the config.

    Building one in Python is strict: a misspelt key or a wrong type raises `pydantic.ValidationError`.
    """

    READS: ClassVar[tuple[Reads, ...]] = HAND
    SOURCE: ClassVar[str] = ""
    """DeepSpeed file and symbol that read the section; keys without a source of their own inherit it."""
    NOT_KEYS: ClassVar[tuple[str, ...]] = ()
    """Names that documentation and examples show in the section, and that never meant anything."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        validate_assignment=True,
        protected_namespaces=(),
        populate_by_name=True,
        use_attribute_docstrings=False,  # costs 45 ms at import; `describe` reads them when needed
    )

    _spelled: dict[str, str] = PrivateAttr(default_factory=dict)
    """The aliases under which a loaded file has keys, by attribute."""
    _unknown: JsonObject = PrivateAttr(default_factory=dict)
    """What a loaded file holds that the model does not know."""

    @classmethod
    def absent(cls) -> Self:
        """The section as it is when a config lacks it, even if it has required keys."""
        return cls.model_construct()

    def to_dict(self) -> JsonObject:
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

    def remember(self, spelled: dict[str, str], extra: JsonObject) -> None:
        """Keep how a file spells its keys, and which of them the model does not know; for `load`."""
        self._spelled = spelled
        if self.model_extra is None:  # the class takes no such keys, but the file has them
            self._unknown = extra
        else:
            self.model_extra.update(extra)

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict()` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)


class RootKeys(Section):
    """Top-level keys that a file of the model declares: `Config` inherits from every subclass."""

    SOURCE = "runtime/config.py:DeepSpeedConfig._initialize_params"

    model_config = ConfigDict(defer_build=True)  # nobody builds the parts of `Config`


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


def _plain(value: object) -> Json:
    if isinstance(value, Section):
        return value.to_dict()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
