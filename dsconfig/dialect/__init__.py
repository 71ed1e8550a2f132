"""How a release reads a value: unchecked (`hand`), or as pydantic 1 or pydantic 2 would.

DeepSpeed's strict sections were pydantic 1 models from 0.7.0 to 0.14.5 and are pydantic 2 models from 0.15.0
on (runtime/config_utils.py, DeepSpeedConfigModel). Both convert on the way in, each in its own way; what is
refused by one is taken by the other. Everything else is looked up by hand and taken as it is.
"""

from __future__ import annotations

from dsconfig.dialect.verdict import Coerced, Refused, Verdict, Why, read

__all__ = ["Coerced", "Refused", "Verdict", "Why", "read"]
