"""The rules, one module or folder per config section; `RULES` maps each code to its rule.

A new module needs no registration: `make generate` finds every module of this package and lists its rules in
`_generated`. Modules with a leading underscore hold no rules but functions that several rules share. They are
imported on demand.
"""

from __future__ import annotations

from dsconfig.evaluation.rule import RULES, Rule, register_index
from dsconfig.rules import _generated

__all__ = ["RULES", "Rule"]

register_index(_generated.RULES)
