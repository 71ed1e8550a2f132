"""What advice says, when done, ends the finding: over all cases of the rules, and some generated configs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fuzz.advice.__main__ import Question, generated, pinned
from tests.fuzz.advice.follow import attempts
from tests.fuzz.advice.sentences import Beyond, Move, Put, Ranks, Remove, Rename, Unread, ways


def faults(question: Question) -> list[str]:
    """The helps that lead astray, each with its way and outcome."""
    return [
        f"{attempt.found.code} {attempt.outcome}: {attempt.found.help} {attempt.way}"
        for attempt in attempts(*question)
        if attempt.fault
    ]


def test_advice_of_all_cases() -> None:
    assert [fault for question in pinned() for fault in faults(question)] == []


def test_advice_on_generated_configs() -> None:
    """None leads astray, where what comes to light behind a fault is followed as well."""
    assert [fault for question in generated(160, 0) for fault in faults(question)] == []


LAMB = {"stage": 1, "offload_optimizer": {"device": "cpu"}, "cpu_offload": True}
CURRICULUM = {
    "enabled": True,
    "curriculum_type": "seqlen",
    "min_difficulty": 8,
    "schedule_type": "fixed_root",
}
DEEPEP = {"enabled": True, "row_weighting_impl": "fused"}
FORMATS = {"fp16": {"enabled": True}, "bf16": {"enabled": True}}
ZENFLOW = {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow": {"update_interval": -1}}
ELASTIC = {"enabled": True, "max_train_batch_size": 5, "micro_batch_sizes": [5], "version": 0.2}


@pytest.mark.parametrize(
    ("data", "target", "world_size"),
    [
        ({"train_batch_size": 34, "gradient_accumulation_steps": 1.5}, "0.19.8", 4),
        ({"train_batch_size": 10**20, "gradient_accumulation_steps": 0.5}, "0.19.8", 7),
        ({"train_batch_size": 1e20, "train_micro_batch_size_per_gpu": 3}, "0.18.9", 8),
        ({"optimizer": {"type": "Lamb"}, "zero_optimization": LAMB}, "0.14.5", None),
        ({"curriculum_learning": CURRICULUM}, "0.18.9", None),
        ({"curriculum_learning": {**CURRICULUM, "schedule_config": [None]}}, "0.18.9", None),
        ({"expert_parallel": DEEPEP}, "0.19.8", None),
        ({"expert_parallel": {"enabled": True}}, "0.19.8", 1),
        ({"expert_parallel": {"enabled": True}}, "0.19.8", 7),
        ({"bf16": {"enabled": True}, "data_types": {"param_dtype": "int8"}}, "0.19.8", None),
        ({**FORMATS, "data_types": {"param_dtype": "bf16"}}, "0.19.8", None),
        ({"gradient_accumulation_steps": 2, "zero_optimization": ZENFLOW}, "0.18.9", None),
        ({"elasticity": {**ELASTIC, "num_gpus_per_node": 8, "model_parallel_size": 8}}, "0.16.9", None),
        ({"compile": {"passes": 0}}, "0.19.8", None),
    ],
)
def test_advice_that_led_astray(data: dict[str, Any], target: str, world_size: int | None) -> None:
    batch = {} if {"train_batch_size", "elasticity"} & set(data) else {"train_micro_batch_size_per_gpu": 8}
    found = faults(Question({**batch, **data}, target, world_size, "deepspeed"))
    assert found == []


def test_every_help_of_a_case_is_read() -> None:
    said = [attempt.way for question in pinned() for attempt in attempts(*question)]
    assert not [way for way in said if any(isinstance(step, Unread) for step in way)]


@pytest.mark.parametrize(
    ("help", "expected"),
    [
        ("remove it: the default is 1", [(Remove(),)]),
        ("remove `a` and `b.c`, or set `d` to 2", [(Remove(("a", "b.c")),), (Put("d", "2"),)]),
        (
            "use stage 1 or 2",
            [(Put("zero_optimization.stage", "1"),), (Put("zero_optimization.stage", "2"),)],
        ),
        ("move it to `a.b`", [(Move("a.b"),)]),
        ("rename `name` to `type`", [(Rename("name", "type"),)]),
        ("did you mean `stage`?", [(Rename("", "stage"),)]),
        ('set `a.b` to `{"c": 1}` instead', [(Remove(), Put("a.b", '`{"c": 1}`'))]),
        ('add `"device": "cpu"` or `"nvme"`', [(Put("device", '"cpu"'),), (Put("device", '"nvme"'),)]),
        ("upgrade DeepSpeed to 0.19.2 or later", [(Beyond("upgrade DeepSpeed to 0.19.2 or later"),)]),
        ("use 12 GPUs", [(Ranks(12),)]),
        ("change the number of GPUs", [(Ranks(None),)]),
        ("frobnicate it", [(Unread("frobnicate it"),)]),
    ],
)
def test_forms_are_read(help: str, expected: list[object]) -> None:
    assert list(ways(help)) == expected
