"""The types that annotate fields of the model, besides Python's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from dsconfig.core.json_types import Json, Spec


def _exact_int(value: object) -> object:
    if type(value) is not int:
        raise ValueError("Input should be an integer, not a float, a boolean or a string")
    return value


EXACT_INT = BeforeValidator(_exact_int)
"""Accompanies a `Literal` of integers, for which pydantic would accept `True` and `3.0`."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Accompanies a Python type where DeepSpeed checks another one: that one, as in `dsconfig.model.iter_fields`."""

    spec: Spec


Auto: TypeAlias = Literal["auto"]
PositiveInt: TypeAlias = Annotated[int, Field(gt=0)]
NonNegativeInt: TypeAlias = Annotated[int, Field(ge=0)]
NonNegativeFloat: TypeAlias = Annotated[float, Field(ge=0)]
Fraction: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Pair: TypeAlias = Annotated[list[float], Field(min_length=2, max_length=2)]
PathText: TypeAlias = Annotated[str, Checked(("path",))]
"""DeepSpeed makes a `pathlib.Path` of it."""
Names: TypeAlias = Annotated[list[str], Checked(("list", ("any",)))]
"""Meant to hold names; DeepSpeed checks that it is a list, but not what is in it."""
PythonObject: TypeAlias = Annotated[object, Checked(("never",))]
"""The release insists on a Python object: no JSON value will do."""
FreeForm: TypeAlias = dict[str, Json]
"""A section whose keys belong to something else (a model, a script, a plugin); every use says to what."""
ABSENT: Json = None
"""Default of a key that may be left out, has no default of its own, and does not accept null."""
DERIVED: Json = None
"""The same, where DeepSpeed derives the value; the docstring says how."""
