"""Type aliases for annotating the model's fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from dsconfig.core.json_types import Json, Spec


def _reject_bool_as_int(value: object) -> object:
    if type(value) is not int:
        raise ValueError("Input should be an integer, not a float, a boolean or a string")
    return value


EXACT_INT = BeforeValidator(_reject_bool_as_int)
"""Validator for a `Literal` of integers, for which pydantic would also accept `True` and `3.0`."""


@dataclass(frozen=True, slots=True)
class TypeCheckedByDeepSpeed:
    """Annotation with the type that DeepSpeed checks, where it differs from the Python type."""

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
