"""The search for the smallest changes that fit: on runs with made-up savings, and on a small model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest

from dsconfig.core.gpu_memory import GpuMemory
from dsconfig.memory import (
    ConfigChange,
    ConfigValues,
    Estimate,
    FitSearch,
    MicroBatch,
    NotModelledError,
    RequestedLimits,
    TrainingJob,
    architecture_of,
    estimate,
    fit,
)
from dsconfig.memory.estimates import NO_LIMIT, MemoryLimit, MemoryUsage
from dsconfig.memory.fit_search import UnfilledRun, change_values

MODEL = architecture_of(
    {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 1024,
    }
)
ZERO = "zero_optimization."
CONFIG = ConfigValues(
    {
        "bf16.enabled": True,
        "optimizer.type": "AdamW",
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 1,
        f"{ZERO}stage": 1,
        f"{ZERO}reduce_bucket_size": 1000,
    }
)
JOB = TrainingJob("0.19.8", 8, MicroBatch(4, 128), gpus_per_node=8)
CHECKPOINT = "checkpoint activations in the script"
SMALLER = "set `train_micro_batch_size_per_gpu` to 2 and set `gradient_accumulation_steps` to 2"


def limits(room: int, host: int | None = None) -> RequestedLimits:
    """Room for tensors only."""
    return RequestedLimits(GpuMemory(room, room), host, 0)


class MadeUpRun(NamedTuple):
    """A run whose rank needs a given number of bytes."""

    bytes: int
    defects: frozenset[str] = frozenset()

    def answer(self, room: MemoryLimit = NO_LIMIT) -> Estimate:
        usage = MemoryUsage(self.bytes, {"step": self.bytes}, {"step": self.bytes}, ())
        return replace(estimate(CONFIG, MODEL, JOB, expects_device=False), rank=usage)

    def known_defects(self) -> frozenset[str]:
        return self.defects


def descriptions(room: int, needed: int, saved: Mapping[str, int], **defects: str) -> list[str] | None:
    """Changes that the search chooses for a run that needs some bytes, of which each change saves a part.

    Any other change is not possible. None if no changes are enough.
    """

    def run_after(changes: Sequence[ConfigChange], _: int) -> MadeUpRun:
        if not {change.description for change in changes} <= saved.keys():
            raise NotModelledError("not possible")
        met = frozenset(defects[change.description] for change in changes if change.description in defects)
        return MadeUpRun(needed - sum(saved[change.description] for change in changes), met)

    result = fit(CONFIG, MODEL, JOB, limits(room), run_after=run_after)
    return [each.change.description for each in result.changes] if result.fits else None


def test_nothing_changes_if_it_fits() -> None:
    assert descriptions(100, 100, {}) == []


def test_the_cheapest_change_that_is_enough_is_chosen() -> None:
    saved = {SMALLER: 10, CHECKPOINT: 30}
    assert descriptions(90, 100, saved) == [SMALLER]
    assert descriptions(70, 100, saved) == [CHECKPOINT]


def test_changes_are_combined_and_those_that_are_not_needed_dropped() -> None:
    saved = {SMALLER: 1, CHECKPOINT: 30, f"set `{ZERO}stage` to 2": 20}
    assert descriptions(50, 100, saved) == [CHECKPOINT, f"set `{ZERO}stage` to 2"]
    assert descriptions(49, 100, saved) == [SMALLER, CHECKPOINT, f"set `{ZERO}stage` to 2"]
    assert descriptions(48, 100, saved) is None


def test_a_change_with_a_known_defect_is_not_chosen() -> None:
    saved = {CHECKPOINT: 30, f"set `{ZERO}stage` to 2": 30}
    assert descriptions(70, 100, saved, **{CHECKPOINT: "it crashes"}) == [f"set `{ZERO}stage` to 2"]


def test_what_fits_on_more_ranks_is_named() -> None:
    def run_after(changes: Sequence[ConfigChange], ranks: int) -> MadeUpRun:
        return MadeUpRun(800 // ranks)

    result = fit(CONFIG, MODEL, JOB, limits(30), run_after=run_after)
    assert (result.fits, result.ranks, result.verdict) == (False, 32, "does not fit")


@pytest.mark.parametrize("percent", [90, 60, 30])
def test_changes_of_a_model_are_enough_and_none_too_many(percent: int) -> None:
    first = estimate(CONFIG, MODEL, JOB)
    room = first.rank.upper_bound * percent // 100
    search = FitSearch(CONFIG, MODEL, JOB, limits(room))
    result = search.fit()
    assert result.fits
    assert result.estimate is not None
    assert result.estimate.rank.upper_bound <= room
    for left_out in result.chosen:
        fewer = search.estimate([each for each in result.chosen if each is not left_out], JOB.world_size)
        assert fewer is None or fewer.rank.upper_bound > room


def test_a_change_of_the_micro_batch_scales_the_samples() -> None:
    pairs = JOB._replace(micro_batch=MicroBatch(8, 128))  # DPO: two sequences per sample
    change = ConfigChange("", {"train_micro_batch_size_per_gpu": 1}, checkpointing=True, zero_init=True)
    run = UnfilledRun(CONFIG, MODEL, pairs).after([change], 16)
    assert run.job == pairs._replace(
        world_size=16, zero_init=True, micro_batch=MicroBatch(2, 128, gradient_checkpointing=True)
    )


def test_a_section_replaces_its_keys() -> None:
    before = ConfigValues({"a.b": 1, "a.c": 2, "d": 3}, {"a.b", "d"})
    after = change_values(before, [ConfigChange("", {"a": {"e": {"f": 4}}}), ConfigChange("", {"d": 5})])
    assert after.values == {"a.e.f": 4, "d": 5}
    assert after.explicit_keys == {"a.e.f", "d"}
    assert not change_values(before, [ConfigChange("", {"a": None})]).has_section("a")
