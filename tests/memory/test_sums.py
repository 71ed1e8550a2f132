"""Estimates of any size: columns add up, nothing is below zero, and bounds are bounds."""

from __future__ import annotations

import pytest

import dsconfig
from dsconfig.core.json_types import Json, JsonObject
from dsconfig.memory.estimates import MemoryUsage

OFFLOADED: JsonObject = {"offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}
CONFIGS: dict[str, JsonObject] = {
    "stage 0": {"stage": 0},
    "stage 1": {"stage": 1, "overlap_comm": True},
    "stage 2": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    "stage 3": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True},
    "offloaded": {"stage": 3, **OFFLOADED},
    "quantised": {"stage": 3, "zero_quantized_gradients": True},
}
MODELS = ("llama-3-8b", "llama-3.1-405b", "qwen3-235b-a22b", "gpt2", "vit-base", "bert-base-uncased")


def _add_up(side: MemoryUsage) -> None:
    columns = {"at_rest": side.at_rest, **side.peak}
    for phase, whole in columns.items():
        parts = [term.phases.get(phase, 0) for term in side.terms]
        assert sum(parts) == whole
        assert min(parts, default=0) >= 0, side.terms
    assert all(side.bound[phase] >= count for phase, count in side.peak.items())
    assert all(term.key and term.formula for term in side.terms)
    assert all(term.bytes == max(term.phases.values()) for term in side.terms)


def _hold(config: JsonObject, model: Json, world_size: int, **asked: object) -> None:
    found = dsconfig.memory(config, model=model, world_size=world_size, zero_init=True, **asked)  # type: ignore[arg-type]
    _add_up(found.rank)
    _add_up(found.host)
    trained = ("forward", "backward", "step")
    assert min(found.rank.peak[phase] for phase in trained) >= found.rank.at_rest
    assert all(call.sent >= 0 and call.calls > 0 for call in found.collectives)


def _config(zero: str, micro: int = 1, **others: Json) -> JsonObject:
    own: JsonObject = {"train_micro_batch_size_per_gpu": micro, "zero_optimization": CONFIGS[zero]}
    return {**own, "bf16": {"enabled": True}, **others}


@pytest.mark.parametrize("zero", CONFIGS)
@pytest.mark.parametrize("model", MODELS)
def test_columns_add_up(zero: str, model: str) -> None:
    """Of every family, on as many ranks as no model is divided by."""
    _hold(_config(zero), model, 22)


@pytest.mark.parametrize("model", MODELS[:3])
def test_gradients_that_are_quantised(model: str) -> None:
    """On as many ranks as share their groups evenly, and as many nodes as quantise anything at all."""
    _hold(_config("quantised"), model, 16)


@pytest.mark.parametrize("zero", ["stage 1", "stage 2", "stage 3"])
@pytest.mark.parametrize("world_size", [512, 99_991])
def test_large_runs(zero: str, world_size: int) -> None:
    """Each stretch of a bucket is looked at once: a run of so many ranks has very many in one bucket."""
    _hold(_config(zero), "llama-3.1-405b", world_size)
    _hold(_config(zero, bf16={"enabled": False}), "gpt2", world_size, lora="r=16,target=all")


def test_large_batches() -> None:
    """A million sequences of a million tokens, a million times a step."""
    config = _config("stage 3", 10**6, gradient_accumulation_steps=10**6)
    _hold(config, "llama-3-8b", 64, sequence_length=10**6, checkpointing=True)


def test_a_bias_of_words_is_a_weight_of_a_layer() -> None:
    """BERT's bias of words is tied: it is cut once as the model is built, and is quantised as any vector."""
    model: JsonObject = {"model_type": "bert", "vocab_size": 30_528}
    _hold(_config("quantised"), model, 16)
    built = [
        dsconfig.memory(_config("offloaded"), model=model, world_size=16, zero_init=shards).rank.peak["load"]
        for shards in (True, False)
    ]
    assert built[0] == built[1]
