"""How a release reads a value: unchecked (`hand`), or as pydantic 1 or pydantic 2 would.

DeepSpeed's strict sections were pydantic 1 models from 0.7.0 to 0.14.5 and are pydantic 2 models from 0.15.0
on (runtime/config_utils.py, DeepSpeedConfigModel). Both convert on the way in, each in its own way; what is
refused by one is taken by the other. Everything else is looked up by hand and taken as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.evaluation.coercion.result import Coerced, Refused, Verdict, Why

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, Spec


__all__ = ["Coerced", "Refused", "Verdict", "Why", "read"]


def read(spec: Spec, value: Json, dialect: str) -> Verdict:
    """What the dialect makes of `value` where `spec` is expected. Sections are not looked into."""
    if dialect == "pydantic2":
        from dsconfig.evaluation.coercion.pydantic2 import read as convert
    elif dialect == "pydantic1":
        from dsconfig.evaluation.coercion.pydantic1 import read as convert
    else:
        from dsconfig.evaluation.coercion.result import read_unchecked as convert
    return convert(spec, value)
