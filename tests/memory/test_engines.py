"""The four engines on a model of 20 parameters: every number is worked out by hand."""

from __future__ import annotations

import pytest

from tests.memory.tiny import at_rest, run, tiny_setup

OFFLOAD = {"zero_optimization__offload_optimizer__device": "cpu"}
FORWARD = 2 * (10 + 20 + 15 + 1)
"""Input, hidden layer, output and loss of 5 rows in bf16: all alive when the loss is computed."""
SAVED, FLOWING = 2 * (10 + 20), 2 * (15 + 20)
"""Activations, and their gradients, in the backward pass of the second layer."""


def test_stage_0_keeps_everything_on_every_rank() -> None:
    engine, ledger = run(tiny_setup(0))
    assert type(engine).__name__ == "FP16Optimizer"
    rank = at_rest(tiny_setup(0))[0]
    # bf16 weights, fp32 masters, two fp32 states of Adam.
    assert rank == {"parameters": 2 * 20, "master weights": 4 * 20, "optimizer states": 8 * 20}
    assert ledger.rank.peaks["forward"].bytes == 280 + FORWARD
    # The second layer's gradient, 12 elements, arrives while everything that the layer saved is alive.
    assert ledger.rank.peaks["backward"].bytes == 280 + SAVED + FLOWING + 2 * 12
    # `FP16_Optimizer.step` casts every gradient, then flattens them: twice 4 bytes next to the bf16 gradients.
    assert ledger.rank.peaks["step"].bytes == 280 + 2 * 20 + 2 * 4 * 20
    assert engine.calls == {("backward", "all_reduce", 2, 2): (1, 20)}


@pytest.mark.parametrize(("world", "padded", "share"), [(1, 20, 20), (2, 20, 10), (3, 24, 8)])
def test_stages_1_and_2_pad_the_weights_to_two_elements_of_each_rank(
    world: int, padded: int, share: int
) -> None:
    expected = {"parameters": 2 * padded, "master weights": 4 * share, "optimizer states": 8 * share}
    assert at_rest(tiny_setup(1, world)) == (expected, {})
    assert at_rest(tiny_setup(2, world)) == (expected, {})


def test_stage_2_reduces_through_a_bucket() -> None:
    engine, ledger = run(tiny_setup(2))
    # After the second layer: the input is saved, its output's gradient flows, and the bucket exists.
    assert ledger.rank.peaks["backward"].bytes == 160 + 2 * 10 + 2 * 20 + 2 * 12 + 2 * 100
    # Rank 0 has all of the first weight and 2 elements of the second, and keeps both gradients whole. The norm of the
    # first in fp64 takes more than the flat gradient (2 bytes × 10) and its fp32 copy (4 × 10).
    assert ledger.rank.peaks["step"].bytes == 160 + 2 * 20 + 8 * 8
    assert engine.calls == {("backward", "all_reduce", 2, 2): (1, 20), ("step", "all_gather", 2, 2): (1, 20)}


def test_stage_2_flushes_a_bucket_that_is_too_small_for_the_next_gradient() -> None:
    engine, ledger = run(tiny_setup(2, zero_optimization__reduce_bucket_size=10))
    assert engine.calls["backward", "all_reduce", 2, 2] == (2, 20)
    # The peak is back at the second layer: its gradient is larger than the bucket of 10 elements.
    assert ledger.rank.peaks["backward"].bytes == 160 + SAVED + FLOWING + 2 * 12


def test_stage_2_adds_the_gradients_of_micro_batches() -> None:
    _, ledger = run(tiny_setup(2, gradient_accumulation_steps=2))
    assert ledger.rank.peaks["backward"].bytes == 160 + 2 * 10 + 2 * 20 + 2 * 12 + 2 * 100 + 2 * 20


def test_offload_at_stage_2_moves_all_but_the_weights() -> None:
    rank, host = at_rest(tiny_setup(2, **OFFLOAD))
    # One buffer of the largest gradient on the rank; with the bf16 partition also on the host.
    assert rank == {"parameters": 2 * 20, "offload staging buffers": 2 * 12}
    assert host == {
        "master weights": 4 * 10,
        "optimizer states": 8 * 10,
        "offloaded gradient partition": 4 * 10,
        "offload staging buffers": 2 * 12 + 2 * 10,
    }


