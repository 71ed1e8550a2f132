from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import elastic
from elastic import ElasticityConfigError, ElasticityIncompatibleWorldSize
from tests.elastic.conftest import published, strict_configs, whole
from tests.parity.generators.elastic_blocks import SIZED_KEYS

NODES = {
    "max_train_batch_size": 2000,
    "micro_batch_sizes": [2, 4, 6],
    "num_gpus_per_node": 8,
    "model_parallel_size": 2,
    "max_gpus": 256,
    "version": 0.2,
}


def planned(config: dict[str, Any], **more: Any) -> elastic.Plan:
    """The plan, or a rejected example where the block admits nothing."""
    try:
        result: elastic.Plan = elastic.plan(config, **more)
    except ElasticityConfigError:
        assume(False)
        raise
    return result


@given(strict_configs())
def test_every_row_makes_up_the_batch(config: dict[str, Any]) -> None:
    plan = planned(config)
    block = plan.block
    assert plan.rows
    assert plan.batch_size <= block.max_train_batch_size
    for row in plan.rows:
        assert (
            row.micro_batch_size * row.accumulation_steps * row.world_size
            == row.batch_size
            == plan.batch_size
        )
        assert row.micro_batch_size in block.micro_batch_sizes
        assert row.gpus == row.world_size * block.model_parallel_size
        assert (row.nodes - 1) * block.num_gpus_per_node < row.gpus <= row.nodes * block.num_gpus_per_node
        assert row.gpus <= block.max_gpus
        assert block.version != 0.2 or row.gpus % block.num_gpus_per_node == 0
    assert list(plan.world_sizes) == sorted(set(plan.world_sizes))


@given(strict_configs(), st.randoms(use_true_random=False))
def test_order_of_micro_batches_does_not_matter(config: dict[str, Any], source: Any) -> None:
    plan = planned(config)
    source.shuffle(config["elasticity"]["micro_batch_sizes"])
    assert elastic.plan(config) == plan


@given(strict_configs(), st.sampled_from(elastic.SEMANTICS[3:]))
def test_plan_is_compute_elastic_config(
    config: dict[str, Any], semantics: elastic.ElasticitySemantics
) -> None:
    plan = planned(config, semantics=semantics)
    block = plan.block
    if block.version == 0.1:
        answer = elastic.compute_elastic_config(config, "0.19.7", semantics=semantics)
        assert answer == (plan.batch_size, list(plan.world_sizes))
    elif block.model_parallel_size == 1:
        size = plan.world_sizes[-1]
        batch, sizes, micro = elastic.compute_elastic_config(config, "0.19.7", size, semantics=semantics)
        assert (batch, tuple(sizes)) == (plan.batch_size, plan.world_sizes)
        assert micro == plan.row(size).micro_batch_size


@given(strict_configs(), st.integers(1, 600))
def test_inadmissible_sizes_are_explained(config: dict[str, Any], size: int) -> None:
    plan = planned(config)
    reason = plan.why_not(size)
    down, up = plan.next_down(size), plan.next_up(size)
    assert (reason is None) == plan.admits(size) == (size in plan.world_sizes)
    assert down is None or down < size
    assert up is None or up > size
    if reason is not None:
        assert str(size) in reason
        assert all(str(near) in reason for near in (down, up) if near is not None)
        with pytest.raises(ElasticityIncompatibleWorldSize, match="nearest"):
            plan.row(size)


def test_reasons_show_their_arithmetic() -> None:
    plan = elastic.plan(published())
    assert "9792 = 33 x 296 + 24; nearest: 32 or 34" in (plan.why_not(33) or "")
    assert "below `min_gpus` 32; nearest: 32" in (plan.why_not(31) or "")
    assert "above `max_gpus` 1500; nearest: 1224" in (plan.why_not(1501) or "")
    assert "9792 / 1088 = 9 samples, which no micro batch of [8, 12, 16, 17] divides" in (
        plan.why_not(1088) or ""
    )
    assert "at least 1, not True" in (plan.why_not(True) or "")
    nodes = elastic.plan(whole(NODES))
    assert "6 = 1 nodes x 4 ranks + 2" in (nodes.why_not(6) or "")
    assert "132 x 2 = 264 GPUs, above `max_gpus` 256" in (nodes.why_not(132) or "")


def test_gpus_are_not_ranks() -> None:
    plan = elastic.plan(whole(NODES))
    row = plan.row_for_gpus(16)
    assert (row.world_size, row.gpus, row.nodes) == (8, 16, 2)
    assert plan.gpu_counts == tuple(2 * size for size in plan.world_sizes)
    with pytest.raises(ElasticityIncompatibleWorldSize, match="7 = 3 x 2 \\+ 1"):
        plan.row_for_gpus(7)


