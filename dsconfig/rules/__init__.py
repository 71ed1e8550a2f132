"""The rules, one module or folder per config section; `RULES` maps each code to its rule.

A new module needs no registration: `make generate` finds every module of this package and lists its rules in
`_generated`. Modules with a leading underscore have no rules, but functions that several rules share. Rule modules are
imported on demand.
"""

from __future__ import annotations

from dsconfig.evaluation.rule import RULES, Rule, register_index
from dsconfig.rules import _generated

__all__ = ["FORMER_NAMES", "RULES", "Rule", "former_names"]

register_index(_generated.RULES)

FORMER_NAMES = {
    "accumulation-in-fp32-not-heeded": "fp32-accumulation-ignored",
    "auto-that-nobody-fills": "unsupported-auto",
    "bare-name-left-to-fill": "auto-without-stage3-prefix",
    "elastic-model-parallel-misfit": "elastic-model-parallel-size-conflict",
    "expert-parallel-size-misfit": "expert-parallel-size-not-a-divisor",
    "gradients-that-ranks-do-not-share": "quantization-groups-not-divisible",
    "misshapen-section": "section-not-an-object",
    "misspelt-key": "typo",
    "muon-before-its-partner": "muon-with-unsupported-zero-feature",
    "null-that-accelerate-opens": "null-section-with-accelerate",
    "parts-that-are-not-quantized": "shard-not-quantizable",
    "refused-beside-deepspeed": "incompatible-with-deepspeed",
    "scheduler-of-objects": "scheduler-requires-python-objects",
    "step-count-that-is-none": "invalid-step-count",
    "unfilled-auto": "unresolved-auto",
    "value-that-torch-refuses": "optimizer-param-out-of-range",
    "zero-switch-that-accelerate-opens": "zero-optimization-as-boolean-with-accelerate",
}
"""Current name of a rule by its former name, which is accepted wherever the current one is.

Each renamed rule adds a line here. Rule codes never change.
"""


def former_names(name: str) -> tuple[str, ...]:
    """Return the former names of a rule."""
    return tuple(former for former, current in FORMER_NAMES.items() if current == name)