@pytest.mark.parametrize(("world", "share"), [(2, 4 + 6), (3, 3 + 4)])
def test_stage_3_partitions_each_parameter(world: int, share: int) -> None:
    assert at_rest(tiny_setup(3, world))[0] == {
        "parameters": 2 * share,
        "master weights": 4 * share,
        "optimizer states": 8 * share,
        "gradients": 2 * share,
        "reduce bucket": 2 * 100,
    }


def test_stage_3_gathers_one_layer_at_a_time() -> None:
    engine, ledger = run(tiny_setup(3))
    assert ledger.rank.peaks["forward"].bytes == 360 + FORWARD + 2 * 12
    # The graph keeps a view of the second weight, and the backward pass gathers it again.
    assert ledger.rank.peaks["backward"].bytes == 360 + SAVED + FLOWING + 2 * 12 + 2 * 2 * 12
    # The shards of one sub-group: flat in bf16, then in fp32.
    assert ledger.rank.peaks["step"].bytes == 360 + 2 * 10 + 4 * 10
    assert engine.calls == {
        ("forward", "all_gather", 2, 2): (2, 20),
        ("backward", "all_gather", 2, 2): (2, 20),
        ("backward", "reduce_scatter", 2, 2): (1, 20),
    }


def test_stage_3_keeps_parameters_for_reuse_and_prefetches_the_next() -> None:
    keys = {"prefetch_bucket_size": 50, "max_live_parameters": 100, "max_reuse_distance": 100}
    engine, ledger = run(
        tiny_setup(3, **{f"zero_optimization__stage3_{key}": value for key, value in keys.items()})
    )
    assert ledger.rank.peaks["forward"].live["gathered parameters"] == 2 * 20
    assert ("backward", "all_gather", 2, 2) not in engine.calls


def test_small_parameters_stay_gathered_at_stage_3() -> None:
    thresholds = {"param_persistence_threshold": 8, "model_persistence_threshold": 100}
    setup = tiny_setup(3, **{f"zero_optimization__stage3_{key}": value for key, value in thresholds.items()})
    engine, _ = run(setup)
    assert at_rest(setup)[0]["persistent parameters"] == 2 * 8
    assert engine.calls["step", "all_gather", 2, 2] == (1, 8)


def test_a_save_gathers_module_by_module() -> None:
    _, ledger = run(tiny_setup(3, zero_optimization__stage3_gather_16bit_weights_on_model_save=True))
    assert ledger.rank.peaks["save"].bytes == 360 + 2 * 12
    assert ledger.host.peaks["save"].bytes == 2 * 20


def test_bf16_optimizer_keeps_fp32_gradients_of_the_whole_model() -> None:
    setup = tiny_setup(1, data_types__grad_accum_dtype="fp32")
    assert type(run(setup)[0]).__name__ == "BF16Optimizer"
    assert at_rest(setup)[0] == {
        "parameters": 2 * 20,
        "fp32 model gradients": 4 * 20,
        "master weights": 4 * 10,
        "optimizer states": 8 * 10,
    }


def test_quirks_of_bf16() -> None:
    # Before 0.17.6 bf16 at stage 0 accumulates in fp32, with `BF16_Optimizer`, which keeps the bf16 gradients.
    assert at_rest(tiny_setup(0, release="0.16.9"))[0] == {
        "parameters": 2 * 20,
        "fp32 model gradients": 4 * 20,
        "master weights": 4 * 10,
        "optimizer states": 8 * 10,
        "gradients": 2 * 20,
    }
    # 0.17.6 to 0.18.4 mistake fp32 accumulation at stage 1, and do not shard the optimizer.
    mistaken = tiny_setup(1, data_types__grad_accum_dtype="fp32", release="0.17.6")
    assert type(run(mistaken)[0]).__name__ == "FP16Optimizer"
    assert at_rest(mistaken)[0]["optimizer states"] == 8 * 20


def test_only_0_18_2_uses_fp32_shards_as_masters() -> None:
    assert "master weights" not in at_rest(tiny_setup(3, release="0.18.2", bf16__enabled=False))[0]
    assert at_rest(tiny_setup(3, release="0.18.3", bf16__enabled=False))[0]["master weights"] == 4 * 10


def test_sub_groups_close_once_they_reach_their_size() -> None:
    engine, _ = run(tiny_setup(3, zero_optimization__sub_group_size=4))
    assert engine.groups == [[4], [6]]  # type: ignore[attr-defined]
