"""Convert a training job and its config to an `EngineSetup`, including optimizer and ZenFlow settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.core.json_types import NamedTuple
from dsconfig.memory.config_values import ZERO, ConfigValues
from dsconfig.memory.engines.engine_setup import (
    EngineSetup,
    NvmeSwapBuffers,
    OptimizerCost,
    Stage3Settings,
    ZenFlowSettings,
)
from dsconfig.memory.engines.param_groups import GRAM
from dsconfig.memory.models.decoder_model_types import DECODER_VARIANTS
from dsconfig.memory.release_quirks import ReleaseQuirks
from dsconfig.memory.unsupported_settings import reject_config, unsupported, why_unsupported
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.memory.models.architecture import Architecture, MicroBatch
    from dsconfig.memory.training_method_memory import TrainerTraits


class TrainingJob(NamedTuple):
    """The inputs of an estimate other than the config and the model."""

    release: str
    """DeepSpeed release number, such as `0.19.8`."""
    world_size: int
    """Number of ranks, with one rank per GPU."""
    micro_batch: MicroBatch
    """Size of a micro batch and how the script computes it; dtypes and parallelism follow from the config."""
    gpus_per_node: int = 1
    """Number of ranks per node."""
    optimizer: str | None = None
    """Name of the script's optimizer, or None for the config's optimizer or else the usual one."""
    zero_init: bool = False
    """Whether `zero.Init` builds the model in shards at stage 3."""
    use_reentrant: bool = False
    """Value of `use_reentrant` for `torch.utils.checkpoint`."""
    gpu_limit: int | None = None
    """Bytes of GPU memory, which decide where weights are flattened, or None if unknown."""
    trainer: TrainerTraits | None = None
    """Training method, or None for plain fine-tuning."""
    frozen_models: tuple[Architecture, ...] = ()
    """Frozen models that are loaded next to the trained one, besides its reference model."""
    vllm_bytes: int | None = None
    """Bytes that vLLM reserves on the same GPU, or None if the model generates without vLLM."""
    expandable_segments: bool = False
    """Whether the environment sets `expandable_segments` for torch's allocator."""
    vllm_sleeps: bool = False
    """Whether vLLM frees its memory while the model is trained."""


# State and temporary bytes per element, for fp32 masters.

DEFAULT_CLIENT, DEFAULT_CPU_CLIENT = "adamw", "cpu-adam"
"""Client optimizers assumed by default: on the GPU, and with offload, for which DeepSpeed requires its own CPU Adam."""
FUSED, FOREACH, SINGLE = "fused", "foreach", "single"
ADAM = {FUSED: (8, 0), FOREACH: (8, 4), SINGLE: (8, 8)}
CLIENTS: Mapping[str, OptimizerCost] = {
    "adam": OptimizerCost("adam", 8, 4),
    "adamw": OptimizerCost("adamw", 8, 4),
    "adamw-fused": OptimizerCost("adamw-fused", 8, 0),
    "cpu-adam": OptimizerCost("cpu-adam", 8, 0),
    "adam-8bit": OptimizerCost("adam-8bit", 2, 0, quantization_block=256),
    "adamw-8bit": OptimizerCost("adamw-8bit", 2, 0, quantization_block=256),
    "sgd": OptimizerCost("sgd", 0, 0),
    "sgd-momentum": OptimizerCost("sgd-momentum", 4, 0),
    "lion": OptimizerCost("lion", 4, 0),
    # On flat partitions Adafactor keeps the second moment of each element, and no first one.
    "adafactor": OptimizerCost("adafactor", 4, 8),
    "lion-8bit": OptimizerCost("lion-8bit", 1, 0, quantization_block=256),
    "rmsprop": OptimizerCost("rmsprop", 4, 4),
    "ademamix": OptimizerCost("ademamix", 12, 0),
    "ademamix-8bit": OptimizerCost("ademamix-8bit", 3, 0, quantization_block=256),
    "adagrad": OptimizerCost("adagrad", 4, 4, allocates_states_early=True),
}
"""Memory cost of client optimizers as torch runs them on GPUs."""


