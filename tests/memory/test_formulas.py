"""Formulas of terms: computed by hand from what they say, they are the bytes that stand beside them."""

from __future__ import annotations

import pytest

import dsconfig
from dsconfig.core.json_types import JsonObject

P, V, T, TABLE = 124_439_808, 50_257, 1024, 50_257 * 768
"""Of GPT-2: parameters, words, tokens of a sequence, and the table that its head is tied to."""
RANKS = 8
PURE: JsonObject = {
    "enabled": True,
    "bf16_master_weights_and_grads": True,
    "bf16_optimizer_states": True,
}
BF16: JsonObject = {"enabled": True}


@pytest.mark.parametrize(
    ("stage", "bf16", "optimizer", "expected"),
    [
        (0, BF16, "adamw", {"parameters": 2 * P, "master weights": 4 * P, "optimizer states": 8 * P}),
        (0, {}, "adamw", {"parameters": 4 * P, "gradients": 4 * P, "logits and loss": 8 * T * V}),
        (1, {}, "adamw", {"parameters": 4 * P, "master weights": P // 2, "optimizer states": P}),
        (2, BF16, "adamw", {"parameters": 2 * P, "logits and loss": 10 * T * V}),
        (2, PURE, "adamw", {"master weights": P // 4, "optimizer states": P // 2}),
        (3, BF16, "lion", {"gradients": P // 4, "optimizer states": P // 2, "reduce bucket": 10**6}),
        (3, BF16, "sgd", {"optimizer states": 0, "master weights": P // 2}),
    ],
)
def test_formulas(stage: int, bf16: JsonObject, optimizer: str, expected: dict[str, int]) -> None:
    config: JsonObject = {
        "train_micro_batch_size_per_gpu": 1,
        "bf16": bf16,
        "zero_optimization": {"stage": stage, "reduce_bucket_size": 500_000, "overlap_comm": False},
    }
    found = dsconfig.memory(config, model="gpt2", world_size=RANKS, optimizer=optimizer, sequence_length=T)
    terms = {term.name: term.bytes for term in found.rank.terms}
    assert {name: terms.get(name, 0) for name in expected} == expected
    host = {term.name: term.bytes for term in found.host.terms}
    assert host["initial model copy"] == RANKS * 4 * (P + TABLE)
