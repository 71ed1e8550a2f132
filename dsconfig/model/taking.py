"""What a section takes when it is built from Python: values in words of JSON, params by their type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails

from dsconfig import model
from dsconfig.json_types import JsonObject
from dsconfig.model.keyinfo import keys_of, type_named
from dsconfig.model.problems import entries, in_words, wrong
from dsconfig.model.values import as_json


@dataclass(slots=True)
class Taken:
    """What one section was given, apart by what becomes of it."""

    values: JsonObject = field(default_factory=dict)
    """Values of fields, by attribute, and keys that are not fields."""
    spelled: dict[str, str] = field(default_factory=dict)
    unknown: JsonObject = field(default_factory=dict)
    """What the model does not know, and keeps."""
    wrong: list[InitErrorDetails] = field(default_factory=list)
    """What is wrong with params, besides anything that pydantic finds."""

    def complaint(self, section: type[BaseModel], error: ValidationError | None) -> ValidationError:
        """One entry for each field that is wrong, in words of the config."""
        if error is not None:
            self.wrong += entries(in_words(section.__name__, keys_of(section), self.values, error))
        return ValidationError.from_exception_data(section.__name__, self.wrong)


def take(section: type[BaseModel], own_words: tuple[str, ...], data: Mapping[str, Any]) -> Taken:
    """Take the values of a section: `2e8`, paths, enums and tuples become what JSON has for them.

    `own_words` are kept although DeepSpeed does not know them, and remarks beside them.
    """
    keys, taken = keys_of(section), Taken()
    names = {alias: info.name for info in keys.values() for alias, _ in info.aliases}
    for word, value in data.items():
        name = names.get(word, word)
        if word in own_words or (own_words and word.startswith("//")):
            taken.unknown[word] = value
        elif word != name and name not in data:
            taken.spelled[name] = word
            taken.values[name] = as_json(value, keys[name].type)
        else:
            taken.values[word] = as_json(value, keys[word].type) if word in keys else value
    if "params" in taken.values:
        _take_params(section, taken)
    return taken


def _take_params(section: type[BaseModel], taken: Taken) -> None:
    try:
        taken.values["params"] = typed_params(section, taken.values.get("type"), taken.values["params"])
    except ValidationError as error:
        del taken.values["params"]
        taken.wrong += entries(error)


def typed_params(section: type[BaseModel], type_: object, params: object) -> object:
    """Params as those of the type that stands beside them; as they are where DeepSpeed has no such type.

    Raises:
        ValidationError: they do not fit the type.
    """
    kind = type_named(section.__name__, type_)
    if kind is None or kind.params is None:
        return params
    wanted: type[BaseModel] = getattr(model, kind.params)
    if isinstance(params, BaseModel) and not isinstance(params, wanted):
        accepted = f'`{wanted.__name__}` beside type `"{kind.name}"`'
        line = wrong("params", keys_of(section)["params"], f"{type(params).__name__}(…)", accepted)
        raise ValidationError.from_exception_data(section.__name__, [line])
    if not isinstance(params, dict):
        return params
    try:
        return wanted.model_validate(params)
    except ValidationError as error:
        raise ValidationError.from_exception_data(section.__name__, entries(error, ("params",))) from None
