"""`show` gives what DeepSpeed ends up with where it is derived; `tests.parity.effective` compares all."""

from __future__ import annotations

from typing import Any

import pytest

from dsconfig.core.releases import NUMBERS, RELEASES
from dsconfig.model.key_table import find_key
from dsconfig.resolve.effective_values import effective_values_of
from dsconfig.resolve.values_replaced_by_deepspeed import DERIVATIONS, EffectiveValue

ZERO = "zero_optimization"


def shown(config: Any, target: str = "0.19.8", **options: Any) -> dict[str, EffectiveValue]:
    return {value.key: value for value in effective_values_of(config, target=target, **options).values}


def told(config: Any, key: str, target: str = "0.19.8", **options: Any) -> tuple[Any, str, str]:
    value = shown(config, target, **options)[key]
    return value.value, value.origin, value.note


@pytest.mark.parametrize("target", ["0.9.5", "0.14.5", "0.19.8"])
def test_overlap_follows_from_the_stage(target: str) -> None:
    key = f"{ZERO}.overlap_comm"
    origin = "derived from `zero_optimization.stage`"
    assert told({ZERO: {"stage": 3}}, key, target) == (True, "derived", origin)
    assert told({ZERO: {"stage": 2}}, key, target) == (False, "derived", origin)
    assert told({ZERO: {}}, key, target) == (False, "default", f"default of {target}")
    assert told({ZERO: {"stage": 3, "overlap_comm": False}}, key, target)[0] is False
    assert told({ZERO: {"stage": 3, "overlap_comm": "auto"}}, key, target)[0] is True


@pytest.mark.parametrize("target", ["0.9.5", "0.19.8"])
def test_first_forms_of_the_offload_sections(target: str) -> None:
    config = {ZERO: {"stage": 3, "cpu_offload": True, "cpu_offload_param": True}}
    values = shown(config, target)
    for section, switch in (("offload_optimizer", "cpu_offload"), ("offload_param", "cpu_offload_param")):
        value = values[f"{ZERO}.{section}.device"]
        assert (value.value, value.origin) == ("cpu", "derived")
        assert value.note == f"derived from `{ZERO}.{switch}`"
    off = shown({ZERO: {"stage": 3, "cpu_offload": False}}, target)
    assert f"{ZERO}.offload_optimizer.device" not in off


def test_old_names() -> None:
    gather = f"{ZERO}.stage3_gather_16bit_weights_on_model_save"
    old = f"{ZERO}.stage3_gather_fp16_weights_on_model_save"
    assert told({ZERO: {"stage": 3, old.rpartition(".")[2]: True}}, gather)[:2] == (True, "derived")
    assert told({"bfloat16": {"enabled": True}}, "bf16.enabled")[:2] == (True, "derived")
    assert told({"bfloat16": {"enabled": True}, "bf16": {}}, "bf16.enabled")[:2] == (False, "default")
    assert told({ZERO: {"prefetch_bucket_size": 5}}, f"{ZERO}.prefetch_bucket_size")[0] == 5


def test_zero_as_a_switch() -> None:
    values = shown({ZERO: True, "allgather_size": 7}, "0.14.5")
    assert values[f"{ZERO}.stage"][1:3] == (1, "derived")
    assert values[f"{ZERO}.allgather_bucket_size"].value == 7


def test_text_where_a_list_belongs() -> None:
    key = f"{ZERO}.leaf_module.names"
    assert told({ZERO: {"leaf_module": {"names": "a"}}}, key)[:2] == (["a"], "converted")
    assert told({ZERO: {"leaf_module": {"names": ["a", "a"]}}}, key)[:2] == (["a"], "converted")


@pytest.mark.parametrize(
    ("config", "key", "value"),
    [
        ({"optimizer": {"type": "AdamW", "params": {}}}, "optimizer.type", "adamw"),
        ({"optimizer": {"type": "SGD", "params": {}}}, "optimizer.type", "SGD"),
        ({"flops_profiler": {"enabled": True}}, "wall_clock_breakdown", True),
        ({"checkpoint": {"tag_validation": "Ignore"}}, "checkpoint.tag_validation", "IGNORE"),
        ({"gradient_allreduce_op": "SUM"}, "gradient_allreduce_op", "sum"),
        ({ZERO: {"offload_param": {"nvme_path": "/a//b/"}}}, f"{ZERO}.offload_param.nvme_path", "/a/b"),
        ({"dump_state": 1}, "dump_state", 1),
    ],
)
def test_what_deepspeed_makes_of_a_value(config: Any, key: str, value: Any) -> None:
    assert told(config, key)[0] == value


def test_what_is_not_looked_at_while_fp16_is_off() -> None:
    config = {"fp16": {"loss_scale": 128}, "bf16": {"enabled": True}}
    value, origin, note = told(config, "fp16.loss_scale", "0.14.5")
    assert (value, origin) == (1.0, "derived")
    assert note == "written, not read: `fp16` is off"
    assert told({"fp16": {"enabled": True, "loss_scale": 128}}, "fp16.loss_scale", "0.14.5")[0] == 128


def test_refused_is_what_check_refuses() -> None:
    assert told({"checkpoint": {"tag_validation": "Warn"}}, "checkpoint.tag_validation")[1] == "converted"
    assert told({"checkpoint": {"tag_validation": "x"}}, "checkpoint.tag_validation")[1] == "refused"


def test_groups_by_names_of_ones_own() -> None:
    groups = {"mine": {"params": {"start_bits": 8, "target_bits": 4}}}
    config = {"compression_training": {"weight_quantization": {"different_groups": groups}}}
    path = "compression_training.weight_quantization.different_groups.mine"
    values = shown(config, "0.14.5")
    assert values[f"{path}.params.start_bits"].value == 8
    assert values[f"{path}.params.quantization_period"].origin == "default"


@pytest.mark.parametrize("entry", DERIVATIONS, ids=lambda entry: entry.key)
def test_every_derivation_is_of_a_key_that_some_release_reads(entry: Any) -> None:
    readers = [release for release in RELEASES if NUMBERS[release] in entry.releases]
    for key in (entry.key, *entry.of):
        if not key.startswith("optimizer.params"):
            assert any(find_key(key, NUMBERS[release])[0] for release in readers), key
