"""Table of the differences between DeepSpeed releases that affect memory.

Engines read attributes such as `quirks.live_parameter_counter_survives_backward`. Each row was verified in the source
of the releases before and after the change, and measured with real engines.
"""

from __future__ import annotations

from typing import overload

from dsconfig.core.json_types import NamedTuple


class DeepSpeedVersion(NamedTuple):
    """A DeepSpeed release; comparison follows the order of releases."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> DeepSpeedVersion:
        """Parse a release number such as `0.17.2`.

        Raises:
            ValueError: `text` is not three numbers joined by dots.
        """
        major, minor, patch = text.split(".")
        return cls(int(major), int(minor), int(patch))


class MemoryQuirk:
    """A table row: the releases that have the quirk, its DeepSpeed source, and its effect on memory."""

    def __init__(self, *, since: str = "", before: str = "", source: str, why: str) -> None:
        self.since, self.before, self.source, self.why = since, before, source, why
        """First release with the behavior, and first release without it again; each is empty if there is none."""
        self.name = ""

    def __set_name__(self, owner: type[ReleaseQuirks], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, quirks: None, owner: type[ReleaseQuirks]) -> MemoryQuirk: ...

    @overload
    def __get__(self, quirks: ReleaseQuirks, owner: type[ReleaseQuirks]) -> bool: ...

    def __get__(self, quirks: ReleaseQuirks | None, owner: type[ReleaseQuirks]) -> MemoryQuirk | bool:
        """Return the row itself for the class, and for an instance, whether the quirk applies."""
        return self if quirks is None else self.name in quirks.names

    def applies_to(self, release: DeepSpeedVersion) -> bool:
        """Return whether a release has this quirk."""
        if self.since and release < DeepSpeedVersion.parse(self.since):
            return False
        return not self.before or release < DeepSpeedVersion.parse(self.before)


_STAGE12 = "runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer"
_STAGE3 = "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3"
_COORDINATOR = "runtime/zero/partitioned_param_coordinator.py:PartitionedParameterCoordinator"
_PARTITIONING = "runtime/zero/partition_parameters.py"
_ENGINE = "runtime/engine.py:DeepSpeedEngine"


class ReleaseQuirks:
    """The quirks of one release; releases with the same quirks are equal."""

    def __init__(self, release: str) -> None:
        """Look up the quirks of a release such as `0.17.2`.

        Raises:
            ValueError: `release` is not a release number.
        """
        version = DeepSpeedVersion.parse(release)
        self.names = frozenset(row.name for row in quirk_rows() if row.applies_to(version))
        # A plain attribute is found before the row of the class, and the engines ask often.
        self.__dict__.update((row.name, row.name in self.names) for row in quirk_rows())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReleaseQuirks) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    # ------------------------------------------------------------ stages 1 and 2

    allocates_bucket_in_prologue = MemoryQuirk(
        before="0.17.2",
        source=f"{_STAGE12}.backward_prologue",
        why="stages 1 and 2 allocate the bucket before the backward pass; later releases do with the first gradient",
    )
    full_bucket_flushes_other_dtypes = MemoryQuirk(
        since="0.17.2",
        before="0.18.5",
        source=f"{_STAGE12}.reduce_ipg_grads",
        why="it loops over the buckets of all dtypes until 0.18.5 adds its `comm_dtype` argument",
    )
    offload_keeps_bit16_partition_on_host = MemoryQuirk(
        since="0.17.0",
        source=f"{_STAGE12}.__init__",
        why="with offload the partition in half precision is on the host too"
        " (`param_buffer_of_bit16_for_cpu_offload_groups`)",
    )
    flattens_weights_on_host = MemoryQuirk(
        before="0.19.0",
        source=f"{_STAGE12}.__init__",
        why="weights are flattened through `cpu_data`; 0.19.0 adds `flatten_on_accelerator`",
    )
    fp32_grads_are_one_buffer = MemoryQuirk(
        since="0.19.8",
        source=f"{_STAGE12}._build_compact_grad_partition_buffer",
        why="fp32 gradients are kept for the partition only, in one buffer; before, in one tensor per parameter",
    )
    fp32_grads_of_other_ranks_stay_until_step = MemoryQuirk(
        since="0.18.5",
        before="0.19.8",
        source=f"{_STAGE12}._clear_param_grad_only",
        why="at stage 1 it keeps `grad_accum`, so fp32 gradients for other ranks stay until the step",
    )
    stage1_accumulates_offloaded_grads_on_host = MemoryQuirk(
        before="0.19.0",
        source=f"{_STAGE12}.async_accumulate_grad_in_cpu_via_gpu",
        why="with offload, gradients accumulate on the host at stage 1 too, though they are reduced once",
    )
    stage1_casts_grads_after_backward = MemoryQuirk(
        before="0.16.5",
        source=f"{_ENGINE}.backward",
        why="stage 1 casts gradients to the accumulation dtype after the pass that reduces them",
    )
    stage2_ignores_grad_accum_dtype = MemoryQuirk(
        before="0.19.8",
        source=f"{_STAGE12}.__init__",
        why="stage 2 accumulates in the model's dtype whatever `data_types.grad_accum_dtype` says",
    )
    full_bucket_is_reported_by_model_dtype = MemoryQuirk(
        since="0.17.2",
        before="0.18.1",
        source="runtime/base_optimizer.py:ZeROOptimizer.report_ipg_memory_usage",
        why="it looks up a full bucket by the model's dtype, and raises if gradients have another (DSC411)",
    )
    large_grad_is_looked_up_by_model_dtype = MemoryQuirk(
        since="0.17.2",
        before="0.18.2",
        source=f"{_STAGE12}.reduce_ipg_grads",
        why="the same for a gradient that is larger than the bucket (DSC411)",
    )
    overflow_check_copies_grads = MemoryQuirk(
        before="0.19.6",
        source=f"{_STAGE12}._has_inf_or_nan",
        why="the overflow check of stages 1 and 2 takes three more bytes per element",
    )
    masters_are_always_pinned = MemoryQuirk(
        before="0.18.3",
        source=f"{_STAGE12}.__init__",
        why="`weights_partition` of an offloaded optimizer is pinned even without `pin_memory`",
    )

    # ------------------------------------------------------------ stage 0 and `BF16_Optimizer`

    bf16_accumulates_in_fp32_at_stage0 = MemoryQuirk(
        before="0.17.6",
        source=f"{_ENGINE}.get_data_types",
        why="without `data_types.grad_accum_dtype` bf16 at stage 0 accumulates in fp32",
    )
    fp32_accumulation_is_mistaken_for_bf16 = MemoryQuirk(
        since="0.17.6",
        before="0.18.5",
        source="runtime/constants.py:DDP_BFLOAT16",
        why='it equals `BFLOAT16` ("bf16") until 0.18.5 makes it "ddp_bf16": stages 0 and 1 ignore fp32 accumulation'
        " for bf16, and do not shard the optimizer",
    )
    bf16_grads_stay_at_stage0 = MemoryQuirk(
        before="0.18.6",
        source="runtime/bf16_optimizer.py:BF16_Optimizer.clear_lp_grads",
        why="bf16 gradients are kept, and filled with zeros, instead of freed",
    )
    bf16_grads_stay_until_next_backward = MemoryQuirk(
        before="0.16.5",
        source="runtime/bf16_optimizer.py:BF16_Optimizer.zero_grad",
        why="`BF16_Optimizer` frees bf16 gradients with the next backward pass, at stage 1 too; 0.16.5 adds"
        " `zero_grad`, which clears them after the step",
    )

    # ------------------------------------------------------------ stage 3

    stage3_has_buckets_by_comm_dtype = MemoryQuirk(
        since="0.17.2",
        source="runtime/base_optimizer.py:ZeROOptimizer.get_param_comm_dtype",
        why="added with `torch_autocast`: one bucket per communication dtype",
    )
    bucket_count_is_never_reset = MemoryQuirk(
        since="0.17.2",
        before="0.17.3",
        source=f"{_STAGE3}.__reduce_and_partition_ipg_grads",
        why="`bucket.elements` never returns to 0: once a bucket was full, every gradient is reduced on its own",
    )
    fp32_shards_are_masters = MemoryQuirk(
        since="0.18.2",
        before="0.18.3",
        source=f"{_STAGE3}._create_fp32_partitions",
        why="only in 0.18.2 does the alias branch apply to fp32 shards on the GPU; other releases compare a"
        " `torch.device` with a string, and copy",
    )
    stage3_pins_gradient_buffer = MemoryQuirk(
        since="0.15.4",
        before="0.16.3",
        source=f"{_STAGE3}.pinned_grad_buffer",
        why="offloaded gradients go through a pinned buffer of one gradient",
    )
    linear_is_replaced_without_zero_init = MemoryQuirk(
        since="0.19.4",
        source=f"{_PARTITIONING}:_enable_mem_efficient_linear",
        why="stage 3's linear replaces `nn.Linear` even if the model was built without `zero.Init`",
    )
    zero_init_model_is_not_cast = MemoryQuirk(
        since="0.19.2",
        source=f"{_ENGINE}._cast_module_mixed_precision",
        why="a model of `zero.Init` is skipped, so fp32 adapters (LoRA) stay in fp32",
    )
    params_of_two_dtypes_are_gathered_twice = MemoryQuirk(
        since="0.17.2",
        before="0.17.5",
        source=f"{_PARTITIONING}:Init._all_gather_dtype",
        why="each call gets the parameters of all communication dtypes",
    )
    single_param_is_gathered_into_copy = MemoryQuirk(
        before="0.18.5",
        source=f"{_PARTITIONING}:Init._allgather_params",
        why="a gather fills one tensor, from which parameters are copied",
    )

    # ------------------------------------------------------------ stage 3: `PartitionedParameterCoordinator`

    unreleased_params_stay_until_step = MemoryQuirk(
        before="0.19.3",
        source=f"{_COORDINATOR}.release_backward_leftovers",
        why="parameters without a post-backward hook (mostly embeddings) stay gathered until the step",
    )
    recomputed_params_are_released_with_module = MemoryQuirk(
        since="0.19.3",
        source=f"{_COORDINATOR}.ds_recompute_parameters",
        why="frozen parameters gathered for a recomputation are released with the module that caused it",
    )
    recomputed_modules_are_counted_twice = MemoryQuirk(
        since="0.16.0",
        before="0.16.8",
        source="runtime/zero/parameter_offload.py:_post_backward_module_hook",
        why="`ds_grads_remaining` is set to 0 only if it is missing, so parameters of recomputed modules stay gathered"
        " until the step",
    )
    live_parameter_counter_survives_backward = MemoryQuirk(
        since="0.16.0",
        before="0.16.8",
        source=f"{_COORDINATOR}.release_and_reset_all",
        why="`__n_available_params` is set to 0 by the step only, so a second micro batch prefetches less",
    )
    live_parameter_counter_is_reset_before_step = MemoryQuirk(
        before="0.15.4",
        source=f"{_STAGE3}.backward",
        why="it calls `reset_step`, so the step makes the counter negative; later releases reset it as the forward pass"
        " starts (`_start_of_forward_hook`)",
    )

    # ------------------------------------------------------------ ZeRO++

    secondary_partition_is_narrowed_past_end = MemoryQuirk(
        before="0.19.5",
        source=f"{_PARTITIONING}:Init._partition_param_sec",
        why="the secondary partition of a small parameter is narrowed even if no element is left, and torch raises",
    )
    secondary_partition_of_tied_head_stays = MemoryQuirk(
        before="0.18.3",
        source=f"{_PARTITIONING}:Init._partition_param_sec",
        why="it copies without `no_grad`, so the graph keeps the partition of a head that is tied later",
    )
    save_drops_secondary_partitions = MemoryQuirk(
        since="0.18.3",
        source=f"{_STAGE3}.checkpoint_event_epilogue",
        why="it invalidates the secondary tensors after the model was gathered on save",
    )

    # ------------------------------------------------------------ NVMe and SuperOffload

    aio_alignment_follows_thread_count = MemoryQuirk(
        before="0.16.0",
        source="runtime/swap_tensor/partitioned_param_swapper.py:AsyncPartitionedParameterSwapper.numel_alignment",
        why="buffers are aligned to a multiple of the number of threads; 0.16.0 adds `aio.intra_op_parallelism` for it",
    )
    nvme_buffers_are_locked_by_deepspeed = MemoryQuirk(
        since="0.19.0",
        source="runtime/swap_tensor/partitioned_param_swapper.py:AsyncPartitionedParameterSwapper",
        why="`new_cpu_locked_tensor` replaces `pin_memory`, so torch's rounding of pinned memory does not apply",
    )
    superoffload_buffer_is_always_pinned = MemoryQuirk(
        before="0.19.6",
        source="runtime/superoffload/superoffload_utils.py:superoffload_optimizer_worker",
        why="its process pins the gradient buffer even without `pin_memory`",
    )

    # ------------------------------------------------------------ Muon and ZenFlow

    muon_stops_without_share_of_group = MemoryQuirk(
        before="0.18.3",
        source=f"{_STAGE12}.__init__",
        why="it raises `list index out of range` on a rank without a share of a group",
    )
    muon_has_its_own_adam = MemoryQuirk(
        before="0.19.0",
        source="runtime/zero/muon/original_muon.py:MuonWithAuxAdam.step",
        why="Muon works at stages 1 and 2 only (SGD elsewhere), and updates other parameters with its own Adam",
    )
    muon_differs_from_release_to_release = MemoryQuirk(
        since="0.19.0",
        before="0.19.8",
        source="runtime/zero/muon/original_muon.py:MuonWithAuxAdam",
        why="each of these releases works differently, and none was measured",
    )
    zenflow_lacks_stage3 = MemoryQuirk(
        before="0.18.1",
        source="runtime/zenflow/engine_stage3.py",
        why="0.18.1 adds ZenFlow at stage 3",
    )
    zenflow_transposes_views = MemoryQuirk(
        before="0.19.7",
        source="runtime/zenflow/zenflow_stage_1_and_2.py:ZenFlowZeroOptimizer",
        why="at stages 1 and 2 weights are transposed views; engines of 0.18.9 used different amounts for one config",
    )

    # ------------------------------------------------------------ parallelism

    autotp_stops_at_stage3 = MemoryQuirk(
        before="0.19.4",
        source=f"{_ENGINE}._configure_tensor_parallel_states",
        why="it asserts a stage below 3",
    )
    autotp_runs_in_initialize = MemoryQuirk(
        since="0.18.6",
        source="__init__.py:initialize",
        why="AutoTP shards layers after the script created its optimizer; before, the script calls `tp_model_init`",
    )
    autotp_shards_lm_head = MemoryQuirk(
        since="0.19.4",
        source="module_inject/tp_plan_converter.py:TPPlanConverter",
        why="`gather_output` of Transformers' plans is supported, so the head can be sharded",
    )
    autotp_reads_all_plan_styles = MemoryQuirk(
        since="0.19.6",
        source="module_inject/tp_plan_converter.py:SUPPORTED_STYLES",
        why="every style of Transformers' plans is supported, such as replicated norms",
    )
    lacks_ulysses_attention = MemoryQuirk(
        before="0.17.0",
        source="runtime/sequence_parallel/ulysses_sp.py:UlyssesSPAttentionHF",
        why="0.17.0 is the first release with it",
    )
    lacks_autoep = MemoryQuirk(
        before="0.19.8",
        source="module_inject/auto_ep_layer.py",
        why="0.19.8 is the first release with AutoEP",
    )
    lacks_leaf_module_key = MemoryQuirk(
        before="0.18.0",
        source="runtime/zero/config.py:DeepSpeedZeroConfig.leaf_module",
        why="only the script can name leaf modules (`set_z3_leaf_modules`)",
    )


_ROWS = tuple(row for row in vars(ReleaseQuirks).values() if isinstance(row, MemoryQuirk))


def quirk_rows() -> tuple[MemoryQuirk, ...]:
    """Return all rows of the table."""
    return _ROWS


def release_borders() -> tuple[str, ...]:
    """Return the releases that changed the memory of any config, oldest first."""
    borders = {border for row in _ROWS for border in (row.since, row.before) if border}
    return tuple(sorted(borders, key=DeepSpeedVersion.parse))
