"""What the annotations of the model are made of, beside Python's own types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from dsconfig.json_types import Json, Spec


def _exact_int(value: object) -> object:
    if type(value) is not int:
        raise ValueError("Input should be an integer, not a float, a boolean or a string")
    return value


EXACT_INT = BeforeValidator(_exact_int)
"""Stands beside a `Literal` of integers, to which pydantic would let `True` and `3.0` through."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Stands beside a Python type where DeepSpeed checks another one: the type that the checker goes by, as
    in `dsconfig.model.spec`.
    """

    spec: Spec


Auto: TypeAlias = Literal["auto"]
PositiveInt: TypeAlias = Annotated[int, Field(gt=0)]
NonNegativeInt: TypeAlias = Annotated[int, Field(ge=0)]
NonNegativeFloat: TypeAlias = Annotated[float, Field(ge=0)]
Fraction: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Pair: TypeAlias = Annotated[list[float], Field(min_length=2, max_length=2)]
PathText: TypeAlias = Annotated[str, Checked(("path",))]
"""A `pathlib.Path` of DeepSpeed's."""
Names: TypeAlias = Annotated[list[str], Checked(("list", ("any",)))]
"""Meant to hold names; DeepSpeed looks only at the list, never at what is in it."""
PythonObject: TypeAlias = Annotated[object, Checked(("never",))]
"""An object of Python that the release insists on: no JSON value will do."""
FreeForm: TypeAlias = dict[str, Json]
"""A section whose keys belong to somebody else (a model, a script, a plugin); every use says whose."""
ABSENT: Json = None
"""Default of a key that may be left out, has no default of its own, and does not take null."""
DERIVED: Json = None
"""The same, where DeepSpeed works the value out; the docstring says how."""