def cost_from_config(kind: str, params: Mapping[str, Json], offloads: bool) -> OptimizerCost:
    """Return the memory cost of the optimizer in the `optimizer` section.

    Raises:
        NotModelledError: the size of this optimizer's states is unknown.
    """
    name = kind.lower()
    if name in ("adam", "adamw"):
        # engine.py `_configure_basic_optimizer`: DeepSpeed uses `FusedAdam` (`DeepSpeedCPUAdam` with offload)
        # unless `torch_adam` is set.
        if params.get("torch_adam") is True:
            unfused = SINGLE if params.get("foreach") is False or offloads else FOREACH
            variant = FUSED if params.get("fused") is True else unfused
            states, temporary = ADAM[variant]
            return OptimizerCost(name, states, temporary)
        return OptimizerCost(name, *ADAM[FUSED], is_fused_adam=True)
    if name == "muon":  # other parameters use Adam; `fused` is not passed on
        unfused = SINGLE if params.get("foreach") is False or offloads else FOREACH
        variant = unfused if params.get("torch_adam") is True else FUSED
        return OptimizerCost(name, *ADAM[variant], muon_method=str(params.get("ns_method", GRAM)))
    if name == "lion":
        return OptimizerCost(name, 4, 0)
    if name == "sgd":
        momentum = params.get("momentum")
        return OptimizerCost(name, 4 if momentum else 0, 0)
    if name == "adagrad":
        # `DeepSpeedCPUAdagrad` allocates its states at the first step, torch's Adagrad in its constructor.
        return OptimizerCost(name, 4, 0) if offloads else CLIENTS["adagrad"]
    raise unsupported(f"the optimizer `{kind}`", why_unsupported(name))


def cost_of_client_optimizer(name: str, offloads: bool) -> OptimizerCost:
    """Return the memory cost of an optimizer that the script creates.

    Raises:
        NotModelledError: the size of this optimizer's states is unknown.
    """
    if name not in CLIENTS:
        raise NotModelledError(
            f"the optimizer `{name}` is not supported yet", f"use one of {', '.join(CLIENTS)}"
        )
    rule = CLIENTS[name]._replace(is_client=True)
    return rule._replace(temporary_bytes=8) if offloads and rule.temporary_bytes else rule


# ZenFlow: its settings.

ZENFLOW = f"{ZERO}zenflow."
BUCKET = 5 * 10**8


def zenflow_section(config: Mapping[str, Json]) -> set[str]:
    """Return the prefix of the ZenFlow section if it exists, because even an empty section enables ZenFlow."""
    zero = config.get("zero_optimization")
    return {ZENFLOW} if isinstance(zero, dict) and isinstance(zero.get("zenflow"), dict) else set()


def zenflow_settings(values: Mapping[str, Json]) -> ZenFlowSettings:
    """Return the ZenFlow settings of a config."""
    ratio, bucket = values.get(f"{ZENFLOW}topk_ratio"), values.get(f"{ZERO}allgather_bucket_size")
    by_steps = values.get(f"{ZENFLOW}select_strategy") == "step"
    is_stage3 = values.get(f"{ZERO}stage") == 3  # stage 3 does not pass `bucket_size` on
    return ZenFlowSettings(
        topk_ratio=float(ratio) if isinstance(ratio, (int, float)) else 0.1,
        overlap_step=bool(values.get(f"{ZENFLOW}overlap_step")),
        offload_states=bool(values.get(f"{ZENFLOW}offload")),
        reselects=by_steps and bool(values.get(f"{ZENFLOW}select_interval")),
        bucket_size=int(bucket) if isinstance(bucket, (int, float)) and not is_stage3 else BUCKET,
    )


SECTIONS = (
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "optimizer",
    "zero_optimization",
    "bf16",
    "fp16",
    "torch_autocast",
    "data_types",
    "communication_data_type",
    "seq_parallel_communication_data_type",
    "tensor_parallel",
    "sequence_parallel_size",
    "compile",
    "expert_parallel",
    "hybrid_engine",
    "aio",
    "prescale_gradients",
    "gradient_predivide_factor",
)
"""Sections and keys of a config that the memory estimate reads."""
MODULES = tuple(
    f"transformers.models.{kind}.modeling_{kind}." for kind, style in DECODER_VARIANTS.items() if style.moe
)
"""Module paths of the MoE block classes that can be leaf modules."""
OFFLOADED = ("cpu", "nvme")
"""Values of `device` that mean offloading."""


def default_client(values: ConfigValues) -> str | None:
    """Return the optimizer that the script is assumed to create, or None if the config has an `optimizer` section."""
    if values.text("optimizer.type"):
        return None
    return (
        DEFAULT_CPU_CLIENT if values.text(f"{ZERO}offload_optimizer.device") in OFFLOADED else DEFAULT_CLIENT
    )


def setup_of(values: ConfigValues, job: TrainingJob) -> EngineSetup:
    """Return the engine settings of rank 0.

    Raises:
        NotModelledError: the config has a setting without an estimate.
    """
    quirks, client = ReleaseQuirks(job.release), job.optimizer or default_client(values)
    reject_config(values, quirks, job.world_size, client, job.zero_init)
    setup = _setup(values, job.world_size, client, job.zero_init, quirks)
    return setup._replace(
        gpus_per_node=job.gpus_per_node, use_reentrant=job.use_reentrant, gpu_limit=job.gpu_limit
    )


