"""Python's values in words of JSON, where a key takes those: paths, enums, tuples, `2e8`, a dtype."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from numbers import Integral, Real

from dsconfig.json_types import Json, Spec

_DTYPES = {
    "torch.bfloat16": ("bf16", "bfloat16", "torch.bfloat16"),
    "torch.float16": ("fp16", "float16", "torch.float16"),
    "torch.float32": ("fp32", "float32", "torch.float32"),
    "torch.int8": ("int8", "torch.int8"),
}
"""How keys spell a `torch.dtype`, the spelling that most of them know first."""


def as_json(value: object, spec: Spec) -> Json:
    """The value as a config says it, where the key takes that; any other value is given back as it is.

    A number without a fraction becomes an integer where one is wanted, as DeepSpeed's own models read it.
    """
    arms = spec[1:] if spec[0] == "union" else (spec,)
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, os.PathLike) and any(arm[0] in ("str", "path") for arm in arms):
        return os.fspath(value)
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return _dtype(value, arms)
    if not isinstance(value, bool) and isinstance(value, Real):
        return _number(value, arms)
    if isinstance(value, list | tuple):
        return _list(value, arms)
    if isinstance(value, Mapping) and not isinstance(value, dict):
        value = dict(value)
    for arm in arms:
        if isinstance(value, dict) and arm[0] == "map":
            return {key: as_json(item, arm[1]) for key, item in value.items()}
    return value


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
