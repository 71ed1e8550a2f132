"""Runs one release's real `deepspeed.elasticity` over cases on stdin; answers on stdout, a JSON line each.

    python elasticity.py RELEASE_DIR < cases.jsonl > answers.jsonl

Uses only the standard library, numpy and packaging: of the release it executes `elasticity/elasticity.py`,
`config.py` and `constants.py`, with its logger and its `__init__` files (which import torch) left out.
"""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import os
import sys
import types
from collections.abc import Callable
from typing import Any


def load(release_dir: str) -> Any:
    """The release's own elasticity module."""
    root = os.path.join(release_dir, "deepspeed")
    stands: dict[str, dict[str, Any]] = {
        "deepspeed": {"__path__": [root]},
        "deepspeed.elasticity": {"__path__": [os.path.join(root, "elasticity")]},
        "deepspeed.utils": {"logger": logging.getLogger("deepspeed")},
        "deepspeed.git_version_info": {"version": os.path.basename(release_dir)},
    }
    for name, attributes in stands.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(attributes)
    return importlib.import_module("deepspeed.elasticity.elasticity")


def public_error(error: BaseException) -> str:
    """The first class of an error that users can name: a builtin, or one of elasticity's."""
    for kind in type(error).__mro__:
        if kind.__module__ == "builtins" or kind.__name__.startswith("Elasticity"):
            return kind.__name__
    return "BaseException"


def set_environment(values: dict[str, str | None]) -> None:
    """Set the variables that elasticity reads; `None` removes one."""
    for name in ("WORLD_SIZE", "DEEPSPEED_ELASTICITY_CONFIG"):
        value = values.get(name)
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def answer(case: dict[str, Any], module: Any, has_microbatch: bool) -> dict[str, Any]:
    """`{"ok": value}` or `{"error": type}` for one case."""
    set_environment(case["environment"])
    try:
        if case["call"] == "enabled":
            return {"ok": module.elasticity_enabled(case["config"])}
        if case["call"] == "immutable":
            return {"ok": module.ensure_immutable_elastic_config(case["config"]["elasticity"])}
        if case["call"] != "compute":
            return {"ok": getattr(module, case["call"])(*case["arguments"])}
        extra = {"return_microbatch": case["return_microbatch"]} if has_microbatch else {}
        compute: Callable[..., Any] = module.compute_elastic_config
        return {"ok": compute(case["config"], case["target"], case["world_size"], **extra)}
    except Exception as error:
        return {"error": public_error(error)}


def main() -> None:
    module = load(sys.argv[1])
    has_microbatch = "return_microbatch" in inspect.signature(module.compute_elastic_config).parameters
    for line in sys.stdin:
        result = answer(json.loads(line), module, has_microbatch)
        print(json.dumps(result, default=lambda value: value.item()))


if __name__ == "__main__":
    main()
