"""ZeRO: sharding of optimizer states, gradients and parameters over the data-parallel ranks."""

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field

from dsconfig.model.key import BooleanReplacement, EarlierType, Key, KeyAlias, NonObjectValues, SectionReading
from dsconfig.model.section import (
    EXACT_INT,
    Auto,
    Fraction,
    NonNegativeInt,
    PathText,
    PositiveInt,
    RootKeys,
    Section,
)

# Offload of parameters and optimizer state to host memory or NVMe.

Device: TypeAlias = Annotated[
    Literal["none", "cpu", "nvme"] | Auto,
    Key(
        since="0.3.15",
        was=(EarlierType("0.5.6", object),),
        defaults=(("0.5.6", "cpu"), ("0.6.7", None)),
        fills=("transformers", "accelerate"),
        wrong_type="rejected",
        means=(
            ("none", "stays on the GPU"),
            ("cpu", "offload to host memory"),
            ("nvme", "offload to an NVMe drive; requires `nvme_path`"),
        ),
    ),
]

OFFLOAD_READS = (
    SectionReading("hand", until="0.6.7"),
    SectionReading("pydantic", since="0.7.0", unknown="rejected", drops_auto=True),
)


class OffloadParam(Section):
    """Offload of parameters while no layer needs them; stage 3 only."""

    SOURCE = "runtime/zero/offload_config.py:DeepSpeedZeroOffloadParamConfig"
    READS = OFFLOAD_READS

    device: Device = "none"
    """Where parameters are kept: on the GPU ("none"), in host memory, or on an NVMe drive. Offload saves GPU
    memory and costs transfer time. Releases 0.5.7 to 0.6.7 reject the section without this key."""
    nvme_path: Annotated[PathText | None, Key(since="0.3.15", fills=("transformers", "accelerate"))] = None
    """Directory on the drive; required with device "nvme"."""
    buffer_count: Annotated[NonNegativeInt, Key(since="0.3.15", was=(EarlierType("0.6.7", int),))] = 5
    """Number of host buffers for transfers of parameters to and from the drive."""
    buffer_size: Annotated[
        NonNegativeInt, Key(since="0.3.15", unit="elements", was=(EarlierType("0.6.7", int),))
    ] = 100_000_000
    """Size of one of these buffers; the largest parameter must fit."""
    max_in_cpu: Annotated[
        NonNegativeInt, Key(since="0.3.15", unit="elements", was=(EarlierType("0.6.7", int),))
    ] = 1_000_000_000
    """Parameter elements that stay in host memory with device "nvme"."""
    pin_memory: Annotated[bool, Key(since="0.3.15", defaults=(("0.19.4", False),))] = True
    """Pin the host buffers: faster transfers, less memory for everything else."""


class OffloadOptimizer(Section):
    """Offload of optimizer states; the update then runs on the CPU."""

    SOURCE = "runtime/zero/offload_config.py:DeepSpeedZeroOffloadOptimizerConfig"
    READS = OFFLOAD_READS

    device: Device = "none"
    """Where optimizer state is kept: on the GPU ("none"), in host memory, or, at stage 3, on an NVMe drive.
    Releases 0.5.7 to 0.6.7 reject the section without this key."""
    nvme_path: Annotated[PathText | None, Key(since="0.3.15", fills=("transformers", "accelerate"))] = None
    """Directory on the drive; required with device "nvme"."""
    buffer_count: Annotated[NonNegativeInt, Key(since="0.3.15", was=(EarlierType("0.6.7", int),))] = 4
    """Number of host buffers for transfers of optimizer state to and from the drive: at least as many as the
    optimizer has tensors per parameter, four with Adam."""
    pin_memory: Annotated[bool, Key(since="0.3.15", defaults=(("0.19.4", False),))] = True
    """Pin the host buffers: faster transfers, less memory for everything else."""
    pipeline_read: Annotated[bool, Key(since="0.3.15")] = False
    """Read the next tile of state from the drive while the current one is updated."""
    pipeline_write: Annotated[bool, Key(since="0.3.15")] = False
    """Write the previous tile back while the current one is updated."""
    fast_init: Annotated[bool, Key(since="0.3.15")] = False
    """Initialize the optimizer faster if its state is offloaded to NVMe."""
    ratio: Annotated[Fraction, Key(since="0.12.3")] = 1.0
    """Fraction of the optimizer state and update that is offloaded to the CPU; the rest stays on the GPU.
    Values below 1 require stage 3."""
    super_offload: Annotated[bool, Key(since="0.18.0")] = False
    """Use the offload strategy for superchips, whose CPU and GPU are tightly coupled; stage 3."""
    cpuadam_cores_perc: Annotated[Fraction, Key(since="0.18.0")] = 0.8
    """With `super_offload`: fraction of the CPU cores that run the update."""