def test_apply_takes_the_block_out_and_writes_the_triplet() -> None:
    config = {**published(), "optimizer": {"type": "Adam"}}
    before = copy.deepcopy(config)
    applied = elastic.plan(config).apply(config, 64)
    assert applied == {
        "optimizer": {"type": "Adam"},
        "train_batch_size": 9792,
        "train_micro_batch_size_per_gpu": 17,
        "gradient_accumulation_steps": 9,
    }
    applied["optimizer"]["type"] = "Lamb"
    assert config == before


def test_apply_respects_written_batch_keys() -> None:
    config = {**published(), "train_batch_size": 8}
    with pytest.raises(ElasticityConfigError, match="`train_batch_size`"):
        elastic.plan(config).apply(config, 64)
    config = {**published(ignore_non_elastic_batch_info=True), "train_batch_size": 8}
    assert elastic.plan(config).apply(config, 64)["train_batch_size"] == 9792


def test_fallback_is_a_batch_of_its_own() -> None:
    config = whole({**NODES, "model_parallel_size": 1})
    plan = elastic.plan(config)
    row = plan.fallback(7)
    assert row is not None
    assert (row.batch_size, row.micro_batch_size, row.accumulation_steps) == (1988, 4, 71)
    assert elastic.compute_elastic_config(config, "0.19.7", 7) == (1988, [7], 4)
    assert plan.apply(config, 7, fallback=True)["train_batch_size"] == 1988
    with pytest.raises(ElasticityIncompatibleWorldSize, match="whole number of nodes"):
        plan.apply(config, 7)
    with pytest.raises(ElasticityIncompatibleWorldSize, match="2 x 1001 = 2002"):
        plan.fallback(1001)
    assert elastic.plan(published()).fallback(33) is None


def test_notes_say_what_is_rounded() -> None:
    assert elastic.plan(whole(NODES)).notes == ()
    assert "rounded down to 1 whole nodes, 8 GPUs" in elastic.plan(whole({**NODES, "min_gpus": 12})).notes[0]


BAD: list[Any] = [np.int64(8), 8.0, True, -1, 10**400, 10**13, "8", None, float("nan")]


@pytest.mark.parametrize("value", BAD, ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize("key", SIZED_KEYS)
def test_bad_numbers_name_their_key(key: str, value: Any) -> None:
    with pytest.raises(ElasticityConfigError, match=f"`elasticity.{key}`"):
        elastic.plan(published(**{key: value}))


@pytest.mark.parametrize("value", [*BAD, 0], ids=lambda value: repr(value)[:12])
def test_bad_micro_batches_name_their_place(value: Any) -> None:
    with pytest.raises(ElasticityConfigError, match=r"`elasticity.micro_batch_sizes\[1\]`"):
        elastic.plan(published(micro_batch_sizes=[8, value]))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"micro_batch_sizes": []}, "micro_batch_sizes"),
        ({"micro_batch_sizes": 8}, "micro_batch_sizes"),
        ({"micro_batch_sizes": [20000]}, "micro_batch_sizes"),
        ({"version": 0.3}, "version"),
        ({"version": "0.1"}, "version"),
        ({"version": True}, "version"),
        ({"enabled": 1}, "enabled"),
        ({"enabled": False}, "enabled"),
        ({"prefer_larger_batch": "yes"}, "prefer_larger_batch"),
        ({"ignore_non_elastic_batch_info": None}, "ignore_non_elastic_batch_info"),
        ({"max_gpus": 31}, "max_gpus"),
        ({"model_parallel_size": 2}, "model_parallel_size"),
        ({"version": 0.2, "num_gpus_per_node": 8, "model_parallel_size": 3}, "num_gpus_per_node"),
        ({"version": 0.2, "min_gpus": 1, "max_gpus": 4, "num_gpus_per_node": 8}, "max_gpus"),
        ({"version": 0.2, "max_train_batch_size": 40, "num_gpus_per_node": 4}, "max_train_batch_size"),
        ({"max_train_batch_size": 18, "min_gpus": 1400}, "min_gpus"),
        ({"version": 0.2, "max_train_batch_size": 18, "min_gpus": 1400}, "min_gpus"),
    ],
)
def test_bad_blocks_name_their_key(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(ElasticityConfigError, match=key):
        elastic.plan(published(**changes))


@pytest.mark.parametrize("config", [None, [], {}, {"elasticity": []}, {"elasticity": {"enabled": True}}])
def test_configs_without_a_block(config: Any) -> None:
    with pytest.raises(ElasticityConfigError, match="elasticity"):
        elastic.plan(config)


def test_old_releases_refuse_what_exceeds_the_cap() -> None:
    config = published(max_train_batch_size=100, min_gpus=1)
    assert elastic.plan(config).batch_size <= 100
    with pytest.raises(ElasticityConfigError, match="batch 816"):
        elastic.plan(config, semantics=elastic.semantics_for("0.19.5"))
    with pytest.raises(ElasticityConfigError, match=r"must be 0.1, not 0.2"):
        elastic.plan(published(version=0.2), semantics=elastic.semantics_for("0.6.7"))
