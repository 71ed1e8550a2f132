"""ZeRO: sharding of optimizer state, gradients and parameters over the data-parallel ranks."""

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field

from dsconfig.model.annotations import EXACT_INT, Auto, Fraction, NonNegativeInt, PathText, PositiveInt
from dsconfig.model.key import Alias, Key, Reads, Switch, Takes, Was
from dsconfig.model.section import RootKeys, Section

# Offloading parameters and optimizer state to host memory or NVMe.

Device: TypeAlias = Annotated[
    Literal["none", "cpu", "nvme"] | Auto,
    Key(
        since="0.3.15",
        was=(Was("0.5.6", object),),
        defaults=(("0.5.6", "cpu"), ("0.6.7", None)),
        fills=("transformers", "accelerate"),
        wrong_type="rejected",
        means=(
            ("none", "stays on the GPU"),
            ("cpu", "goes to host memory"),
            ("nvme", "goes to an NVMe drive; needs `nvme_path`"),
        ),
    ),
]

OFFLOAD_READS = (
    Reads("hand", until="0.6.7"),
    Reads("pydantic", since="0.7.0", unknown="rejected", drops_auto=True),
)


class OffloadParam(Section):
    """Where parameters stay while no layer needs them; stage 3 only."""

    SOURCE = "runtime/zero/offload_config.py:DeepSpeedZeroOffloadParamConfig"
    READS = OFFLOAD_READS

    device: Device = "none"
    """Home of the parameters: GPU ("none"), host memory, or an NVMe drive. Each step out saves GPU memory
    and costs transfer time. From 0.5.7 to 0.6.7 the section is refused without it."""
    nvme_path: Annotated[PathText | None, Key(since="0.3.15", fills=("transformers", "accelerate"))] = None
    """Directory on the drive; needed with device "nvme"."""
    buffer_count: Annotated[NonNegativeInt, Key(since="0.3.15", was=(Was("0.6.7", int),))] = 5
    """Host buffers through which parameters pass to and from the drive."""
    buffer_size: Annotated[NonNegativeInt, Key(since="0.3.15", unit="elements", was=(Was("0.6.7", int),))] = (
        100_000_000
    )
    """Size of one such buffer; the largest parameter must fit into it."""
    max_in_cpu: Annotated[NonNegativeInt, Key(since="0.3.15", unit="elements", was=(Was("0.6.7", int),))] = (
        1_000_000_000
    )
    """Parameter elements that stay in host memory although the home is NVMe."""
    pin_memory: Annotated[bool, Key(since="0.3.15", defaults=(("0.19.4", False),))] = True
    """Lock the host buffers into memory: faster transfers, less memory for everything else."""


class OffloadOptimizer(Section):
    """Where the optimizer's state lives; its update then runs on the CPU."""

    SOURCE = "runtime/zero/offload_config.py:DeepSpeedZeroOffloadOptimizerConfig"
    READS = OFFLOAD_READS

    device: Device = "none"
    """Home of the optimizer's state: GPU ("none"), host memory, or, at stage 3, an NVMe drive. From 0.5.7 to
    0.6.7 the section is refused without it."""
    nvme_path: Annotated[PathText | None, Key(since="0.3.15", fills=("transformers", "accelerate"))] = None
    """Directory on the drive; needed with device "nvme"."""
    buffer_count: Annotated[NonNegativeInt, Key(since="0.3.15", was=(Was("0.6.7", int),))] = 4
    """Host buffers for state on its way to and from the drive: at least as many as the optimizer keeps
    states per parameter, four with Adam."""
    pin_memory: Annotated[bool, Key(since="0.3.15", defaults=(("0.19.4", False),))] = True
    """Lock the host buffers into memory: faster transfers, less memory for everything else."""
    pipeline_read: Annotated[bool, Key(since="0.3.15")] = False
    """Read the next tile of state from the drive while the current one is updated."""
    pipeline_write: Annotated[bool, Key(since="0.3.15")] = False
    """Write the previous tile back while the current one is updated."""
    fast_init: Annotated[bool, Key(since="0.3.15")] = False
    """Build the optimizer faster when its state goes to NVMe."""
    ratio: Annotated[Fraction, Key(since="0.12.3")] = 1.0
    """Share of the optimizer's state and update that goes to the CPU; the rest stays on the GPU. Below 1 it
    needs stage 3."""
    super_offload: Annotated[bool, Key(since="0.18.0")] = False
    """Offload the way that suits superchips, whose CPU and GPU are tightly coupled; stage 3."""
    cpuadam_cores_perc: Annotated[Fraction, Key(since="0.18.0")] = 0.8
    """Share of the CPU cores that work on the update with `super_offload`."""