# ZenFlow: optimizer offload without stalls of the GPU.


class ZenFlow(Section):
    """Updates the most important gradient columns on the GPU at once, and the others later on the CPU."""

    SOURCE = "runtime/zenflow/zenflow_config.py:ZenFlowConfig"
    READS = (SectionReading("pydantic", since="0.17.5", unknown="rejected", drops_auto=True),)

    topk_ratio: Annotated[
        Annotated[float, Field(gt=0, lt=1)],
        Key(since="0.17.5", was=(EarlierType("0.19.5", Fraction),)),
    ] = 0.1
    """Fraction of gradient columns that count as important; larger values cost GPU memory and time."""
    select_strategy: Annotated[
        Literal["auto", "step", "epoch"],
        Key(
            since="0.17.5",
            auto_is_value=True,
            means=(
                ("auto", "DeepSpeed chooses"),
                ("step", "interval in steps"),
                ("epoch", "interval in epochs"),
            ),
        ),
    ] = "auto"
    """Unit of the interval between two selections of columns."""
    select_interval: Annotated[
        int | Auto, Key(since="0.17.5", auto_is_value=True, means=(("auto", "DeepSpeed chooses"),))
    ] = "auto"
    """Steps or epochs for which a selection is used."""
    update_interval: Annotated[
        PositiveInt | Auto,
        Key(
            since="0.17.5",
            unit="steps",
            auto_is_value=True,
            was=(EarlierType("0.19.5", int | Auto),),
            means=(("auto", "adapts during training"),),
        ),
    ] = "auto"
    """Steps over which unimportant gradients are accumulated before they are applied. Larger values mean less
    communication and staler weights."""
    overlap_step: Annotated[bool, Key(since="0.17.5")] = False
    """Overlap the CPU update with the next batch on the GPU."""
    offload: Annotated[bool, Key(since="0.17.5")] = False
    """Offload the state of the important columns to the CPU too; saves GPU memory, costs transfers."""
    auto_ratio: Annotated[Fraction, Key(since="0.17.5")] = 0.99
    """Threshold by which "auto" picks the update interval."""
    full_warm_up_rounds: Annotated[int, Key(since="0.17.5", unit="rounds")] = 0
    """Initial rounds in which every gradient is applied at once."""
    pt_reserved_cores_perc: Annotated[Fraction, Key(since="0.17.6")] = 0.5
    """Fraction of the CPU cores reserved for PyTorch; the others run the update."""
    steps_per_epoch: Annotated[int | None, Key(since="0.17.5", internal=True)] = None
    """Set by the engine when it starts."""


# Leaf modules, which stage 3 fetches as a unit.


class LeafModule(Section):
    """Leaf modules, which stage 3 fetches as a unit; usually mixture-of-experts blocks."""

    SOURCE = "runtime/zero/leaf_module_config.py:DeepSpeedZeroLeafModuleConfig"
    READS = (SectionReading("pydantic", since="0.18.0", unknown="rejected", drops_auto=True),)

    classes: Annotated[list[str] | str, Key(since="0.18.0")] = Field(
        default=[
            "transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock",
            "transformers.models.qwen2_moe.modeling_qwen2_moe.Qwen2MoeSparseMoeBlock",
            "transformers.models.qwen3_moe.modeling_qwen3_moe.Qwen3MoeSparseMoeBlock",
        ]
    )
    """Classes of leaf modules, by short or full name."""
    names: Annotated[list[str] | str, Key(since="0.18.0")] = Field(default=[])
    """Exact names of leaf modules in the model."""
    name_suffixes: Annotated[list[str] | str, Key(since="0.18.0")] = Field(default=[])
    """Suffixes of the names of leaf modules."""


