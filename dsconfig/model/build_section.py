"""Build a section from Python values, and report the values that it does not accept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from dsconfig import model
from dsconfig.core.diagnostic import dotted_path, truncate_middle
from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple, Spec
from dsconfig.core.wording import (
    closest_words,
    describe_type,
    join_alternatives,
    join_phrases,
    json_kind,
    quote_value,
)
from dsconfig.model.key_table import KeyInfo, find_type, keys_of_section_or_base, may_be_secret
from dsconfig.model.to_json_value import (
    JSON_VALUE,
    NotJsonError,
    accepts_any_value,
    to_json_if_accepted,
    to_json_value,
)

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


# Problems: one per field, with a message in terms of the config instead of pydantic's.

KIND = "config"
"""Type of dsconfig's entries among the entries of a pydantic error."""
_FEW_KEYS = 4


class BuildProblem(NamedTuple):
    """A field whose value the section does not accept."""

    path: str
    """The dotted path of the field, such as `zero_optimization.stage`."""
    message: str
    """The message about the field in one line, which continues its path."""
    accepted: str | None
    """The values that the field accepts, in words; None for an unknown field."""
    given: object
    """The rejected value; None if the field is missing."""
    meant: tuple[str, ...] = ()
    """Known names that are similar to an unknown one."""


class BuildError(ValueError):
    """A section cannot be built from the given values; `problems` lists the fields and the values they accept."""

    def __init__(self, section: str, problems: Iterable[BuildProblem]) -> None:
        self.section, self.problems = section, tuple(problems)
        lines = [
            f"`{_printable_path(each.path)}` {each.message}" if each.path else each.message
            for each in self.problems
        ]
        text = f" {lines[0]}" if len(lines) == 1 else "".join(f"\n  {line}" for line in lines)
        super().__init__(f"{section}:{text}")

    def __reduce__(self) -> tuple[type[BuildError], tuple[str, tuple[BuildProblem, ...]]]:
        return type(self), (self.section, self.problems)


def build_error(section: str, error: ValidationError) -> BuildError:
    """Convert an error of `translate_pydantic_error` to the public `BuildError`."""
    return BuildError(section, (_problem_from_details(each) for each in error.errors(include_url=False)))


def _problem_from_details(details: ErrorDetails) -> BuildProblem:
    context = details.get("ctx", {})
    value = None if context.get("missing") else details["input"]
    path = dotted_path(tuple(part if part != "" else '""' for part in details["loc"]))
    return BuildProblem(path, details["msg"], context.get("accepted"), value, context.get("meant", ()))


