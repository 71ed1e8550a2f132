"""The checks, a file per domain; `RULES` holds them all by code.

Importing this package registers every rule. The order of the imports is the order of the domains' codes.
"""

from __future__ import annotations

from dsconfig.rules import document, keys, types, old_forms, defaults, batch, world  # isort: skip
from dsconfig.rules import precision, zero, offload, aio, zenflow, communication, engine  # isort: skip
from dsconfig.rules import optimizer, scheduler, elasticity, parallel, autotuning, checkpoint, profiling  # isort: skip
from dsconfig.rules import legacy, compression, data, quantization  # isort: skip
from dsconfig.rules import consumers, launch  # isort: skip
from dsconfig.rules import expert_parallel, expert_folding, pipeline, deepcompile, hybrid_engine  # isort: skip
from dsconfig.rules import activation_checkpointing, curriculum, idle  # isort: skip
from dsconfig.evaluation.evaluate import Outcome, evaluate
from dsconfig.evaluation.rule import RULES, Rule

__all__ = ["RULES", "Outcome", "Rule", "evaluate"]

del document, keys, types, old_forms, defaults, batch, world
del precision, zero, offload, aio, zenflow, communication, engine
del optimizer, scheduler, elasticity, parallel, autotuning, checkpoint, profiling
del legacy, compression, data, quantization
del consumers, launch
del expert_parallel, expert_folding, pipeline, deepcompile, hybrid_engine
del activation_checkpointing, curriculum, idle