# ZenFlow: an offloaded optimizer that does not make the GPU wait.


class ZenFlow(Section):
    """Update the important gradient columns on the GPU at once, and the others later on the CPU."""

    SOURCE = "runtime/zenflow/zenflow_config.py:ZenFlowConfig"
    READS = (Reads("pydantic", since="0.17.5", unknown="rejected", drops_auto=True),)

    topk_ratio: Annotated[
        Annotated[float, Field(gt=0, lt=1)], Key(since="0.17.5", was=(Was("0.19.5", Fraction),))
    ] = 0.1
    """Share of gradient columns that count as important; more of them cost GPU memory and time."""
    select_strategy: Annotated[
        Literal["auto", "step", "epoch"],
        Key(
            since="0.17.5",
            auto_is_value=True,
            means=(
                ("auto", "DeepSpeed chooses"),
                ("step", "counts steps"),
                ("epoch", "counts epochs"),
            ),
        ),
    ] = "auto"
    """What the interval between two selections of columns is counted in."""
    select_interval: Annotated[
        int | Auto, Key(since="0.17.5", auto_is_value=True, means=(("auto", "DeepSpeed chooses"),))
    ] = "auto"
    """How many steps or epochs a selection holds."""
    update_interval: Annotated[
        PositiveInt | Auto,
        Key(
            since="0.17.5",
            unit="steps",
            auto_is_value=True,
            was=(Was("0.19.5", int | Auto),),
            means=(("auto", "adapts as training goes"),),
        ),
    ] = "auto"
    """Steps for which unimportant gradients gather before they are applied; longer means less traffic and
    staler weights."""
    overlap_step: Annotated[bool, Key(since="0.17.5")] = False
    """Let the CPU update run while the GPU goes on with the next batch."""
    offload: Annotated[bool, Key(since="0.17.5")] = False
    """Keep the state of the important columns on the CPU too; saves GPU memory, costs transfers."""
    auto_ratio: Annotated[Fraction, Key(since="0.17.5")] = 0.99
    """Threshold by which "auto" picks the update interval."""
    full_warm_up_rounds: Annotated[int, Key(since="0.17.5", unit="rounds")] = 0
    """First rounds in which every gradient is applied at once."""
    pt_reserved_cores_perc: Annotated[Fraction, Key(since="0.17.6")] = 0.5
    """Share of the CPU cores that stays with PyTorch; the others run the update."""
    steps_per_epoch: Annotated[int | None, Key(since="0.17.5", internal=True)] = None
    """Filled in by the engine as it starts."""


# Modules that stage 3 fetches whole.


class LeafModule(Section):
    """Modules that stage 3 fetches whole, without looking inside; usually mixture-of-experts blocks."""

    SOURCE = "runtime/zero/leaf_module_config.py:DeepSpeedZeroLeafModuleConfig"
    READS = (Reads("pydantic", since="0.18.0", unknown="rejected", drops_auto=True),)

    classes: Annotated[list[str] | str, Key(since="0.18.0")] = Field(
        default=[
            "transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock",
            "transformers.models.qwen2_moe.modeling_qwen2_moe.Qwen2MoeSparseMoeBlock",
            "transformers.models.qwen3_moe.modeling_qwen3_moe.Qwen3MoeSparseMoeBlock",
        ]
    )
    """Classes of such modules, by short or full name."""
    names: Annotated[list[str] | str, Key(since="0.18.0")] = Field(default=[])
    """Such modules by their exact name in the model."""
    name_suffixes: Annotated[list[str] | str, Key(since="0.18.0")] = Field(default=[])
    """Such modules by the end of their name."""


# Error feedback for the quantised gradients of ZeRO++.


class ZeroppLocoParam(Section):
    """Error feedback for quantised gradients, handed on unread at load."""

    SOURCE = "runtime/comm/coalesced_collectives.py:all_to_all_loco_quant_reduce"
    READS = (Reads("hand", since="0.16.2", unknown="kept"),)
    model_config = ConfigDict(extra="allow")

    err_beta: Annotated[float, Key(since="0.16.2", until="0.19.7")]
    """Weight of the latest quantisation error in its moving average; 0.8 is a usual value."""
    reset_T: Annotated[int, Key(since="0.16.2", until="0.19.7", unit="steps")]  # noqa: N815
    """Steps after which the remembered error is dropped; 1024 is a usual value."""


_OFFLOAD = Switch({"device": "cpu"})


