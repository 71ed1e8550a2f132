"""Features next to an engine on a model of 20 parameters: every number is worked out by hand."""

from __future__ import annotations

from dsconfig.memory.engines.engine_setup import EngineSetup
from tests.memory.tiny import at_rest, run, tiny_setup, two_layers

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
