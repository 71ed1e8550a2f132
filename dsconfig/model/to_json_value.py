"""Python's values in words of JSON: paths, enums, tuples, `2e8`, numpy's numbers, `torch.dtype`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from numbers import Integral, Real

from pydantic import BaseModel

from dsconfig.core.json_types import Json, KeyPath, Spec

SAYABLE = "what JSON can say"
_DEEPEST = 128
"""Levels of nesting that a config may have, as `dsconfig.document` reads them."""
_LONGEST = 14_000
"""Bits of an integer that Python still writes out: 4,300 digits are some 14,284."""
_DTYPES = {
    "torch.bfloat16": ("bf16", "bfloat16", "torch.bfloat16"),
    "torch.float16": ("fp16", "float16", "torch.float16"),
    "torch.float32": ("fp32", "float32", "torch.float32"),
    "torch.int8": ("int8", "torch.int8"),
}
"""How keys spell a `torch.dtype`, the spelling that most of them know first."""


class NotJsonError(ValueError):
    """A value that no config can say: `path` leads to it from where it was looked for."""

    def __init__(self, path: KeyPath, what: str) -> None:
        self.path, self.what, self.says = path, what, f"takes {SAYABLE}, not {what}"
        super().__init__(self.says)


def as_json(value: object, spec: Spec) -> Json:
    """The value as a config says it, where the key takes that; any other value is given back as it is.

    A number without a fraction becomes an integer where one is wanted, as DeepSpeed's own models read it.
    """
    arms = spec[1:] if spec[0] == "union" else (spec,)
    value = _own(value)
    if isinstance(value, os.PathLike) and not any(arm[0] in ("str", "path", "any") for arm in arms):
        return value
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return _dtype(value, arms)
    if not isinstance(value, bool) and isinstance(value, Real):
        return _number(value, arms)
    if isinstance(value, list | tuple):
        return _list(value, arms)
    if isinstance(value, Mapping):
        inner = next((arm[1] for arm in arms if arm[0] == "map"), None)
        return dict(value) if inner is None else {key: as_json(item, inner) for key, item in value.items()}
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def in_json(value: object, above: KeyPath = ()) -> Json:
    """The value, however deep, as JSON has it; what was built is left as it is.

    Raises:
        NotJsonError: JSON has nothing for it, or for something in it.
    """
    value = _own(value)
    match value:
        case None | bool():
            return value
        case str():
            return _unicode(value, above)
        case int() if value.bit_length() > _LONGEST:
            raise NotJsonError(above, "an integer of more than 4,300 digits")
        case Real():
            return _number(value, ())
        case os.PathLike() if isinstance(path := os.fspath(value), str):
            return _unicode(path, above)
        case Mapping() | list() | tuple() if len(above) >= _DEEPEST:
            raise NotJsonError(above[:1], f"what is nested more than {_DEEPEST} levels deep")
        case Mapping():
            return {_key(key, above): in_json(item, (*above, key)) for key, item in value.items()}
        case list() | tuple():
            return [in_json(item, (*above, index)) for index, item in enumerate(value)]
        case BaseModel() if hasattr(value, "remembered"):  # a section
            return value
    raise NotJsonError(above, f"a value of type `{type(value).__name__}`")


def is_free(spec: Spec) -> bool:
    """Whether anything goes somewhere within the type."""
    return spec[0] == "any" or any(isinstance(part, tuple) and is_free(part) for part in spec[1:])


def _own(value: object) -> object:
    """The member of an enum, and Python's own type for what numpy and others derive from it."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str) and type(value) is not str:
        return str.__str__(value)
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    return value


def _unicode(text: str, above: KeyPath) -> str:
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise NotJsonError(above, "a string with half of a UTF-16 pair in it")
    return text


def _key(key: object, above: KeyPath) -> str:
    if not isinstance(key, str):
        raise NotJsonError(above, f"an object with a key that is no string, `{key!r}`")
    return _unicode(str.__str__(key), above)


def _dtype(value: object, arms: tuple[Spec, ...]) -> Json:
    taken = {word for arm in arms if arm[0] == "enum" for word in arm[1:]}
    return next((word for word in _DTYPES.get(str(value), ()) if word in taken), value)


def _number(value: Real, arms: tuple[Spec, ...]) -> Json:
    """The number in one of JSON's two kinds: those of numpy, `Fraction` and others become Python's own."""
    plain = int(value) if isinstance(value, Integral) else float(value)
    if isinstance(plain, float) and plain.is_integer() and not any(arm[0] == "float" for arm in arms):
        whole = int(plain)
        if any(arm[0] == "int" or (arm[0] == "enum" and whole in arm[1:]) for arm in arms):
            return whole
    return plain


def _list(value: list[object] | tuple[object, ...], arms: tuple[Spec, ...]) -> Json:
    item = next((arm[1] for arm in arms if arm[0] == "list"), None)
    if item is None:
        return value
    return [as_json(each, item) for each in value]
