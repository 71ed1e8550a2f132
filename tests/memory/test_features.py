"""Features next to an engine on a model of 20 parameters: every number is worked out by hand."""

from __future__ import annotations

import pytest

from dsconfig.memory.autograd_graph import ForwardTape, Operation
from dsconfig.memory.engines.engine_setup import EngineSetup
from dsconfig.memory.features.ulysses import EXCHANGED, ulysses_attention
from dsconfig.memory.layers import AttentionHeads
from dsconfig.memory.models.architecture import MicroBatch
from tests.memory.tiny import FIRST, HIDDEN, INPUT, OUTPUT, SECOND, at_rest, run, tiny_setup, two_layers

OFFLOAD = {"zero_optimization__offload_optimizer__device": "cpu"}


def test_muon_at_stage_0_keeps_one_momentum() -> None:
    assert at_rest(tiny_setup(0, optimizer__type="Muon"))[0]["optimizer states"] == 4 * 20


def test_muon_at_stage_1_keeps_two_momenta_of_each_matrix_of_a_rank() -> None:
    """Rank 0 has all of the first matrix and a part of the second; momenta are whole, in bf16."""
    assert at_rest(tiny_setup(1, optimizer__type="Muon"))[0]["optimizer states"] == 2 * 2 * (8 + 12)


def test_muon_at_stage_3_caches_its_gather_buffers() -> None:
    rank, _ = at_rest(tiny_setup(3, optimizer__type="Muon", zero_optimization__reduce_scatter=False))
    # Momenta of the shards in bf16; a buffer for the shards of this rank and of both.
    assert rank["optimizer states"] == 2 * (4 + 6)
    assert rank["Muon all-gather buffers"] == 2 * (4 + 6) * (1 + 2)


def zenflow(stage: int) -> EngineSetup:
    """Half of the columns of each matrix are selected."""
    keys = {"topk_ratio": 0.5, "update_interval": 4}
    return tiny_setup(
        stage, **OFFLOAD, **{f"zero_optimization__zenflow__{key}": value for key, value in keys.items()}
    )


def test_zenflow_at_stage_2_selects_columns_of_all_partitions() -> None:
    rank, host = at_rest(zenflow(2))
    # 1 of 2 columns of 4 elements; of the second matrix rank 0 holds no whole column, and rank 1 three, of which 1 is
    # selected, with 3 elements.
    assert rank["ZenFlow selected states"] == 2 * 2 * (4 + 3)
    # int32 indices: those of the second matrix come from two ranks and are copied once more.
    assert rank["ZenFlow selected columns"] == 4 * 1 + 2 * 4 * 1
    # Gradients accumulate on the host over four micro batches: whole ones in bf16, next to the fp32 partition.
    assert host["offloaded gradient partition"] == 4 * 10 + 2 * 20


def test_zenflow_at_stage_3_selects_columns_of_a_rank_s_shards() -> None:
    rank, _ = at_rest(zenflow(3))
    # 1 of 2 columns of the first matrix, and 1 of 2 that this rank holds of the second; int64 indices.
    assert rank["ZenFlow selected states"] == 2 * 2 * (4 + 3)
    assert rank["ZenFlow selected columns"] == 8 * (1 + 1)


def test_nvme_replaces_masters_by_buffers() -> None:
    setup = tiny_setup(3, zero_optimization__offload_optimizer__device="nvme")
    setup = setup._replace(nvme=setup.nvme._replace(min_swap_bytes=1, aio_alignment=4))
    _, host = at_rest(setup)
    # Four buffers of the largest sub-group in fp32.
    assert host == {"gradients": 2 * 10, "NVMe swap buffers": 4 * 4 * 10}


def test_parameters_on_nvme_are_read_into_buffers() -> None:
    keys = {"device": "nvme", "buffer_size": 6, "buffer_count": 5, "max_in_cpu": 0}
    setup = tiny_setup(
        3, **{f"zero_optimization__offload_param__{key}": value for key, value in keys.items()}
    )
    setup = setup._replace(nvme=setup.nvme._replace(min_swap_bytes=1, aio_alignment=2))
    rank, host = at_rest(setup)
    assert "parameters" not in rank
    # Five buffers of 6 elements, and one for the whole parameters of the sub-group that the step writes.
    assert host["NVMe swap buffers"] == 5 * 2 * 6 + 2 * (8 + 12)


