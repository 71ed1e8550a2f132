"""The checks, a folder or file per domain with the model's names; `RULES` holds them all by code.

A new file needs no mention anywhere: `make generate` finds every module below this package, and lists its
rules in `_generated`. Modules whose name begins with an underscore hold no rule, but what several rules ask of a
config; they load where they are needed.
"""

from __future__ import annotations

from dsconfig.evaluation.rule import RULES, Rule, know
from dsconfig.rules import _generated

__all__ = ["RULES", "Rule"]

know(_generated.RULES)