def micro_batch_of(setup: EngineSetup, job: TrainingJob) -> MicroBatch:
    """Return the micro batch of a job, with the dtypes and parallelism of an engine setup."""
    batch = job.micro_batch
    return batch._replace(
        itemsize=setup.itemsize,
        autocast=setup.autocast,
        saves_linear_inputs=setup.memory_efficient_linear,
        adapter=batch.adapter and batch.adapter._replace(stays_fp32=setup.keeps_fp32_adapters),
        tensor_parallel=setup.tensor_parallel,
        sp_size=setup.sp_size,
        ep_size=setup.ep_size,
        expert_imbalance=min(batch.expert_imbalance, max(1, setup.ep_size)),  # all tokens of all ranks
    )


def _setup(
    values: ConfigValues, world: int, client: str | None, zero_init: bool, quirks: ReleaseQuirks
) -> EngineSetup:
    """Return the engine settings, each from its config key."""
    half_dtype, stage = values.half_dtype, values.stage
    itemsize = 2 if half_dtype else 4
    offloads_optimizer = stage > 0 and values.text(f"{ZERO}offload_optimizer.device") in OFFLOADED
    return EngineSetup(
        stage=stage,
        dp_world_size=max(1, world // values.tp_size),
        gradient_accumulation_steps=max(1, values.count(_accumulation_key(values), 1)),
        itemsize=itemsize,
        half_dtype=half_dtype,
        autocast=values.flag("torch_autocast.enabled"),
        master_itemsize=2
        if half_dtype and values.flag(f"{half_dtype}.{half_dtype}_master_weights_and_grads")
        else 4,
        grad_accum_itemsize=_grad_accum_itemsize(values, itemsize, stage, half_dtype, quirks),
        comm_itemsize=_comm_itemsize(values, itemsize),
        comm_dtype_is_other_half=_comm_dtype_is_other_half(values, half_dtype),
        optimizer=_optimizer_cost(values, client, offloads_optimizer, quirks.muon_has_its_own_adam),
        checks_overflow=half_dtype == "fp16",
        offloads_optimizer=offloads_optimizer,
        offloads_params=stage == 3 and values.text(f"{ZERO}offload_param.device") in OFFLOADED,
        offload_ratio=_offload_ratio(values),
        leaf_classes=_leaf_classes(values),
        nvme=_nvme_offload(values, quirks) if stage == 3 else NvmeSwapBuffers(),
        hpz_size=min(world, values.count(f"{ZERO}zero_hpz_partition_size", 1)) if stage == 3 else 1,
        zero_init=zero_init,
        reduce_bucket_size=values.count(f"{ZERO}reduce_bucket_size"),
        stage3=Stage3Settings(*(values.count(ZERO + key) for key in STAGE3_KEYS)),
        overlap_comm=values.flag(f"{ZERO}overlap_comm"),
        contiguous_gradients=values.flag(f"{ZERO}contiguous_gradients") or (offloads_optimizer and stage < 3),
        reduce_scatter=values.flag(f"{ZERO}reduce_scatter"),
        gradient_postscale=_gradient_postscale(values),
        multi_rank_allreduce=values.values.get(f"{ZERO}use_multi_rank_bucket_allreduce", True) is not False,
        round_robin_gradients=values.flag(f"{ZERO}round_robin_gradients"),
        compute_grad_norm=values.values.get(f"{ZERO}compute_grad_norm", True) is not False,
        quirks=quirks,
        quantized_weights=stage == 3 and values.flag(f"{ZERO}zero_quantized_weights"),
        quantized_gradients=stage == 3 and values.flag(f"{ZERO}zero_quantized_gradients"),
        tp_size=values.tp_size,
        sp_size=values.sp_size,
        super_offload=stage == 3 and values.flag(f"{ZERO}offload_optimizer.super_offload"),
        zenflow=zenflow_settings(values.values) if values.has_zenflow else None,
        pins_optimizer=values.flag(f"{ZERO}offload_optimizer.pin_memory"),
        pins_params=values.flag(f"{ZERO}offload_param.pin_memory"),
        ep_size=values.ep_size,
        gathers_on_save=stage == 3 and values.flag(f"{ZERO}stage3_gather_16bit_weights_on_model_save"),
        memory_efficient_linear=stage == 3
        and (zero_init or quirks.linear_is_replaced_without_zero_init)
        and _uses_memory_efficient_linear(values),
    )


def _accumulation_key(values: ConfigValues) -> str:
    """Return the key that sets the number of micro batches per step; ZenFlow has its own."""
    return f"{ZERO}zenflow.update_interval" if values.has_zenflow else "gradient_accumulation_steps"


STAGE3_KEYS = (
    "sub_group_size",
    "stage3_prefetch_bucket_size",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "stage3_param_persistence_threshold",
    "stage3_model_persistence_threshold",
)
"""Keys in `zero_optimization` that set the fields of `Stage3Settings`, in order."""


def _grad_accum_itemsize(
    values: ConfigValues, itemsize: int, stage: int, half: str | None, quirks: ReleaseQuirks
) -> int:
    """Return the itemsize of accumulated gradients (`engine.get_data_types`)."""
    if stage == 2 and quirks.stage2_ignores_grad_accum_dtype:
        return itemsize
    defaults_to_fp32 = not stage and half == "bf16" and quirks.bf16_accumulates_in_fp32_at_stage0
    return values.itemsize("data_types.grad_accum_dtype", 4 if defaults_to_fp32 else itemsize)


def _comm_itemsize(values: ConfigValues, itemsize: int) -> int:
    """Return the itemsize of communicated gradients.

    With sequence parallelism, it has its own key, and the default is fp32.
    """
    key = "communication_data_type"
    if values.sp_size > 1 and values.values.get(f"seq_parallel_{key}", "fp32") is not None:
        return values.itemsize(f"seq_parallel_{key}", 4)
    return itemsize if values.sp_size > 1 else values.itemsize(key, itemsize)


def _comm_dtype_is_other_half(values: ConfigValues, half: str | None) -> bool:
    """Return whether the communication dtype is the 16-bit dtype that the model does not use."""
    dtype = str(values.values.get("communication_data_type")).lower().removeprefix("torch.")
    others = {"bf16": ("fp16", "float16", "half"), "fp16": ("bf16", "bfloat16")}
    return half is not None and values.sp_size == 1 and dtype in others[half]


def _nvme_offload(values: ConfigValues, quirks: ReleaseQuirks) -> NvmeSwapBuffers:
    """Return the swap buffers configured for NVMe offload."""
    optimizer, parameters = (
        values.text(f"{ZERO}{section}.device") == "nvme" for section in ("offload_optimizer", "offload_param")
    )
    threads = "aio.thread_count" if quirks.aio_alignment_follows_thread_count else "aio.intra_op_parallelism"
    return NvmeSwapBuffers(
        values.count(f"{ZERO}offload_optimizer.buffer_count", 4) if optimizer else 0,
        values.count(f"{ZERO}offload_param.buffer_size", 10**8) if parameters else 0,
        values.count(f"{ZERO}offload_param.buffer_count", 5) if parameters else 0,
        values.count(f"{ZERO}offload_param.max_in_cpu", 10**9),
        max(1 << 20, values.count("aio.block_size", 1 << 20)),
        any(values.flag(f"{ZERO}offload_optimizer.pipeline_{direction}") for direction in ("read", "write")),
        1024 * max(1, values.count(threads, 1)),
    )


def _uses_memory_efficient_linear(values: ConfigValues) -> bool:
    return values.values.get(f"{ZERO}memory_efficient_linear", True) is not False


def _offload_ratio(values: ConfigValues) -> float:
    value = values.values.get(f"{ZERO}offload_optimizer.ratio", 1.0)
    return float(value) if isinstance(value, (int, float)) else 1.0


def _leaf_classes(values: ConfigValues) -> tuple[str, ...]:
    """Return the class names in `leaf_module`, which DeepSpeed compares with bare and full names."""
    classes = values.values.get(f"{ZERO}leaf_module.classes")
    # utils/z3_leaf_module.py compares the class name, and the name with its module path.
    names = [str(name) for name in classes] if isinstance(classes, list) else []
    return tuple(
        next((name[len(module) :] for module in MODULES if name.startswith(module)), name) for name in names
    )


def _optimizer_cost(
    values: ConfigValues, client: str | None, offloads: bool, muon_late: bool
) -> OptimizerCost:
    kind = values.text("optimizer.type")
    if client is not None or kind is None:
        return cost_of_client_optimizer(client or DEFAULT_CLIENT, offloads)
    start = "optimizer.params."
    params = {key.removeprefix(start): value for key, value in values.values.items() if key.startswith(start)}
    rule = cost_from_config(kind, params, offloads)
    # Muon's own Adam allocates several tensors of the size of the updated one.
    has_own_adam = rule.muon_method and muon_late
    return rule._replace(temporary_bytes=0, largest_tensor_bytes=16) if has_own_adam else rule


def _gradient_postscale(values: ConfigValues) -> float | None:
    factor: float = values.values.get("gradient_predivide_factor", 1.0)
    return None if values.flag("prescale_gradients") else factor