def test_superoffload_has_a_buffer_for_the_largest_sub_group() -> None:
    keys = {**OFFLOAD, "zero_optimization__offload_optimizer__super_offload": True}
    _, host = at_rest(tiny_setup(3, **keys))
    assert host["SuperOffload gradient buffer"] == 4 * 10
    _, host = at_rest(tiny_setup(3, **keys, zero_optimization__sub_group_size=4))
    assert host["SuperOffload gradient buffer"] == 4 * 6


def test_autotp_builds_whole_layers_on_the_host() -> None:
    tape = two_layers()
    tape.apply_tensor_parallel(2, head=True)
    engine, ledger = run(tiny_setup(1, world=4, tensor_parallel__autotp_size=2), tape)
    assert engine.model_numel == 2 * 20
    assert ledger.host.peaks["load"].bytes == 4 * 2 * 20


def test_gradients_are_quantized_where_ranks_span_nodes() -> None:
    keys = {"zero_optimization__zero_quantized_gradients": True}
    engine, _ = run(tiny_setup(3, world=4, **keys)._replace(gpus_per_node=2))
    # 8 elements divide among twice 4 ranks: int4 within a node, and half of it between nodes. 12 do not.
    assert engine.calls["backward", "all_to_all", 1, 2] == (2, 4 + 2)
    assert engine.calls["backward", "reduce_scatter", 2, 4] == (1, 12)
    engine, _ = run(tiny_setup(3, world=4, **keys)._replace(gpus_per_node=4))
    assert engine.calls["backward", "reduce_scatter", 2, 4] == (1, 8 + 12)


def test_secondary_partitions_exist_from_the_first_use_until_the_step() -> None:
    engine, ledger = run(tiny_setup(3, world=4, zero_optimization__zero_hpz_partition_size=2))
    # Each parameter in 2 parts instead of 4.
    assert ledger.rank.peaks["backward"].live["secondary partition"] == 2 * (4 + 6)
    assert not ledger.rank.live["secondary partition"]
    assert engine.calls["backward", "all_gather", 2, 2] == (2, 20)


AUTOTP = {"tensor_parallel__autotp_size": 2}


def sharded_layers() -> ForwardTape:
    """The two layers as one of two tensor-parallel ranks has them: the whole model has 40 elements."""
    tape = two_layers(names=("up_proj", "down_proj"))
    tape.apply_tensor_parallel(2, head=False)
    return tape


def test_autotp_divides_the_optimizer_by_the_other_ranks() -> None:
    rank, host = at_rest(tiny_setup(1, world=4, **AUTOTP), sharded_layers())
    assert rank == {"parameters": 2 * 20, "master weights": 4 * 10, "optimizer states": 8 * 10}
    assert not host


def test_autotp_moves_shards_to_the_rank_before_they_are_cast() -> None:
    engine, ledger = run(tiny_setup(0, world=4, **AUTOTP), sharded_layers())
    # The whole model is built on the host in fp32.
    assert engine.model_numel == 2 * 20
    assert ledger.host.peaks["load"].bytes == 4 * 40


def test_autotp_at_stage_3_gathers_a_layer_over_both_groups_on_save() -> None:
    save = {"zero_optimization__stage3_gather_16bit_weights_on_model_save": True}
    setup = tiny_setup(3, world=4, **AUTOTP, **save)
    _, ledger = run(setup, sharded_layers())
    # `down_proj`: the shard of 12, gathered from two data-parallel ranks, and the whole weight from two others.
    assert ledger.rank.peaks["save"].live["gathered parameters"] == 2 * 12 + 2 * 2 * 12
    assert ledger.host.peaks["save"].bytes == 2 * 40
    _, ledger = run(setup._replace(zero_init=True), sharded_layers())
    # `zero.Init` partitions over all four ranks: 40 elements, 10 on each, and no copy on the host.
    assert "initial model copy" not in ledger.host.peaks["load"].live


