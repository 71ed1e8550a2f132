"""Numbers that few programs expect (infinity, NaN, 400 digits, -0.0), at every key, in JSON and YAML."""

from __future__ import annotations

import json
from collections.abc import Iterator

from dsconfig.core.json_types import Spec
from dsconfig.model.key_table import iter_keys

HUGE = "1" + "0" * 400
IN_JSON = (
    *("1e999", "-1e999", "Infinity", "-Infinity", "NaN", "-0.0", "1.7e308", "5e-324"),
    *(HUGE, f"-{HUGE}", "9" * 30, "9" * 5000),
)
IN_YAML = (".inf", "-.inf", ".nan", "1.0e+999", "-0.0", HUGE, f"-{HUGE}")
WRITTEN = (*(("ds_config.json", word) for word in IN_JSON), *(("ds_config.yaml", word) for word in IN_YAML))
"""Names of files, and a number as it is written in each."""

BASE: dict[str, object] = {
    "train_batch_size": 16,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 100, "warmup_num_steps": 10}},
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu"},
        "offload_param": {"device": "nvme", "nvme_path": "/nvme"},
    },
    "bf16": {"enabled": True},
    "flops_profiler": {"enabled": True},
}
"""A config in which the sections that most rules look at are switched on."""


def number_paths() -> list[tuple[str, ...]]:
    """The paths of keys that may hold a number."""
    return [
        path
        for path, info in iter_keys()
        if "*" not in path and {"int", "float", "any"} & set(_heads(info.type))
    ]


def _heads(spec: Spec) -> Iterator[str]:
    yield spec[0]
    for part in spec[1:]:
        if isinstance(part, tuple):
            yield from _heads(part)


def config_with(path: tuple[str, ...], word: str) -> str:
    """A JSON text, which is YAML too, with this number at the path and its sections switched on."""
    config = json.loads(json.dumps(BASE))
    inner = config
    for key in path[:-1]:
        if not isinstance(inner.get(key), dict):
            inner[key] = {"enabled": True}
        inner = inner[key]
    inner[path[-1]] = "@number@"
    return json.dumps(config).replace('"@number@"', word)
