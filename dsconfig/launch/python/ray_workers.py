"""Workers that Ray Train starts for a program: one rank each."""

from __future__ import annotations

import ast

from dsconfig.core.file_access import read_contents
from dsconfig.launch.python.constant_expressions import ConstantEvaluator
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import ProgramRepository, keyword_argument, parse_module

_MAX_FILE = 256 * 1024


def ray_workers(program: str) -> int | None:
    """Return the number of workers of the only `ScalingConfig` of a program; None if it is unknown.

    Source: ray.air.config.ScalingConfig, whose workers are the ranks of a `TorchTrainer`.
    """
    try:
        data = read_contents(program, _MAX_FILE)
    except OSError:
        return None
    module = parse_module(program, data) if b"ScalingConfig" in data else None
    if module is None:
        return None
    names = module.names
    calls = [each for each in names.calls if last_dotted_name(each.func) == "ScalingConfig"]
    if len(calls) != 1 or any(name == "num_workers" for name in names.fields):
        return None
    (call,) = calls
    value = keyword_argument(call, "num_workers") or next(
        iter(call.args[1:2]), None
    )  # `trainer_resources` is the first field
    if not isinstance(value, ast.expr) or any(each.arg is None for each in call.keywords):
        return None
    workers = ConstantEvaluator(module, ProgramRepository(program)).evaluate_constant(value)
    return workers if type(workers) is int and workers > 0 else None
