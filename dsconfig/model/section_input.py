"""What a section takes when it is built from Python: values in words of JSON, params by their type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails

from dsconfig import model
from dsconfig.core.json_types import Json, JsonObject
from dsconfig.model.build_errors import entries, in_words, not_a_string, not_json, unknown, wrong
from dsconfig.model.keyinfo import KeyInfo, keys_of, type_named
from dsconfig.model.to_json_value import NotJsonError, as_json, in_json, is_free


@dataclass(slots=True)
class Taken:
    """What one section was given, apart by what becomes of it."""

    values: JsonObject = field(default_factory=dict)
    """Values of fields, by attribute, and keys that are not fields."""
    spelled: dict[str, str] = field(default_factory=dict)
    unknown: JsonObject = field(default_factory=dict)
    """What the model does not know, and keeps."""
    wrong: list[InitErrorDetails] = field(default_factory=list)
    """What is wrong, besides anything that pydantic finds."""

    def complaint(self, section: type[BaseModel], error: ValidationError | None) -> ValidationError:
        """One entry for each field that is wrong, in words of the config."""
        if error is not None:
            told = {line["loc"][:1] for line in self.wrong}
            found = entries(in_words(section.__name__, keys_of(section), self.values, error))
            self.wrong += [line for line in found if line["loc"][:1] not in told]
        return ValidationError.from_exception_data(section.__name__, self.wrong)

    def field(self, info: KeyInfo, value: object) -> None:
        """A value of a field, as JSON has it where JSON has it at all."""
        value = as_json(value, info.type)
        if is_free(info.type) or isinstance(value, int):
            value = self.of_json(info.name, value)
        self.values[info.name] = value

    def of_json(self, word: str, value: object) -> Json:
        """A value where JSON's are the only ones that are not taken; None in place of any other."""
        try:
            return in_json(value)
        except NotJsonError as error:
            self.wrong.append(not_json(word, error, value))
            return None


def take(section: type[BaseModel], own_words: tuple[str, ...], data: Mapping[Any, Any]) -> Taken:
    """Take the values of a section: `2e8`, paths, enums and tuples become what JSON has for them.

    `own_words` are kept although DeepSpeed does not know them, and remarks beside them.
    """
    keys, taken = keys_of(section), Taken()
    names = {alias: info.name for info in keys.values() for alias, _ in info.aliases}
    open_ended = section.model_config.get("extra") == "allow"
    for word, value in data.items():
        name = names.get(word, word)
        if not isinstance(word, str):
            taken.wrong.append(not_a_string(word, data))
        elif word in own_words or (own_words and word.startswith("//")):
            taken.unknown[word] = taken.of_json(word, value)
        elif word != name and name not in data:
            taken.spelled[name] = word
            taken.field(keys[name], value)
        elif word in keys:
            taken.field(keys[word], value)
        elif not word.isprintable():  # which pydantic may not be able to say
            taken.wrong.append(unknown(word, keys, value))
        else:
            taken.values[word] = taken.of_json(word, value) if open_ended else value
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