def experts_behind_a_router() -> ForwardTape:
    """A router of 8 elements, then two experts of 6, as one of two expert-parallel ranks has them."""
    tape = ForwardTape(2)
    tape.ep_size = 2
    router = tape.module("router.gate", FIRST, casts=True)
    experts = tape.module("experts", SECOND // 2, SECOND // 2, casts=True)
    router.weights[0].created_after_init = True
    for weight in experts.weights:
        weight.is_linear, weight.is_expert = False, True
    x = tape.op([], tape.tensor(INPUT, requires_grad=False))
    with tape.record_module(router):
        y = tape.op([x], tape.tensor(HIDDEN), [x], router.weights)
    with tape.record_module(experts):
        z = tape.op([y], tape.tensor(OUTPUT), [y], experts.weights)
    tape.op([z], tape.tensor(1))
    return tape


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_autoep_divides_experts_by_the_ranks_that_share_them(stage: int) -> None:
    keys = {"expert_parallel__enabled": True, "expert_parallel__autoep_size": 2}
    setup = tiny_setup(stage, world=4, **keys)
    rank = at_rest(setup, experts_behind_a_router())[0]
    # The router is divided by all four ranks, the experts by the two that have the same ones.
    assert rank["master weights"] == 4 * (8 // 4 + 12 // 2)
    engine, ledger = run(setup, experts_behind_a_router())
    assert engine.model_numel == 8 + 2 * 12
    # The model in fp32, the new router and experts, and the experts of a layer while they are copied.
    assert ledger.host.peaks["load"].bytes == 4 * (32 + 8 + 12 + 12)
    reduced = "all_reduce" if stage < 3 else "reduce_scatter"
    assert engine.calls["backward", reduced, 2, 4] == (1, 8)
    assert engine.calls["backward", reduced, 2, 2] == (1, 12)


def test_quantized_gradients_go_within_a_node_and_then_between_nodes() -> None:
    setup = tiny_setup(3, world=4, zero_optimization__zero_quantized_gradients=True)
    engine, _ = run(setup._replace(gpus_per_node=2))
    # int4 of 8 elements: 4 bytes to the other rank of the node, then 2 to the other node. 12 elements are not a
    # multiple of 2 × 4, and are reduced as usual.
    assert engine.calls["backward", "all_to_all", 1, 2] == (2, 4 + 2)
    assert engine.calls["backward", "reduce_scatter", 2, 4] == (1, 12)
    engine, _ = run(setup._replace(gpus_per_node=4))
    assert engine.calls["backward", "reduce_scatter", 2, 4] == (1, 20)


def test_a_secondary_partition_serves_the_backward_pass_from_the_node() -> None:
    engine, ledger = run(tiny_setup(3, world=4, zero_optimization__zero_hpz_partition_size=2))
    assert ledger.rank.peaks["backward"].live["secondary partition"] == 2 * 20 // 2
    assert "secondary partition" not in at_rest(engine.setup)[0]
    assert engine.calls["forward", "all_gather", 2, 4] == (2, 20)
    assert engine.calls["backward", "all_gather", 2, 2] == (2, 20)


@pytest.mark.parametrize("kv_heads", [2, 1])
def test_ulysses_exchanges_tokens_for_heads(kv_heads: int) -> None:
    """Two ranks have two tokens each of a sequence, and heads of 3 elements."""
    tape = ForwardTape(2)
    layer = tape.projection("qkv", 3, 2)
    x = tape.op([], tape.tensor(4, requires_grad=False))
    sent, numels = 2 * 2 * 3, [2 * 2 * 3, 2 * kv_heads * 3, 2 * kv_heads * 3]
    with tape.record_module(layer):
        query, key, value = (tape.op([x], tape.tensor(numel), [x], layer.weights) for numel in numels)
    heads = AttentionHeads(2, kv_heads, head_dim=3, batch_size=1, sequence_length=2)
    output = ulysses_attention(tape, MicroBatch(1, 4, itemsize=2, sp_size=2), heads, query, key, value)
    assert output.numel == sent
    # Queries, keys, values and the output are sent; a single key/value head is repeated first, one for each rank.
    for phase in ("forward", "backward"):
        exchanged = [each for each in tape.collectives if (each.name, each.phase) == ("all_to_all", phase)]
        assert [each.numel for each in exchanged] == [sent] * 4
    (positions,) = [each for each in tape.collectives if each.name == "all_gather"]
    assert (positions.numel, positions.itemsize) == (4, 8)
    buffers = [
        step.output.bytes
        for step in tape.steps
        if isinstance(step, Operation) and step.output.label == EXCHANGED
    ]
    # A contiguous copy and the received tensor of each; the output is sent as it is; repeated heads are one more.
    assert buffers == [2 * sent] * (2 * 3 + 1 + 2 * (kv_heads == 1))
