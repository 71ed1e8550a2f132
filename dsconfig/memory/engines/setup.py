"""`Setup`: the values of the config that decide how much an engine holds, in the release that reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.graph import TensorParallel

if TYPE_CHECKING:
    from dsconfig.memory.graph import Weight


class OptimizerCost(NamedTuple):
    """What an optimizer keeps and needs for each element that it updates, in bytes."""

    name: str
    state_bytes: int
    """Kept from step to step."""
    temporary_bytes: int
    """Held during a step, over all elements at once."""
    largest_tensor_bytes: int = 0
    """Held during a step, over the largest tensor."""
    allocates_states_early: bool = False
    """Whether states are made at construction and once more for the partition (torch's Adagrad)."""
    is_fused_adam: bool = False
    """DeepSpeed's own `FusedAdam`: at stage 0 its gradients are one flat tensor."""
    is_client: bool = False
    """Whether a script makes it."""
    quantization_block: int = 0
    """Elements that share a scale of fp32, in each of two quantised states (bitsandbytes)."""
    muon_method: str = ""
    """How DeepSpeed's Muon orthogonalises matrices (`ns_method`); the rest of the rule is its Adam's."""

    def states_nbytes(self, numel: int) -> int:
        """Bytes of the states of one tensor; bitsandbytes quantises none of fewer than 4,096 elements."""
        if not self.quantization_block:
            return self.state_bytes * numel
        scales = 8 * -(-numel // self.quantization_block) + 2048
        return self.state_bytes * numel + scales if numel >= 4096 else 8 * numel


class Stage3Settings(NamedTuple):
    """What only stage 3 reads, in elements."""

    sub_group_size: int
    prefetch_bucket_size: int
    max_live_parameters: int
    max_reuse_distance: int
    param_persistence_threshold: int
    model_persistence_threshold: int


class NvmeOffload(NamedTuple):
    """Buffers on the host for what lies on NVMe; nothing lies there where both sizes are 0."""

    optimizer_buffers: int = 0
    """Buffers, each for the largest sub-group (`offload_optimizer.buffer_count`)."""
    param_buffer_size: int = 0
    """Elements of a buffer for one shard (`offload_param.buffer_size`)."""
    param_buffer_count: int = 0
    """How many of these (`offload_param.buffer_count`)."""
    max_in_cpu: int = 0
    """Elements of shards that stay on the host for good (`offload_param.max_in_cpu`)."""
    min_swap_bytes: int = 1 << 20
    """Bytes of what is worth a write (`MIN_AIO_BYTES`, or `aio.block_size`)."""
    is_pipelined: bool = False
    """Whether it is a `PipelinedOptimizerSwapper` (`offload_optimizer.pipeline_read`, `pipeline_write`)."""
    aio_alignment: int = 1024
    """Bytes (`AIO_ALIGNED_BYTES`, for each of `aio.intra_op_parallelism`)."""

    def aligned_numel(self, numel: int, itemsize: int) -> int:
        """Elements of a buffer (`_io_aligned_numel`)."""
        step = max(1, self.aio_alignment // itemsize)
        return -(-numel // step) * step

    def is_aligned(self, numel: int, itemsize: int) -> bool:
        """Whether so many are written as they are."""
        return self.aligned_numel(numel, itemsize) == numel


class ZenFlowSettings(NamedTuple):
    """What ZenFlow selects of each parameter, to update it on the rank (`zero_optimization.zenflow`)."""

    topk_ratio: float
    """Share of the columns of a matrix (`topk_ratio`)."""
    overlap_step: bool
    """Whether a process of its own updates the rest (`overlap_step`)."""
    offload_states: bool
    """Whether states of what is selected lie on the host (`offload`)."""
    reselects: bool
    """Whether columns are selected anew as training goes, and not in the first step alone."""
    bucket_size: int
    """Elements of parameters whose states are on the rank at once (`allgather_bucket_size`)."""


class ReleaseQuirks(NamedTuple):
    """How a release goes about it, where releases differ (read in their sources, and measured)."""

    allocates_bucket_in_prologue: bool
    """Stages 1 and 2 make their bucket before the backward pass (`backward_prologue`), not in it."""
    reduces_all_buckets: bool
    """Where a bucket of stages 1 and 2 is full, those of other types are sent too (`reduce_ipg_grads`)."""
    keeps_unreleased_params: bool
    """What no backward hook releases stays gathered until the step: embeddings, mostly."""
    has_buckets_per_comm_dtype: bool
    """Buckets of stage 3 have the type in which gradients are sent (`get_param_comm_dtype`)."""
    keeps_bit16_on_host: bool
    """Stages 1 and 2 keep offloaded weights in half precision on the host too."""
    flattens_on_host: bool
    has_compact_fp32_grads: bool
    """Gradients in fp32 are those of the partition (`_build_compact_grad_partition_buffer`)."""
    mistakes_fp32_accumulation: bool
    """Stages 0 and 1 take gradients in fp32 for those of bf16, and shard nothing (`DDP_BFLOAT16`)."""
    stages_keeping_bit16_grads: tuple[int, ...]
    """Stages at which the gradients of bf16 are kept in half precision too."""
    clears_kept_grads_late: bool
    """It keeps them up to the next backward pass (`clear_lp_grads`)."""
    aliases_fp32_masters: bool
    """Stage 3 takes shards in fp32 on the rank for the masters (`_create_fp32_partitions`)."""
    keeps_grads_of_other_ranks: bool
    """Gradients in fp32 that are other ranks' stay until the step at stage 1 (`_clear_param_grad_only`)."""
    accumulates_on_host_at_stage1: bool
    """Offloaded gradients are accumulated on the host at stage 1 too, though they are sent once."""
    patches_linear_without_init: bool
    """Linear layers are stage 3's own though the model was built whole (`_enable_mem_efficient_linear`)."""
    gathers_into_copy: bool
    """Parameters are gathered into one tensor and copied from there (`_allgather_params`)."""
    drops_secondary_after_save: bool
    """A model that was put together leaves no second copy behind (`checkpoint_event_epilogue`)."""
    resets_count_after_backward: bool
    """What is gathered is counted from the end of a backward pass, and so what the step partitions too."""
    releases_recomputed_params: bool
    """What is gathered to compute a segment again goes with who asks (`ds_recompute_parameters`)."""
    counts_across_micro_batches: bool
    """It is set back by the step alone, and goes on from one micro batch to the next."""
    pins_grad_buffer: bool
    """Offloaded gradients of stage 3 go through a pinned buffer for one (`pinned_grad_buffer`)."""
    miscounts_recomputed_modules: bool
    """What is computed again is counted twice, and stays gathered until the step (`ds_grads_remaining`)."""
    never_resets_bucket_count: bool
    """A bucket of stage 3 counts all that it ever held: once full, it is sent for each parameter."""
    keeps_fp32_adapters: bool
    """A model that was built in shards is not cast again (`_cast_module_mixed_precision`)."""
    locks_nvme_buffers: bool
    """Buffers for NVMe are locked by DeepSpeed (`new_cpu_locked_tensor`), and not pinned by torch."""
    always_pins_masters: bool
    """Stages 1 and 2 pin offloaded masters though `pin_memory` is off."""
    always_pins_superoffload_buffer: bool
    """SuperOffload's process pins its buffer though `pin_memory` is off."""
    has_separate_muon_adam: bool
    """Muon is at work at stages 1 and 2 alone, SGD elsewhere, and has an Adam of its own (before 0.19)."""
    reads_leaf_module: bool
    """The config can name leaves of stage 3 (`leaf_module`); before, the script alone can."""
    shards_lm_head: bool
    """Ranks that share linear layers share the head too (`autotp.Sharing.head`)."""
    reads_tp_plans: bool
    """It takes Transformers' plans with all their words (`autotp.Sharing.plans`)."""
    keeps_untied_secondary: bool
    """A node's copy keeps what it was cut from in its graph, tied away or not (`_partition_param_sec`)."""
    reports_model_dtype_bucket: bool
    """A full bucket of stages 1 and 2 is looked up by the type of the model (`mistyped`)."""
    looks_up_model_dtype_bucket: bool
    """So is a gradient that is larger than a bucket."""
    casts_grads_after_backward: bool
    """Stage 1 brings gradients into the type that they accumulate in when a backward pass is over."""
    gathers_each_dtype_twice: bool
    """Parameters that are sent in two types are all gathered in each of them (`_all_gather_dtype`)."""
    copies_grads_for_overflow_check: bool
    """A search for infinities at stages 1 and 2 takes three bytes more an element (`_has_inf_or_nan`)."""
    narrows_past_end: bool
    """A node's copy is cut past the end of what is shorter (`quantisable.behind`)."""
    shards_layers_in_initialize: bool
    """`initialize` shares the layers of a model, after the script made its optimizer (`autotp.BY_CONFIG`)."""


def release_quirks(release: int) -> ReleaseQuirks:
    """How this release goes about it; its number is that of `releases.NUMBERS`."""
    return ReleaseQuirks(
        allocates_bucket_in_prologue=release < 17002,
        reduces_all_buckets=17002 <= release < 18005,
        keeps_unreleased_params=release < 19003,
        has_buckets_per_comm_dtype=release >= 17002,
        keeps_bit16_on_host=release >= 17000,
        flattens_on_host=release < 19000,
        has_compact_fp32_grads=release >= 19008,
        mistakes_fp32_accumulation=17006 <= release < 18005,
        stages_keeping_bit16_grads=(0, 1) if release < 16005 else (0,) if release < 18006 else (),
        clears_kept_grads_late=release < 16005,
        aliases_fp32_masters=release == 18002,
        keeps_grads_of_other_ranks=18005 <= release < 19008,
        accumulates_on_host_at_stage1=release < 19000,
        patches_linear_without_init=release >= 19004,
        gathers_into_copy=release < 18005,
        drops_secondary_after_save=release >= 18003,
        resets_count_after_backward=release < 15004,
        releases_recomputed_params=release >= 19003,
        counts_across_micro_batches=16000 <= release < 16008,
        pins_grad_buffer=15004 <= release < 16003,
        miscounts_recomputed_modules=16000 <= release < 16008,
        never_resets_bucket_count=release == 17002,
        keeps_fp32_adapters=release >= 19002,
        locks_nvme_buffers=release >= 19000,
        always_pins_masters=release < 18003,
        always_pins_superoffload_buffer=release < 19006,
        has_separate_muon_adam=release < 19000,
        reads_leaf_module=release >= 18000,
        shards_lm_head=release >= 19004,
        reads_tp_plans=release >= 19006,
        keeps_untied_secondary=release < 18003,
        reports_model_dtype_bucket=17002 <= release < 18001,
        looks_up_model_dtype_bucket=17002 <= release < 18002,
        casts_grads_after_backward=release < 16005,
        gathers_each_dtype_twice=17002 <= release < 17005,
        copies_grads_for_overflow_check=release < 19006,
        narrows_past_end=release < 19005,
        shards_layers_in_initialize=release >= 18006,
    )


class Setup(NamedTuple):
    """An engine's circumstances."""

    stage: int
    dp_world_size: int
    gradient_accumulation_steps: int
    itemsize: int
    """Bytes of a weight in the model."""
    half_dtype: str | None
    """bf16 or fp16, where the model's weights are of that type."""
    autocast: bool
    master_itemsize: int
    """Bytes of a master weight."""
    grad_accum_itemsize: int
    """Bytes of an accumulated gradient (`data_types.grad_accum_dtype`)."""
    comm_itemsize: int
    """Bytes of a gradient as it is sent (`communication_data_type`)."""
    comm_dtype_is_other_half: bool
    """Whether that is the other type in half precision."""
    optimizer: OptimizerCost
    reduce_bucket_size: int
    overlap_comm: bool
    contiguous_gradients: bool
    reduce_scatter: bool
    gradient_postscale: float | None
    """What sums are multiplied by: `gradient_predivide_factor`; nothing with `prescale_gradients`."""
    multi_rank_allreduce: bool
    """Whether stages 1 and 2 send what is for several ranks at once (`use_multi_rank_bucket_allreduce`)."""
    round_robin_gradients: bool
    compute_grad_norm: bool
    """Whether the norm of the gradients is taken (`compute_grad_norm`)."""
    checks_overflow: bool
    """Whether gradients are searched for infinities."""
    offloads_optimizer: bool
    offloads_params: bool
    offload_ratio: float
    stage3: Stage3Settings
    leaf_classes: tuple[str, ...]
    quirks: ReleaseQuirks
    nvme: NvmeOffload
    hpz_size: int
    """Ranks that share a second copy of the weights between forward and step (`zero_hpz_partition_size`)."""
    zero_init: bool
    """Whether the model is built in shards (`zero.Init`), at stage 3."""
    memory_efficient_linear: bool = False
    """Whether linear layers are stage 3's own (`memory_efficient_linear`)."""
    quantized_weights: bool = False
    """Whether weights are gathered as int8 (`zero_quantized_weights`)."""
    quantized_gradients: bool = False
    """Whether gradients are sent as int4, in a node and then between nodes (`zero_quantized_gradients`)."""
    gpus_per_node: int = 1
    """Ranks of a node."""
    tp_size: int = 1
    """Ranks that share each linear layer (`tensor_parallel.autotp_size`); `world` are those that do not."""
    sp_size: int = 1
    """Ranks that share each sequence (`sequence_parallel_size`)."""
    ep_size: int = 0
    """Ranks that share the experts (`expert_parallel.autoep_size`); 0 where AutoEP is off."""
    use_reentrant: bool = False
    """Whether what is computed again is a pass of its own (`use_reentrant` of `torch.utils.checkpoint`)."""
    gathers_on_save: bool = False
    """Whether rank 0 puts the model together to save it (`stage3_gather_16bit_weights_on_model_save`)."""
    rank: int = 0
    pins_optimizer: bool = False
    """Whether what is offloaded of the optimizer is in pinned memory (`offload_optimizer.pin_memory`)."""
    pins_params: bool = False
    """Whether shards that `zero.Init` builds on the host are (`offload_param.pin_memory`)."""
    super_offload: bool = False
    """Whether a process of its own updates at stage 3 (`offload_optimizer.super_offload`)."""
    zenflow: ZenFlowSettings | None = None
    """What is updated on the rank though the optimizer is offloaded (`zenflow`)."""
    has_separate_host: bool = True
    """Whether host and rank are two memories, as with a GPU: what goes from one to the other is a copy."""
    build_itemsize: int = 4
    """Bytes of a weight as the script builds or loads the model."""
    gpu_limit: int | None = None
    """Bytes that the GPU has for tensors, which decide where weights are flattened; None: not known."""

    @property
    def early_state_itemsize(self) -> int:
        """Bytes of an element's states as they are made at construction: by the engine, after its cast."""
        rule = self.optimizer
        return (
            rule.state_bytes * (self.build_itemsize if rule.is_client else self.itemsize) // 4
            if rule.allocates_states_early
            else 0
        )

    @property
    def accumulates_fp32(self) -> bool:
        """Whether gradients are accumulated in fp32, though the model is not."""
        return self.grad_accum_itemsize == 4 and self.itemsize != 4

    @property
    def uses_bf16_optimizer(self) -> bool:
        """Whether stages 0 and 1 of bf16 are asked to accumulate in fp32 (`BF16_Optimizer`)."""
        return (
            self.stage < 2
            and self.half_dtype == "bf16"
            and self.grad_accum_itemsize == 4
            and not self.offloads_optimizer
        )

    @property
    def is_unsharded(self) -> bool:
        """Whether every rank holds all of the optimizer."""
        return not self.stage or (self.uses_bf16_optimizer and self.quirks.mistakes_fp32_accumulation)

    def gather_group(self, weight: Weight) -> tuple[bool, bool]:
        """What tells groups of ranks apart at stage 3: `zero.Init` has one of its own, of all ranks."""
        return weight.is_expert, weight.created_after_init and self.zero_init

    @property
    def keeps_fp32_adapters(self) -> bool:
        """Whether adapters stay in fp32 beside weights in half precision."""
        return (
            self.stage == 3
            and self.zero_init
            and self.half_dtype is not None
            and self.quirks.keeps_fp32_adapters
        )

    @property
    def tensor_parallel(self) -> TensorParallel:
        """How ranks share linear layers."""
        return TensorParallel(self.tp_size, self.quirks.shards_lm_head, self.quirks.reads_tp_plans)