class ZeroOptimization(Section):
    """Shard training state over the data-parallel ranks.

    The higher the stage, the less memory and the more traffic. Keys that begin with `stage3_` are also read
    without that prefix.
    """

    SOURCE = "runtime/zero/config.py:DeepSpeedZeroConfig"
    READS = (
        Reads("hand", until="0.6.7"),
        Reads("pydantic", since="0.7.0", unknown="rejected", drops_auto=True),
    )

    NOT_KEYS = ("grad_hooks",)

    stage: Annotated[
        Annotated[Literal[0, 1, 2, 3], EXACT_INT] | Auto,
        Key(
            since="0.2.0",
            was=(Was("0.3.10", Annotated[float, Field(le=2)]), Was("0.6.7", Annotated[float, Field(le=3)])),
            fills=("transformers", "accelerate"),
            miswritten=("zero_stage", "stage"),
            spelled_out=True,
            wrong_type="rejected",
            means=(
                (0, "shards nothing"),
                (1, "shards optimizer state"),
                (2, "shards gradients too"),
                (3, "shards parameters too"),
            ),
        ),
    ] = 0
    """What is sharded: nothing (0), optimizer state (1), gradients too (2), parameters too (3)."""

    contiguous_gradients: Annotated[bool, Key(since="0.2.0", defaults=(("0.4.2", False),))] = True
    """Gather gradients in one buffer as they are made, so that they do not fragment memory."""
    reduce_scatter: Annotated[bool, Key(since="0.2.0", defaults=(("0.3.15", True), ("0.3.16", False)))] = True
    """Give each rank only the averaged gradients it owns, instead of all of them by an all-reduce."""
    reduce_bucket_size: Annotated[
        PositiveInt | Auto,
        Key(
            since="0.2.0",
            unit="elements",
            fills=("transformers", "accelerate"),
            was=(Was("0.6.7", int), Was("0.19.5", NonNegativeInt)),
        ),
    ] = 500_000_000
    """Gradient elements reduced in one go; fewer take less memory, more use the network better."""
    use_multi_rank_bucket_allreduce: Annotated[bool, Key(since="0.12.4")] = True
    """Merge what several ranks are to receive into one all-reduce instead of a reduce for each."""
    allgather_partitions: Annotated[bool, Key(since="0.2.0")] = True
    """Collect updated parameters by all-gather; false takes a broadcast from every rank."""
    allgather_bucket_size: Annotated[
        NonNegativeInt, Key(since="0.2.0", unit="elements", was=(Was("0.6.7", int),))
    ] = 500_000_000
    """Elements collected in one all-gather; from 0.11.3 on it changes nothing where torch can gather into one
    tensor, as it can since 1.13."""
    overlap_comm: Annotated[
        bool | None,
        Key(since="0.2.0", defaults=(("0.3.11", False),)),
    ] = None
    """Reduce gradients while the backward pass still runs; hides traffic and takes several buckets of
    memory. When absent or null: true at stage 3, false below."""
    compute_grad_norm: Annotated[bool, Key(since="0.19.7")] = True
    """Work out the norm of all gradients; only stages 1 and 2 can do without, and then nothing is
    clipped."""
    load_from_fp32_weights: Annotated[bool, Key(since="0.3.0")] = True
    """Restore master weights from their fp32 copy in the checkpoint; false rounds them through half
    precision."""
    elastic_checkpoint: Annotated[
        bool,
        Key(
            since="0.3.3",
            deprecated="0.19.3",
            replaced_by="the universal checkpoint format",
            defaults=(("0.5.9", True),),
        ),
    ] = False
    """Save so that another number of ranks can load. Warned about at stage 3."""

    offload_param: Annotated[
        OffloadParam | None,
        Key(
            since="0.3.15",
            takes=(Takes(("null",), since="0.3.15"),),
            hidden_by="cpu_offload_params",
            spelled_out=True,
        ),
    ] = None
    """Keep parameters off the GPU while they are not needed; stage 3."""
    offload_optimizer: Annotated[
        OffloadOptimizer | None,
        Key(
            since="0.3.15",
            takes=(Takes(("null",), since="0.3.15"),),
            hidden_by="cpu_offload",
            spelled_out=True,
        ),
    ] = None
    """Keep the optimizer's state, and its work, off the GPU."""
    zenflow: Annotated[ZenFlow | None, Key(since="0.17.5")] = None
    """Update what matters on the GPU, the rest later on the CPU."""
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
    """First switch for keeping the optimizer's state in host memory."""
    cpu_offload_param: Annotated[
        bool | None,
        Key(
            since="0.7.0",
            deprecated="0.7.0",
            replaced_by="zero_optimization.offload_param",
            rewrite=_OFFLOAD,
        ),
    ] = None
    """Deprecated from its first release: switch for keeping parameters in host memory."""
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
    """First switch for keeping parameters in host memory."""
    cpu_offload_use_pin_memory: Annotated[
        bool | None,
        Key(
            since="0.3.12",
            spans=(("0.3.12", "0.3.14"), ("0.7.0", None)),
            deprecated="0.3.15",
            replaced_by="pin_memory in zero_optimization.offload_param and offload_optimizer",
            defaults=(("0.3.14", False),),
            unread=True,
        ),
    ] = None
    """First switch for locked host memory; taken, and without effect."""

    sub_group_size: Annotated[
        NonNegativeInt,
        Key(
            since="0.3.12",
            unit="elements",
            was=(Was("0.6.7", int),),
            defaults=(("0.4.0", 1_000_000_000_000),),
        ),
    ] = 1_000_000_000
    """Parameters that one slice of the stage-3 optimizer step works on; fewer need less memory for
    temporaries."""
    stage3_prefetch_bucket_size: Annotated[
        NonNegativeInt | Auto,
        Key(
            since="0.3.12",
            unit="elements",
            fills=("transformers", "accelerate"),
            aliases=(Alias("prefetch_bucket_size", since="0.7.0"),),
            was=(Was("0.6.7", int),),
        ),
    ] = 50_000_000
    """Parameter elements fetched ahead of their use; more hide more traffic and take more memory."""
    stage3_param_persistence_threshold: Annotated[
        NonNegativeInt | Auto,
        Key(
            since="0.3.12",
            unit="elements",
            fills=("transformers", "accelerate"),
            aliases=(Alias("param_persistence_threshold", since="0.7.0"),),
            was=(Was("0.6.7", int),),
        ),
    ] = 100_000
    """Parameters below this size stay whole on every rank, which saves many small messages."""
    stage3_model_persistence_threshold: Annotated[
        NonNegativeInt,
        Key(
            since="0.7.0",
            unit="elements",
            aliases=(Alias("model_persistence_threshold", since="0.7.0"),),
        ),
    ] = 9_223_372_036_854_775_807
    """Most elements that may stay whole on every rank by the threshold for single parameters."""
    stage3_max_live_parameters: Annotated[
        NonNegativeInt,
        Key(
            since="0.3.12",
            unit="elements",
            aliases=(Alias("max_live_parameters", since="0.7.0"),),
            was=(Was("0.6.7", int),),
        ),
    ] = 1_000_000_000
    """Most gathered parameter elements on a GPU before the first are let go; fewer save memory, more save
    traffic."""
    stage3_max_reuse_distance: Annotated[
        NonNegativeInt,
        Key(
            since="0.3.12",
            unit="elements",
            aliases=(Alias("max_reuse_distance", since="0.7.0"),),
            was=(Was("0.6.7", int),),
        ),
    ] = 1_000_000_000
    """Keep a gathered parameter if it is needed again within this many elements."""
    stage3_gather_16bit_weights_on_model_save: Annotated[
        bool | Auto,
        Key(
            since="0.6.0",
            fills=("transformers", "accelerate"),
            spelled_out=True,
            aliases=(Alias("gather_16bit_weights_on_model_save", since="0.7.0"),),
        ),
    ] = False
    """Gather the sharded weights so that `save_16bit_model` can write them as one file; takes memory and
    time."""
    stage3_gather_fp16_weights_on_model_save: Annotated[
        bool,
        Key(
            since="0.3.14",
            deprecated="0.6.0",
            replaced_by="zero_optimization.stage3_gather_16bit_weights_on_model_save",
            rewrite="rename",
        ),
    ] = False
    """First name of `stage3_gather_16bit_weights_on_model_save`."""
    stage3_module_granularity_threshold: Annotated[
        int,
        Key(
            since="0.16.0",
            unit="elements per module",
            aliases=(Alias("module_granularity_threshold", since="0.16.0"),),
        ),
    ] = 0
    """Fetch a module whole when its submodules hold fewer parameters each than this; spares hooks on finely
    cut models. 0 switches it off."""
    stage3_use_all_reduce_for_fetch_params: Annotated[
        bool,
        Key(since="0.14.3", aliases=(Alias("use_all_reduce_for_fetch_params", since="0.14.3"),)),
    ] = False
    """Fetch parameters by all-reduce: more traffic, less copying on the host."""
    stage3_allgather_sequential: Annotated[
        bool, Key(since="0.18.5", aliases=(Alias("allgather_sequential", since="0.18.5"),))
    ] = False
    """Gather parameters one after another without a common buffer: lower peak memory, more messages."""

    ignore_unused_parameters: Annotated[bool, Key(since="0.4.0")] = True
    """Pass over parameters that get no gradient in a step; false fails on them (stage 2)."""
    find_unused_parameters: Annotated[
        bool,
        Key(
            since="0.3.16",
            until="0.3.16",
            replaced_by="zero_optimization.ignore_unused_parameters",
            rewrite="negate",
        ),
    ] = False
    """Predecessor of `ignore_unused_parameters`, with the opposite sense."""
    legacy_stage1: Annotated[bool, Key(since="0.4.0")] = False
    """Take the first implementation of stage 1. From 0.5.9 on, where it is gone, true stops the engine."""
    round_robin_gradients: Annotated[bool, Key(since="0.4.4")] = False
    """Stages 1 and 2 with offload: spread the copying of gradients over the ranks, which pays with many
    accumulation steps."""
    parameter_alignment: Annotated[bool, Key(since="0.19.7")] = False
    """Stages 1 and 2: start every parameter at a multiple of 16 bytes in its flat buffer, at the cost of
    padding."""

    zero_hpz_partition_size: Annotated[NonNegativeInt, Key(since="0.10.0", unit="ranks")] = 1
    """ZeRO++: ranks, usually those of a node, that keep a second shard of the parameters among them: less
    traffic between nodes for more memory. 1 is off."""
    zero_quantized_weights: Annotated[bool, Key(since="0.10.0")] = False
    """ZeRO++: quantise parameters for the all-gather; half the traffic, some accuracy."""
    zero_quantized_nontrainable_weights: Annotated[bool, Key(since="0.10.2")] = False
    """ZeRO++: keep frozen weights quantised, as with LoRA."""
    zero_quantized_gradients: Annotated[bool, Key(since="0.10.0")] = False
    """ZeRO++: quantise gradients for their reduction."""
    zeropp_loco_param: Annotated[
        ZeroppLocoParam | None, Key(since="0.16.2", until="0.19.7", refused_from="0.19.8")
    ] = None
    """ZeRO++: make up for the error of quantised gradients (LoCo)."""
    mics_shard_size: Annotated[
        int, Key(since="0.9.2", until="0.19.6", refused_from="0.19.7", unit="ranks")
    ] = -1
    """MiCS: ranks among which parameters are sharded, instead of all; -1 is off."""
    mics_hierarchical_params_gather: Annotated[
        bool, Key(since="0.9.2", until="0.19.6", refused_from="0.19.7")
    ] = False
    """MiCS: gather parameters first between nodes, then within them."""

    memory_efficient_linear: Annotated[bool, Key(since="0.9.0")] = True
    """Stage 3: have linear layers not keep their weight for the backward pass."""
    pipeline_loading_checkpoint: Annotated[bool, Key(since="0.10.1")] = False
    """Stage 3: load the shards of a checkpoint one after another, which bounds host memory."""
    override_module_apply: Annotated[bool, Key(since="0.10.1")] = True
    """Stage 3: have `nn.Module.apply` gather parameters before it touches them."""
    log_trace_cache_warnings: Annotated[bool, Key(since="0.16.4")] = False
    """Stage 3: log when the recorded order of modules no longer holds and prefetching starts anew."""
    enable_sanity_checks: Annotated[bool, Key(since="0.17.6")] = False
    """Check internal consistency as training goes; slow, for debugging."""
    save_muon_momentum_buffer_in_memory: Annotated[bool, Key(since="0.18.9")] = False
    """Stage 3 with Muon and NVMe offload: keep the momentum in memory instead of swapping it."""
    leaf_module: Annotated[LeafModule, Key(since="0.18.0", takes=(Takes(("null",), since="0.18.0"),))] = (
        Field(default_factory=LeafModule)
    )
    """Stage 3: modules fetched whole. Null means its defaults."""


class ZeroKeys(RootKeys):
    """The root key of ZeRO."""

    zero_optimization: Annotated[
        ZeroOptimization,
        Key(
            since="0.1.0",
            source="runtime/zero/config.py:get_zero_config",
            takes=(Takes(("true", "false"), since="0.1.0"),),
            miswritten=("zero",),
        ),
    ] = Field(default_factory=ZeroOptimization)
    """Sharding of training state. The boolean of the first release is still read: true is stage 1, false
    stage 0."""
