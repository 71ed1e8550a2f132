"""Construction of a section from Python values, and the errors for values that do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from dsconfig import model
from dsconfig.core.diagnostic import dotted, truncate_middle
from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple, Spec
from dsconfig.core.wording import closest, expected, kind, one_of, quoted
from dsconfig.model.keyinfo import KeyInfo, is_secret, keys_of, type_named
from dsconfig.model.to_json_value import SAYABLE, NotJsonError, as_json, in_json, is_free

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


# What is wrong with a value that a section was given: one problem a field, in words of the config.

KIND = "config"
"""The type of our own errors within pydantic's."""
_WORTH_A_GUESS = 4


class Problem(NamedTuple):
    """One field whose value a section does not take."""

    path: str
    """Where it stands in what was built, as people write it: `zero_optimization.stage`."""
    message: str
    """What is wrong, in one line."""
    accepted: str | None
    """What the field takes, in words; None where there is no such field."""
    given: object
    """The value as it was given; None where it is missing."""
    meant: tuple[str, ...] = ()
    """Names that may have been meant by one that the section does not know."""


class BuildError(ValueError):
    """A section was given what it does not take; `problems` says which fields, and what they do take."""

    def __init__(self, section: str, problems: Iterable[Problem]) -> None:
        self.section, self.problems = section, tuple(problems)
        lines = [
            f"`{_named(each.path)}` {each.message}" if each.path else each.message for each in self.problems
        ]
        text = f" {lines[0]}" if len(lines) == 1 else "".join(f"\n  {line}" for line in lines)
        super().__init__(f"{section}:{text}")

    def __reduce__(self) -> tuple[type[BuildError], tuple[str, tuple[Problem, ...]]]:
        return type(self), (self.section, self.problems)


class Found(NamedTuple):
    """A problem on its way up, with the path from the section that found it."""

    path: KeyPath
    problem: Problem


def build_error(section: str, error: ValidationError) -> BuildError:
    """The error that users see, of one that `in_words` has been through."""
    return BuildError(section, (_from_details(each) for each in error.errors(include_url=False)))


def _from_details(details: ErrorDetails) -> Problem:
    context = details.get("ctx", {})
    given = None if context.get("missing") else details["input"]
    path = dotted(tuple(part if part != "" else '""' for part in details["loc"]))
    return Problem(path, details["msg"], context.get("accepted"), given, context.get("meant", ()))