# Error feedback for the quantized gradients of ZeRO++.


class ZeroppLocoParam(Section):
    """Error feedback for quantized gradients. Not validated when the config is loaded."""

    SOURCE = "runtime/comm/coalesced_collectives.py:all_to_all_loco_quant_reduce"
    READS = (SectionReading("hand", since="0.16.2", unknown="kept"),)
    model_config = ConfigDict(extra="allow")

    err_beta: Annotated[float, Key(since="0.16.2", until="0.19.7")]
    """Weight of the latest quantization error in its moving average; 0.8 is a common value."""
    reset_T: Annotated[int, Key(since="0.16.2", until="0.19.7", unit="steps")]  # noqa: N815
    """Steps after which the accumulated error is reset; 1024 is a common value."""


_OFFLOAD = BooleanReplacement({"device": "cpu"})


class ZeroOptimization(Section):
    """Shards the training state over the data-parallel ranks.

    A higher stage needs less memory and more communication. Keys that begin with `stage3_` are also read
    without that prefix.
    """

    SOURCE = "runtime/zero/config.py:DeepSpeedZeroConfig"
    READS = (
        SectionReading("hand", until="0.6.7"),
        SectionReading("pydantic", since="0.7.0", unknown="rejected", drops_auto=True),
    )

    NOT_KEYS = ("grad_hooks",)

    stage: Annotated[
        Annotated[Literal[0, 1, 2, 3], EXACT_INT] | Auto,
        Key(
            since="0.2.0",
            was=(
                EarlierType("0.3.10", Annotated[float, Field(le=2)]),
                EarlierType("0.6.7", Annotated[float, Field(le=3)]),
            ),
            fills=("transformers", "accelerate"),
            miswritten=("zero_stage", "stage"),
            spelled_out=True,
            wrong_type="rejected",
            means=(
                (0, "shards nothing"),
                (1, "shards optimizer state"),
                (2, "shards optimizer state and gradients"),
                (3, "shards optimizer state, gradients and parameters"),
            ),
        ),
    ] = 0
    """ZeRO stage: shards nothing (0), optimizer state (1), also gradients (2), also parameters (3)."""

    contiguous_gradients: Annotated[bool, Key(since="0.2.0", defaults=(("0.4.2", False),))] = True
    """Copy gradients into one contiguous buffer as they are produced, to avoid memory fragmentation."""
    reduce_scatter: Annotated[bool, Key(since="0.2.0", defaults=(("0.3.15", True), ("0.3.16", False)))] = True
    """Use reduce-scatter, so that each rank receives only its own averaged gradients, instead of an
    all-reduce."""
    reduce_bucket_size: Annotated[
        PositiveInt | Auto,
        Key(
            since="0.2.0",
            unit="elements",
            fills=("transformers", "accelerate"),
            was=(EarlierType("0.6.7", int), EarlierType("0.19.5", NonNegativeInt)),
        ),
    ] = 500_000_000
    """Gradient elements per reduction. Smaller values need less memory, larger ones use the network better.
    """
    use_multi_rank_bucket_allreduce: Annotated[bool, Key(since="0.12.4")] = True
    """Use one all-reduce for the gradients of several ranks instead of one reduce per rank."""
    allgather_partitions: Annotated[bool, Key(since="0.2.0")] = True
    """Collect updated parameters with an all-gather; false uses a broadcast from every rank."""
    allgather_bucket_size: Annotated[
        NonNegativeInt, Key(since="0.2.0", unit="elements", was=(EarlierType("0.6.7", int),))
    ] = 500_000_000
    """Elements per all-gather. From 0.11.3 on it has no effect if torch can gather into one tensor, which it
    can since 1.13."""
    overlap_comm: Annotated[
        bool | None,
        Key(since="0.2.0", defaults=(("0.3.11", False),)),
    ] = None
    """Overlap the reduction of gradients with the backward pass: hides communication and needs memory for
    several buckets. If absent or null: true at stage 3, false below."""
    compute_grad_norm: Annotated[bool, Key(since="0.19.7")] = True
    """Compute the global gradient norm. False works at stages 1 and 2 only, and disables clipping."""
    load_from_fp32_weights: Annotated[bool, Key(since="0.3.0")] = True
    """Restore master weights from the fp32 copy in the checkpoint; false restores them from the
    half-precision weights."""
    elastic_checkpoint: Annotated[
        bool,
        Key(
            since="0.3.3",
            deprecated="0.19.3",
            replaced_by="the universal checkpoint format",
            defaults=(("0.5.9", True),),
        ),
    ] = False
    """Save checkpoints that another number of ranks can load. DeepSpeed warns about it at stage 3."""

    offload_param: Annotated[
        OffloadParam | None,
        Key(
            since="0.3.15",
            takes=(NonObjectValues(("null",), since="0.3.15"),),
            hidden_by="cpu_offload_params",
            spelled_out=True,
        ),
    ] = None
    """Offload parameters to host memory or NVMe while they are not needed; stage 3."""
    offload_optimizer: Annotated[
        OffloadOptimizer | None,
        Key(
            since="0.3.15",
            takes=(NonObjectValues(("null",), since="0.3.15"),),
            hidden_by="cpu_offload",
            spelled_out=True,
        ),
    ] = None
    """Offload optimizer state to host memory or NVMe, and the optimizer step to the CPU."""
    zenflow: Annotated[ZenFlow | None, Key(since="0.17.5")] = None
    """ZenFlow: update important gradients on the GPU at once, and the others later on the CPU."""
    cpu_offload: Annotated[
        bool | None,
        Key(
            since="0.3.0",
            deprecated="0.3.15",
            replaced_by="zero_optimization.offload_optimizer",
            rewrite=_OFFLOAD,
            defaults=(("0.6.7", False),),
        ),
    ] = None
    """Earlier switch that offloads optimizer state to host memory."""
    cpu_offload_param: Annotated[
        bool | None,
        Key(
            since="0.7.0",
            deprecated="0.7.0",
            replaced_by="zero_optimization.offload_param",
            rewrite=_OFFLOAD,
        ),
    ] = None
    """Switch that offloads parameters to host memory; deprecated since its first release."""
    cpu_offload_params: Annotated[
        bool,
        Key(
            since="0.3.12",
            until="0.6.7",
            deprecated="0.3.15",
            replaced_by="zero_optimization.offload_param",
            rewrite=_OFFLOAD,
        ),
    ] = False
    """Earlier switch that offloads parameters to host memory."""
    cpu_offload_use_pin_memory: Annotated[
        bool | None,
        Key(
            since="0.3.12",
            spans=(("0.3.12", "0.3.14"), ("0.7.0", None)),
            deprecated="0.3.15",
            replaced_by="`pin_memory` in `offload_param` and `offload_optimizer`",
            defaults=(("0.3.14", False),),
            unread=True,
        ),
    ] = None
    """Earlier switch for pinned host memory; accepted, without effect."""

    sub_group_size: Annotated[
        NonNegativeInt,
        Key(
            since="0.3.12",
            unit="elements",
            was=(EarlierType("0.6.7", int),),
            defaults=(("0.4.0", 1_000_000_000_000),),
        ),
    ] = 1_000_000_000
    """Parameters that the stage-3 optimizer updates at a time; smaller values need less temporary memory."""
    stage3_prefetch_bucket_size: Annotated[
        NonNegativeInt | Auto,
        Key(
            since="0.3.12",
            unit="elements",
            fills=("transformers", "accelerate"),
            aliases=(KeyAlias("prefetch_bucket_size", since="0.7.0"),),
            was=(EarlierType("0.6.7", int),),
        ),
    ] = 50_000_000
    """Parameter elements prefetched before their use. Larger values hide more communication and need more
    memory."""
    stage3_param_persistence_threshold: Annotated[
        NonNegativeInt | Auto,
        Key(
            since="0.3.12",
            unit="elements",
            fills=("transformers", "accelerate"),
            aliases=(KeyAlias("param_persistence_threshold", since="0.7.0"),),
            was=(EarlierType("0.6.7", int),),
        ),
    ] = 100_000
    """Parameters smaller than this are not partitioned, which avoids many small messages."""
    stage3_model_persistence_threshold: Annotated[
        NonNegativeInt,
        Key(
            since="0.7.0",
            unit="elements",
            aliases=(KeyAlias("model_persistence_threshold", since="0.7.0"),),
        ),
    ] = 9_223_372_036_854_775_807
    """Maximum number of elements that may stay unpartitioned because of `stage3_param_persistence_threshold`.
    """
    stage3_max_live_parameters: Annotated[
        NonNegativeInt,
        Key(
            since="0.3.12",
            unit="elements",
            aliases=(KeyAlias("max_live_parameters", since="0.7.0"),),
            was=(EarlierType("0.6.7", int),),
        ),
    ] = 1_000_000_000
    """Maximum number of gathered parameter elements per GPU before any are released. Smaller values save
    memory, larger ones save communication."""
    stage3_max_reuse_distance: Annotated[
        NonNegativeInt,
        Key(
            since="0.3.12",
            unit="elements",
            aliases=(KeyAlias("max_reuse_distance", since="0.7.0"),),
            was=(EarlierType("0.6.7", int),),
        ),
    ] = 1_000_000_000
    """Do not release a gathered parameter that is used again within this many elements."""
    stage3_gather_16bit_weights_on_model_save: Annotated[
        bool | Auto,
        Key(
            since="0.6.0",
            fills=("transformers", "accelerate"),
            spelled_out=True,
            aliases=(KeyAlias("gather_16bit_weights_on_model_save", since="0.7.0"),),
        ),
    ] = False
    """Gather the partitioned weights so that `save_16bit_model` can write one file; needs memory and time."""
    stage3_gather_fp16_weights_on_model_save: Annotated[
        bool,
        Key(
            since="0.3.14",
            deprecated="0.6.0",
            replaced_by="zero_optimization.stage3_gather_16bit_weights_on_model_save",
            rewrite="rename",
        ),
    ] = False
    """Earlier name of `stage3_gather_16bit_weights_on_model_save`."""
    stage3_module_granularity_threshold: Annotated[
        int,
        Key(
            since="0.16.0",
            unit="elements per module",
            aliases=(KeyAlias("module_granularity_threshold", since="0.16.0"),),
        ),
    ] = 0
    """Fetch a module as a unit if each of its submodules has fewer parameters than this; saves hooks in
    models with many small modules. 0 disables it."""
    stage3_use_all_reduce_for_fetch_params: Annotated[
        bool,
        Key(since="0.14.3", aliases=(KeyAlias("use_all_reduce_for_fetch_params", since="0.14.3"),)),
    ] = False
    """Fetch parameters with an all-reduce: more communication, less copying on the host."""
    stage3_allgather_sequential: Annotated[
        bool, Key(since="0.18.5", aliases=(KeyAlias("allgather_sequential", since="0.18.5"),))
    ] = False
    """Gather parameters one at a time without a common buffer: lower peak memory, more messages."""

    ignore_unused_parameters: Annotated[bool, Key(since="0.4.0")] = True
    """Ignore parameters without a gradient in a step; false raises an error for them (stage 2)."""
    find_unused_parameters: Annotated[
        bool,
        Key(
            since="0.3.16",
            until="0.3.16",
            replaced_by="zero_optimization.ignore_unused_parameters",
            rewrite="negate",
        ),
    ] = False
    """Predecessor of `ignore_unused_parameters`, with the opposite meaning."""
    legacy_stage1: Annotated[bool, Key(since="0.4.0")] = False
    """Use the first implementation of stage 1. It was removed in 0.5.9; from then on true raises an error."""
    round_robin_gradients: Annotated[bool, Key(since="0.4.4")] = False
    """Stages 1 and 2 with offload: distribute the copying of gradients over the ranks; faster with many
    accumulation steps."""
    parameter_alignment: Annotated[bool, Key(since="0.19.7")] = False
    """Stages 1 and 2: align every parameter to 16 bytes in its flat buffer, at the cost of padding."""

    zero_hpz_partition_size: Annotated[NonNegativeInt, Key(since="0.10.0", unit="ranks")] = 1
    """ZeRO++: ranks, usually those of one node, that keep a secondary partition of the parameters. Less
    communication between nodes, more memory. 1 disables it."""
    zero_quantized_weights: Annotated[bool, Key(since="0.10.0")] = False
    """ZeRO++: quantize parameters for the all-gather. Halves the communication volume at some loss of
    accuracy."""
    zero_quantized_nontrainable_weights: Annotated[bool, Key(since="0.10.2")] = False
    """ZeRO++: keep frozen weights quantized, as with LoRA."""
    zero_quantized_gradients: Annotated[bool, Key(since="0.10.0")] = False
    """ZeRO++: quantize gradients for their reduction."""
    zeropp_loco_param: Annotated[
        ZeroppLocoParam | None, Key(since="0.16.2", until="0.19.7", refused_from="0.19.8")
    ] = None
    """ZeRO++: error feedback for quantized gradients (LoCo)."""
    mics_shard_size: Annotated[
        int, Key(since="0.9.2", until="0.19.6", refused_from="0.19.7", unit="ranks")
    ] = -1
    """MiCS: number of ranks over which parameters are sharded, instead of all ranks; -1 disables it."""
    mics_hierarchical_params_gather: Annotated[
        bool, Key(since="0.9.2", until="0.19.6", refused_from="0.19.7")
    ] = False
    """MiCS: gather parameters first between nodes, then within them."""

    memory_efficient_linear: Annotated[bool, Key(since="0.9.0")] = True
    """Stage 3: linear layers do not save their weight for the backward pass."""
    pipeline_loading_checkpoint: Annotated[bool, Key(since="0.10.1")] = False
    """Stage 3: load the shards of a checkpoint one after another, which limits host memory."""
    override_module_apply: Annotated[bool, Key(since="0.10.1")] = True
    """Stage 3: `nn.Module.apply` gathers parameters before it accesses them."""
    log_trace_cache_warnings: Annotated[bool, Key(since="0.16.4")] = False
    """Stage 3: log when the recorded order of modules becomes invalid and prefetching starts over."""
    enable_sanity_checks: Annotated[bool, Key(since="0.17.6")] = False
    """Check internal consistency during training; slow, for debugging."""
    save_muon_momentum_buffer_in_memory: Annotated[bool, Key(since="0.18.9")] = False
    """Stage 3 with Muon and NVMe offload: keep the momentum in memory instead of swapping it."""
    leaf_module: Annotated[
        LeafModule, Key(since="0.18.0", takes=(NonObjectValues(("null",), since="0.18.0"),))
    ] = Field(default_factory=LeafModule)
    """Stage 3: modules that are fetched as a unit. Null uses the defaults."""


class ZeroRootKeys(RootKeys):
    """The root key of ZeRO."""

    zero_optimization: Annotated[
        ZeroOptimization,
        Key(
            since="0.1.0",
            source="runtime/zero/config.py:get_zero_config",
            takes=(NonObjectValues(("true", "false"), since="0.1.0"),),
            miswritten=("zero",),
        ),
    ] = Field(default_factory=ZeroOptimization)
    """ZeRO: sharding of training state. The boolean of the first release is still accepted: true is stage 1,
    false is stage 0."""
