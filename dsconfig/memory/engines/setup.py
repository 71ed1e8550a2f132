"""`Setup`: config values and release quirks that determine the memory of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.graph import TensorParallel

if TYPE_CHECKING:
    from dsconfig.memory.graph import Weight


class OptimizerCost(NamedTuple):
    """State and temporary bytes of an optimizer, per fp32 element."""

    name: str
    state_bytes: int
    """Persistent bytes per element."""
    temporary_bytes: int
    """Temporary bytes per element during a step."""
    largest_tensor_bytes: int = 0
    """Temporary bytes per element of the largest tensor during a step."""
    allocates_states_early: bool = False
    """Whether the constructor allocates states, which the engine allocates again (torch's Adagrad)."""
    is_fused_adam: bool = False
    """DeepSpeed's own `FusedAdam`, which uses one flat gradient tensor at stage 0."""
    is_client: bool = False
    """Whether the script creates the optimizer."""
    quantization_block: int = 0
    """Elements per fp32 scale, in each of two quantized states (bitsandbytes)."""
    muon_method: str = ""
    """Orthogonalization method of DeepSpeed's Muon (`ns_method`); the other fields are its Adam's."""

    def states_nbytes(self, numel: int) -> int:
        """Bytes of the states of one tensor; bitsandbytes quantizes tensors of 4,096 elements or more."""
        if not self.quantization_block:
            return self.state_bytes * numel
        scales = 8 * -(-numel // self.quantization_block) + 2048
        return self.state_bytes * numel + scales if numel >= 4096 else 8 * numel


class Stage3Settings(NamedTuple):
    """Settings that only stage 3 reads, in elements."""

    sub_group_size: int
    prefetch_bucket_size: int
    max_live_parameters: int
    max_reuse_distance: int
    param_persistence_threshold: int
    model_persistence_threshold: int


class NvmeOffload(NamedTuple):
    """Host buffers for NVMe offload; no offload if both sizes are 0."""

    optimizer_buffers: int = 0
    """Buffers for the largest sub-group (`offload_optimizer.buffer_count`)."""
    param_buffer_size: int = 0
    """Elements of a shard buffer (`offload_param.buffer_size`)."""
    param_buffer_count: int = 0
    """Number of shard buffers (`offload_param.buffer_count`)."""
    max_in_cpu: int = 0
    """Elements of shards that stay in host memory (`offload_param.max_in_cpu`)."""
    min_swap_bytes: int = 1 << 20
    """Smallest tensor that is swapped (`MIN_AIO_BYTES`, or `aio.block_size`)."""
    is_pipelined: bool = False
    """Whether `PipelinedOptimizerSwapper` is used (`pipeline_read`, `pipeline_write`)."""
    aio_alignment: int = 1024
    """Bytes to which buffers are aligned (`AIO_ALIGNED_BYTES` × `aio.intra_op_parallelism`)."""

    def aligned_numel(self, numel: int, itemsize: int) -> int:
        """Elements of an aligned buffer (`_io_aligned_numel`)."""
        step = max(1, self.aio_alignment // itemsize)
        return -(-numel // step) * step

    def is_aligned(self, numel: int, itemsize: int) -> bool:
        """Whether `numel` elements need no padding."""
        return self.aligned_numel(numel, itemsize) == numel


class ZenFlowSettings(NamedTuple):
    """Settings of `zero_optimization.zenflow`."""

    topk_ratio: float
    """Fraction of a matrix's columns that is selected."""
    overlap_step: bool
    """Whether a separate process updates the other columns."""
    offload_states: bool
    """Whether the states of selected columns are on the host (`offload`)."""
    reselects: bool
    """Whether columns are selected again during training, not only in the first step."""
    bucket_size: int
    """Elements of parameters whose states are on the rank at once (`allgather_bucket_size`)."""


class ReleaseQuirks(NamedTuple):
    """Differences between releases, read in their sources and measured; `release_quirks` has the ranges."""

    allocates_bucket_in_prologue: bool
    """Stages 1 and 2 allocate the bucket before the backward pass, not with the first gradient."""
    reduces_all_buckets: bool
    """A full bucket of stages 1 and 2 also flushes the buckets of other dtypes."""
    keeps_unreleased_params: bool
    """Parameters without a post-backward hook (mostly embeddings) stay gathered until the step."""
    has_buckets_per_comm_dtype: bool
    """Stage 3 has one bucket per communication dtype."""
    keeps_bit16_on_host: bool
    """With offload, stages 1 and 2 keep the partition in half precision on the host too."""
    flattens_on_host: bool
    has_compact_fp32_grads: bool
    """fp32 gradients are kept for the partition only, in one buffer."""
    mistakes_fp32_accumulation: bool
    """Stages 0 and 1 ignore fp32 accumulation for bf16, and do not shard the optimizer."""
    stages_keeping_bit16_grads: tuple[int, ...]
    """Stages at which `BF16_Optimizer` keeps the bf16 gradients as well."""
    clears_kept_grads_late: bool
    """The kept gradients are freed at the start of the next backward pass."""
    aliases_fp32_masters: bool
    """Stage 3 uses fp32 shards on the GPU as master weights, without a copy."""
    keeps_grads_of_other_ranks: bool
    """At stage 1 fp32 gradients for other ranks stay until the step."""
    accumulates_on_host_at_stage1: bool
    """With offload, gradients accumulate on the host at stage 1 too, though they are reduced once."""
    patches_linear_without_init: bool
    """Stage 3's linear replaces `nn.Linear` even if the model was built without `zero.Init`."""
    gathers_into_copy: bool
    """A gather fills one tensor, from which parameters are copied."""
    drops_secondary_after_save: bool
    """Gathering the model on save leaves no secondary partition behind."""
    resets_count_after_backward: bool
    """The number of gathered elements is reset after the backward pass, so the step makes it negative."""
    releases_recomputed_params: bool
    """Frozen parameters gathered for a recomputation are released with the module that caused it."""
    counts_across_micro_batches: bool
    """The number of gathered elements is reset by the step only."""
    pins_grad_buffer: bool
    """Offloaded gradients of stage 3 go through a pinned buffer of one gradient."""
    miscounts_recomputed_modules: bool
    """Recomputed modules are counted twice, and their parameters stay gathered until the step."""
    never_resets_bucket_count: bool
    """Once a bucket of stage 3 was full, every gradient is reduced on its own."""
    keeps_fp32_adapters: bool
    """A model built by `zero.Init` is not cast again, so fp32 adapters stay in fp32."""
    locks_nvme_buffers: bool
    """DeepSpeed page-locks NVMe buffers itself, so torch's rounding of pinned memory does not apply."""
    always_pins_masters: bool
    """Stages 1 and 2 pin offloaded master weights even without `pin_memory`."""
    always_pins_superoffload_buffer: bool
    """SuperOffload's process pins its buffer even without `pin_memory`."""
    has_separate_muon_adam: bool
    """Muon works at stages 1 and 2 only (SGD elsewhere), and has its own Adam."""
    reads_leaf_module: bool
    """The config can name leaf modules (`leaf_module`); before, only the script can."""
    shards_lm_head: bool
    """AutoTP can shard the head; see `TensorParallel`."""
    reads_tp_plans: bool
    """AutoTP supports every style of Transformers' plans; see `TensorParallel`."""
    keeps_untied_secondary: bool
    """The secondary partition of a head that is tied later is never freed."""
    reports_model_dtype_bucket: bool
    """Stages 1 and 2 look up a full bucket by the model's dtype, and fail if gradients have another."""
    looks_up_model_dtype_bucket: bool
    """The same for a gradient that is larger than the bucket."""
    casts_grads_after_backward: bool
    """Stage 1 casts gradients to the accumulation dtype after the backward pass."""
    gathers_each_dtype_twice: bool
    """Parameters with two communication dtypes are all gathered in each of them."""
    copies_grads_for_overflow_check: bool
    """The overflow check of stages 1 and 2 takes three more bytes per element."""
    narrows_past_end: bool
    """The secondary partition of a small parameter is cut past its end, which raises."""
    shards_layers_in_initialize: bool
    """`initialize` applies AutoTP, after the script created its optimizer."""


def release_quirks(release: int) -> ReleaseQuirks:
    """The quirks of a release, given as in `releases.NUMBERS` (18005 is 0.18.5)."""
    return ReleaseQuirks(
        # stage_1_and_2.py `backward_prologue` (before 0.16.5 `backward`); later releases allocate with the
        # first gradient.
        allocates_bucket_in_prologue=release < 17002,
        # `reduce_ipg_grads` loops over all dtypes until 0.18.5 adds its `comm_dtype` argument.
        reduces_all_buckets=17002 <= release < 18005,
        # 0.19.3 adds `release_backward_leftovers` (partitioned_param_coordinator.py).
        keeps_unreleased_params=release < 19003,
        # 0.17.2 adds `get_param_comm_dtype` (base_optimizer.py) with torch_autocast.
        has_buckets_per_comm_dtype=release >= 17002,
        # 0.17.0 adds `param_buffer_of_bit16_for_cpu_offload_groups` (stage_1_and_2.py).
        keeps_bit16_on_host=release >= 17000,
        # 0.19.0 adds `flatten_on_accelerator` (stage_1_and_2.py); before, weights go through `cpu_data`.
        flattens_on_host=release < 19000,
        # 0.19.8 adds `_build_compact_grad_partition_buffer` (stage_1_and_2.py).
        has_compact_fp32_grads=release >= 19008,
        # constants.py: `DDP_BFLOAT16` equals `BFLOAT16` ("bf16") until 0.18.5 makes it "ddp_bf16".
        mistakes_fp32_accumulation=17006 <= release < 18005,
        # bf16_optimizer.py frees bf16 gradients with the next backward pass; 0.16.5 adds `zero_grad`, which
        # clears them after the step.
        stages_keeping_bit16_grads=(0, 1) if release < 16005 else (0,) if release < 18006 else (),
        clears_kept_grads_late=release < 16005,
        # stage3.py `_create_fp32_partitions`: only in 0.18.2 does the alias branch apply to fp32 shards.
        aliases_fp32_masters=release == 18002,
        # 0.18.5 to 0.19.7 use `_clear_param_grad_only` (stage_1_and_2.py), which keeps `grad_accum`.
        keeps_grads_of_other_ranks=18005 <= release < 19008,
        accumulates_on_host_at_stage1=release < 19000,
        # 0.19.4 adds `_enable_mem_efficient_linear` (partition_parameters.py), called without `zero.Init`
        # too.
        patches_linear_without_init=release >= 19004,
        # `_allgather_params` (partition_parameters.py), removed in 0.18.5.
        gathers_into_copy=release < 18005,
        # stage3.py `checkpoint_event_epilogue` invalidates the secondary tensors.
        drops_secondary_after_save=release >= 18003,
        # parameter_offload.py calls `reset_step` in the backward hook before 0.15.4, in the forward hook
        # since.
        resets_count_after_backward=release < 15004,
        # 0.19.3 adds `ds_recompute_parameters` (partitioned_param_coordinator.py).
        releases_recomputed_params=release >= 19003,
        # partitioned_param_coordinator.py of 0.16.0 to 0.16.7 sets `__n_available_params` to 0 in
        # `release_and_reset_all` only.
        counts_across_micro_batches=16000 <= release < 16008,
        # stage3.py `pinned_grad_buffer`, in 0.15.4 to 0.16.2 only.
        pins_grad_buffer=15004 <= release < 16003,
        # parameter_offload.py sets `ds_grads_remaining` to 0 only if it is missing.
        miscounts_recomputed_modules=16000 <= release < 16008,
        # stage3.py of 0.17.2 never sets `bucket.elements` back to 0.
        never_resets_bucket_count=release == 17002,
        # 0.19.2 adds `_cast_module_mixed_precision` (engine.py), which skips models of `zero.Init`.
        keeps_fp32_adapters=release >= 19002,
        # `new_cpu_locked_tensor` (swap_tensor) replaces `pin_memory`.
        locks_nvme_buffers=release >= 19000,
        # stage_1_and_2.py pins `weights_partition` unconditionally until 0.18.3.
        always_pins_masters=release < 18003,
        always_pins_superoffload_buffer=release < 19006,
        # runtime/zero/muon; before 0.19.0 `MuonWithAuxAdam` updates non-matrix parameters with its own Adam.
        has_separate_muon_adam=release < 19000,
        # 0.18.0 adds `leaf_module` (zero/config.py); `set_z3_leaf_modules` is older.
        reads_leaf_module=release >= 18000,
        shards_lm_head=release >= 19004,
        reads_tp_plans=release >= 19006,
        # `_partition_param_sec` (partition_parameters.py) copies without `no_grad`, so the graph keeps the
        # source.
        keeps_untied_secondary=release < 18003,
        # `report_ipg_memory_usage` (base_optimizer.py) indexes buckets by the model's dtype (DSC411).
        reports_model_dtype_bucket=17002 <= release < 18001,
        looks_up_model_dtype_bucket=17002 <= release < 18002,
        casts_grads_after_backward=release < 16005,
        # partition_parameters.py passes all parameters to each `_all_gather_dtype` call.
        gathers_each_dtype_twice=17002 <= release < 17005,
        copies_grads_for_overflow_check=release < 19006,
        # `_partition_param_sec` narrows even if no element is left, until 0.19.5.
        narrows_past_end=release < 19005,
        # 0.18.6 applies AutoTP in `initialize`; before, the script calls `tp_model_init`.
        shards_layers_in_initialize=release >= 18006,
    )


class Setup(NamedTuple):
    """Config values that determine the memory of an engine."""

    stage: int
    dp_world_size: int
    gradient_accumulation_steps: int
    itemsize: int
    """Bytes of a model weight."""
    half_dtype: str | None
    """bf16 or fp16 if the model's weights have that dtype."""
    autocast: bool
    master_itemsize: int
    """Bytes of a master weight."""
    grad_accum_itemsize: int
    """Bytes of an accumulated gradient (`data_types.grad_accum_dtype`)."""
    comm_itemsize: int
    """Bytes of a communicated gradient (`communication_data_type`)."""
    comm_dtype_is_other_half: bool
    """Whether that is the other half-precision dtype, as wide as the model's."""
    optimizer: OptimizerCost
    reduce_bucket_size: int
    overlap_comm: bool
    contiguous_gradients: bool
    reduce_scatter: bool
    gradient_postscale: float | None
    """Factor applied after a reduction (`gradient_predivide_factor`); None with `prescale_gradients`."""
    multi_rank_allreduce: bool
    """Whether stages 1 and 2 reduce slices of several ranks at once (`use_multi_rank_bucket_allreduce`)."""
    round_robin_gradients: bool
    compute_grad_norm: bool
    """Whether the gradient norm is computed (`compute_grad_norm`)."""
    checks_overflow: bool
    """Whether gradients are checked for infinities."""
    offloads_optimizer: bool
    offloads_params: bool
    offload_ratio: float
    stage3: Stage3Settings
    leaf_classes: tuple[str, ...]
    quirks: ReleaseQuirks
    nvme: NvmeOffload
    hpz_size: int
    """Ranks that share a secondary partition of the weights (`zero_hpz_partition_size`)."""
    zero_init: bool
    """Whether `zero.Init` builds the model in shards."""
    memory_efficient_linear: bool = False
    """Whether stage 3 replaces `nn.Linear` (`memory_efficient_linear`)."""
    quantized_weights: bool = False
    """Whether weights are gathered as int8 (`zero_quantized_weights`)."""
    quantized_gradients: bool = False
    """Whether gradients are reduced as int4, within nodes and then between them."""
    gpus_per_node: int = 1
    """Ranks per node."""
    tp_size: int = 1
    """Tensor-parallel ranks (`tensor_parallel.autotp_size`), not included in `dp_world_size`."""
    sp_size: int = 1
    """Sequence-parallel ranks (`sequence_parallel_size`)."""
    ep_size: int = 0
    """Expert-parallel ranks (`expert_parallel.autoep_size`); 0 if AutoEP is off."""
    use_reentrant: bool = False
    """`use_reentrant` of `torch.utils.checkpoint`."""
    gathers_on_save: bool = False
    """Whether rank 0 gathers the model on save (`stage3_gather_16bit_weights_on_model_save`)."""
    rank: int = 0
    pins_optimizer: bool = False
    """Whether offloaded optimizer tensors are pinned (`offload_optimizer.pin_memory`)."""
    pins_params: bool = False
    """Whether shards that `zero.Init` builds on the host are pinned (`offload_param.pin_memory`)."""
    super_offload: bool = False
    """Whether a separate process updates the weights at stage 3 (`offload_optimizer.super_offload`)."""
    zenflow: ZenFlowSettings | None = None
    """ZenFlow settings, if the config has the section."""
    has_separate_host: bool = True
    """Whether GPU and host are two memories; False for engines measured on a CPU."""
    build_itemsize: int = 4
    """Bytes of a weight as the script builds or loads the model."""
    gpu_limit: int | None = None
    """Bytes of GPU memory, which decide where weights are flattened; None: not known."""

    @property
    def early_state_itemsize(self) -> int:
        """Bytes per element of states that the constructor allocates; the engine's are cast first."""
        rule = self.optimizer
        return (
            rule.state_bytes * (self.build_itemsize if rule.is_client else self.itemsize) // 4
            if rule.allocates_states_early
            else 0
        )

    @property
    def accumulates_fp32(self) -> bool:
        """Whether gradients accumulate in fp32 in a half-precision model."""
        return self.grad_accum_itemsize == 4 and self.itemsize != 4

    @property
    def uses_bf16_optimizer(self) -> bool:
        """Whether stage 0 or 1 accumulates bf16 gradients in fp32 (`BF16_Optimizer`)."""
        return (
            self.stage < 2
            and self.half_dtype == "bf16"
            and self.grad_accum_itemsize == 4
            and not self.offloads_optimizer
        )

    @property
    def is_unsharded(self) -> bool:
        """Whether every rank holds the whole optimizer."""
        return not self.stage or (self.uses_bf16_optimizer and self.quirks.mistakes_fp32_accumulation)

    def gather_group(self, weight: Weight) -> tuple[bool, bool]:
        """Key of the process group that gathers a parameter; `zero.Init` uses the group of all ranks."""
        return weight.is_expert, weight.created_after_init and self.zero_init

    @property
    def keeps_fp32_adapters(self) -> bool:
        """Whether LoRA adapters stay in fp32 in a half-precision model."""
        return (
            self.stage == 3
            and self.zero_init
            and self.half_dtype is not None
            and self.quirks.keeps_fp32_adapters
        )

    @property
    def tensor_parallel(self) -> TensorParallel:
        """Tensor parallelism of the run."""
        return TensorParallel(self.tp_size, self.quirks.shards_lm_head, self.quirks.reads_tp_plans)