def in_words(
    section: str, keys: Mapping[str, KeyInfo], data: Mapping[str, object], error: ValidationError
) -> ValidationError:
    """Pydantic's error with one entry a field, in words of the config.

    Args:
        section: the class's name.
        keys: its keys, by attribute.
        data: what it was given, by attribute or spelling.
        error: what pydantic says about it; entries of sections within are in words already.
    """
    by_field: dict[object, list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        by_field.setdefault(details["loc"][0] if details["loc"] else None, []).append(details)
    lines = [line for field, found in by_field.items() for line in _lines(field, found, keys, data)]
    return ValidationError.from_exception_data(section, lines)


def _lines(
    field: object, found: list[ErrorDetails], keys: Mapping[str, KeyInfo], data: Mapping[str, object]
) -> Iterator[InitErrorDetails]:
    inner = {_way(details, data): details for details in found if details["type"] == KIND}
    if inner:
        for path, details in inner.items():
            yield _line(path, details["msg"], details["input"], details.get("ctx", {}))
        return
    name = str(field)
    first = found[0]
    if field is None:
        yield _line((), f"takes an object, not {_shown(first['input'])}", first["input"], {})
    elif first["type"] in ("extra_forbidden", "no_such_attribute"):
        yield unknown(name, keys, first["input"])
    elif first["type"] == "missing" and name in keys:
        accepted = taken(keys[name])
        message = f"is missing: it takes {accepted}"
        yield _line((name,), message, None, {"accepted": accepted, "missing": True})
    elif name not in keys:  # a field that a subclass adds
        yield _line((name,), first["msg"], first["input"], {})
    else:
        yield wrong(name, keys[name], data.get(name, first["input"]), _of_length(found, taken(keys[name])))


def _of_length(found: list[ErrorDetails], accepted: str) -> str:
    """What is accepted, with the length that a list should have had."""
    for details in found:
        if details["type"] in ("too_short", "too_long"):  # those of the model have one length only
            context = details["ctx"]
            length = context.get("min_length", context.get("max_length"))
            return accepted.replace("a list of ", f"a list of {length} ", 1)
    return accepted


def unknown(name: str, keys: Mapping[str, KeyInfo], value: object) -> InitErrorDetails:
    """The entry for a field that the section does not have."""
    says, meant = not_a_key(name, keys)
    return _line((_named(name),), says, value, {"meant": meant})


def not_a_key(name: str, keys: Mapping[str, KeyInfo]) -> tuple[str, tuple[str, ...]]:
    """What is said of a name that a section does not have, and which of its keys may have been meant."""
    meant = tuple(closest(name, keys))
    if meant:
        return f"is not a known key: did you mean `{meant[0]}`?", meant
    if len(keys) <= _WORTH_A_GUESS:
        return f"is not a known key: the section has {one_of([f'`{key}`' for key in keys], 'and')}", meant
    return "is not a known key", meant


def wrong(name: str, info: KeyInfo, value: object, instead: str | None = None) -> InitErrorDetails:
    """The entry for a value that the field does not take."""
    accepted = instead or taken(info)
    shown = "a value that is not shown" if is_secret(name) else _shown(value)
    return _line((name,), f"takes {accepted}, not {shown}", value, {"accepted": accepted})


def not_a_string(key: object, data: object) -> InitErrorDetails:
    """The entry for an object with such a key."""
    return _line((), f"takes keys that are strings, not `{key!r}`", data, {})


def not_json(name: str, error: NotJsonError, value: object) -> InitErrorDetails:
    """The entry for a value that a field would take if a config could say it."""
    return _line((name, *error.path), error.says, value, {"accepted": SAYABLE})


def entries(error: ValidationError, above: KeyPath = ()) -> list[InitErrorDetails]:
    """The entries of an error that is in words, for one that is raised further up."""
    found = error.errors(include_url=False)
    return [_line((*above, *each["loc"]), each["msg"], each["input"], each["ctx"]) for each in found]


def _line(path: KeyPath, message: str, value: object, context: dict[str, Json]) -> InitErrorDetails:
    told = {**context, "message": message, "length": len(path)}
    return InitErrorDetails(type=PydanticCustomError(KIND, "{message}", told), loc=tuple(path), input=value)


def _way(details: ErrorDetails, data: Json) -> KeyPath:
    """The path of an entry from below: pydantic puts names of its own validators between the keys."""
    location = details["loc"]
    inner = location[len(location) - details["ctx"]["length"] :]
    kept: list[str | int] = []
    for part in location[: len(location) - len(inner)]:
        try:
            data = data[part]
        except (IndexError, KeyError, TypeError):
            continue
        kept.append(part)
    return (*kept, *inner)


def taken(info: KeyInfo) -> str:
    """What a field takes, in words; "auto" too, where a consumer fills it."""
    arms = list(info.type[1:] if info.type[0] == "union" else (info.type,))
    words = [word for arm in arms for word in _words(arm)]
    if info.fills and "auto" not in words:
        words.append("auto")
    kinds = [expected(arm) for arm in arms if not _words(arm)]
    if not kinds and len(words) > 2:
        return f"one of {one_of(words)}"
    return _or([*dict.fromkeys(kinds), *map(quoted, words)])


def _or(texts: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _words(arm: Spec) -> list[Json]:
    """The values of an arm that takes few."""
    few: dict[str, list[Json]] = {"bool": [True, False], "null": [None]}
    return few.get(arm[0], list(arm[1:]) if arm[0] == "enum" else [])


def _shown(value: object) -> str:
    """A value as it was given, cut where it is long; of one that JSON cannot say, what it is."""
    try:
        said = in_json(value)
    except NotJsonError as error:
        return f"{kind(value)} that holds {error.what}" if error.path else error.what
    return f"a value of type `{type(said).__name__}`" if isinstance(said, BaseModel) else quoted(said)


def _named(path: str) -> str:
    """A path as it can be printed, and not too long."""
    return truncate_middle("".join(char if char.isprintable() else repr(char)[1:-1] for char in path), 120)


# What a section takes when it is built from Python: values in words of JSON, params by their type.


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
