"""How a DeepSpeed release converts a value: not at all (`hand`), or as pydantic 1 or pydantic 2 does.

DeepSpeed's strict sections are pydantic 1 models from 0.7.0 to 0.14.5 and pydantic 2 models from 0.15.0 on
(runtime/config_utils.py, DeepSpeedConfigModel). Both convert values on input, by different rules: pydantic 1
accepts values that pydantic 2 rejects, and vice versa. Other sections are read with `dict.get`, without conversion.
"""

from __future__ import annotations

from dsconfig.evaluation.coercion.coercion_common import (
    CoercedValue,
    RejectedValue,
    Verdict,
    Why,
    is_out_of_bounds,
)

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, Spec


__all__ = ["CoercedValue", "RejectedValue", "Verdict", "Why", "coerce", "is_unchanged"]


def coerce(spec: Spec, value: Json, dialect: str) -> Verdict:
    """Convert `value` to the type `spec` in a dialect. Children of sections are not converted."""
    if dialect == "pydantic2":
        from dsconfig.evaluation.coercion.pydantic2 import coerce as convert
    elif dialect == "pydantic1":
        from dsconfig.evaluation.coercion.pydantic1 import coerce as convert
    else:
        from dsconfig.evaluation.coercion.coercion_common import read_unchecked as convert
    return convert(spec, value)


_NUMBERS: dict[str, type[Json]] = {"int": int, "float": float}


def is_unchanged(spec: Spec, value: Json) -> bool:
    """Whether a value is a number or boolean of exactly this type, which every dialect accepts unchanged."""
    if spec[0] == "bool":
        return value is True or value is False
    return type(value) is _NUMBERS.get(spec[0]) and not is_out_of_bounds(spec, value)
