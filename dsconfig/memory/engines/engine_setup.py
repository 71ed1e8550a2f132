"""`EngineSetup`: the config values and release quirks on which an engine's memory depends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.autograd_graph import TensorParallelSettings

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import ModelParameter
    from dsconfig.memory.release_quirks import ReleaseQuirks


class OptimizerCost(NamedTuple):
    """Bytes of states and temporary memory that an optimizer needs per fp32 element."""

    name: str
    state_bytes: int
    """Bytes of optimizer states per fp32 element."""
    temporary_bytes: int
    """Bytes of temporary tensors per fp32 element during a step."""
    largest_tensor_bytes: int = 0
    """Bytes of temporary tensors during a step per element of the largest tensor."""
    allocates_states_early: bool = False
    """Whether the constructor allocates states that the engine allocates again (torch's Adagrad)."""
    is_fused_adam: bool = False
    """Whether this is DeepSpeed's own `FusedAdam`, which uses one flat gradient tensor at stage 0."""
    is_client: bool = False
    """Whether the training script creates the optimizer."""
    quantization_block: int = 0
    """Number of elements per fp32 scale, in each of two quantized states (bitsandbytes)."""
    muon_method: str = ""
    """Orthogonalization method of DeepSpeed's Muon (`ns_method`); the other fields describe its Adam part."""

    def states_nbytes(self, numel: int) -> int:
        """Return the bytes of a tensor's states; bitsandbytes quantizes only tensors of 4,096 elements or more."""
        if not self.quantization_block:
            return self.state_bytes * numel
        scales = 8 * -(-numel // self.quantization_block) + 2048
        return self.state_bytes * numel + scales if numel >= 4096 else 8 * numel


class Stage3Settings(NamedTuple):
    """The settings of stage 3 that are numbers of elements."""

    sub_group_size: int
    prefetch_bucket_size: int
    max_live_parameters: int
    max_reuse_distance: int
    param_persistence_threshold: int
    model_persistence_threshold: int


class NvmeSwapBuffers(NamedTuple):
    """Host buffers for NVMe offload; both sizes are 0 without it."""

    optimizer_buffers: int = 0
    """Number of buffers for the largest sub-group (`offload_optimizer.buffer_count`)."""
    param_buffer_size: int = 0
    """Number of elements in a shard buffer (`offload_param.buffer_size`)."""
    param_buffer_count: int = 0
    """Number of shard buffers (`offload_param.buffer_count`)."""
    max_in_cpu: int = 0
    """Number of shard elements that stay in host memory (`offload_param.max_in_cpu`)."""
    min_swap_bytes: int = 1 << 20
    """Size of the smallest tensor that is swapped (`MIN_AIO_BYTES`, or `aio.block_size`)."""
    is_pipelined: bool = False
    """Whether `PipelinedOptimizerSwapper` is used (`pipeline_read`, `pipeline_write`)."""
    aio_alignment: int = 1024
    """Alignment of buffers in bytes (`AIO_ALIGNED_BYTES` × `aio.intra_op_parallelism`)."""

    def aligned_numel(self, numel: int, itemsize: int) -> int:
        """Return the number of elements in an aligned buffer (`_io_aligned_numel`)."""
        step = max(1, self.aio_alignment // itemsize)
        return -(-numel // step) * step

    def is_aligned(self, numel: int, itemsize: int) -> bool:
        """Return whether `numel` elements fill an aligned buffer without padding."""
        return self.aligned_numel(numel, itemsize) == numel


class ZenFlowSettings(NamedTuple):
    """Settings of `zero_optimization.zenflow`."""

    topk_ratio: float
    """Fraction of a matrix's columns that ZenFlow selects."""
    overlap_step: bool
    """Whether a separate process updates the columns that are not selected."""
    offload_states: bool
    """Whether the optimizer states of selected columns are on the host (`offload`)."""
    reselects: bool
    """Whether columns are selected again during training, not only in the first step."""
    bucket_size: int
    """Number of parameter elements whose states are on the rank at once (`allgather_bucket_size`)."""


class EngineSetup(NamedTuple):
    """The config values on which an engine's memory depends."""

    stage: int
    dp_world_size: int
    gradient_accumulation_steps: int
    itemsize: int
    """Bytes per element of a model weight."""
    half_dtype: str | None
    """bf16 or fp16 if the model's weights have that dtype, or None."""
    autocast: bool
    master_itemsize: int
    """Bytes per element of a master weight."""
    grad_accum_itemsize: int
    """Bytes per element of an accumulated gradient (`data_types.grad_accum_dtype`)."""
    comm_itemsize: int
    """Bytes per element of a communicated gradient (`communication_data_type`)."""
    comm_dtype_is_other_half: bool
    """Whether gradients are communicated in the other 16-bit dtype than the model's."""
    optimizer: OptimizerCost
    reduce_bucket_size: int
    overlap_comm: bool
    contiguous_gradients: bool
    reduce_scatter: bool
    gradient_postscale: float | None
    """Factor applied after a reduction (`gradient_predivide_factor`), or None with `prescale_gradients`."""
    multi_rank_allreduce: bool
    """Whether stages 1 and 2 reduce slices of several ranks at once (`use_multi_rank_bucket_allreduce`)."""
    round_robin_gradients: bool
    compute_grad_norm: bool
    """Whether the gradient norm is computed (`compute_grad_norm`)."""
    checks_overflow: bool
    """Whether gradients are checked for overflow."""
    offloads_optimizer: bool
    offloads_params: bool
    offload_ratio: float
    stage3: Stage3Settings
    leaf_classes: tuple[str, ...]
    quirks: ReleaseQuirks
    nvme: NvmeSwapBuffers
    hpz_size: int
    """Number of ranks that share a secondary partition of the weights (`zero_hpz_partition_size`)."""
    zero_init: bool
    """Whether `zero.Init` builds the model in shards."""
    memory_efficient_linear: bool = False
    """Whether stage 3 replaces `nn.Linear` (`memory_efficient_linear`)."""
    quantized_weights: bool = False
    """Whether weights are gathered as int8 (`zero_quantized_weights`)."""
    quantized_gradients: bool = False
    """Whether gradients are reduced as int4, first within nodes and then between them."""
    gpus_per_node: int = 1
    """Number of ranks per node."""
    tp_size: int = 1
    """Number of tensor-parallel ranks (`tensor_parallel.autotp_size`), which `dp_world_size` does not include."""
    sp_size: int = 1
    """Number of sequence-parallel ranks (`sequence_parallel_size`)."""
    ep_size: int = 0
    """Number of expert-parallel ranks (`expert_parallel.autoep_size`), or 0 if AutoEP is off."""
    use_reentrant: bool = False
    """Value of `use_reentrant` for `torch.utils.checkpoint`."""
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
    """ZenFlow settings, or None if the config has no such section."""
    has_separate_host: bool = True
    """Whether GPU and host have separate memories; False for engines that were measured on a CPU."""
    build_itemsize: int = 4
    """Bytes per weight of the model as the script builds or loads it."""
    gpu_limit: int | None = None
    """Bytes of GPU memory, which decide where weights are flattened, or None if unknown."""

    @property
    def early_state_itemsize(self) -> int:
        """Bytes per element of states created by the optimizer's constructor, before the engine casts the weights."""
        rule = self.optimizer
        return (
            rule.state_bytes * (self.build_itemsize if rule.is_client else self.itemsize) // 4
            if rule.allocates_states_early
            else 0
        )

    @property
    def depends_on_reentrant(self) -> bool:
        """Whether `use_reentrant` of activation checkpointing affects which parameters stay gathered."""
        return self.stage == 3 and self.quirks.recomputed_modules_are_counted_twice

    @property
    def accumulates_fp32(self) -> bool:
        """Whether a half-precision model accumulates gradients in fp32."""
        return self.grad_accum_itemsize == 4 and self.itemsize != 4

    @property
    def accumulates_bf16_in_fp32(self) -> bool:
        """Whether the config accumulates bf16 gradients in fp32 at stage 0 or 1."""
        return (
            self.stage < 2
            and self.half_dtype == "bf16"
            and self.grad_accum_itemsize == 4
            and not self.offloads_optimizer
        )

    @property
    def keeps_bit16_grads(self) -> bool:
        """Whether bf16 gradients stay allocated between steps in addition to fp32 gradients."""
        if self.stage:
            return self.stage == 1 and self.quirks.bf16_grads_stay_until_next_backward
        return self.quirks.bf16_grads_stay_at_stage0

    @property
    def is_unsharded(self) -> bool:
        """Whether every rank holds all optimizer states."""
        is_mistaken = self.quirks.fp32_accumulation_is_mistaken_for_bf16
        return not self.stage or (self.accumulates_bf16_in_fp32 and is_mistaken)

    @property
    def uses_bf16_optimizer(self) -> bool:
        """Whether the engine is `BF16_Optimizer`, which releases that mistake fp32 accumulation for bf16 do not use."""
        return self.accumulates_bf16_in_fp32 and not self.quirks.fp32_accumulation_is_mistaken_for_bf16

    def gather_group(self, weight: ModelParameter) -> tuple[bool, bool]:
        """Return a key for the process group that gathers a parameter; under `zero.Init` it is all ranks."""
        return weight.is_expert, weight.created_after_init and self.zero_init

    @property
    def keeps_fp32_adapters(self) -> bool:
        """Whether LoRA adapters stay in fp32 in a half-precision model."""
        return (
            self.stage == 3
            and self.zero_init
            and self.half_dtype is not None
            and self.quirks.zero_init_model_is_not_cast
        )

    @property
    def tensor_parallel(self) -> TensorParallelSettings:
        """Tensor-parallel settings of the run."""
        return TensorParallelSettings(
            self.tp_size, self.quirks.autotp_shards_lm_head, self.quirks.autotp_reads_all_plan_styles
        )
