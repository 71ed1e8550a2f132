"""Convert Python values to JSON: paths, enums, tuples, `2e8`, numpy numbers and `torch.dtype`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from numbers import Integral, Real

from pydantic import BaseModel

from dsconfig.core.json_types import Json, KeyPath, Spec

JSON_VALUE = "a JSON value"
_MAX_DEPTH = 128
"""Maximum nesting of a config, the same as in `dsconfig.document`."""
_MAX_BITS = 14_000
"""Maximum number of bits of an integer; Python's `str` rejects more than 4,300 digits, about 14,284 bits."""
_DTYPES = {
    "torch.bfloat16": ("bf16", "bfloat16", "torch.bfloat16"),
    "torch.float16": ("fp16", "float16", "torch.float16"),
    "torch.float32": ("fp32", "float32", "torch.float32"),
    "torch.int8": ("int8", "torch.int8"),
}
"""Names of a `torch.dtype` in configs, the most common first."""


class NotJsonError(ValueError):
    """Raised if JSON cannot represent a value; `path` is relative to the value being converted."""

    def __init__(self, path: KeyPath, what: str) -> None:
        self.path, self.what, self.message = path, what, f"must be {JSON_VALUE}, not {what}"
        super().__init__(self.message)


def to_json_if_accepted(value: object, spec: Spec) -> Json:
    """Convert a value to JSON if the key accepts the result, else return it unchanged.

    A number without a fraction becomes an integer if the key accepts one, as in DeepSpeed's own models.
    """
    arms = spec[1:] if spec[0] == "union" else (spec,)
    value = _to_builtin_value(value)
    if isinstance(value, os.PathLike) and not any(arm[0] in ("str", "path", "any") for arm in arms):
        return value
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return _dtype_as_json(value, arms)
    if not isinstance(value, bool) and isinstance(value, Real):
        return _number_as_builtin(value, arms)
    if isinstance(value, list | tuple):
        return _list_as_json(value, arms)
    if isinstance(value, Mapping):
        inner = next((arm[1] for arm in arms if arm[0] == "map"), None)
        return (
            dict(value)
            if inner is None
            else {key: to_json_if_accepted(item, inner) for key, item in value.items()}
        )
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def to_json_value(value: object, path: KeyPath = ()) -> Json:
    """Convert a value, and everything in it, to JSON, keeping section objects.

    Raises:
        NotJsonError: the value, or something in it, has no JSON representation.
    """
    value = _to_builtin_value(value)
    match value:
        case None | bool():
            return value
        case str():
            return _check_unicode(value, path)
        case int() if value.bit_length() > _MAX_BITS:
            raise NotJsonError(path, "an integer of more than 4,300 digits")
        case Real():
            return _number_as_builtin(value, ())
        case os.PathLike() if isinstance(text := os.fspath(value), str):
            return _check_unicode(text, path)
        case Mapping() | list() | tuple() if len(path) >= _MAX_DEPTH:
            raise NotJsonError(path[:1], f"a value that is nested more than {_MAX_DEPTH} levels deep")
        case Mapping():
            return {_key_as_text(key, path): to_json_value(item, (*path, key)) for key, item in value.items()}
        case list() | tuple():
            return [to_json_value(item, (*path, index)) for index, item in enumerate(value)]
        case BaseModel() if hasattr(value, "unknown_keys"):  # a section
            return value
    raise NotJsonError(path, f"a value of type `{type(value).__name__}`")


def accepts_any_value(spec: Spec) -> bool:
    """Return whether a type, or a type inside it, accepts any value."""
    return spec[0] == "any" or any(isinstance(part, tuple) and accepts_any_value(part) for part in spec[1:])


def _to_builtin_value(value: object) -> object:
    """Return the value of an enum member, or the built-in equivalent of a subclass such as `numpy.bool`."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str) and type(value) is not str:
        return str.__str__(value)
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    return value


def _check_unicode(text: str, path: KeyPath) -> str:
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise NotJsonError(path, "a string with an unpaired UTF-16 surrogate")
    return text


def _key_as_text(key: object, path: KeyPath) -> str:
    if not isinstance(key, str):
        raise NotJsonError(path, f"an object with the key `{key!r}`, which is not a string")
    return _check_unicode(str.__str__(key), path)


def _dtype_as_json(value: object, arms: tuple[Spec, ...]) -> Json:
    accepted = {word for arm in arms if arm[0] == "enum" for word in arm[1:]}
    return next((word for word in _DTYPES.get(str(value), ()) if word in accepted), value)


def _number_as_builtin(value: Real, arms: tuple[Spec, ...]) -> Json:
    """Convert a number, such as a numpy scalar or a `Fraction`, to int or float."""
    number = int(value) if isinstance(value, Integral) else float(value)
    if isinstance(number, float) and number.is_integer() and not any(arm[0] == "float" for arm in arms):
        integer = int(number)
        if any(arm[0] == "int" or (arm[0] == "enum" and integer in arm[1:]) for arm in arms):
            return integer
    return number


def _list_as_json(value: list[object] | tuple[object, ...], arms: tuple[Spec, ...]) -> Json:
    item = next((arm[1] for arm in arms if arm[0] == "list"), None)
    if item is None:
        return value
    return [to_json_if_accepted(each, item) for each in value]