def translate_pydantic_error(
    section: str, keys: Mapping[str, KeyInfo], data: Mapping[str, object], error: ValidationError
) -> ValidationError:
    """Translate a pydantic error into one that has one entry per field and names keys as in the config.

    Args:
        section: name of the section class.
        keys: keys of the section, by attribute.
        data: the values from which the section was built, by attribute or alias.
        error: pydantic's error; its entries about inner sections are translated already.
    """
    by_field: dict[object, list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        by_field.setdefault(details["loc"][0] if details["loc"] else None, []).append(details)
    lines = [
        line
        for field, errors in by_field.items()
        for line in _error_entries_of_field(field, errors, keys, data)
    ]
    return ValidationError.from_exception_data(section, lines)


def _error_entries_of_field(
    field: object,
    errors: list[ErrorDetails],
    keys: Mapping[str, KeyInfo],
    data: Mapping[str, object],
) -> Iterator[InitErrorDetails]:
    inner_entries = {_path_of_entry(details, data): details for details in errors if details["type"] == KIND}
    if inner_entries:
        for path, details in inner_entries.items():
            yield _error_entry(path, details["msg"], details["input"], details.get("ctx", {}))
        return
    name = str(field)
    details = errors[0]
    if field is None:
        yield _error_entry(
            (), f"must be an object, not {_display_value(details['input'])}", details["input"], {}
        )
    elif details["type"] in ("extra_forbidden", "no_such_attribute"):
        yield unknown_field_error(name, keys, details["input"])
    elif details["type"] == "missing" and name in keys:
        accepted = describe_accepted_values(keys[name])
        message = f"is missing: it must be {accepted}"
        yield _error_entry((name,), message, None, {"accepted": accepted, "missing": True})
    elif name not in keys:  # a field that a subclass adds
        yield _error_entry((name,), details["msg"], details["input"], {})
    else:
        yield wrong_value_error(
            name,
            keys[name],
            data.get(name, details["input"]),
            _add_required_length(errors, describe_accepted_values(keys[name])),
        )


def _add_required_length(errors: list[ErrorDetails], accepted: str) -> str:
    """Add the length that a list must have to the description of accepted values."""
    for details in errors:
        if details["type"] in ("too_short", "too_long"):  # each list of the model has one length
            context = details["ctx"]
            length = context.get("min_length", context.get("max_length"))
            return accepted.replace("a list of ", f"a list of {length} ", 1)
    return accepted


def unknown_field_error(name: str, keys: Mapping[str, KeyInfo], value: object) -> InitErrorDetails:
    """Return pydantic's error entry for an unknown field."""
    message, similar = unknown_key_message(name, keys)
    return _error_entry((_printable_path(name),), message, value, {"meant": similar})


def unknown_key_message(name: str, keys: Mapping[str, KeyInfo]) -> tuple[str, tuple[str, ...]]:
    """Return the message about an unknown key, and similar keys of the section."""
    similar = tuple(closest_words(name, keys))
    if similar:
        return f"is not a known key: did you mean `{similar[0]}`?", similar
    if len(keys) <= _FEW_KEYS:
        return (
            f"is not a known key: the section has {join_alternatives([f'`{key}`' for key in keys], 'and')}",
            similar,
        )
    return "is not a known key", similar


def wrong_value_error(
    name: str, info: KeyInfo, value: object, accepts: str | None = None
) -> InitErrorDetails:
    """Return pydantic's error entry for a value that the field does not accept."""
    accepted = accepts or describe_accepted_values(info)
    display = "a value that is hidden" if may_be_secret(name) else _display_value(value)
    return _error_entry((name,), f"must be {accepted}, not {display}", value, {"accepted": accepted})


def non_string_key_error(key: object, data: object) -> InitErrorDetails:
    """Return pydantic's error entry for an object key that is not a string."""
    return _error_entry((), f"must have strings as keys, not `{key!r}`", data, {})


def non_json_value_error(name: str, error: NotJsonError, value: object) -> InitErrorDetails:
    """Return pydantic's error entry for a value that JSON cannot represent."""
    return _error_entry((name, *error.path), error.message, value, {"accepted": JSON_VALUE})


def entries_of_error(error: ValidationError, parent: KeyPath = ()) -> list[InitErrorDetails]:
    """Return the entries of a translated error, for use in an outer section's error."""
    details = error.errors(include_url=False)
    return [
        _error_entry((*parent, *each["loc"]), each["msg"], each["input"], each["ctx"]) for each in details
    ]


def _error_entry(path: KeyPath, message: str, value: object, context: dict[str, Json]) -> InitErrorDetails:
    fields = {**context, "message": message, "length": len(path)}
    return InitErrorDetails(type=PydanticCustomError(KIND, "{message}", fields), loc=tuple(path), input=value)


def _path_of_entry(details: ErrorDetails, data: Json) -> KeyPath:
    """Return the path of an entry about an inner section, without the validator names that pydantic inserts."""
    location = details["loc"]
    steps_inside = location[len(location) - details["ctx"]["length"] :]
    steps: list[str | int] = []
    for part in location[: len(location) - len(steps_inside)]:
        try:
            data = data[part]
        except (IndexError, KeyError, TypeError):
            continue
        steps.append(part)
    return (*steps, *steps_inside)


def describe_accepted_values(info: KeyInfo) -> str:
    """Describe the values that a field accepts, including "auto" if a consumer resolves it."""
    arms = list(info.type[1:] if info.type[0] == "union" else (info.type,))
    values = [word for arm in arms for word in _values_of_closed_set(arm)]
    if info.fills and "auto" not in values:
        values.append("auto")
    descriptions = [describe_type(arm) for arm in arms if not _values_of_closed_set(arm)]
    if not descriptions and len(values) > 2:
        return f"one of {join_alternatives(values)}"
    return join_phrases([*dict.fromkeys(descriptions), *map(quote_value, values)])


def _values_of_closed_set(arm: Spec) -> list[Json]:
    """Return the allowed values of a union member if they form a closed set."""
    few: dict[str, list[Json]] = {"bool": [True, False], "null": [None]}
    return few.get(arm[0], list(arm[1:]) if arm[0] == "enum" else [])


def _display_value(value: object) -> str:
    """Return a value for a message, shortened if long; if JSON cannot represent it, return its type."""
    try:
        converted = to_json_value(value)
    except NotJsonError as error:
        return f"{json_kind(value)} that holds {error.what}" if error.path else error.what
    return (
        f"a value of type `{type(converted).__name__}`"
        if isinstance(converted, BaseModel)
        else quote_value(converted)
    )


def _printable_path(path: str) -> str:
    """Return a path for a message, shortened if long."""
    return truncate_middle("".join(char if char.isprintable() else repr(char)[1:-1] for char in path), 120)


# Conversion of the Python values from which a section is built; params are built by their type.


@dataclass(slots=True)
class SectionInput:
    """The Python values for one section, sorted into fields, unknown keys and problems."""

    values: JsonObject = field(default_factory=dict)
    """Values of fields by attribute, and values of keys that are not fields."""
    spelled: dict[str, str] = field(default_factory=dict)
    unknown: JsonObject = field(default_factory=dict)
    """Unknown keys that the section keeps."""
    wrong: list[InitErrorDetails] = field(default_factory=list)
    """Problems with the values that pydantic does not report."""

    def to_error(self, section: type[BaseModel], error: ValidationError | None) -> ValidationError:
        """Convert the problems to an error that has one entry per field and names keys as in the config."""
        if error is not None:
            reported = {line["loc"][:1] for line in self.wrong}
            new = entries_of_error(
                translate_pydantic_error(
                    section.__name__, keys_of_section_or_base(section), self.values, error
                )
            )
            self.wrong += [line for line in new if line["loc"][:1] not in reported]
        return ValidationError.from_exception_data(section.__name__, self.wrong)

    def add_field(self, info: KeyInfo, value: object) -> None:
        """Add a field's value, converted to JSON if possible."""
        value = to_json_if_accepted(value, info.type)
        if accepts_any_value(info.type) or isinstance(value, int):
            value = self.convert_to_json(info.name, value)
        self.values[info.name] = value

    def convert_to_json(self, word: str, value: object) -> Json:
        """Convert a value to JSON; on failure, record a problem and return None."""
        try:
            return to_json_value(value)
        except NotJsonError as error:
            self.wrong.append(non_json_value_error(word, error, value))
            return None


def convert_section_input(
    section: type[BaseModel], editor_keys: tuple[str, ...], data: Mapping[Any, Any]
) -> SectionInput:
    """Convert the values of a section to JSON, including `2e8`, paths, enums and tuples.

    `editor_keys`, such as `$schema`, and keys used as comments are kept, although DeepSpeed does not know them.
    """
    keys, section_input = keys_of_section_or_base(section), SectionInput()
    key_by_alias = {alias: info.name for info in keys.values() for alias, _ in info.aliases}
    open_ended = section.model_config.get("extra") == "allow"
    for name, value in data.items():
        key = key_by_alias.get(name, name)
        if not isinstance(name, str):
            section_input.wrong.append(non_string_key_error(name, data))
        elif name in editor_keys or (editor_keys and name.startswith("//")):
            section_input.unknown[name] = section_input.convert_to_json(name, value)
        elif name != key and key not in data:
            section_input.spelled[key] = name
            section_input.add_field(keys[key], value)
        elif name in keys:
            section_input.add_field(keys[name], value)
        elif not name.isprintable():  # pydantic may not be able to name it in an error
            section_input.wrong.append(unknown_field_error(name, keys, value))
        else:
            section_input.values[name] = section_input.convert_to_json(name, value) if open_ended else value
    if "params" in section_input.values:
        _convert_params(section, section_input)
    return section_input


def _convert_params(section: type[BaseModel], section_input: SectionInput) -> None:
    try:
        section_input.values["params"] = params_as_class(
            section, section_input.values.get("type"), section_input.values["params"]
        )
    except ValidationError as error:
        del section_input.values["params"]
        section_input.wrong += entries_of_error(error)


def params_as_class(section: type[BaseModel], type_: object, params: object) -> object:
    """Convert `params` to the params class of `type_`; params of a type that DeepSpeed does not have are unchanged.

    Raises:
        ValidationError: the params class does not accept the params.
    """
    kind = find_type(section.__name__, type_)
    if kind is None or kind.params is None:
        return params
    params_class: type[BaseModel] = getattr(model, kind.params)
    if isinstance(params, BaseModel) and not isinstance(params, params_class):
        accepted = f'`{params_class.__name__}` for type `"{kind.name}"`'
        entry = wrong_value_error(
            "params", keys_of_section_or_base(section)["params"], f"{type(params).__name__}(…)", accepted
        )
        raise ValidationError.from_exception_data(section.__name__, [entry])
    if not isinstance(params, dict):
        return params
    try:
        return params_class.model_validate(params)
    except ValidationError as error:
        raise ValidationError.from_exception_data(
            section.__name__, entries_of_error(error, ("params",))
        ) from None
